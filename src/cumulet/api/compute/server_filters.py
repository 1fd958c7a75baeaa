"""The query string of a list of servers. See the compute API reference, "List Servers"."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from cumulet.api.compute import permit
from cumulet.api.compute.links import page_of
from cumulet.api.query import only
from cumulet.api.request import Request, boolean
from cumulet.core.servers import listing
from cumulet.core.servers.listing import Listing
from cumulet.core.servers.show import states_of
from cumulet.errors import Forbidden, Invalid

#: Filter → column of those that match by a regular expression.
_EXPRESSIONS = {
    "name": "name",
    "display_name": "name",
    "hostname": "hostname",
    "key_name": "key_name",
    "description": "description",
    "display_description": "description",
    "reservation_id": "reservation_id",
    "root_device_name": "root_device_name",
    "access_ip_v4": "access_ip_v4",
    "access_ip_v6": "access_ip_v6",
    "auto_disk_config": "disk_config",
    "locked_by": "locked_by",
    "created_at": "created_at",
    "launched_at": "launched_at",
}
#: Filter → column of those that are equal.
_EQUAL = {
    "user_id": "user_id",
    "uuid": "id",
    "image": "image_id",
    "image_ref": "image_id",
    "flavor": "flavorid",
    "vm_state": "vm_state",
    "task_state": "task_state",
}
_NUMBERS = {"power_state": "power_state", "progress": "progress", "launch_index": "launch_index"}
_PAGING = ("limit", "marker", "sort_key", "sort_dir")
_TAGS = ("tags", "tags-any", "not-tags", "not-tags-any")
#: Filters of everybody; those of administrators are all others. Which of them a version knows is below.
_OPEN = frozenset(
    {"reservation_id", "name", "status", "image", "flavor", "ip", "changes-since", "all_tenants"}
)
_OPEN_SINCE_2_83 = frozenset(
    {
        "availability_zone", "config_drive", "key_name", "created_at", "launched_at", "terminated_at", "power_state",
        "task_state", "vm_state", "progress", "user_id",
    }
)  # fmt: skip
#: What an administrator must not ask for: names of tables that the old database joined.
_JOINED = frozenset(
    {
        "block_device_mapping", "services", "metadata", "system_metadata", "info_cache", "security_groups",
        "pci_devices",
    }
)  # fmt: skip
_KNOWN = frozenset(
    {
        *_OPEN, *_OPEN_SINCE_2_83, *_EXPRESSIONS, *_EQUAL, *_NUMBERS, *_PAGING, *_TAGS, *_JOINED, "ip6", "host",
        "node", "deleted", "soft_deleted", "changes-before", "locked", "project_id", "tenant_id", "kernel_id",
        "ramdisk_id",
    }
)  # fmt: skip
#: Sort keys that are accepted, and ignored, until 2.74.
_IGNORED_SORT_KEYS = frozenset(
    {
        "architecture", "cell_name", "cleaned", "default_ephemeral_device", "default_swap_device", "deleted",
        "deleted_at", "disable_terminate", "ephemeral_gb", "ephemeral_key_uuid", "id", "key_data", "launched_on",
        "locked", "memory_mb", "os_type", "reservation_id", "root_gb", "shutdown_terminate", "user_data", "vcpus",
        "vm_mode",
    }
)  # fmt: skip


def read(request: Request, *, detail: bool) -> Listing | None:
    """What the query string asks for; None where nothing can match.

    Raises Invalid for what cannot be understood, Forbidden for what only administrators may ask.
    """
    if request.version >= (2, 75):
        only(request, *_KNOWN)
    everything = permit.allows(request, "os_compute_api:servers:allow_all_filters")
    asked = {name: value for name, value in request.query if everything or name in _open(request)}
    for name in asked:
        if name in _JOINED or name.startswith("_"):
            raise Invalid(f"Invalid filter field: {name}.")
    fields: dict[str, Any] = {"query": _page(request)}
    among: dict[str, list[Any]] = {}
    if "status" in asked and not _status(request, among):
        return None
    _whose(request, asked, fields, "detail" if detail else "index")
    _equal(asked, among)
    _times(request, asked, fields)
    _deleted(request, asked, among, fields)
    fields["expressions"] = {column: asked[name] for name, column in _EXPRESSIONS.items() if asked.get(name)}
    fields["addresses"] = {
        version: asked[name] for name, version in (("ip", 4), ("ip6", 6)) if asked.get(name)
    }
    hosts = [asked[name] for name in ("host", "node") if name in asked]
    if hosts:
        fields["hosts"] = tuple(hosts[:1] if len(set(hosts)) == 1 else ())
    if asked.get("availability_zone"):
        fields["zone"] = asked["availability_zone"]
    if request.version >= (2, 26):
        for name in _TAGS:
            if name in asked:
                fields[name.replace("-", "_")] = tuple(asked[name].split(","))
    fields["among"] = among
    fields["extra"] = _long(request) if detail else frozenset()
    return Listing(**fields)


def _long(request: Request) -> frozenset[str]:
    """The columns that may be long and are shown at the request's version."""
    found = {"user_data"} if request.version >= (2, 3) and request.caller.is_admin else set()
    if request.version >= (2, 98):
        found.add("image_properties")
    if request.version >= (2, 100):
        found.add("request")
    return frozenset(found)


def _open(request: Request) -> frozenset[str]:
    """The filters that everybody can use at the request's version."""
    found = set(_OPEN)
    for since, names in (
        ((2, 5), {"ip6"}),
        ((2, 26), set(_TAGS)),
        ((2, 66), {"changes-before"}),
        ((2, 73), {"locked"}),
        ((2, 83), _OPEN_SINCE_2_83),
    ):
        if request.version >= since:
            found |= names
    return frozenset(found)


def _page(request: Request) -> Any:
    version = request.version
    ignored = frozenset() if version >= (2, 75) else _IGNORED_SORT_KEYS
    sortable = set(listing.SORTABLE) | ignored
    if version < (2, 73) or version >= (2, 75):
        sortable |= {"locked"}
    query = page_of(request, sortable)
    drop = set(ignored) - ({"locked"} if version >= (2, 73) else set())
    if not request.caller.is_admin:
        drop |= {"host", "node"}
    return msgspec.structs.replace(query, sort=tuple(pair for pair in query.sort if pair[0] not in drop))


def _status(request: Request, among: dict[str, list[Any]]) -> bool:
    """Statuses as the states behind them; False if no server can have one of them."""
    vm_states, task_states = states_of(request.args("status"))
    if not vm_states:
        if request.version >= (2, 38):
            raise Invalid("Invalid status value")
        return False
    among["vm_state"] = sorted(vm_states)
    if "" not in task_states:
        among["task_state"] = sorted(task_states)
    return True


def _whose(request: Request, asked: Mapping[str, str], fields: dict[str, Any], kind: str) -> None:
    caller = request.caller
    everybody = "all_tenants" in asked and (
        asked["all_tenants"] == "" or boolean(asked["all_tenants"], "all_tenants")
    )
    if everybody:
        permit.require(request, f"os_compute_api:servers:{kind}:get_all_tenants")
        fields["project_id"] = asked.get("project_id") or asked.get("tenant_id") or None
    elif caller.project_id is not None:
        fields["project_id"] = caller.project_id
    else:
        fields["user_id"] = caller.user_id


def _equal(asked: Mapping[str, str], among: dict[str, list[Any]]) -> None:
    for name, column in _EQUAL.items():
        if name in asked and column not in among:
            value = (
                asked[name].rsplit("/", 1)[-1] if name in ("image", "image_ref", "flavor") else asked[name]
            )
            among[column] = [value]
    for name, column in _NUMBERS.items():
        if name in asked:
            text = asked[name]
            among[column] = [int(text)] if text.isdecimal() and len(text) < 10 else []
    if "config_drive" in asked:
        among["config_drive"] = [boolean(asked["config_drive"] or "0", "config_drive")]
    if "locked" in asked:
        among["locked"] = [boolean(asked["locked"], "locked")]


def _times(request: Request, asked: Mapping[str, str], fields: dict[str, Any]) -> None:
    for name, field in (("changes-since", "changed_since"), ("changes-before", "changed_before")):
        if name in asked and (name == "changes-since" or request.version >= (2, 66)):
            fields[field] = moment(asked[name], name)
    since, before = fields.get("changed_since"), fields.get("changed_before")
    if since is not None and before is not None and before < since:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")


def moment(text: str, name: str) -> float:
    """A time in ISO 8601, in UTC where it does not say so. Raises Invalid."""
    try:
        # In a query string a plus sign is a space.
        found = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    except ValueError:
        raise Invalid(
            f"Invalid input for query parameters {name}: {text[:100]!r} is not a 'date-time'"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _deleted(
    request: Request, asked: Mapping[str, str], among: dict[str, list[Any]], fields: dict[str, Any]
) -> None:
    """Deleted servers are listed for administrators who ask, and for everybody who asks what has changed."""
    timed = "changed_since" in fields or "changed_before" in fields
    if asked.get("soft_deleted"):
        fields["soft_deleted"] = _lenient(asked["soft_deleted"])
    if "deleted" in asked:
        fields["deleted"] = _lenient(asked["deleted"])
    elif timed:
        fields["deleted"] = None
    if among.get("vm_state") == ["deleted"]:
        if not request.caller.is_admin:
            raise Forbidden("Only administrators may list deleted instances")
        fields["deleted"] = True


def _lenient(text: str) -> bool:
    """True only for what clearly says so."""
    try:
        return boolean(text, "deleted")
    except Invalid:
        return False

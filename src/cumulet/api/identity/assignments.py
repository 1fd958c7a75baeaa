"""/v3/role_assignments. See the API reference, "List role assignments"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import lists
from cumulet.api.identity.checks import reader_of
from cumulet.api.request import Request, Response
from cumulet.core import assignments, projects
from cumulet.core.assignments import Assignment, Wanted
from cumulet.db.engine import Row, Tx
from cumulet.errors import Forbidden, Invalid

#: Pairs of conditions that contradict each other.
_EITHER = (
    ("scope.domain.id", "scope.project.id"),
    ("scope.domain.id", "scope.system"),
    ("scope.project.id", "scope.system"),
    ("user.id", "group.id"),
)


async def index(request: Request) -> Response:
    """GET /v3/role_assignments"""
    effective = lists.given(request, "effective")
    wanted = _wanted(request, effective)
    if wanted.subtree:
        await _check_tree(request, wanted.project_id)
    named = lists.given(request, "include_names")

    def read_all(tx: Tx) -> tuple[list[Assignment], Mapping[str, Row]]:
        found = assignments.effective(tx, wanted) if effective else assignments.direct(tx, wanted)
        return found, assignments.names(tx, found) if named else {}

    found, names = await request.cloud.db.read(read_all)
    return lists.collection(request, "role_assignments", [_view(request, one, names) for one in found])


def _wanted(request: Request, effective: bool) -> Wanted:
    """The conditions of the query. Raises Invalid for some that cannot be met together."""
    for one, other in _EITHER:
        if request.arg(one) and request.arg(other):
            raise Invalid(f"Specify {one} or {other}, not both.")
    inherited = request.arg("scope.OS-INHERIT:inherited_to")
    if effective and request.arg("group.id"):
        raise Invalid("Combining effective and group filter will always result in an empty list.")
    if effective and inherited == "projects" and request.arg("scope.domain.id"):
        raise Invalid(
            "Combining effective, domain and inherited filters will always result in an empty list."
        )
    subtree = lists.given(request, "include_subtree")
    if subtree and not request.arg("scope.project.id"):
        raise Invalid("scope.project.id must be specified if include_subtree is also specified.")
    return Wanted(
        user_id=request.arg("user.id") or None,
        group_id=request.arg("group.id") or None,
        role_id=request.arg("role.id") or None,
        project_id=request.arg("scope.project.id") or None,
        domain_id=request.arg("scope.domain.id") or None,
        system=request.arg("scope.system") == "all",
        inherited=None if inherited is None else inherited == "projects",
        subtree=subtree,
        within=request.caller.domain_id,
    )


async def _check_tree(request: Request, project_id: str | None) -> None:
    """The rule of lists with a subtree is about the project's domain."""
    project = await request.cloud.db.read(projects.show, project_id or "")
    target = {"target.domain_id": project["domain_id"]}
    rule = "identity:list_role_assignments_for_tree"
    if not request.cloud.policy.allows(rule, request.caller, target):
        raise Forbidden(f"You are not authorized to perform the requested action: {rule}.")


def _view(request: Request, one: Assignment, names: Mapping[str, Row]) -> dict[str, Any]:
    """An assignment as it is shown: role, user or group, scope, and where to take it away."""
    inherited = one.inherited or one.source is not None
    kind, place = one.source or (one.target_type, one.target_id)
    where = "/system" if kind == "system" else f"/{kind}s/{place}"
    actor, actor_id = ("group", one.group_id) if one.group_id else (one.actor_type, one.actor_id)
    link = f"{where}/{actor}s/{actor_id}/roles/{one.prior_id or one.role_id}"
    if inherited:
        link = f"/OS-INHERIT{link}/inherited_to_projects"
    links = {"assignment": lists.url(request, link.lstrip("/"))}
    if one.group_id:
        links["membership"] = lists.url(request, f"groups/{one.group_id}/users/{one.actor_id}")
    if one.prior_id:
        links["prior_role"] = lists.url(request, f"prior_role/{one.prior_id}/implies/{one.role_id}")
    scope: dict[str, Any] = (
        {"system": {"all": True}}
        if one.target_type == "system"
        else {one.target_type: _named(one.target_id, names, domain=one.target_type == "project")}
    )
    if inherited:
        scope["OS-INHERIT:inherited_to"] = "projects"
    return {
        "links": links,
        "scope": scope,
        one.actor_type: _named(one.actor_id, names),
        "role": _named(one.role_id, names, domain=bool(names and names[one.role_id]["domain_id"])),
    }


def _named(id: str, names: Mapping[str, Row], *, domain: bool = True) -> dict[str, Any]:
    """An id, with name and domain where they were asked for."""
    row = names.get(id)
    if row is None:
        return {"id": id}
    shown: dict[str, Any] = {"id": id, "name": row["name"]}
    if domain:
        shown["domain"] = {"id": row["domain_id"], "name": row["domain_name"]}
    return shown


_CHECK = reader_of("target.domain_id")
RULES = {"identity:list_role_assignments_for_tree": _CHECK}
ROUTES = (
    Route("GET", "/v3/role_assignments", index, "identity:list_role_assignments", _CHECK),
)  # fmt: skip

"""Projects that have one of everything: what tests take whose question is who may reach what."""

from __future__ import annotations

from typing import Any

from cumulet.core import volume_messages
from cumulet.drivers import qcow2
from tests.cloud import TestCloud, until

COMPUTE, NETWORK, VOLUME, IMAGE, IDENTITY = (
    "/compute/v2.1", "/network/v2.0", "/volume/v3", "/image/v2", "/identity/v3",
)  # fmt: skip
NEWEST = {COMPUTE: "compute 2.96", VOLUME: "volume 3.71"}
GIB = 1 << 30


class Tenant:
    """A user of a project, and the ids of what they have, by name."""

    def __init__(self, cloud: TestCloud, who: str, number: int) -> None:
        self.cloud = cloud
        self.who = who
        self.number = number
        self.things: dict[str, str] = {"project": cloud.project(who), "user": cloud.user(who)}

    async def ask(self, method: str, area: str, path: str, body: Any = None, *, as_: str = "") -> Any:
        """A request that must succeed; its body."""
        answer = await self.cloud.request(
            method, f"{area}/{path}", as_=as_ or self.who, json=body, version=NEWEST.get(area, "")
        )
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    async def make(self, thing: str, area: str, path: str, noun: str, *, as_: str = "", **body: Any) -> Any:
        """Make a thing, remember its id, and return what the answer tells of it."""
        found = (await self.ask("POST", area, path, {noun: body}, as_=as_))[noun]
        self.things[thing] = str(found["id"] if "id" in found else found["name"])
        return found

    async def shows(self, area: str, path: str, noun: str, status: str) -> Any:
        """The thing at the path once it has the status."""

        async def look() -> Any:
            found = (await self.ask("GET", area, path))[noun]
            return found if found["status"] == status else None

        return await until(look)


async def furnish(cloud: TestCloud, who: str, number: int, *, inside: bool = True) -> Tenant:
    """One of everything for the user ``who``; ``number`` tells tenants' addresses and names apart.

    What is attached to something keeps it as it is: the second volume is attached to the server, and so on. Without
    ``inside`` there is only what requests make, so that the cloud can be another process.
    """
    tenant = Tenant(cloud, who, number)
    for part in (_identity, _image, _network, _volume, _message, _server, _outside):
        if inside or part is not _message:
            await part(tenant)
    return tenant


async def operate(t: Tenant) -> None:
    """One of everything that only operators make, among the tenant's things."""
    made: Any
    for thing, path, noun, body in (
        ("consumer", "OS-OAUTH1/consumers", "consumer", {}),
        ("domain", "domains", "domain", {"name": "d"}),
        ("group_of_users", "groups", "group", {"name": "g"}),
        ("role", "roles", "role", {"name": "r"}),
        ("implied_role", "roles", "role", {"name": "i"}),
        ("stored_policy", "policies", "policy", {"blob": "{}", "type": "x"}),
        ("region", "regions", "region", {"id": "r"}),
        ("identity_service", "services", "service", {"type": "x", "name": "y"}),
    ):
        await t.make(thing, IDENTITY, path, noun, as_="admin", **body)
    service = t.things["identity_service"]
    endpoint = {"service_id": service, "interface": "public", "url": "http://x"}
    await t.make("endpoint", IDENTITY, "endpoints", "endpoint", as_="admin", **endpoint)
    filters = {"interface": "public"}
    await t.make(
        "endpoint_group", IDENTITY, "OS-EP-FILTER/endpoint_groups", "endpoint_group", as_="admin", name="e",
        filters=filters,
    )  # fmt: skip
    limit = {"service_id": service, "resource_name": "things"}
    made = await t.ask(
        "POST",
        IDENTITY,
        "registered_limits",
        {"registered_limits": [{**limit, "default_limit": 5}]},
        as_="admin",
    )
    t.things["registered_limit"] = made["registered_limits"][0]["id"]
    limit |= {"resource_limit": 4, "project_id": t.cloud.project("service")}
    made = await t.ask("POST", IDENTITY, "limits", {"limits": [limit]}, as_="system")
    t.things["limit"] = made["limits"][0]["id"]
    config = {"config": {"identity": {"driver": "sql"}}}
    await t.ask("PUT", IDENTITY, f"domains/{t.things['domain']}/config", config, as_="admin")
    await t.make("aggregate", COMPUTE, "os-aggregates", "aggregate", as_="admin", name="a")
    add = {"add_host": {"host": "h1"}}
    await t.ask("POST", COMPUTE, f"os-aggregates/{t.things['aggregate']}/action", add, as_="admin")
    await t.make("qos", VOLUME, "qos-specs", "qos_specs", as_="admin", name="q")
    for thing, path in (("class", "resource_classes"), ("trait", "traits")):
        answer = await t.cloud.put(f"/placement/{path}/CUSTOM_MINE", as_="admin", version="placement 1.39")
        assert answer.status_code in (201, 204), answer.text
        t.things[thing] = "CUSTOM_MINE"
    rule = {"step": "disk.ensure", "effect": "fail", "server": "none"}
    t.things["fault"] = (await t.ask("POST", "/cumulet", "v1/faults", rule, as_="admin"))["id"]
    edge = await t.cloud.db.read(
        lambda tx: tx.one(
            "select e.claim, e.needs, a.id, a.session from needs e join claims c on c.id = e.claim "
            "join agents a on a.id = c.agent where a.kind = 'host' limit 1"
        )
    )
    assert edge is not None
    t.things |= {
        "claim": edge["claim"], "need": edge["needs"], "agent": edge["id"], "session": edge["session"],
        "question": t.cloud.chance.uuid(),
    }  # fmt: skip


async def _identity(t: Tenant) -> None:
    user = t.things["user"]
    rules = [{"service": "compute", "method": "GET", "path": "/v2.1/servers"}]
    made = await t.make(
        "application_credential", IDENTITY, f"users/{user}/application_credentials", "application_credential",
        name=f"ac{t.number}", access_rules=rules,
    )  # fmt: skip
    t.things["access_rule"] = made["access_rules"][0]["id"]
    await t.make("credential", IDENTITY, "credentials", "credential", type="x", blob="b")
    key = await t.ask(
        "POST", IDENTITY, f"users/{user}/credentials/OS-EC2", {"tenant_id": t.things["project"]}
    )
    t.things["ec2"] = key["credential"]["access"]
    await t.make(
        "trust", IDENTITY, "OS-TRUST/trusts", "trust", trustor_user_id=user, trustee_user_id=t.cloud.user("reader"),
        project_id=t.things["project"], impersonation=True, roles=[{"name": "member"}],
    )  # fmt: skip


async def _image(t: Tenant) -> None:
    body = {
        "name": f"i{t.number}",
        "disk_format": "qcow2",
        "container_format": "bare",
        "tags": ["tag"],
        "key": "v",
    }
    image = (await t.ask("POST", IMAGE, "images", body))["id"]
    answer = await t.cloud.put(
        f"{IMAGE}/images/{image}/file", as_=t.who, content=qcow2.empty(GIB),
        headers={"Content-Type": "application/octet-stream"},
    )  # fmt: skip
    assert answer.status_code == 204, answer.text
    await t.ask("POST", IMAGE, f"images/{image}/members", {"member": t.cloud.project("service")})
    t.things["image"] = image
    t.things["queued_image"] = (await t.ask("POST", IMAGE, "images", {**body, "name": "q"}))["id"]
    space = f"space{t.number}"
    await t.ask(
        "POST", IMAGE, "metadefs/namespaces", as_="admin",
        body={"namespace": space, "visibility": "private", "owner": t.things["project"]},
    )  # fmt: skip
    string = {"title": "t", "type": "string"}
    for path, part in (
        ("objects", {"name": "part", "properties": {"p": string}}), ("properties", {"name": "part", **string}),
        ("resource_types", {"name": "OS::Nova::Server"}),
    ):  # fmt: skip
        await t.ask("POST", IMAGE, f"metadefs/namespaces/{space}/{path}", part, as_="admin")
    await t.ask("POST", IMAGE, f"metadefs/namespaces/{space}/tags/tag", as_="admin")
    t.things["namespace"] = space


async def _network(t: Tenant) -> None:
    network = (await t.make("network", NETWORK, "networks", "network", name="n"))["id"]
    await t.make(
        "subnet", NETWORK, "subnets", "subnet", network_id=network, ip_version=4, cidr=f"10.{t.number}.0.0/24"
    )
    await t.make(
        "pool", NETWORK, "subnetpools", "subnetpool", name="p", prefixes=[f"10.{t.number + 100}.0.0/16"]
    )
    await t.make("security_group", NETWORK, "security-groups", "security_group", name="g")
    await t.make("loose_group", NETWORK, "security-groups", "security_group", name="h")
    await t.make(
        "rule", NETWORK, "security-group-rules", "security_group_rule", direction="ingress", protocol="tcp",
        security_group_id=t.things["security_group"],
    )  # fmt: skip
    for name in ("port", "loose_port", "trunk_port", "sub_port", "fip_port"):
        made = await t.make(name, NETWORK, "ports", "port", network_id=network, name=name)
    t.things["fixed_address"] = made["fixed_ips"][0]["ip_address"]
    await t.make(
        "trunk", NETWORK, "trunks", "trunk", port_id=t.things["trunk_port"],
        sub_ports=[{"port_id": t.things["sub_port"], "segmentation_type": "vlan", "segmentation_id": 7}],
    )  # fmt: skip
    public = (await t.ask("GET", NETWORK, "networks?name=public"))["networks"][0]["id"]
    await t.make("router", NETWORK, "routers", "router", external_gateway_info={"network_id": public})
    await t.ask(
        "PUT",
        NETWORK,
        f"routers/{t.things['router']}/add_router_interface",
        {"subnet_id": t.things["subnet"]},
    )
    floating = await t.make(
        "floatingip",
        NETWORK,
        "floatingips",
        "floatingip",
        floating_network_id=public,
        port_id=t.things["fip_port"],
    )
    t.things["floating_address"] = floating["floating_ip_address"]
    await t.make(
        "policy", NETWORK, "rbac-policies", "rbac_policy", object_type="security_group", action="access_as_shared",
        object_id=t.things["security_group"], target_tenant=t.cloud.project("service"),
    )  # fmt: skip
    for noun in (
        "networks/{network}", "subnets/{subnet}", "subnetpools/{pool}", "ports/{port}", "routers/{router}",
        "floatingips/{floatingip}", "security-groups/{security_group}", "trunks/{trunk}",
    ):  # fmt: skip
        await t.ask("PUT", NETWORK, f"{noun.format_map(t.things)}/tags/tag")


async def _volume(t: Tenant) -> None:
    for name in ("volume", "attached_volume", "client_volume", "transferred_volume"):
        await t.make(name, VOLUME, "volumes", "volume", size=1, name=name, metadata={"key": "v"})
        await t.shows(VOLUME, f"volumes/{t.things[name]}", "volume", "available")
    await t.make(
        "snapshot", VOLUME, "snapshots", "snapshot", volume_id=t.things["volume"], metadata={"key": "v"}
    )
    await t.shows(VOLUME, f"snapshots/{t.things['snapshot']}", "snapshot", "available")
    await t.make("backup", VOLUME, "backups", "backup", volume_id=t.things["volume"])
    await t.shows(VOLUME, f"backups/{t.things['backup']}", "backup", "available")
    await t.make(
        "attachment", VOLUME, "attachments", "attachment", volume_uuid=t.things["client_volume"],
        instance_uuid=t.cloud.chance.uuid(),
    )  # fmt: skip
    await t.make("transfer", VOLUME, "volume-transfers", "transfer", volume_id=t.things["transferred_volume"])
    kind, type_ = f"kind{t.number}", f"type{t.number}"
    await t.make(
        "group_type", VOLUME, "group_types", "group_type", as_="admin", name=kind, group_specs={"key": "v"}
    )
    await t.make(
        "type",
        VOLUME,
        "types",
        "volume_type",
        as_="admin",
        name=type_,
        **{"os-volume-type-access:is_public": False},
    )
    grant = {"addProjectAccess": {"project": t.things["project"]}}
    await t.ask("POST", VOLUME, f"types/{t.things['type']}/action", grant, as_="admin")
    specs = {"extra_specs": {"a:key": "v"}}
    await t.ask("POST", VOLUME, f"types/{t.things['type']}/extra_specs", specs, as_="admin")
    await t.make(
        "group", VOLUME, "groups", "group", group_type=t.things["group_type"], volume_types=[t.things["type"]]
    )
    await t.shows(VOLUME, f"groups/{t.things['group']}", "group", "available")
    await t.make(
        "grouped_volume", VOLUME, "volumes", "volume", size=1, group_id=t.things["group"],
        volume_type=t.things["type"],
    )  # fmt: skip
    await t.shows(VOLUME, f"volumes/{t.things['grouped_volume']}", "volume", "available")
    await t.make("group_snapshot", VOLUME, "group_snapshots", "group_snapshot", group_id=t.things["group"])
    await t.shows(VOLUME, f"group_snapshots/{t.things['group_snapshot']}", "group_snapshot", "available")


async def _message(t: Tenant) -> None:
    """Made by no request of a user that succeeds."""
    await t.cloud.db.write(
        volume_messages.tell, "volume", t.things["volume"], volume_messages.EXTEND, volume_messages.NO_EXTEND
    )
    t.things["message"] = (await t.ask("GET", VOLUME, "messages"))["messages"][0]["id"]


async def _server(t: Tenant) -> None:
    await t.make("keypair", COMPUTE, "os-keypairs", "keypair", name=f"key{t.number}", public_key=KEY)
    await t.make("server_group", COMPUTE, "os-server-groups", "server_group", name="g", policy="affinity")
    flavor = {"name": f"f{t.number}", "ram": 64, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": False}
    await t.make("flavor", COMPUTE, "flavors", "flavor", as_="admin", **flavor)
    grant = {"addTenantAccess": {"tenant": t.things["project"]}}
    await t.ask("POST", COMPUTE, f"flavors/{t.things['flavor']}/action", grant, as_="admin")
    specs = {"extra_specs": {"key": "v"}}
    await t.ask("POST", COMPUTE, f"flavors/{t.things['flavor']}/os-extra_specs", specs, as_="admin")
    await t.make(
        "server", COMPUTE, "servers", "server", name="s", flavorRef=t.things["flavor"], imageRef=t.things["image"],
        networks=[{"port": t.things["port"]}], metadata={"key": "v"}, tags=["tag"],
    )  # fmt: skip
    await t.shows(COMPUTE, f"servers/{t.things['server']}", "server", "ACTIVE")
    path = f"servers/{t.things['server']}/os-volume_attachments"
    body = {"volumeAttachment": {"volumeId": t.things["attached_volume"]}}
    await t.ask("POST", COMPUTE, path, body)
    await t.shows(VOLUME, f"volumes/{t.things['attached_volume']}", "volume", "in-use")
    actions = await t.ask("GET", COMPUTE, f"servers/{t.things['server']}/os-instance-actions")
    t.things["request"] = actions["instanceActions"][-1]["request_id"]


async def _outside(t: Tenant) -> None:
    """Ids of what belongs to none of them, for the same tables."""
    t.things["reader"] = t.cloud.user("reader")
    t.things["public"] = (await t.ask("GET", NETWORK, "networks?name=public"))["networks"][0]["id"]
    t.things["service_project"] = t.cloud.project("service")
    for name, path, noun in (
        ("host", "os-hypervisors", "hypervisors"), ("service", "os-services?binary=nova-compute", "services"),
    ):  # fmt: skip
        t.things[name] = (await t.ask("GET", COMPUTE, path, as_="admin"))[noun][0]["id"]


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMEFKnAVwhYJ8ALVDAi0Fz1iEpC6RnYwHCnGTg/kUUZl x"

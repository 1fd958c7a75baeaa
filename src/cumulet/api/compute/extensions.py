"""Extensions: what clients of the time before microversions ask for by name.

See the compute API reference, "Extensions (DEPRECATED)".
"""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, ok
from cumulet.core.policy import ANYONE
from cumulet.errors import NotFound

#: Alias and name. What other clouds list too and nobody serves any more is left out.
EXTENSIONS = (
    ("NMN", "Multinic"), ("OS-DCF", "DiskConfig"), ("OS-EXT-AZ", "ExtendedAvailabilityZone"),
    ("OS-EXT-IMG-SIZE", "ImageSize"), ("OS-EXT-IPS", "ExtendedIps"), ("OS-EXT-IPS-MAC", "ExtendedIpsMac"),
    ("OS-EXT-SRV-ATTR", "ExtendedServerAttributes"), ("OS-EXT-STS", "ExtendedStatus"),
    ("OS-FLV-DISABLED", "FlavorDisabled"), ("OS-FLV-EXT-DATA", "FlavorExtraData"), ("OS-SCH-HNT", "SchedulerHints"),
    ("OS-SRV-USG", "ServerUsage"), ("os-access-ips", "AccessIPs"), ("os-admin-actions", "AdminActions"),
    ("os-admin-password", "AdminPassword"), ("os-aggregates", "Aggregates"),
    ("os-attach-interfaces", "AttachInterfaces"), ("os-availability-zone", "AvailabilityZone"),
    ("os-block-device-mapping", "BlockDeviceMapping"), ("os-block-device-mapping-v2-boot", "BlockDeviceMappingV2Boot"),
    ("os-config-drive", "ConfigDrive"), ("os-console-output", "ConsoleOutput"), ("os-consoles", "Consoles"),
    ("os-create-backup", "CreateBackup"), ("os-deferred-delete", "DeferredDelete"), ("os-evacuate", "Evacuate"),
    ("os-extended-floating-ips", "ExtendedFloatingIps"), ("os-extended-hypervisors", "ExtendedHypervisors"),
    ("os-extended-quotas", "ExtendedQuotas"), ("os-extended-rescue-with-image", "ExtendedRescueWithImage"),
    ("os-extended-services", "ExtendedServices"), ("os-extended-services-delete", "ExtendedServicesDelete"),
    ("os-extended-status", "ExtendedStatus"), ("os-extended-volumes", "ExtendedVolumes"),
    ("os-flavor-access", "FlavorAccess"), ("os-flavor-extra-specs", "FlavorExtraSpecs"),
    ("os-flavor-manage", "FlavorManage"), ("os-flavor-rxtx", "FlavorRxtx"), ("os-flavor-swap", "FlavorSwap"),
    ("os-floating-ip-pools", "FloatingIpPools"), ("os-floating-ips", "FloatingIps"), ("os-hosts", "Hosts"),
    ("os-hypervisor-status", "HypervisorStatus"), ("os-hypervisors", "Hypervisors"),
    ("os-instance-actions", "InstanceActions"), ("os-instance_usage_audit_log", "OSInstanceUsageAuditLog"),
    ("os-keypairs", "Keypairs"), ("os-lock-server", "LockServer"), ("os-migrate-server", "MigrateServer"),
    ("os-migrations", "Migrations"), ("os-multiple-create", "MultipleCreate"), ("os-networks", "Networks"),
    ("os-pause-server", "PauseServer"), ("os-personality", "Personality"),
    ("os-preserve-ephemeral-rebuild", "PreserveEphemeralOnRebuild"), ("os-quota-class-sets", "QuotaClasses"),
    ("os-quota-sets", "Quotas"), ("os-rescue", "Rescue"), ("os-security-groups", "SecurityGroups"),
    ("os-server-diagnostics", "ServerDiagnostics"), ("os-server-external-events", "ServerExternalEvents"),
    ("os-server-group-quotas", "ServerGroupQuotas"), ("os-server-groups", "ServerGroups"),
    ("os-server-list-multi-status", "ServerListMultiStatus"), ("os-server-password", "ServerPassword"),
    ("os-server-sort-keys", "ServerSortKeys"), ("os-server-start-stop", "ServerStartStop"),
    ("os-services", "Services"), ("os-shelve", "Shelve"), ("os-simple-tenant-usage", "SimpleTenantUsage"),
    ("os-suspend-server", "SuspendServer"), ("os-tenant-networks", "OSTenantNetworks"),
    ("os-used-limits", "UsedLimits"), ("os-used-limits-for-admin", "UsedLimitsForAdmin"),
    ("os-user-data", "UserData"), ("os-user-quotas", "UserQuotas"),
    ("os-volume-attachment-update", "VolumeAttachmentUpdate"), ("os-volumes", "Volumes"),
)  # fmt: skip


def _body(alias: str, name: str) -> dict[str, Any]:
    return {
        "alias": alias,
        "name": name,
        "description": f"{name} support.",
        "links": [],
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
        "updated": "2014-12-03T00:00:00Z",
    }


async def index(request: Request) -> Response:
    """GET /extensions"""
    return ok({"extensions": [_body(alias, name) for alias, name in EXTENSIONS]})


async def show(request: Request) -> Response:
    """GET /extensions/{alias}"""
    for alias, name in EXTENSIONS:
        if alias == request.params["alias"]:
            return ok({"extension": _body(alias, name)})
    raise NotFound(f"There is no extension {request.params['alias']}.")


_RULE = "os_compute_api:extensions"

ROUTES = (
    Route("GET", "/v2.1/extensions", index, _RULE, ANYONE),
    Route("GET", "/v2.1/extensions/{alias}", show, _RULE, ANYONE),
)

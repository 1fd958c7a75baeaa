"""The log of usage audits. No host of this cloud runs such an audit, and that is what the log says.

See the compute API reference, "Server usage audit log".
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, ok
from cumulet.core import hosts
from cumulet.core.policy import ADMIN
from cumulet.errors import Invalid


async def index(request: Request) -> Response:
    """GET /os-instance_usage_audit_log"""
    now = datetime.fromtimestamp(request.cloud.chance.now(), UTC)
    return ok({"instance_usage_audit_logs": await _log(request, now)})


async def show(request: Request) -> Response:
    """GET /os-instance_usage_audit_log/{before_timestamp}"""
    text = request.params["before_timestamp"]
    try:
        before = datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f" if "." in text else "%Y-%m-%d %H:%M:%S")
    except ValueError:
        raise Invalid(f"Invalid timestamp for date {text[:50]}") from None
    return ok({"instance_usage_audit_log": await _log(request, before)})


async def _log(request: Request, before: datetime) -> dict[str, Any]:
    """The last whole month before a moment."""
    end = before.replace(day=1, hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    begin = (end - timedelta(days=1)).replace(day=1) if end.year > 1 else end
    names = [host.name for host in await request.cloud.db.read(hosts.listing)]
    return {
        "period_beginning": str(begin),
        "period_ending": str(end),
        "num_hosts": len(names),
        "num_hosts_done": 0,
        "num_hosts_running": 0,
        "num_hosts_not_run": len(names),
        "hosts_not_run": names,
        "total_instances": 0,
        "total_errors": 0,
        "overall_status": f"0 of {len(names)} hosts done. 0 errors.",
        "log": {},
    }


_RULE = "os_compute_api:os-instance-usage-audit-log"
_ALL = "/v2.1/os-instance_usage_audit_log"

ROUTES = (
    Route("GET", _ALL, index, f"{_RULE}:list", ADMIN),
    Route("GET", f"{_ALL}/{{before_timestamp}}", show, f"{_RULE}:show", ADMIN),
)

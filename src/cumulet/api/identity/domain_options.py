"""/v3/domains/{domain_id}/config. See the API reference, "Domain configuration"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core import domain_options as core
from cumulet.core import domains
from cumulet.core.bootstrap import DOMAIN
from cumulet.core.policy import ANYONE
from cumulet.errors import Forbidden


def _names(request: Request) -> tuple[str, str | None, str | None]:
    return request.params["domain_id"], request.params.get("group"), request.params.get("option")


async def _config(request: Request) -> Any:
    return (await request.document()).get("config")


async def show(request: Request) -> Response:
    """GET …/config, …/config/{group}, …/config/{group}/{option}"""
    return ok({"config": await request.cloud.db.read(core.show, *_names(request))})


async def create(request: Request) -> Response:
    """PUT …/config: 201 for the first, 200 when it replaces one"""
    config, new = await request.cloud.db.write(
        core.create, request.params["domain_id"], await _config(request)
    )
    return Response(201 if new else 200, {"config": config})


async def update(request: Request) -> Response:
    """PATCH …/config, …/config/{group}, …/config/{group}/{option}"""
    domain_id, group, option = _names(request)
    config = await request.cloud.db.write(core.update, domain_id, await _config(request), group, option)
    return ok({"config": config})


async def delete(request: Request) -> Response:
    """DELETE …/config, …/config/{group}, …/config/{group}/{option}"""
    await request.cloud.db.write(core.delete, *_names(request))
    return no_content()


async def default(request: Request) -> Response:
    """GET /v3/domains/config/default and the like"""
    return ok({"config": core.default(request.params.get("group"), request.params.get("option"))})


async def security(request: Request) -> Response:
    """GET …/config/security_compliance: what everybody may know of the rules for passwords"""
    domain_id, option = request.params["domain_id"], request.params.get("option")
    await request.cloud.db.read(domains.show, domain_id)
    if domain_id != DOMAIN:
        raise Forbidden(
            "Invalid domain specific configuration: Reading security compliance information for any domain "
            "other than the default domain is not allowed or supported."
        )
    auth = request.cloud.config.auth
    options = {
        "password_regex": auth.password_regex or None,
        "password_regex_description": auth.password_regex_description or None,
    }
    if option is None:
        return ok({"config": {"security_compliance": options}})
    if option not in options:
        raise Forbidden(
            "Invalid domain specific configuration: Reading security compliance values other than password_regex "
            "and password_regex_description is not allowed."
        )
    return ok({"config": {option: options[option]}})


_ALL = "/v3/domains/{domain_id}/config"
_SECURITY = f"{_ALL}/security_compliance"
_PATHS = (_ALL, f"{_ALL}/{{group}}", f"{_ALL}/{{group}}/{{option}}")
_DEFAULTS = (
    "/v3/domains/config/default", "/v3/domains/config/{group}/default",
    "/v3/domains/config/{group}/{option}/default",
)  # fmt: skip

ROUTES = (
    Route("PUT", _ALL, create, "identity:create_domain_config", ADMIN),
    *(Route("GET", path, show, "identity:get_domain_config", ADMIN_OR_READER) for path in _PATHS),
    *(Route("PATCH", path, update, "identity:update_domain_config", ADMIN) for path in _PATHS),
    *(Route("DELETE", path, delete, "identity:delete_domain_config", ADMIN) for path in _PATHS),
    *(
        Route("GET", path, security, "identity:get_security_compliance_domain_config", ANYONE)
        for path in (_SECURITY, f"{_SECURITY}/{{option}}")
    ),
    *(
        Route("GET", path, default, "identity:get_domain_config_default", ADMIN_OR_READER)
        for path in _DEFAULTS
    ),
)

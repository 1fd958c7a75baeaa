"""What the rules of the identity API are applied to: ``%(target.user.domain_id)s`` and the like.

A rule that names something of the target that is not there does not match, so whoever is not an
administrator cannot tell what does not exist from what is not theirs. Where clients rely on a 404 for what does
not exist, what is not theirs is 404 as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.api.asgi import UNSEEN
from cumulet.api.identity import tokens
from cumulet.api.request import Request
from cumulet.core import application_credentials, credentials, trusts
from cumulet.db.engine import Tx
from cumulet.values import Caller

#: Parameters of paths: (noun in the rules, SQL of what the rules look at).
_NOUNS: Mapping[str, tuple[str, str]] = {
    "user_id": ("user", "select id, domain_id from users where id = :id"),
    "group_id": ("group", "select id, domain_id from groups where id = :id"),
    "project_id": ("project", "select id, domain_id from projects where id = :id"),
    "domain_id": ("domain", "select id from projects where id = :id and is_domain"),
    "role_id": ("role", "select id, name, domain_id from roles where id = :id"),
    "credential_id": ("credential", "select id, user_id, project_id from credentials where id = :id"),
    "limit_id": (
        "limit",
        'select l.id, l.project_id, l.domain_id as "domain.id", p.domain_id as "project.domain_id"'
        " from project_limits l left join projects p on p.id = l.project_id where l.id = :id",
    ),
}
#: Rules about what a body wants to make: (noun, what the rule looks at).
_BODIES: Mapping[str, tuple[str, str]] = {
    "identity:create_user": ("user", "domain_id"),
    "identity:create_group": ("group", "domain_id"),
    "identity:create_project": ("project", "domain_id"),
    "identity:create_credential": ("credential", "user_id"),
    "identity:create_trust": ("trust", "trustor_user_id"),
}
#: Rules about lists, and by what name they ask for the caller's domain.
_LISTS: Mapping[str, str] = {
    "identity:list_users": "target.domain_id",
    "identity:list_projects": "target.domain_id",
    "identity:list_role_assignments": "target.domain_id",
    "identity:list_groups": "target.group.domain_id",
    "identity:list_domains": "target.domain.id",
}


async def target(request: Request) -> Mapping[str, Any]:
    """The ids in the path, and what is known of the things that they name."""
    route = request.route
    assert route is not None
    found: dict[str, Any] = dict(request.params)
    ec2 = "OS-EC2" in route.path and "credential_id" in request.params
    named = {name: id for name, id in request.params.items() if name in _NOUNS and not ec2}
    if named:
        found |= await request.cloud.db.read(_known, named)
    if "trust_id" in request.params:
        # Whoever asks learns first that a trust is not there, as upstream's clients rely on (bug 1840288).
        trust = await request.cloud.db.read(trusts.show, request.params["trust_id"])
        parties = {name: trust[name] for name in ("trustor_user_id", "trustee_user_id")}
        found |= {f"target.trust.{name}": id for name, id in parties.items()}
        if request.caller.user_id not in parties.values():
            found[UNSEEN] = trusts.missing(request.params["trust_id"])
    if ec2:
        user_id, access = request.params["user_id"], request.params["credential_id"]
        found["target.credential.user_id"] = await request.cloud.db.read(_ec2_owner, user_id, access)
        if user_id != request.caller.user_id:
            found[UNSEEN] = credentials.missing_ec2(access)
    if "application_credential_id" in request.params:
        # Whose credential it is says the credential, not the path.
        found["user_id"] = await request.cloud.db.read(_owner, request.params)
        if found["user_id"] != request.params["user_id"]:
            id = request.params["application_credential_id"]
            found[UNSEEN] = application_credentials.missing(id)
    if route.rule == "identity:list_credentials":
        found["target.credential.user_id"] = request.caller.user_id
    if route.rule == "identity:ec2_create_credential":
        found["target.credential.user_id"] = request.params["user_id"]
    if route.rule in _BODIES:
        found |= await _wanted(request, *_BODIES[route.rule])
    if route.path == "/v3/auth/tokens":
        text = request.headers.get("x-subject-token", "")
        found |= await request.cloud.db.read(tokens.subject, text, tokens.grace(request))
    found |= _listed(request.caller, route.rule)
    return found


def _owner(tx: Tx, params: Mapping[str, str]) -> Any:
    owner = tx.value(
        "select user_id from application_credentials where id = :id", id=params["application_credential_id"]
    )
    return params["user_id"] if owner is None else owner


def _ec2_owner(tx: Tx, user_id: str, access: str) -> Any:
    return credentials.ec2_key(tx, user_id, access)["user_id"]


def _known(tx: Tx, named: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for parameter, id in named.items():
        noun, sql = _NOUNS[parameter]
        row = tx.one(sql, id=id)
        for name, value in (row or {}).items():
            if noun == "role" and name == "domain_id":
                value = value or None
            # What is null equals no caller's id, but rules may ask for the null itself.
            found[f"target.{noun}.{name}"] = value
    return found


async def _wanted(request: Request, noun: str, field: str) -> dict[str, Any]:
    body = (await request.document()).get(noun)
    value = body.get(field) if isinstance(body, dict) else None
    # A domain that is made as a project is in no domain, and so no manager's.
    alone = isinstance(body, dict) and bool(body.get("is_domain"))
    if value is None and field != "trustor_user_id" and not alone:
        # As the handlers fill it in.
        value = request.caller.domain_id if field == "domain_id" else request.caller.user_id
    return {f"target.{noun}.{field}": value} if isinstance(value, str) else {}


def _listed(caller: Caller, rule: str) -> dict[str, Any]:
    """Lists show who has a token of a domain only what is in the domain, so that is what they are of."""
    name = _LISTS.get(rule)
    return {name: caller.domain_id} if name is not None and caller.domain_id is not None else {}

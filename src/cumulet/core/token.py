"""Tokens: what is in one, what it is worth at the moment, and whose request it comes with.

A token is a Fernet message that says who, by which methods, for what scope, and until when. It says nothing
of roles: what it is worth is read from the database whenever identity data changed since the last time, and
remembered in memory until they change again (core/epoch.py). So a disabled user, a removed role or a revoked
token is refused at the next request, by every process.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, Protocol

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from cumulet.config import Config
from cumulet.core import assignments, epoch
from cumulet.core.catalog import service_types
from cumulet.db.engine import Database, Row, Tx
from cumulet.errors import Unauthorized
from cumulet.values import Caller

ScopeKind = Literal["", "project", "domain", "system"]
METHODS = ("password", "token", "application_credential", "external", "totp")
_KEYS = "fernet-keys"
#: How long after its end a service may still look at a token (upstream's allow_expired_window).
GRACE = 2 * 86400.0
#: No token lives longer than a month (the setting's bound), so revocations need not be kept longer.
REVOKED_FOR = 31 * 86400.0 + GRACE
LONGEST_TEXT = 4096
#: Tokens remembered by one process.
REMEMBERED = 20_000
#: Keys kept after a rotation, so that tokens made before stay valid.
KEPT_KEYS = 3


class Token(msgspec.Struct, frozen=True):
    """What a token says."""

    user_id: str
    methods: tuple[str, ...]
    #: Of what: ("project", id), ("domain", id), ("system", "") or ("", "").
    scope: tuple[ScopeKind, str]
    issued_at: float
    expires_at: float
    #: Its own, and the first of the chain when it was made from another token.
    audit_ids: tuple[str, ...]
    application_credential_id: str | None = None
    trust_id: str | None = None

    @property
    def chain(self) -> str:
        return self.audit_ids[-1]


class Standing(msgspec.Struct, frozen=True):
    """What a token is worth at the moment."""

    token: Token
    #: id, name, domain_id, domain_name, password_expires_at. With an impersonating trust: the trustor.
    user: Row
    #: id, name, domain_id, domain_name, is_domain.
    project: Row | None
    #: id, name.
    domain: Row | None
    roles: list[assignments.Role]
    application_credential: Row | None
    access_rules: list[Row] | None
    trust: Row | None


class Asked(Protocol):
    """The part of a request that a token's rules look at."""

    id: str
    method: str
    path: str


# -- The form of a token -----------------------------------------------------------------------------------


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """Short: ids of 32 hexadecimal digits travel as 16 bytes. The first byte says which form it is."""

    user: bytes
    methods: int
    kind: int
    scope: bytes
    issued: int
    expires: int
    audit: list[bytes]
    credential: bytes | None = None
    trust: bytes | None = None


_KINDS: tuple[ScopeKind, ...] = ("", "project", "domain", "system")
_HEX = re.compile(r"[0-9a-f]{32}\Z")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Packed)


def _short(id: str) -> bytes:
    return b"x" + bytes.fromhex(id) if _HEX.match(id) else b"t" + id.encode()


def _long(id: bytes) -> str:
    return id[1:].hex() if id[:1] == b"x" else id[1:].decode()


def audit_id(tx: Tx) -> str:
    """A fresh audit id: 16 bytes in URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(bytes.fromhex(tx.chance.token(16)))[:-2].decode()


def seal(tx: Tx, token: Token) -> str:
    """The text that the client gets."""
    packed = _Packed(
        _short(token.user_id),
        sum(1 << METHODS.index(method) for method in token.methods),
        _KINDS.index(token.scope[0]),
        _short(token.scope[1]),
        int(token.issued_at * 1e6),
        int(token.expires_at),
        [base64.urlsafe_b64decode(audit + "==") for audit in token.audit_ids],
        _short(token.application_credential_id) if token.application_credential_id else None,
        _short(token.trust_id) if token.trust_id else None,
    )
    return cipher(keys(tx)).encrypt(_encoder.encode(packed)).rstrip(b"=").decode()


def unseal(tx: Tx, text: str) -> Token:
    """What a token says. Raises Unauthorized for what is none of ours."""
    if len(text) > LONGEST_TEXT:
        raise _no_token()
    try:
        sealed = text.encode("ascii")
        packed = _decoder.decode(cipher(keys(tx)).decrypt(sealed + b"=" * (-len(sealed) % 4)))
    except (InvalidToken, ValueError, msgspec.DecodeError):
        raise _no_token() from None
    return Token(
        user_id=_long(packed.user),
        methods=tuple(method for i, method in enumerate(METHODS) if packed.methods >> i & 1),
        scope=(_KINDS[packed.kind], _long(packed.scope)),
        issued_at=packed.issued / 1e6,
        expires_at=float(packed.expires),
        audit_ids=tuple(base64.urlsafe_b64encode(audit)[:-2].decode() for audit in packed.audit),
        application_credential_id=_long(packed.credential) if packed.credential else None,
        trust_id=_long(packed.trust) if packed.trust else None,
    )


def _no_token() -> Unauthorized:
    return Unauthorized("The request you have made requires authentication.")


def keys(tx: Tx) -> tuple[str, ...]:
    """The keys of all processes of this cloud, the newest first. Raises Unauthorized before there are any."""
    found = tx.value("select value from settings where id = :id", id=_KEYS)
    if not found:
        raise Unauthorized("The cloud has no keys yet: it was never seeded.")
    return tuple(found["keys"])


@lru_cache(maxsize=8)
def cipher(keys: tuple[str, ...]) -> MultiFernet:
    """Encrypts with the first key, decrypts with any."""
    return MultiFernet([Fernet(key) for key in keys])


def ensure_keys(tx: Tx) -> None:
    """Make the first key if there is none."""
    tx.run(
        "insert into settings (id, value) values (:id, :value) on conflict (id) do nothing",
        id=_KEYS,
        value={"keys": [Fernet.generate_key().decode()]},
    )


def add_key(tx: Tx) -> None:
    """Encrypt with a new key from now on. What older keys encrypted stays readable while they are kept.

    Use credentials.rotate_keys, which also encrypts anew what must not be lost with an old key.
    """
    kept = list(keys(tx))
    tx.update("settings", _KEYS, value={"keys": [Fernet.generate_key().decode(), *kept][:KEPT_KEYS]})
    epoch.touch(tx)


# -- What it is worth --------------------------------------------------------------------------------------


def stand(tx: Tx, token: Token, grace: float = 0.0) -> Standing:
    """What the token is worth now. Raises Unauthorized, with the reason, when that is nothing.

    ``grace`` is how long ago it may have expired.
    """
    if token.expires_at + grace <= tx.now:
        raise Unauthorized("The token has expired.")
    user = _user(tx, token.user_id)
    project = domain = trust = None
    kind, target = token.scope
    if kind == "project":
        project = _project(tx, target)
    elif kind == "domain":
        domain = _domain(tx, target)
    subjects = {f"audit:{token.audit_ids[0]}", f"chain:{token.chain}"}
    subjects |= {f"user:{user['id']}", f"domain:{user['domain_id']}"}
    subjects |= {f"project:{target}"} if project else {f"domain:{target}"} if domain else set()
    if project is not None:
        subjects.add(f"domain:{project['domain_id'] or project['id']}")
    credential = rules = None
    if token.application_credential_id:
        credential = _application_credential(tx, token)
        rules = access_rules(tx, credential["id"])
    if token.trust_id:
        trust = _trust(tx, token.trust_id)
        trustor = _user(tx, trust["trustor_user_id"])
        subjects |= {f"user:{trustor['id']}", f"domain:{trustor['domain_id']}"}
        user = trustor if trust["impersonation"] else user
    if tx.one(
        "select 1 from revocations where subject in :subjects and issued_before >= :issued",
        subjects=subjects,
        issued=token.issued_at,
    ):
        raise Unauthorized("The token has been revoked.")
    roles = _roles(tx, token, credential, trust)
    if kind and not roles:
        raise Unauthorized(f"User {token.user_id} has no access to the {kind} of the token.")
    return Standing(token, user, project, domain, roles, credential, rules or None, trust)


def _user(tx: Tx, user_id: str) -> Row:
    user = tx.one(
        "select u.id, u.name, u.domain_id, u.enabled, u.password_expires_at, d.name as domain_name,"
        " d.enabled as domain_enabled"
        " from users u join projects d on d.id = u.domain_id where u.id = :id",
        id=user_id,
    )
    if user is None or not user["enabled"] or not user["domain_enabled"]:
        raise Unauthorized("The user of the token is gone or disabled.")
    return user


def _project(tx: Tx, project_id: str) -> Row:
    project = tx.one(
        "select p.id, p.name, p.domain_id, p.is_domain, p.enabled, d.name as domain_name,"
        " d.enabled as domain_enabled"
        " from projects p left join projects d on d.id = p.domain_id where p.id = :id",
        id=project_id,
    )
    if project is None or not project["enabled"] or project["domain_enabled"] is False:
        raise Unauthorized("The project of the token is gone or disabled.")
    return project


def _domain(tx: Tx, domain_id: str) -> Row:
    domain = tx.one("select id, name, enabled from projects where id = :id and is_domain", id=domain_id)
    if domain is None or not domain["enabled"]:
        raise Unauthorized("The domain of the token is gone or disabled.")
    return domain


def _application_credential(tx: Tx, token: Token) -> Row:
    found = tx.one(
        "select * from application_credentials where id = :id and user_id = :user",
        id=token.application_credential_id,
        user=token.user_id,
    )
    if found is None or (found["expires_at"] is not None and found["expires_at"] <= tx.now):
        raise Unauthorized("The application credential of the token is gone or expired.")
    return found


def access_rules(tx: Tx, credential_id: str) -> list[Row]:
    """The rules of an application credential: id, service, method, path."""
    return tx.all(
        "select r.id, r.service, r.method, r.path from access_rules r"
        " join application_credential_rules l on l.access_rule_id = r.id"
        " where l.application_credential_id = :id order by r.id",
        id=credential_id,
    )


def _trust(tx: Tx, trust_id: str) -> Row:
    trust = tx.one("select * from trusts where id = :id", id=trust_id)
    if trust is None or (trust["expires_at"] is not None and trust["expires_at"] <= tx.now):
        raise Unauthorized("The trust of the token is gone or expired.")
    return trust


def _roles(tx: Tx, token: Token, credential: Row | None, trust: Row | None) -> list[assignments.Role]:
    kind, target = token.scope
    if kind == "domain":
        return assignments.on_domain(tx, token.user_id, target)
    if kind == "system":
        return assignments.on_system(tx, token.user_id)
    if trust is not None:
        return trust_roles(tx, trust)
    if kind != "project":
        return []
    roles = assignments.on_project(tx, token.user_id, target)
    if credential is None:
        return roles
    given = {id for id, _ in assignments.implied(tx, tuple(credential["roles"]))}
    return [role for role in roles if role[0] in given]


def trust_roles(tx: Tx, trust: Row) -> list[assignments.Role]:
    """What a trust gives: its roles, as long as the first trustor of the chain has every one of them.

    Raises Unauthorized otherwise.
    """
    if trust["project_id"] is None:
        return []
    first = trust
    for _ in range(assignments.DEPTH):
        if first["redelegated_trust_id"] is None:
            break
        first = _trust(tx, first["redelegated_trust_id"])
    wanted = assignments.implied(tx, tuple(trust["roles"]))
    has = {id for id, _ in assignments.on_project(tx, first["trustor_user_id"], trust["project_id"])}
    if not wanted or any(id not in has for id, _ in wanted):
        raise Unauthorized("The trustor no longer has the roles that the trust gives.")
    return wanted


def caller(standing: Standing) -> Caller:
    """The standing as the one whom requests come from."""
    token, user, project = standing.token, standing.user, standing.project
    credential = standing.application_credential
    rules = standing.access_rules
    return Caller(
        user_id=user["id"],
        user_name=user["name"],
        user_domain_id=user["domain_id"],
        project_id=project["id"] if project else None,
        project_name=project["name"] if project else None,
        project_domain_id=project["domain_id"] if project else None,
        domain_id=standing.domain["id"] if standing.domain else None,
        system=token.scope[0] == "system",
        roles=frozenset(name.lower() for _, name in standing.roles),
        role_ids=tuple(id for id, _ in standing.roles),
        audit_id=token.audit_ids[0],
        application_credential_id=credential["id"] if credential else None,
        trust_id=token.trust_id,
        restricted=credential is not None and not credential["unrestricted"],
        access_rules=tuple((r["service"], r["method"], r["path"]) for r in rules) if rules else None,
        expires_at=token.expires_at,
    )


def revoke(tx: Tx, subject: str) -> None:
    """Make every token of the subject that was issued until now worthless."""
    tx.run("delete from revocations where forget_at < :now", now=tx.now)
    tx.insert(
        "revocations", id=tx.uuid(), subject=subject, issued_before=tx.now, forget_at=tx.now + REVOKED_FOR
    )
    epoch.touch(tx)


# -- Whose request it is -----------------------------------------------------------------------------------


class _Known(msgspec.Struct, frozen=True):
    epoch: Any
    expires_at: float
    caller: Caller


class Verifier:
    """``await verifier(token, request)`` is the caller. Raises Unauthorized."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: dict[str, _Known] = {}
        self._epoch = Shared(lambda: db.read(epoch.current))

    async def __call__(self, token: str, request: Asked) -> Caller:
        known = self._known.get(token)
        if known is None or known.epoch != await self._epoch.read():
            known = await self._db.read(self._learn, token)
        if known.expires_at <= self._db.chance.now():
            self._known.pop(token, None)
            raise _no_token()
        if known.caller.access_rules is not None:
            _check_access(known.caller.access_rules, request)
        return msgspec.structs.replace(known.caller, request_id=request.id)

    def _learn(self, tx: Tx, text: str) -> _Known:
        try:
            token = unseal(tx, text)
            known = _Known(epoch.current(tx), token.expires_at, caller(stand(tx, token)))
        except Unauthorized:
            # Whoever shows a worthless token does not learn why.
            self._known.pop(text, None)
            raise _no_token() from None
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[text] = known
        return known


class Shared:
    """A read that all who wait for it share, begun after each of them asked."""

    def __init__(self, function: Callable[[], Awaitable[Any]]) -> None:
        self._function = function
        self._running: asyncio.Future[Any] | None = None
        self._next: asyncio.Future[Any] | None = None

    async def read(self) -> Any:
        """What ``function`` gives, called now or later than now."""
        # Where nothing waits (SQLite), this is all that ever happens, without a task.
        if self._running is None and self._next is None:
            return await self._run()
        if self._next is None:
            assert self._running is not None
            self._next = asyncio.ensure_future(self._after(self._running))
        return await asyncio.shield(self._next)

    async def _run(self) -> Any:
        running = self._running = asyncio.get_running_loop().create_future()
        try:
            return await self._function()
        finally:
            self._running = None
            running.set_result(None)

    async def _after(self, running: asyncio.Future[Any]) -> Any:
        await asyncio.wait([running])
        # From here on whoever asks comes too late for this one.
        self._next = None
        return await self._run()


def verifier(db: Database, config: Config) -> Verifier:
    """What finds the caller of every request."""
    return Verifier(db)


def _check_access(rules: tuple[tuple[str, str, str], ...], request: Asked) -> None:
    """An application credential with access rules is good for what they name alone.

    See "Access Rules" in the identity service's user guide.
    """
    prefix, _, inside = request.path.lstrip("/").partition("/")
    services = service_types(prefix)
    for service, method, path in rules:
        if service in services and method == request.method and path_matches("/" + inside, path):
            return
    raise Unauthorized("The application credential's access rules do not allow this request.")


def path_matches(path: str, pattern: str) -> bool:
    """``*`` and ``{name}`` stand for one segment of a path, ``**`` for any number."""
    return _pattern(pattern).match(path.rstrip("/") or "/") is not None


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str]:
    parts = []
    for piece in re.split(r"(\*\*|\*|\{[^{}/]*\})", pattern.rstrip("/") or "/"):
        if piece == "**":
            parts.append(".*")
        elif piece == "*" or piece.startswith("{"):
            parts.append("[^/]+")
        else:
            parts.append(re.escape(piece))
    return re.compile("".join(parts) + r"\Z", re.DOTALL)


# -- What the client is shown -------------------------------------------------------------------------------


def render(standing: Standing, catalogue: list[dict[str, Any]] | None) -> dict[str, Any]:
    """The body of a token, in the form of the API reference, "Authentication and token management"."""
    token, user, project = standing.token, standing.user, standing.project
    found: dict[str, Any] = {
        "methods": list(token.methods),
        "user": {
            "domain": {"id": user["domain_id"], "name": user["domain_name"]},
            "id": user["id"],
            "name": user["name"],
            "password_expires_at": iso(user["password_expires_at"]),
        },
        "audit_ids": list(token.audit_ids),
        "expires_at": iso(token.expires_at),
        "issued_at": iso(token.issued_at),
    }
    roles = [{"id": id, "name": name} for id, name in standing.roles]
    if token.scope[0] == "system":
        found |= {"roles": roles, "system": {"all": True}}
    elif standing.domain is not None:
        found |= {"domain": {"id": standing.domain["id"], "name": standing.domain["name"]}, "roles": roles}
    elif project is not None:
        found["project"] = {
            "domain": {"id": project["domain_id"], "name": project["domain_name"]},
            "id": project["id"],
            "name": project["name"],
        }
        found["is_domain"] = project["is_domain"]
        found["roles"] = roles
    if standing.trust is not None:
        found["OS-TRUST:trust"] = {
            "id": standing.trust["id"],
            "trustor_user": {"id": standing.trust["trustor_user_id"]},
            "trustee_user": {"id": standing.trust["trustee_user_id"]},
            "impersonation": standing.trust["impersonation"],
        }
        found.pop("is_domain", None)
    if standing.application_credential is not None:
        credential = standing.application_credential
        shown: dict[str, Any] = {
            "id": credential["id"],
            "name": credential["name"],
            "restricted": not credential["unrestricted"],
        }
        if standing.access_rules:
            shown["access_rules"] = standing.access_rules
        found["application_credential"] = shown
    if catalogue is not None and (token.scope[0] or standing.trust is not None):
        found["catalog"] = catalogue
    return {"token": found}


def iso(moment: float | None) -> str | None:
    """A time as the identity API writes it."""
    if moment is None:
        return None
    import datetime

    at = datetime.datetime.fromtimestamp(moment, datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def scope_ids(standing: Standing) -> Mapping[str, str | None]:
    """What an endpoint's address may refer to."""
    project = standing.project["id"] if standing.project else None
    return {"project_id": project, "tenant_id": project, "user_id": standing.user["id"]}

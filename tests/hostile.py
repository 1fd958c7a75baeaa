"""Requests as nobody should send them, made from good ones; and what must hold of every answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from hypothesis import strategies as st

from cumulet.api.asgi import Application, Area, Route
from cumulet.db import engine
from cumulet.db.engine import Database, Tx
from tests.bodies import BODIES, CREATES, OPERATORS
from tests.routes import OPERATED, filled, key, lines, parameters, path_of, version_of
from tests.tenants import Tenant

T = TypeVar("T")
#: Seconds in which a request must be answered.
PATIENCE = 5.0


# --- requests ---


@dataclass(frozen=True)
class Ask:
    """One request, as bytes."""

    area: Area
    route: Route
    path: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    #: The names of the body's members around the one value that is wrong; () if more is wrong.
    wrong: tuple[str, ...] = ()
    #: That value.
    value: Any = None
    #: The good body that it was put into.
    body_before: bytes | None = None

    def with_header(self, name: str, value: str) -> Ask:
        return replace(self, headers=(*self.headers, (name, value)))

    def __str__(self) -> str:
        body = "" if self.body is None else repr(self.body[:300])
        query = f"?{self.query}" if self.query else ""
        return f"{key(self.area, self.route)}: {self.path[:300]}{query[:300]} {self.headers} {body}"


@dataclass
class Answer:
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


async def send(app: Application, ask: Ask, token: str, agent: dict[str, str]) -> Answer:
    """The answer, by the application's whole stack but the socket. Raises TimeoutError."""
    answer = Answer()
    headers = [(name, value) for name, value in ask.headers]
    names = {name.lower() for name, _ in headers}
    if ask.area.name == "agent":
        headers += agent.items()
    elif "x-auth-token" not in names:
        headers.append(("x-auth-token", token))
    version = version_of(ask.area, ask.route)
    if version and "openstack-api-version" not in names:
        headers.append(("openstack-api-version", version))
    left = [ask.body or b""]

    async def receive() -> Any:
        if not left:
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    async def give(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = [(n.decode().lower(), v.decode()) for n, v in message["headers"]]
        else:
            answer.body += message.get("body", b"")

    raw = ask.path.encode("ascii")
    scope = {
        "type": "http", "http_version": "1.1", "method": ask.route.method, "scheme": "http",
        "path": unquote(raw.decode()), "raw_path": raw, "query_string": ask.query.encode("ascii"), "root_path": "",
        "headers": [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in headers],
        "client": ("127.0.0.1", 0), "server": ("cloud", 80),
    }  # fmt: skip
    async with asyncio.timeout(PATIENCE):
        await app(scope, receive, give)
    return answer


# --- what must hold of every answer ---

#: What tells of the inside.
_TRACE = re.compile(
    r"Traceback|File \"|sqlite3|SQLITE_|psycopg|site-packages|\bSELECT\b.* FROM |select .* from |KeyError|TypeError|"
    r"ValueError|AttributeError|IndexError|<class |object at 0x|NoneType|cumulet\.(api|core|db|wire)",
)
#: Lines that say on purpose that they are not there for this cloud: 501, or 503 while a host does not speak.
UNSERVED = {501, 503}


def faults(ask: Ask, answer: Answer, usual: str) -> Iterator[str]:
    """What is wrong with an answer, in words. ``usual``: what is told of the good request."""
    if answer.status >= 500 and answer.status not in UNSERVED:
        yield f"{answer.status}"
    if not 200 <= answer.status < 600:
        yield f"no status but {answer.status}"
    if not dict(answer.headers).get("x-openstack-request-id"):
        yield "no request id"
    if not all(value.isascii() and value.isprintable() for _, value in answer.headers):
        yield "a header with characters that could end it"
    if answer.status >= 400:
        found = _TRACE.search(answer.text)
        if found:
            yield f"tells of the inside: {found[0]!r}"
        if ask.route.method != "HEAD" and not answer.body and answer.status != 412:
            yield "an error without a body"
    if answer.body and ("content-type", "application/json") in answer.headers:
        try:
            json.loads(answer.body)
        except ValueError:
            yield "the body is not JSON"
    if answer.status == 400 and ask.wrong and answer.text != usual and not _names(answer.text, ask):
        yield f"does not name {ask.wrong}"


def _names(text: str, ask: Ask) -> bool:
    """True if the words say what is wrong: by a name around it or a part of that, or by the value itself."""
    said = re.sub(r"[^a-z0-9]+", " ", text.lower())
    parts = [part for name in ask.wrong for part in re.split(r"[^A-Za-z0-9]", name) if len(part) > 3]
    value = re.sub(r"[^a-z0-9]+", " ", text_of(ask.value).lower()).strip()[:20]
    return (
        isinstance(ask.value, dict | list)
        or value in ("", "null")
        or any(
            re.sub(r"[^a-z0-9]+", " ", name.lower()).strip() in said for name in [*ask.wrong, *parts, value]
        )
        or "Malformed request body" in text
        or "unknown field" in text
    )


# --- good requests ---


class Subject:
    """Who asks, and what stands in the places of ids."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.things = tenant.things

    def path(self, area: Area, route: Route) -> list[str]:
        found = []
        for (kind, value), before in zip(parameters(area, route), _befores(route), strict=True):
            if kind == "owned":
                found.append(self.things[value])
            elif f"{area.name} {before}" in OPERATED:
                found.append(self.things[OPERATED[f"{area.name} {before}"]])
            else:
                found.append(str(filled(value, self.things.__getitem__)))
        return found

    def bodies(self, area: Area, route: Route) -> list[Any]:
        """Good bodies of a line; [] if it takes none. Fails for a line that must be thought of."""
        name = key(area, route)
        known = [
            *([BODIES[name]] if name in BODIES else []),
            *CREATES.get(name, ()),
            *OPERATORS.get(name, ()),
        ]
        bodies = [filled(body, self.things.__getitem__) for body in known if not isinstance(body, bytes)]
        if not bodies and route.action:
            bodies = [{route.action: None}]
        return [body for body in bodies if body is not None]


def _befores(route: Route) -> list[str]:
    segments = ["", *route.path.strip("/").split("/")]
    return [before for before, segment in pairwise(segments) if segment.startswith("{")]


def asks(subject: Subject) -> list[Ask]:
    """One good request for each line, with the first of its bodies."""
    found = []
    for area, route in lines():
        path = path_of(area, route, [quote(value, safe="") for value in subject.path(area, route)])
        bodies = subject.bodies(area, route)
        found.append(with_json(Ask(area, route, path), bodies[0]) if bodies else Ask(area, route, path))
    return found


def with_json(ask: Ask, body: Any, wrong: tuple[str, ...] = (), value: Any = None) -> Ask:
    kind = "application/json"
    if ask.area.name == "image" and ask.route.method == "PATCH":
        # The names in a patch are among its values.
        wrong = ()
        kind = "application/openstack-images-v2.1-json-patch"
    raw = json.dumps(body).encode()
    return replace(ask, body=raw, headers=(*ask.headers, ("content-type", kind)), wrong=wrong, value=value)


# --- bad values ---

LONG = "x" * 300
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 1.5, 1e308, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**40, "", " ",
    "x", "0", "-1", "1e3", "true", LONG, "x" * 70_000, "\ud800", "a\u0000b", "\u202e", "é", "\U0001f600", "\u0661", "%s%n",
    "%00", "'\";--", "../../etc/passwd", "{}", "[]", "null", "NaN", "0.0.0.0/0", "10.0.0.0/33", "::", "fe80::1%eth0",
    "1.2.3.4.5", "2026-13-45T99:99:99Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "00000000-0000-0000-0000-000000000000",
    [], [None], [[]], ["x", "x"], [1] * 2000, [{}], {}, {"": None}, {"x": {"y": [1]}}, {"a" * 300: "b"}, {"id": "x", "name": 1},
)  # fmt: skip
NAMES = (
    "limit", "marker", "sort_key", "sort_dir", "sort", "page_reverse", "offset", "fields", "name", "name~", "id", "status",
    "changes-since", "changes-before", "all_tenants", "project_id", "tenant_id", "tags", "tags-any", "not-tags", "ip",
    "ip6", "created_at", "updated_at", "size_min", "size_max", "member_of", "resources", "required", "in_tree", "group_policy",
    "root_required", "start", "end", "detailed", "with_servers", "hypervisor_hostname_pattern", "metadata", "filters",
    "is_public", "usage", "minRam", "minDisk", "visibility", "owner", "host", "binary", "user_id", "reservation_id", "flavor",
    "image", "deleted", "locked", "config_drive", "with_count", "bootable", "group_id", "cascade", "force", "key", "device_id",
    "fixed_ips", "network_id", "shared", "mac_address", "effective", "include_names", "scope.project.id", "parents_as_list",
    "subtree_as_ids", "parent_id", "domain_id", "enabled", "type", "service_id", "expires_at", "os_hidden", "member_status",
    "since", "wait", "session", "resource_class", "resources1", "required_X", "same_subtree", "name__contains",
    "password_expires_at", "nocatalog", "allow_expired", "action", "x",
)  # fmt: skip


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_simple = st.one_of(st.sampled_from(VALUES), st.text(max_size=12), st.integers(), st.floats(allow_nan=False))
values = st.one_of(
    _simple,
    st.recursive(
        _simple,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=4,
    ),
)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


PATHS = (
    "%ff", "%00", "%", "%zz", "..", ".", "%2e%2e%2f", "%2f", "a%0d%0ab", "*", "a;b=c", "~", "%C0%80", " ", "x", "0", "-1",
    "99999999999999999999999", "9" * 5000, "\u0661", "\U0001f600", "\ud800", "None", "null", "x" * 3000, "'", "{id}",
    "00000000-0000-0000-0000-000000000000", "a" * 32, "detail", "default", "1.5", "1e3", "true", "\u202e", "x,y", "x:y",
)  # fmt: skip
segments = st.one_of(
    st.sampled_from(PATHS).map(lambda text: quote(text, safe="%", errors="surrogatepass")),
    st.text(min_size=1, max_size=10).map(_quoted),
)
QUERIES = (
    "&", "&&==&", "%", "a=%ff", "%00=1", "limit", "limit=", "limit=1&limit=2", "a[]=1", "sort=:::",
    "&".join("a=1" for _ in range(500)), "fields=" + "x," * 500, "sort_key=a&sort_key=b&sort_dir=c", "tags=" + "a," * 300,
    "tags=" + ",".join(f"t{i}" for i in range(300)), "&".join(f"p{i}=1" for i in range(190)),
    "required=" + ",".join(f"CUSTOM_T{i}" for i in range(300)), "&".join(f"tag=t{i}" for i in range(190)),
    "resources=" + ",".join(f"CUSTOM_R{i}:1" for i in range(300)), "&".join(f"name=n{i}" for i in range(190)),
    "&".join(f"resources{i}=VCPU:1" for i in range(60)) + "&group_policy=isolate",
    "&".join(f"member_of=8f2a1a57-7bd5-4f1e-8f7a-0f4d1f7d3b{i:02x}" for i in range(190)),
    "marker=%F0%9F%98%80", ";", "?", "sort_key=name&marker=x&limit=0", "limit=-1", "limit=99999999999999999999",
)  # fmt: skip
queries = st.one_of(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES).map(text_of) | st.text(max_size=8)),
        min_size=1,
        max_size=4,
    ).map(lambda pairs: "&".join(f"{_quoted(name)}={_quoted(value[:3000])}" for name, value in pairs)),
    st.sampled_from(QUERIES),
)  # fmt: skip
RAW: tuple[bytes, ...] = (
    b"", b" ", b"{", b"}", b"[", b"null", b"true", b"1", b'"x"', b"[]", b"{}", b"[{}]", b'{"a":1,"a":2}', b"NaN", b'{"a":NaN}',
    b'{"a":1e999}', b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00", b'{"a":"\xff"}', b'{"a":"\\ud800"}', b'{"\\u0000":1}', b"{} {}",
    b"<xml/>", b"a=1&b=2", b"\x00", b"[" * 100_000, b'{"a":' * 20_000, b'{"a":"' + b"x" * (1 << 20) + b'"}', b"\x1f\x8b\x08\x00",
    b'{"' + b"k" * 70_000 + b'":1}', b"[" + b"1," * 100_000 + b"1]", b'{"a":' + b"9" * 10_000 + b"}",
)  # fmt: skip
HEADERS = (
    ("content-type", "text/plain"), ("content-type", ""), ("content-type", "application/json; charset=utf-16"),
    ("content-type", "multipart/form-data"), ("content-type", "application/octet-stream"), ("content-type", "\xff"),
    ("content-encoding", "gzip"), ("accept", "text/html;q=x"), ("accept", ""), ("accept", "application/xml"),
    ("accept", "application/json;q=9;;,*/*"), ("accept-language", "\xff"), ("host", "a b"), ("host", ""), ("host", "x" * 5000),
    ("host", "evil.example:99999"), ("x-forwarded-host", "\xff"), ("x-forwarded-proto", "gopher"), ("range", "bytes=9-1"),
    ("range", "bytes=a-b,-,5"), ("content-range", "bytes 5-1/x"), ("if-match", "revision_number=x"), ("if-match", "*"),
    ("if-match", "revision_number=99999999999999999999"), ("if-none-match", "\xff"), ("x-auth-token", ""), ("x-auth-token", "\xff\x00"),
    ("x-auth-token", "gAAAA" + "x" * 9000), ("x-subject-token", "\xff"), ("x-subject-token", ""), ("x-subject-token", "x" * 9000),
    ("x-openstack-request-id", "x\ny"), ("x-openstack-request-id", "req-" + "0" * 5000), ("x-roles", "admin"), ("x-service-token", "\xff"),
    ("openstack-api-version", "compute 9999.1"), ("openstack-api-version", "compute"), ("openstack-api-version", "compute x.y"),
    ("openstack-api-version", "compute " + "9" * 6000 + ".1"), ("openstack-api-version", "volume 2.0"),
    ("openstack-api-version", "compute 2.1, compute 2.5,,,"), ("openstack-api-version", "placement 1.999"),
    ("openstack-api-version", "compute -1.1"), ("openstack-api-version", "volume latest"), ("openstack-api-version", "\xff \xff"),
    ("x-openstack-nova-api-version", "2." + "9" * 5000), ("x-openstack-nova-api-version", "latest"),
    ("x-image-meta-size", "x"), ("x-openstack-image-store-ids", "a,,b"), ("content-length", "x"), ("expect", "100-continue"),
    ("transfer-encoding", "chunked"), ("x-agent-token", "\xff"), ("x-error", "\xff" * 100), ("x-openstack-image-size", "-1"),
)  # fmt: skip
headers = st.sampled_from(HEADERS)


def places(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a body."""
    yield path
    items = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in items:
        yield from places(value, (*path, name))


def put(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The body with a value in one place."""
    if not path:
        return value
    copy: Any = list(body) if isinstance(body, list) else dict(body)
    copy[path[0]] = put(copy[path[0]], path[1:], value)
    return copy


def without(body: Any, path: tuple[Any, ...]) -> Any:
    copy: Any = list(body) if isinstance(body, list) else dict(body)
    if len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = without(copy[path[0]], path[1:])
    return copy


def each_place(subject: Subject, good: list[Ask], turn: int) -> Iterator[Ask]:
    """Every place of every path, query and body, spoilt by one value each; other values in each turn.

    What is at fault is known here, so the answer must name it.
    """
    number = turn * 7919

    def following(many: Sequence[T]) -> T:
        nonlocal number
        number += 1
        return many[number % len(many)]

    for ask in good:
        given = [quote(value, safe="") for value in subject.path(ask.area, ask.route)]
        for i in range(len(given)):
            segment = quote(following(PATHS), safe="%", errors="surrogatepass")
            path = path_of(ask.area, ask.route, [*given[:i], segment, *given[i + 1 :]])
            yield replace(ask, path=path)
        if ask.route.method == "GET":
            for _ in range(3):
                yield replace(ask, query=f"{following(NAMES)}={_quoted(text_of(following(VALUES))[:3000])}")
            yield replace(ask, query=following(QUERIES))
        yield ask.with_header(*following(HEADERS))
        if ask.route.method in ("POST", "PUT", "PATCH"):
            yield replace(ask, body=following(RAW))
        for body in subject.bodies(ask.area, ask.route):
            plain = replace(ask, headers=())
            for place in places(body):
                names = tuple(step for step in place if isinstance(step, str))
                value = following(VALUES)
                spoiled = with_json(plain, put(body, place, value), names, value)
                yield replace(spoiled, body_before=json.dumps(body).encode())
                if place:
                    yield with_json(plain, without(body, place), ())


@st.composite
def spoilt(draw: st.DrawFn, body: Any) -> tuple[Any, tuple[str, ...]]:
    """A good body with something wrong in it, and the names around the wrong value if it is one only."""
    path = draw(st.sampled_from(list(places(body))))
    at = body
    for step in path:
        at = at[step]
    names = tuple(step for step in path if isinstance(step, str))
    ways = ["replace"] * 4 + ["remove", "more"] * bool(path) + ["many"] * isinstance(at, list)
    way = draw(st.sampled_from(ways))
    if way == "remove":
        return without(body, path), ()
    if way == "more" and isinstance(at, dict):
        return put(body, path, {**at, draw(st.sampled_from(NAMES) | st.text(max_size=5)): draw(values)}), ()
    if way == "many":
        return put(body, path, at * 500), ()
    return put(body, path, draw(values)), names


@st.composite
def hostile(draw: st.DrawFn, subject: Subject, good: list[Ask]) -> Ask:
    """A good request, spoilt in one or two ways."""
    ask = draw(st.sampled_from(good))
    bodies = subject.bodies(ask.area, ask.route)
    ways = ["path"] * ("{" in ask.route.path) + ["query"] * 2 + ["headers"]
    ways += ["body"] * 6 if bodies else []
    ways += ["raw"] if ask.route.method in ("POST", "PUT", "PATCH") else []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        way = draw(st.sampled_from(ways))
        if way == "body":
            body, wrong = draw(spoilt(draw(st.sampled_from(bodies))))
            ask = with_json(replace(ask, headers=()), body, wrong)
        elif way == "raw":
            ask = replace(ask, body=draw(st.sampled_from(RAW)), wrong=())
        elif way == "path":
            given = [quote(value, safe="") for value in subject.path(ask.area, ask.route)]
            given[draw(st.integers(0, len(given) - 1))] = draw(segments)
            ask = replace(ask, path=path_of(ask.area, ask.route, given), wrong=())
        elif way == "query":
            ask = replace(ask, query=draw(queries), wrong=())
        else:
            ask = replace(ask.with_header(*draw(headers)), wrong=())
    return ask


# --- a cloud that forgets ---


class _Undone(Exception):
    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


@contextlib.contextmanager
def forgetful(db: Database) -> Iterator[None]:
    """While the block runs, every transaction is carried out whole, with what it settles, and rolled back then.

    So each request finds the same cloud, whatever was asked before it.
    """
    write = db.write

    def undone(tx: Tx, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        result = function(tx, *args, **kwargs)
        engine._finish(tx)
        if tx.dialect == "postgresql":
            tx.run("set constraints all immediate")
        raise _Undone(result)

    async def dry(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        try:
            await write(undone, function, args, kwargs)
        except _Undone as found:
            return found.result

    db.write = dry  # type: ignore[method-assign]
    try:
        yield
    finally:
        del db.write  # type: ignore[method-assign]

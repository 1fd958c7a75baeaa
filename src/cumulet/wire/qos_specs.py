"""Bodies of QoS specs. See the Block Storage API reference, "Quality of service (QoS) specifications"."""

from __future__ import annotations

from msgspec import Struct

from cumulet.wire import volume_forms as forms


class Create(Struct, forbid_unknown_fields=True):
    qos_specs: dict[str, str]

    def __post_init__(self) -> None:
        name = self.qos_specs.get("name", "")
        if not name.strip() or len(name.strip()) > 255:
            raise ValueError("name must have 1 to 255 characters that are not all spaces")
        _check(self.qos_specs)


class Update(Struct, forbid_unknown_fields=True):
    qos_specs: dict[str, str]

    def __post_init__(self) -> None:
        if not self.qos_specs:
            raise ValueError("qos_specs must not be empty")
        _check(self.qos_specs)


def _check(specs: dict[str, str]) -> None:
    if specs.get("consumer", "both") not in ("front-end", "back-end", "both"):
        raise ValueError(f"consumer {specs['consumer']!r} is none of front-end, back-end, both")
    rest = {name: value for name, value in specs.items() if name not in ("name", "consumer")}
    forms.pairs(rest, "qos_specs", spaces=False)


class Keys(Struct, forbid_unknown_fields=True):
    keys: list[str]

    def __post_init__(self) -> None:
        if not self.keys or len(self.keys) > 256:
            raise ValueError("keys must name 1 to 256 specs")

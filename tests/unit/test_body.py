"""Errors of bodies name what is wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cumulet.errors import Invalid
from cumulet.wire.body import decode


class Inner(msgspec.Struct):
    metadata: dict[str, str]


class Outer(msgspec.Struct):
    servers: list[Inner]


@pytest.mark.parametrize(
    ("raw", "shape", "said"),
    [
        (
            {"servers": [{"metadata": {"a": "b"}}, {"metadata": {"a": "b", "c": 1}}]},
            Outer,
            "servers.1.metadata.c: Expected `str`, got `int`",
        ),
        ({"a": 1, "b": "x"}, dict[str, int], "b: Expected `int`, got `str`"),
        ({"x": {"y": "z"}}, dict[str, dict[str, int]], "x....: Expected `int`, got `str`"),
        ({"servers": 1}, Outer, "servers: Expected `array`, got `int`"),
        ([], Outer, "thing: Expected `object`, got `array`"),
    ],
)
def test_the_field_is_named(raw: Any, shape: Any, said: str) -> None:
    with pytest.raises(Invalid) as error:
        decode(raw, shape, (1, 0), whole="thing")
    assert error.value.message == f"Invalid input for field/attribute {said}"

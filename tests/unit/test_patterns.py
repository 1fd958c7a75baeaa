"""Expressions of strangers: the same answers as Python's engine gives, and never a long time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cumulet.core.patterns import Malformed, Pattern

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\.", "^", "$"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,1}", "{1,}"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.text("abc.1", max_size=8))
@settings(max_examples=500, deadline=None)
def test_the_same_as_pythons_engine(expression: str, text: str) -> None:
    # Python's $ also matches before a last line break; the texts have none.
    assert Pattern(expression).found_in(text) is (re.search(expression, text) is not None)


@pytest.mark.parametrize(
    ("expression", "text", "found"),
    [
        ("web", "my-web-1", True), ("^web", "my-web-1", False), ("web$", "web", True), ("^$", "", True),
        ("a.c", "xabcx", True), (r"a\.c", "abc", False), ("[]a]", "]", True), ("[a-]", "-", True),
        ("(a|b)+c", "abac", True), ("x*", "", True), ("^(?:ab){2,3}$", "ababab", True),
    ],
)  # fmt: skip
def test_examples(expression: str, text: str, found: bool) -> None:
    assert Pattern(expression).found_in(text) is found


@pytest.mark.parametrize(
    "expression",
    [
        "(", ")", "[a", "*", "a{", "a{x}", "a{2,1}", "(?=a)", r"\1", r"\b", "a" * 256, "a{300}", "[b-a]", "\\",
        "((a{200}){200}){200}", "(" * 30 + ")" * 30, "a|*",
    ],
)  # fmt: skip
def test_what_is_not_an_expression(expression: str) -> None:
    with pytest.raises(Malformed):
        Pattern(expression)


def test_nothing_takes_long() -> None:
    started = time.perf_counter()
    for expression in ("(a*)*b", "(a|aa)+$b", ".*.*.*.*.*x", "(a?){60}a{60}"):
        Pattern(expression).found_in("a" * 255)
    assert time.perf_counter() - started < 2

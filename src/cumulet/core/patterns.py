"""Regular expressions of strangers, matched in time that grows only with the length of the text.

Filters like ``name=`` are expressions that a database would match. Python's own engine can be kept busy for
years by a short one, so these are run by a machine that is in all its states at once. What it knows:
``. [] [^] () | * + ? {m,n} ^ $`` and the escapes ``\\d \\w \\s`` (and their opposites). It looks for a match
anywhere in the text, as SQL's REGEXP does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from cumulet.errors import Invalid

#: Length of an expression, and states of its machine, at the most.
LONGEST = 255
STATES = 2000
DEPTH = 20
_SPECIAL = frozenset(".[]()|*+?{}^$\\")

Test = Callable[[str], bool]
_CLASSES: dict[str, Test] = {
    "d": str.isdigit,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
}


class Malformed(ValueError):
    """The text is not such an expression."""


# --- what an expression consists of ---


class _Character(msgspec.Struct, frozen=True):
    test: Test


class _Edge(msgspec.Struct, frozen=True):
    """``^`` or ``$``."""

    at: str


class _Row(msgspec.Struct, frozen=True):
    parts: Sequence[_Part]


class _Either(msgspec.Struct, frozen=True):
    parts: Sequence[_Part]


class _Repeat(msgspec.Struct, frozen=True):
    part: _Part
    low: int
    high: int | None


_Part = _Character | _Edge | _Row | _Either | _Repeat


class _Reader:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def whole(self) -> _Part:
        part = self._either(0)
        if self.place != len(self.text):
            raise Malformed(f"{self.text[self.place]!r} was not expected at position {self.place + 1}")
        return part

    def _peek(self) -> str:
        return self.text[self.place] if self.place < len(self.text) else ""

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise Malformed("it ends too early")
        self.place += 1
        return character

    def _either(self, depth: int) -> _Part:
        if depth > DEPTH:
            raise Malformed("its parentheses are nested too deeply")
        parts = [self._row(depth)]
        while self._peek() == "|":
            self.place += 1
            parts.append(self._row(depth))
        return _Either(parts) if len(parts) > 1 else parts[0]

    def _row(self, depth: int) -> _Part:
        parts: list[_Part] = []
        while self._peek() not in ("", "|", ")"):
            part = self._one(depth)
            while self._peek() in ("*", "+", "?", "{") and self._peek():
                part = _Repeat(part, *self._times())
            parts.append(part)
        return _Row(parts)

    def _times(self) -> tuple[int, int | None]:
        sign = self._take()
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self._bounds()
        if self._peek() == "?":
            self.place += 1  # as few as possible: the same for whoever only asks whether there is a match
        return low, high

    def _bounds(self) -> tuple[int, int | None]:
        end = self.text.find("}", self.place)
        low_text, comma, high_text = self.text[self.place : max(end, 0)].partition(",")
        if not low_text.isdecimal() or not (high_text.isdecimal() or high_text == ""):
            raise Malformed("a repetition must be {n}, {n,} or {n,m}")
        self.place = end + 1
        low = int(low_text)
        high = (int(high_text) if high_text else None) if comma else low
        if low > LONGEST or (high is not None and not low <= high <= LONGEST):
            raise Malformed(f"a repetition must be from 0 to {LONGEST} times")
        return low, high

    def _one(self, depth: int) -> _Part:
        character = self._take()
        if character == "(":
            if self.text.startswith("?:", self.place):
                self.place += 2
            part = self._either(depth + 1)
            if self._take() != ")":
                raise Malformed("a parenthesis is not closed")
            return part
        if character in "^$":
            return _Edge(character)
        if character in "*+?{":
            raise Malformed(f"there is nothing that {character!r} could repeat")
        return _Character(self._test(character))

    def _test(self, character: str) -> Test:
        if character == ".":
            return lambda c: c != "\n"
        if character == "[":
            return self._set()
        return self._escape(self._take()) if character == "\\" else character.__eq__

    def _escape(self, character: str) -> Test:
        known = _CLASSES.get(character.lower())
        if known is not None:
            return known if character.islower() else lambda c: not known(c)
        if character.isalnum():
            raise Malformed(f"\\{character} is not supported")
        return character.__eq__

    def _set(self) -> Test:
        outside = self._peek() == "^"
        if outside:
            self.place += 1
        tests: list[Test] = []
        while not tests or self._peek() != "]":
            tests.append(self._of_set(self._take()))
        self.place += 1
        return lambda c: any(test(c) for test in tests) is not outside

    def _of_set(self, low: str) -> Test:
        if low == "\\":
            return self._escape(self._take())
        if self._peek() != "-" or self.text[self.place + 1 : self.place + 2] in ("]", ""):
            return low.__eq__
        self.place += 1
        high = self._take()
        if high < low:
            raise Malformed(f"the range {low}-{high} is the wrong way round")
        return lambda c: low <= c <= high


# --- the machine ---


class _State(msgspec.Struct):
    """``test`` None: the state is passed without a character; with ``at`` only at that edge of the text."""

    test: Test | None = None
    at: str = ""
    to: list[int] = []


class Pattern:
    """A compiled expression. Raises Malformed."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise Malformed(f"it has {len(text)} characters; at most {LONGEST} are taken")
        #: The text that is looked for, if the expression is nothing but that.
        self.literal: str | None = None if _SPECIAL & set(text) else text
        self._states: list[_State] = []
        self._start, self._end = self._build(_Reader(text).whole())

    def found_in(self, text: str) -> bool:
        """True if some part of the text matches."""
        if self.literal is not None:
            return self.literal in text
        now = self._reached({self._start}, first=True, last=not text)
        for i, character in enumerate(text):
            if self._end in now:
                return True
            following = {self._start}
            for id in now:
                state = self._states[id]
                if state.test is not None and state.test(character):
                    following.update(state.to)
            now = self._reached(following, first=False, last=i == len(text) - 1)
        return self._end in now

    def _reached(self, ids: set[int], *, first: bool, last: bool) -> set[int]:
        """The states and all that follow without a character."""
        found: set[int] = set()
        open_ = list(ids)
        while open_:
            id = open_.pop()
            state = self._states[id]
            if id in found or (state.at == "^" and not first) or (state.at == "$" and not last):
                continue
            found.add(id)
            if state.test is None:
                open_ += state.to
        return found

    def _state(self, test: Test | None = None, at: str = "") -> int:
        if len(self._states) >= STATES:
            raise Malformed("it is too large; write it with fewer or smaller repetitions")
        self._states.append(_State(test, at, []))
        return len(self._states) - 1

    def _join(self, state: int, *to: int) -> None:
        self._states[state].to += to

    def _build(self, part: _Part) -> tuple[int, int]:
        """The first and the last state of a part."""
        match part:
            case _Character():
                start, end = self._state(part.test), self._state()
                self._join(start, end)
            case _Edge():
                start, end = self._state(None, part.at), self._state()
                self._join(start, end)
            case _Row():
                start = end = self._state()
                for one in part.parts:
                    end = self._append(end, one)
            case _Either():
                start, end = self._state(), self._state()
                for one in part.parts:
                    self._join(self._append(start, one), end)
            case _Repeat():
                return self._repeat(part)
        return start, end

    def _append(self, end: int, part: _Part) -> int:
        first, last = self._build(part)
        self._join(end, first)
        return last

    def _repeat(self, part: _Repeat) -> tuple[int, int]:
        start = end = self._state()
        for _ in range(part.low):
            end = self._append(end, part.part)
        last = self._state()
        if part.high is None:
            loop = self._state()
            self._join(end, loop)
            self._join(self._append(loop, part.part), loop)
            self._join(loop, last)
            return start, last
        for _ in range(part.high - part.low):
            self._join(end, last)
            end = self._append(end, part.part)
        self._join(end, last)
        return start, last


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    """The pattern of an expression. Raises Malformed."""
    return Pattern(text)


def filter_of(name: str, text: str) -> Pattern:
    """The pattern of a list's filter. Raises Invalid, naming the filter."""
    try:
        return compiled(text)
    except Malformed as error:
        raise Invalid(
            f"Invalid input for query parameters {name}: {text[:100]!r} is not a regular expression: {error}."
        ) from None

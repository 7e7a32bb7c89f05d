"""Where calls are judged while they are written.

A judge (``judging``) looks at fragments and knows nothing of how providers write. When its word
counts is decided here: not while the text may be meant in another way, and not for the end of a
container for which more may come. Then the arguments are judged when they are whole.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from argstream.assembly.call import Call
from argstream.events import ArgumentsError
from argstream.jsonstream import Done, Fragment, Parser, Start, Text
from argstream.judging import CallJudge, Judge, Refusal

__all__ = ["Court", "Hearing", "located", "seen"]


class Court:
    """The judge of a stream, and the calls that were refused so far."""

    __slots__ = ("judge", "refused")

    def __init__(self, judge: Judge | None) -> None:
        self.judge = judge
        self.refused: list[Call] = []


class Hearing:
    """One call before its judge."""

    __slots__ = ("_call", "_court", "_has_begun", "_is_named", "_judge", "_waits")

    def __init__(self, call: Call, court: Court) -> None:
        self._call = call
        self._court = court
        self._judge: CallJudge | None = None
        self._has_begun = False
        self._is_named = False
        self._waits = False  # whether only whole arguments count

    def open(self, *, may_grow: bool) -> ArgumentsError | None:
        """Find the judge for the call's name, of which more may come; or why it has none."""
        judge = self._court.judge
        self._is_named = not may_grow
        if judge is None:
            return None
        found = judge.open(self._call.name, self._call.kind, may_grow=may_grow)
        if isinstance(found, ArgumentsError):
            return found
        self._is_named = self._is_named or found is not None
        self._judge = self._call.judge = found
        return None

    def name_is_whole(self) -> ArgumentsError | None:
        """Take the start of the arguments as a sign that no more of the name comes."""
        return None if self._is_named else self.open(may_grow=False)

    def hear(self, fragments: Sequence[Fragment]) -> Refusal | None:
        """Show the judge what the text says; give its refusal, if it counts."""
        if self._judge is None or self._waits or not fragments:
            return None
        if not self._has_begun:
            self._has_begun = True
            if _root_kind(fragments[0]) != "object":  # it may stand for an object
                self._waits = True
                return None
        last = fragments[-1]
        if type(last) is Done and not last.path and not last.value:
            fragments = fragments[:-1]  # of an empty object: the real text may follow
        refusal = self._judge.feed(fragments)
        if refusal is None:
            return None
        if self._call.in_doubt or (self._call.in_leaves and _ends(fragments[refusal.seen - 1])):
            self._waits = True
            return None
        return refusal

    def conclude(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        """Give the judge's final word."""
        if self._judge is None:
            return None
        return self._judge.finish(arguments, as_read=as_read and not self._waits)


def _root_kind(fragment: Fragment) -> str:
    return fragment.kind if isinstance(fragment, Start) else ""


def _ends(fragment: Fragment) -> bool:
    """Say whether it closes an object or an array."""
    return isinstance(fragment, Done) and isinstance(fragment.value, dict | list)


def seen(fragments: list[Fragment], refusal: Refusal) -> list[Fragment]:
    """Give the fragments up to the character that the judge refused."""
    kept = fragments[: refusal.seen]
    if refusal.text is not None:
        kept[-1] = Text(kept[-1].path, refusal.text)
    return kept


def located(refusal: Refusal, raw: str) -> ArgumentsError:
    """Give the error with its exact offset: in a string, a judge counts decoded characters."""
    error, start = refusal.error, refusal.string_start
    if start is None or error.offset is None or "\\" not in raw[start:]:
        return error
    decoded = error.offset - start
    parser = Parser()
    for offset, character in enumerate(raw[start:], start):
        for fragment in parser.feed(character):
            if isinstance(fragment, Text):
                decoded -= len(fragment.text)
        if decoded <= 0:
            return replace(error, offset=offset)
    return error

"""Where calls are judged while they are written.

A judge (``judging``) looks at fragments and knows nothing of how providers write. When its word
counts is decided here: not while the text may be meant in another way, and not after the end of a
container for which more may come. Then the arguments are judged when they are whole.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from argstream.assembly.call import Call
from argstream.events import ArgumentsError
from argstream.jsonstream import Done, Fragment, Invalid, Parser, Start, Text
from argstream.judging import CallJudge, Judge, Refusal

__all__ = ["Court", "Hearing", "StopOn", "located", "read_until", "seen"]

StopOn: TypeAlias = Literal["denied", "rejected", "never"]
"""After what to stop reading: a call that a policy denies, any that is rejected, or nothing."""


class Court:
    """The judge of a stream, and what is to be done about those whom it refuses."""

    __slots__ = ("_stop_on", "judge", "knows_all_tools", "must_stop")

    def __init__(self, judge: Judge | None = None, stop_on: StopOn = "never") -> None:
        self.judge = judge
        self._stop_on = stop_on
        self.must_stop = False
        """Whether a call was refused after which nothing more is to be read."""
        self.knows_all_tools = True
        """Whether a tool that the judge does not know is none; an agent has some of its own."""

    def note(self, call: Call) -> None:
        """Take note of a call that was refused."""
        self.must_stop = self.must_stop or self.is_final(call)

    def is_final(self, call: Call) -> bool:
        """Say whether nothing more is to be read for this call's sake."""
        if call.verdict != "rejected" or call.error is None or self._stop_on == "never":
            return False
        return self._stop_on == "rejected" or call.error.reason == "denied"


class Hearing:
    """One call before its judge."""

    __slots__ = ("_call", "_court", "_has_begun", "_has_left", "_judge", "_may_grow", "_waits")

    def __init__(self, call: Call, court: Court) -> None:
        self._call = call
        self._court = court
        self._judge: CallJudge | None = None
        self._may_grow = False  # whether more of the name may come
        self._has_begun = False
        self._has_left = False  # whether a container ended for which leaves may still come
        self._waits = False  # whether only whole arguments count

    def open(self, *, may_grow: bool) -> ArgumentsError | None:
        """Find the judge for the call's name; say why it is refused for that alone, if it is."""
        judge = self._court.judge
        if judge is None:
            return None
        self._may_grow = may_grow
        found = judge.open(self._call.name, self._call.kind, may_grow=may_grow)
        if isinstance(found, ArgumentsError):
            error: ArgumentsError | None = found
        else:
            self._judge = self._call.judge = found
            error = None if found is None else found.error
        is_unknown = error is not None and error.reason == "unknown_tool"
        return None if is_unknown and not self._court.knows_all_tools else error

    def begin(self) -> ArgumentsError | None:
        """Take the start of the arguments as a sign that no more of the name comes."""
        return self.open(may_grow=False) if self._may_grow else None

    def hear(self, fragments: Sequence[Fragment]) -> Refusal | None:
        """Show the judge what the text says; give its refusal, if it counts."""
        if self._judge is None or self._waits or not fragments:
            return None
        if not self._has_begun:
            self._has_begun = True
            if _root_kind(fragments[0]) != "object":  # it may stand for an object
                self._waits = True
                return None
        refusal = self._judge.feed(_sure(fragments))
        if self._call.in_leaves:
            told = fragments if refusal is None else fragments[: refusal.seen]
            self._has_left = self._has_left or any(map(_ends, told))
        if refusal is not None and (self._call.in_doubt or self._has_left):
            self._waits = True
            return None
        return refusal

    def conclude(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        """Give the judge's final word."""
        if self._judge is None:
            return None
        return self._judge.finish(arguments, as_read=as_read and not self._waits)


def _sure(fragments: Sequence[Fragment]) -> Sequence[Fragment]:
    """Leave out the end of an empty object: the real text may follow."""
    end = len(fragments) - (type(fragments[-1]) is Invalid)
    if end and type(last := fragments[end - 1]) is Done and not last.path and not last.value:
        return fragments[: end - 1]
    return fragments


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


def read_until(last: Fragment, error: ArgumentsError) -> int:
    """Say how much of the text had to be read to refuse it, by the fragment that decided."""
    if isinstance(last, Text):
        return (error.offset or 0) + 1
    return last.offset if isinstance(last, Done) else last.offset + 1


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

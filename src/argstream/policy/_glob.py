"""Globs, matched in one pass over the text, whatever the pattern.

The pattern is the operator's, but the text is the model's: ``*a*a*a*b`` as a regular expression
would try every way to place the stars, and a text of a few thousand ``a`` would stop the process.
So the pattern is a small automaton whose states are the bits of one integer. Each character moves
all of them at once.
"""

import re
from typing import Final, NamedTuple, TypeAlias

from argstream.errors import UsageError

__all__ = ["CompiledGlob", "is_glob"]

_SPECIAL: Final = frozenset("*?[")
_SLASH: Final = "/"
_DIRECTORIES: Final = re.compile(r"(?:\*{2,}/)+")  # once more says nothing more


class _Set(NamedTuple):
    """What stands in brackets."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool


# What has to be there to come from a state to the next: this character, one of a set, any one
# (True), or nothing can be (None): the state is reached in another way.
_Step: TypeAlias = str | _Set | bool | None


def is_glob(text: str) -> bool:
    """Say whether a text is more than itself as a glob."""
    return not _SPECIAL.isdisjoint(text)


class CompiledGlob:
    """A glob, ready to be compared with whole texts.

    With ``paths``, ``*``, ``?`` and a set stop at ``/``, ``**`` does not, and ``**/`` stands for
    any number of directories, none among them. Without, a slash is a character like any other.
    """

    __slots__ = ("_any", "_end", "_entries", "_paths", "_segment", "_steps")

    def __init__(self, pattern: str, *, paths: bool) -> None:
        self._paths = paths
        self._steps: list[_Step] = []
        self._any = 0  # the states that stay whatever comes
        self._segment = 0  # those that stay until a slash comes
        self._entries = 0  # those in front of **/, which may also be skipped
        self._compile(pattern)
        self._end = 1 << len(self._steps)

    def matches(self, text: str) -> bool:
        """Say whether the text, all of it, is what the pattern describes."""
        moves: dict[str, tuple[int, int]] = {}
        entries, end = self._entries, self._end
        certain = self._any & end
        states = self._skip(1)
        for character in text:
            if states & certain:
                return True
            move = moves.get(character)
            if move is None:
                move = moves[character] = self._move(character)
            entered, stays = move
            states = (states << 1) & entered | states & stays
            if not states:
                return False
            if states & entries:
                states = self._skip(states)
        return bool(states & end)

    def _skip(self, states: int) -> int:
        entered = states & self._entries
        return states | entered << 1 | entered << 2

    def _move(self, character: str) -> tuple[int, int]:
        """Give the states that this character leads to, and those that it leaves as they are."""
        is_slash = self._paths and character == _SLASH
        entered = 0
        for number, step in enumerate(self._steps, 1):
            if isinstance(step, str):
                fits = step == character
            elif isinstance(step, _Set):
                inside = any(first <= character <= last for first, last in step.ranges)
                fits = inside is not step.negated and not is_slash
            else:
                fits = step is True and not is_slash
            if fits:
                entered |= 1 << number
        return entered, self._any if is_slash else self._any | self._segment

    def _compile(self, pattern: str) -> None:
        place = 0
        while place < len(pattern):
            character = pattern[place]
            if character == "*":
                place = self._stars(pattern, place)
                continue
            if character == "[":
                place, step = _set(pattern, place)
                self._steps.append(step)
                continue
            if character in "{}\\":
                raise UsageError(
                    f"the glob {pattern!r} has {character!r} in it, which globs read in different "
                    f"ways: for the character itself write [{character}], for alternatives give "
                    "several globs"
                )
            self._steps.append(True if character == "?" else character)
            place += 1

    def _stars(self, pattern: str, place: int) -> int:
        """Read stars, and the slash that belongs to them; return where the pattern goes on."""
        begins_segment = self._paths and (place == 0 or pattern[place - 1] == _SLASH)
        directories = _DIRECTORIES.match(pattern, place) if begins_segment else None
        if directories is not None:
            entry = 1 << len(self._steps)
            self._entries |= entry
            self._any |= entry << 1
            self._steps += (None, _SLASH)
            return directories.end()
        end = place
        while pattern[end : end + 1] == "*":
            end += 1
        if self._paths and end - place == 1:
            self._segment |= 1 << len(self._steps)
        else:
            self._any |= 1 << len(self._steps)
        return end


def _set(pattern: str, start: int) -> tuple[int, _Set]:
    """Read ``[abc]``, ``[a-z]`` or ``[!abc]``; a ``]`` may stand first."""
    place = start + 1
    negated = pattern[place : place + 1] in ("!", "^")
    place += negated
    end = pattern.find("]", place + 1)
    if end < 0:
        raise UsageError(f"the glob {pattern!r} has a '[' without its ']': write [[] for a bracket")
    ranges = []
    while place < end:
        first = last = pattern[place]
        if pattern[place + 1] == "-" and place + 2 < end:
            last = pattern[place + 2]
            place += 2
        if first > last:
            raise UsageError(f"the glob {pattern!r}: nothing lies between {first!r} and {last!r}")
        ranges.append((first, last))
        place += 1
    return end + 1, _Set(tuple(ranges), negated)

"""The rules of one state of a lexer, and which of them matches first.

There are dozens of them, and to ask one after the other is most of the work of lexing. As a single
pattern with an alternative for each they are tried in the same order, and it costs half as much.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

__all__ = ["Rule", "Rules"]

_Match: TypeAlias = Callable[[str, int], re.Match[str] | None]
Rule: TypeAlias = tuple[_Match, Any, Any]
"""As Pygments has it: what matches, what is made of it, and the state that follows."""

# What means something else inside a larger pattern: references to groups, and their names.
_refers: Final = re.compile(r"\\[1-9]|\(\?P|\(\?\(").search
_flags_first: Final = re.compile(r"\A\(\?[ims]+\)")
_LETTERS: Final = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_ALLOWED: Final = re.UNICODE | re.IGNORECASE | re.MULTILINE | re.DOTALL
_LARGE: Final = 20_000  # characters of patterns: more take too long to compile


class Rules:
    """Finds the first rule that matches."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._combined: tuple[_Match, dict[int | None, Rule]] | None = None

    def first(self, line: str, position: int) -> tuple[re.Match[str], Any, Any] | None:
        """Give its match, what is made of it, and the state that follows."""
        rules = self._rules
        if self._combined is not None:
            match_any, by_group = self._combined
            which = match_any(line, position)
            if which is None:
                return None
            rules = (by_group[which.lastindex],)
        for match_here, action, new_state in rules:
            match = match_here(line, position)
            if match is not None:
                return match, action, new_state
        return None

    def combine(self) -> None:
        """Make one pattern of all, if they allow it; it takes some milliseconds."""
        self._combined = _combined(self._rules)


def _combined(rules: Sequence[Rule]) -> tuple[_Match, dict[int | None, Rule]] | None:
    """Give what matches as any of the rules, and which it was by the last group of the match."""
    by_group: dict[int | None, Rule] = {}
    alternatives = []
    group = 0
    for rule in rules:
        pattern = getattr(rule[0], "__self__", None)
        if not isinstance(pattern, re.Pattern):  # Pygments has other things that match
            return None
        if pattern.flags & ~_ALLOWED or _refers(pattern.pattern):
            return None
        letters = "".join(letter for flag, letter in _LETTERS.items() if pattern.flags & flag)
        # The empty group at its end tells that it was this one.
        alternatives.append(f"(?{letters}:{_flags_first.sub('', pattern.pattern)})()")
        group += pattern.groups + 1
        by_group[group] = rule
    pattern = "|".join(alternatives)
    return (re.compile(pattern).match, by_group) if len(pattern) <= _LARGE else None

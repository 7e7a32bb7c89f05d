"""What somebody has changed of a call's arguments, to be seen before it runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final

from argstream.terminal._readable_json import readable, same
from argstream.terminal.spans import Line, Role, Span, shown

__all__ = ["argument_changes"]

_BLANK: Final = "·"


def argument_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Line]:
    """Show by argument what was taken away and what is new; nothing if both say the same.

    Short values stand one below the other; texts of several lines, and what else takes several
    lines, as a diff with three lines around each change.
    """
    lines: list[Line] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if name not in before:
            lines += [_heading(name, "new"), *_rows("+", "added", _lines(new, [new]))]
        elif name not in after:
            lines += [_heading(name, "taken away"), *_rows("-", "removed", _lines(old, [old]))]
        elif not same(old, new):
            lines += [
                _heading(name),
                *_difference(_lines(old, [old, new]), _lines(new, [old, new])),
            ]
    return lines


def _lines(value: object, values: Sequence[object]) -> list[str]:
    """Give a value as lines of text: a text as it is if that helps and cannot mislead."""
    are_texts = all(isinstance(one, str) for one in values)
    if isinstance(value, str) and are_texts and any("\n" in str(one) for one in values):
        return value.split("\n")  # a newline at the end is an empty line more
    return readable(value).split("\n")


def _heading(name: str, what: str = "") -> Line:
    spans = (shown(name, "argument"), Span(f"  {what}" if what else "", "faint"))
    return Line(spans, (Span("  "),))


def _difference(old: list[str], new: list[str]) -> Iterator[Line]:
    if len(old) == 1 and len(new) == 1:
        yield from _rows("-", "removed", old)
        yield from _rows("+", "added", new)
        return
    if old[-1] == new[-1] == "":  # both end with a newline
        old, new = old[:-1], new[:-1]
    for text in list(unified_diff(old, new, lineterm=""))[2:]:  # without the names of files
        match text[0]:
            case "@":
                yield Line((Span(text, "place"),), (Span("  "),))
            case "-":
                yield _row("-", "removed", text[1:])
            case "+":
                yield _row("+", "added", text[1:])
            case _:
                yield _row(" ", "faint", text[1:])


def _rows(sign: str, role: Role, texts: Iterable[str]) -> Iterator[Line]:
    return (_row(sign, role, text) for text in texts)


def _row(sign: str, role: Role, text: str) -> Line:
    """Show a line of a text; blanks at its end would not be seen, and are marked."""
    kept = text.rstrip(" ")
    spans = (shown(kept, role), Span(_BLANK * (len(text) - len(kept)), "warning"))
    return Line(spans, (Span(f"  {sign} ", role),))

"""What a docstring says of a function, and what of each parameter.

Three styles are read: Google's ``Args:``, NumPy's underlined ``Parameters``, and ``:param name:``.
Only what is unambiguous: if one entry of a section is not of the form, or is about what is no
parameter, the section is left in the text as it stands.
"""

import inspect
import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

__all__ = ["Told", "read_docstring"]

_GOOGLE: Final = re.compile(r"(Args|Arguments|Parameters):\s*")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:(?:\s+(.*)|$)")
_NUMPY: Final = re.compile(r"(Other )?Parameters\s*")
_NUMPY_ENTRY: Final = re.compile(r"\*{0,2}(\w+)(?:\s*:\s.*)?")
_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_FIELD: Final = re.compile(
    r":(param|parameter|arg|argument|type)\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)"
)


class Told(NamedTuple):
    """What a docstring says."""

    description: str
    parameters: dict[str, str]


class _Section(NamedTuple):
    end: int
    parameters: dict[str, str]


def read_docstring(text: str, names: Collection[str]) -> Told:
    """Read a docstring of a function whose parameters have these names."""
    lines = inspect.cleandoc(text).splitlines()
    parameters: dict[str, str] = {}
    number = 0
    kept: list[str] = []
    while number < len(lines):
        section = _section(lines, number, names)
        if section is None:
            kept.append(lines[number])
            number += 1
        else:
            parameters.update(section.parameters)
            number = section.end
            while number < len(lines) and not lines[number].strip() and not (kept and kept[-1]):
                number += 1
    told = {name: words for name, words in parameters.items() if words}
    return Told("\n".join(kept).strip(), told)


def _section(lines: list[str], start: int, names: Collection[str]) -> _Section | None:
    line = lines[start]
    if _GOOGLE.fullmatch(line):
        return _google(lines, start, names)
    if _NUMPY.fullmatch(line) and start + 1 < len(lines) and _UNDERLINE.fullmatch(lines[start + 1]):
        return _numpy(lines, start, names)
    if (field := _FIELD.fullmatch(line)) and field[2] in names:
        return _rest_field(lines, start, field)
    return None


def _google(lines: list[str], start: int, names: Collection[str]) -> _Section | None:
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][0].isspace()):
        end += 1
    body = inspect.cleandoc("\n" + "\n".join(lines[start + 1 : end])).splitlines()
    parameters = _entries(body, _GOOGLE_ENTRY, names)
    return None if parameters is None else _Section(end, parameters)


def _numpy(lines: list[str], start: int, names: Collection[str]) -> _Section | None:
    end = start + 2
    while end < len(lines) and not _is_numpy_header(lines, end):
        end += 1
    parameters = _entries(lines[start + 2 : end], _NUMPY_ENTRY, names)
    return None if parameters is None else _Section(end, parameters)


def _is_numpy_header(lines: list[str], number: int) -> bool:
    return number + 1 < len(lines) and bool(_UNDERLINE.fullmatch(lines[number + 1]))


def _entries(
    body: list[str], form: re.Pattern[str], names: Collection[str]
) -> dict[str, str] | None:
    """Read entries that begin at the margin and go on indented; None if one is no such entry."""
    found: dict[str, list[str]] = {}
    for line, is_entry in _marked(body):
        if not is_entry:
            if not found:
                return None
            found[next(reversed(found))].append(line)
            continue
        entry = form.fullmatch(line)
        if entry is None or entry[1] not in names or entry[1] in found:
            return None
        found[entry[1]] = [entry[2] or ""] if form.groups > 1 else []
    return {name: _joined(told) for name, told in found.items()} or None


def _marked(body: list[str]) -> Iterator[tuple[str, bool]]:
    for line in body:
        yield line.strip(), bool(line.strip()) and not line[0].isspace()


def _rest_field(lines: list[str], start: int, field: re.Match[str]) -> _Section:
    end = start + 1
    while end < len(lines) and lines[end].strip() and lines[end][0].isspace():
        end += 1
    told = _joined([field[3], *lines[start + 1 : end]])
    return _Section(end, {} if field[1] == "type" else {field[2]: told})


def _joined(told: list[str]) -> str:
    """Join lines to paragraphs: how they were wrapped says nothing."""
    text = "\n".join(line.strip() for line in told).strip()
    return "\n\n".join(" ".join(part.split("\n")) for part in re.split(r"\n\n+", text))

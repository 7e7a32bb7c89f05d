"""The oracle for Parser.value: the value of a prefix of a valid text.

Cut off the uncertain end, close what is open, and let json.loads read the result. The longest
prefix for which that works gives the value.
"""

import re
from typing import Any

from argstream.jsonstream import PENDING
from tests.support import loads


def value_so_far(prefix: str) -> Any:
    _, string_start = _open_parts(prefix)
    if string_start is None:
        prefix = re.sub(r"(-?[0-9][-+.eE0-9]*|-)\Z", "", prefix)  # a number may go on
    else:
        prefix = _without_lone_surrogate(prefix, string_start)
    for length in range(len(prefix), 0, -1):
        closing, _ = _open_parts(prefix[:length])
        try:
            return loads(prefix[:length] + closing)
        except ValueError:
            continue
    return PENDING


def _open_parts(text: str) -> tuple[str, int | None]:
    """Return the quote and brackets that close the text, and where its open string begins."""
    closing = ""
    string_start: int | None = None
    escaped = False
    for index, char in enumerate(text):
        if string_start is not None:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                string_start = None
        elif char == '"':
            string_start = index
        elif char in "{[":
            closing = {"{": "}", "[": "]"}[char] + closing
        elif char in "}]":
            closing = closing[1:]
    return ('"' if string_start is not None else "") + closing, string_start


def _without_lone_surrogate(prefix: str, string_start: int) -> str:
    """Drop a high surrogate at the end if its partner is missing or incomplete."""
    starts = []
    index = string_start + 1
    while index < len(prefix):
        starts.append(index)
        if prefix[index] != "\\":
            index += 1
        elif prefix[index + 1 : index + 2] == "u":
            index += 6
        else:
            index += 2
    units = [prefix[start : start + 6] for start in starts]
    if units and _is_high_surrogate(units[-1]):
        return prefix[: starts[-1]]
    if len(units) > 1 and _is_high_surrogate(units[-2]) and _may_become_low_surrogate(units[-1]):
        return prefix[: starts[-2]]
    return prefix


def _is_high_surrogate(unit: str) -> bool:
    return re.fullmatch(r"\\u[dD][89abAB][0-9a-fA-F]{2}", unit) is not None


def _may_become_low_surrogate(unit: str) -> bool:
    partners = (f"\\u{code:04x}" for code in range(0xDC00, 0xE000))
    return len(unit) < 6 and any(partner.startswith(unit.lower()) for partner in partners)

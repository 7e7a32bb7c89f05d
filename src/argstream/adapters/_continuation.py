r"""What is missing of a JSON text, told by the value that it was to become.

Who has only the value does not know how its text was written: with or without spaces, ``é`` or
``\u00e9``, ``1`` or ``1.0``. So the text is read token by token beside one that is written from the
value, and tokens are compared by what they mean. The last one may be cut anywhere.
"""

import json
import re
from typing import Any, Final

__all__ = ["parsed", "rest_of", "same"]

# A string may lack its end; all else ends where something else begins.
_TOKEN: Final = re.compile(
    r'[ \t\n\r]*+([{}\[\]:,]|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\\Z)?+|[^\s{}\[\]:,"]+)', re.DOTALL
)
_BODY: Final = re.compile(r'"((?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{4})*+)(\\(?:u[0-9a-fA-F]{0,3})?)?')
_HALF_OF_A_PAIR: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")


def parsed(text: str) -> Any:
    """Give the value of a text that is whole, None of any other."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def same(one: Any, other: Any) -> bool:
    """Say whether two JSON values are the same, where 1.0 is 1, as in JavaScript, but not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if _is_number(one) and _is_number(other):
        return one == other or _as_double(one) == _as_double(other)
    return type(one) is type(other) and bool(one == other)


def rest_of(text: str, value: Any) -> str | None:
    """Give what must follow a text that is cut, so that it becomes this value; None if it cannot.

    >>> rest_of('{"path":"a.py", "li', {"path": "a.py", "lines": [1, 2]})
    'nes": [1, 2]}'
    >>> rest_of('{"path":"b', {"path": "a.py"}) is None
    True
    """
    whole = json.dumps(value, ensure_ascii=False)
    at = end = 0
    while token := _TOKEN.match(text, at):
        wanted = _TOKEN.match(whole, end)
        if wanted is None:
            return None
        at, end = token.end(), wanted.end()
        if at == len(text):
            rest = _rest_of_token(token[1], wanted[1])
            return None if rest is None else rest + whole[end:]
        if token[1] != wanted[1] and not _mean_the_same(token[1], wanted[1]):
            return None
    return None if text[at:].strip() else whole[end:]


def _rest_of_token(token: str, wanted: str) -> str | None:
    if wanted.startswith(token):
        return wanted[len(token) :]
    if token.startswith('"'):
        return _rest_of_string(token, wanted) if wanted.startswith('"') else None
    # A number may be written longer than needed: 1.0, or 1. so far.
    return next((zero for zero in ("", "0") if _mean_the_same(token + zero, wanted)), None)


def _mean_the_same(token: str, wanted: str) -> bool:
    value = parsed(token)
    return value is not None and same(value, parsed(wanted))


def _rest_of_string(token: str, wanted: str) -> str | None:
    found, string = _BODY.fullmatch(token), parsed(wanted)
    if found is None:  # it has its end
        return "" if parsed(token) == string else None
    body, escape = found[1], found[2] or ""
    if half := _HALF_OF_A_PAIR.search(body):
        body, escape = body[: half.start()], half[0] + escape
    known = parsed(f'"{body}"')
    if known is None or not string.startswith(known):
        return None
    rest = string[len(known) :]
    begun = _rest_of_escape(escape, rest[:1])
    if begun is None:
        return None
    return begun + json.dumps(rest[bool(escape) :], ensure_ascii=False)[1:]


def _rest_of_escape(escape: str, character: str) -> str | None:
    """Give the end of an escape that has begun, if it can be one of this character."""
    if not escape:
        return ""
    # The short form, or the pair that stands for it; and the long form.
    forms = [json.dumps(character)[1:-1], *(f"\\u{ord(one):04x}" for one in character)]
    fitting = (form for form in forms if form.lower().startswith(escape.lower()))
    found = next((form[len(escape) :] for form in fitting), None)
    return None if found is None or parsed(f'"{escape}{found}"') != character else found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")

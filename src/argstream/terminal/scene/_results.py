"""What came of a call, as lines: long ones are folded, and that is said."""

import json
from typing import Any, Final

from argstream.terminal.scene._texts import text_span
from argstream.terminal.spans import Breaks, Line, Role, Span

__all__ = ["failure_lines", "folded_lines", "result_lines"]

_FIRST: Final = 10
_LAST: Final = 5
_LONGEST: Final = 600
_RESULT: Final = "  └ "
_FAILURE: Final = "  ✗ "
_REST: Final = "    "
_AS_ABOVE: Final = "(the output above)"
_PROSE: Final[Breaks] = "words"
_VALUES: Final[Breaks] = "anywhere"


def result_lines(result: Any, output: str = "") -> list[Line]:
    """Give what a tool returned; what it has said already is not repeated."""
    said = output.strip()
    result = _text_of_blocks(result)
    if isinstance(result, str):
        text, breaks = _without(result, said), _PROSE
    else:
        if isinstance(result, dict):
            result = {key: _without(value, said) for key, value in result.items()}
        text, breaks = json.dumps(result, ensure_ascii=False, default=repr), _VALUES
    text = text.rstrip("\n")
    if not text or text == _AS_ABOVE:
        return []
    return folded_lines(text, _RESULT, _REST, breaks=breaks)


def failure_lines(error: Any) -> list[Line]:
    """Give why nothing came of a call."""
    is_text = isinstance(error, str)
    text = error if is_text else json.dumps(error, ensure_ascii=False, default=repr)
    return folded_lines(text.rstrip("\n") or "failed", _FAILURE, _REST, "bad")


def folded_lines(
    text: str, margin: str, rest: str, role: Role = "plain", breaks: Breaks = _PROSE
) -> list[Line]:
    """Give the lines of a text without the middle of many; a single line is never hidden."""
    texts = text.split("\n")
    hidden = len(texts) - _FIRST - _LAST
    if hidden < 2:
        first, last, between = texts, [], []
    else:
        first, last = texts[:_FIRST], texts[-_LAST:]
        between = [Line((Span(f"… {hidden} more lines", "faint"),), (Span(rest, "faint"),))]
    return [
        *(
            _line(text, rest if place else margin, rest, role, breaks)
            for place, text in enumerate(first)
        ),
        *between,
        *(_line(text, rest, rest, role, breaks) for text in last),
    ]


def _line(text: str, margin: str, rest: str, role: Role, breaks: Breaks) -> Line:
    hidden = len(text) - _LONGEST
    spans = [text_span(text if hidden < 2 else text[:_LONGEST], role)]
    if hidden >= 2:
        spans.append(Span(f" … {hidden} more characters", "faint"))
    margin_role: Role = "bad" if role == "bad" else "faint"
    return Line(tuple(spans), (Span(margin, margin_role),), (Span(rest, margin_role),), breaks)


def _text_of_blocks(result: Any) -> Any:
    """Give the text alone of what is nothing but blocks of text, as many tools return it."""
    if not isinstance(result, list) or not result:
        return result
    texts = []
    for block in result:
        match block:
            case {"type": "text", "text": str(text), **rest} if not rest:
                texts.append(text)
            case _:
                return result
    return "\n".join(texts)


def _without(value: Any, said: str) -> Any:
    """Leave out of a text what was said before it."""
    if not said or not isinstance(value, str):
        return value
    if value.strip() == said:
        return _AS_ABOVE
    if value.rstrip().endswith("\n" + said):
        return value.rstrip().removesuffix(said) + _AS_ABOVE
    # A short one may stand there by chance.
    return value.replace(said, _AS_ABOVE, 1) if len(said) > len(_AS_ABOVE) else value

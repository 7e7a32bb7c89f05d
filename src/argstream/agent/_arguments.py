"""The exact text of a call's arguments, and fresh values of it."""

import json
from typing import Any

from argstream.agent.tools import is_as_streamed, parsed_anew
from argstream.assembly import Call

__all__ = ["exact_text", "read_arguments", "written"]


def exact_text(call: Call) -> str:
    """Give the text of a complete call: as it came, or as it was meant if that differs."""
    if is_as_streamed(call) and call.raw.strip():
        return call.raw
    return written(call.arguments)


def read_arguments(text: str) -> dict[str, Any]:
    """Read the text of complete arguments: a value that nobody else has."""
    arguments: Any = parsed_anew(text).value
    assert isinstance(arguments, dict), "the text of a complete call is an object"  # noqa: S101 - or the loop is wrong
    return arguments


def written(arguments: object) -> str:
    """Write arguments as text; raises TypeError or ValueError for what is no JSON."""
    return json.dumps(arguments, ensure_ascii=False, allow_nan=False)

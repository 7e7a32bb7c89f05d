"""What a model gets to read of calls and their results: texts that every API takes."""

import json
import re
from typing import Any, Final

from argstream.errors import UsageError
from argstream.history import CallPart, ResultPart

__all__ = ["arguments_object", "arguments_text", "error_text", "result_text", "sendable"]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOTHING: Final = "(no output)"  # some servers refuse an empty text, and no model minds this one


def sendable(text: str) -> str:
    """Give the same text in a form that can be encoded (names of files may hold surrogates)."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def result_text(part: ResultPart) -> str:
    """Give what came of a call: its note, if it has one, and its result, a text or else JSON."""
    if isinstance(part.result, str):
        text = part.result
    else:
        text = _written(part.result, f"the result of the call {part.call_id}")
    text = "\n\n".join(piece for piece in (part.note, text) if piece.strip())
    return sendable(text) or _NOTHING


def error_text(part: ResultPart) -> str:
    """Give that for an API in which only the text can say that a call failed."""
    text = result_text(part)
    return f"Error: {text}" if part.failed else text


def arguments_object(call: CallPart) -> dict[str, Any]:
    """Give the arguments of a call as the object that an API wants; free text is put into one."""
    arguments = call.arguments
    return arguments if isinstance(arguments, dict) else {"input": sendable(arguments)}


def arguments_text(call: CallPart) -> str:
    """Give the arguments of a call as JSON text: exactly what came, if that is what it meant.

    Servers parse what they get back. So a text that is cut or malformed is told in an object
    (``INVALID_JSON``), and one that was read in another way than as it stands is written anew.
    """
    arguments = arguments_object(call)
    if call.verdict == "complete" and _read(call.raw) == arguments:
        return call.raw
    return _written(arguments, f"what the call {call.call_id} was called with")


def _read(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None  # then it is not what the call was taken for


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _written(value: object, what: str) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} cannot be written as JSON: {error}") from None
    return sendable(text)

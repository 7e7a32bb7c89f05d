"""What comes of a tool: its result as JSON-able data, or why it failed, in words.

A result is written as JSON and read again. So it is plain data of its own: what the tool does to
its objects afterwards changes no event.
"""

import json
from functools import partial
from typing import Any, Final

import msgspec

from argstream.agent.tools.context import encodable
from argstream.errors import ArgstreamError, ToolFailure

__all__ = ["failure_parts", "failure_words", "jsonable"]

_LONGEST: Final = 4_000  # characters of an error: it is for a model, which pays for each
_MOST_CAUSES: Final = 8


def jsonable(result: object, name: str) -> Any:
    """Give a result as JSON-able data; what JSON has no form for, as its ``str()``.

    Raises ``ToolFailure`` if that cannot be: it refers to itself, is too deep, or falls over.
    """
    if isinstance(result, str):  # what most tools give
        return encodable(result)
    try:
        return json.loads(_json(result))
    except Exception as error:
        why = failure_words(error)
        raise ToolFailure(
            f"{name} has run, but what it returned cannot be written as JSON: {why}"
        ) from error


def failure_words(error: BaseException) -> str:
    """Say in words for a model why a tool failed: what was raised, and nothing of where."""
    return _shortened(_joined(*failure_parts(error)))


def failure_parts(error: BaseException) -> tuple[str | None, str]:
    """Give the kind of a failure, unless the words say it, and the words."""
    try:
        message = str(error)
    except Exception as broken:  # noqa: BLE001 - a message that cannot be had must not hide the error
        message = f"(its message cannot be had: {type(broken).__name__})"
    if isinstance(error, BaseExceptionGroup):
        parts = [_joined(*failure_parts(one)) for one in error.exceptions[:_MOST_CAUSES]]
        return None, encodable(f"{message}: {'; '.join(parts)}")
    kind: str | None = type(error).__name__
    if isinstance(error, ToolFailure):
        kind = error.kind
    elif isinstance(error, ArgstreamError | TimeoutError) and message:
        kind = None  # it says itself what is the case
    return kind, encodable(message)


def _joined(kind: str | None, message: str) -> str:
    return ": ".join(part for part in (kind, message) if part)


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    left_out = len(text) - _LONGEST
    half = _LONGEST // 2
    return f"{text[:half]} … ({left_out} characters left out) … {text[-half:]}"


def _json(result: object) -> bytes:
    from pydantic_core import (  # noqa: PLC0415 - an extra
        PydanticSerializationError,
        to_json,
        to_jsonable_python,
    )

    try:
        # Bytes are text if they can be.
        return to_json(result, inf_nan_mode="strings", fallback=_plain)
    except PydanticSerializationError:
        dump = partial(
            to_jsonable_python, inf_nan_mode="strings", bytes_mode="base64", fallback=_plain
        )
    try:
        plain = dump(result)
    except UnicodeEncodeError:  # in a key
        plain = dump(_encodable(result))
    return to_json(_encodable(plain), inf_nan_mode="strings")


def _plain(value: Any) -> Any:
    """Give what pydantic has no form for in one that it has."""
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if callable(getattr(value, "tolist", None)):  # arrays and numbers of numpy
        return value.tolist()
    return str(value)


def _encodable(plain: Any) -> Any:
    match plain:
        case str():
            return encodable(plain)
        case list():
            return [_encodable(item) for item in plain]
        case dict():
            return {_encodable(key): _encodable(item) for key, item in plain.items()}
        case _:
            return plain

"""How Gemini's payloads become structs, whoever spelled them.

Names are in camelCase on the wire, and in snake_case in Google's SDK and behind some proxies. The
structs have the latter; Google's own JSON is decoded straight into them, and everything else is
brought to these names first.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from argstream.adapters._payloads import (
    PayloadReader,
    UnreadableError,
    fields_of,
    plain,
    text_of,
    total,
)
from argstream.adapters._spelling import camel_cased, names_in, snake, snake_cased
from argstream.deltas import ProviderFailed, Tokens

__all__ = [
    "NO_USAGE",
    "VITAL_OF_PARTS",
    "Content",
    "FunctionCall",
    "GeminiReader",
    "Part",
    "PartialArg",
    "Payload",
    "Sent",
    "UsageMetadata",
    "as_sent",
    "failure",
    "field_of",
]

_RETRYABLE: Final = {
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "INTERNAL",
    "DEADLINE_EXCEEDED",
    "ABORTED",
}
_OF_ANY_NAMES: Final = {"args", "response", "part_metadata", "error"}
_SNAKE_CASED: Final = re.compile(rb'"[a-z]+(?:_[a-z]+)+"\s*:')
_TEXT = (bytes, bytearray, str)


VITAL_OF_PARTS: Final = {
    "parts",
    "text",
    "function_call",
    "name",
    "args",
    "partial_args",
    "json_path",
    "string_value",
    "bool_value",
    "will_continue",
}
"""Fields that carry a piece of what is said, wherever parts and calls are."""


class PartialArg(Struct, gc=False, rename="camel"):
    """A leaf of a call's arguments, or a piece of one."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: Any = None
    bool_value: bool | None = None
    will_continue: bool | None = None


class FunctionCall(Struct, gc=False, rename="camel"):
    """A call, whole or in pieces. A piece has no name; an empty one ends the call."""

    name: str | None = None
    id: str | None = None
    args: dict[str, Any] | None = None
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class Part(Struct, gc=False, rename="camel"):
    """What is nearly always in a part. The rest is looked up where a part has none of it."""

    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    thought_signature: str | None = None


class Content(Struct, gc=False, rename="camel"):
    """The parts of a message."""

    parts: list[Part] | None = None


class UsageMetadata(Struct, gc=False, rename="camel"):
    """The usage so far. Live sessions count ``response`` tokens instead of ``candidates``."""

    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    response_token_count: int | None = None
    thoughts_token_count: int | None = None

    def tokens(self) -> Tokens:
        """Return the token counts. Thinking is part of the output, as with other providers."""
        written = self.candidates_token_count, self.response_token_count
        return Tokens(
            input_tokens=total(self.prompt_token_count, self.tool_use_prompt_token_count),
            output_tokens=total(*written, self.thoughts_token_count),
            cache_read_tokens=self.cached_content_token_count,
            reasoning_tokens=self.thoughts_token_count,
        )


NO_USAGE: Final = UsageMetadata()
"""The usage in all chunks of Vertex but the last: an object without counts."""


class Payload(Struct, gc=False, rename="camel"):
    """What every payload may have."""

    usage_metadata: UsageMetadata | None = None
    error: Any = None


StructType = TypeVar("StructType", bound=Payload)


class GeminiReader(Generic[StructType]):
    """Reads payloads with names of either kind, in whatever form they come."""

    def __init__(self, struct: type[StructType], vital: set[str]) -> None:
        """Read into this struct. A payload is unreadable if a vital field is of a wrong type."""
        self._decode = msgspec.json.Decoder(struct, strict=False).decode
        self._pick = PayloadReader(struct, vital)
        self._names = names_in(struct)

    def __call__(self, payload: object) -> StructType:
        """Give the struct for bytes, text, a mapping, or an object of the SDK."""
        if isinstance(payload, _TEXT):
            try:
                found = self._decode(payload)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                pass
            else:
                # Google tells its usage with every piece: then the names are its own.
                if found.usage_metadata is not None or not _is_snake_cased(payload):
                    return found
            payload = fields_of(payload)
            if not payload:
                raise UnreadableError("no object, or an empty one")
        return self._pick(snake_cased(payload, self._names, _OF_ANY_NAMES))


class Sent:
    """A payload as it came, for what the structs do not name; decoded when it is asked for."""

    __slots__ = ("_is_decoded", "_payload")

    def __init__(self) -> None:
        self.hold(None)

    def hold(self, payload: object) -> None:
        """Take the next payload."""
        self._payload = payload
        self._is_decoded = False

    def at(self, *path: str | int) -> Any:
        """Give what is at these names, as they are on the wire, and indexes."""
        if not self._is_decoded:
            self._is_decoded = True
            if isinstance(self._payload, _TEXT):
                self._payload = fields_of(self._payload)
        return field_of(self._payload, *path)


def field_of(value: object, *path: str | int) -> Any:
    """Give what is at these names, as they are on the wire, and indexes; None if nothing is."""
    for name in path:
        if isinstance(name, int):
            is_there = isinstance(value, list | tuple) and name < len(value)
            value = value[name] if is_there else None  # type: ignore[index]
        elif isinstance(value, Mapping):
            value = value.get(name, value.get(snake(name)))
        else:
            value = getattr(value, snake(name), None)
    return value


def as_sent(part: object) -> dict[str, Any]:
    """Give a part as it goes back: as it came, under the names on the wire."""
    if isinstance(part, Mapping):
        kept: dict[str, Any] = camel_cased(part, _OF_ANY_NAMES)
        return kept
    found = plain(part)
    item: dict[str, Any] = found if isinstance(found, dict) else {}
    # The SDK has decoded bytes, and encodes them as for an URL.
    for owner, name in ((item, "thoughtSignature"), (item.get("inlineData"), "data")):
        if isinstance(owner, dict) and isinstance(encoded := owner.get(name), str):
            owner[name] = encoded.replace("-", "+").replace("_", "/")
    return item


def failure(error: object) -> ProviderFailed:
    """Read the error of a Google API."""
    if not isinstance(error, Mapping):
        return ProviderFailed("error", text_of(error) or "error")
    status, number = text_of(error.get("status")), error.get("code")
    code = status or text_of(number) or "error"
    retryable = code in _RETRYABLE or (type(number) is int and (number == 429 or number >= 500))
    return ProviderFailed(code, text_of(error.get("message")) or code, retryable)


def _is_snake_cased(payload: bytes | bytearray | str) -> bool:
    if isinstance(payload, str):
        payload = payload.encode(errors="replace")
    return _SNAKE_CASED.search(payload) is not None

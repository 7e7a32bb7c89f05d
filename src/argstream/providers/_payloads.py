"""Read payloads into structs that name only the fields a decoder needs.

- Bytes are decoded by msgspec, directly into the struct. This is the hot path.
- Text that msgspec rejects is decoded again by a lenient decoder: it accepts half a surrogate pair
  in an escape, half a UTF-8 sequence (some servers cut there) and fields of another type.
- SDK objects are never dumped. Only the needed fields are read, also extra ones that the SDK's
  types do not declare.
"""

import base64
import json
import re
import types
import typing
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from argstream.providers._deltas import ArgumentText, ArgumentValue, Delta, ProviderFailed

_TEXT = (bytes, bytearray, str)  # a union would be created again at every use

_UNSET = "Unset"  # class name of the Mistral SDK's value for a field that was not sent

StructType = TypeVar("StructType", bound=Struct)


class UnreadableError(ValueError):
    """The payload is not a JSON object, or an essential part of it is missing."""


class _MisfitError(UnreadableError):
    """A vital field has a wrong type."""


class PayloadReader(Generic[StructType]):
    def __init__(
        self, struct: type[StructType], vital: str = "", known_types: Collection[str] | None = None
    ) -> None:
        """Read payloads into this struct. A vital field of a wrong type makes one unreadable.

        Vital fields carry pieces of text or calls: without one, the rest might look complete.
        Payloads whose field ``type`` is not among ``known_types`` are not checked.
        """
        self._struct = struct
        self._known_types = known_types
        self._decode = msgspec.json.Decoder(struct, strict=False).decode
        self._pick = _struct_picker(struct, frozenset(vital.split()))

    def __call__(self, payload: object) -> StructType:
        if isinstance(payload, _TEXT):
            try:
                return self._decode(payload)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                if is_done(payload):  # also sent by gateways to other APIs
                    return self._struct()
                payload = _decode_leniently(payload)
        try:
            found = self._pick(payload)
        except _MisfitError:
            type_ = text_of(fields_of(payload).get("type"))
            if self._known_types is None or type_ in self._known_types:
                raise
            return self._struct()
        if found is None:
            raise UnreadableError(f"expected an object, not {type(payload).__name__}")
        return found


def fields_of(payload: object) -> Mapping[str, Any]:
    """Return the top-level fields of a payload that have a value; empty if it is not an object.

    SDK objects have every field of their class, so None and ``Unset`` count as absent.
    """
    given = all_fields_of(payload)
    return {
        name: part
        for name, part in given.items()
        if part is not None and type(part).__name__ != _UNSET
    }


def all_fields_of(payload: object) -> Mapping[str, Any]:
    """Return the top-level fields of a payload, also None; empty if it is not an object."""
    return _fields_or_none(decoded(payload)) or {}


def decoded(payload: object) -> Any:
    """Return the value of a payload: JSON is decoded, anything else is returned unchanged."""
    if not isinstance(payload, _TEXT):
        return payload
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _decode_leniently(payload)


def text_of(value: object) -> str:
    """Return an ID or a name as text: a string or an integer, else an empty string."""
    return value if isinstance(value, str) else str(value) if type(value) is int else ""


def without(item: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}


def texts_in(parts: object) -> list[str]:
    """Return the texts of the parts in a list that have one."""
    found = parts if isinstance(parts, list) else []
    texts = (
        part.get("text") or part.get("refusal") or part.get("transcript")
        for part in found
        if isinstance(part, dict)
    )
    return [text for text in texts if text and isinstance(text, str)]


def has_failed(block: dict[str, Any]) -> bool:
    """Return True if a block with the result of a call reports an error."""
    content = block.get("content")
    type_ = content.get("type") if isinstance(content, dict) else None
    return bool(block.get("is_error")) or (isinstance(type_, str) and type_.endswith("_error"))


def count(usage: object, *path: str) -> int | None:
    """Return a token count from a provider's usage object, or None if it is not reported."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    return usage if type(usage) is int else None


def joined(pieces: list[dict[str, Any]], growing: Collection[str]) -> dict[str, Any]:
    """Join the pieces of a block: concatenate the text of growing fields, keep the last of others.

    The parts of a list are joined by their index.
    """
    found: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, value in piece.items():
            if value is not None:
                found.setdefault(name, []).append(value)
    return {name: _join(name, values, growing) for name, values in found.items()}


def _join(name: str, values: list[Any], growing: Collection[str]) -> Any:
    last = values[-1]
    if isinstance(last, str) and name in growing:
        return "".join(value for value in values if isinstance(value, str))
    if isinstance(last, dict):
        return joined([value for value in values if isinstance(value, dict)], growing)
    if not isinstance(last, list):
        return last
    parts: dict[Hashable, list[Any]] = {}
    for part in (part for value in values if isinstance(value, list) for part in value):
        index = index_of(part) if isinstance(part, dict) else None
        parts.setdefault(("part", len(parts)) if index is None else index, []).append(part)
    same_parts = parts.values()
    return [joined(same, growing) if isinstance(same[0], dict) else same[0] for same in same_parts]


def index_of(block: dict[str, Any]) -> int | str | None:
    index = block.get("index")
    return index if isinstance(index, int | str) else None


def total(*counts: int | None) -> int | None:
    """Return the sum of the reported counts, or None if none is reported."""
    found = [number for number in counts if number is not None]
    return sum(found) if found else None


def payloads_in(payload: object) -> list[Any] | None:
    """Return the payloads of an array: a whole stream or an error can arrive as one."""
    if isinstance(payload, list):
        return payload
    if not isinstance(payload, _TEXT):
        return None
    try:
        found = msgspec.json.decode(payload, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return [bytes(one) for one in found]


def is_done(payload: object) -> bool:
    """Return True for ``[DONE]``, OpenAI's marker of a regular end, which is not JSON."""
    return isinstance(payload, _TEXT) and payload.strip() in (b"[DONE]", "[DONE]")


def refuse_duplicate_keys(payload: object) -> None:
    """Raise ``UnreadableError`` for a duplicate key, of which the decoder kept only one value."""
    if isinstance(payload, _TEXT):
        _decode_leniently(payload, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UnreadableError("duplicate key in an object")
    return found


def json_or_none(text: bytes | str, **options: Any) -> Any:
    try:
        return json.loads(text, **options)
    except (ValueError, RecursionError):
        return None


def _decode_leniently(payload: bytes | bytearray | str, **options: Any) -> object:
    if not isinstance(payload, str):
        # Invalid UTF-8 becomes surrogates, which assembly replaces.
        payload = payload.decode("utf-8-sig", "surrogateescape")
    try:
        return json.loads(payload, **options)
    except UnreadableError:
        raise
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"invalid JSON: {error}") from error


def _picker(annotation: Any, vital: frozenset[str]) -> Callable[[Any], Any]:
    """Return a function that converts a value to this type, and returns None if it cannot."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    options = typing.get_args(annotation) if is_union else (annotation,)
    pickers = [_pick_one(option, vital) for option in options if option is not types.NoneType]
    if len(pickers) == 1:
        return pickers[0]

    def pick_any(value: Any) -> Any:
        for pick in pickers:
            if (found := pick(value)) is not None:
                return found
        return None

    return pick_any


def _pick_one(annotation: Any, vital: frozenset[str]) -> Callable[[Any], Any]:
    if annotation is str:
        return lambda value: str.__str__(value) if isinstance(value, str) else None  # also enums
    if annotation is int:
        return integer
    if annotation == list[Any]:
        return lambda value: plain(value) if isinstance(value, list | tuple) else None
    if typing.get_origin(annotation) is list:
        return _list_picker(_picker(typing.get_args(annotation)[0], vital))
    if typing.get_origin(annotation) is dict:
        return lambda value: found if isinstance(found := plain(value), dict) else None
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return _struct_picker(annotation, vital)
    return plain


def _struct_picker(
    struct: type[StructType], vital: frozenset[str]
) -> Callable[[Any], StructType | None]:
    hints = typing.get_type_hints(struct)
    # For each field: the type that needs no conversion, and the picker for any other. Google and
    # xAI have names in snake_case and in camelCase.
    fields: dict[str, tuple[str, object, Callable[[Any], Any]]] = {}
    for name in struct.__struct_fields__:
        options = typing.get_args(hints[name]) or (hints[name],)
        direct = next((option for option in options if option in (str, int)), None)
        fields[name] = fields[_camel(name)] = (name, direct, _picker(hints[name], vital))

    def pick_struct(value: Any) -> StructType | None:
        given = _fields_or_none(value)
        if given is None:
            return None
        found = {}
        for key, part in given.items():
            if part is not None and key in fields:
                name, direct, pick = fields[key]
                if type(part) is direct:
                    found[name] = part
                elif type(part).__name__ == _UNSET:
                    continue
                elif (picked := pick(part)) is not None:
                    found[name] = picked
                elif name in vital:
                    raise _MisfitError(f"{name} must not be a {type(part).__name__}")
        return struct(**found)

    return pick_struct


@lru_cache(1000)  # asking an abstract base class for each payload is slow
def _are_mappings(type_: type) -> bool:
    return issubclass(type_, Mapping)


def _fields_or_none(value: Any) -> Mapping[str, Any] | None:
    if _are_mappings(value.__class__):
        fields: Mapping[str, Any] = value
        return fields
    given: dict[str, Any] | None = getattr(value, "__dict__", None)
    if given is not None and (extra := getattr(value, "__pydantic_extra__", None)):
        return {**given, **extra}
    return given


def _list_picker(pick: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def pick_list(value: Any) -> list[Any] | None:
        if not isinstance(value, list | tuple):
            return None
        found = [pick(part) for part in value if part is not None]
        return None if None in found else found

    return pick_list


def integer(value: Any) -> int | None:
    """Return a number without a fraction, also from text or a float, as an integer."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if isinstance(value, str) or number == value else None


def plain(value: Any) -> Any:
    """Convert an SDK object, at every level, to JSON values. Not for the hot path."""
    if value is None or isinstance(value, str | int | float):
        return value
    if type(value).__name__ == _UNSET:
        return None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if callable(dump := getattr(value, "model_dump", None)):
        # Only the fields that the provider sent, under their names on the wire.
        return dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if (fields := getattr(value, "__dict__", None)) is not None:
        return {key: plain(part) for key, part in fields.items()}
    return None


def json_value(value: object) -> Any:
    """Return a Python value, such as the result of a tool, as JSON values.

    Unlike ``plain``, this keeps dates, UUIDs, bytes and other values as text.
    """
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_without_builtin_form)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def json_text(value: object) -> str:
    return json.dumps(json_value(value), ensure_ascii=False)


def _without_builtin_form(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


def arguments(key: Hashable, given: object, payload: object = None) -> list[Delta]:
    """Return the deltas for the arguments of a call.

    An object is checked for duplicate keys if ``payload`` is passed.
    """
    if given is None or given == "":
        return []
    if isinstance(given, str):
        return [ArgumentText(key, given)]
    if not isinstance(given, dict):
        raise UnreadableError(f"arguments must be text or an object, not {type(given).__name__}")
    refuse_duplicate_keys(payload)
    return [ArgumentValue(key, (), given)]


@lru_cache(1000)
def snake(name: str) -> str:
    return re.sub("([A-Z])", lambda capital: f"_{capital[1].lower()}", name)


@lru_cache(1000)
def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda letter: letter[1].upper(), name)


def camel_cased(value: Any, free_form: Collection[str]) -> Any:
    """Return JSON in its wire form: camelCase names, bytes in base64, no None."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [camel_cased(part, free_form) for part in value]
    if not isinstance(value, Mapping):
        return value
    return {
        _camel(name): part if snake(name) in free_form else camel_cased(part, free_form)
        for name, part in value.items()
        if part is not None
    }


# In lower case: event streams and response bodies of AWS differ in the case of the first letter.
_RETRYABLE_CODES: Final[dict[str, str]] = {
    "gRPC": "4 8 13 14 aborted deadline_exceeded internal resource_exhausted unavailable",
    "HTTP": "429",
    "AWS": "internalservererror internalserverexception modelnotreadyexception "
    "modelstreamerrorexception modeltimeoutexception serviceunavailableexception "
    "throttlingexception",
    "others": "api_error internal_error overloaded overloaded_error rate_limit rate_limit_error "
    "rate_limit_exceeded server_error timeout timeout_error",
}
_RETRYABLE: Final = {code for codes in _RETRYABLE_CODES.values() for code in codes.split()}
_SERVER_ERROR: Final = re.compile("5[0-9][0-9]")


def is_failure(name: str) -> bool:
    return name.endswith(("Exception", "Error"))


def failure(error: object, *code_fields: str) -> ProviderFailed:
    """Return the failure that a provider reports. Its code is in the first field that is set.

    Any of the usual fields may show that a request can be retried.
    """
    if not isinstance(error, dict):
        return ProviderFailed("error", str(error or "error"))
    code = next((code for name in code_fields if (code := text_of(error.get(name)))), "error")
    states = [text_of(error.get(name)) for name in ("code", "status", "status_code", "type")]
    retryable = any(one.lower() in _RETRYABLE or _SERVER_ERROR.fullmatch(one) for one in states)
    return ProviderFailed(code, text_of(error.get("message")) or code, retryable)

"""How a payload becomes a struct that names only what an decoder needs.

Three ways in, one way out. Bytes are decoded by msgspec, straight into the struct: this is the hot
path. What msgspec refuses is read again by a decoder that forgives: half a surrogate pair in an
escape, half a UTF-8 sequence (some servers cut there), a field of another type. SDK objects are
never dumped: the fields that we need are picked out of them, extras included that their types do
not know.
"""

import base64
import json
import re
import types
import typing
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct

from argstream.providers._deltas import ArgumentText, ArgumentValue, Delta, ProviderFailed

_TEXT = (bytes, bytearray, str)  # a union would be made anew at every use

# The class of the Mistral SDK's value for a field that was not sent.
_UNSET = "Unset"

StructType = TypeVar("StructType", bound=Struct)


class UnreadableError(ValueError):
    """The payload is no JSON object, or a piece of something is missing in it."""


class _MisfitError(UnreadableError):
    """A vital field has an impossible type."""


class PayloadReader(Generic[StructType]):
    def __init__(
        self,
        struct: type[StructType],
        vital: Collection[str] = (),
        known: Collection[str] | None = None,
    ) -> None:
        """Read into this struct. A payload is unreadable if a vital field has a wrong type.

        Vital is what carries a piece of something: without it, the rest might look whole. What is
        of a type that is not known, by its field ``type``, may look as it likes.
        """
        self._struct = struct
        self._known = known
        self._decode = msgspec.json.Decoder(struct, strict=False).decode
        self._pick = _struct_picker(struct, frozenset(vital))

    def __call__(self, payload: object) -> StructType:
        if isinstance(payload, _TEXT):
            try:
                return self._decode(payload)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                payload = _forgiving(payload)
        try:
            found = self._pick(payload)
        except _MisfitError:
            if self._known is None or _type_of(payload) in self._known:
                raise
            return self._struct()
        if found is None:
            raise UnreadableError(f"a {type(payload).__name__}, where an object was expected")
        return found


def fields_of(payload: object) -> Mapping[str, Any]:
    """Return the top-level fields of a payload that have a value; empty if it is no object.

    An SDK's object has every field of its class, so None and ``Unset`` count as absent.
    """
    given = all_fields_of(payload)
    return {
        name: part
        for name, part in given.items()
        if part is not None and type(part).__name__ != _UNSET
    }


def all_fields_of(payload: object) -> Mapping[str, Any]:
    """Return the top-level fields of a payload, also those that are None; empty if no object."""
    decoded = payload
    if isinstance(payload, _TEXT):
        try:
            decoded = msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            decoded = _forgiving(payload)
    return _fields_given(decoded) or {}


def text_of(value: object) -> str:
    """Return an id or a name: a string, or a number that stands for one."""
    return value if isinstance(value, str) else str(value) if type(value) is int else ""


def without(item: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return an item without these fields."""
    return {name: value for name, value in item.items() if name not in names}


def _type_of(payload: object) -> str | None:
    found = payload.get("type") if isinstance(payload, Mapping) else getattr(payload, "type", None)
    return found if isinstance(found, str) else None


def count(usage: object, *path: str) -> int | None:
    """Return a token count from a provider's usage object, or None if it is not reported."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    return usage if type(usage) is int else None


def total(*counts: int | None) -> int | None:
    """Return the sum of the reported counts, or None if none is reported."""
    found: int | None = None
    for number in counts:
        if number is not None:
            found = number + (found or 0)
    return found


def payloads_in(payload: object) -> list[Any] | None:
    """Return the payloads of an array: a whole stream, or an error, can come as one."""
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
    """Return True for OpenAI's mark of an orderly end, which is no JSON."""
    return isinstance(payload, _TEXT) and payload.strip() in (b"[DONE]", "[DONE]")


def refuse_duplicate_keys(payload: object) -> None:
    """Refuse a payload in which a key is given twice: the decoder kept only one."""
    if isinstance(payload, _TEXT):
        _forgiving(payload, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UnreadableError("a key is given twice in one object")
    return found


def _forgiving(payload: bytes | bytearray | str, **options: Any) -> object:
    if not isinstance(payload, str):
        # What is no UTF-8 becomes surrogates, of which assembly makes the best.
        payload = payload.decode("utf-8-sig", "surrogateescape")
    try:
        return json.loads(payload, **options)
    except UnreadableError:
        raise
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"no JSON: {error}") from error


def _picker(annotation: Any, vital: frozenset[str]) -> Callable[[Any], Any]:
    """Return a function that returns a value of this type, or None for one that does not fit."""
    options = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
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
        return lambda value: value if isinstance(value, str) else None
    if annotation is int:
        return _integer
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
    # For each field, the type that fits as it is, and what to do with any other.
    fields: dict[str, tuple[object, Callable[[Any], Any]]] = {}
    for name in struct.__struct_fields__:
        options = typing.get_args(hints[name]) or (hints[name],)
        as_it_is = next((option for option in options if option in (str, int)), None)
        fields[name] = (as_it_is, _picker(hints[name], vital))

    def pick_struct(value: Any) -> StructType | None:
        given = _fields_given(value)
        if given is None:
            return None
        found = {}
        for name, part in given.items():
            if part is not None and name in fields:
                as_it_is, pick = fields[name]
                if type(part) is as_it_is:
                    found[name] = part
                elif type(part).__name__ == _UNSET:
                    continue
                elif (picked := pick(part)) is not None:
                    found[name] = picked
                elif name in vital:
                    raise _MisfitError(f"{name} is a {type(part).__name__}")
        return struct(**found)

    return pick_struct


def _fields_given(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    given: dict[str, Any] | None = getattr(value, "__dict__", None)
    if given is not None and (extra := getattr(value, "__pydantic_extra__", None)):
        return {**given, **extra}
    return given


def _list_picker(pick: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def pick_list(value: Any) -> list[Any] | None:
        if not isinstance(value, list | tuple):
            return None
        parts = [part for part in value if part is not None]
        found = [pick(part) for part in parts]
        return None if any(part is None for part in found) else found

    return pick_list


def _integer(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if isinstance(value, str) or number == value else None


def plain(value: Any) -> Any:
    """Turn an SDK's object, and all that is in it, into JSON values. Not for the hot path."""
    if value is None or isinstance(value, str | int | float):
        return value
    if type(value).__name__ == _UNSET:
        return None
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if callable(dump := getattr(value, "model_dump", None)):
        # Only what the provider sent, as it sent it.
        return dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if (fields := getattr(value, "__dict__", None)) is not None:
        return {key: plain(part) for key, part in fields.items()}
    return None


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def arguments(key: Hashable, given: object, payload: object = None) -> list[Delta]:
    """Return the deltas for arguments of a call.

    An object is refused if its payload gives a key twice; leave that out where it is checked once
    for many calls.
    """
    if given is None or given == "":
        return []
    if isinstance(given, str):
        return [ArgumentText(key, given)]
    if not isinstance(given, dict):
        raise UnreadableError(f"the arguments of a call are a {type(given).__name__}")
    refuse_duplicate_keys(payload)
    return [ArgumentValue(key, (), given)]


@lru_cache(1000)
def snake(name: str) -> str:
    return re.sub("([A-Z])", lambda capital: f"_{capital[1].lower()}", name)


@lru_cache(1000)
def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda letter: letter[1].upper(), name)


def names_in(struct: type[Struct]) -> frozenset[str]:
    """Return the names of all fields of a struct, and of the structs in it."""
    found = set(struct.__struct_fields__)
    for hint in get_type_hints(struct).values():
        options = get_args(hint) or (hint,)
        for part in (*options, *(item for option in options for item in get_args(option))):
            if isinstance(part, type) and issubclass(part, Struct):
                found |= names_in(part)
    return frozenset(found)


def snake_cased(value: Any, names: Collection[str], of_any_names: Collection[str] = ()) -> Any:
    """Return JSON, or an SDK's objects, as plain values under names in snake_case.

    Only fields with these names are kept: an object may carry much more. Inside a field of any
    names, such as arguments, nothing is changed.
    """
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return getattr(value, "value", value)  # Google's enumerations are strings
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [snake_cased(part, names, of_any_names) for part in value]
    fields = value if isinstance(value, Mapping) else getattr(value, "__dict__", None)
    if fields is None:
        return None
    found = {}
    for given, part in fields.items():
        name = snake(given) if isinstance(given, str) else ""
        if part is not None and name in names:
            is_free = name in of_any_names
            found[name] = plain(part) if is_free else snake_cased(part, names, of_any_names)
    return found


def camel_cased(value: Any, of_any_names: Collection[str]) -> Any:
    """Return JSON as it is on the wire: camelCase names, bytes in base64, nothing that is None."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [camel_cased(part, of_any_names) for part in value]
    if not isinstance(value, Mapping):
        return value
    return {
        _camel(name): part if snake(name) in of_any_names else camel_cased(part, of_any_names)
        for name, part in value.items()
        if part is not None
    }


# In small letters: an event stream and the body of a response write their first one differently.
_RETRYABLE: Final = {
    "internalservererror",
    "internalserverexception",
    "modelnotreadyexception",
    "modelstreamerrorexception",
    "modeltimeoutexception",
    "serviceunavailableexception",
    "throttlingexception",
}


def is_failure(name: str) -> bool:
    return name.endswith(("Exception", "Error"))


def failure(name: str, body: dict[str, Any]) -> ProviderFailed:
    message = text_of(body.get("message")) or text_of(body.get("originalMessage")) or name
    return ProviderFailed(name, message, name.lower() in _RETRYABLE)

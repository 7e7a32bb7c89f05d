"""Messages for values that do not match a schema, which a model can act on."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from argstream.events import ArgumentsError
from argstream.jsonstream import JsonPath
from argstream.sanitise import visible_line

if TYPE_CHECKING:
    from argstream.validation._compile import Node

_MAX_CHARS: Final = 60  # of a value
_MAX_LISTED: Final = 12  # names or values
_MAX_CAUSES: Final = 4  # branches of a union in a message
_MAX_EXAMINED: Final = 100  # branches of a union that are examined
_MAX_DEPTH: Final = 2  # of nested unions
_KINDS: Final[dict[str, str]] = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}
_LIMITS: Final[dict[str, str]] = {
    "minimum": "must be at least {limit}",
    "maximum": "must be at most {limit}",
    "exclusiveMinimum": "must be above {limit}",
    "exclusiveMaximum": "must be below {limit}",
    "multipleOf": "must be a multiple of {limit}",
    "minLength": "must have at least {limit} characters",
    "maxLength": "must have at most {limit} characters",
    "pattern": "must match the pattern {limit}",
    "format": "must have the format {limit}",
    "contentEncoding": "must be encoded as {limit}",
    "contentMediaType": "must be of the media type {limit}",
    "minItems": "must have at least {limit} items",
    "maxItems": "must have at most {limit} items",
    "uniqueItems": "must not have the same item twice",
    "minProperties": "must have at least {limit} properties",
    "maxProperties": "must have at most {limit} properties",
    "dependentRequired": "must have the properties that go together: {limit}",
    "contains": "must contain an item that matches {limit}",
    "not": "must not match {limit}",
    "enum": "must be one of {limit}",
    "const": "must be {limit}",
    "if": "must match the conditions of the schema (if, then, else)",
    "unevaluatedItems": "must have no items that the schema does not allow",
    "unevaluatedProperties": "must have no properties that the schema does not allow",
    "dependentSchemas": "must match the schemas for the properties that it has: {limit}",
    "dependencies": "must match the schemas for the properties that it has: {limit}",
}


class Failure(NamedTuple):
    """Why a value does not match. It becomes a message only if the call is rejected for it."""

    keyword: str  # start, key, candidates and integer mean several; empty: the whole schema
    path: JsonPath
    offset: int | None
    node: Any = None  # a Node; None for the whole schema
    found: Any = None  # a kind, a value, the start of a string, or the missing names
    limit: Any = None  # the keyword's value; for ``candidates``, whether the string continues
    causes: "tuple[Failure, ...]" = ()  # why the branches of a union do not match


def error_of(failure: Failure) -> ArgumentsError:
    failure = _likely(failure)
    keyword, message = _message(failure)
    return ArgumentsError("schema", message, failure.offset, failure.path, keyword)


def _likely(failure: Failure) -> Failure:
    """Return the failure of the branch of a union that the model probably meant.

    It failed last. The other branches expect another kind, or another value of a discriminator.
    """
    while failure.causes:
        likely = {
            id(cause): cause for cause in failure.causes if not _is_unlikely(cause, failure.path)
        }
        (last, *others) = likely.values() or (failure,)
        if others or last is failure or last.offset != failure.offset:
            break
        failure = last
    return failure


def _is_unlikely(cause: Failure, union: JsonPath) -> bool:
    if cause.path == union:
        return cause.keyword == "start"
    has_list = cause.node is not None and bool(cause.node.values)
    return cause.keyword == "candidates" or (cause.keyword == "start" and has_list)


def _message(failure: Failure, depth: int = 0) -> tuple[str | None, str]:
    where = _where(failure.path)
    match failure.keyword:
        case "start":
            return _start(failure, where)
        case "key":
            return _key(failure)
        case "candidates":
            return _candidate(failure, where)
        case "integer":
            return "type", f"{where} must be a whole number, not {_json(failure.found)}"
        case "required":
            return "required", _required(failure)
        case "propertyNames":
            return "propertyNames", _name(failure)
        case "anyOf" | "oneOf":
            return failure.keyword, _choice(failure, where, depth)
        case "":
            return None, f"{where} must match the whole schema of the tool"
        case keyword:
            phrase = _LIMITS.get(keyword, f"must match {keyword}: {{limit}}")
            message = f"{where} {phrase.format(limit=_json(failure.limit))}"
            if isinstance(failure.found, int | float):
                message = f"{message}, not {_json(failure.found)}"
            return keyword, message


def _where(path: JsonPath) -> str:
    """Format a path as code: ``edits[0].old``."""
    if not path:
        return "the arguments"
    name = ""
    for step in path:
        if isinstance(step, int):
            name += f"[{step}]"
        elif step.isidentifier():
            name += f".{visible_line(step)}" if name else visible_line(step)
        else:
            name += f"[{_json(step)}]"
    return f"'{name}'"


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except ValueError:  # an integer with more digits than Python prints
        text = "a number that is too long"
    return visible_line(text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…")


def _list(values: list[str], word: str = "or") -> str:
    shown = values[:_MAX_LISTED]
    if len(values) > _MAX_LISTED:
        return f"{', '.join(shown)} and {len(values) - _MAX_LISTED} more"
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} {word} {shown[-1]}"


def _start(failure: Failure, where: str) -> tuple[str | None, str]:
    node, kind = failure.node, failure.found
    for subschema in node.subschemas:
        if subschema.value is False:
            *parent, step = failure.path or ("",)
            if isinstance(step, int):
                return "items", f"{_where(tuple(parent))} must have at most {step} items"
            keyword = "properties" if failure.path else None
            return keyword, f"{where} must be omitted"
    expected = _expected(node)
    if kind not in expected and not (kind == "number" and "integer" in expected):
        kinds = _list([_KINDS[name] for name in expected]) if expected else "absent"
        return "type", f"{where} must be {kinds}, not {_KINDS[kind]}"
    return _candidate_keyword(node), f"{where} must be {_allowed(node)}, not {_KINDS[kind]}"


def _expected(node: "Node") -> list[str]:
    expected: list[str] = [*_KINDS]
    for subschema in node.subschemas:
        types = subschema.keywords.get("type")
        if types is not None:
            named = [types] if isinstance(types, str) else types
            also = ["integer"] if "number" in named else []
            expected = [name for name in expected if name in [*named, *also]]
    if "number" in expected:
        expected.remove("integer")
    return expected


def _key(failure: Failure) -> tuple[str | None, str]:
    *parent, key = failure.path
    subschemas = failure.node.subschemas
    known = list(dict.fromkeys(name for one in subschemas for name in one.by_name("properties")))
    owner = f" of {_where(tuple(parent))}" if parent else ""
    noun = "property" if parent else "argument"
    if key in known:
        return "properties", f"the {noun} {_json(key)}{owner} must be omitted"
    message = f"there is no {noun} {_json(key)}{owner}"
    if close := get_close_matches(str(key)[:_MAX_CHARS], known[:1000], n=1):
        message += f". Did you mean {_json(close[0])}?"
    if known:
        separator = "" if close else "."
        message += f"{separator} Known: {_list([_json(name) for name in known], 'and')}"
    return "additionalProperties", message


def _name(failure: Failure) -> str:
    *parent, key = failure.path
    rule = failure.limit
    hint = f": names must match {_json(rule)}" if isinstance(rule, Mapping) else ""
    owner = f" of {_where(tuple(parent))}" if parent else ""
    return f"{_json(key)} is not allowed as a name{owner}{hint}"


def _required(failure: Failure) -> str:
    names = _list([_json(name) for name in failure.found], "and")
    if not failure.path:
        is_one = len(failure.found) == 1
        return f"the argument{'' if is_one else 's'} {names} {'is' if is_one else 'are'} missing"
    return f"{_where(failure.path)} must have {names}"


def _candidate(failure: Failure, where: str) -> tuple[str | None, str]:
    node, found = failure.node, _json(failure.found)
    found = f"{found[:-1]}…" if failure.limit else found
    return _candidate_keyword(node), f"{where} must be {_allowed(node)}, not {found}"


def _candidate_keyword(node: "Node") -> str:
    is_const = any("const" in one.keywords for one in node.subschemas)
    return "const" if is_const else "enum"


def _allowed(node: "Node") -> str:
    values = [_json(value) for value in node.values[: _MAX_LISTED + 1]]
    if len(node.values) > _MAX_LISTED:
        return f"one of {', '.join(values[:_MAX_LISTED])} and {len(node.values) - _MAX_LISTED} more"
    return f"one of {_list(values)}" if len(values) > 1 else "".join(values) or "absent"


def _choice(failure: Failure, where: str, depth: int) -> str:
    if not failure.causes:
        return f"{where} must match only one of the alternatives (oneOf), but matches several"
    if depth == _MAX_DEPTH:
        return f"{where} must match one of its alternatives"
    # Many branches may share one failure: it is described once.
    causes = {id(cause): cause for cause in failure.causes}.values()
    likely = map(_likely, islice(causes, _MAX_EXAMINED))
    messages = list(dict.fromkeys(_message(cause, depth + 1)[1] for cause in likely))
    if len(messages) == 1:
        return messages[0]
    more = f"; and {len(messages) - _MAX_CAUSES} more" if len(messages) > _MAX_CAUSES else ""
    return (
        f"{where} must match one of the alternatives: {'; or '.join(messages[:_MAX_CAUSES])}{more}"
    )

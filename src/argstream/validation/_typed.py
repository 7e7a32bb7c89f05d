r"""Typed arguments of a call in progress, for a tool that is defined by a class or a function.

::

    class WriteFile(BaseModel):
        path: str
        content: str

    view = typed(WriteFile, call)     # updated while the call is written
    view.settled                      # frozenset({'path'})
    view.so_far.path                  # 'src/app.py': validated, and a str for type checkers
    view.so_far.content               # ArgumentUnavailableError: 'content' has not settled …
    view.value()                      # the WriteFile, once the call is complete

A field is validated once, by its own validators, when it is first read after it has settled.
Validators of the model, and its rules for unknown keys, run only in ``value()``.

- A nested model that is not complete is also a view: ``view.so_far.address.city``. A list that is
  not complete has the items that have settled.
- A field with several names (``AliasChoices``, ``populate_by_name``) settles before the end only
  under its first name, which has precedence over the others.
- A field whose validators take ``info`` waits for the fields defined before it.
- If a validator raises an exception other than ValueError or AssertionError, such as a KeyError,
  ``errors`` has its message. Reading the field raises ``ArgumentUnavailableError`` with that
  exception as the cause. ``value()`` raises the exception itself.
- As in any model, pydantic turns an ``Iterable`` into an iterator, which can be used once and
  validates each item when it is fetched. ``errors`` does not include these items. Prefer ``list``.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from argstream.checks import LiveCall, is_settled, value_at, verdict_words
from argstream.errors import ArgumentUnavailableError, UsageError
from argstream.events import ArgumentsError
from argstream.jsonstream import PENDING, JsonPath
from argstream.providers._deltas import FREE_TEXT_KINDS
from argstream.validation._signatures import Definition, describe, read_definition
from argstream.validation._tools import ToolSpec

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

_Schema = dict[str, Any]

_OBJECT_TYPES: Final = {"model", "dataclass", "typed-dict"}
_KEYS_WITHOUT_SCHEMAS: Final = {"metadata", "serialization", "default", "config", "expected"}
_MAX_ERRORS: Final = 3  # of one field in a message


class Outcome(NamedTuple):
    """The result of pydantic for one value."""

    value: Any  # PENDING if it is not valid, or optional and missing
    message: str | None = None  # why it is not valid
    cause: Exception | None = None  # an unexpected exception of a validator


class _Context(NamedTuple):
    config: Any
    definitions: Mapping[str, _Schema]

    def compile(self, schema: _Schema) -> "SchemaValidator":
        from pydantic_core import SchemaValidator

        definitions = list(self.definitions.values())
        whole: Any = {"type": "definitions", "schema": schema, "definitions": definitions}
        return SchemaValidator(whole, self.config)


class ValuePart:
    """A value inside a model, and its validator."""

    def __init__(self, schema: _Schema, context: _Context) -> None:
        self._schema = schema
        self._context = context

    @cached_property
    def shape(self) -> "Shape | None":
        """The fields of an object that can be read separately, or None for other values."""
        return _field_shape(self._schema, self._context, is_root=False)

    @cached_property
    def items(self) -> "ValuePart | None":
        """The items of an array that can be read separately, or None for other values."""
        schema = _unwrapped(self._schema, self._context.definitions)
        items: Any = schema.get("items_schema")
        if schema["type"] == "tuple":
            items = items[0] if schema.get("variadic_item_index") == 0 and len(items) == 1 else None
        if schema["type"] not in ("list", "tuple") or items is None or self.uses_info:
            return None
        return ValuePart(items, self._context)

    @cached_property
    def uses_info(self) -> bool:
        """Whether a validator may use other fields. Models inside it do not count."""
        parts = _parts_of(self._schema, self._context.definitions, set())
        return any(
            one.get("type") == "with-info" or one.get("default_factory_takes_data") for one in parts
        )

    @cached_property
    def _validator(self) -> "SchemaValidator":
        return self._context.compile(self._schema)

    def validate(self, value: object) -> Outcome:
        return _validated(self._validator, value, depth=0)


class FieldPart(ValuePart):
    def __init__(
        self, name: str, field: _Schema, context: _Context, *, earlier: "tuple[FieldPart, ...]"
    ) -> None:
        super().__init__(field["schema"], context)
        self.name = name
        self.places = tuple(_places(name, field, context.config or {}))
        """The paths where the value may be. If several exist, the first one counts."""
        first = self.places[0]
        counts_from_end = any(isinstance(key, int) and key < 0 for key in first)
        self.early_place = None if counts_from_end else first  # usable before the object is closed
        self._earlier = earlier
        self._may_be_missing = field.get("required") is False  # in a TypedDict

    @cached_property
    def waits_for(self) -> "tuple[FieldPart, ...]":
        return self._earlier if self.uses_info else ()

    @cached_property
    def _validator(self) -> "SchemaValidator":
        return self._compile({})

    def validate_field(self, value: object, earlier: Mapping[str, Any]) -> Outcome:
        """Validate the field. PENDING means that it is missing, so that a default applies."""
        given = {} if value is PENDING else {self.name: value}
        if not given and self._may_be_missing:
            return Outcome(PENDING)
        # Earlier values may no longer be valid JSON, so constant functions return them.
        validator = self._compile(earlier) if earlier else self._validator
        outcome = _validated(validator, {**dict.fromkeys(earlier), **given}, depth=1)
        if outcome.message is not None:
            return outcome
        fields, _, _ = outcome.value
        return Outcome(fields[self.name])

    def _compile(self, earlier: Mapping[str, Any]) -> "SchemaValidator":
        schemas = {name: _constant(value) for name, value in earlier.items()}
        schemas[self.name] = self._schema
        fields = {name: {"type": "model-field", "schema": one} for name, one in schemas.items()}
        return self._context.compile({"type": "model-fields", "fields": fields})


class Shape(NamedTuple):
    name: str
    fields: Mapping[str, FieldPart]
    has_keys: bool  # a TypedDict: the fields are keys, not attributes
    allows_extra: bool  # unknown keys are kept
    extra: ValuePart | None  # validates the values of unknown keys

    def unknown(self, name: str) -> str:
        return f"unknown field {name!r} of {self.name}. Fields: {', '.join(self.fields) or 'none'}"


@lru_cache(maxsize=256)
def shape_of(definition: Definition) -> Shape:
    schema: Any = definition.adapter.core_schema
    definitions: dict[str, _Schema] = {}
    if schema["type"] == "definitions":
        definitions = {inner["ref"]: inner for inner in schema["definitions"]}
        schema = schema["schema"]
    shape = _field_shape(schema, _Context(None, definitions), is_root=True)
    if shape is None:
        raise UsageError(
            f"{definition.name} has no fields, and tool arguments need field names. Pass a "
            "model with fields, a dataclass, a TypedDict or a function"
        )
    if definition.parameters is None:
        return shape
    fields = {name: shape.fields[field] for field, name in definition.parameters.items()}
    return shape._replace(name=definition.name, fields=fields)


def _field_shape(schema: _Schema, context: _Context, *, is_root: bool) -> Shape | None:
    schema = _unwrapped(schema, context.definitions, is_root=is_root)
    if schema["type"] not in _OBJECT_TYPES or schema.get("root_model"):
        return None
    config = schema.get("config") or {}
    inner = schema if schema["type"] == "typed-dict" else schema["schema"]
    while inner["type"] in ("function-before", "function-after", "function-wrap"):
        inner = inner["schema"]  # validators of the whole model
    if "fields" not in inner:
        return None
    context = _Context(config, context.definitions)
    behavior = inner.get("extra_behavior") or config.get("extra_fields_behavior")
    extra = inner.get("extras_schema")
    return Shape(
        schema["cls"].__name__ if "cls" in schema else "the object",
        dict(_fields(inner, context)),
        has_keys=schema["type"] == "typed-dict",
        allows_extra=behavior == "allow",
        extra=None if extra is None else ValuePart(extra, context),
    )


def _fields(inner: _Schema, context: _Context) -> Iterator[tuple[str, FieldPart]]:
    fields = inner["fields"]
    pairs = (
        fields.items()
        if isinstance(fields, dict)
        else [(field["name"], field) for field in fields if field.get("init") is not False]
    )
    earlier: tuple[FieldPart, ...] = ()
    for name, field in pairs:
        part = FieldPart(name, field, context, earlier=earlier)
        yield name, part
        earlier = (*earlier, part)


def _unwrapped(
    schema: _Schema, definitions: Mapping[str, _Schema], *, is_root: bool = False
) -> _Schema:
    """Remove wrappers that do not change which parts a value has.

    "Before" validators may change the value, so they are kept. At the root they are removed,
    because validators of the model run only in ``value()``.
    """
    while True:
        match schema["type"]:
            case "definition-ref":
                schema = definitions[schema["schema_ref"]]
            case "default" | "nullable" | "function-after":
                schema = schema["schema"]
            case "function-before" | "function-wrap" if is_root:
                schema = schema["schema"]
            case "json-or-python":
                schema = schema["json_schema"]
            case _:
                return schema


def _parts_of(schema: Any, definitions: Mapping[str, _Schema], seen: set[str]) -> Iterator[_Schema]:
    """Yield a schema and the schemas in it, except those inside models."""
    if isinstance(schema, list | tuple):
        for one in schema:
            yield from _parts_of(one, definitions, seen)
    elif isinstance(schema, dict):
        yield schema
        ref = schema.get("schema_ref")
        if isinstance(ref, str) and ref not in seen:
            seen.add(ref)
            yield from _parts_of(definitions[ref], definitions, seen)
        elif schema.get("type") not in _OBJECT_TYPES:
            for key, value in schema.items():
                if key not in _KEYS_WITHOUT_SCHEMAS:
                    yield from _parts_of(value, definitions, seen)


def _places(name: str, field: _Schema, config: Mapping[str, Any]) -> Iterator[JsonPath]:
    alias = field.get("validation_alias")
    if alias is not None and config.get("validate_by_alias") is not False:
        if isinstance(alias, str):
            yield (alias,)
        elif isinstance(alias[0], list):
            yield from map(tuple, alias)
        else:
            yield tuple(alias)
    if alias is None or config.get("validate_by_name"):
        yield (name,)


def _constant(value: Any) -> _Schema:
    function = {"type": "no-info", "function": lambda _: value}
    return {"type": "function-plain", "function": function}


def _validated(validator: "SchemaValidator", value: object, *, depth: int) -> Outcome:
    from pydantic_core import ValidationError

    text = json.dumps(value, ensure_ascii=False)
    try:
        return Outcome(validator.validate_json(text))
    except ValidationError as error:
        return Outcome(PENDING, _message(error, depth))
    except Exception as error:  # noqa: BLE001 - becomes the cause of ArgumentUnavailableError
        return Outcome(PENDING, f"its validator raised {type(error).__name__}: {error}", error)


def _message(error: Any, depth: int) -> str:
    """Join the messages. The first ``depth`` steps of each path are omitted."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    parts = []
    for one in errors[:_MAX_ERRORS]:
        inside = ", ".join(map(repr, one["loc"][depth:]))
        parts.append(f"{one['msg']} (at {inside})" if inside else one["msg"])
    more = len(errors) - len(parts)
    return "; ".join(parts) + (f" and {more} more" if more else "")


_UNITS: Final[dict[type, str]] = {dict: "key", list: "item", str: "character"}


class CallHolder(Protocol):
    """An object with a live call: a reader of ``live_calls()``."""

    @property
    def call(self) -> LiveCall:
        """The call itself."""


def is_certain(call: LiveCall) -> bool:
    """Return True unless the text may be reinterpreted."""
    return not call.in_doubt or call.verdict == "complete"


def kind_at(call: LiveCall, path: JsonPath) -> type | None:
    value = value_at(call.partial, path)
    return None if value is PENDING else type(value)


def unavailable(
    call: LiveCall, path: JsonPath, name: str, reason: str = ""
) -> ArgumentUnavailableError:
    """Return the error for a value that has not settled, or never will."""
    size = _size(call, path)
    has = "has" if path else "have"  # without a path, the name is a plural
    if call.verdict != "open":
        why = "the call does not have it" if call.verdict == "complete" else verdict_words(call)
        state = "is incomplete" if kind_at(call, path) else "is missing"
        message = f"{name} {state if path else 'are unavailable'}: {why}"
    elif call.in_doubt:
        message = f"{name} {has} not settled: the text of the call may be reinterpreted"
    elif reason:
        message = f"{name} {has} not settled: {reason}"
    else:
        message = f"{name} has not settled: {size} so far" if size else f"{name} has not arrived"
    return ArgumentUnavailableError(message, path=path, verdict=call.verdict, error=call.error)


def _size(call: LiveCall, path: JsonPath) -> str:
    value: Any = value_at(call.partial, path) if path else None
    unit = _UNITS.get(type(value))
    return "" if unit is None else f"{len(value)} {unit}{'' if len(value) == 1 else 's'}"


_Stage: TypeAlias = Literal["ready", "open", "waiting"]


class Values:
    """The values inside one object or array, each validated once."""

    def __init__(self, call: LiveCall) -> None:
        self._call = call
        self._root: Any = None
        self._outcomes: dict[JsonPath, Outcome] = {}
        self._views: dict[JsonPath, Any] = {}

    def outcome(self, path: JsonPath, validate: Callable[[Any], Outcome]) -> Outcome:
        partial = self._call.partial
        if partial is not self._root:  # the text was reinterpreted
            self._root = partial
            self._outcomes.clear()
        if path not in self._outcomes:
            self._outcomes[path] = validate(value_at(partial, path))
        return self._outcomes[path]

    def value(self, path: JsonPath, name: str, validate: Callable[[Any], Outcome]) -> Any:
        """Return a value that has settled; PENDING if it is optional and missing."""
        value, problem, cause = self.outcome(path, validate)
        if problem is not None:
            error = ArgumentsError("invalid", problem, path=path)
            raise ArgumentUnavailableError(
                f"{name} is not valid: {problem}",
                path=path,
                verdict=self._call.verdict,
                error=error,
            ) from cause
        return value

    def view(self, path: JsonPath, part: ValuePart) -> Any:
        """Return a view of an open value, or None if it has no parts to read."""
        if path not in self._views:
            view: ObjectSoFar | ItemsSoFar | None = None
            kind = kind_at(self._call, path)
            if kind is dict and part.shape is not None:
                view = ObjectSoFar(Fields(self._call, path, part.shape))
            elif kind is list and part.items is not None:
                view = ItemsSoFar(self._call, path, part.items)
            self._views[path] = view
        return self._views[path]


class Fields:
    def __init__(self, call: LiveCall, base: JsonPath, shape: Shape) -> None:
        self._call = call
        self._base = base
        self.shape = shape
        self._values = Values(call)

    def is_ready(self, part: FieldPart) -> bool:
        return self._stage(part)[0] == "ready"

    def outcome(self, part: FieldPart) -> Outcome | None:
        """Return the outcome of a field, or None if it has not settled."""
        stage, path = self._stage(part)
        return self._values.outcome(path, self._validator(part)) if stage == "ready" else None

    def value(self, name: str) -> Any:
        part = self.shape.fields.get(name)
        if part is None:
            return self._unknown(name)
        stage, path = self._stage(part)
        if stage == "ready":
            value = self._values.value(path, repr(name), self._validator(part))
            if value is not PENDING:
                return value
        elif stage == "open" and (view := self._values.view(path, part)) is not None:
            return view
        raise unavailable(self._call, path, repr(name), self._reason(part, stage, path))

    def _stage(self, part: FieldPart) -> tuple[_Stage, JsonPath]:
        stage, path = self._own_stage(part)
        return ("waiting" if stage == "ready" and self._awaited(part) else stage), path

    def _awaited(self, part: FieldPart) -> list[str]:
        """Return the names of the unsettled fields that the field waits for."""
        return [one.name for one in part.waits_for if self._own_stage(one)[0] != "ready"]

    def _own_stage(self, part: FieldPart) -> tuple[_Stage, JsonPath]:
        """Return the stage of a field, without the fields that it waits for, and its path."""
        call, base = self._call, self._base
        if not is_certain(call):
            return "waiting", base + part.places[0]
        is_closed = is_settled(call, base)
        for place in part.places:
            path = base + place
            if kind_at(call, path) is None:
                continue
            if is_closed:
                return "ready", path
            if place != part.early_place:
                return "waiting", path
            return ("ready" if is_settled(call, path) else "open"), path
        return ("ready" if is_closed else "waiting"), base + part.places[0]

    def _validator(self, part: FieldPart) -> Callable[[Any], Outcome]:
        def validate(value: Any) -> Outcome:
            earlier = {}
            for other in part.waits_for:
                _, path = self._own_stage(other)
                found = self._values.outcome(path, self._validator(other))
                if found.message is None and found.value is not PENDING:
                    earlier[other.name] = found.value
            return part.validate_field(value, earlier)

        return validate

    def _unknown(self, name: str) -> Any:
        """Return the value of an unknown key, if the model keeps such values."""
        path = (*self._base, name)
        if self.shape.allows_extra and not name.startswith("__"):
            if kind_at(self._call, path) is not None and is_settled(self._call, path):
                extra = self.shape.extra
                if extra is None:
                    return value_at(self._call.partial, path)
                return self._values.value(path, repr(name), extra.validate)
            raise unavailable(self._call, path, repr(name))
        kind = KeyError if self.shape.has_keys else AttributeError
        raise kind(self.shape.unknown(name))

    def _reason(self, part: FieldPart, stage: _Stage, path: JsonPath) -> str:
        if stage != "waiting" or kind_at(self._call, path) is None:
            return ""
        if self._own_stage(part)[0] == "ready":
            return f"its validator may use {', '.join(map(repr, self._awaited(part)))}"
        if path != self._base + part.places[0]:
            return f"{part.places[0][0]!r} may still arrive and would replace it"
        return ""


class ObjectSoFar:
    """An object while it is written, with the attributes or keys that have settled."""

    __slots__ = ("_argstream_fields",)

    def __init__(self, fields: Fields) -> None:
        self._argstream_fields = fields

    def __getattr__(self, name: str) -> Any:
        if name in ObjectSoFar.__slots__:  # copy and pickle create it without __init__
            raise AttributeError(name)
        if self._argstream_fields.shape.has_keys:
            raise AttributeError(f"a TypedDict has keys, not attributes. Use [{name!r}]")
        return self._argstream_fields.value(name)

    def __getitem__(self, key: str) -> Any:
        if not self._argstream_fields.shape.has_keys:
            raise TypeError(f"a model has attributes, not keys. Use .{key}")
        return self._argstream_fields.value(key)

    def __dir__(self) -> list[str]:
        return list(self._argstream_fields.shape.fields)

    def __repr__(self) -> str:
        fields = self._argstream_fields
        settled = [name for name, part in fields.shape.fields.items() if fields.is_ready(part)]
        return f"<{fields.shape.name} so far: {', '.join(settled) or 'nothing has settled'}>"


class ItemsSoFar(Sequence[Any]):
    """A list while it is written, with the items that have settled."""

    def __init__(self, call: LiveCall, base: JsonPath, part: ValuePart) -> None:
        self._call = call
        self._base = base
        self._part = part
        self._values = Values(call)
        self._counted = 0

    def __len__(self) -> int:
        call, items = self._call, value_at(self._call.partial, self._base)
        if not isinstance(items, list) or not is_certain(call):
            items = []
        self._counted = min(self._counted, len(items))
        while self._counted < len(items) and is_settled(call, (*self._base, self._counted)):
            self._counted += 1
        return self._counted

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        count = len(self)
        if isinstance(index, slice):
            return [self._item(one) for one in range(*index.indices(count))]
        number = index + count if index < 0 else index
        path = (*self._base, number)
        if 0 <= number < count:
            return self._item(number)
        if number == count and is_certain(self._call) and kind_at(self._call, path) is not None:
            view = self._values.view(path, self._part)
            if view is not None:
                return view
        raise unavailable(self._call, path, f"item {index}")

    def __iter__(self) -> Iterator[Any]:
        number = 0
        while number < len(self):
            yield self._item(number)
            number += 1

    def __repr__(self) -> str:
        count = len(self)
        return f"<{count} item{'' if count == 1 else 's'} so far>"

    def _item(self, number: int) -> Any:
        return self._values.value((*self._base, number), f"item {number}", self._part.validate)


Model = TypeVar("Model")


class TypedArguments(Generic[Model]):
    """The arguments of one call, as far as they have settled."""

    def __init__(self, definition: Definition, shape: Shape, call: LiveCall) -> None:
        self._definition = definition
        self._call = call
        self._fields = Fields(call, (), shape)
        self._so_far = ObjectSoFar(self._fields)

    @property
    def settled(self) -> frozenset[str]:
        """The names of the settled fields, valid or not; all if the call is complete."""
        parts = self._fields.shape.fields.items()
        return frozenset(name for name, part in parts if self._fields.is_ready(part))

    @property
    def so_far(self) -> Model:
        """A view with the fields of the model. It is not an instance of the model.

        A field that has not settled, or is not valid, raises ``ArgumentUnavailableError``.
        """
        return cast("Model", self._so_far)

    @property
    def errors(self) -> dict[str, str]:
        """Messages of pydantic or of failed validators, for settled fields that are not valid."""
        parts = self._fields.shape.fields.items()
        found = {name: outcome for name, part in parts if (outcome := self._fields.outcome(part))}
        return {name: one.message for name, one in found.items() if one.message is not None}

    def __contains__(self, name: object) -> bool:
        """Return True if a field has settled, is valid and has a value."""
        part = self._fields.shape.fields.get(cast("str", name))
        outcome = None if part is None else self._fields.outcome(part)
        return outcome is not None and outcome.message is None and outcome.value is not PENDING

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field that has settled and is valid, else the default.

        Raises ``ArgumentUnavailableError`` if its validator raised an unexpected exception.
        """
        shape = self._fields.shape
        if name not in shape.fields:
            raise UsageError(shape.unknown(name))
        outcome = self._fields.outcome(shape.fields[name])
        has_raised = outcome is not None and outcome.cause is not None
        return self._fields.value(name) if has_raised or name in self else default

    def value(self) -> Model:
        """Return a new instance of the model; for a function, a dict of its arguments.

        Raises ``ArgumentUnavailableError`` if the call is not complete, pydantic's
        ``ValidationError`` if the arguments are not valid, and any exception of your validators.
        """
        if self._call.verdict != "complete":
            name = f"the arguments of {self._call.name!r}"
            raise unavailable(self._call, (), name, "the call is being written")
        text = json.dumps(self._call.partial, ensure_ascii=False)
        return cast("Model", self._definition.instance(text))

    def __repr__(self) -> str:
        return f"<TypedArguments of {self._call.name!r}, {self._call.verdict}: {self._so_far!r}>"


@overload
def typed(definition: type[Model], call: LiveCall | CallHolder) -> TypedArguments[Model]: ...
@overload
def typed(
    definition: Callable[..., Any] | ToolSpec, call: LiveCall | CallHolder
) -> TypedArguments[Any]: ...
def typed(definition: object, call: LiveCall | CallHolder) -> TypedArguments[Any]:
    """Return the typed arguments of a call.

    The definition of the tool is a pydantic model, a dataclass, a TypedDict (of typing_extensions
    on Python 3.11), a function, or a ToolSpec of one of these. The call is one of ``events.calls``,
    or a reader of ``live_calls()``.
    """
    live: Any = getattr(call, "call", call)
    if isinstance(live, type) or not hasattr(live, "in_leaves"):
        raise UsageError(
            f"{describe(call)} is not a call. Pass one of events.calls, or a reader of live_calls()"
        )
    if isinstance(definition, ToolSpec):
        if definition.source is None:
            raise UsageError(
                f"the tool {definition.name!r} is defined by a JSON Schema, without Python types. "
                "Pass a pydantic model or a function"
            )
        definition = definition.source
    if live.kind in FREE_TEXT_KINDS:
        raise UsageError(f"{live.name!r} takes free text and has no arguments. Use call.raw")
    read = read_definition(definition)
    return TypedArguments(read, shape_of(read), live)

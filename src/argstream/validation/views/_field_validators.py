"""The parts of a model: for each field where its value stands, and how pydantic judges it alone.

pydantic compiles a model as a whole. Its core schema has a part for each field, with the field's
own validators in it; here such a part is compiled by itself, when it is first needed. Values are
judged as JSON, since that is what they are: so a date may be a string even where a model is strict.

A validator that asks for more than the value (``info``) may look at the fields defined before its
own. It gets them as they were validated, so such a field has to wait for those.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from argstream.jsonstream import PENDING, JsonPath
from argstream.validation._signatures import Definition

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

__all__ = ["FieldPart", "Outcome", "Shape", "ValuePart", "shape_of"]

_Schema = dict[str, Any]

_OF_OBJECTS: Final = {"model", "dataclass", "typed-dict"}
_NO_SCHEMAS: Final = {"metadata", "serialization", "default", "config", "expected"}
_MOST: Final = 3  # errors to tell of one field: a message is for people


class Outcome(NamedTuple):
    """What pydantic made of a value."""

    value: Any
    """PENDING if there is none: it is not valid, or may be missing and is."""
    message: str | None = None
    """Why it is not valid."""
    cause: Exception | None = None
    """What a validator raised that says nothing of the value: it fell over."""


class _Place(NamedTuple):
    """What a part of a schema needs to be understood."""

    config: Any
    definitions: Mapping[str, _Schema]

    def compile(self, schema: _Schema) -> "SchemaValidator":
        from pydantic_core import SchemaValidator  # noqa: PLC0415 - an extra

        whole: Any = {
            "type": "definitions",
            "schema": schema,
            "definitions": list(self.definitions.values()),
        }
        return SchemaValidator(whole, self.config)


class ValuePart:
    """A value inside a model: what it is made of, and how it is judged."""

    def __init__(self, schema: _Schema, place: _Place) -> None:
        self._schema = schema
        self._place = place

    @cached_property
    def shape(self) -> "Shape | None":
        """The fields in it, if it is an object whose fields can be looked at one by one."""
        return _shape(self._schema, self._place, is_root=False)

    @cached_property
    def items(self) -> "ValuePart | None":
        """What its items are, if it is an array whose items can be looked at one by one."""
        schema = _peeled(self._schema, self._place.definitions)
        items: Any = schema.get("items_schema")
        if schema["type"] == "tuple":
            items = items[0] if schema.get("variadic_item_index") == 0 and len(items) == 1 else None
        if schema["type"] not in ("list", "tuple") or items is None or self.takes_info:
            return None
        return ValuePart(items, self._place)

    @cached_property
    def takes_info(self) -> bool:
        """Whether a validator in it may look at other fields."""
        return _takes_info(self._schema, self._place.definitions, set())

    def is_used_up(self, value: object) -> bool:
        """Say whether a value that it gave is of no use to the next who asks: has an iterator."""
        return self._has_iterator or isinstance(value, Iterator)

    @cached_property
    def _has_iterator(self) -> bool:
        return _has_iterator(self._schema, self._place.definitions, set())

    @cached_property
    def _validator(self) -> "SchemaValidator":
        return self._place.compile(self._schema)

    def judge(self, value: object) -> Outcome:
        """Have pydantic judge the value alone."""
        return _judged(self._validator, value, depth=0)


class FieldPart(ValuePart):
    """A field of a model."""

    def __init__(
        self, name: str, field: _Schema, place: _Place, *, earlier: "tuple[FieldPart, ...]"
    ) -> None:
        super().__init__(field["schema"], place)
        self.name = name
        self.places = tuple(_places(name, field, place.config or {}))
        """Where its value may stand. If it stands at several, the first one counts."""
        first = self.places[0]
        counts_from_end = any(isinstance(key, int) and key < 0 for key in first)
        self.early_place = None if counts_from_end else first
        """The one that counts before its object is closed, when others may come yet."""
        self._earlier = earlier
        self._may_be_missing = field.get("required") is False  # in a TypedDict

    @cached_property
    def waits_for(self) -> "tuple[FieldPart, ...]":
        """The fields that its validators may look at: those defined before it."""
        return self._earlier if self.takes_info else ()

    @cached_property
    def _validator(self) -> "SchemaValidator":
        return self._compile({})

    def judge_field(self, value: object, earlier: Mapping[str, Any]) -> Outcome:
        """Have pydantic judge the field; PENDING stands for none, which may mean a default."""
        given = {} if value is PENDING else {self.name: value}
        if not given and self._may_be_missing:
            return Outcome(PENDING)
        # What was validated is no JSON any more: it is put in by functions instead of values.
        validator = self._compile(earlier) if earlier else self._validator
        outcome = _judged(validator, {**dict.fromkeys(earlier), **given}, depth=1)
        if outcome.message is not None:
            return outcome
        fields, _, _ = outcome.value
        return Outcome(fields[self.name])

    def _compile(self, earlier: Mapping[str, Any]) -> "SchemaValidator":
        fields = {name: _field(_constant(value)) for name, value in earlier.items()}
        fields[self.name] = _field(self._schema)
        return self._place.compile({"type": "model-fields", "fields": fields})


class Shape(NamedTuple):
    """The fields of a model."""

    name: str
    fields: Mapping[str, FieldPart]
    has_keys: bool
    """Whether the fields are keys, as in a TypedDict, and not attributes."""
    takes_more: bool
    """Whether keys that are no fields are kept."""
    more: ValuePart | None
    """How the values of those are judged, if the model says it."""


@lru_cache(maxsize=256)
def shape_of(definition: Definition) -> Shape | None:
    """Give the parts of what defines a tool; None if it has no fields."""
    schema: Any = definition.adapter.core_schema
    definitions: dict[str, _Schema] = {}
    if schema["type"] == "definitions":
        definitions = {inner["ref"]: inner for inner in schema["definitions"]}
        schema = schema["schema"]
    shape = _shape(schema, _Place(None, definitions), is_root=True)
    if shape is None or definition.parameters is None:
        return shape
    fields = {name: shape.fields[field] for field, name in definition.parameters.items()}
    return shape._replace(name=definition.name, fields=fields)


def _shape(schema: _Schema, place: _Place, *, is_root: bool) -> Shape | None:
    schema = _peeled(schema, place.definitions, is_root=is_root)
    if schema["type"] not in _OF_OBJECTS or schema.get("root_model"):
        return None
    config = schema.get("config") or {}
    inner = schema if schema["type"] == "typed-dict" else schema["schema"]
    while inner["type"] in ("function-before", "function-after", "function-wrap"):
        inner = inner["schema"]  # validators of the model, which are for all of it
    if "fields" not in inner:
        return None
    place = _Place(config, place.definitions)
    extra = inner.get("extra_behavior") or config.get("extra_fields_behavior")
    more = inner.get("extras_schema")
    return Shape(
        schema["cls"].__name__ if "cls" in schema else "the object",
        dict(_fields(inner, place)),
        has_keys=schema["type"] == "typed-dict",
        takes_more=extra == "allow",
        more=None if more is None else ValuePart(more, place),
    )


def _fields(inner: _Schema, place: _Place) -> Iterator[tuple[str, FieldPart]]:
    fields = inner["fields"]
    pairs = (
        fields.items()
        if isinstance(fields, dict)
        else [(field["name"], field) for field in fields if field.get("init") is not False]
    )
    earlier: tuple[FieldPart, ...] = ()
    for name, field in pairs:
        part = FieldPart(name, field, place, earlier=earlier)
        yield name, part
        earlier = (*earlier, part)


def _peeled(
    schema: _Schema, definitions: Mapping[str, _Schema], *, is_root: bool = False
) -> _Schema:
    """Take off what does not change what the parts of a value are.

    What comes before the value's own validation may change it, so it stays on; at the root all is
    taken off, since there validators are the model's, and those are for the whole.
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


def _takes_info(schema: Any, definitions: Mapping[str, _Schema], seen: set[str]) -> bool:
    """Say whether a validator that asks for info belongs to the field, not to a model in it."""
    if isinstance(schema, list | tuple):
        return any(_takes_info(one, definitions, seen) for one in schema)
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "with-info" or schema.get("default_factory_takes_data"):
        return True
    if schema.get("type") in _OF_OBJECTS:
        return False
    ref = schema.get("schema_ref")
    if ref is not None and ref not in seen:
        seen.add(ref)
        return _takes_info(definitions[ref], definitions, seen)
    told = (value for key, value in schema.items() if key not in ("metadata", "serialization"))
    return any(_takes_info(value, definitions, seen) for value in told)


def _has_iterator(schema: Any, definitions: Mapping[str, _Schema], seen: set[str]) -> bool:
    """Say whether pydantic makes an iterator of something in it, be it in a model."""
    if isinstance(schema, list | tuple):
        return any(_has_iterator(one, definitions, seen) for one in schema)
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "generator":
        return True
    ref = schema.get("schema_ref")
    if isinstance(ref, str) and ref not in seen:
        seen.add(ref)
        return _has_iterator(definitions[ref], definitions, seen)
    told = (value for key, value in schema.items() if key not in _NO_SCHEMAS)
    return any(_has_iterator(value, definitions, seen) for value in told)


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


def _field(schema: _Schema) -> _Schema:
    return {"type": "model-field", "schema": schema}


def _constant(value: Any) -> _Schema:
    function = {"type": "no-info", "function": lambda _: value}
    return {"type": "function-plain", "function": function}


def _judged(validator: "SchemaValidator", value: object, *, depth: int) -> Outcome:
    from pydantic_core import ValidationError  # noqa: PLC0415 - an extra

    text = json.dumps(value, ensure_ascii=False)
    try:
        return Outcome(validator.validate_json(text))
    except ValidationError as error:
        return Outcome(PENDING, _told(error, depth))
    except Exception as error:  # noqa: BLE001 - whoever asks for the value gets it as the cause
        return Outcome(PENDING, f"its validator raised {type(error).__name__}: {error}", error)


def _told(error: Any, depth: int) -> str:
    """Say what is wrong; places are told from what the user asked for, so many levels down."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    parts = []
    for one in errors[:_MOST]:
        inside = ", ".join(map(repr, one["loc"][depth:]))
        parts.append(f"{one['msg']} (at {inside})" if inside else one["msg"])
    more = len(errors) - len(parts)
    return "; ".join(parts) + (f" and {more} more" if more else "")

r"""The arguments of a call so far, typed: for a tool that is defined by a class or a function.

::

    class WriteFile(BaseModel):
        path: str
        content: str

    view = typed(WriteFile, call)     # live, as the call is
    view.settled                      # frozenset({'path'})
    view.so_far.path                  # 'src/app.py': validated, and a str for type checkers
    view.so_far.content               # ArgumentUnavailable: 'content' has not settled …
    view.value()                      # the WriteFile, once the call is complete

Nothing is done while a call grows. A field is validated when it is asked for and has settled, once,
by its own validators; what still grows is never held. A model's own validators, and its rules for
keys that it does not know, are for the whole: they have their say in ``value()``.

- A model inside, while it is open, is such a view as well: ``view.so_far.address.city``. So is a
  list: it has the items that have settled. An item by its index may be open in its turn.
- A field that may be spelt in several ways (``AliasChoices``, ``populate_by_name``) counts as
  settled before the end only in its first spelling: a later one would yield to that.
- A field whose validators ask for ``info`` waits for the fields defined before it.
- If a validator falls over (it raises a KeyError, say, and no ValueError), nobody knows whether the
  value is valid: ``errors`` tells it, the field is not ``in`` the view, and whoever wants the value
  gets ``ArgumentUnavailable`` with that exception as its cause. ``value()`` raises it as it is.
- Of a field that is an ``Iterable`` pydantic makes an iterator, which can be used once, and
  validates each item only when it is fetched: ``errors`` knows nothing of these. Each time such a
  field is asked for, it is made anew. A ``list`` is better.
- Numbers have come as ``int`` and ``float``; a ``Decimal`` is made of these.
"""

import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast, overload

from argstream.deltas import FREE_TEXT_KINDS
from argstream.errors import UsageError
from argstream.jsonstream import PENDING
from argstream.settled import LiveCall
from argstream.validation._signatures import Definition, read_definition
from argstream.validation.tools import ToolSpec
from argstream.validation.views._field_validators import FieldPart, Shape, shape_of
from argstream.validation.views._live_call import CallHolder, live_call, unavailable
from argstream.validation.views._so_far import Fields, ObjectSoFar

__all__ = ["LiveCall", "TypedArguments", "typed"]

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
        """The names of the fields that have settled, be they valid or not.

        In a complete call all have: what was not given has its default.
        """
        parts = self._fields.shape.fields.items()
        return frozenset(name for name, part in parts if self._fields.is_ready(part))

    @property
    def so_far(self) -> Model:
        """What has settled, to be read as if it were whole.

        A field that has not settled, or is not valid, raises ``ArgumentUnavailable``; it says why.
        It is no instance of the model: that is what ``value()`` gives.
        """
        return cast("Model", self._so_far)

    @property
    def errors(self) -> dict[str, str]:
        """What pydantic says of fields that have settled and are not valid.

        Of one whose validator fell over, it says what that raised.
        """
        found: dict[str, str] = {}
        for name, part in self._fields.shape.fields.items():
            outcome = self._fields.outcome(part)
            if outcome is not None and outcome.message is not None:
                found[name] = outcome.message
        return found

    def __contains__(self, name: object) -> bool:
        """Say whether a field has settled, is valid and has a value: whether it can be had."""
        part = self._fields.shape.fields.get(cast("str", name))
        outcome = None if part is None else self._fields.outcome(part)
        return outcome is not None and outcome.message is None and outcome.value is not PENDING

    def get(self, name: str, default: Any = None) -> Any:
        """Give a field that has settled and is valid, or the default.

        Raises ``ArgumentUnavailable`` if its validator fell over: a default would hide that.
        """
        outcome = self._fields.outcome(self._part(name))
        if outcome is None:
            return default
        if outcome.cause is None and (outcome.message is not None or outcome.value is PENDING):
            return default
        return self._fields.value(name)

    def value(self) -> Model:
        """Give all of it, of a complete call: the model; for a function, its arguments by name.

        It is made anew each time. Raises ``ArgumentUnavailable`` if the call is not complete,
        pydantic's ``ValidationError`` if its arguments are not valid, and what else a validator of
        yours raises.
        """
        if self._call.verdict != "complete":
            raise unavailable(self._call, (), f"all of {self._call.name!r}", "it is being written")
        text = json.dumps(self._call.partial, ensure_ascii=False)
        found = self._definition.adapter.validator.validate_json(text)
        parameters = self._definition.parameters
        if parameters is not None:
            named = {name: getattr(found, field) for field, name in parameters.items()}
            found = {**named, **(found.model_extra or {})}
        return cast("Model", found)

    def _part(self, name: str) -> FieldPart:
        shape = self._fields.shape
        if name not in shape.fields:
            raise UsageError(
                f"{shape.name} has no field {name!r}; it has: {', '.join(shape.fields) or 'none'}"
            )
        return shape.fields[name]

    def __repr__(self) -> str:
        return f"<TypedArguments of {self._call.name!r}, {self._call.verdict}: {self._so_far!r}>"


@overload
def typed(definition: type[Model], call: LiveCall | CallHolder) -> TypedArguments[Model]: ...
@overload
def typed(
    definition: Callable[..., Any] | ToolSpec, call: LiveCall | CallHolder
) -> TypedArguments[Any]: ...
def typed(definition: object, call: LiveCall | CallHolder) -> TypedArguments[Any]:
    """Look at a call as arguments of what defines its tool.

    That is a pydantic model, a dataclass, a TypedDict (under Python 3.11 of typing_extensions, as
    pydantic wants it) or a function, or a ToolSpec made of one. The call is one of
    ``events.calls``, or a reader of ``live_calls()``, which has one.
    """
    call = live_call(call)
    if isinstance(definition, ToolSpec):
        if definition.source is None:
            raise UsageError(
                f"the tool {definition.name!r} was made of a JSON Schema, which has no types: give "
                "a pydantic model or a function"
            )
        definition = definition.source
    if call.kind in FREE_TEXT_KINDS:
        raise UsageError(f"{call.name!r} takes free text, which has no fields: read call.raw")
    read = read_definition(definition)
    return TypedArguments(read, _shape(read), call)


def _shape(definition: Definition) -> Shape:
    shape = shape_of(definition)
    if shape is None:
        raise UsageError(
            f"{definition.name} has no fields, but the arguments of a tool have names: give a model"
            " with fields, a dataclass, a TypedDict or a function"
        )
    return shape

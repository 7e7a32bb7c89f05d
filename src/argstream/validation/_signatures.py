"""Tools that are defined by a Python class or function, read with pydantic.

A function becomes a model with a field for each parameter. The fields have generated names, and the
names of the parameters as aliases: a parameter may be called ``schema`` or ``_x``, a field may not.
A parameter whose type has ``hidden_from_models`` is omitted: the runner of the tool passes it.
"""

import dataclasses
import inspect
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from types import FunctionType, MethodType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from argstream.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_EXPECTED = "Use a pydantic model, a dataclass, a TypedDict or a function"


@dataclasses.dataclass(frozen=True, eq=False)
class Definition:
    """A class or a function, as read by pydantic."""

    name: str
    description: str
    adapter: "TypeAdapter[Any]"
    parameters: Mapping[str, str] | None
    """The parameters of a function by the names of their fields; None for a class."""

    def instance(self, text: str) -> Any:
        """Return a new instance of the class; for a function, a dict of its arguments."""
        found = self.adapter.validator.validate_json(text)
        if self.parameters is None:
            return found
        named = {name: getattr(found, field) for field, name in self.parameters.items()}
        return {**named, **(found.model_extra or {})}


def is_definition(tool: object) -> bool:
    return isinstance(tool, type | FunctionType | MethodType)


def read_definition(tool: object) -> Definition:
    """Read a class or a function with pydantic. Cached."""
    if find_spec("pydantic") is None:
        raise MissingExtraError("validation", "a tool that is defined in Python")
    if isinstance(tool, MethodType):
        return _of_function(tool.__func__, is_bound=True)
    if isinstance(tool, FunctionType):
        return _of_function(tool, is_bound=False)
    if isinstance(tool, type):
        return _of_class(tool)
    raise UsageError(f"{describe(tool)} does not define a tool. {_EXPECTED}")


def json_schema(definition: Definition) -> dict[str, Any]:
    from pydantic.errors import PydanticUserError

    try:
        return definition.adapter.json_schema()
    except PydanticUserError as error:
        raise UsageError(f"{definition.name} has no JSON Schema: {error}") from error


def is_typed_dict(hint: object) -> bool:
    """Return True for a TypedDict, of typing or of typing_extensions."""
    return isinstance(hint, type) and issubclass(hint, dict) and hasattr(hint, "__required_keys__")


def describe(found: object) -> str:
    if isinstance(found, type):
        return f"the class {found.__name__}"
    return f"an object of type {type(found).__name__}"


@lru_cache(maxsize=256)
def _of_class(tool: type) -> Definition:
    is_model = hasattr(tool, "__pydantic_core_schema__")
    if not (is_model or dataclasses.is_dataclass(tool) or is_typed_dict(tool)):
        raise UsageError(f"{describe(tool)} does not define a tool. {_EXPECTED}")
    doc = tool.__doc__ or ""
    if dataclasses.is_dataclass(tool) and doc.startswith(f"{tool.__name__}("):
        doc = ""  # the signature, which @dataclass adds
    return Definition(tool.__name__, inspect.cleandoc(doc), _adapter(tool, tool.__name__), None)


@lru_cache(maxsize=256)
def _of_function(function: FunctionType, *, is_bound: bool) -> Definition:
    name = function.__name__
    if name == "<lambda>":
        raise UsageError("a lambda has no name. Define the tool as a function")
    from pydantic import Field

    parameters = list(inspect.signature(function).parameters.values())[is_bound:]
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise UsageError(f"the types of {name}() cannot be read: {error}") from error
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    extra: Any = None
    for number, parameter in enumerate(parameters):
        hint = hints.get(parameter.name, Any)
        _check_parameter(parameter, hint, name, is_first=number == 0)
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = hint
        elif not _is_hidden(hint):
            default = ... if parameter.default is parameter.empty else parameter.default
            names[f"argument_{number}"] = parameter.name
            fields[f"argument_{number}"] = Annotated[hint, Field(alias=parameter.name)], default
    model = _model(name, fields, extra)
    return Definition(name, inspect.getdoc(function) or "", _adapter(model, f"{name}()"), names)


def _check_parameter(parameter: inspect.Parameter, hint: Any, name: str, *, is_first: bool) -> None:
    if is_first and parameter.name in ("self", "cls"):
        raise UsageError(
            f"{name}() takes {parameter.name!r}. Pass the method of an object (an_object.{name})"
        )
    if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
        raise UsageError(
            f"{name}() takes {str(parameter).partition(':')[0]!r} by position, but arguments of a "
            "tool have names. Make it a keyword parameter"
        )
    if (
        parameter.kind is parameter.VAR_KEYWORD
        and getattr(get_origin(hint), "_name", None) == "Unpack"  # of typing, or typing_extensions
    ):
        raise UsageError(
            f"{name}() takes '**{parameter.name}' as the keys of a TypedDict. Declare a parameter "
            "for each key"
        )


def _is_hidden(hint: Any) -> bool:
    """Return True if the class of a parameter is hidden from models, also in a union."""
    if getattr(hint, "hidden_from_models", False) is True:
        return True
    return get_origin(hint) in (Annotated, Union, UnionType) and any(
        map(_is_hidden, get_args(hint))
    )


def _model(name: str, fields: dict[str, Any], extra: Any) -> type:
    from pydantic import BaseModel, ConfigDict, create_model

    class Arguments(BaseModel):
        model_config = ConfigDict(
            extra="ignore" if extra is None else "allow", arbitrary_types_allowed=True
        )
        if extra not in (None, Any):
            __pydantic_extra__: dict[str, extra]

    model: type = create_model(name, __base__=Arguments, **fields)
    return model


def _adapter(definition: Any, name: str) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(definition)
        adapter.core_schema["type"]  # an unresolved forward reference raises here
    except (PydanticUserError, NameError) as error:
        raise UsageError(f"pydantic cannot use {name}: {error}") from error
    return adapter

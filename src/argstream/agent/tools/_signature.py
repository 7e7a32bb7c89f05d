"""What a function says of the tool that it is: name, description, schema, special parameters."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from argstream.agent.tools._docstrings import read_docstring
from argstream.agent.tools.context import ToolContext
from argstream.agent.tools.streamed import Streamed
from argstream.errors import UsageError
from argstream.validation import ToolSpec

__all__ = ["Face", "is_method", "read_function"]

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what all providers take
_SCHEMAS: Final = ("items", "additionalProperties", "contains", "propertyNames", "not")
_SCHEMAS_BY_NAME: Final = ("properties", "$defs", "patternProperties")
_LISTS_OF_SCHEMAS: Final = ("anyOf", "allOf", "oneOf", "prefixItems")


class Face(NamedTuple):
    """What is known of a tool: for the model, and for who runs it."""

    spec: ToolSpec
    schema: Mapping[str, Any]
    names: tuple[str, ...]
    """The parameters that a model gives."""
    takes_more: bool
    """Whether it takes arguments of other names as well: ``**kwargs``."""
    context: str | None
    """The parameter that receives the context, if there is one."""
    streamed: str | None
    """The parameter that receives its text while it is written, if there is one."""


def is_method(function: object) -> bool:
    """Say whether it is a function of a class, which is a tool only of an object of that class."""
    if not inspect.isfunction(function):
        return False
    first = next(iter(inspect.signature(function).parameters), None)
    return first in ("self", "cls")


def read_function(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> Face:
    """Read a function or the method of an object; raise UsageError if it can be no tool."""
    special = _Special.of(function)
    found = ToolSpec.of(function)
    _refuse_other_names(function.__name__, special)
    name = found.name if name is None else name
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a tool: providers take up to 64 letters of a to z, digits, _ "
            "and -; give it another, @tool(name=…)"
        )
    told = read_docstring(inspect.getdoc(function) or "", list(special.parameters))
    schema = _schema(found.schema, told.parameters, takes_more=special.takes_more)
    spec = ToolSpec(
        name, told.description if description is None else description, schema, source=function
    )
    names = tuple(
        one.name
        for one in special.parameters.values()
        if one.name != special.context and one.kind is not one.VAR_KEYWORD
    )
    return Face(spec, schema, names, special.takes_more, special.context, special.streamed)


class _Special(NamedTuple):
    """What pydantic knows nothing of: the parameters that are for the tool alone."""

    parameters: Mapping[str, inspect.Parameter]
    hints: Mapping[str, Any]
    takes_more: bool
    context: str | None
    streamed: str | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "_Special":
        name = function.__name__
        parameters = inspect.signature(function).parameters
        try:
            hints = get_type_hints(function, include_extras=True)
        except (NameError, TypeError):
            hints = {}  # whoever reads the rest of them will say it
        takes_more = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        streamed = _streamed(name, hints, parameters)
        if streamed is not None and takes_more:
            raise UsageError(
                f"{name}() takes a Streamed text and '**': more arguments may come until the end, "
                "so it could never start early; name the others"
            )
        return cls(parameters, hints, takes_more, _context(name, hints, parameters), streamed)


def _refuse_other_names(name: str, special: _Special) -> None:
    """Refuse aliases: a function is called by the names of its parameters."""
    from pydantic.fields import FieldInfo  # noqa: PLC0415 - an extra

    for one, parameter in special.parameters.items():
        hint = special.hints.get(one)
        told = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        for field in (*told, parameter.default):
            if isinstance(field, FieldInfo) and (field.alias or field.validation_alias):
                raise UsageError(
                    f"{name}(): {one!r} has an alias, but the arguments of a tool have the names of"
                    " its parameters: let the parameter have that name"
                )


def _context(
    name: str, hints: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> str | None:
    found = [one for one in parameters if any(map(_is_context, _types(hints.get(one))))]
    if len(found) > 1:
        raise UsageError(f"{name}() takes a ToolContext as {_listed(found)}: once is enough")
    for one in found:
        others = [kind for kind in _types(hints[one]) if kind is not type(None)]
        if (
            not all(map(_is_context, others))
            or parameters[one].kind is inspect.Parameter.VAR_KEYWORD
        ):
            raise UsageError(
                f"{name}(): {one!r} may be a ToolContext or something else, but no model gives a "
                "context: let it be a ToolContext alone"
            )
    return found[0] if found else None


def _streamed(
    name: str, hints: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> str | None:
    found = [one for one in parameters if any(map(_is_streamed, _inside(hints.get(one))))]
    if len(found) > 1:
        raise UsageError(
            f"{name}() takes several Streamed texts, {_listed(found)}, but a model writes them "
            "one after the other: let one be Streamed and the others str"
        )
    for one in found:
        if _types(hints[one]) not in ([Streamed[str]], [Streamed]):
            raise UsageError(
                f"{name}(): {one!r} must be Streamed[str] as it stands: only the text of an "
                "argument can be read while it is written, not a part of it or another type"
            )
        if parameters[one].default is not inspect.Parameter.empty:
            raise UsageError(
                f"{name}(): {one!r} is Streamed and has a default, but the tool may start before "
                "it is known whether the text comes: leave the default out"
            )
    return found[0] if found else None


def _types(hint: Any) -> list[Any]:
    """Give the types that a value may be of: a union's parts, without what is annotated."""
    hint = _meant(hint)
    if get_origin(hint) is Annotated:
        return _types(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [one for part in get_args(hint) for one in _types(part)]
    return [hint]


def _inside(hint: Any) -> Iterator[Any]:
    """Give a type and all that it is made of."""
    hint = _meant(hint)
    yield hint
    for part in get_args(hint):
        yield from _inside(part)


def _meant(hint: Any) -> Any:
    """Give the type that an alias stands for: ``type Text = Streamed[str]``."""
    alias = get_origin(hint) or hint
    if type(alias).__name__ != "TypeAliasType":  # of typing, or typing_extensions
        return hint
    return _meant(alias.__value__ if alias is hint else alias.__value__[get_args(hint)])


def _is_context(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, ToolContext)


def _is_streamed(hint: Any) -> bool:
    return hint is Streamed or get_origin(hint) is Streamed


def _schema(found: Any, told: Mapping[str, str], *, takes_more: bool) -> dict[str, Any]:
    """Give the schema that a model sees: what its function was said to take, and nothing else."""
    schema = dict(_without_titles(found, found.get("title")))
    properties = schema.setdefault("properties", {})
    for name, words in told.items():
        if name in properties:
            properties[name] = {"description": words, **properties[name]}
    if not takes_more:
        # What a function would not receive is told to the model, not dropped: it may have meant it.
        schema["additionalProperties"] = False
    return schema


def _without_titles(schema: Any, name: Any) -> Any:
    """Leave out the titles that pydantic makes of names: they say nothing, and cost tokens."""
    if not isinstance(schema, dict):
        return schema
    kept = dict(schema)
    if _plain(kept.get("title")) == _plain(name):
        kept.pop("title", None)
    for key in _SCHEMAS_BY_NAME:
        if isinstance(kept.get(key), dict):
            kept[key] = {inner: _without_titles(one, inner) for inner, one in kept[key].items()}
    for key in _SCHEMAS:
        if key in kept:
            kept[key] = _without_titles(kept[key], None)
    for key in _LISTS_OF_SCHEMAS:
        if isinstance(kept.get(key), list):
            kept[key] = [_without_titles(one, None) for one in kept[key]]
    return kept


def _plain(name: object) -> object:
    return re.sub(r"[\s_]", "", name).lower() if isinstance(name, str) else name


def _listed(names: list[str]) -> str:
    return " and ".join(map(repr, names))

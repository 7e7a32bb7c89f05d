"""What a function says of the tool that it is: name, description, schema, special parameters."""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from argstream.agent.tools._streamed import Streamed, ToolContext
from argstream.errors import UsageError
from argstream.validation import ToolSpec

_GOOGLE: Final = re.compile(r"(Args|Arguments|Parameters):\s*")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:(?:\s+(.*)|$)")
_NUMPY: Final = re.compile(r"(Other )?Parameters\s*")
_NUMPY_ENTRY: Final = re.compile(r"\*{0,2}(\w+)(?:\s*:\s.*)?")
_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_FIELD: Final = re.compile(
    r":(param|parameter|arg|argument|type)\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)"
)


class DocString(NamedTuple):
    description: str
    parameters: dict[str, str]


class _Section(NamedTuple):
    end: int
    parameters: dict[str, str]


def read_docstring(text: str, names: Collection[str]) -> DocString:
    lines = inspect.cleandoc(text).splitlines()
    parameters: dict[str, str] = {}
    number = 0
    kept: list[str] = []
    while number < len(lines):
        section = _section(lines, number, names)
        if section is None:
            kept.append(lines[number])
            number += 1
        else:
            parameters.update(section.parameters)
            number = section.end
            while number < len(lines) and not lines[number].strip() and not (kept and kept[-1]):
                number += 1
    told = {name: words for name, words in parameters.items() if words}
    return DocString("\n".join(kept).strip(), told)


def _section(lines: list[str], start: int, names: Collection[str]) -> _Section | None:
    line = lines[start]
    if _GOOGLE.fullmatch(line):
        return _google(lines, start, names)
    if _NUMPY.fullmatch(line) and start + 1 < len(lines) and _UNDERLINE.fullmatch(lines[start + 1]):
        return _numpy(lines, start, names)
    if (field := _FIELD.fullmatch(line)) and field[2] in names:
        return _rest_field(lines, start, field)
    return None


def _google(lines: list[str], start: int, names: Collection[str]) -> _Section | None:
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][0].isspace()):
        end += 1
    body = inspect.cleandoc("\n" + "\n".join(lines[start + 1 : end])).splitlines()
    parameters = _entries(body, _GOOGLE_ENTRY, names)
    return None if parameters is None else _Section(end, parameters)


def _numpy(lines: list[str], start: int, names: Collection[str]) -> _Section | None:
    end = start + 2
    while end < len(lines) and not _is_numpy_header(lines, end):
        end += 1
    parameters = _entries(lines[start + 2 : end], _NUMPY_ENTRY, names)
    return None if parameters is None else _Section(end, parameters)


def _is_numpy_header(lines: list[str], number: int) -> bool:
    return number + 1 < len(lines) and bool(_UNDERLINE.fullmatch(lines[number + 1]))


def _entries(
    body: list[str], form: re.Pattern[str], names: Collection[str]
) -> dict[str, str] | None:
    """Read entries that begin at the margin and continue indented; None if one does not fit."""
    found: dict[str, list[str]] = {}
    for line, is_entry in _marked(body):
        if not is_entry:
            if not found:
                return None
            found[next(reversed(found))].append(line)
            continue
        entry = form.fullmatch(line)
        if entry is None or entry[1] not in names or entry[1] in found:
            return None
        found[entry[1]] = [entry[2] or ""] if form.groups > 1 else []
    return {name: _joined(told) for name, told in found.items()} or None


def _marked(body: list[str]) -> Iterator[tuple[str, bool]]:
    for line in body:
        yield line.strip(), bool(line.strip()) and not line[0].isspace()


def _rest_field(lines: list[str], start: int, field: re.Match[str]) -> _Section:
    end = start + 1
    while end < len(lines) and lines[end].strip() and lines[end][0].isspace():
        end += 1
    told = _joined([field[3], *lines[start + 1 : end]])
    return _Section(end, {} if field[1] == "type" else {field[2]: told})


def _joined(told: list[str]) -> str:
    """Join lines to paragraphs: their wrapping has no meaning."""
    text = "\n".join(line.strip() for line in told).strip()
    return "\n\n".join(" ".join(part.split("\n")) for part in re.split(r"\n\n+", text))


_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what all providers take
_SCHEMAS: Final = ("items", "additionalProperties", "contains", "propertyNames", "not")
_SCHEMAS_BY_NAME: Final = ("properties", "$defs", "patternProperties")
_LISTS_OF_SCHEMAS: Final = ("anyOf", "allOf", "oneOf", "prefixItems")


class ToolSignature(NamedTuple):
    """What is known of a tool: for the model, and for its execution."""

    spec: ToolSpec
    schema: Mapping[str, Any]
    names: tuple[str, ...]  # the parameters that a model gives
    takes_more: bool  # whether it takes arguments of other names as well: ``**kwargs``
    context: str | None  # the parameter that receives the context, if there is one
    streamed: str | None
    """The parameter that receives its text while it is written, if there is one."""


def is_method(function: object) -> bool:
    """Return True for a function of a class, which is a tool only of an object of that class."""
    if not inspect.isfunction(function):
        return False
    first = next(iter(inspect.signature(function).parameters), None)
    return first in ("self", "cls")


def read_function(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> ToolSignature:
    """Read a function or bound method. Raises UsageError if it cannot be a tool."""
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
    return ToolSignature(spec, schema, names, special.takes_more, special.context, special.streamed)


class _Special(NamedTuple):
    """The parameters that pydantic does not know: for the tool alone."""

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
            hints = {}  # ToolSpec.of will raise
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
    from pydantic.fields import FieldInfo

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
    """Return the types that a value may have: the parts of a union, without annotations."""
    hint = _meant(hint)
    if get_origin(hint) is Annotated:
        return _types(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [one for part in get_args(hint) for one in _types(part)]
    return [hint]


def _inside(hint: Any) -> Iterator[Any]:
    hint = _meant(hint)
    yield hint
    for part in get_args(hint):
        yield from _inside(part)


def _meant(hint: Any) -> Any:
    """Return the type behind an alias such as ``type Text = Streamed[str]``."""
    alias = get_origin(hint) or hint
    if type(alias).__name__ != "TypeAliasType":  # of typing, or typing_extensions
        return hint
    return _meant(alias.__value__ if alias is hint else alias.__value__[get_args(hint)])


def _is_context(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, ToolContext)


def _is_streamed(hint: Any) -> bool:
    return hint is Streamed or get_origin(hint) is Streamed


def _schema(found: Any, told: Mapping[str, str], *, takes_more: bool) -> dict[str, Any]:
    """Return the schema that a model sees."""
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
    """Drop the titles that pydantic makes of names: they add nothing, and cost tokens."""
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

"""Reads a function as a tool: its name, description, schema and special parameters."""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from textwrap import dedent
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from argstream.agent.tools._streamed import Streamed, ToolContext
from argstream.errors import UsageError
from argstream.validation import ToolSpec

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what all providers accept

# Parameters in a docstring: a section in the style of Google or NumPy, or a field of reST.
_SECTION: Final = re.compile(
    r"""
    ^(?:Args|Arguments|Parameters):[ \t]*\n
        (?P<google>(?:[ \t]+.*\n|\n)*)
    |^(?:Other[ ])?Parameters[ \t]*\n-{3,}[ \t]*\n
        (?P<numpy>(?:(?!.*\n-{3,}[ \t]*\n).*\n)*)
    |^:(?P<field>param|parameter|arg|argument|type)[ \t]+(?:[^:\n]*[ \t])?\*{0,2}(?P<name>\w+):
        (?P<text>.*\n(?:[ \t]+\S.*\n)*)
    """,
    re.MULTILINE | re.VERBOSE,
)
# A parameter in a section: the first line begins at the margin, the others are indented.
_ENTRY: Final = re.compile(r"^(?=\S)", re.MULTILINE)
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)[ \t]*(?:\([^)\n]*\))?:((?:\s.*)?)", re.DOTALL)
_NUMPY_ENTRY: Final = re.compile(r"\*{0,2}(\w+)(?:[ \t]*:[ \t].*)?[ \t]*\n((?:.*\n)*)")


def _read_docstring(text: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return the description of a tool, and those of its parameters."""
    parameters: dict[str, str] = {}

    def read(section: re.Match[str]) -> str:
        if section["google"] is not None:
            found = _entries(dedent(section["google"]).strip("\n"), _GOOGLE_ENTRY, names)
        elif section["numpy"] is not None:
            found = _entries(section["numpy"], _NUMPY_ENTRY, names)
        else:
            found = {section["name"]: section["text"]} if section["name"] in names else {}
        if not found:
            return section[0]
        if section["field"] != "type":
            parameters.update({name: _unwrapped(words) for name, words in found.items()})
        return ""

    description = _SECTION.sub(read, inspect.cleandoc(text) + "\n")
    description = re.sub(r"\n{3,}", "\n\n", description).strip()
    return description, {name: words for name, words in parameters.items() if words}


def _entries(body: str, form: re.Pattern[str], names: Collection[str]) -> dict[str, str]:
    """Return the text of each parameter. It is empty if an entry does not have the form."""
    found: dict[str, str] = {}
    for text in filter(None, _ENTRY.split(body)):
        entry = form.fullmatch(text)
        if entry is None or entry[1] not in names or entry[1] in found:
            return {}
        found[entry[1]] = entry[2]
    return found


def _unwrapped(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))


class ToolSignature(NamedTuple):
    spec: ToolSpec
    schema: Mapping[str, Any]
    names: tuple[str, ...]  # the parameters that a model writes
    takes_more: bool  # whether it accepts arguments with other names: ``**kwargs``
    context: str | None  # the parameter that receives the ``ToolContext``
    streamed: str | None  # the parameter that receives its text while it is written


def is_method(function: object) -> bool:
    """Return True for a function of a class, which is a tool only of an object of that class."""
    if not inspect.isfunction(function):
        return False
    return next(iter(inspect.signature(function).parameters), None) in ("self", "cls")


def read_function(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> ToolSignature:
    """Read a function or bound method. Raises UsageError if it cannot be a tool."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        hints = {}  # ToolSpec.of raises
    parameters = [
        one.replace(annotation=hints.get(one.name))
        for one in inspect.signature(function).parameters.values()
    ]
    takes_more = any(one.kind is one.VAR_KEYWORD for one in parameters)
    context = _context_parameter(function.__name__, parameters)
    streamed = _streamed_parameter(function.__name__, parameters)
    if streamed is not None and takes_more:
        # More arguments may arrive until the end, so it could never start early.
        raise UsageError(f"{function.__name__}() has a Streamed text and '**'. Name all arguments")
    found = ToolSpec.of(function)
    _refuse_aliases(function.__name__, parameters)
    name = found.name if name is None else name
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name for a tool: providers accept up to 64 letters of a to z, "
            "digits, _ and -. Set another name with @tool(name=…)"
        )
    documented = [one.name for one in parameters]
    words, descriptions = _read_docstring(inspect.getdoc(function) or "", documented)
    schema = _schema(found.schema, descriptions, takes_more=takes_more)
    spec = ToolSpec(name, words if description is None else description, schema, source=function)
    names = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    names = [one for one in names if one != context]
    return ToolSignature(spec, schema, tuple(names), takes_more, context, streamed)


def _refuse_aliases(name: str, parameters: list[inspect.Parameter]) -> None:
    from pydantic.fields import FieldInfo

    for one in parameters:
        is_annotated = get_origin(one.annotation) is Annotated
        metadata = get_args(one.annotation)[1:] if is_annotated else ()
        for field in (*metadata, one.default):
            if isinstance(field, FieldInfo) and (field.alias or field.validation_alias):
                raise UsageError(
                    f"{name}(): {one.name!r} has an alias. Rename the parameter instead"
                )


def _context_parameter(name: str, parameters: list[inspect.Parameter]) -> str | None:
    found = [one for one in parameters if any(map(_is_context, _types(one.annotation)))]
    if len(found) > 1:
        raise UsageError(f"{name}() takes a ToolContext as {_listed(found)}: once is enough")
    for one in found:
        others = [kind for kind in _types(one.annotation) if kind is not type(None)]
        if one.kind is one.VAR_KEYWORD or not all(map(_is_context, others)):
            raise UsageError(f"{name}(): {one.name!r} must be a ToolContext and nothing else")
    return found[0].name if found else None


def _streamed_parameter(name: str, parameters: list[inspect.Parameter]) -> str | None:
    found = [one for one in parameters if any(map(_is_streamed, _parts(one.annotation)))]
    if len(found) > 1:  # a model writes one after the other
        raise UsageError(f"{name}(): {_listed(found)} are Streamed. Make all but one of them str")
    for one in found:
        if _types(one.annotation) not in ([Streamed[str]], [Streamed]):
            raise UsageError(f"{name}(): {one.name!r} must be Streamed[str], not a part of a type")
        if one.default is not one.empty:
            # The tool may start before it is known whether the text comes.
            raise UsageError(f"{name}(): {one.name!r} is Streamed. Remove its default")
    return found[0].name if found else None


def _types(hint: Any) -> list[Any]:
    """Return the types that a value may have: the parts of a union, without annotations."""
    hint = _resolved(hint)
    if get_origin(hint) is Annotated:
        return _types(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [one for part in get_args(hint) for one in _types(part)]
    return [hint]


def _parts(hint: Any) -> Iterator[Any]:
    hint = _resolved(hint)
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


def _resolved(hint: Any) -> Any:
    """Return the type behind an alias such as ``type Text = Streamed[str]``."""
    alias = get_origin(hint) or hint
    if type(alias).__name__ != "TypeAliasType":  # of typing, or typing_extensions
        return hint
    return _resolved(alias.__value__ if alias is hint else alias.__value__[get_args(hint)])


def _is_context(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, ToolContext)


def _is_streamed(hint: Any) -> bool:
    return hint is Streamed or get_origin(hint) is Streamed


def _listed(parameters: list[inspect.Parameter]) -> str:
    return " and ".join(repr(one.name) for one in parameters)


def _schema(found: Any, descriptions: Mapping[str, str], *, takes_more: bool) -> dict[str, Any]:
    schema: dict[str, Any] = _without_titles(found, found.get("title"))
    properties = schema.setdefault("properties", {})
    for name, words in descriptions.items():
        if name in properties:
            properties[name] = {"description": words, **properties[name]}
    if not takes_more:
        # The model learns of an argument that the function does not have. It may have meant it.
        schema["additionalProperties"] = False
    return schema


def _without_titles(schema: Any, name: object = None) -> Any:
    """Remove the titles that pydantic derives from names: they cost tokens and add nothing."""
    if isinstance(schema, list):
        return [_without_titles(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, one in schema.items():
        if key in ("properties", "$defs", "patternProperties") and isinstance(one, dict):
            kept[key] = {inner: _without_titles(part, inner) for inner, part in one.items()}
        elif key in ("default", "const", "enum", "examples"):  # data, not schemas
            kept[key] = one
        elif key != "title" or not _is_name(one, name):
            kept[key] = _without_titles(one)
    return kept


def _is_name(title: object, name: object) -> bool:
    """Return True if a title is the name in other words: "First Line" for ``first_line``."""
    letters = [re.sub(r"[\s_]", "", str(one)).lower() for one in (title, name)]
    return isinstance(title, str) and letters[0] == letters[1]

"""Tools are functions: ``@tool`` turns a function, a generator or a method into one.

Name, description and schema come from the signature, its types and the docstring. The tool can
still be called like the function.

The text of a call's arguments is parsed again for each execution, unchanged (invariant 12), so the
tool shares no objects with approvers and viewers.
"""

import inspect
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache, cached_property, partial, update_wrapper
from textwrap import dedent
from types import FunctionType, MethodType, UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from argstream.agent.tools._execute import BoundCall, execute, failure_message
from argstream.agent.tools._streamed import Streamed, TextFeed, ToolContext
from argstream.assembly import Call
from argstream.checks import is_settled, value_at
from argstream.errors import UsageError
from argstream.jsonstream import PENDING, Parser
from argstream.jsonstream._fragments import kind_words
from argstream.models import OfferedTool
from argstream.policy import Policy
from argstream.validation import Schema, ToolSpec
from argstream.validation._signatures import read_definition

Parameters = ParamSpec("Parameters")
Bare = ParamSpec("Bare")  # without the first parameter of a method
Returned = TypeVar("Returned")
Owner = TypeVar("Owner")
StartTime: TypeAlias = Literal["after_turn", "when_complete"]

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

_MOST_PROBLEMS: Final = 5  # of the arguments of one call
_LONGEST_PROBLEM: Final = 300  # characters

_Text: TypeAlias = Annotated[str | None, "a str or None"]
_Flag: TypeAlias = Annotated[bool, "True or False"]
_Switch: TypeAlias = Annotated[bool | None, "True, False or None"]
_Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ToolSignature(NamedTuple):
    spec: ToolSpec
    names: tuple[str, ...]  # the parameters that a model writes
    takes_more: bool  # whether it accepts arguments with other names: ``**kwargs``
    context: str | None  # the parameter that receives the ``ToolContext``
    streamed: str | None  # the parameter that receives its text while it is written


class ToolOptions(TypedDict, total=False):
    """The options of ``@tool``, which explains them. Errors name the values that each accepts."""

    name: _Text
    description: _Text
    requires_confirmation: Annotated[bool | Policy, "True, False or a Policy"]
    timeout: Annotated[_Seconds | None, "a number of seconds greater than 0, or None"]
    idempotent: _Flag
    read_only: _Flag
    start: Annotated[StartTime, '"after_turn" or "when_complete"']
    strict: _Switch
    eager_input_streaming: _Switch
    defer_loading: _Flag
    allowed_callers: Annotated[Sequence[str], "a list of str"]
    input_examples: Annotated[Sequence[Mapping[str, Any]], "a list of dicts, each with arguments"]


@cache
def _option_types() -> dict[str, TypeAdapter[Any]]:
    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    hints = get_type_hints(ToolOptions, include_extras=True)
    return {name: TypeAdapter(hint, config=config) for name, hint in hints.items()}


def _check_options(options: ToolOptions) -> None:
    types = _option_types()
    for name, value in options.items():
        if name not in types:
            raise UsageError(f"@tool has no option {name!r}. Options: {', '.join(types)}")
        try:
            types[name].validate_python(value)
        except ValidationError:
            values = ToolOptions.__annotations__[name].__metadata__[0]
            raise UsageError(f"@tool({name}=…) must be {values}, not {value!r}") from None
    if options.get("start") == "when_complete" and not options.get("read_only"):
        raise UsageError(
            'start="when_complete" needs read_only=True: the turn may still fail, and then the '
            "call should not have happened"
        )
    if "input_examples" in options:  # the caller may change its list later
        options["input_examples"] = deepcopy(options["input_examples"])


class Tool:
    """A function that a model may call."""

    __name__: str

    def __init__(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        _check_options(options)
        update_wrapper(cast("Any", self), function, updated=())
        self.function = function  # what is run
        self._options = options
        self.requires_confirmation: bool | Policy = options.get("requires_confirmation", False)
        self.timeout: float | None = options.get("timeout")
        self.idempotent: bool = options.get("idempotent", False)
        self.read_only: bool = options.get("read_only", False)
        self.start: StartTime = options.get("start", "after_turn")
        # With this other tool, and without a policy of the agent, each call needs approval.
        self.asks_beside: str = ""
        if not (isinstance(function, MethodType) or is_method(function)):
            _ = self._signature  # raises if it cannot be a tool; methods are read when used

    @cached_property
    def _signature(self) -> ToolSignature:
        name, description = self._options.get("name"), self._options.get("description")
        found = read_function(self.function, name=name, description=description)
        if found.streamed is not None and self.start == "when_complete":
            early = "has a Streamed parameter, so it starts while the model writes"
            raise UsageError(f'{found.spec.name} {early}. Remove start="when_complete"')
        schema = cast("Mapping[str, Any]", found.spec.schema)
        for number, example in enumerate(self._options.get("input_examples", ()), 1):
            if (problem := _example_problem(schema, example)) is not None:
                name = found.spec.name
                raise UsageError(f"example {number} of {name} does not match its schema: {problem}")
        return found

    @property
    def name(self) -> str:
        """The name that models call it by."""
        return self.spec.name

    @property
    def description(self) -> str:
        """The description that models read."""
        return self.spec.description

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments; a ``Streamed`` text is a string in it."""
        return cast("Mapping[str, Any]", self.spec.schema)

    @property
    def spec(self) -> ToolSpec:
        """The same, for ``stream()`` and ``typed()``."""
        return self._signature.spec

    @property
    def streamed(self) -> str | None:
        """The name of its ``Streamed`` parameter, if it has one."""
        return self._signature.streamed

    @property
    def offered(self) -> OfferedTool:
        """The tool as it is sent to a model."""
        spec = {"name": self.name, "description": self.description, "schema": self.schema}
        return msgspec.convert({**self._options, **spec}, OfferedTool)

    def problem(self, text: str) -> str | None:
        """Return why these arguments are not valid, worded for a model; None if they are."""
        found = _read(self._signature, text)
        return found if isinstance(found, str) else None

    def bind(self, text: str) -> BoundCall:
        """Parse and validate exactly this text. Raises UsageError if it is not valid."""
        found = _read(self._signature, text)
        if isinstance(found, str):
            raise UsageError(f"{self.name} cannot be called with these arguments: {found}")
        if self.streamed is None:
            return BoundCall(found, None)
        feed = TextFeed()
        feed.add(found[self.streamed])
        feed.finish()
        return BoundCall({**found, self.streamed: Streamed(feed)}, feed)

    def bind_early(self, call: Call, feed: TextFeed) -> BoundCall | None:
        """Bind a call whose ``Streamed`` text is open; None if other arguments are open too.

        An optional argument may come later, so a call without it starts after its turn.
        """
        if self.streamed is None or call.verdict != "open":
            return None
        if call.in_doubt or call.reinterpreted is not None:
            return None  # the arguments may not be what the text says
        others = [name for name in self._signature.names if name != self.streamed]
        for name in others:
            if value_at(call.partial, (name,)) is PENDING or not is_settled(call, (name,)):
                return None
        # Consumers have seen ``call.partial``, and may have changed it.
        parser = Parser(unique_keys=True)
        parser.feed(call.raw)
        parsed: Any = parser.value
        if parser.error is not None or not isinstance(parsed, dict):
            return None
        found = _validated(self._signature, {self.streamed: "", **parsed})
        if isinstance(found, str):
            return None
        return BoundCall({**found, self.streamed: Streamed(feed)}, feed)

    async def execute(self, bound: BoundCall, context: ToolContext) -> Any:
        """Run it once, and return its result as JSON data.

        Raises what the function raises; ``TimeoutError`` if it took too long; ``ToolError`` if it
        tried to end the program, or its result cannot be written as JSON.
        """
        call = partial(self.function, **bound.arguments)
        if self._signature.context is not None:
            call = partial(call, **{self._signature.context: context})
        return await execute(call, bound.feed, context, self.timeout)

    def __repr__(self) -> str:
        return f"<Tool {self.function.__name__!r}>"


class FunctionTool(Tool, Generic[Parameters, Returned]):
    """A tool that can be called like the function that it was made of."""

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        """Call the function itself, without validation and timeout."""
        returned: Returned = self.function(*args, **kwargs)
        return returned

    @overload
    def __get__(self, owner: None, kind: Any = None) -> "FunctionTool[Parameters, Returned]": ...
    @overload
    def __get__(
        self: "FunctionTool[Concatenate[Owner, Bare], Returned]", owner: Owner, kind: Any = None
    ) -> "FunctionTool[Bare, Returned]": ...
    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """Return the tool of an object, if it was made of a method."""
        if owner is None:
            return self
        return FunctionTool(MethodType(self.function, owner), **self._options)


@overload
def tool(function: Callable[Parameters, Returned], /) -> FunctionTool[Parameters, Returned]: ...
@overload
def tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[Parameters, Returned]], FunctionTool[Parameters, Returned]]: ...
def tool(
    function: Callable[Parameters, Returned] | None = None, /, **options: Unpack[ToolOptions]
) -> Any:
    """Turn a function, an async function, a generator or a method into a tool.

    Use it as ``@tool`` or with options, as in ``@tool(timeout=30)``. The result can still be called
    like the original function.

    Args:
        function: The function to decorate. Its signature and types define the schema.
        **options: The options of the tool, all of them optional.

    Options:
        name: The name that models call it by. Default: the name of the function.
        description: The description that models read. Default: the docstring of the function.
        requires_confirmation: ``True`` if every call needs approval, or a ``Policy`` whose rules
            decide which calls do.
        timeout: How many seconds a call may take, counted from its start. Default: no limit.
        idempotent: A call that was interrupted by a crash may run again, with the same idempotency
            key.
        read_only: The tool changes nothing.
        start: ``"when_complete"`` starts a call as soon as its arguments are complete and all
            checks have passed, while the model goes on writing. Only for tools that are
            ``read_only``. Calls that need approval wait for the end of the turn.
        strict: Whether the provider must enforce the schema while the model writes. Default: the
            provider's default, but OpenAI Responses enforces each schema that it can.
        eager_input_streaming: Whether to ask Anthropic not to buffer the arguments of this tool.
            Default: Anthropic's default.
        defer_loading: The model finds the tool with the provider's tool search instead of reading
            its schema in every request.
        allowed_callers: What may call the tool: ``"direct"`` for the model, and the provider's
            names for programs that the model writes.
        input_examples: Arguments of typical calls, which the model reads. They must match the
            schema.

    Providers that do not have an option are not sent it; docs/tools.md has a table.

    Raises:
        UsageError: If an option has a wrong type, or the object cannot be a tool.

    """
    if function is None:
        return lambda given: _made(given, options)
    return _made(function, options)


def as_tool(given: object) -> Tool:
    """Return the tool for a tool or a plain function."""
    if isinstance(given, MethodType) and isinstance(given.__func__, FunctionTool):
        given = given.__func__.__get__(given.__self__)  # of a classmethod
    found = given if isinstance(given, Tool) else _made(given, {})
    if is_method(found.function):
        name, path = found.function.__name__, found.function.__qualname__
        raise UsageError(f"{path} is a method. Pass that of an object: an_object.{name}")
    _ = found.spec  # raises if the method cannot be a tool
    return found


def _made(function: Any, options: ToolOptions) -> FunctionTool[..., Any]:
    if isinstance(function, staticmethod | classmethod):
        raise UsageError(f"put @tool below @{type(function).__name__}, not above it")
    inner = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(inner, Tool):
        raise UsageError(f"{inner.function.__name__}() is a tool already. Remove one @tool")
    if not isinstance(inner, FunctionType):
        raise UsageError(
            f"{function!r} cannot be a tool. Pass a function or a method of an object. Options "
            "have names, as in @tool(name=…)"
        )
    if isinstance(inspect.unwrap(inner, stop=lambda one: isinstance(one, Tool)), Tool):
        # Otherwise the options of the tool would be lost.
        raise UsageError(f"{inner.__name__}(): put @tool above all other decorators")
    return FunctionTool(function, **options)


def _example_problem(schema: Mapping[str, Any], example: Mapping[str, Any]) -> str | None:
    try:
        arguments = json.loads(json.dumps({**example}, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as problem:
        return f"it is not JSON: {problem}"
    error = Schema(schema).check().finish(arguments, as_read=False)
    return None if error is None else error.message


def parse_arguments(text: str) -> Parser:
    """Parse the text of arguments by the same rules as when it was streamed (invariant 4)."""
    parser = Parser(unique_keys=True)
    parser.feed(text)
    parser.close()
    return parser


def _read(signature: ToolSignature, text: str) -> dict[str, Any] | str:
    """Return the arguments by the names of the parameters, or why they are not valid."""
    parser = parse_arguments(text if text.strip() else "{}")
    parsed: Any = parser.value
    if parser.error is not None:
        return f"the arguments are not valid JSON: {parser.error.message}"
    if not isinstance(parsed, dict):
        return f"the arguments must be a JSON object, not {kind_words(parsed)}"
    return _validated(signature, parsed)


def _validated(signature: ToolSignature, parsed: dict[str, Any]) -> dict[str, Any] | str:
    try:
        text = json.dumps(parsed, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return "a number in the arguments is too large for a float"
    unknown = [] if signature.takes_more else [one for one in parsed if one not in signature.names]
    if unknown:
        known = ", ".join(signature.names) or "none"
        return f"unknown argument {_shortened(repr(unknown[0]))}. Arguments: {known}"
    try:
        found: dict[str, Any] = read_definition(signature.spec.source).instance(text)
    except ValidationError as error:
        return _problems(error)
    except Exception as error:  # noqa: BLE001 - a validator failed: the arguments may be invalid
        return f"the validator failed: {_shortened(failure_message(error))}"
    return found


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [_shortened(f"{_path(one['loc'])}: {one['msg']}") for one in found[:_MOST_PROBLEMS]]
    more = len(found) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _path(keys: tuple[str | int, ...]) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".") or "the arguments"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]} …"


# How a function is read


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


def is_method(function: object) -> bool:
    """Return True for a function of a class, which is a tool only of an object of that class."""
    if not inspect.isfunction(function):
        return False
    return next(iter(inspect.signature(function).parameters), None) in ("self", "cls")


def read_function(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> ToolSignature:
    """Read a function or bound method. Raises UsageError if it cannot be a tool."""
    read_definition(function)  # raises if its types cannot be read
    hints = get_type_hints(function, include_extras=True)
    parameters = [
        one.replace(annotation=hints.get(one.name))
        for one in inspect.signature(function).parameters.values()
    ]
    named = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    takes_more = len(named) < len(parameters)
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
    names = tuple(one for one in named if one != context)
    return ToolSignature(spec, names, takes_more, context, streamed)


def _refuse_aliases(name: str, parameters: list[inspect.Parameter]) -> None:
    for one in parameters:
        for field in (*getattr(one.annotation, "__metadata__", ()), one.default):
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
    found = [one for one in parameters if any(part is Streamed for part in _parts(one.annotation))]
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
    """Yield a type and all that it consists of, such as both names in ``Streamed[str]``."""
    hint = _resolved(hint)
    yield get_origin(hint) or hint
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
    letters = {re.sub(r"[\s_]", "", str(one)).lower() for one in (title, name)}
    return isinstance(title, str) and len(letters) == 1

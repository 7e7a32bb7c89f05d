"""A function defines a tool: its name, description, schema, and valid arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from enum import Enum
from functools import cache, partial, wraps
from typing import Annotated, Any, Literal, Optional, TypeVar

import pytest
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypeAliasType

from argstream import Agent, ScriptedModel, stream
from argstream.agent.tools import Streamed, ToolContext, as_tool, tool
from argstream.errors import UsageError
from argstream.events import ToolArgsInvalid
from argstream.models import OfferedTool
from argstream.policy import Policy
from argstream.validation import Schema, tool_specs
from tests.provider_streams import anthropic_call


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Edit(BaseModel):
    """One change."""

    line: int
    text: str = ""


@tool
def write(path: str, content: str, mode: Literal["w", "a"] = "w") -> int:
    """Write a file.

    What was there is lost.

    Args:
        path: Where it goes,
            below the project.
        content (str): What is in it.
        mode: How.

    Returns:
        How many characters.
    """
    return len(path + content + mode)


def test_tool_has_the_name_docstring_and_schema_of_its_function() -> None:
    assert write.name == "write"
    assert write.description == (
        "Write a file.\n\nWhat was there is lost.\n\nReturns:\n    How many characters."
    )
    assert write.schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where it goes, below the project."},
            "content": {"type": "string", "description": "What is in it."},
            "mode": {"type": "string", "enum": ["w", "a"], "default": "w", "description": "How."},
        },
        "required": ["path", "content"],
        "additionalProperties": False,
    }
    assert (write.spec.name, write.spec.schema) == (write.name, write.schema)


def test_options_override_the_function() -> None:
    policy = Policy([])
    options: dict[str, Any] = {"name": "save-file", "description": "Save.", "timeout": 2.5}
    options |= {"requires_confirmation": policy}
    made = tool(eager_input_streaming=True, **options)(write.function)
    assert {name: getattr(made, name) for name in options} == options
    assert made.offered.eager_input_streaming
    assert (made.spec.name, made.spec.description) == ("save-file", "Save.")


def test_options_of_providers_are_offered_with_the_tool() -> None:
    examples = [{"path": "a.txt", "content": ""}, {"path": "b", "content": "c", "mode": "a"}]
    made = tool(
        strict=True, defer_loading=True, allowed_callers=["direct"], input_examples=examples
    )(write.function)
    assert made.offered == OfferedTool(
        name="write",
        description=write.description,
        schema=write.schema,
        strict=True,
        defer_loading=True,
        allowed_callers=("direct",),
        input_examples=tuple(examples),
    )
    assert write.offered == OfferedTool(
        name="write", description=write.description, schema=write.schema
    )


@pytest.mark.parametrize(
    ("example", "problem"),
    [
        ({"path": "a", "content": 5}, "'content' must be a string"),
        ({"path": "a"}, "content"),
        ({"path": "a", "content": "", "size": 1}, 'there is no argument "size"'),
        ({"path": "a", "content": object()}, "it is not JSON"),
    ],
)
def test_examples_must_match_the_schema_of_the_tool(example: Any, problem: str) -> None:
    right = {"path": "a", "content": ""}
    with pytest.raises(UsageError) as raised:
        tool(input_examples=[right, example])(write.function)
    assert str(raised.value).startswith("example 2 of write does not match its schema: ")
    assert problem in str(raised.value)


def test_examples_of_a_method_are_checked_when_it_is_used() -> None:
    class Shelf:
        @tool(input_examples=[{"word": 3}])
        def find(self, word: str) -> str:
            return word

    with pytest.raises(UsageError, match="example 1 of find does not match"):
        Agent(ScriptedModel("Hi."), [Shelf().find])


NUMPY = "Parameters\n----------\npath : str\n    Where it is.\nsize\n    How much.\n\n"
REST = ":param path: Where\n    it is.\n:param int size: How much.\n:type path: str\n"


@pytest.mark.parametrize(
    ("parameters", "rest"), [(NUMPY, "Returns\n-------\nstr"), (REST, ":returns: the text")]
)
def test_numpy_and_rest_docstrings_are_parsed(parameters: str, rest: str) -> None:
    def read(path: str, size: int = 0) -> None: ...

    read.__doc__ = f"Read.\n\n{parameters}{rest}"
    made = tool(read)
    assert made.description == f"Read.\n\n{rest}"
    assert made.schema["properties"]["path"]["description"] == "Where it is."
    assert made.schema["properties"]["size"]["description"] == "How much."


@pytest.mark.parametrize(
    "entries",
    [
        "path: Where.\n    target: What is no parameter.",
        "path: Where.\n    path: Again.",
        "See the manual for all of them.",
        "path - where it is",
    ],
)
def test_malformed_args_section_stays_in_the_description(entries: str) -> None:
    def read(path: str) -> None: ...

    read.__doc__ = f"Read.\n\nArgs:\n    {entries}"
    made = tool(read)
    assert made.description == read.__doc__
    assert "description" not in made.schema["properties"]["path"]


def test_field_metadata_overrides_docstring_and_generated_titles() -> None:
    def edit(
        edit: Edit, title: str, first_line: Annotated[int, Field(title="The top")], default: str
    ) -> None:
        """Edit."""

    def read(path: Annotated[str, Field(description="The real one.")]) -> None:
        """Read.

        Args:
            path: The other one.
        """

    assert tool(read).schema["properties"]["path"]["description"] == "The real one."
    schema = tool(edit).schema
    assert "title" not in schema
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["default"] == {"type": "string"}
    assert schema["properties"]["first_line"] == {"type": "integer", "title": "The top"}
    assert schema["$defs"]["Edit"]["properties"]["line"] == {"type": "integer"}


def test_arguments_are_converted_to_the_types_of_the_parameters() -> None:
    def everything(  # type: ignore[no-untyped-def]  # on purpose
        day: date,
        colour: Colour,
        edits: list[Edit],
        unknown,
        *,
        limit: Annotated[int, Field(ge=1)] = 3,
        note: Optional[str] = None,  # noqa: UP045 - on purpose
        deep: bool = False,
        **more: int,
    ) -> dict[str, Any]:
        return {**locals()}

    made = tool(everything)
    Schema(made.schema)  # raises if it is invalid
    assert made.schema["additionalProperties"] == {"type": "integer"}
    text = (
        '{"day": "2026-03-04", "colour": "blue", "edits": [{"line": 1}], "unknown": [1], "deep": '
        'true, "x": 5}'
    )
    assert made.problem(text) is None
    assert made.bind(text).arguments == {
        "day": date(2026, 3, 4),
        "colour": Colour.BLUE,
        "edits": [Edit(line=1)],
        "unknown": [1],
        "limit": 3,
        "note": None,
        "deep": True,
        "x": 5,
    }


def test_context_is_no_argument_for_models() -> None:
    def read(context: ToolContext, path: str, again: ToolContext | None = None) -> None: ...

    def optional(path: str, context: ToolContext | None = None) -> None: ...

    def annotated(path: str, context: Annotated[ToolContext, "x"]) -> None:
        """Read.

        Args:
            path: Where.
            context: Not for models.
        """

    for function in (optional, annotated):
        made = tool(function)
        assert list(made.schema["properties"]) == ["path"]
        assert made.problem('{"path": "a", "context": {}}') is not None
        assert "context" not in made.description
    with pytest.raises(UsageError, match="'context' and 'again': once is enough"):
        tool(read)


def plain(x: int) -> int:
    return x


Words = TypeAliasType("Words", Streamed[str])
Item = TypeVar("Item", bound=str)
Pieces = TypeAliasType("Pieces", Annotated[Streamed[Item], "in pieces"], type_params=(Item,))


def test_streamed_text_and_its_aliases_are_strings_for_models() -> None:
    def limited(path: str, content: Annotated[Streamed[str], Field(max_length=5)]) -> None: ...
    def write(path: str, content: Words) -> None: ...
    def write_pieces(path: str, content: Pieces[str]) -> None: ...

    assert as_tool(plain).streamed is None
    content = tool(limited).schema["properties"]["content"]
    assert content == {"type": "string", "maxLength": 5}
    for function in (limited, write, write_pieces):
        made = tool(function)
        assert made.streamed == "content"
        Schema(made.schema)
        bound = made.bind('{"path": "a", "content": "b"}')
        assert isinstance(bound.arguments["content"], Streamed)


class Shelf:
    def __init__(self, books: list[str]) -> None:
        self.books = books

    @tool
    def find(self, word: str) -> list[str]:
        """Find books."""
        return [book for book in self.books if word in book]

    @tool(timeout=1)
    async def take(self, title: str) -> str:
        self.books.remove(title)
        return title

    @staticmethod
    @tool
    def bind_up(title: str) -> str:
        return f"[{title}]"

    @classmethod
    @tool
    def empty(cls, size: int) -> int:
        return size

    def plain(self, title: str) -> str:
        return title


def test_methods_of_an_object_are_tools_and_unbound_ones_are_not() -> None:
    shelf = Shelf(["a b", "c"])
    assert shelf.find("b") == ["a b"]
    assert shelf.find.name == "find"
    assert shelf.find.description == "Find books."
    assert list(shelf.find.schema["properties"]) == ["word"]
    assert shelf.find.bind('{"word": "c"}').arguments == {"word": "c"}
    assert shelf.take.timeout == 1
    assert as_tool(shelf.plain).name == "plain"
    assert list(as_tool(shelf.plain).schema["properties"]) == ["title"]
    assert as_tool(Shelf.bind_up).name == "bind_up"
    assert list(as_tool(Shelf.empty).schema["properties"]) == ["size"]
    for given in (Shelf.find, Shelf.plain):
        with pytest.raises(UsageError, match=r"an_object\.(find|plain)"):
            as_tool(given)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Desk:
    @logged
    @tool(requires_confirmation=True)
    def clear(self, drawer: int) -> int:
        return drawer


def test_tool_below_another_decorator_raises() -> None:
    @logged
    @logged
    @tool(requires_confirmation=True)
    def delete(path: str) -> str:
        return path

    for given in (delete, Desk().clear):
        with pytest.raises(UsageError, match="put @tool above all other decorators"):
            as_tool(given)


class Caller:
    def __call__(self, path: str) -> str:
        return path


@cache
def cached(path: str) -> str:
    return path


def with_alias(x: int = Field(alias="foo")) -> None: ...
def with_annotated_alias(x: Annotated[int, Field(validation_alias="foo")]) -> None: ...
def star(*paths: str) -> None: ...
def position(path: str, /) -> None: ...
def two_streams(a: Streamed[str], b: Streamed[str]) -> None: ...
def stream_of_numbers(a: Streamed[int]) -> None: ...  # type: ignore[type-var]  # wrong
def maybe_stream(a: Streamed[str] | None) -> None: ...
def list_of_streams(a: list[Streamed[str]]) -> None: ...
def stream_with_default(a: Streamed[str] = Streamed.of("x")) -> None: ...  # noqa: B008 - wrong
def stream_and_more(a: Streamed[str], **more: str) -> None: ...
def context_or_text(a: ToolContext | str) -> None: ...
def unknown_type(a: Nothing) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - wrong
def no_schema(a: Callable[[], int]) -> None: ...
def größe(a: str) -> None: ...  # noqa: PLC2401 - on purpose


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x, "a lambda has no name. Define the tool as a function"),
        (partial(star), "cannot be a tool. Pass a function or a method of an object"),
        (cached, "_lru_cache_wrapper object at"),
        (Caller(), "Caller object at"),
        (len, "<built-in function len> cannot be a tool"),
        (Shelf.empty, "empty() is a tool already"),
        (with_alias, "with_alias(): 'x' has an alias. Rename the parameter instead"),
        (with_annotated_alias, "Rename the parameter instead"),
        (Edit, "Edit'> cannot be a tool"),
        ("write", "Options have names, as in @tool"),
        (write, "write() is a tool already. Remove one @tool"),
        (staticmethod(star), "put @tool below @staticmethod"),
        (star, "'*paths' by position"),
        (position, "Make it a keyword parameter"),
        (two_streams, "'a' and 'b' are Streamed. Make all but one of them str"),
        (stream_of_numbers, "'a' must be Streamed[str], not a part of a type"),
        (maybe_stream, "'a' must be Streamed[str], not a part of a type"),
        (list_of_streams, "'a' must be Streamed[str], not a part of a type"),
        (stream_with_default, "Remove its default"),
        (stream_and_more, "Name all arguments"),
        (context_or_text, "'a' must be a ToolContext and nothing else"),
        (unknown_type, "name 'Nothing' is not defined"),
        (no_schema, "no_schema has no JSON Schema"),
        (größe, "Set another name with @tool(name=…)"),
    ],
)
def test_function_that_can_be_no_tool_raises_with_the_fix(function: Any, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        tool(function)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "greater than 0"),
        ({"timeout": float("nan")}, "greater than 0"),
        ({"timeout": True}, "greater than 0"),
        ({"requires_confirmation": "yes"}, "True, False or a Policy"),
        ({"eager_input_streaming": "x"}, "True, False or None"),
        ({"idempotent": "x"}, "True or False"),
        ({"strict": 1}, "True, False or None, not 1"),
        ({"defer_loading": None}, "True or False, not None"),
        ({"allowed_callers": "direct"}, "a list of str, not 'direct'"),
        ({"allowed_callers": [3]}, "a list of str"),
        ({"input_examples": {"a": 1}}, "a list of dicts"),
        ({"start": "now"}, '"after_turn" or "when_complete"'),
        ({"start": "when_complete"}, "needs read_only=True"),
        ({"timout": 3}, "no option 'timout'. Options: name, description"),
        ({"name": 3}, "a str or None"),
        ({"name": "a b"}, "is not a name for a tool"),
        ({"description": 3}, "a str or None"),
    ],
)
def test_wrong_options_raise(options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tool(**options)(plain)


def even(number: int) -> int:
    if number % 2:
        raise ValueError("it must be even")
    return number


def falls_over(number: int) -> int:
    raise KeyError(number)


@tool
def plan(
    number: Annotated[int, AfterValidator(even)],
    edits: list[Edit] = [],  # noqa: B006 - as some tools have
    fragile: Annotated[int, AfterValidator(falls_over)] = 0,
) -> None: ...


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"number": 2}', None),
        ('{"number": 3}', "number: Value error, it must be even"),
        ("{}", "number: Field required"),
        ("", "number: Field required"),
        (
            '{"number": 2, "edits": [{"line": 1}, {"line": "x"}]}',
            "edits[1].line: Input should be a valid integer, unable to parse string as an integer",
        ),
        ('{"number": 2, "nummer": 2}', "unknown argument 'nummer'. Arguments: number, edits"),
        ('{"number": 2, "number": 4}', "the arguments are not valid JSON: "),
        ('{"number": 2} x', "the arguments are not valid JSON: "),
        ('{"number": 2', "the arguments are not valid JSON: the text ended before"),
        ("[2]", "the arguments must be a JSON object, not an array"),
        ('{"number": 1e999}', "a number in the arguments is too large for a float"),
        ('{"number": 2, "fragile": 1}', "the validator failed: KeyError: 1"),
    ],
)
def test_invalid_arguments_are_explained_to_the_model(text: str, problem: str | None) -> None:
    found = plan.problem(text)
    if problem is None or found is None:
        assert found == problem
        return
    assert found.startswith(problem)
    assert "https://" not in found
    with pytest.raises(UsageError, match="plan cannot be called with these arguments"):
        plan.bind(text)


def test_explanation_is_short() -> None:
    wrong = json.dumps({"number": "x" * 10_000, "edits": [{"line": "y" * 5_000}] * 1_000})
    for text in (wrong, json.dumps({"k" * 90_000: 1})):
        assert len(plan.problem(text) or "") < 2_000


def test_each_binding_is_a_fresh_parse() -> None:
    @tool
    def keep(data: dict[str, Any], text: str) -> None: ...

    text = '{"data": {"a": [1]}, "text": "\\ud800x"}'
    first, second = keep.bind(text), keep.bind(text)
    first.arguments["data"]["a"].append(2)
    assert second.arguments == {"data": {"a": [1]}, "text": "\ufffdx"}


def test_stream_accepts_tools_of_an_agent() -> None:
    @tool(name="plus")
    def add(a: int, b: int) -> int:
        return a + b

    events = list(stream(anthropic_call('{"a": "x"'), tools=[add]))
    assert any(isinstance(event, ToolArgsInvalid) for event in events)
    assert [spec.name for spec in tool_specs([add])] == ["plus"]

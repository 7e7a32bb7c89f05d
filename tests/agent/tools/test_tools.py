"""A function says what the tool is: name, description, schema, and which arguments fit."""

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

from argstream import stream
from argstream.agent.tools import Streamed, ToolContext, as_tool, tool
from argstream.errors import UsageError
from argstream.events import ToolArgsInvalid
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


def test_a_tool_is_what_its_function_says() -> None:
    assert write.name == "write"
    assert write.description == (
        "Write a file.\n\nWhat was there is lost.\n\nReturns:\n    How many characters."
    )
    assert write.schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where it goes, below the project."},
            "content": {"type": "string", "description": "What is in it."},
            "mode": {
                "type": "string",
                "enum": ["w", "a"],
                "default": "w",
                "description": "How.",
            },
        },
        "required": ["path", "content"],
        "additionalProperties": False,
    }
    assert (write.spec.name, write.spec.schema) == (write.name, write.schema)


def test_options_win_over_the_function() -> None:
    policy = Policy([])
    made = tool(
        name="save-file",
        description="Save.",
        requires_confirmation=policy,
        timeout=2.5,
        eager_input_streaming=True,
    )(write.function)
    assert (made.name, made.description, made.timeout) == ("save-file", "Save.", 2.5)
    assert made.requires_confirmation is policy
    assert made.eager_input_streaming is True
    assert (made.spec.name, made.spec.description) == ("save-file", "Save.")


def test_numpy_and_rest_docstrings_are_read_as_well() -> None:
    def numpy(path: str, size: int = 0) -> None:
        """Read.

        Parameters
        ----------
        path : str
            Where it is.
        size
            How much.

        Returns
        -------
        str
        """

    def rest(path: str, size: int = 0) -> None:
        """Read.

        :param path: Where
            it is.
        :param int size: How much.
        :type path: str
        :returns: the text
        """

    for function, rest_of_it in ((numpy, "Returns\n-------\nstr"), (rest, ":returns: the text")):
        made = tool(function)
        assert made.description == f"Read.\n\n{rest_of_it}"
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
def test_a_section_that_is_not_of_the_form_stays_in_the_description(entries: str) -> None:
    def read(path: str) -> None: ...

    read.__doc__ = f"Read.\n\nArgs:\n    {entries}"
    made = tool(read)
    assert made.description == read.__doc__
    assert "description" not in made.schema["properties"]["path"]


def test_a_description_of_pydantic_wins_over_the_docstring() -> None:
    def read(path: Annotated[str, Field(description="The real one.")]) -> None:
        """Read.

        Args:
            path: The other one.
        """

    assert tool(read).schema["properties"]["path"]["description"] == "The real one."


def test_titles_that_only_repeat_a_name_are_left_out() -> None:
    def edit(edit: Edit, title: str, first_line: Annotated[int, Field(title="The top")]) -> None:
        """Edit."""

    schema = tool(edit).schema
    assert "title" not in schema
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["first_line"] == {"type": "integer", "title": "The top"}
    assert schema["$defs"]["Edit"]["properties"]["line"] == {"type": "integer"}


def test_all_kinds_of_types_and_parameters() -> None:
    def everything(  # type: ignore[no-untyped-def]  # on purpose
        day: date,
        colour: Colour,
        edits: list[Edit],
        unknown,
        *,
        limit: Annotated[int, Field(ge=1)] = 3,
        note: Optional[str] = None,  # noqa: UP045 - that form, too
        deep: bool = False,
        **more: int,
    ) -> dict[str, Any]:
        return {**locals()}

    made = tool(everything)
    Schema(made.schema)  # it is a valid one
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


def test_no_model_sees_the_context() -> None:
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


def test_a_streamed_text_is_a_string_for_models() -> None:
    @tool
    def write(path: str, content: Annotated[Streamed[str], Field(max_length=5)]) -> None: ...

    assert write.streamed == "content"
    assert write.schema["properties"]["content"] == {"type": "string", "maxLength": 5}
    assert as_tool(lambda_free).streamed is None


def lambda_free(x: int) -> int:
    return x


Words = TypeAliasType("Words", Streamed[str])
Item = TypeVar("Item", bound=str)
Pieces = TypeAliasType("Pieces", Annotated[Streamed[Item], "in pieces"], type_params=(Item,))


def test_an_alias_of_a_streamed_text_is_one() -> None:
    def write(path: str, content: Words) -> None: ...
    def write_pieces(path: str, content: Pieces[str]) -> None: ...

    for function in (write, write_pieces):
        made = tool(function)
        assert made.streamed == "content"
        Schema(made.schema)
        bound = made.bind('{"path": "a", "content": "b"}')
        assert isinstance(bound.arguments["content"], Streamed)


class Shelf:
    """An object with tools."""

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


def test_methods_of_an_object_are_tools() -> None:
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


def test_a_method_of_a_class_alone_is_none() -> None:
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


def test_options_are_not_lost_below_another_decorator() -> None:
    @logged
    @logged
    @tool(requires_confirmation=True)
    def delete(path: str) -> str:
        return path

    for given in (delete, Desk().clear):
        with pytest.raises(UsageError, match="put @tool above all other decorators"):
            as_tool(given)


def test_what_a_function_carries_does_not_get_into_the_tool() -> None:
    def read(path: str) -> str:
        return path

    vars(read).update(_face=None, timeout=5, _options=None)
    assert tool(read).name == "read"
    assert tool(read).timeout is None


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
def größe(a: str) -> None: ...  # noqa: PLC2401 - some write so


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: x, "a lambda has no name for a tool; define a function"),
        (partial(star), "something of the type partial cannot be a tool: give a function or"),
        (cached, "something of the type _lru_cache_wrapper cannot be a tool: give a function or"),
        (Caller(), "something of the type Caller cannot be a tool: give a function or"),
        (len, "one that calls it"),
        (Shelf.empty, "@tool is there twice"),
        (with_alias, "with_alias(): 'x' has an alias, but the arguments of a tool have the names"),
        (with_annotated_alias, "let the parameter have that name"),
        (Edit, "the class Edit cannot be a tool"),
        ("write", "options have names, as in @tool"),
        (write, "@tool is there twice"),
        (staticmethod(star), "put @tool below @staticmethod"),
        (star, "'*paths' by its position"),
        (position, "let it be given by name"),
        (two_streams, "let one be Streamed and the others str"),
        (stream_of_numbers, "'a' must be Streamed[str] as it stands"),
        (maybe_stream, "'a' must be Streamed[str] as it stands"),
        (list_of_streams, "'a' must be Streamed[str] as it stands"),
        (stream_with_default, "leave the default out"),
        (stream_and_more, "name the others"),
        (context_or_text, "let it be a ToolContext alone"),
        (unknown_type, "name 'Nothing' is not defined"),
        (no_schema, "no_schema has no JSON Schema"),
        (größe, "give it another, @tool(name=…)"),
    ],
)
def test_what_can_be_no_tool_says_what_to_do(function: Any, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        tool(function)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"timeout": 0}, "above 0"),
        ({"timeout": float("nan")}, "above 0"),
        ({"timeout": True}, "above 0"),
        ({"requires_confirmation": "yes"}, "True, False or a Policy"),
        ({"eager_input_streaming": "x"}, "True, False or None"),
        ({"idempotent": "x"}, "True or False"),
        ({"name": 3}, "a str or None"),
        ({"name": "a b"}, "no name for a tool"),
        ({"description": 3}, "a str or None"),
    ],
)
def test_wrong_options_say_what_they_must_be(options: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        tool(**options)(lambda_free)


def even(number: int) -> int:
    if number % 2:
        raise ValueError("it must be even")
    return number


def falls_over(number: int) -> int:
    raise KeyError(number)


@tool
def plan(
    number: Annotated[int, AfterValidator(even)],
    edits: list[Edit] = [],  # noqa: B006 - seen in tools
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
        ('{"number": 2, "nummer": 2}', "there is no argument 'nummer'; it takes: number, edits"),
        ('{"number": 2, "number": 4}', "the arguments are no valid JSON: "),
        ('{"number": 2} x', "the arguments are no valid JSON: "),
        ('{"number": 2', "the arguments are no valid JSON: the text ended before"),
        ("[2]", "the arguments must be a JSON object"),
        ('{"number": 1e999}', "a number in the arguments is too large"),
        ('{"number": 2, "fragile": 1}', "the arguments could not be checked: KeyError: 1"),
    ],
)
def test_a_problem_is_told_in_words_for_a_model(text: str, problem: str | None) -> None:
    told = plan.problem(text)
    if problem is None:
        assert told is None
        return
    assert told is not None
    assert told.startswith(problem)
    assert "https://" not in told
    with pytest.raises(UsageError, match="plan cannot be called with this"):
        plan.bind(text)


def test_a_problem_is_never_long() -> None:
    wrong = json.dumps({"number": "x" * 10_000, "edits": [{"line": "y" * 5_000}] * 1_000})
    for text in (wrong, json.dumps({"k" * 90_000: 1})):
        assert len(plan.problem(text) or "") < 2_000


def test_each_binding_is_a_fresh_parse_of_exactly_this_text() -> None:
    @tool
    def keep(data: dict[str, Any], text: str) -> None: ...

    text = '{"data": {"a": [1]}, "text": "\\ud800x"}'
    first, second = keep.bind(text), keep.bind(text)
    first.arguments["data"]["a"].append(2)
    assert second.arguments == {"data": {"a": [1]}, "text": "\ufffdx"}


def test_a_stream_takes_the_tools_of_an_agent() -> None:
    @tool(name="plus")
    def add(a: int, b: int) -> int:
        return a + b

    events = list(stream(anthropic_call('{"a": "x"'), tools=[add]))
    assert any(isinstance(event, ToolArgsInvalid) for event in events)
    assert [spec.name for spec in tool_specs([add])] == ["plus"]

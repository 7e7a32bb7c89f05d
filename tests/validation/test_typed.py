"""Typed arguments of an open call: settled fields are validated, others raise with the reason."""

import copy
import json
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Self

import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass

from argstream import stream
from argstream.assembly import Assembler, Call
from argstream.errors import ArgumentUnavailableError, UsageError
from argstream.events import ArgumentCompleted, ToolCallStarted
from argstream.testing import chunkings, cut
from argstream.validation import ToolSpec, TypedArguments, typed
from tests.provider_streams import anthropic_call, chat_call, fed, only_call, open_call
from tests.streaming.test_readers import leaves, restated
from tests.turns import STREAMED, Streamed


class Edit(BaseModel):
    line: int
    text: str = ""


class Address(BaseModel):
    city: str
    street: str | None = None


class Order(BaseModel):
    number: int
    day: date
    address: Address | None = None
    edits: list[Edit] = []
    tags: set[str] = set()
    note: str = "none"


ORDER = {
    "number": 7,
    "day": "2026-03-04",
    "address": {"city": "Rome", "street": "Via Appia"},
    "edits": [{"line": 1, "text": "a"}, {"line": 2}],
    "tags": ["x", "x"],
}


def whole_call(arguments: object) -> Call:
    return only_call(anthropic_call(json.dumps(arguments)))


def has(call: Call, key: str) -> bool:
    return isinstance(call.partial, dict) and key in call.partial


def reason(read: Callable[[], object]) -> str:
    with pytest.raises(ArgumentUnavailableError) as caught:
        read()
    return str(caught.value)


def after_each(payloads: Iterable[object], definition: Any) -> Iterator[Any]:
    """Yield the view and the call after each payload, and the arguments completed by events."""
    assembler = Assembler()
    view = None
    completed: set[str] = set()
    for payload in payloads:
        events = assembler.feed(payload)
        completed |= {
            str(event.path[0])
            for event in events
            if isinstance(event, ArgumentCompleted) and len(event.path) == 1
        }
        if view is None and assembler.calls:
            view = typed(definition, assembler.calls[0])
        if view is not None:
            yield view, assembler.calls[0], set(completed)


@pytest.mark.parametrize("streamed", STREAMED, ids=lambda streamed: streamed.protocol)
def test_field_settles_when_its_argument_is_completed(streamed: Streamed) -> None:
    text = json.dumps(ORDER)
    expected = Order.model_validate_json(text)
    for _, pieces in chunkings(text):
        last = None
        for view, call, completed in after_each(streamed.payloads(*pieces), Order):
            if call.verdict == "complete":
                assert view.settled == set(Order.model_fields)
            else:
                assert view.settled == completed
            for name in view.settled:
                assert getattr(view.so_far, name) == getattr(expected, name)
            assert view.errors == {}
            last = view
        assert last is not None
        assert last.value() == expected


def test_fields_can_be_read_by_name() -> None:
    view = typed(Order, open_call('{"number": 7, "day": "never", "note": "ab'))
    assert [name in view for name in ("number", "day", "note", "other")] == [True, *[False] * 3]
    assert (view.get("number"), view.get("day"), view.get("note", "?")) == (7, None, "?")
    with pytest.raises(UsageError, match=r"unknown field 'other' of Order. Fields: number, day"):
        view.get("other")
    assert dir(view.so_far) == sorted(Order.model_fields)
    with pytest.raises(AttributeError, match="unknown field 'model_dump' of Order"):
        _ = view.so_far.model_dump
    with pytest.raises(TypeError, match="attributes, not keys"):
        _ = view.so_far["number"]  # type: ignore[index]


def test_value_is_available_only_when_the_call_is_complete() -> None:
    view = typed(Order, open_call('{"number": 1, "day": "2026-03-04"}'))
    assert "the arguments of 'write' have not settled: the call is being" in reason(view.value)
    view = typed(Order, whole_call({"number": 1, "day": "2026-03-04"}))
    assert view.settled == set(Order.model_fields)
    assert (view.so_far.note, view.so_far.edits, view.so_far.address) == ("none", [], None)
    assert view.value() == Order(number=1, day=date(2026, 3, 4))
    view = typed(Order, whole_call({"number": 1}))
    assert view.errors == {"day": "Field required"}
    with pytest.raises(ValidationError):
        view.value()


def test_view_can_be_shown_and_copied_but_not_pickled() -> None:
    view: Any = typed(Order, open_call('{"number": 7, "address": {"city": "Rome", '))
    for so_far in (view.so_far, view.so_far.address):
        assert repr(copy.copy(so_far)) == repr(so_far)
        for copied in (copy.deepcopy, pickle.dumps):
            with pytest.raises(UsageError, match="cannot be copied or pickled"):
                copied(so_far)
    assert copy.copy(view.so_far).number == 7
    assert repr(view) == "<TypedArguments of 'write', open: <Order so far: number>>"
    assert repr(typed(Order, open_call("")).so_far) == "<Order so far: nothing has settled>"


def test_nested_model_can_be_read_while_it_is_open() -> None:
    pieces = ['{"address": {"city": "Rome", "street": "Via', '"}, "number": 1, ', '"day": "2026']
    payloads = anthropic_call(*pieces)
    assembler = fed(payloads[:3])
    view = typed(Order, assembler.calls[0])
    assert "address" not in view
    address = view.so_far.address
    assert address is not None
    assert address.city == "Rome"
    assert reason(lambda: address.street) == "'street' has not settled: 3 characters so far"
    for payload in payloads[3:]:
        assembler.feed(payload)
    assert (address.city, address.street) == ("Rome", "Via")
    assert view.so_far.address == Address(city="Rome", street="Via")


def test_list_has_its_settled_items() -> None:
    text = '{"edits": [{"line": 1}, {"line": 2, "text": "b"}, {"line": 3, "'
    view = typed(Order, open_call(text))
    edits = view.so_far.edits
    assert len(edits) == 2
    assert [edit.line for edit in edits] == [1, 2]
    assert edits[1] == Edit(line=2, text="b")
    assert (edits[-1].line, edits[:1]) == (2, [Edit(line=1)])
    assert edits[2].line == 3  # an open item can be read, too
    assert reason(lambda: edits[2].text) == "'text' has not arrived"
    assert reason(lambda: edits[3]) == "item 3 has not arrived"
    assert repr(edits) == "<2 items so far>"


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []
    parent: "Tree | None" = None


def test_model_may_contain_itself() -> None:
    text = '{"name": "a", "children": [{"name": "b", "children": [{"name": "c"}, {"name": "d", '
    inner = typed(Tree, open_call(text)).so_far.children[0].children
    assert (inner[0], inner[1].name) == (Tree(name="c"), "d")


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]


class Pets(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    other: int | str = 0
    pair: tuple[int, str] = (0, "")
    more: tuple[Edit, ...] = ()
    named: dict[str, Edit] = {}


class Spelt(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    path: str = Field(alias="filePath")
    deep: int = Field(0, validation_alias=pydantic.AliasPath("where", 0, "line"))
    either: str = Field("", validation_alias=pydantic.AliasChoices("new", "old"))
    last: int = Field(0, validation_alias=pydantic.AliasPath("numbers", -1))


def test_alias_choice_is_decided_when_the_call_is_complete() -> None:
    for more, either in (({}, "o"), ({"new": "n"}, "n")):
        view = typed(Spelt, whole_call({"old": "o", "path": "p", "numbers": [1, 2], **more}))
        assert (view.so_far.either, view.so_far.path, view.so_far.last) == (either, "p", 2)
        assert view.value().either == either


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")

    path: str


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str


def test_forbidden_extra_keys_raise_when_the_value_is_read() -> None:
    forbidden = typed(Strict, whole_call({"path": "p", "mode": 7}))
    assert (forbidden.so_far.path, forbidden.errors) == ("p", {})
    with pytest.raises(ValidationError, match="Extra inputs"):
        forbidden.value()


class Scores(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]

    path: str


def scores(path: str, **more: int) -> None: ...


@pytest.mark.parametrize("definition", [Scores, scores])
def test_extra_keys_with_a_type_are_validated(definition: Any) -> None:
    view: Any = typed(definition, open_call('{"first": "5", "argument_0": "6", "bad": "x", '))
    assert (view.so_far.first, view.so_far.argument_0) == (5, 6)
    assert reason(lambda: view.so_far.bad).startswith("'bad' is not valid: Input should be a valid")
    whole = typed(definition, whole_call({"path": "p", "first": "5", "argument_0": "6"}))
    assert dict(whole.value()) == {"path": "p", "first": 5, "argument_0": 6}


class Colour(Enum):
    RED = "red"


class Exact(BaseModel):
    model_config = ConfigDict(strict=True, str_strip_whitespace=True, val_json_bytes="base64")

    day: date = date.min
    pair: tuple[int, int] = (0, 0)
    colour: Colour = Colour.RED
    price: Decimal = Decimal(0)
    data: bytes = b""
    text: str = ""
    count: int = 0
    by_number: dict[int, str] = {}


def test_values_are_validated_as_json() -> None:
    """A strict model accepts a string as a date only from JSON."""
    arguments = {"day": "2026-03-04", "pair": [1, 2], "colour": "red", "price": 1.25}
    arguments |= {"data": "aGk=", "text": " x ", "count": "3", "by_number": {"1": "a"}}
    view = typed(Exact, open_call(json.dumps(arguments)))
    assert view.settled == set(arguments)
    assert list(view.errors) == ["count"]
    del arguments["count"]
    expected = Exact.model_validate_json(json.dumps(arguments))
    for name in arguments:
        assert getattr(view.so_far, name) == getattr(expected, name)


def shout(name: str) -> str:
    if not name:
        raise ValueError("a name is needed")
    return name.upper()


class Checked(BaseModel):
    low: int = 0
    high: int
    name: Annotated[str, AfterValidator(shout)] = ""

    @field_validator("high")
    @classmethod
    def order(cls, high: int, info: pydantic.ValidationInfo) -> int:
        if high < info.data["low"]:
            raise ValueError(f"{info.field_name} is less than {info.data['low']}")
        return high

    @pydantic.model_validator(mode="after")
    def whole(self) -> "Checked":
        if self.name == "NONE":
            raise ValueError("it has no bounds")
        return self


def test_model_validator_runs_when_the_value_is_read() -> None:
    view = typed(Checked, whole_call({"high": 3, "name": "none"}))
    assert (view.so_far.name, view.so_far.high, view.errors) == ("NONE", 3, {})
    with pytest.raises(ValidationError, match="it has no bounds"):
        view.value()


class Prepared(BaseModel):
    address: Address
    edit: Edit
    edits: Sequence[Edit] = ()

    @field_validator("address", mode="before")
    @classmethod
    def prepare(cls, address: Any) -> Any:
        return {"city": address["town"]}

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def whole(cls, value: Any, handler: pydantic.ModelWrapValidatorHandler[Self]) -> Self:
        return handler(value)


class Guarded(BaseModel):
    name: str

    @pydantic.model_validator(mode="before")
    @classmethod
    def rename(cls, value: Any) -> Any:
        return {"name": value.get("name", value.get("title"))}


class Guards(BaseModel):
    guard: Guarded
    low: int = 0
    high: int = 0

    @field_validator("high")
    @classmethod
    def order(cls, high: int, info: pydantic.ValidationInfo) -> int:
        low: int = info.data.get("low", 100)
        return high + low


def test_before_validator_of_a_model_runs_on_the_complete_object() -> None:
    assert typed(Guards, open_call('{"guard": {"name": "x", ')).so_far.guard.name == "x"
    assert typed(Guards, whole_call({"guard": {"title": "x"}})).so_far.guard.name == "x"
    # As in a whole model, a validator does not see a field that is not valid.
    assert typed(Guards, whole_call({"guard": {}, "low": "x", "high": 1})).so_far.high == 101


def known_code(code: str) -> str:
    return {"a": "A"}[code]


Code = Annotated[str, AfterValidator(known_code)]


class Fragile(BaseModel):
    path: str
    code: Code
    codes: list[Code] = []
    other: Code = ""


def test_exception_in_a_validator_is_an_error_of_its_field() -> None:
    text = '{"code": "z", "path": "p", "codes": ["a", "z", '
    view = typed(Fragile, open_call(text))
    assert view.settled == {"code", "path"}
    assert view.errors == {"code": "its validator raised KeyError: 'z'"}
    assert "code" not in view
    assert (view.so_far.path, repr(view.so_far)) == ("p", "<Fragile so far: path, code>")
    assert view.so_far.codes[0] == "A"
    for read in (lambda: view.so_far.code, lambda: view.get("code"), lambda: view.so_far.codes[1]):
        with pytest.raises(ArgumentUnavailableError, match="raised KeyError: 'z'") as caught:
            read()
        assert isinstance(caught.value.__cause__, KeyError)
    assert view.get("other", "none") == "none"
    with pytest.raises(KeyError):
        typed(Fragile, whole_call({"path": "p", "code": "z"})).value()


class Later(BaseModel):
    first: int = 2
    second: int = Field(default_factory=lambda earlier: earlier["first"] * 2)


def test_default_may_depend_on_other_fields() -> None:
    found = [typed(Later, whole_call(given)).so_far.second for given in ({"first": 5}, {})]
    assert found == [10, 4]


ORDERED = '{"day": "2026-03-04", "number": 7, "note": "abc'
WHERE = '{"filePath": "a.py", "where": [{"line": 3, "column'
OLD = '{"old": "o", "path": "p", "numbers": [1, 2], "new'
PREPARED = '{"edit": {"line": 1, "text": "a"}, "edits": [{"line": 2}], "address": {"town": "Rome"'


@pytest.mark.parametrize(
    ("definition", "text", "expected"),
    [
        (Order, ORDERED, {"day": date(2026, 3, 4), "number": 7}),
        (Pets, '{"other": "x", "pet": {"kind": "cat", "lives": 9', {"other": "x"}),
        (Pets, '{"pet": {"kind": "dog"}, ', {"pet": Dog(kind="dog")}),
        (Pets, '{"pair": [1, "x"], "named": {"a": {"line": 1}}, "',
         {"pair": (1, "x"), "named": {"a": Edit(line=1)}}),
        (Spelt, WHERE, {"path": "a.py", "deep": 3}),
        (Spelt, OLD, {}),
        (Checked, '{"name": "x", ', {"name": "X"}),
        (Checked, '{"high": 3, "name": "', {}),
        (Checked, '{"high": 3, "low": 1, ', {"high": 3, "low": 1}),
        (Prepared, PREPARED, {"edit": Edit(line=1, text="a"), "edits": [Edit(line=2)]}),
        (Guarded, '{"name": "x", ', {"name": "x"}),
    ],
)  # fmt: skip
def test_settled_fields_are_validated(definition: Any, text: str, expected: Any) -> None:
    view = typed(definition, open_call(text))
    assert view.settled == set(expected)
    assert {name: getattr(view.so_far, name) for name in expected} == expected
    assert view.errors == {}


@pytest.mark.parametrize(
    ("definition", "text", "name", "error"),
    [
        (Order, '{"edits": [{"line": 1}, {}], "', "edits", "Field required (at 1, 'line')"),
        (Checked, '{"name": "", ', "name", "Value error, a name is needed"),
        (Checked, '{"high": 3, "low": 4, ', "high", "Value error, high is less than 4"),
    ],
)
def test_invalid_settled_field_raises(definition: Any, text: str, name: str, error: str) -> None:
    view = typed(definition, open_call(text))
    assert view.errors == {name: error}
    assert reason(lambda: getattr(view.so_far, name)) == f"{name!r} is not valid: {error}"


@pytest.mark.parametrize(
    ("definition", "text", "read", "message"),
    [
        (Order, ORDERED, lambda so_far: so_far.note, "'note' has not settled: 3 characters so far"),
        (Order, ORDERED, lambda so_far: so_far.tags, "'tags' has not arrived"),
        (Order, '{"address": [', lambda so_far: so_far.address,
         "'address' has not settled: 0 items so far"),
        (Order, '{"edits": [{"line": 1}, {"line": "x"}, ', lambda so_far: so_far.edits[1],
         ("item 1 is not valid: Input should be a valid integer, unable to parse string as an "
          "integer (at 'line')")),
        (Pets, '{"pet": {"kind": "cat", "lives": 9', lambda so_far: so_far.pet,
         "'pet' has not settled: 1 key so far"),
        (Spelt, OLD, lambda so_far: so_far.either,
         "'either' has not settled: 'new' may still arrive and would replace it"),
        (Loose, '{"mode": 7, "more": "x', lambda so_far: so_far.more,
         "'more' has not settled: 1 character so far"),
        (Checked, '{"high": 3, "name": "', lambda so_far: so_far.high,
         "'high' has not settled: its validator may use 'low'"),
        (Prepared, PREPARED, lambda so_far: so_far.address,
         "'address' has not settled: 1 key so far"),
    ],
)  # fmt: skip
def test_unsettled_field_raises_with_the_reason(
    definition: Any, text: str, read: Callable[[Any], object], message: str
) -> None:
    view: Any = typed(definition, open_call(text))
    assert reason(lambda: read(view.so_far)) == message


def test_open_containers_have_their_settled_parts() -> None:
    assert typed(Prepared, open_call(PREPARED + "}")).so_far.address == Address(city="Rome")
    open_list = typed(Prepared, open_call('{"edits": [{"line": 2}, '))
    assert list(open_list.so_far.edits) == [Edit(line=2)]
    more = typed(Pets, open_call('{"more": [{"line": 1}, '))
    assert list(more.so_far.more) == [Edit(line=1)]
    loose: Any = typed(Loose, open_call('{"mode": 7, "more": "x'))
    assert loose.so_far.mode == 7


def test_field_is_validated_once() -> None:
    seen: list[object] = []

    def count(value: Any) -> Any:
        seen.append(value)
        return value

    class Counted(BaseModel):
        path: Annotated[str, AfterValidator(count)]
        numbers: Annotated[Iterable[int], AfterValidator(count)]
        content: str

    text = json.dumps({"path": "a.py", "numbers": [1], "content": "x" * 50})
    for view, _, _ in after_each(anthropic_call(*cut(text, [1])), Counted):
        view.get("path")
        assert ("numbers" in view) == ("numbers" in view.settled)
        assert view.errors == {}
    assert len(seen) == 2


def test_settled_fields_are_kept_when_the_call_fails() -> None:
    view = typed(Order, only_call(anthropic_call('{"number": 7, "note": "a', 'b", "day": !')))
    assert view.settled == {"number", "note"}
    assert view.so_far.note == "ab"
    assert reason(lambda: view.so_far.day).startswith("'day' is missing: the call is malformed (")
    assert "the arguments of 'write' are unavailable: the call is malformed (" in reason(view.value)
    call = only_call(anthropic_call('{"number": 7, "note": "a', stop_reason="max_tokens")[:3])
    cut_off = typed(Order, call)
    assert cut_off.settled == {"number"}
    message = "'note' is incomplete: the call is truncated ("
    assert reason(lambda: cut_off.so_far.note).startswith(message)
    twice = typed(Order, only_call(anthropic_call('{"number": 7, "note": "a", "number": 8}')))
    assert (twice.so_far.number, twice.so_far.note) == (7, "a")


def test_no_field_is_settled_while_the_text_of_the_call_is_in_doubt() -> None:
    start = '{"number": 7, "edits": [{"line": 1}, {"line": 2, '
    payloads = chat_call(start, start + '"text')
    assembler = fed(payloads[:2])
    view = typed(Order, assembler.calls[0])
    edits = view.so_far.edits
    assert (view.so_far.number, len(edits), edits[1].line) == (7, 1, 2)
    assembler.feed(payloads[2])
    assert assembler.calls[0].in_doubt
    assert (view.settled, len(edits)) == (frozenset(), 0)
    for read in (lambda: view.so_far.number, lambda: view.so_far.edits, lambda: edits[0]):
        assert reason(read).endswith("the text of the call may be reinterpreted")


def test_reinterpreted_call_is_validated_again() -> None:
    last = '{"number": 8, "day": "2026-03-04", "edits": [{"line": 9}]}'
    payloads = restated('{"number": 7, "edits": [{"line": 1}', last=last)
    seen = []
    held: Any = []
    for view, call, _ in after_each(payloads, Order):
        if has(call, "edits"):
            held = held or view.so_far.edits
        seen.append((view.get("number"), [edit.line for edit in held], call.verdict))
    assert seen[1] == (7, [1], "open")
    assert seen[-1] == (8, [9], "complete")


def test_container_sent_in_leaves_settles_at_the_end() -> None:
    class Sent(BaseModel):
        a: dict[str, int]
        b: str
        e: list[int]
        m: list[Edit] = []

    first = [("$.a.x", 1), ("$.e[0]", 7), ("$.m[0].line", 1), ("$.b", "t")]
    sent = leaves(*first, ("$.e[1]", 8), ("$.b2", "…"))
    states = []
    for view, call, _ in after_each(sent, Sent):
        if call.verdict == "open" and has(call, "b"):
            states.append((sorted(view.settled), list(view.so_far.e), len(view.so_far.m)))
            assert view.so_far.m[0].line == 1
    assert (["b"], [7], 0) in states
    whole = leaves(("$.a.x", 1), ("$.e[0]", 7), ("$.b", "t"), ("$.a.y", 2), ("$.e[1]", 8))
    view = typed(Sent, only_call(whole))
    assert view.value() == Sent(a={"x": 1, "y": 2}, b="t", e=[7, 8])
    call = only_call(leaves(("$.address.city", "Rome"), ("$.number", 1), finish="MAX_TOKENS"))
    truncated = typed(Order, call)
    assert truncated.settled == {"number"}
    assert truncated.so_far.address is not None
    assert truncated.so_far.address.city == "Rome"


def write(path: str, schema: int = 3, *, _mode: str = "w", **more: Any) -> None:
    """Write."""


def test_function_method_and_tool_spec() -> None:
    view = typed(write, open_call('{"path": "a.py", "_mode": "a", "schema": 1'))
    assert view.settled == {"path", "_mode"}
    assert (view.so_far.path, view.so_far._mode) == ("a.py", "a")
    view = typed(write, whole_call({"path": "a.py", "extra": [1]}))
    assert (view.so_far.schema, view.so_far.extra) == (3, [1])
    assert view.value() == {"path": "a.py", "schema": 3, "_mode": "w", "extra": [1]}
    assert typed(Files().write, open_call('{"path": "a.py", ')).so_far.path == "a.py"
    assert typed(ToolSpec.of(Order), open_call('{"number": 7, ')).so_far.number == 7


class Files:
    __hash__ = None  # type: ignore[assignment]

    def write(self, path: str) -> None: ...


@pydantic_dataclass
class Point:
    x: int
    edit: Edit
    y: int = 0


class Line(typing_extensions.TypedDict):
    length: typing_extensions.Required[float]
    edit: Edit
    colour: typing_extensions.NotRequired[str]


def test_dataclass() -> None:
    view = typed(Point, open_call('{"x": "3", "edit": {"line": 1, '))
    assert (view.so_far.x, view.so_far.edit.line) == (3, 1)
    whole = typed(Point, whole_call({"x": 3, "edit": {"line": 1}}))
    assert whole.so_far.y == 0
    assert whole.value() == Point(x=3, edit=Edit(line=1))


def test_typed_dict_has_keys() -> None:
    view = typed(Line, open_call('{"length": 3, "edit": {"line": 1, '))
    assert (view.so_far["length"], view.so_far["edit"].line) == (3.0, 1)
    with pytest.raises(AttributeError, match="keys, not attributes"):
        _ = view.so_far.length  # type: ignore[attr-defined]
    with pytest.raises(KeyError):
        _ = view.so_far["other"]  # type: ignore[typeddict-item]
    whole = typed(Line, whole_call({"length": 3, "edit": {"line": 1}}))
    assert whole.settled == {"length", "edit", "colour"}
    assert whole.errors == {}
    assert "colour" not in whole
    assert (
        reason(lambda: whole.so_far["colour"]) == "'colour' is missing: the call does not have it"
    )


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Unfinished(BaseModel):
    other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 - that is the point


def test_wrong_definitions_and_calls_raise() -> None:
    definition: Any
    for definition, message in (
        (Numbers, "Numbers has no fields"),
        (Unfinished, "pydantic cannot use Unfinished"),
        (int, "the class int does not define a tool. Use a pydantic model"),
        (3, "an object of type int does not define a tool"),
        (ToolSpec("x", schema={}), "defined by a JSON Schema"),
    ):
        with pytest.raises(UsageError, match=message):
            typed(definition, open_call(""))
    event = ToolCallStarted("c1", 0, "write")
    call: Any
    for call, kind in (
        *((None, "type NoneType"), ({}, "type dict"), (event, "type ToolCallStarted")),
        *((stream([]), "type EventStream"), (Call, "class Call")),
    ):
        with pytest.raises(UsageError, match=f"{kind} is not a call. Pass one of events.calls"):
            typed(Order, call)
    with pytest.raises(UsageError, match="takes free text and has no arguments"):
        typed(Order, Call("c", 0, "run", "custom"))


def test_live_reader_is_accepted_as_a_call() -> None:
    (reader,) = stream(anthropic_call('{"number": 7, "day": "2026-03-04"}')).live_calls()
    assert typed(Order, reader).value().number == 7


def test_growing_string_is_not_referenced() -> None:
    """Neither a view nor an exception may hold it: appending would become a copy."""
    call = open_call('{"number": 7, "address": {"city": "' + "x" * 1000)
    view = typed(Order, call)
    before = sys.getrefcount(call.partial["address"]["city"])
    kept: list[object] = [view.settled, view.errors, view.so_far, view.so_far.address]
    for read in (
        lambda: view.so_far.address.city,  # type: ignore[union-attr]
        lambda: view.so_far.note,
        view.value,
    ):
        with pytest.raises(ArgumentUnavailableError) as caught:
            read()
        kept.append(caught.value)
    after = sys.getrefcount(call.partial["address"]["city"])
    assert (after, len(kept)) == (before, 7)


@given(
    st.dictionaries(
        st.sampled_from(list(Order.model_fields)),
        st.none() | st.integers() | st.text(max_size=3) | st.lists(st.text(max_size=2), max_size=2),
    ),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_settled_fields_equal_the_whole_model(arguments: dict[str, Any], sizes: list[int]) -> None:
    text = json.dumps(arguments)
    try:
        expected = Order.model_validate_json(text)
        wrong: set[str] = set()
    except ValidationError as error:
        expected = None
        wrong = {str(one["loc"][0]) for one in error.errors()}
    view: TypedArguments[Order] | None = None
    for view, _, completed in after_each(anthropic_call(*cut(text, sizes)), Order):
        assert completed <= view.settled
        assert set(view.errors) == wrong & view.settled
        for name in view.settled - wrong:
            if expected is not None:
                assert getattr(view.so_far, name) == getattr(expected, name)
    assert view is not None
    assert set(view.errors) == wrong

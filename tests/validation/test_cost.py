"""The cost of a check, and of reading typed arguments, does not grow with the text so far."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from argstream.testing import cut
from argstream.validation import Schema, typed
from tests.growth import BOUND, cost_ratio, growth
from tests.provider_streams import anthropic_call, fed
from tests.validation.checking import batches, check_fragments

pytestmark = pytest.mark.timing

STRINGS = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
NAMES = {"additionalProperties": {"type": "integer"}, "propertyNames": {"pattern": "^a"}}


def array(item: str, size: int) -> str:
    return "[" + ", ".join([item] * (size // len(item))) + "]"


LONG: dict[str, tuple[Any, Callable[[int], str]]] = {
    "string": (
        {"properties": {"a": {"maxLength": 10**9, "pattern": "^x"}}},
        lambda size: '{"a": "' + "x" * size + '"}',
    ),
    "string in branches": (
        {"anyOf": [{"enum": ["x", "xx"]}, {"maxLength": 10**9}, {"minLength": 3}]},
        lambda size: '"' + "x" * size + '"',
    ),
    "items": ({"items": STRINGS}, lambda size: array('{"a": "xyz"}', size)),
    "items in branches": (
        {"items": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1}]}},
        lambda size: array('["xyz"]', size),
    ),
    "members": (NAMES, lambda size: "{" + ", ".join(f'"a{n}": 1' for n in range(size // 10)) + "}"),
    "checked at the close": (
        {"items": {"not": {"type": "string"}, "uniqueItems": True}, "minItems": 3},
        lambda size: array("[1, 2]", size),
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_check_is_linear_in_the_text(name: str) -> None:
    """The parser is not measured. The fragments must be few enough for the processor's cache."""
    written, text_of_size = LONG[name]
    schema = Schema(written)

    def job_of_size(size: int) -> Callable[[], object]:
        fed = list(batches(cut(text_of_size(size), [4])))
        return lambda: check_fragments(schema, fed)

    assert growth(job_of_size, 5_000) <= BOUND


class Edit(BaseModel):
    line: int


class WriteFile(BaseModel):
    path: str
    content: str = ""
    edits: list[Edit] = []


ROUNDS = 50


def read_after_each_piece(arguments: Any) -> Callable[[], object]:
    """Read after each of the last pieces of a text. The text before them came at once."""
    text = json.dumps(arguments)
    payloads = anthropic_call(text[:-8_000], *cut(text[-8_000:], [4]))
    assembler = fed(payloads[:3])
    rest = iter(payloads[3:-3])
    view = typed(WriteFile, assembler.calls[0])

    def some() -> None:
        kept: list[BaseException] = []
        for _ in range(ROUNDS):  # each measured round continues with the same call
            assembler.feed(next(rest))
            assert view.so_far.path == "a.py"
            assert "content" not in view
            kept.append(failure(lambda: view.so_far.content))
            kept.append(failure(lambda: view.so_far.edits[-1_000_000_000]))
            _ = (view.settled, view.errors, repr(view))

    return some


def failure(read: Callable[[], object]) -> BaseException:
    with pytest.raises(LookupError) as caught:
        read()
    return caught.value


@pytest.mark.parametrize(
    "arguments",
    [
        lambda size: {"path": "a.py", "content": "x" * size},
        lambda size: {"path": "a.py", "edits": [{"line": 1}] * (size // 13)},
    ],
    ids=["string", "list"],
)
def test_cost_of_typed_arguments_does_not_grow(arguments: Callable[[int], Any]) -> None:
    # A cost that grew with the text would be some fifty times as high.
    long, short = (read_after_each_piece(arguments(size)) for size in (500_000, 10_000))
    assert cost_ratio(long, short, 1.5) <= 1.5

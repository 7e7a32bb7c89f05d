"""To ask after every piece costs the same however long the text is."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from argstream.assembly import Assembler
from argstream.testing import cut
from argstream.validation import typed
from tests.growth import cost_ratio
from tests.provider_streams import anthropic_call

pytestmark = pytest.mark.timing


class Edit(BaseModel):
    line: int


class WriteFile(BaseModel):
    path: str
    content: str = ""
    edits: list[Edit] = []


SHORT, LONG = 10_000, 1_000_000
PIECES = 1_000


def ask(arguments: Any, tail: int) -> Callable[[], object]:
    """Ask after each of the last pieces of a text; what came before them has come at once."""
    text = json.dumps(arguments)
    payloads = anthropic_call(text[:-tail], *cut(text[-tail:], [4]))
    assembler = Assembler()
    for payload in payloads[:3]:
        assembler.feed(payload)
    rest = iter(payloads[3:-3])
    view = typed(WriteFile, assembler.calls[0])

    def some() -> None:
        kept: list[BaseException] = []
        for _ in range(PIECES // 20):  # of what is left: each round goes on with the same call
            assembler.feed(next(rest))
            assert view.so_far.path == "a.py"
            assert "content" not in view
            kept.append(failure(lambda: view.so_far.content))
            kept.append(failure(lambda: view.so_far.edits[-1_000_000_000]))
            _ = (view.settled, view.errors, repr(view))

    return some


def failure(asked: Callable[[], object]) -> BaseException:
    with pytest.raises(LookupError) as caught:
        asked()
    return caught.value


def long_string(characters: int) -> Any:
    return {"path": "a.py", "content": "x" * characters}


def long_list(characters: int) -> Any:
    return {"path": "a.py", "edits": [{"line": 1}] * (characters // 13)}


@pytest.mark.parametrize("arguments", [long_string, long_list])
def test_to_ask_costs_no_more_at_a_megabyte(arguments: Callable[[int], Any]) -> None:
    tail = 4 * PIECES
    ratio = cost_ratio(ask(arguments(LONG), tail), ask(arguments(SHORT), tail), 1.25)
    assert ratio <= 1.25

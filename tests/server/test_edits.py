"""What a person did not change of arguments is the model's own, in whatever form it comes back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from argstream import Agent, tool
from argstream.history import ResultPart
from argstream.models import CallTool, ModelRequest, Reply, ScriptedModel
from argstream.runs import MemoryStore
from tests.server.talking import GENEROUS, Client, served

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class Editing:
    """A model that calls a tool with what a test wants, and what the tool is given."""

    def __init__(self) -> None:
        self.wanted: Any = None
        self.given: Any = None
        self.client: Client

    def answer(self, request: ModelRequest) -> Reply:
        is_done = any(isinstance(part, ResultPart) for part in request.messages[-1].parts)
        return Reply("Done.") if is_done else Reply(CallTool("keep", {"value": self.wanted}))

    def keep(self, value: Any) -> str:
        """Keep a value."""
        self.given = value
        return "kept"

    def edited(self, original: Any, edited: Any) -> Any:
        """Approve a call with this instead of what the model wrote, and give what is run."""
        self.wanted = original
        run_id = self.client.start()
        self.client.until(run_id, "paused")
        answer = self.client.decide(run_id, decision="approve", arguments={"value": edited})
        assert answer.status_code == 202, answer.text
        self.client.until(run_id, "completed")
        return self.given


@pytest.fixture(scope="module")
def editing() -> Iterator[Editing]:
    editing = Editing()
    tools = [tool(requires_confirmation=True)(editing.keep)]
    model = ScriptedModel(editing.answer, repeat=True)
    with served(Agent(model, tools, store=MemoryStore()), limits=GENEROUS) as editing.client:
        yield editing


@given(VALUES)
@example(5.0)
def test_what_nobody_changed_is_exactly_the_original(editing: Editing, value: Any) -> None:
    again = _as_a_browser_writes(json.loads(json.dumps(value)))
    assert repr(editing.edited(value, again)) == repr(value)


@pytest.mark.parametrize(
    ("original", "edited", "kept"),
    [
        ({"b": 1.0, "2": 2, "1": 3}, {"1": 3, "2": 5, "b": 1}, {"b": 1.0, "2": 5, "1": 3}),
        ({"a": [1.0, 2.0]}, {"a": [1, 3, 4], "new": 5}, {"a": [1.0, 3, 4], "new": 5}),
        ({"a": 1, "b": 2}, {"b": 2}, {"b": 2}),
        ({"a": [1, 2, 3]}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": True}, {"a": True}),  # 1 == True, in Python
        ([True, 0], [1, False], [1, False]),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
    ],
)
def test_only_what_says_the_same_is_kept(
    editing: Editing, original: Any, edited: Any, kept: Any
) -> None:
    assert repr(editing.edited(original, edited)) == repr(kept)


def _as_a_browser_writes(value: Any) -> Any:
    """Write numbers and order keys as JavaScript does."""
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: not item[0].isdecimal())
        return {key: _as_a_browser_writes(inner) for key, inner in items}
    if isinstance(value, list):
        return [_as_a_browser_writes(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

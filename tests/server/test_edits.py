"""What a person did not change of arguments is the model's own, in whatever form it comes back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import Agent, tool
from argstream.clients import CallTool, ScriptedModel
from argstream.server._edits import keeping
from argstream.stores import MemoryStore
from tests.server.talking import served

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_nobody_changed_is_exactly_the_original(value: Any) -> None:
    again = _as_a_browser_writes(json.loads(json.dumps(value)))
    assert repr(keeping(value, again)) == repr(value)


@given(VALUES, VALUES)
def test_what_was_changed_is_what_was_typed(original: Any, edited: Any) -> None:
    kept = keeping(original, edited)
    assert kept == edited
    assert _truths(kept) == _truths(edited)  # 1 == True, in Python


@pytest.mark.parametrize(
    ("original", "edited", "kept"),
    [
        ({"b": 1.0, "2": 2, "1": 3}, {"1": 3, "2": 5, "b": 1}, {"b": 1.0, "2": 5, "1": 3}),
        ({"a": [1.0, 2.0]}, {"a": [1, 3, 4], "new": 5}, {"a": [1.0, 3, 4], "new": 5}),
        ({"a": 1, "b": 2}, {"b": 2}, {"b": 2}),
        ({"a": 1}, {"a": True}, {"a": True}),
    ],
)
def test_only_what_says_the_same_is_kept(original: Any, edited: Any, kept: Any) -> None:
    assert repr(keeping(original, edited)) == repr(kept)


def test_a_tool_is_given_the_numbers_that_the_model_wrote() -> None:
    seen: list[object] = []

    @tool(requires_confirmation=True)
    def scale(by: Any, note: str) -> str:
        """Scale something."""
        seen.append(by)
        return note

    model = ScriptedModel(CallTool("scale", {"by": 5.0, "note": "a"}), "Done.")
    with served(Agent(model, [scale], store=MemoryStore())) as client:
        run_id = client.start()
        client.until(run_id, "paused")
        client.decide(run_id, decision="approve", arguments={"note": "b", "by": 5})
        client.until(run_id, "completed")
    assert repr(seen) == "[5.0]"


def _as_a_browser_writes(value: Any) -> Any:
    """Write numbers and order keys as JavaScript does."""
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: not item[0].isdecimal())
        return {key: _as_a_browser_writes(inner) for key, inner in items}
    if isinstance(value, list):
        return [_as_a_browser_writes(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _truths(value: Any) -> Any:
    """Give where there are booleans."""
    if isinstance(value, dict):
        return {key: _truths(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_truths(inner) for inner in value]
    return isinstance(value, bool)

"""The bridge of source 004: objects with one key, the tool at once, the block when it is whole."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from argstream import events as ev
from argstream.protocols.converse import ConverseEncoder
from tests.chance_runs import runs
from tests.protocols.reading import in_portions, joined, read, records_of, snapshot_of

KEYS = {
    *("text", "thinking", "tool_start", "tool_delta", "block", "invalid", "tool_result"),
    *("error", "done"),
}
START = ev.RunStarted("run_1", "Go")
CALL = ev.ToolCallStarted("c1", 0, "write")
REQUEST = ev.ApprovalRequested("c1", "send", {"to": "ada"}, "d1gest", "it sends")
DONE = {"conversation": "talk_1", "run": "run_1"}


def encoder(*, with_deltas: bool = False) -> ConverseEncoder:
    return ConverseEncoder("run_1", "talk_1", with_deltas=with_deltas)


def encoded(*events: ev.Event, with_deltas: bool = False) -> list[Any]:
    written = encoder(with_deltas=with_deltas).take(joined(records_of(events)))
    return [event.data for event in read(written.data)]


@given(events=runs(), cuts=st.lists(st.integers(0, 10_000), max_size=5))
def test_objects_have_one_key_and_calls_start_before_their_block(
    events: list[ev.Event], cuts: list[int]
) -> None:
    bridge = encoder(with_deltas=True)
    started: set[str] = set()
    for portion in in_portions(records_of(events), cuts):
        for [(key, value)] in (event.data.items() for event in read(bridge.take(portion).data)):
            assert key in KEYS
            if key == "tool_start":
                started.add(value["id"])
            elif key in ("block", "invalid", "tool_delta"):
                assert value["id"] in started


@given(events=runs(crashes=False), place=st.integers(0, 10_000))
def test_late_client_receives_the_same(events: list[ev.Event], place: int) -> None:
    records = records_of(events)
    cut = 1 + place % len(records)
    late = encoder()
    opening = late.opening(snapshot_of(records[:cut]))
    late.begin(snapshot_of(records[:cut]))
    written = opening.data + late.take(records[cut:]).data
    assert _summary(written) == _summary(encoder().take(records).data)


def _summary(written: bytes) -> Any:
    """The texts, and the ends of calls by their ids. Snapshots group them by block."""
    texts: dict[str, str] = {"text": "", "thinking": ""}
    calls = set()
    for event in read(written):
        [(key, value)] = event.data.items()
        if key in texts:
            texts[key] += value
        elif key in ("tool_start", "block", "invalid", "tool_result"):
            calls.add((key, value["id"]))
    return {key: sorted(text) for key, text in texts.items()}, calls


def test_call_from_its_start_to_its_result() -> None:
    call = (
        *(START, ev.ThinkingDelta("hm", 0), ev.TextDelta("I write.", 1), CALL),
        ev.ToolArgsDelta("c1", "write", '{"path": "a", "content": "one\\n'),
        ev.ToolArgsDelta("c1", "write", 'two"}'),
        ev.ToolArgsCompleted("c1", "write", {"path": "a", "content": "one\ntwo"}),
        ev.ToolCallCompleted("c1", "write", {}, {"written": 7}),
        ev.RunCompleted("done"),
    )
    assert encoded(*call) == [
        {"thinking": "hm"},
        {"text": "I write."},
        {"tool_start": {"id": "c1", "name": "write"}},
        {"block": {"id": "c1", "name": "write", "input": {"path": "a", "content": "one\ntwo"}}},
        {"tool_result": {"id": "c1", "name": "write", "output": {"written": 7}}},
        {"done": DONE | {"status": "completed"}},
    ]
    deltas = [one["tool_delta"] for one in encoded(*call, with_deltas=True) if "tool_delta" in one]
    assert deltas == [
        {"id": "c1", "path": ["path"], "text": "a"},
        {"id": "c1", "path": ["content"], "text": "one\ntwo"},
    ]


def test_rejected_call_has_a_reason() -> None:
    error = ev.ArgumentsError("type", "must be a number", 6, ("a",), "type")
    rejected = ev.ToolArgsInvalid("c1", "add", "rejected", '{"a": "x', error)
    failed = ev.ToolCallFailed("c1", "add", "must be a number")
    _, invalid, result = encoded(START, ev.ToolCallStarted("c1", 0, "add"), rejected, failed)
    call = {"id": "c1", "name": "add"}
    reason = {"reason": "type", "message": "must be a number", "path": ["a"]}
    assert invalid == {"invalid": call | {"verdict": "rejected"} | reason}
    assert result == {"tool_result": call | {"error": "must be a number"}}


def test_every_end_sends_done_and_a_failure_sends_the_error_first() -> None:
    assert encoded(START, ev.RunStopped("enough")) == [{"done": DONE | {"status": "stopped"}}]
    assert encoded(START, ev.RunFailed("max_turns", "too many")) == [
        {"error": {"code": "max_turns", "message": "too many"}},
        {"done": DONE | {"status": "failed"}},
    ]


def test_paused_run_ends_its_stream_with_the_pending_requests() -> None:
    written = encoder().take(records_of([START, ev.RunPaused("run_1", (REQUEST,))]))
    assert written.ends
    call = {"id": "c1", "name": "send", "input": {"to": "ada"}}
    pending = [call | {"digest": "d1gest", "reason": "it sends"}]
    done = DONE | {"status": "paused", "pending": pending}
    assert read(written.data)[-1].data["done"] == done


def test_observed_run_that_waits_ends_its_stream_for_early_and_late_clients() -> None:
    bridge = encoder()
    records = records_of([START, CALL, ev.ToolArgsCompleted("c1", "send", {}), REQUEST])
    early, late = bridge.take(records), encoder().opening(snapshot_of(records))
    assert early.ends
    assert late.ends
    done = read(late.data)[-1].data["done"]
    assert [one["digest"] for one in done["pending"]] == ["d1gest"]
    assert done == read(early.data)[-1].data["done"]
    over = bridge.take(records_of([ev.ToolCallFailed("c1", "send", "given up")]))
    assert not over.ends  # no call is pending any more

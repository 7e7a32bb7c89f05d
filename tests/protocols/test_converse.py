"""The bridge of source 004: one key an object, the tool at once, the block when it is whole."""

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


def told(*events: ev.Event, with_deltas: bool = False) -> list[Any]:
    encoder = ConverseEncoder("run_1", "talk_1", with_deltas=with_deltas)
    return [event.data for event in read(encoder.take(joined(records_of(events))).data)]


@given(events=runs(), cuts=st.lists(st.integers(0, 10_000), max_size=5))
def test_each_object_has_one_key_and_a_call_starts_before_it_is_whole(
    events: list[ev.Event], cuts: list[int]
) -> None:
    encoder = ConverseEncoder("run_1", "talk_1", with_deltas=True)
    started: set[str] = set()
    for portion in in_portions(records_of(events), cuts):
        for [(key, value)] in (event.data.items() for event in read(encoder.take(portion).data)):
            assert key in KEYS
            if key == "tool_start":
                started.add(value["id"])
            elif key in ("block", "invalid", "tool_delta"):
                assert value["id"] in started


@given(events=runs(crashes=False), place=st.integers(0, 10_000))
def test_who_comes_late_is_told_the_same(events: list[ev.Event], place: int) -> None:
    records = records_of(events)
    cut = 1 + place % len(records)
    late = ConverseEncoder("run_1", "talk_1")
    opening = late.opening(snapshot_of(records[:cut]))
    late.begin(snapshot_of(records[:cut]))
    rest = late.take(records[cut:]).data
    assert _gist(opening.data + rest) == _gist(
        ConverseEncoder("run_1", "talk_1").take(records).data
    )


def _gist(written: bytes) -> Any:
    """What was said in all, the ends of calls by their ids; snapshots group by block."""
    texts: dict[str, str] = {"text": "", "thinking": ""}
    calls = set()
    for event in read(written):
        [(key, value)] = event.data.items()
        if key in texts:
            texts[key] += value
        elif key in ("tool_start", "block", "invalid", "tool_result"):
            calls.add((key, value["id"]))
    return {key: sorted(text) for key, text in texts.items()}, calls


def test_a_call_is_told_from_its_start_to_its_result() -> None:
    call: list[ev.Event] = [
        START,
        ev.ThinkingDelta("hm", 0),
        ev.TextDelta("I write.", 1),
        ev.ToolCallStarted("c1", 0, "write"),
        ev.ToolArgsDelta("c1", "write", '{"path": "a", "content": "one\\n'),
        ev.ToolArgsDelta("c1", "write", 'two"}'),
        ev.ToolArgsCompleted("c1", "write", {"path": "a", "content": "one\ntwo"}),
        ev.ToolCallCompleted("c1", "write", {}, {"written": 7}),
        ev.RunCompleted("done"),
    ]
    assert told(*call) == [
        {"thinking": "hm"},
        {"text": "I write."},
        {"tool_start": {"id": "c1", "name": "write"}},
        {"block": {"id": "c1", "name": "write", "input": {"path": "a", "content": "one\ntwo"}}},
        {"tool_result": {"id": "c1", "name": "write", "output": {"written": 7}}},
        {"done": {"conversation": "talk_1", "run": "run_1", "status": "completed"}},
    ]
    deltas = [one["tool_delta"] for one in told(*call, with_deltas=True) if "tool_delta" in one]
    assert deltas == [
        {"id": "c1", "path": ["path"], "text": "a"},
        {"id": "c1", "path": ["content"], "text": "one\ntwo"},
    ]


def test_a_call_that_is_refused_says_why() -> None:
    error = ev.ArgumentsError("type", "must be a number", 6, ("a",), "type")
    events = (
        START,
        ev.ToolCallStarted("c1", 0, "add"),
        ev.ToolArgsInvalid("c1", "add", "rejected", '{"a": "x', error),
        ev.ToolCallFailed("c1", "add", "must be a number"),
    )
    _, invalid, result = told(*events)
    assert invalid == {
        "invalid": {
            "id": "c1",
            "name": "add",
            "verdict": "rejected",
            "reason": "type",
            "message": "must be a number",
            "path": ["a"],
        }
    }
    assert result == {"tool_result": {"id": "c1", "name": "add", "error": "must be a number"}}


def test_a_run_that_waits_for_a_person_says_what_for_and_ends() -> None:
    request = ev.ApprovalRequested("c1", "send", {"to": "ada"}, "d1gest", "it sends")
    encoder = ConverseEncoder("run_1", "talk_1")
    written = encoder.take(records_of([START, ev.RunPaused("run_1", (request,))]))
    assert written.ends
    assert read(written.data)[-1].data["done"] == {
        "conversation": "talk_1",
        "run": "run_1",
        "status": "paused",
        "pending": [
            {
                "id": "c1",
                "name": "send",
                "input": {"to": "ada"},
                "digest": "d1gest",
                "reason": "it sends",
            }
        ],
    }


# Runs that are only observed tell of no turns, and do not pause

REQUEST = ev.ApprovalRequested("c1", "send", {}, "d1gest", "it sends")
WAITING: list[ev.Event] = [
    START,
    ev.ToolCallStarted("c1", 0, "send"),
    ev.ToolArgsCompleted("c1", "send", {}),
    REQUEST,
]


def test_who_joins_an_observed_run_that_waits_is_asked() -> None:
    records = records_of(WAITING)
    early = ConverseEncoder("run_1", "talk_1").take(records)
    late = ConverseEncoder("run_1", "talk_1").opening(snapshot_of(records))

    assert early.ends
    assert late.ends
    done = read(late.data)[-1].data["done"]
    assert [one["digest"] for one in done["pending"]] == ["d1gest"]
    assert done == read(early.data)[-1].data["done"]


def test_an_observed_run_does_not_wait_for_a_call_that_is_over() -> None:
    encoder = ConverseEncoder("run_1", "talk_1")
    encoder.take(records_of(WAITING))

    assert not encoder.take(records_of([ev.ToolCallFailed("c1", "send", "given up")])).ends


def test_every_end_says_done_and_a_failure_also_why() -> None:
    assert [*told(START, ev.RunStopped("enough"))[-1]["done"].values()][-1] == "stopped"
    error, done = told(START, ev.RunFailed("max_turns", "too many"))
    assert error == {"error": {"code": "max_turns", "message": "too many"}}
    assert done["done"]["status"] == "failed"

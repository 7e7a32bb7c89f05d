"""Runs by chance, as a client of the AI SDK sees them: whenever it comes, it ends up with the same.

How often a turn was lost is not kept; so of several marks in a step the last counts, which is what
they say: all before it in this step was lost.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from argstream.events import (
    Event,
    RunPaused,
    RunResumed,
    RunStopped,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
)
from argstream.log import Record
from argstream.protocols.ai_sdk import AiSdkEncoder
from argstream.snapshots import RunView
from tests.chance_runs import RUN, claude_code, runs
from tests.protocols.ai_sdk_client import Client, Part


def possible(events: Sequence[Event]) -> list[Event]:
    """Leave out what no run tells: more of a call that has its result; a pause without an end."""
    kept: list[Event] = []
    over: set[str] = set()
    for event in events:
        if kept and isinstance(kept[-1], RunPaused) and not isinstance(event, RunResumed):
            kept.append(RunResumed(RUN))
        if isinstance(event, ToolCallStarted):
            over.discard(event.call_id)
        elif getattr(event, "call_id", None) in over:
            continue
        elif isinstance(event, ToolCallCompleted | ToolCallFailed):
            over.add(event.call_id)
        kept.append(event)
    return kept


def records(events: Sequence[Event], after: int = 0) -> list[Record]:
    return [record(event, seq) for seq, event in enumerate(events, after + 1)]


def record(event: Event, seq: int) -> Record:
    return Record(seq, 0.0, RUN, "session", "agent", event)


def snapshot(events: Sequence[Event]) -> Record:
    view = RunView()
    for event in events:
        view.take(event)
    return record(view.snapshot(), len(events))


def shown(client: Client) -> dict[str, Any]:
    """What a client has: its parts in order, and apart from these what only we know of."""
    steps: list[tuple[int, list[Part]]] = []
    decisions: dict[str, Any] = {}
    for part in client.parts:
        match part["type"]:
            case "step-start":
                steps.append((0, []))
            case "data-argstream-decision":
                decisions[part["id"]] = part["data"]
            case "data-argstream-lost":
                steps[-1] = (len(steps[-1][1]), steps[-1][1])
            case "text" | "reasoning":  # when it is complete is told late at times
                steps[-1][1].append({**part, "state": ""})
            case _:
                steps[-1][1].append(part)
    ends = client.ends[-1:] if not client.is_streaming else []
    return {"steps": steps, "decisions": decisions, "ends": ends, "id": client.id}


events_and_cut = (
    runs()
    .map(possible)
    .flatmap(lambda events: st.tuples(st.just(events), st.integers(1, len(events))))
)


@given(events_and_cut)
def test_who_comes_late_sees_what_those_see_who_were_there(
    drawn: tuple[list[Event], int],
) -> None:
    events, cut = drawn
    early = Client()
    encoder = AiSdkEncoder(RUN)
    for one in records(events):
        early.read(encoder.take([one]).data)

    late = Client()
    encoder = AiSdkEncoder(RUN)
    encoder.begin(snapshot(events[:cut]))
    late.read(encoder.opening(snapshot(events[:cut])).data)
    for one in records(events[cut:], cut):
        late.read(encoder.take([one]).data)

    assert shown(late) == shown(early)


@given(runs().map(possible))
def test_a_run_that_is_stopped_leaves_nothing_open(events: list[Event]) -> None:
    events = [event for event in events if not hasattr(event, "code")]
    client = Client()
    encoder = AiSdkEncoder(RUN)
    written = [encoder.take([one]) for one in records([*events, RunStopped("enough", RUN)])]
    for one in written:
        client.read(one.data)  # which fails if something is open at the end

    assert written[-1].ends
    assert client.ends[-1] == {"type": "abort", "reason": "enough"}


@given(runs().map(possible))
def test_a_stream_ends_exactly_where_the_run_rests(events: list[Event]) -> None:
    encoder = AiSdkEncoder(RUN)
    rests = ("run_paused", "run_completed", "run_failed", "run_stopped")

    for one in records(events):
        written = encoder.take([one])
        assert written.ends == (one.event.type in rests)
        assert written.data.endswith(b"data: [DONE]\n\n") == written.ends


def test_sub_agents_that_speak_at_once_are_seen_the_same_from_any_point() -> None:
    events = claude_code()
    whole = shown(Client().read(AiSdkEncoder(RUN).take(records(events)).data))
    for cut in range(1, len(events) + 1):
        encoder = AiSdkEncoder(RUN)
        encoder.begin(snapshot(events[:cut]))
        late = Client().read(encoder.opening(snapshot(events[:cut])).data)
        late.read(encoder.take(records(events[cut:], cut)).data)

        assert shown(late) == whole

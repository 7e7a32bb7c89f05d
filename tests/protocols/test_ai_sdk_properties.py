"""Random runs as AI SDK clients see them: a client ends with the same message whenever it joins.

Read by the strict client of these tests, and by the published clients in one Node process.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import events as ev
from argstream.events import Event, RunStopped
from argstream.protocols.ai_sdk import AiSdkEncoder
from argstream.runs import Record
from tests.chance_runs import RUN, claude_code, logged_runs, observed_runs
from tests.protocols.ai_sdk_client import Client, Part
from tests.protocols.reading import records_of, snapshot_of
from tests.server.nodes import examples_of, run_node_on

DONE = b"data: [DONE]\n\n"
records_and_cut = (
    logged_runs()
    .map(records_of)
    .flatmap(lambda records: st.tuples(st.just(records), st.integers(1, len(records))))
)


def stream(records: Sequence[Record], cut: int = 0, *, is_alone: bool = True) -> list[bytes]:
    """What a client receives that joins at the cut, alone or where another client watches."""
    encoder = AiSdkEncoder(RUN)
    pieces: list[bytes] = []
    if cut:
        if is_alone:
            encoder.begin(snapshot_of(records[:cut]))
        else:
            for record in records[:cut]:
                encoder.encode([record])
        pieces.append(encoder.replay().data)
    return [*pieces, *(encoder.encode([record]).data for record in records[cut:])]


def shown(pieces: Sequence[bytes]) -> dict[str, Any]:
    """The parts of a message by step, and apart from them the data of argstream.

    How often a turn was lost is not stored. So of several marks in a step, the last one counts: all
    before it in this step was lost.
    """
    client = Client()
    for piece in pieces:
        client.read(piece)
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
            case "text" | "reasoning":  # late clients may learn later that it is complete
                steps[-1][1].append({**part, "state": ""})
            case _:
                steps[-1][1].append(part)
    ends = client.ends[-1:] if not client.is_streaming else []
    return {"steps": steps, "decisions": decisions, "ends": ends, "id": client.id}


def call(name: str, *more: Event) -> list[Event]:
    """A call to send a mail, as the model writes it."""
    started = ev.ToolCallStarted(name, 0, "send")
    delta = ev.ToolArgsDelta(name, "send", f'{{"to": "{name}"}}')
    return [started, delta, ev.ToolArgsCompleted(name, "send", {"to": name}), *more]


def decided(request: ev.ApprovalRequested, *, approved: bool) -> list[Event]:
    call_id, name = request.call_id, request.name
    decision = ev.ApprovalDecided(call_id, name, "approved" if approved else "denied")
    done: list[Event] = [ev.ToolCallFailed(call_id, name, "it was denied")]
    if approved:
        running = ev.ToolExecutionStarted(call_id, name, "key")
        done = [running, ev.ToolCallCompleted(call_id, name, request.arguments, "sent")]
    return [ev.RunResumed(RUN), decision, *done]


def run_with_pauses() -> Iterator[Event]:
    """A run with text before, between and after calls that are decided one by one."""
    ada, eve, me = (
        ev.ApprovalRequested(to, "send", {"to": to}, f"digest of {to}", "why")
        for to in ("ada", "eve", "me")
    )
    yield from (ev.RunStarted(RUN, "Send it"), ev.TurnStarted(1), ev.ThinkingCompleted("Hm.", 0))
    yield from (ev.TextDelta("To ada,", 1), *call("ada"), ev.TextDelta(" and to eve.", 2))
    yield from (*call("eve"), ev.TextDelta(" So be it", 3), ada, eve, ev.RunPaused(RUN, (ada, eve)))
    yield from (*decided(ada, approved=True), ev.RunPaused(RUN, (eve,)))
    yield from (*decided(eve, approved=False), ev.TurnStarted(2), ev.TextDelta("To me too.", 4))
    yield from (*call("me"), me, ev.RunPaused(RUN, (me,)), *decided(me, approved=True))
    yield from (ev.TurnStarted(3), ev.TextDelta("All is sent.", 5))
    yield ev.RunCompleted("All is sent.", ev.Usage(3, 4), "end_turn", RUN)


def by_speaker(parts: Sequence[Part]) -> tuple[dict[str, str], list[Part]]:
    """Texts by speaker, as a pause may end one in the middle; and the other parts."""
    texts: dict[str, str] = {}
    for part in parts:
        if "text" in part:
            speaker = f"{part['type']} {part.get('of', part.get('providerMetadata'))}"
            texts[speaker] = texts.get(speaker, "") + part["text"]
    return texts, [part for part in parts if "text" not in part]


def calls_and_texts(pieces: Sequence[bytes]) -> Any:
    found = shown(pieces)
    return by_speaker([part for _, step in found.pop("steps") for part in step]), found


@given(records_and_cut, st.booleans())
def test_late_client_sees_the_same_as_an_early_one(
    drawn: tuple[list[Record], int], is_alone: bool
) -> None:
    records, cut = drawn
    assert shown(stream(records, cut, is_alone=is_alone)) == shown(stream(records))


@given(observed_runs(), st.booleans(), st.data())
def test_late_client_of_an_observed_run_misses_and_repeats_nothing(
    events: list[Event], is_alone: bool, data: st.DataObject
) -> None:
    records = records_of(events)
    cut = data.draw(st.integers(1, len(records)))
    late = calls_and_texts(stream(records, cut, is_alone=is_alone))
    assert late == calls_and_texts(stream(records))


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("kind", ["pauses", "sub-agents"])
def test_client_may_join_at_any_record(kind: str, *, is_alone: bool) -> None:
    records = records_of(run_with_pauses() if kind == "pauses" else claude_code())
    whole = shown(stream(records))
    for cut in range(1, len(records) + 1):
        kinds = [record.event.type for record in records[:cut]]
        assert shown(stream(records, cut, is_alone=is_alone)) == whole, kinds


@given(logged_runs())
def test_stopped_run_leaves_nothing_open(events: list[Event]) -> None:
    events = [event for event in events if not hasattr(event, "code")]
    client, encoder = Client(), AiSdkEncoder(RUN)
    written = [encoder.encode([one]) for one in records_of([*events, RunStopped("enough", RUN)])]
    for one in written:
        client.read(one.data)  # fails if something is open at the end
    assert written[-1].ends
    assert client.ends[-1] == {"type": "abort", "reason": "enough"}


@given(logged_runs())
def test_stream_ends_exactly_where_the_run_rests(events: list[Event]) -> None:
    encoder = AiSdkEncoder(RUN)
    rests = ("run_paused", "run_completed", "run_failed", "run_stopped")
    for one in records_of(events):
        written = encoder.encode([one])
        assert written.ends == (one.event.type in rests)
        assert written.data.endswith(DONE) == written.ends


def for_node(pieces: Sequence[bytes]) -> list[str]:
    return [one.decode() for one in b"".join(pieces).split(DONE) if one]


def parts_of(message: dict[str, Any], *, with_state: bool = True) -> list[Part]:
    """The parts, without the data of argstream, which is sent behind the part that it is about."""
    return [
        {key: part[key] for key in part if with_state or key != "state" or "text" not in part}
        for part in message["parts"]
        if not part["type"].startswith("data-argstream-")
    ]


def test_published_clients_see_the_same_whenever_they_join() -> None:
    paused = records_of(run_with_pauses())
    drawn = [*examples_of(records_and_cut), *((paused, cut) for cut in range(4, len(paused), 4))]
    streams = [for_node(stream(records, at)) for records, cut in drawn for at in (0, cut)]
    for messages in run_node_on("ai_sdk_fold.mjs", streams):
        assert len(messages) == len(streams)
        for early, late in zip(messages[::2], messages[1::2], strict=True):
            assert parts_of(late, with_state=False) == parts_of(early, with_state=False)


def test_published_clients_of_an_observed_run_miss_and_repeat_nothing() -> None:
    drawn = examples_of(st.tuples(observed_runs().map(records_of), st.integers(1, 100)))
    streams: list[list[str]] = []
    for records, percent in drawn:
        cut = 1 + percent * (len(records) - 1) // 100
        streams += [for_node(stream(records, at, is_alone=False)) for at in (0, cut)]
    for messages in run_node_on("ai_sdk_fold.mjs", streams):
        assert len(messages) == len(streams)
        for early, late in zip(messages[::2], messages[1::2], strict=True):
            assert by_speaker(parts_of(late)) == by_speaker(parts_of(early))
            assert {part.get("state") for part in parts_of(early) if "text" in part} == {"done"}

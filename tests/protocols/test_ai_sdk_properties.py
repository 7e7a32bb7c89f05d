"""Random runs as AI SDK clients see them: a client ends with the same message whenever it joins.

Read by the strict client of these tests, and by the published clients in one Node process.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import Approve, Deny
from argstream.events import Event, RunStopped
from argstream.models import Reply, Think
from argstream.protocols.ai_sdk import AiSdkEncoder
from argstream.runs import MemoryStore, Record
from tests.agent.following import mailing, send
from tests.chance_runs import RUN, claude_code, logged_runs
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
        snapshot = snapshot_of(records[:cut])
        if is_alone:
            encoder.begin(snapshot)
        else:
            for record in records[:cut]:
                encoder.take([record])
        pieces.append(encoder.replay(snapshot).data)
    return [*pieces, *(encoder.take([record]).data for record in records[cut:])]


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


async def run_with_pauses() -> list[Record]:
    """A run with text before, between and after calls that are decided one by one."""
    store = MemoryStore()
    agent, _ = mailing(
        Reply(Think("Hm."), "To ada,", send("ada"), " and to eve.", send("eve"), " So be it."),
        Reply("To me as well.", send("me")),
        Reply("All is sent."),
        store=store,
    )
    result = await agent.run_async("Send it")
    while result.pending:
        request = result.pending[0]
        decision = Deny("not to her") if request.arguments == {"to": "eve"} else Approve()
        result = await agent.resume(result, {request.call_id: decision})
    return await store.read(result.run_id)


@given(records_and_cut, st.booleans())
def test_late_client_sees_the_same_as_an_early_one(
    drawn: tuple[list[Record], int], is_alone: bool
) -> None:
    records, cut = drawn
    assert shown(stream(records, cut, is_alone=is_alone)) == shown(stream(records))


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("kind", ["pauses", "sub-agents"])
def test_client_may_join_at_any_record(kind: str, *, is_alone: bool) -> None:
    is_paused = kind == "pauses"
    records = asyncio.run(run_with_pauses()) if is_paused else records_of(claude_code())
    kinds = [record.event.type for record in records]
    assert kinds.count("run_paused") == (3 if is_paused else 0)
    whole = shown(stream(records))
    for cut in range(1, len(records) + 1):
        assert shown(stream(records, cut, is_alone=is_alone)) == whole, kinds[:cut]


@given(logged_runs())
def test_stopped_run_leaves_nothing_open(events: list[Event]) -> None:
    events = [event for event in events if not hasattr(event, "code")]
    client, encoder = Client(), AiSdkEncoder(RUN)
    written = [encoder.take([one]) for one in records_of([*events, RunStopped("enough", RUN)])]
    for one in written:
        client.read(one.data)  # fails if something is open at the end
    assert written[-1].ends
    assert client.ends[-1] == {"type": "abort", "reason": "enough"}


@given(logged_runs())
def test_stream_ends_exactly_where_the_run_rests(events: list[Event]) -> None:
    encoder = AiSdkEncoder(RUN)
    rests = ("run_paused", "run_completed", "run_failed", "run_stopped")
    for one in records_of(events):
        written = encoder.take([one])
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
    drawn = examples_of(records_and_cut)
    streams = [for_node(stream(records, at)) for records, cut in drawn for at in (0, cut)]
    for messages in run_node_on("ai_sdk_fold.mjs", streams):
        assert len(messages) == len(streams)
        for early, late in zip(messages[::2], messages[1::2], strict=True):
            assert parts_of(late, with_state=False) == parts_of(early, with_state=False)


def test_published_clients_in_a_second_tab_see_the_same_after_a_pause() -> None:
    records = asyncio.run(run_with_pauses())
    cuts = range(0, len(records), 4)
    streams = [for_node(stream(records, cut, is_alone=False)) for cut in cuts]
    for first, *others in run_node_on("ai_sdk_fold.mjs", streams):
        assert len(others) == len(cuts) - 1
        assert {part.get("state") for part in first["parts"] if "text" in part} == {"done"}
        for other in others:
            assert parts_of(other) == parts_of(first)

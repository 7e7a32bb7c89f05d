"""Runs by chance, as a client of the AI SDK sees them: whenever it comes, it ends up with the same.

How often a turn was lost is not kept; so of several marks in a step the last counts, which is what
they say: all before it in this step was lost.
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


records_and_cut = (
    logged_runs()
    .map(records_of)
    .flatmap(lambda records: st.tuples(st.just(records), st.integers(1, len(records))))
)


def early(records: Sequence[Record]) -> dict[str, Any]:
    """What one has who was there from the beginning."""
    client, encoder = Client(), AiSdkEncoder(RUN)
    for one in records:
        client.read(encoder.take([one]).data)
    return shown(client)


def late(records: Sequence[Record], cut: int, *, alone: bool) -> dict[str, Any]:
    """What one has who comes later: where others watch already, or alone."""
    snapshot = snapshot_of(records[:cut])
    client, encoder = Client(), AiSdkEncoder(RUN)
    if alone:
        encoder.begin(snapshot)
    else:
        for one in records[:cut]:
            encoder.take([one])
    client.read(encoder.opening(snapshot).data)
    for one in records[cut:]:
        client.read(encoder.take([one]).data)
    return shown(client)


@given(records_and_cut, st.booleans())
def test_who_comes_late_sees_what_those_see_who_were_there(
    drawn: tuple[list[Record], int], alone: bool
) -> None:
    records, cut = drawn

    assert late(records, cut, alone=alone) == early(records)


@pytest.mark.parametrize("alone", [True, False])
def test_a_pause_in_the_past_leaves_nothing_open_for_who_comes_later(alone: bool) -> None:
    records = asyncio.run(run_with_pauses())
    kinds = [record.event.type for record in records]
    assert kinds.count("run_paused") == 3
    whole = early(records)

    for cut in range(1, len(records) + 1):
        assert late(records, cut, alone=alone) == whole, kinds[:cut]


async def run_with_pauses() -> list[Record]:
    """A real run whose model speaks before, between and after calls that are decided one by one."""
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


@given(logged_runs())
def test_a_run_that_is_stopped_leaves_nothing_open(events: list[Event]) -> None:
    events = [event for event in events if not hasattr(event, "code")]
    client = Client()
    encoder = AiSdkEncoder(RUN)
    written = [encoder.take([one]) for one in records_of([*events, RunStopped("enough", RUN)])]
    for one in written:
        client.read(one.data)  # which fails if something is open at the end

    assert written[-1].ends
    assert client.ends[-1] == {"type": "abort", "reason": "enough"}


@given(logged_runs())
def test_a_stream_ends_exactly_where_the_run_rests(events: list[Event]) -> None:
    encoder = AiSdkEncoder(RUN)
    rests = ("run_paused", "run_completed", "run_failed", "run_stopped")

    for one in records_of(events):
        written = encoder.take([one])
        assert written.ends == (one.event.type in rests)
        assert written.data.endswith(b"data: [DONE]\n\n") == written.ends


def test_sub_agents_that_speak_at_once_are_seen_the_same_from_any_point() -> None:
    records = records_of(claude_code())
    whole = shown(Client().read(AiSdkEncoder(RUN).take(records).data))
    for cut in range(1, len(records) + 1):
        encoder = AiSdkEncoder(RUN)
        encoder.begin(snapshot_of(records[:cut]))
        late = Client().read(encoder.opening(snapshot_of(records[:cut])).data)
        late.read(encoder.take(records[cut:]).data)

        assert shown(late) == whole

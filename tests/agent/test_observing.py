"""Runs of agents that run their own tools: they are logged and ended like runs of an Agent."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKClient, ResultError, query

from argstream import events as ev
from argstream.agent import Run
from argstream.agent.observer import Observer, observe
from argstream.errors import RunBusyError, RunError, StoreError, UsageError
from argstream.events import Event, RunCompleted, RunFailed, RunStopped, ToolCallStarted
from argstream.runs import Lease, MemoryStore, Store
from argstream.runs._batches import Batch
from tests import claude_agent
from tests import provider_streams as ps
from tests.agent.following import collect, complete, mailing, merged, one, only, send, steps
from tests.agent.observing import FakeClaude, check_observed, logged, playing, stuck_after
from tests.chance_runs import CLAUDE_CODE_LINES as STORY
from tests.claude_agent import assistant, init, run_result, streamed, text, tool_result, use, user
from tests.provider_streams import Payload
from tests.runs.records import snapshot_of, timeless

pytestmark = pytest.mark.anyio

STARTED = STORY[:8]  # up to the first call


def observed(claude: FakeClaude, store: Store, **options: Any) -> Run:
    return observe(query(prompt="Go", transport=claude), store=store, prompt="Go", **options)


async def checked(lines: object) -> list[Event]:
    events = await collect(observe(lines, store=MemoryStore()))
    check_observed(events)
    return events


async def follow_until_error(run: Run, events: list[Event]) -> None:
    async for event in run:
        events.append(event)  # noqa: PERF401 - events before an error count


@pytest.mark.parametrize("store", ["memory", "sqlite"], indirect=True)
async def test_sdk_query_is_logged_as_a_run(store: Store) -> None:
    run = observed(playing(STORY), store, conversation_id="session_7")
    events = await collect(run)
    expected = claude_agent.read("objects", STORY)[1]
    assert merged(events[1:-1]) == merged(expected[:-1])
    assert events[0] == ev.RunStarted(run.run_id, "Go", mode="observed")
    assert events[-1] == RunCompleted("All done.", expected[-1].usage, run_id=run.run_id)  # type: ignore[union-attr]  # of the result
    check_observed(events)
    assert merged(await logged(store, run.run_id)) == merged(events)
    info = await store.info(run.run_id)
    assert (info.status, info.agent, info.owner) == ("completed", "claude-code", None)
    assert info.conversation_id == "session_7"


async def test_result_and_messages_of_a_run_continue_its_conversation() -> None:
    store = MemoryStore()
    cut = assistant(text("I seek."), use({}, "sub_2"), id_="msg_3", parent="task_2")
    lines = [cut if line.get("message", {}).get("id") == "msg_3" else line for line in STORY]
    run = observed(playing(lines), store, conversation_id="talk", user="ada")
    result = await run
    assert (result.outcome, result.text) == ("completed", "All done.")
    uses = {use.call_id: use.result or use.error for use in result.tools}
    assert (uses["sub_1"], uses["sub_2"]) == ("A", "B")
    roles = [message.role for message in result.messages]
    assert roles == ["user", "assistant", "user", "assistant"], "prompt, tasks, results, text"
    assert (await store.info(run.run_id)).user == "ada"
    agent, _ = mailing("Hello.", store=store)
    conversation = await agent.conversation("talk", user="ada")
    assert conversation.messages == result.messages
    assert (await agent.run_stream("Hello", conversation)).text == "Hello."
    assert (await agent.conversation("talk")).is_fresh


@pytest.mark.parametrize("way", ["end", "error", "stop"])
async def test_run_cut_off_at_any_message_ends_with_all_its_calls(way: str, store: Store) -> None:
    async def source(cut: int) -> AsyncIterator[Payload]:
        for line in STORY[:cut]:
            yield line
        if way == "error":
            raise OSError("broken")
        if way == "stop":
            run.stop()
            await asyncio.sleep(20)

    for cut in range(len(STORY)):
        run = observe(source(cut), store=store, prompt="Go")
        events: list[Event] = []
        with pytest.raises(OSError, match="broken") if way == "error" else nullcontext():
            await follow_until_error(run, events)
        assert isinstance(events[-1], RunStopped if way == "stop" else RunFailed)
        log = await logged(store, run.run_id)
        assert snapshot_of(log) == snapshot_of(events)
        stored = timeless(await store.snapshot(run.run_id))
        assert stored.blocks == timeless(snapshot_of(log)).blocks
        check_observed(log)
        check_observed(events)


@pytest.mark.parametrize(
    ("lines", "code"),
    [(STORY[:-1], "truncated"), ([], "empty"), ([assistant(text("Hi."))], "truncated")],
)
async def test_run_without_a_result_message_has_failed(lines: list[Payload], code: str) -> None:
    assert one(await checked(lines), RunFailed).code == code


async def test_call_without_a_result_fails() -> None:
    events = await checked([init(), assistant(use({"path": "a"})), run_result(result="Done.")])
    assert one(events, ev.ToolCallFailed).error == (
        "no result was reported: the run is over. Its effects are unknown"
    )


async def test_failed_run_has_its_error_and_the_exception_of_the_sdk_is_raised() -> None:
    message = "Reached maximum number of turns (1)"
    failed = run_result("error_max_turns", errors=[message])

    async def raising() -> AsyncIterator[Payload]:
        yield init()
        yield failed
        raise ResultError("no", data=failed)

    run = observe(raising(), store=MemoryStore())
    events: list[Event] = []
    with pytest.raises(ResultError):
        await follow_until_error(run, events)
    assert events[-1] == RunFailed("error_max_turns", message, run.run_id, ev.Usage(7, 5))
    with pytest.raises(RunError) as failure:
        await observe([init(), failed], store=MemoryStore())
    assert failure.value.code == "error_max_turns"
    assert failure.value.result.outcome == "failed"


async def test_run_with_several_results_ends_with_the_last() -> None:
    """A background task wakes the agent after its first result."""
    replies = [("msg_1", "Started."), ("msg_2", "It is done.")]
    pairs = [(assistant(text(reply), id_=id_), run_result(result=reply)) for id_, reply in replies]
    events = await checked([init(), *pairs[0], *pairs[1]])
    assert one(events, RunCompleted).result == "It is done."


async def test_sub_agent_that_is_cut_off_does_not_undo_the_result() -> None:
    started = user([tool_result("started", "task_1")], tool_use_result={"isAsync": True})
    cut = streamed(ps.message_start("msg_2"), ps.tool_use(0, id_="sub_1"), parent="task_1")
    lines = [init(), assistant(use({"a": 1}, "task_1")), started, run_result(result="Ok."), *cut]
    events = await checked(lines)
    assert one(events, RunCompleted).result == "Ok."
    assert one(events, ev.ToolArgsInvalid).call_id == "sub_1"


@pytest.mark.parametrize("way", ["stop", "store", "thread", "break", "cancel"])
async def test_stopped_or_left_run_closes_its_source(way: str, store: Store) -> None:
    has_call = asyncio.Event()

    async def following(run: Run) -> None:
        async for event in run:
            if isinstance(event, ToolCallStarted):
                has_call.set()
                match way:
                    case "stop":
                        run.stop("enough")
                    case "store":
                        await store.stop(run.run_id, "enough")
                    case "thread":
                        await asyncio.to_thread(run.stop, "enough")
                    case "break":
                        break
                    case _:
                        await asyncio.sleep(20)

    claude = stuck_after(STARTED)
    run = observed(claude, store)
    task = asyncio.create_task(following(run))
    await has_call.wait()
    if way == "cancel":
        task.cancel()
    await asyncio.wait([task])
    del task
    await claude.is_closed.wait()
    await run.aclose()
    log = await logged(store, run.run_id)
    check_observed(log)
    expected = "enough" if way in ("stop", "store", "thread") else "the consumer stopped"
    assert one(log, RunStopped).reason.startswith(expected)
    assert (await store.info(run.run_id)).owner is None


async def test_run_stopped_before_it_begins_reads_nothing() -> None:
    claude, store = playing(STORY), MemoryStore()
    async with observed(claude, store):
        pass
    assert await store.runs() == [], "a run that was closed before is not logged"
    run = observed(claude, store)
    run.stop("changed my mind")
    assert steps(await collect(run)) == ["run_started", "run_stopped"]
    assert claude.given == 0


async def test_stop_interrupts_an_sdk_client_that_stays_usable() -> None:
    first = [init(), assistant(use({"path": "a"}))]
    interrupted = user([tool_result("interrupted", is_error=True)])
    ending = [interrupted, run_result("error_during_execution")]
    second = [init(), assistant(text("Again."), id_="msg_2"), run_result(result="Again.")]
    store = MemoryStore()
    claude = stuck_after(first, *ending, *second)
    async with ClaudeSDKClient(transport=claude) as client:
        await client.query("one")
        run = observe(client, store=store, prompt="one", conversation_id="talk")
        events: list[Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, ToolCallStarted):
                run.stop("enough")
        assert claude.was_interrupted.is_set()
        assert one(events, ev.ToolCallFailed).error == "interrupted"
        assert events[-1] == RunStopped("enough", run.run_id, ev.Usage(7, 1))
        await client.query("two")
        again = observe(client, store=store, prompt="two", conversation_id="talk")
        assert (await again).text == "Again."
        assert not claude.is_closed.is_set()
    runs = await store.runs(conversation_id="talk")
    assert {info.run_id for info in runs} == {run.run_id, again.run_id}


async def test_client_whose_interrupt_fails_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argstream.agent._driver._INTERRUPT_GRACE", 0.05)

    class Client:
        async def receive_response(self) -> AsyncIterator[Payload]:
            yield init()
            run.stop()
            try:
                await asyncio.sleep(20)
            finally:
                raise OSError("closing failed")

        async def interrupt(self) -> None:
            raise OSError("not connected")

    run = observe(Client(), store=MemoryStore())
    assert steps(await collect(run)) == ["run_started", "run_stopped"]


def test_run_has_one_consumer_and_stop_after_its_end_does_nothing() -> None:
    run = observe(STORY, store=MemoryStore())
    check_observed(list(run))  # without an event loop
    run.stop("too late")
    assert run.result.outcome == "completed"
    assert run.wait().outcome == "completed"
    assert list(run) == []


async def test_source_that_is_no_agent_raises_and_fails_the_run() -> None:
    store = MemoryStore()
    run = observe(ps.anthropic_call('{"a": 1}'), store=store)
    with pytest.raises(UsageError, match="Agent"):
        await collect(run)
    assert steps(await logged(store, run.run_id)) == ["run_started", "run_failed"]
    with pytest.raises(UsageError, match="Agent"):
        await observe([], store=MemoryStore(), protocol="openai-chat")
    with pytest.raises(UsageError, match="cannot read an object of type int"):
        await collect(observe(5, store=MemoryStore()))


class Watched(MemoryStore):
    """A store that records what it has written, and that can block or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Event] = []
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.is_full = False

    async def _append(self, lease: Lease, batch: Batch) -> None:
        await asyncio.sleep(0.002)
        await self.is_open.wait()
        if self.is_full:
            raise StoreError("the disk is full")
        await super()._append(lease, batch)
        self.written += [record.event for record in batch.records]


async def test_no_event_is_shown_before_it_is_logged() -> None:
    store = Watched()
    count = 0
    async for event in observed(playing(STORY), store):
        if not event.is_delta and merged([event]) and not isinstance(event, ev.RunStarted):
            count += 1
            assert event in store.written
    assert count == 20


def long_text(count: int) -> list[Payload]:
    pieces = [ps.block_delta(0, "text_delta", text="x") for _ in range(count)]
    block = [ps.block_start(0, "text", text=""), *pieces, ps.block_stop(0)]
    lines = streamed(ps.message_start(), *block, *ps.message_end("end_turn"))
    return [init(), *lines, run_result(result="")]


async def test_deltas_that_arrive_during_a_write_are_joined() -> None:
    store = Watched()
    events = await collect(observe(long_text(500), store=store))
    written = only(store.written, ev.TextDelta)
    assert only(events, ev.TextDelta) == written
    assert len(written) < 10
    assert "".join(event.text for event in written) == "x" * 500


@pytest.mark.parametrize("slow", ["store", "consumer"])
async def test_slow_store_or_consumer_slows_the_agent_down(slow: str) -> None:
    claude = playing(long_text(6_000))
    store = Watched()
    async with observed(claude, store) as run:
        await anext(run)
        if slow == "store":
            store.is_open.clear()
        given = -1
        while claude.given > given:
            given = claude.given
            await asyncio.sleep(0.1)
        store.is_open.set()
    assert 100 < given < 5_000  # the reader waits for its own write, or until the queue is full


async def test_observer_renews_its_lease_and_raises_when_it_has_lost_it() -> None:
    class Renewing(MemoryStore):
        async def renew(self, lease: Lease, seconds: float) -> None:
            await super().renew(lease, seconds)
            renewed.set()

    now = time.time()
    renewed = asyncio.Event()
    store, claude = Renewing(clock=lambda: now), stuck_after(STARTED)
    observer = Observer(store=store, lease_seconds=0.1)
    run = observer.observe(query(prompt="Go", transport=claude), "Go")
    await anext(run)
    now += 0.09
    renewed.clear()
    await renewed.wait()
    now += 0.09
    with pytest.raises(RunBusyError):
        await store.acquire(run.run_id, "another", 10)
    now += 100
    await store.acquire(run.run_id, "another", 10)
    with pytest.raises(RunBusyError, match="another"):
        await collect(run)
    assert claude.is_closed.is_set()
    assert (await store.info(run.run_id)).status == "running"


async def test_failing_store_closes_the_source_and_raises() -> None:
    store, claude = Watched(), stuck_after(STARTED)
    run = observed(claude, store)
    await anext(run)
    store.is_full = True
    with pytest.raises(StoreError, match="full"):
        await collect(run)
    assert claude.is_closed.is_set()
    await store.aclose()
    unread = playing(STORY)
    with pytest.raises(StoreError, match="closed"):
        await collect(observed(unread, store))
    assert unread.given == 0


@pytest.mark.parametrize("is_full", [False, True])
def test_end_of_the_event_loop_ends_the_run_in_the_log_or_logs_a_warning(
    is_full: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = Watched()
    kept: list[object] = []

    async def main() -> str:
        run = observed(stuck_after(STARTED), store)
        async for event in run:
            if isinstance(event, ToolCallStarted):
                store.is_full = is_full
                kept.extend((run, aiter(run)))
                return run.run_id
        raise AssertionError

    run_id = asyncio.run(main())
    if is_full:
        assert f"could not release the lease of run {run_id}" in caplog.text
        assert complete(lambda: store.info(run_id)).status == "running"
    else:
        log = complete(lambda: logged(store, run_id))
        check_observed(log)
        assert one(log, RunFailed).code == "interrupted"


async def test_crashed_run_can_be_stopped_at_any_record() -> None:
    whole = Watched()
    run = observed(playing(STORY), whole)
    await collect(run)
    records = await whole.read(run.run_id)
    for end in range(1, len(records)):
        store = MemoryStore()
        lease = await store.create(records[:end], "a process that died", 10)
        observer = Observer(store=store)
        assert await observer.stop_async(run.run_id, "gone") == [], "its lease is valid"
        await store.release(lease)
        last = await observer.stop_async(run.run_id, "gone")
        assert last[-1] == RunStopped("gone", run.run_id)
        log = await logged(store, run.run_id)
        check_observed(log)
        assert log[end:] == last


async def test_observer_does_not_stop_the_run_of_an_agent() -> None:
    store = MemoryStore()
    agent, _ = mailing(send(), store=store)
    paused = await agent.run_async("Go")
    with pytest.raises(UsageError, match="Agent"):
        await Observer(store=store).stop_async(paused.run_id)
    assert (await store.info(paused.run_id)).status == "paused"

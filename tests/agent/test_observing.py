"""Runs of agents that run their tools themselves: in the log as ours are, and ended as ours are."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKClient, ResultError, query

from argstream.agent.observer import ObservedRun, Observer, observe
from argstream.errors import RunFailure, RunTaken, StoreFailure, UsageError
from argstream.events import (
    Event,
    RunCompleted,
    RunFailed,
    RunStarted,
    RunStopped,
    TextDelta,
    ToolArgsInvalid,
    ToolCallFailed,
    ToolCallStarted,
    Usage,
)
from argstream.runs import Claim, MemoryStore, Record, Store, is_durable
from tests.agent.following import complete, mailing, merged, one, only, send, steps
from tests.agent.observing import (
    STORY,
    FakeClaude,
    check_observed,
    followed,
    logged,
    playing,
    seen,
    stuck_after,
)
from tests.claude_agent import (
    assistant,
    in_form,
    init,
    read,
    run_result,
    streamed,
    text,
    tool_result,
    use,
    user,
)
from tests.provider_streams import (
    Payload,
    anthropic_call,
    block_delta,
    block_start,
    block_stop,
    message_end,
    message_start,
    tool_use,
)

pytestmark = pytest.mark.anyio


def observed(claude: FakeClaude, store: Store, **options: Any) -> ObservedRun:
    return observe(query(prompt="Go", transport=claude), store=store, prompt="Go", **options)


async def collect(run: ObservedRun, told: list[Event]) -> None:
    """Follow a run that may raise in the end."""
    async for event in run:
        told.append(event)  # noqa: PERF401 - what came before an error counts


async def raising(lines: list[Payload], error: Exception) -> AsyncIterator[Payload]:
    for line in lines:
        yield line
    raise error


# What is told


async def test_a_query_of_the_sdk_is_a_run_in_the_log(store: Store) -> None:
    run = observed(playing(STORY), store, session_id="session_7")
    told = await followed(run)
    said = read("objects", STORY)[1]
    assert merged(told[1:-1]) == merged(said[:-1])
    assert told[0] == RunStarted(run.run_id, "Go")
    assert told[-1] == RunCompleted("All done.", said[-1].usage, run_id=run.run_id)  # type: ignore[union-attr]  # of the result
    check_observed(told)
    log = await logged(store, run.run_id)
    assert merged(log) == merged(told)
    info = await store.info(run.run_id)
    assert (info.status, info.agent, info.owner) == ("completed", "claude-code", None)
    assert info.session_id == "session_7"


async def test_a_conversation_has_what_the_log_of_an_observed_run_has() -> None:
    store = MemoryStore()
    run = observed(playing(STORY), store, session_id="talk", user="ada")
    result = await run
    assert (await store.info(run.run_id)).user == "ada"
    agent, _ = mailing("Hello.", store=store)
    conversation = await agent.conversation("talk", user="ada")
    assert conversation.messages == result.messages
    assert (await agent.run_stream("Hello", conversation)).text == "Hello."
    assert (await agent.conversation("talk")).is_fresh


@pytest.mark.parametrize("form", ["lines", "objects", "dicts"])
def test_anything_that_stream_reads_can_be_observed_async_or_not(form: str) -> None:
    items = STORY if form == "dicts" else in_form(form, STORY)

    async def slowly() -> AsyncIterator[object]:
        for item in items:
            await asyncio.sleep(0)
            yield item

    async def coroutine() -> AsyncIterator[object]:
        return slowly()

    async def main() -> list[list[Event]]:
        sources = [slowly(), coroutine(), items, iter(items)]
        return [await followed(observe(source, store=MemoryStore())) for source in sources]

    expected = merged(read("objects", STORY)[1][:-1])
    for told in complete(main):
        assert merged(told[1:-1]) == expected


def test_a_run_can_be_followed_without_an_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "claude.ndjson"
    path.write_bytes(b"\n".join(in_form("lines", STORY)))
    with path.open("rb") as lines:
        told = list(observe(lines, store=MemoryStore()))
    check_observed(told)
    assert isinstance(told[-1], RunCompleted)


async def test_what_came_of_a_run_can_be_waited_for() -> None:
    run = observed(playing(STORY), MemoryStore())
    await run
    result = run.result
    assert (result.outcome, result.text) == ("completed", "All done.")
    uses = {use.call_id: use.result or use.error for use in result.tools}
    assert uses["sub_1"] == "A"
    assert uses["sub_2"] == "B"
    assert [message.role for message in result.messages] == [
        *("user", "assistant", "user"),  # the prompt, two tasks, what came of them
        "assistant",
    ]


# How it ends


async def cut_by(way: str, cut: int, store: Store) -> list[Event]:
    """Observe a run that is cut after so many messages."""

    async def source() -> AsyncIterator[Payload]:
        for line in STORY[:cut]:
            yield line
        if way == "error":
            raise OSError("broken")
        if way == "stop":
            run.stop()
            await asyncio.sleep(20)

    run = observe(source(), store=store, prompt="Go")
    told: list[Event] = []
    with pytest.raises(OSError, match="broken") if way == "error" else nullcontext():
        await collect(run, told)
    log = await logged(store, run.run_id)
    assert seen(log) == seen(told) == (await store.snapshot(run.run_id)).event
    place = cut * 7 % len(log)
    assert seen([seen(log[:place]), *log[place:]]) == seen(told)
    check_observed(log)
    return told


@pytest.mark.parametrize("way", ["end", "error", "stop"])
async def test_a_run_that_is_cut_at_any_message_ends_once_and_with_all_its_calls(
    way: str, store: Store
) -> None:
    for cut in range(0, len(STORY), 1 if isinstance(store, MemoryStore) else 5):
        told = await cut_by(way, cut, store)
        check_observed(told)
        assert isinstance(told[-1], RunStopped if way == "stop" else RunFailed)


def test_who_cannot_say_how_it_ended_has_failed() -> None:
    async def main(lines: list[Payload]) -> RunFailed:
        told = await followed(observe(lines, store=MemoryStore()))
        return one(told, RunFailed)

    assert complete(lambda: main(STORY[:-1])).code == "truncated"
    assert complete(lambda: main([])).code == "empty"
    assert complete(lambda: main([assistant(text("Hi."))])).code == "truncated"


async def test_a_call_without_a_result_says_so() -> None:
    lines = [init(), assistant(use({"path": "a"})), run_result(result="Done.")]
    told = await followed(observe(lines, store=MemoryStore()))
    check_observed(told)
    assert one(told, ToolCallFailed).error == (
        "no result of the call has come: the run is over. It is not known what it has done"
    )


async def test_what_a_failed_run_says_is_told_and_what_the_sdk_raises_is_raised() -> None:
    failed = run_result("error_max_turns", errors=["Reached maximum number of turns (1)"])
    run = observe(raising([init(), failed], ResultError("no", data=failed)), store=MemoryStore())
    told: list[Event] = []
    with pytest.raises(ResultError):
        await collect(run, told)
    message = "Reached maximum number of turns (1)"
    assert told[-1] == RunFailed("error_max_turns", message, run.run_id, Usage(7, 5))
    with pytest.raises(RunFailure) as failure:
        await observe([init(), failed], store=MemoryStore())
    assert failure.value.code == "error_max_turns"
    assert failure.value.result.outcome == "failed"


async def test_an_agent_that_is_woken_by_its_background_ends_with_what_it_says_last() -> None:
    lines = [
        init(),
        assistant(text("Started."), id_="msg_1"),
        run_result(result="Started."),
        assistant(text("It is done."), id_="msg_2"),
        run_result(result="It is done."),
    ]
    told = await followed(observe(lines, store=MemoryStore()))
    check_observed(told)
    assert one(told, RunCompleted).result == "It is done."


async def test_a_sub_agent_that_is_cut_off_does_not_undo_the_result() -> None:
    started = user([tool_result("started", "task_1")], tool_use_result={"isAsync": True})
    cut = streamed(message_start("msg_2"), tool_use(0, id_="sub_1"), parent="task_1")
    lines = [init(), assistant(use({"a": 1}, "task_1")), started, run_result(result="Ok."), *cut]
    told = await followed(observe(lines, store=MemoryStore()))
    check_observed(told)
    assert one(told, RunCompleted).result == "Ok."
    assert one(told, ToolArgsInvalid).call_id == "sub_1"


# Who wants no more of it


@pytest.mark.parametrize("way", ["stop", "store", "thread", "break", "cancel"])
async def test_a_run_can_be_stopped_and_its_source_is_closed(way: str, store: Store) -> None:
    async def following(run: ObservedRun, store: Store) -> None:
        async for event in run:
            if isinstance(event, ToolCallStarted):
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

    claude = stuck_after(STORY[:8])
    run = observed(claude, store)
    task = asyncio.create_task(following(run, store))
    if way == "cancel":
        while not only(await _so_far(store, run.run_id), ToolCallStarted):
            await asyncio.sleep(0.005)
        task.cancel()
    await asyncio.wait([task])
    del task
    await claude.is_closed.wait()
    await run.aclose()
    log = await logged(store, run.run_id)
    check_observed(log)
    expected = "enough" if way in ("stop", "store", "thread") else "the run is not followed"
    assert one(log, RunStopped).reason.startswith(expected)
    assert (await store.info(run.run_id)).owner is None


async def _so_far(store: Store, run_id: str) -> list[Event]:
    try:
        return await logged(store, run_id)
    except UsageError:  # it has not begun
        return []


async def test_a_run_that_is_stopped_before_it_begins_asks_nothing_of_its_agent() -> None:
    claude = playing(STORY)
    run = observed(claude, MemoryStore())
    run.stop("changed my mind")
    assert steps(await followed(run)) == ["run_started", "run_stopped"]
    assert claude.given == 0


async def test_to_close_a_run_that_has_not_begun_leaves_no_trace() -> None:
    store = MemoryStore()
    async with observed(playing(STORY), store):
        pass
    assert await store.runs() == []


async def test_a_client_is_interrupted_and_can_be_asked_again() -> None:
    first = [init(), assistant(use({"path": "a"}))]
    ending = [
        user([tool_result("interrupted", is_error=True)]),
        run_result("error_during_execution"),
    ]
    second = [init(), assistant(text("Again."), id_="msg_2"), run_result(result="Again.")]
    store = MemoryStore()
    claude = stuck_after(first, *ending, *second)
    async with ClaudeSDKClient(transport=claude) as client:
        await client.query("one")
        run = observe(client, store=store, prompt="one", session_id="talk")
        told: list[Event] = []
        async for event in run:
            told.append(event)
            if isinstance(event, ToolCallStarted):
                run.stop("enough")
        assert claude.was_interrupted.is_set()
        assert one(told, ToolCallFailed).error == "interrupted"
        assert told[-1] == RunStopped("enough", run.run_id, Usage(7, 1))
        await client.query("two")
        again = observe(client, store=store, prompt="two", session_id="talk")
        assert (await again).text == "Again."
        assert not claude.is_closed.is_set()
    runs = await store.runs(session_id="talk")
    assert {info.run_id for info in runs} == {run.run_id, again.run_id}


async def test_who_cannot_be_interrupted_is_left_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("argstream.agent.observer._GRACE", 0.05)

    class Client:
        async def receive_response(self) -> AsyncIterator[Payload]:
            yield init()
            run.stop()
            try:
                await asyncio.sleep(20)
            finally:
                raise OSError("it does not like to be left")

        async def interrupt(self) -> None:
            raise OSError("nobody is there")

    run = observe(Client(), store=MemoryStore())
    assert steps(await followed(run)) == ["run_started", "run_stopped"]


def test_a_run_has_one_follower_and_can_be_stopped_when_it_is_over() -> None:
    run = observe(STORY, store=MemoryStore())
    assert run.wait().outcome == "completed"
    run.stop("too late")
    assert run.result.outcome == "completed"
    with pytest.raises(UsageError, match="already"):
        run.wait()


# What cannot be observed


async def test_a_model_without_an_agent_is_refused_and_agent_is_named() -> None:
    store = MemoryStore()
    run = observe(anthropic_call('{"a": 1}'), store=store)
    with pytest.raises(UsageError, match="Agent"):
        await followed(run)
    log = await logged(store, run.run_id)
    assert steps(log) == ["run_started", "run_failed"]
    with pytest.raises(UsageError, match="Agent"):
        observe([], store=MemoryStore(), protocol="openai-chat").wait()


async def test_what_nobody_can_read_fails_the_run() -> None:
    with pytest.raises(UsageError, match="cannot read a int"):
        await followed(observe(5, store=MemoryStore()))


# The log


class Watched(MemoryStore):
    """A store that tells what it has, that can be held up, and that can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Event] = []
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.is_full = False

    async def append(self, claim: Claim, records: Sequence[Record]) -> None:
        await asyncio.sleep(0.002)
        await self.is_open.wait()
        if self.is_full:
            raise StoreFailure("the disk is full")
        await super().append(claim, records)
        self.written += [record.event for record in records]


async def test_nothing_is_told_before_it_is_in_the_log() -> None:
    store = Watched()
    count = 0
    async for event in observed(playing(STORY), store):
        if is_durable(event) and merged([event]) and not isinstance(event, RunStarted):
            count += 1
            assert event in store.written
    assert count == 20


def saying(count: int) -> list[Payload]:
    """Claude Code writes a long text."""
    start = block_start(0, "text", text="")
    pieces = [block_delta(0, "text_delta", text="x") for _ in range(count)]
    ending = [block_stop(0), *message_end("end_turn")]
    lines = streamed(message_start(), start, *pieces, *ending)
    return [init(), *lines, run_result(result="")]


async def test_deltas_that_arrive_while_the_store_writes_are_joined() -> None:
    store = Watched()
    told = await followed(observe(saying(500), store=store))
    assert only(told, TextDelta) == only(store.written, TextDelta)
    written = only(store.written, TextDelta)
    assert len(written) < 10
    assert "".join(event.text for event in written) == "x" * 500


@pytest.mark.parametrize("slow", ["store", "follower"])
async def test_an_agent_that_says_much_waits_for_who_is_slow(slow: str) -> None:
    claude = playing(saying(20_000))
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
    assert 200 < given < 5_000


async def test_who_observes_a_run_has_it_as_long_as_it_goes_on() -> None:
    store = MemoryStore()
    observer = Observer(store=store, claim_seconds=0.1)
    run = observer.observe(query(prompt="Go", transport=stuck_after(STORY[:8])))
    await anext(run)
    await asyncio.sleep(0.4)
    with pytest.raises(RunTaken):
        await store.claim(run.run_id, "somebody else", 10)
    await run.aclose()
    info = await store.info(run.run_id)
    assert (info.status, info.owner) == ("stopped", None)


async def test_who_loses_a_run_to_somebody_else_reads_no_more_and_is_told() -> None:
    ahead = 0.0
    store = MemoryStore(clock=lambda: time.time() + ahead)
    claude = stuck_after(STORY[:8])
    observer = Observer(store=store, claim_seconds=0.1)
    run = observer.observe(query(prompt="Go", transport=claude))
    await anext(run)
    ahead = 100.0
    await store.claim(run.run_id, "somebody else", 10)
    with pytest.raises(RunTaken, match="somebody else"):
        await followed(run)
    assert claude.is_closed.is_set()
    assert (await store.info(run.run_id)).status == "running"


async def test_a_store_that_fails_ends_the_reading_and_is_raised() -> None:
    store, claude = Watched(), stuck_after(STORY[:8])
    run = observed(claude, store)
    await anext(run)
    store.is_full = True
    with pytest.raises(StoreFailure, match="full"):
        await followed(run)
    assert claude.is_closed.is_set()


async def test_a_store_that_cannot_begin_a_run_has_none_of_it() -> None:
    store, claude = MemoryStore(), playing(STORY)
    await store.aclose()
    with pytest.raises(StoreFailure, match="closed"):
        await followed(observed(claude, store))
    assert claude.given == 0


def test_a_run_whose_event_loop_ends_is_ended_in_the_log() -> None:
    store = MemoryStore()

    async def main() -> str:
        run = observed(stuck_after(STORY[:8]), store)
        await anext(run)
        kept.append(run)
        return run.run_id

    kept: list[ObservedRun] = []
    run_id = asyncio.run(main())
    log = complete(lambda: logged(store, run_id))
    check_observed(log)
    assert one(log, RunFailed).code == "interrupted"


def test_an_end_that_cannot_be_written_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    store = Watched()

    async def main() -> str:
        run = observed(stuck_after(STORY[:8]), store)
        async for event in run:
            if isinstance(event, ToolCallStarted):
                store.is_full = True
                kept.append(run)
                kept.append(aiter(run))
                return run.run_id
        raise AssertionError

    kept: list[object] = []
    run_id = asyncio.run(main())
    assert f"the end of the run {run_id} is not in its log" in caplog.text
    assert complete(lambda: store.info(run_id)).status == "running"


# After a crash


async def test_a_run_that_was_cut_off_by_a_crash_is_ended_by_who_stops_it() -> None:
    whole = Watched()
    run = observed(playing(STORY), whole)
    await followed(run)
    records = await whole.read(run.run_id)
    for end in range(1, len(records)):
        store = MemoryStore()
        claim = await store.begin(records[:end], "somebody who died", 10)
        observer = Observer(store=store)
        assert await observer.stop_async(run.run_id, "gone") == []  # he may live
        await store.release(claim)
        last = await observer.stop_async(run.run_id, "gone")
        assert last[-1] == RunStopped("gone", run.run_id)
        log = await logged(store, run.run_id)
        check_observed(log)
        assert log[end:] == last


async def test_the_run_of_an_agent_is_not_ended_as_if_it_were_observed() -> None:
    store = MemoryStore()
    agent, _ = mailing(send(), store=store)
    paused = await agent.run_async("Go")
    with pytest.raises(UsageError, match="Agent"):
        await Observer(store=store).stop_async(paused.run_id)
    assert (await store.info(paused.run_id)).status == "paused"

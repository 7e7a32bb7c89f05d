"""The loop: a model is asked, its calls are run, it is told the results, until it is done."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from argstream.agent import Agent, AgentRun, Conversation, tool
from argstream.clients import CallTool, ModelRequest, Reply, ScriptedModel, Think
from argstream.errors import ProviderFailure, RunFailure, UsageError
from argstream.events import (
    Event,
    RunCompleted,
    RunFailed,
    RunStarted,
    RunStopped,
    StreamFailed,
    TextDelta,
    ToolArgsCompleted,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnCompleted,
)
from argstream.history import CallPart, Message, TextPart
from tests.agent.following import Effects, add, complete, events_of, one, only, steps
from tests.agent.histories import results_of
from tests.providers import Payload, anthropic_call, chunk, entry, message_end, message_start


def texts(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


# A run


def test_a_call_is_run_and_the_model_is_told_its_result() -> None:
    model = ScriptedModel(CallTool("add", {"a": 1, "b": 2}), "It is 3.")
    events = events_of(Agent(model, [add]), "What is 1 + 2?")
    assert steps(events) == [
        "run_started",
        "tool_call_started",
        "tool_args_completed",
        "turn_completed",
        "tool_execution_started",
        "tool_call_completed",
        "turn_completed",
        "run_completed",
    ]
    assert one(events, ToolCallCompleted).result == 3
    assert one(events, RunCompleted).result == "It is 3."
    first, second = model.requests
    assert [texts(message) for message in first.messages] == ["What is 1 + 2?"]
    assert [part.result for part in results_of(second.messages[-1])] == [3]


def test_deltas_come_while_the_model_writes() -> None:
    async def first_piece() -> Event:
        model = ScriptedModel(Reply("Hello", piece_size=1), delay=0.02)
        async with Agent(model).run_stream("Hi") as run:
            async for event in run:
                if isinstance(event, TextDelta):
                    return event
        raise AssertionError

    assert complete(first_piece) == TextDelta("H", 0)


def test_parallel_calls_run_at_once_and_their_results_go_back_in_order() -> None:
    both_run = asyncio.Event()
    running: list[str] = []

    async def wait(name: str) -> str:
        running.append(name)
        if len(running) == 2:
            both_run.set()
        await asyncio.wait_for(both_run.wait(), 5)
        await asyncio.sleep(0.05 if name == "slow" else 0)
        return name

    calls = Reply(CallTool("wait", {"name": "slow"}), CallTool("wait", {"name": "quick"}))
    model = ScriptedModel(calls, "Done.")
    events = events_of(Agent(model, [wait]))
    assert [event.result for event in only(events, ToolCallCompleted)] == ["quick", "slow"]
    assert [part.result for part in results_of(model.requests[1].messages[-1])] == ["slow", "quick"]


def test_a_result_has_the_text_the_calls_what_they_cost_and_why_it_stopped() -> None:
    model = ScriptedModel(Reply("I add.", CallTool("add", {"a": 1, "b": 2})), "It is 3.")
    result = Agent(model, [add]).run("What is 1 + 2?")
    assert result.text == "It is 3."
    assert result.tools[0].tool_name == "add"
    assert result.tools[0].tool_args == {"a": 1, "b": 2}
    assert result.tools[0].result == 3
    assert result.stop_reason == "end_turn"
    assert result.usage.input_tokens == 100 + 200
    assert result.outcome == "completed"


@pytest.mark.parametrize("face", ["run", "run_stream", "run_async", "await", "for"])
def test_all_faces_give_the_same(face: str) -> None:
    agent = Agent(ScriptedModel(CallTool("add", {"a": 1, "b": 2}), "3"), [add])
    match face:
        case "run":
            text: Any = agent.run("Go").text
        case "run_async":
            text = complete(lambda: agent.run_async("Go")).text
        case "await":
            text = complete(lambda: agent.run_stream("Go")).text
        case "run_stream":
            text = one(events_of(agent), RunCompleted).result
        case _:
            text = one(agent.run("Go", stream=True), RunCompleted).result
    assert text == "3"


def test_a_hook_is_given_every_event_before_whoever_follows() -> None:
    seen: list[Event] = []
    told: list[Event] = []

    async def note(event: Event) -> None:
        seen.append(event)

    agent = Agent(ScriptedModel("Hello", "Hello"), on_event=note)
    for event in agent.run("Go", stream=True):
        assert seen[-1] is event
        told.append(event)
    assert told == seen
    told = events_of(agent)
    assert told == seen[len(seen) - len(told) :]


def test_a_conversation_continues() -> None:
    model = ScriptedModel(CallTool("add", {"a": 1, "b": 2}), "3", "You asked for a sum.")
    agent, conversation = Agent(model, [add]), Conversation()
    agent.run("What is 1 + 2?", conversation)
    events = events_of(agent, "What did I ask?", conversation)
    assert len(model.requests[2].messages) == 5
    assert len(one(events, RunStarted).history) == 4
    assert [message.role for message in conversation.messages] == [
        *("user", "assistant", "user", "assistant"),
        *("user", "assistant"),
    ]


def test_a_conversation_can_be_written_down() -> None:
    model = ScriptedModel(Reply(Think("Hm"), CallTool("add", {"a": 1, "b": 2})), "3", "Yes.")
    agent, conversation = Agent(model, [add]), Conversation()
    agent.run("Go", conversation)
    again = Conversation.from_json(conversation.to_json())
    assert (again.id, again.messages) == (conversation.id, conversation.messages)
    assert agent.run("Sure?", again).text == "Yes."


def test_ids_that_a_provider_repeats_in_every_turn_are_told_apart() -> None:
    call = CallTool("add", {"a": 1, "b": 2}, call_id="functions.add:0")
    model = ScriptedModel(call, call, "Done.")
    events = events_of(Agent(model, [add]))
    ids = [event.call_id for event in only(events, ToolCallStarted)]
    keys = [event.idempotency_key for event in only(events, ToolExecutionStarted)]
    assert len(set(ids)) == len(set(keys)) == 2


# What must not run


def test_a_call_that_was_cut_is_not_run_and_what_was_closed_before_is() -> None:
    effects = Effects()
    cut = Reply(
        CallTool("send", {"to": "ada"}),
        CallTool("write", '{"path": "a.txt", "content": "abc'),
        stop="max_tokens",
    )
    model = ScriptedModel(cut, "I give up.")
    events = events_of(Agent(model, [effects.write, effects.send]))
    assert effects.seen == [("send", {"to": "ada"})]
    assert one(events, ToolArgsInvalid).verdict == "truncated"
    sent, written = results_of(model.requests[1].messages[-1])
    assert (sent.result, sent.failed) == ("sent to ada", False)
    assert written.failed
    assert "truncated" in written.result
    (_, call) = [
        part for part in model.requests[1].messages[-2].parts if isinstance(part, CallPart)
    ]
    assert call.arguments == {"INVALID_JSON": '{"path": "a.txt", "content": "abc'}


def test_a_malformed_call_is_not_run_and_the_model_may_try_again() -> None:
    effects = Effects()
    model = ScriptedModel(
        CallTool("write", '{"path": a.txt}'), CallTool("write", {"path": "a.txt"}), "Done."
    )
    events = events_of(Agent(model, [effects.write]))
    assert [event.type for event in events if "failed" in event.type] == ["tool_call_failed"]
    assert effects.seen == [("write", {"path": "a.txt", "content": ""})]


def test_arguments_that_do_not_fit_are_refused_while_they_are_written() -> None:
    effects = Effects()
    model = ScriptedModel(CallTool("write", {"path": 7, "content": "x" * 100}), "Oh.")
    events = events_of(Agent(model, [effects.write]))
    invalid = one(events, ToolArgsInvalid)
    assert (invalid.verdict, len(invalid.raw) < 20) == ("rejected", True)
    assert steps(events)[2:4] == ["tool_args_invalid", "tool_call_failed"]
    assert effects.seen == []


def test_a_tool_that_does_not_exist_is_refused_by_name() -> None:
    model = ScriptedModel(CallTool("ad", {"a": 1, "b": 2}), "Oh.")
    events = events_of(Agent(model, [add]))
    assert "did you mean 'add'" in one(events, ToolCallFailed).error


def test_a_call_in_a_turn_without_a_stop_reason_is_not_run() -> None:
    effects = Effects()
    turns = [anthropic_call('{"path": "a"}')[:-2], [message_start(), *message_end("end_turn")]]

    async def model(request: ModelRequest) -> AsyncIterator[object]:  # noqa: ARG001 - a script
        async def payloads() -> AsyncIterator[object]:
            for payload in turns.pop(0):
                yield payload

        return payloads()

    events = events_of(Agent(model, [effects.write]))
    assert effects.seen == []
    assert one(events, RunFailed).code == "truncated"
    assert only(events, ToolArgsCompleted)
    assert len(only(events, ToolCallFailed)) == 1


def test_nothing_of_a_refused_turn_is_run_and_the_conversation_is_as_it_was() -> None:
    effects, conversation = Effects(), Conversation()
    model = ScriptedModel(Reply("No.", CallTool("send", {"to": "ada"}), stop="refusal"))
    events = events_of(Agent(model, [effects.send]), "Bad", conversation)
    assert effects.seen == []
    assert one(events, RunCompleted).stop_reason == "refusal"
    assert len(only(events, ToolCallFailed)) == 1
    assert conversation.messages == ()


def test_a_paused_turn_is_gone_on_with() -> None:
    model = ScriptedModel(Reply("I look", stop="pause_turn"), "Found.")
    events = events_of(Agent(model))
    assert len(only(events, TurnCompleted)) == 2
    assert one(events, RunCompleted).result == "Found."
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant"]


# Ends


def test_the_number_of_turns_is_limited_and_the_conversation_can_go_on() -> None:
    model = ScriptedModel(CallTool("add", {"a": 1, "b": 2}), repeat=True)
    conversation = Conversation()
    events = events_of(Agent(model, [add], max_turns=3), "Go", conversation)
    assert len(only(events, TurnCompleted)) == 3
    assert one(events, RunFailed).code == "max_turns"
    assert len(conversation.messages) == 7
    assert len(results_of(conversation.messages[-1])) == 1


def test_a_run_that_fails_raises_with_what_had_come() -> None:
    model = ScriptedModel(
        CallTool("add", {"a": 1, "b": 2}), ProviderFailure("overloaded", "Too much", status=529)
    )
    with pytest.raises(RunFailure, match=r"Too much \(overloaded\)") as caught:
        Agent(model, [add]).run("Go")
    assert caught.value.result.tools[0].result == 3


def test_an_error_of_a_model_of_ones_own_is_raised_after_the_run_has_ended() -> None:
    def model(request: ModelRequest) -> AsyncIterator[object]:
        raise KeyError(request.instructions)

    events: list[Event] = []
    agent = Agent(model, on_event=events.append)
    with pytest.raises(KeyError):
        agent.run("Go")
    assert one(events, StreamFailed).code == "model_failed"
    assert isinstance(events[-1], RunFailed)


def test_an_error_of_a_tool_is_told_to_the_model() -> None:
    def broken() -> None:
        raise ValueError("no such thing")

    model = ScriptedModel(CallTool("broken"), "Oh.")
    events = events_of(Agent(model, [broken]))
    assert one(events, ToolCallFailed).error == "ValueError: no such thing"
    assert results_of(model.requests[1].messages[-1])[0].failed


@pytest.mark.parametrize("after", [TextDelta, ToolCallStarted, ToolExecutionStarted])
def test_a_run_can_be_stopped_from_outside_at_any_time(after: type[Event]) -> None:
    was_cancelled: list[bool] = []

    async def sleep() -> None:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            was_cancelled.append(True)
            raise

    async def stopped() -> list[Event]:
        conversation = Conversation()
        model = ScriptedModel(Reply("I sleep.", CallTool("sleep")), "Never", delay=0.01)
        run = Agent(model, [sleep]).run_stream("Go", conversation)
        events = []
        async for event in run:
            events.append(event)
            if isinstance(event, after):
                await asyncio.sleep(0.05 * (after is ToolExecutionStarted))  # it has begun
                run.stop("enough")
        assert conversation.run_id is None
        return events

    events = complete(stopped)
    assert one(events, RunStopped).reason == "enough"
    assert isinstance(events[-1], RunStopped)
    started = only(events, ToolCallStarted)
    assert len(started) == len(only(events, ToolCallFailed))
    assert was_cancelled == [True] * (after is ToolExecutionStarted)


def test_to_leave_the_loop_stops_the_run_and_frees_the_conversation() -> None:
    was_cancelled: list[bool] = []

    async def sleep() -> None:
        try:
            await asyncio.sleep(20)
        finally:
            was_cancelled.append(True)

    conversation = Conversation()
    agent = Agent(ScriptedModel(CallTool("sleep"), "Never", "Again"), [sleep])
    for event in agent.run("Go", conversation, stream=True):
        if isinstance(event, ToolExecutionStarted):
            break
    assert was_cancelled == [True]
    assert conversation.run_id is None
    assert len(results_of(conversation.messages[-1])) == 1


@pytest.mark.parametrize("way", ["break", "raise", "cancel"])
def test_to_leave_an_async_loop_stops_the_run_too(way: str) -> None:
    ticks: list[int] = []

    async def tick() -> None:
        for number in range(100):
            ticks.append(number)
            await asyncio.sleep(0.01)

    async def following(agent: Agent) -> None:
        async for event in agent.run_stream("Go"):
            if isinstance(event, ToolExecutionStarted):
                await asyncio.sleep(0.03)
                if way == "raise":
                    raise ValueError("of the one who follows")
                if way == "cancel":
                    await asyncio.sleep(20)
                break

    async def leaving() -> int:
        heard: list[Event] = []
        model = ScriptedModel(CallTool("tick"), "Never")
        task = asyncio.create_task(following(Agent(model, [tick], on_event=heard.append)))
        await asyncio.wait([task], timeout=0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del task
        await asyncio.sleep(0.02)
        before = len(ticks)
        await asyncio.sleep(0.05)
        assert isinstance(heard[-1], RunStopped)
        return len(ticks) - before

    assert complete(leaving) == 0


def test_a_program_ends_although_somebody_holds_a_run_that_was_left() -> None:
    code = """
from argstream import Agent, ScriptedModel
from argstream.clients import CallTool
import time

def sleep() -> None:
    time.sleep(30)

events = Agent(ScriptedModel(CallTool("sleep")), [sleep]).run("Go", stream=True)
print(next(events).type)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert (done.stdout, done.stderr) == ("run_started\n", "")


def test_a_run_can_be_stopped_before_it_begins_and_from_a_callback() -> None:
    async def before() -> list[Event]:
        run = Agent(ScriptedModel("Hello")).run_stream("Go")
        run.stop("changed my mind")
        return [event async for event in run]

    async def from_a_callback() -> list[Event]:
        run = Agent(ScriptedModel(Reply("Hello, " * 100), delay=0.01)).run_stream("Go")
        asyncio.get_running_loop().call_later(0.05, run.stop, "by a signal")
        return [event async for event in run]

    assert one(complete(before), RunStopped).reason == "changed my mind"
    assert one(complete(from_a_callback), RunStopped).reason == "by a signal"


def test_what_has_come_when_a_run_is_stopped_is_not_acted_on() -> None:
    effects = Effects()

    async def stopping() -> list[Event]:
        gate = asyncio.get_running_loop().create_future()

        async def model() -> AsyncIterator[object]:
            await gate
            for payload in anthropic_call('{"path": "a"}'):
                yield payload

        run = Agent(model(), [effects.write]).run_stream("Go")
        events = []

        def at_once() -> None:
            gate.set_result(None)
            run.stop()

        asyncio.get_running_loop().call_later(0.02, at_once)
        async for event in run:
            events.append(event)  # noqa: PERF401 - as it comes
        return events

    events = complete(stopping)
    assert isinstance(events[-1], RunStopped)
    assert not only(events, ToolExecutionStarted)
    assert effects.seen == []


def test_a_tool_may_close_its_own_run() -> None:
    runs: list[AgentRun] = []

    async def suicide() -> None:
        await runs[0].aclose()
        await asyncio.sleep(20)

    async def following() -> list[Event]:
        runs.append(Agent(ScriptedModel(CallTool("suicide")), [suicide]).run_stream("Go"))
        return [event async for event in runs[0]]

    assert isinstance(complete(following)[-1], RunStopped)


def test_two_runs_that_are_made_at_once_do_not_lose_a_message() -> None:
    conversation = Conversation()
    agent = Agent(ScriptedModel("one", "two"))
    first, second = (agent.run_stream(prompt, conversation) for prompt in ("a", "b"))
    assert (first.wait().text, second.wait().text) == ("one", "two")
    assert [texts(message) for message in conversation.messages] == ["a", "one", "b", "two"]


def test_something_cancelled_in_a_model_ends_its_run_as_any_failure() -> None:
    async def model(request: ModelRequest) -> AsyncIterator[object]:  # noqa: ARG001 - a script
        raise asyncio.CancelledError

    conversation = Conversation()
    events = events_of(Agent(model), "Go", conversation)
    assert one(events, RunFailed).code == "model_failed"
    assert conversation.run_id is None


def test_who_is_cut_off_by_the_end_of_its_event_loop_leaves_a_conversation_that_goes_on() -> None:
    async def sleep() -> None:
        await asyncio.sleep(20)

    conversation = Conversation()
    agent = Agent(ScriptedModel(CallTool("sleep"), "Again"), [sleep])
    runs: list[AgentRun] = []

    async def lost() -> None:
        runs.append(agent.run_stream("Go", conversation))
        async for event in runs[0]:
            if isinstance(event, ToolExecutionStarted):
                return

    asyncio.run(lost())
    assert conversation.run_id is None
    assert agent.run("Again", conversation).text == "Again"


def test_a_call_that_was_being_written_when_its_event_loop_ended_is_aborted() -> None:
    events: list[Event] = []
    model = ScriptedModel(CallTool("add", {"a": 1, "b": 2}), delay=0.01)
    run = Agent(model, [add], on_event=events.append).run_stream("Go")

    async def lost() -> None:
        async for event in run:
            if isinstance(event, ToolCallStarted):
                asyncio.get_running_loop().stop()
                await asyncio.sleep(20)

    with pytest.raises(RuntimeError, match="Event loop stopped"):
        asyncio.run(lost())
    assert one(events, ToolArgsInvalid).verdict == "aborted"
    assert run.result.tools[0].verdict == "aborted"


def test_a_failure_says_whether_it_may_pass_and_why_it_came() -> None:
    failure = ProviderFailure("overloaded", "Too much", retryable=True, status=529)
    with pytest.raises(RunFailure) as caught:
        Agent(ScriptedModel(failure)).run("Go")
    assert caught.value.retryable
    assert caught.value.__cause__ is failure


def test_output_waits_for_a_slow_reader() -> None:
    said = 0

    async def chatter() -> AsyncIterator[str]:
        nonlocal said
        for _ in range(10_000):
            said += 1
            yield "word "

    async def slow() -> None:
        async with Agent(ScriptedModel(CallTool("chatter"), "Done."), [chatter]).run_stream(
            "Go"
        ) as run:
            async for event in run:
                if isinstance(event, ToolOutputDelta):
                    break
            await asyncio.sleep(0.1)
            assert said < 1000

    complete(slow)


def test_a_name_that_comes_in_pieces_calls_the_tool_of_the_whole_name() -> None:
    called: list[str] = []

    def read() -> None:
        called.append("read")

    def read_all() -> None:
        called.append("read_all")

    def start(name: str) -> Payload:
        call = {"index": 0, "id": "c", "type": "function", "function": {"name": name}}
        return chunk(tool_calls=[call])

    turns = [
        [start("read"), start("_all"), chunk(tool_calls=[entry("{}")]), chunk(finish="tool_calls")],
        [chunk(content="Done."), chunk(finish="stop")],
    ]
    events = events_of(Agent(lambda request: turns.pop(0), [read, read_all]))  # noqa: ARG005
    assert called == ["read_all"]
    assert one(events, ToolCallCompleted).name == "read_all"


def test_a_conversation_has_one_run_at_a_time() -> None:
    async def two() -> None:
        conversation = Conversation()
        agent = Agent(ScriptedModel("A", "B", delay=0.01))
        async with agent.run_stream("Go", conversation) as run:
            await anext(run)
            with pytest.raises(UsageError, match="has a run that is not over"):
                await agent.run_async("Go", conversation)

    complete(two)


def test_a_slow_reader_holds_the_model_back_instead_of_memory() -> None:
    written = 0

    async def model(request: ModelRequest) -> AsyncIterator[object]:  # noqa: ARG001 - a script
        async def payloads() -> AsyncIterator[object]:
            nonlocal written
            yield message_start()
            for _ in range(10_000):
                written += 1
                delta = {"type": "text_delta", "text": "x"}
                yield {"type": "content_block_delta", "index": 0, "delta": delta}
            for payload in message_end("end_turn"):
                yield payload

        return payloads()

    async def slow() -> None:
        async with Agent(model).run_stream("Go") as run:
            await anext(run)
            await anext(run)
            await asyncio.sleep(0.1)

    complete(slow)
    assert 0 < written < 1000


# Wrong use


@pytest.mark.parametrize("prompt", ["", "  ", None, 3])
def test_a_prompt_is_a_text(prompt: Any) -> None:
    with pytest.raises(UsageError, match="a prompt is a text"):
        Agent(ScriptedModel("Hi")).run(prompt)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools of the name 'add'"):
        Agent(ScriptedModel("Hi"), [add, add])


def test_what_is_no_list_of_tools_is_refused() -> None:
    with pytest.raises(UsageError, match="tools is a list of functions"):
        Agent(ScriptedModel("Hi"), "add")


def test_an_agent_is_no_model() -> None:
    message = {"type": "assistant", "message": {"id": "m", "content": [], "model": "claude"}}
    hello = {"type": "system", "subtype": "init", "session_id": "s", "tools": []}

    def model(request: ModelRequest) -> list[object]:  # noqa: ARG001 - a script
        result = {"type": "result", "subtype": "success", "result": "Done.", "session_id": "s"}
        return [hello, message, result]

    with pytest.raises(UsageError, match="runs its tools itself"):
        Agent(model).run("Go")


def test_a_model_that_fails_after_its_turn_has_said_all() -> None:
    async def model() -> AsyncIterator[object]:
        for payload in [message_start(), *message_end("end_turn")]:
            yield payload
        raise ConnectionError("reset")

    assert Agent(model()).run("Go").outcome == "completed"


def test_the_sync_face_does_not_wait_for_a_thread_that_a_tool_left_behind() -> None:
    @tool(timeout=0.1)
    async def slow() -> None:
        await asyncio.to_thread(time.sleep, 3)

    start = time.perf_counter()
    Agent(ScriptedModel(CallTool("slow"), "Oh."), [slow]).run("Go")
    assert time.perf_counter() - start < 2


def test_a_run_that_somebody_follows_cannot_be_waited_for_elsewhere() -> None:
    async def following() -> None:
        async with Agent(ScriptedModel(Reply("Hello"), delay=0.01)).run_stream("Go") as run:
            await anext(run)
            with pytest.raises(UsageError, match="follows this run already"):
                run.wait()

    complete(following)

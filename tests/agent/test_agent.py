"""The loop: a model is asked, its calls are run, it is told the results, until it is done."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from argstream.agent import Agent, Conversation
from argstream.clients import CallTool, ModelRequest, Reply, ScriptedModel, Think
from argstream.errors import ProviderFailure, RunFailure, UsageError
from argstream.events import (
    Event,
    RunCompleted,
    RunFailed,
    RunStarted,
    StreamFailed,
    TextDelta,
    ToolArgsCompleted,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    TurnCompleted,
)
from argstream.history import CallPart, Message, TextPart
from argstream.log import Record
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
        "turn_started",
        "tool_call_started",
        "tool_args_completed",
        "turn_completed",
        "tool_execution_started",
        "tool_call_completed",
        "turn_started",
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


def test_hook_is_called_with_every_event_before_the_consumer_gets_it() -> None:
    seen: list[Event] = []
    told: list[Event] = []

    async def note(record: Record) -> None:
        seen.append(record.event)

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
    conversation.user = "ada"
    again = Conversation.from_json(conversation.to_json())
    assert (again.id, again.messages) == (conversation.id, conversation.messages)
    assert again.user == "ada"
    assert agent.run("Sure?", again).text == "Yes."


def test_a_conversation_that_was_written_down_without_a_user_is_nobodys_in_particular() -> None:
    older = Conversation.from_json('{"id": "talk", "messages": []}')
    assert (older.id, older.user) == ("talk", "")


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
    assert steps(events)[3:5] == ["tool_args_invalid", "tool_call_failed"]
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
    agent = Agent(model, on_event=lambda record: events.append(record.event))
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


def test_a_failure_says_whether_it_may_pass_and_why_it_came() -> None:
    failure = ProviderFailure("overloaded", "Too much", retryable=True, status=529)
    with pytest.raises(RunFailure) as caught:
        Agent(ScriptedModel(failure)).run("Go")
    assert caught.value.retryable
    assert caught.value.__cause__ is failure


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
    events = events_of(Agent(lambda request: turns.pop(0), [read, read_all]))  # noqa: ARG005 - a script
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

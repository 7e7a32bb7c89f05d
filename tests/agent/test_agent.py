"""The loop: a model is asked, its calls are run, it is told the results, until it is done."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest

from argstream.agent import Agent, Conversation, Streamed
from argstream.agent.observer import observe
from argstream.errors import ProviderFailure, RunFailure, UsageError
from argstream.events import (
    Event,
    RunCompleted,
    RunFailed,
    RunStarted,
    RunStopped,
    StreamFailed,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    TurnCompleted,
    Usage,
    from_json,
)
from argstream.history import CallPart, Message, TextPart
from argstream.models import CallTool, ModelRequest, Reply, ScriptedModel, Think
from argstream.policy import Policy, Rule
from argstream.runs import MemoryStore, Record, RunView
from tests.agent.following import (
    Effects,
    Slow,
    add,
    complete,
    events_of,
    one,
    only,
    steps,
    stopped_at,
)
from tests.agent.histories import results_of
from tests.agent.ordering import check_order
from tests.claude_agent import init, streamed
from tests.provider_streams import Payload, anthropic_call, chunk, entry, message_end, message_start

pytestmark = pytest.mark.anyio


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
        CallTool("add", {"a": 1, "b": 2}), ProviderFailure("overloaded", "Too much", retryable=True)
    )
    with pytest.raises(RunFailure, match=r"Too much \(overloaded\)") as caught:
        Agent(model, [add]).run("Go")
    assert caught.value.result.tools[0].result == 3
    assert caught.value.retryable
    assert isinstance(caught.value.__cause__, ProviderFailure)


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


async def test_a_conversation_has_one_run_at_a_time() -> None:
    conversation = Conversation()
    agent = Agent(ScriptedModel("A", "B", delay=0.01))
    async with agent.run_stream("Go", conversation) as run:
        await anext(run)
        with pytest.raises(UsageError, match="has a run that is not over"):
            await agent.run_async("Go", conversation)


# Wrong use


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


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"prompt": ""}, "a prompt is a text"),
        ({"prompt": "  "}, "a prompt is a text"),
        ({"prompt": None}, "a prompt is a text"),
        ({"conversation": "talk"}, r"a conversation is a Conversation\(\), not str"),
        ({"tools": [add, add]}, "two tools of the name 'add'"),
        ({"tools": "add"}, "tools is a list of functions, not str"),
        ({"tools": 5}, "tools is a list of functions, not int"),
        ({"settings": {}}, "settings is a ModelSettings"),
        ({"max_turns": 0}, "max_turns is a number of 1 or more, not 0"),
        ({"approval_timeout": 0}, "approval_timeout must be more than 0 seconds, not 0"),
        ({"claim_seconds": -1}, "claim_seconds must be more than 0 seconds, not -1"),
        *(
            ({"max_parallel_calls": limit}, "max_parallel_calls must be an integer of at least 1")
            for limit in (0, 1.5, True, "3", None)
        ),
    ],
)
def test_wrong_use_is_told(wrong: dict[str, Any], told: str) -> None:
    prompt, conversation = wrong.pop("prompt", "Go"), wrong.pop("conversation", None)
    with pytest.raises(UsageError, match=told):
        Agent(ScriptedModel("Hi"), **wrong).run(prompt, conversation)


# ``Agent(max_parallel_calls=…)`` bounds how many tools of a run execute at once


def sync_add(a: int, b: int) -> int:
    return a + b


async def async_add(a: int, b: int) -> int:
    return a + b


def adding(name: str, calls: int) -> ScriptedModel:
    return ScriptedModel(Reply(*(CallTool(name, {"a": n, "b": 0}) for n in range(calls))), "Done.")


def most_at_once(events: list[Event]) -> int:
    running = most = 0
    for event in events:
        running += isinstance(event, ToolExecutionStarted)
        running -= isinstance(event, ToolCallCompleted | ToolCallFailed)
        most = max(most, running)
    return most


@pytest.mark.parametrize("add", [sync_add, async_add], ids=["thread", "loop"])
@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_tools_run_at_once_than_the_limit(add: Any, limit: int) -> None:
    model = adding(add.__name__, 5)
    events = events_of(Agent(model, [add], max_parallel_calls=limit))
    check_order(events)
    assert most_at_once(events) <= limit
    started = [event.call_id for event in only(events, ToolExecutionStarted)]
    assert len(started) == 5
    results = results_of(model.requests[1].messages[-1])
    assert [part.result for part in results] == [0, 1, 2, 3, 4], "in the order of the calls"
    assert [part.call_id for part in results] == started, "they start in order"


def test_the_default_limit_is_32() -> None:
    running = most = 0

    async def count(a: int, b: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return a + b

    events = events_of(Agent(adding("count", 100), [count]))
    assert len(only(events, ToolCallCompleted)) == 100
    assert most == 32


async def test_stop_ends_waiting_calls_that_never_started() -> None:
    slow = Slow()
    model = ScriptedModel(Reply(*[CallTool("wait", {})] * 3), "Done.")
    run = Agent(model, [slow.wait], max_parallel_calls=1).run_stream("Go")
    events = []
    async for event in run:
        events.append(event)
        if isinstance(event, ToolExecutionStarted):
            run.stop("enough")
    assert slow.times <= 1
    check_order(events)
    assert len(only(events, ToolExecutionStarted)) == 1
    assert len(only(events, ToolCallFailed)) == 3
    assert isinstance(events[-1], RunStopped)


def test_streamed_tool_without_a_free_place_starts_after_the_turn() -> None:
    async def note(title: str, text: Streamed[str]) -> str:
        return title + await text.read()

    calls = [CallTool("note", {"title": str(n), "text": "some text"}) for n in range(3)]
    events = events_of(Agent(ScriptedModel(Reply(*calls), "Done."), [note], max_parallel_calls=1))
    check_order(events, streamed=("note",))
    assert most_at_once(events) == 1
    results = [event.result for event in only(events, ToolCallCompleted)]
    assert results == ["0some text", "1some text", "2some text"]
    starts = [
        place for place, event in enumerate(events) if isinstance(event, ToolExecutionStarted)
    ]
    end_of_turn = next(
        place for place, event in enumerate(events) if isinstance(event, TurnCompleted)
    )
    assert [place < end_of_turn for place in starts] == [True, False, False]


# The usage of a run includes turns that were denied, stopped or cut off


Model: TypeAlias = Callable[[ModelRequest], AsyncIterator[Payload]]

COUNTS = {"input_tokens": 472, "cache_read_input_tokens": 100, "output_tokens": 1}
REPORTED = Usage(input_tokens=572, output_tokens=1, cache_read_tokens=100)
STARTED = [message_start(usage=COUNTS), *anthropic_call('{"a": 1')[1:3]]


async def cut_off(_: ModelRequest) -> AsyncIterator[Payload]:
    for payload in STARTED:
        yield payload


async def broken(_: ModelRequest) -> AsyncIterator[Payload]:
    for payload in STARTED:
        yield payload
    raise ConnectionResetError


async def stuck(_: ModelRequest) -> AsyncIterator[Payload]:
    for payload in STARTED:
        yield payload
    await asyncio.Event().wait()


def logged_usage(store: MemoryStore, run_id: str) -> Usage:
    """The usage of a run as its log has it."""
    view = RunView()
    for record in complete(lambda: store.read(run_id)):
        view.take(record.event)
    return view.snapshot().usage


def test_usage_of_a_denied_turn_is_part_of_the_run() -> None:
    denying = Policy([Rule("deny", tool="add")], default="allow")
    model = ScriptedModel(CallTool("add", {"a": 1, "b": 2}), "I may not.")
    events = events_of(Agent(model, [add], policy=denying))
    first, second = only(events, TurnCompleted)
    assert (first.stop_reason, first.usage) == ("rejected", Usage(100, 1))
    assert one(events, RunCompleted).usage == first.usage + second.usage


@pytest.mark.parametrize(
    ("model", "error"), [(cut_off, RunFailure), (broken, ConnectionResetError)]
)
def test_failed_run_has_the_usage_of_the_turn_that_was_cut_off(
    model: Model, error: type[Exception]
) -> None:
    store = MemoryStore()
    run = Agent(model, store=store).run_stream("Go")
    with pytest.raises(error):
        run.wait()
    assert run.result.usage == REPORTED
    assert logged_usage(store, run.run_id) == REPORTED


def test_stopped_run_has_the_usage_of_the_turn_that_was_stopped() -> None:
    store = MemoryStore()
    run = Agent(stuck, store=store).run_stream("Go")
    events = stopped_at(run, ToolCallStarted)
    assert one(events, RunStopped).usage == run.result.usage == REPORTED
    assert logged_usage(store, run.run_id) == REPORTED


async def test_observed_run_has_the_usage_of_the_turn_that_was_cut_off() -> None:
    async def lines() -> AsyncIterator[Payload]:
        for line in [init(), *streamed(*STARTED)]:
            yield line

    run = observe(lines(), store=MemoryStore(), prompt="Go")
    events = [event async for event in run]
    assert (one(events, RunFailed).usage, run.result.usage) == (REPORTED, REPORTED)


def test_log_without_usage_at_its_end_has_the_sum_of_its_turns() -> None:
    """As written before the end of a failed or stopped run had its usage."""
    old = b'{"type":"run_stopped","reason":"enough","run_id":"r"}'
    view = RunView()
    turn = TurnCompleted("end_turn", Message(role="assistant", parts=()), Usage(3, 4))
    for event in (RunStarted("r", "Go"), turn, from_json(old)):
        view.take(event)
    assert view.snapshot().usage == Usage(3, 4)

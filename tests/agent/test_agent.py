"""The agent loop: ask the model, run its calls, send the results, until the model is done."""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from argstream import events as ev
from argstream.agent import Agent, Approve, Conversation, Streamed, tool
from argstream.agent.observer import observe
from argstream.errors import ProviderError, RunError, UsageError
from argstream.events import Event, RunCompleted, RunFailed, ToolCallCompleted, TurnCompleted, Usage
from argstream.history import CallPart, Message, TextPart
from argstream.models import CallTool, ModelRequest, Reply, ScriptedModel, Think
from argstream.policy import Policy, Rule
from argstream.runs import MemoryStore, Record
from tests import provider_streams as ps
from tests.agent import following
from tests.agent.following import Effects, add, complete, events_of, one, only, steps
from tests.agent.histories import results_of
from tests.agent.ordering import RunOrder
from tests.claude_agent import assistant, init, run_result, streamed
from tests.runs.records import folded, snapshot_of

pytestmark = pytest.mark.anyio

ADD = CallTool("add", {"a": 1, "b": 2})


def texts(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def test_model_receives_the_result_of_its_call() -> None:
    model = ScriptedModel(ADD, "It is 3.")
    events = events_of(Agent(model, [add]), "What is 1 + 2?")
    assert steps(events) == [
        *("run_started", "turn_started", "tool_call_started", "tool_args_completed"),
        *("turn_completed", "tool_execution_started", "tool_call_completed"),
        *("turn_started", "turn_completed", "run_completed"),
    ]
    assert one(events, ToolCallCompleted).result == 3
    assert one(events, RunCompleted).result == "It is 3."
    first, second = model.requests
    assert [texts(message) for message in first.messages] == ["What is 1 + 2?"]
    assert [part.result for part in results_of(second.messages[-1])] == [3]


def test_sync_and_async_methods_return_the_same_text() -> None:
    replies: list[Any] = [ADD, "3"] * 5
    agent = Agent(ScriptedModel(*replies), [add])
    assert agent.run("Go").text == "3"
    assert complete(lambda: agent.run_async("Go")).text == "3"
    assert complete(lambda: agent.run_stream("Go")).text == "3"
    assert one(events_of(agent), RunCompleted).result == "3"
    assert one(agent.run("Go", stream=True), RunCompleted).result == "3"


def test_hook_is_called_with_every_event_before_the_consumer_gets_it() -> None:
    seen: list[Event] = []
    received: list[Event] = []

    async def note(record: Record) -> None:
        seen.append(record.event)

    agent = Agent(ScriptedModel("Hello", "Hello"), on_event=note)
    for event in agent.run("Go", stream=True):
        assert seen[-1] is event
        received.append(event)
    assert received == seen
    received = events_of(agent)
    assert received == seen[len(seen) - len(received) :]


def test_conversation_continues_also_after_it_was_serialized() -> None:
    think = Reply(Think("Hm"), ADD)
    model = ScriptedModel(think, "3", "You asked for a sum.", "Yes.")
    agent, conversation = Agent(model, [add]), Conversation(user="ada")
    agent.run("What is 1 + 2?", conversation)
    events = events_of(agent, "What did I ask?", conversation)
    assert len(model.requests[2].messages) == 5
    assert len(one(events, ev.RunStarted).history) == 4
    assert [message.role for message in conversation.messages] == ["user", "assistant"] * 3
    again = Conversation.from_json(conversation.to_json())
    assert (again.id, again.messages) == (conversation.id, conversation.messages)
    assert again.user == "ada"
    assert agent.run("Sure?", again).text == "Yes."


async def test_conversation_has_one_run_at_a_time() -> None:
    conversation = Conversation()
    agent = Agent(ScriptedModel("A", "B", delay=0.01))
    async with agent.run_stream("Go", conversation) as run:
        await anext(run)
        with pytest.raises(UsageError, match="already has an active run"):
            await agent.run_async("Go", conversation)


def test_runs_created_together_keep_all_messages_of_their_conversation() -> None:
    conversation = Conversation()
    agent = Agent(ScriptedModel("one", "two"))
    first, second = (agent.run_stream(prompt, conversation) for prompt in ("a", "b"))
    assert (first.wait().text, second.wait().text) == ("one", "two")
    assert [texts(message) for message in conversation.messages] == ["a", "one", "b", "two"]


def test_paused_turn_is_continued() -> None:
    model = ScriptedModel(Reply("I look", stop="paused"), "Found.")
    events = events_of(Agent(model))
    assert len(only(events, TurnCompleted)) == 2
    assert one(events, RunCompleted).result == "Found."
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant"]


def test_truncated_call_is_not_run_and_calls_closed_before_it_are() -> None:
    effects = Effects()
    text = '{"path": "a.txt", "content": "abc'
    cut = Reply(CallTool("send", {"to": "ada"}), CallTool("write", text), stop="length")
    model = ScriptedModel(cut, "I give up.")
    events = events_of(Agent(model, [effects.write, effects.send]))
    assert effects.seen == [("send", {"to": "ada"})]
    assert one(events, ev.ToolArgsInvalid).verdict == "truncated"
    sent, written = results_of(model.requests[1].messages[-1])
    assert (sent.result, sent.failed) == ("sent to ada", False)
    assert written.failed
    assert "truncated" in written.result
    assert written.result.endswith("; its arguments must be written shorter, or in several calls")
    parts = model.requests[1].messages[-2].parts
    (_, call) = [part for part in parts if isinstance(part, CallPart)]
    assert call.arguments == {"INVALID_JSON": text}


def test_invalid_arguments_are_rejected_while_they_are_written() -> None:
    effects = Effects()
    model = ScriptedModel(CallTool("write", {"path": 7, "content": "x" * 100}), "Oh.")
    events = events_of(Agent(model, [effects.write]))
    invalid = one(events, ev.ToolArgsInvalid)
    assert (invalid.verdict, len(invalid.raw) < 20) == ("rejected", True)
    assert steps(events)[3:5] == ["tool_args_invalid", "tool_call_failed"]
    assert effects.seen == []


def test_error_of_a_call_is_sent_to_the_model() -> None:
    def broken() -> None:
        raise ValueError("no such thing")

    calls = Reply(CallTool("ad", {"a": 1, "b": 2}), CallTool("add", "{1"), CallTool("broken"))
    model = ScriptedModel(calls, "Oh.")
    unknown, malformed, failed = only(events_of(Agent(model, [add, broken])), ev.ToolCallFailed)
    assert "Did you mean 'add'" in unknown.error
    assert malformed.error.endswith(", at character 1; arguments must be a JSON object")
    assert failed.error == "ValueError: no such thing"
    results = results_of(model.requests[1].messages[-1])
    expected = [(call.error, True) for call in (unknown, malformed, failed)]
    assert [(part.result, part.failed) for part in results] == expected


def test_name_that_arrives_in_pieces_calls_the_tool_of_the_whole_name() -> None:
    called: list[str] = []

    def read() -> None:
        called.append("read")

    def read_all() -> None:
        called.append("read_all")

    start, rest = (ps.tool_calls(ps.entry(id="c", name=name)) for name in ("read", "_all"))
    turns = [
        [start, rest, ps.tool_calls(ps.entry("{}")), ps.chunk(finish="tool_calls")],
        [ps.chunk(content="Done."), ps.chunk(finish="stop")],
    ]
    events = events_of(Agent(lambda _: turns.pop(0), [read, read_all]))
    assert called == ["read_all"]
    assert one(events, ToolCallCompleted).name == "read_all"


def test_turn_limit_fails_the_run_and_the_conversation_stays_usable() -> None:
    conversation = Conversation()
    agent = Agent(ScriptedModel(ADD, repeat=True), [add], max_turns=3)
    assert repr(agent) == "<Agent 'agent', scripted>"
    events = events_of(agent, "Go", conversation)
    assert len(only(events, TurnCompleted)) == 3
    assert one(events, RunFailed).code == "max_turns"
    assert len(conversation.messages) == 7
    assert len(results_of(conversation.messages[-1])) == 1


def test_failed_run_raises_with_its_partial_result() -> None:
    model = ScriptedModel(ADD, ProviderError("overloaded", "Too much", retryable=True))
    with pytest.raises(RunError, match=r"Too much \(overloaded\)") as caught:
        Agent(model, [add]).run("Go")
    assert caught.value.result.tools[0].result == 3
    assert caught.value.retryable
    assert isinstance(caught.value.__cause__, ProviderError)


def test_exception_of_a_custom_model_fails_the_run_unless_its_turn_is_over() -> None:
    async def model(_: ModelRequest) -> AsyncIterator[object]:
        for payload in payloads:
            yield payload
        raise error

    payloads: list[ps.Payload] = []
    events: list[Event] = []
    conversation = Conversation()
    agent = Agent(model, on_event=lambda record: events.append(record.event))
    error: BaseException = KeyError("x")
    with pytest.raises(KeyError):
        agent.run("Go")
    assert one(events, ev.StreamFailed).code == "model_failed"
    assert isinstance(events[-1], RunFailed)
    error = asyncio.CancelledError()
    assert one(events_of(agent, "Go", conversation), RunFailed).code == "model_failed"
    assert conversation.run_id is None
    payloads += [ps.message_start(), *ps.message_end("end_turn")]
    error = ConnectionError("reset")
    assert agent.run("Go").outcome == "completed"


def test_agent_that_runs_its_own_tools_is_rejected_as_a_model() -> None:
    with pytest.raises(UsageError, match="runs its tools itself"):
        Agent(lambda _: [init(), assistant(), run_result(result="Done.")]).run("Go")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        *(({"prompt": prompt}, "prompt must be a str") for prompt in ("", "  ", None)),
        ({"conversation": "talk"}, "conversation must be a Conversation, not str"),
        ({"tools": [add, add]}, "two tools are named 'add'"),
        ({"tools": "add"}, "tools must be a list of functions, not str"),
        ({"tools": 5}, "tools must be a list of functions, not int"),
        ({"settings": {}}, "settings must be a ModelSettings"),
        ({"instructions": None}, "instructions must be a str, not NoneType"),
        ({"launch": 3}, "launch must be a Launch, not int"),
        ({"approver": 3}, "approver must be a function, not int"),
        ({"on_event": "print"}, "on_event must be a function, not str"),
        *(
            ({option: limit}, f"{option} must be an int of at least 1, not {limit}")
            for option in ("max_turns", "max_parallel_calls")
            for limit in (0, 1.5, True, None)
        ),
        *(
            ({option: limit}, f"{option} must be a number of seconds greater than 0, not {limit}")
            for option in ("approval_timeout", "lease_seconds")
            for limit in (0, -1, True, math.nan, math.inf)
        ),
    ],
)
def test_wrong_use_raises(wrong: dict[str, Any], message: str) -> None:
    prompt, conversation = wrong.pop("prompt", "Go"), wrong.pop("conversation", None)
    with pytest.raises(UsageError, match=message):
        Agent(ScriptedModel("Hi"), **wrong).run(prompt, conversation)


async def async_add(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize("add", [add, async_add], ids=["thread", "loop"])
@pytest.mark.parametrize(("limit", "calls"), [(1, 5), (3, 5), (32, 40)])
def test_no_more_tools_run_at_once_than_the_limit(add: Any, limit: int, calls: int) -> None:
    adding = [CallTool(add.__name__, {"a": number, "b": 0}) for number in range(calls)]
    model = ScriptedModel(Reply(*adding), "Done.")
    options: dict[str, int] = {} if limit == 32 else {"max_parallel_calls": limit}
    events = events_of(Agent(model, [add], **options))  # type: ignore[arg-type]  # of one option
    order, most = RunOrder(), 0
    for event in events:
        order.take(event)
        most = max(most, len(order.running))
    assert most == limit
    started = [event.call_id for event in only(events, ev.ToolExecutionStarted)]
    results = results_of(model.requests[1].messages[-1])
    assert [part.result for part in results] == list(range(calls)), "in the order of the calls"
    assert [part.call_id for part in results] == started, "they start in order"


COUNTS = {"input_tokens": 472, "cache_read_input_tokens": 100, "output_tokens": 1}
REPORTED = Usage(input_tokens=572, output_tokens=1, cache_read_tokens=100)
STARTED = [ps.message_start(usage=COUNTS), *ps.anthropic_call('{"a": 1')[1:3]]


async def interrupted(way: str) -> AsyncIterator[ps.Payload]:
    for payload in STARTED:
        yield payload
    if way == "broken":
        raise ConnectionResetError
    if way == "stopped":
        await asyncio.Event().wait()


def test_usage_of_a_denied_turn_is_part_of_the_run() -> None:
    denying = Policy([Rule("deny", tool="add")], default="allow")
    events = events_of(Agent(ScriptedModel(ADD, "I may not."), [add], policy=denying))
    first, second = only(events, TurnCompleted)
    assert (first.stop_reason, first.usage) == ("rejected", Usage(100, 1))
    assert one(events, RunCompleted).usage == first.usage + second.usage


@pytest.mark.parametrize("way", ["cut off", "broken", "stopped"])
def test_run_has_the_usage_of_the_turn_that_was_cut_off_or_stopped(way: str) -> None:
    store = MemoryStore()
    run = Agent(lambda _: interrupted(way), store=store).run_stream("Go")
    if way == "stopped":
        events = following.stopped_at(run, ev.ToolCallStarted)
        assert one(events, ev.RunStopped).usage == REPORTED
    else:
        with pytest.raises(RunError if way == "cut off" else ConnectionResetError):
            run.wait()
    records = complete(lambda: store.read(run.run_id))
    assert run.result.usage == folded(records).usage == REPORTED


async def test_observed_run_has_the_usage_of_the_turn_that_was_cut_off() -> None:
    run = observe([init(), *streamed(*STARTED)], store=MemoryStore(), prompt="Go")
    events = [event async for event in run]
    assert (one(events, RunFailed).usage, run.result.usage) == (REPORTED, REPORTED)


def test_old_log_without_usage_at_its_end_has_the_sum_of_its_turns() -> None:
    old = b'{"type":"run_stopped","reason":"enough","run_id":"r"}'
    turn = TurnCompleted("end_turn", Message(role="assistant", parts=()), Usage(3, 4))
    events: list[Event] = [ev.RunStarted("r", "Go"), turn, ev.from_json(old)]
    assert snapshot_of(events).usage == Usage(3, 4)


def test_end_of_a_turn_does_not_cut_off_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream may linger after its turn. The next stream has begun by then."""
    monkeypatch.setattr("argstream.agent._driver._LINGER", 0.05)
    model = ScriptedModel(ADD, Reply("word " * 20, piece_size=5), delay=0.01)
    assert one(events_of(Agent(model, [add])), RunCompleted).result == "word " * 20


def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place}"


LOOK = CallTool("look", {"place": "here"})


def test_read_only_call_starts_while_the_turn_goes_on() -> None:
    early = tool(read_only=True, start="when_complete")(look)
    model = ScriptedModel(Reply(LOOK, ADD, LOOK), "Done.", delay=0.001)
    events = events_of(Agent(model, [early, add]))
    kinds = [event.type for event in events]
    started = [event.name for event in only(events, ev.ToolExecutionStarted)]
    assert started == ["look", "look", "add"]
    assert kinds.index("tool_execution_started") < kinds.index("turn_completed")
    results = [part.result for part in results_of(model.requests[1].messages[-1])]
    assert results == ["seen here", 3, "seen here"], "in the order of the calls"


def test_call_that_needs_approval_does_not_start_early() -> None:
    asks = tool(read_only=True, start="when_complete", requires_confirmation=True)(look)
    agent = Agent(
        ScriptedModel(Reply(LOOK, ADD), "Done."), [asks, add], approver=lambda _: Approve()
    )
    kinds = [event.type for event in events_of(agent)]
    assert kinds.index("tool_execution_started") > kinds.index("turn_completed")


async def test_result_of_an_early_call_is_not_sent_if_its_turn_fails() -> None:
    async def model(_: ModelRequest) -> AsyncIterator[ps.Payload]:
        written = [ps.tool_use(0, "look"), ps.input_json(0, '{"place": "here"}'), ps.block_stop(0)]
        for payload in [ps.message_start(), *written]:
            yield payload
        await asyncio.wait_for(has_looked.wait(), 5)
        raise OSError("cut")

    async def look(place: str) -> str:
        has_looked.set()
        return f"seen {place}"

    has_looked = asyncio.Event()
    early = tool(read_only=True, start="when_complete")(look)
    events: list[Event] = []
    agent = Agent(model, [early], on_event=lambda record: events.append(record.event))
    run = agent.run_stream("Go")
    with pytest.raises(OSError, match="cut"):
        await run
    assert one(events, ToolCallCompleted).result == "seen here"
    assert isinstance(events[-1], RunFailed)
    assert [message.role for message in run.result.messages] == ["user"]


async def test_run_whose_early_call_was_cut_off_does_not_warn_of_effects() -> None:
    async def look(place: str) -> str:
        has_begun.set()
        await asyncio.sleep(60)
        return place

    has_begun = asyncio.Event()
    early = tool(read_only=True, start="when_complete")(look)
    model = ScriptedModel(Reply(LOOK, "word " * 500, piece_size=5), "Done.", delay=0.001)
    agent = Agent(model, [early], store=MemoryStore())
    run = agent.run_stream("Go")
    task = asyncio.ensure_future(run)
    await has_begun.wait()
    task.cancel()
    await asyncio.wait([task])
    resumed = agent.resume(run.run_id)
    assert one([event async for event in resumed], ev.RunResumed).note == ""


def test_only_read_only_tools_may_start_early() -> None:
    with pytest.raises(UsageError, match="read_only"):
        tool(start="when_complete")(look)

    async def read(text: Streamed[str]) -> str:
        return await text.read()

    with pytest.raises(UsageError, match="read has a Streamed parameter"):
        tool(read_only=True, start="when_complete")(read)


async def test_state_of_a_run_has_its_calls_and_times() -> None:
    run = Agent(ScriptedModel(ADD, "3."), [add]).run_stream("Add")
    await run
    [call] = run.state.calls.values()
    assert (call.state, call.result, run.state.status) == ("completed", 3, "completed")
    assert call.root.children["a"].value == 1
    assert call.started_at is not None
    assert call.ended_at is not None
    assert run.state.started_at is not None
    assert run.state.started_at <= call.started_at <= call.ended_at


@pytest.mark.parametrize("store", [None, MemoryStore()], ids=["no store", "memory"])
async def test_open_run_has_at_most_three_tasks(store: MemoryStore | None) -> None:
    model = ScriptedModel(Reply("word " * 20, piece_size=5), delay=0.01)
    before = len(asyncio.all_tasks())
    async for event in Agent(model, [add], store=store).run_stream("Go"):
        if isinstance(event, ev.TextDelta):
            assert len(asyncio.all_tasks()) - before <= 3

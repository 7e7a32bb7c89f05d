"""openai-agents: runs of real agents, with its scripted model and with the OpenAI client."""

import asyncio
from collections.abc import Callable
from typing import Any

import agents
import pytest
from agents import Agent, FunctionTool, OpenAIResponsesModel, RunConfig, Runner, function_tool
from agents.exceptions import MaxTurnsExceeded
from agents.models.interface import Model
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from argstream import events as ev
from argstream import stream
from argstream.errors import UsageError
from argstream.events import Event
from argstream.testing import CallTool, MockProvider, Reply, Slow, Think
from tests import provider_streams as api
from tests.provider_streams import Payload, Reader, of_type, outcomes, results, texts, turns, types
from tests.providers.tables import TOOLS, rejecting

READER = Reader("openai-agents")
DONE = [assistant_message("Done.")]


class Receipt(BaseModel):
    path: str
    characters: int


class Written:
    """The tool of the agents, and the paths that it was called with."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def tool(self) -> FunctionTool:
        def write(path: str, content: str = "") -> Receipt:
            """Write a file."""
            self.paths.append(path)
            return Receipt(path=path, characters=len(content))

        return function_tool(write)


def begin(
    model: Model, *tools: FunctionTool, max_turns: int = 10, **fields: Any
) -> agents.RunResultStreaming:
    """Start a run. Needs a running event loop."""
    agent = Agent(name="writer", model=model, tools=[*tools], **fields)
    config = RunConfig(tracing_disabled=True)
    return Runner.run_streamed(agent, "Go.", max_turns=max_turns, run_config=config)


async def read(source: agents.RunResultStreaming, **options: Any) -> tuple[Any, list[Any]]:
    """Return the stream after its end, for its calls, and its events."""
    events = stream(source.stream_events(), **options)
    return events, [event async for event in events]


to_sdk: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def step(*pieces: str) -> ModelStep:
    """A response with one call, streamed in these pieces."""
    text = "".join(pieces)
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "write"}
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt"}
    response |= {"output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    whole = {**item, "arguments": text, "status": "completed"}
    ended = {**response, "status": "completed", "output": [whole]}
    payloads: list[Payload] = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        api.item_added(0, **item, arguments="", status="in_progress"),
        *(api.arguments_delta(0, piece, item_id="fc_1") for piece in pieces),
        {**api.arguments_done(0, text), "item_id": "fc_1", "name": "write"},
        api.item_done(0, **whole),
        {"type": "response.completed", "response": ended},
    ]
    events = [
        to_sdk.validate_python({**payload, "sequence_number": at})
        for at, payload in enumerate(payloads)
    ]
    return ModelStep(stream_events=events)


async def test_run_is_recognised_and_its_arguments_are_live() -> None:
    model = ScriptedModel([step('{"path": "a.t', 'xt"}'), DONE])
    found, events = await read(begin(model, Written().tool()))
    assert found.protocol == "openai-agents"
    assert types(events) == [
        *api.ONE_ARGUMENT_IN_TWO_PIECES,
        "turn_completed",
        "tool_call_completed",
        "text_delta",
        "turn_completed",
        "run_completed",
    ]
    (completed,) = results(events)
    assert completed.arguments == {"path": "a.txt"}
    assert completed.result == {"path": "a.txt", "characters": 0}
    assert events[-1].result == "Done."


async def test_handoff_has_a_result_and_is_not_an_unknown_tool() -> None:
    other = Agent(name="other", model=ScriptedModel([[assistant_message("Bye.")]]))
    handoff = [function_call("transfer_to_other", {}, call_id="call_1")]
    source = begin(ScriptedModel([handoff]), Written().tool(), handoffs=[other])
    found, events = await read(source, tools=TOOLS)
    assert outcomes(found.calls) == [{}]
    assert [event.result for event in results(events)] == ['{"assistant": "other"}']
    assert (texts(events), events[-1].result) == (["Bye."], "Bye.")


async def test_tool_that_raises_has_the_result_that_the_model_gets() -> None:
    def write() -> str:
        raise ValueError("no space")

    source = begin(ScriptedModel([step("{}"), DONE]), function_tool(write))
    (completed,) = results([event async for event in stream(source)])
    assert completed.result.startswith("An error occurred while running the tool")


@pytest.mark.parametrize("make", [OpenAIResponsesModel, agents.OpenAIChatCompletionsModel])
async def test_models_of_the_sdk_are_read(make: Callable[[str, AsyncOpenAI], Model]) -> None:
    calls = [CallTool("write", {"path": path, "content": "é"}) for path in ("a", "b")]
    with MockProvider([Reply(Think("hm"), "I write.", *calls), Reply("Done.")]) as mock:
        async with AsyncOpenAI(base_url=mock.openai_url, api_key="any") as client:
            found, events = await read(begin(make("gpt-5", client), Written().tool()))
    assert outcomes(found.calls) == [{"path": path, "content": "é"} for path in ("a", "b")]
    assert [event.text for event in of_type(events, ev.ThinkingCompleted)] == ["hm"]
    assert [turn.stop for turn in turns(events)] == ["tool_calls", "end_turn"]
    assert "".join(texts(events)) == "I write.Done."
    assert len(of_type(events, ev.ToolArgsDelta)) > 10
    assert [event.result["path"] for event in results(events)] == ["a", "b"]
    assert events[-1].usage == found.usage


@rejecting
@pytest.mark.parametrize("pass_events", [True, False])
async def test_rejected_call_is_cut_off_and_its_tool_does_not_run(
    options: dict[str, Any], reason: str, pass_events: bool
) -> None:
    written = Written()
    call = CallTool("write", {"path": "/etc/passwd", "content": "word " * 5_000})
    with MockProvider([Reply(call, faults=[Slow(between=0.001)]), Reply("Done.")]) as mock:
        async with AsyncOpenAI(base_url=mock.openai_url, api_key="any") as client:
            source = begin(OpenAIResponsesModel("gpt-5", client), written.tool())
            given: Any = source.stream_events() if pass_events else source
            *_, invalid, turn = [event async for event in stream(given, **options)]
            assert source.run_loop_task is not None
            assert source.run_loop_task.done()
            while not mock.hang_ups:
                await asyncio.sleep(0.01)
        assert len(mock.requests) == 1
    assert (invalid.verdict, invalid.error.reason) == ("rejected", reason)
    assert turn.stop == "rejected"
    assert written.paths == []


async def test_leaving_the_loop_cancels_the_run() -> None:
    written = Written()
    source = begin(ScriptedModel([step('{"path": ', '"a"}'), DONE]), written.tool())
    async with stream(source) as events:
        async for event in events:
            if isinstance(event, ev.ToolCallStarted):
                break
    unread = begin(ScriptedModel([step('{"path": "b"}'), DONE]), written.tool())
    await stream(unread).aclose()
    await asyncio.sleep(0)
    assert unread.run_loop_task is not None
    assert unread.run_loop_task.cancelling() or unread.run_loop_task.done()
    assert written.paths == []


async def events_of(*replies: Any) -> list[Any]:
    """Return the events of the SDK."""
    source = begin(ScriptedModel([*replies]), Written().tool())
    return [event async for event in source.stream_events()]


async def test_run_that_waits_for_its_tools_has_not_ended() -> None:
    recorded = await events_of(step("{}"), DONE)
    at = next(at for at, one in enumerate(recorded) if getattr(one, "name", "") == "tool_called")
    _, events = READER.assemble(recorded[: at + 1])
    assert types(events)[-1] == "turn_completed"


async def test_exception_of_the_run_is_raised_after_the_events() -> None:
    found: list[Event] = []

    async def read_all() -> None:
        source = begin(ScriptedModel([step("{}")]), Written().tool(), max_turns=1)
        async for event in stream(source):
            found.append(event)  # noqa: PERF401 - kept although the loop raises

    with pytest.raises(MaxTurnsExceeded):
        await read_all()
    assert types(found)[-1] == "tool_call_completed"


async def test_only_the_responses_are_read_if_the_caller_names_their_protocol() -> None:
    recorded = await events_of(step("{}"), DONE)
    found = stream(recorded, protocol="openai-responses")
    read = list(found)
    assert found.protocol == "openai-responses"
    assert (results(read), len(turns(read))) == ([], 2)
    assert of_type(read, ev.RunCompleted) == []


@pytest.mark.parametrize("payload", [{"no": "event"}, b"{", 7])
async def test_unreadable_event_is_reported(payload: object) -> None:
    recorded = await events_of(DONE)
    _, events = READER.assemble([*recorded, payload])
    assert [failed.code for failed in api.failures(events)] == ["bad_payload"]


async def test_wrong_use_is_explained() -> None:
    events: Any = stream(begin(ScriptedModel([DONE])))
    with pytest.raises(TypeError, match='use "async for"'):
        list(events)
    await events.aclose()
    agent = Agent(name="writer", model=ScriptedModel([DONE]))
    awaited: Any = Runner.run(agent, "Go.", run_config=RunConfig(tracing_disabled=True))
    with pytest.raises(
        UsageError, match=r"cannot read an object of type RunResult\. Pass Runner.run_s"
    ):
        await anext(stream(awaited))

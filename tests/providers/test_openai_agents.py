"""openai-agents: runs of real agents, with its scripted model and with the OpenAI client."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    RunResultStreaming,
    function_tool,
)
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
from argstream.policy import Policy, Prefix, Rule
from argstream.testing import CallTool, MockProvider, Reply, Slow, Think
from tests.provider_streams import (
    ONE_ARGUMENT_IN_TWO_PIECES,
    Payload,
    Reader,
    arguments_delta,
    arguments_done,
    failures,
    item_added,
    item_done,
    of_type,
    outcomes,
    results,
    texts,
    turns,
    types,
)

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


def begin(model: Model, written: Written | None = None, **fields: Any) -> RunResultStreaming:
    """Start a run. Needs a running event loop."""
    tools: Any = [(written or Written()).tool()]
    agent = Agent(name="writer", model=model, tools=tools, **fields)
    return Runner.run_streamed(agent, "Go.", run_config=RunConfig(tracing_disabled=True))


def run(model: Model, written: Written | None = None, **options: Any) -> tuple[Any, list[Any]]:
    """Return the stream after its end, for its calls, and its events."""

    async def main() -> tuple[Any, list[Any]]:
        events = stream(begin(model, written).stream_events(), **options)
        return events, [event async for event in events]

    return asyncio.run(main())


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
        item_added(0, **item, arguments="", status="in_progress"),
        *(arguments_delta(0, piece, item_id="fc_1") for piece in pieces),
        {**arguments_done(0, text), "item_id": "fc_1", "name": "write"},
        item_done(0, **whole),
        {"type": "response.completed", "response": ended},
    ]
    events = [
        to_sdk.validate_python({**payload, "sequence_number": at})
        for at, payload in enumerate(payloads)
    ]
    return ModelStep(stream_events=events)


# Runs


def test_run_is_recognised_and_its_arguments_are_live() -> None:
    found, events = run(ScriptedModel([step('{"path": "a.t', 'xt"}'), DONE]))
    assert found.protocol == "openai-agents"
    assert types(events) == [
        *ONE_ARGUMENT_IN_TWO_PIECES,
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


def test_handoff_has_a_result_and_is_not_an_unknown_tool() -> None:
    other = Agent(name="other", model=ScriptedModel([[assistant_message("Bye.")]]))
    handoff = [function_call("transfer_to_other", {}, call_id="call_1")]

    async def main() -> tuple[Any, list[Any]]:
        source = begin(ScriptedModel([handoff]), handoffs=[other])
        events = stream(source.stream_events(), tools=TOOLS)
        return events, [event async for event in events]

    found, events = asyncio.run(main())
    assert outcomes(found.calls) == [{}]
    assert [event.result for event in results(events)] == ['{"assistant": "other"}']
    assert (texts(events), events[-1].result) == (["Bye."], "Bye.")


def test_tool_that_raises_has_the_result_that_the_model_gets() -> None:
    def write() -> str:
        raise ValueError("no space")

    async def main() -> list[Event]:
        model = ScriptedModel([step("{}"), DONE])
        agent = Agent(name="writer", model=model, tools=[function_tool(write)])
        source = Runner.run_streamed(agent, "Go.", run_config=RunConfig(tracing_disabled=True))
        return [event async for event in stream(source)]

    (completed,) = results(asyncio.run(main()))
    assert completed.result.startswith("An error occurred while running the tool")


@pytest.mark.parametrize("make", [OpenAIResponsesModel, OpenAIChatCompletionsModel])
def test_models_of_the_sdk_are_read(make: Callable[[str, AsyncOpenAI], Model]) -> None:
    calls = [CallTool("write", {"path": path, "content": "é"}) for path in ("a", "b")]

    async def main(mock: MockProvider) -> tuple[Any, list[Any]]:
        async with AsyncOpenAI(base_url=mock.openai_url, api_key="any") as client:
            events = stream(begin(make("gpt-5", client)).stream_events())
            return events, [event async for event in events]

    with MockProvider([Reply(Think("hm"), "I write.", *calls), Reply("Done.")]) as mock:
        found, events = asyncio.run(main(mock))
    assert outcomes(found.calls) == [{"path": path, "content": "é"} for path in ("a", "b")]
    assert [event.text for event in of_type(events, ev.ThinkingCompleted)] == ["hm"]
    assert [turn.stop for turn in turns(events)] == ["tool_calls", "end_turn"]
    assert "".join(texts(events)) == "I write.Done."
    assert len(of_type(events, ev.ToolArgsDelta)) > 10
    assert [event.result["path"] for event in results(events)] == ["a", "b"]
    assert events[-1].usage == found.usage


# Rejection

NO_ETC = Policy([Rule("deny", argument="path", when=Prefix("/etc"))], default="allow")
SHORT = {"type": "object", "properties": {"path": {"type": "string", "maxLength": 4}}}
TOOLS = [{"name": "write", "input_schema": SHORT}]


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"policy": NO_ETC}, "denied"), ({"tools": TOOLS, "stop_on": "rejected"}, "schema")],
)
@pytest.mark.parametrize("pass_events", [True, False])
def test_rejected_call_is_cut_off_and_its_tool_does_not_run(
    options: dict[str, Any], reason: str, pass_events: bool
) -> None:
    written = Written()
    call = CallTool("write", {"path": "/etc/passwd", "content": "word " * 5_000})

    async def main(mock: MockProvider) -> list[Any]:
        async with AsyncOpenAI(base_url=mock.openai_url, api_key="any") as client:
            source = begin(OpenAIResponsesModel("gpt-5", client), written)
            given: Any = source.stream_events() if pass_events else source
            events = [event async for event in stream(given, **options)]
            assert source.run_loop_task is not None
            assert source.run_loop_task.done()
            while not mock.hang_ups:
                await asyncio.sleep(0.01)
            return events

    with MockProvider([Reply(call, faults=[Slow(between=0.001)]), Reply("Done.")]) as mock:
        *_, invalid, turn = asyncio.run(main(mock))
        assert len(mock.requests) == 1
    assert (invalid.verdict, invalid.error.reason) == ("rejected", reason)
    assert turn.stop == "rejected"
    assert written.paths == []


def test_leaving_the_loop_cancels_the_run() -> None:
    written = Written()

    async def main() -> None:
        source = begin(ScriptedModel([step('{"path": ', '"a"}'), DONE]), written)
        async with stream(source) as events:
            async for event in events:
                if isinstance(event, ev.ToolCallStarted):
                    break
        unread = begin(ScriptedModel([step('{"path": "b"}'), DONE]), written)
        await stream(unread).aclose()
        await asyncio.sleep(0)
        assert unread.run_loop_task is not None
        assert unread.run_loop_task.cancelling() or unread.run_loop_task.done()

    asyncio.run(main())
    assert written.paths == []


# The end of a source


def events_of(model: Model) -> list[Any]:
    """Return the events of the SDK."""

    async def main() -> list[Any]:
        return [event async for event in begin(model).stream_events()]

    return asyncio.run(main())


def test_run_that_waits_for_its_tools_has_not_ended() -> None:
    recorded = events_of(ScriptedModel([step("{}"), DONE]))
    at = next(at for at, one in enumerate(recorded) if getattr(one, "name", "") == "tool_called")
    _, events = READER.assemble(recorded[: at + 1])
    assert types(events)[-1] == "turn_completed"


def test_exception_of_the_run_is_raised_after_the_events() -> None:
    async def main() -> None:
        agent = Agent(name="writer", model=ScriptedModel([step("{}")]), tools=[Written().tool()])
        config = RunConfig(tracing_disabled=True)
        source = Runner.run_streamed(agent, "Go.", max_turns=1, run_config=config)
        async for event in stream(source):
            read.append(event)  # noqa: PERF401 - kept although the loop raises

    read: list[Event] = []
    with pytest.raises(MaxTurnsExceeded):
        asyncio.run(main())
    assert types(read)[-1] == "tool_call_completed"


# Other uses


def test_only_the_responses_are_read_if_the_caller_names_their_protocol() -> None:
    recorded = events_of(ScriptedModel([step("{}"), DONE]))
    found = stream(recorded, protocol="openai-responses")
    read = list(found)
    assert found.protocol == "openai-responses"
    assert (results(read), len(turns(read))) == ([], 2)
    assert of_type(read, ev.RunCompleted) == []


@pytest.mark.parametrize("payload", [{"no": "event"}, b"{", 7])
def test_unreadable_event_is_reported(payload: object) -> None:
    recorded = events_of(ScriptedModel([DONE]))
    _, events = READER.assemble([*recorded, payload])
    assert [failed.code for failed in failures(events)] == ["bad_payload"]


def test_wrong_use_is_explained() -> None:
    async def main() -> None:
        events: Any = stream(begin(ScriptedModel([DONE])))
        with pytest.raises(TypeError, match='use "async for"'):
            list(events)
        await events.aclose()
        agent = Agent(name="writer", model=ScriptedModel([DONE]))
        awaited: Any = Runner.run(agent, "Go.", run_config=RunConfig(tracing_disabled=True))
        with pytest.raises(UsageError, match=r"cannot read a RunResult\. Pass Runner.run_s"):
            async for _ in stream(awaited):
                pass

    asyncio.run(main())

"""pydantic-ai: runs of real agents with its test models, and its own event objects."""

from collections.abc import AsyncIterator, Callable
from datetime import date
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel, TypeAdapter
from pydantic_ai import Agent, ModelRetry, RunContext, messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import PartEndEvent, PartStartEvent, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from argstream import events as ev
from argstream import observe, open_store, stream
from argstream.errors import UsageError
from argstream.events import Event, Usage
from argstream.testing import CallTool, MockProvider, Reply, Think
from tests import provider_streams as api
from tests.provider_streams import failures, of_type, outcomes, results, texts, turns, types
from tests.providers.tables import Tables, rejecting

READER = Tables("pydantic-ai")


class Written:
    """The tool of the agents, and the paths that it was called with."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def write(self, path: str, content: str = "") -> str:
        """Write a file."""
        self.paths.append(path)
        return f"wrote {path}"

    def now(self) -> date:
        """Return the date."""
        return date(2026, 1, 2)


def function_model(*responses: list[Any]) -> FunctionModel:
    """A model that streams these responses, one for each request."""
    remaining = iter(responses)

    async def respond(*_: Any) -> AsyncIterator[Any]:
        for delta in next(remaining):
            yield delta

    return FunctionModel(stream_function=respond)


def begin(index: int, text: str | None = None, name: str = "write") -> Any:
    return {index: DeltaToolCall(name=name, json_args=text, tool_call_id=f"call_{index}")}


def more(index: int, text: str) -> Any:
    return {index: DeltaToolCall(json_args=text, tool_call_id=f"call_{index}")}


async def read(source: Any, **options: Any) -> tuple[Any, list[Any]]:
    """Return the stream after its end, for its calls, and its events."""
    events: Any = stream(source, **options)
    return events, [event async for event in events]


async def run(
    model: Model, written: Written | None = None, **options: Any
) -> tuple[Any, list[Any]]:
    written = written or Written()
    agent = Agent(model, tools=[written.write, written.now])
    return await read(agent.run_stream_events("Go."), **options)


async def test_run_is_recognised_and_its_arguments_are_live() -> None:
    first = [begin(0, '{"path": "a.t'), more(0, 'xt"}')]
    found, events = await run(function_model(first, ["All ", "done."]))
    assert found.protocol == "pydantic-ai"
    assert types(events) == [
        *api.ONE_ARGUMENT_IN_TWO_PIECES,
        "turn_completed",
        "tool_call_completed",
        "text_delta",
        "text_delta",
        "turn_completed",
        "run_completed",
    ]
    assert [event.text for event in of_type(events, ev.ArgumentDelta)] == ["a.t", "xt"]
    arguments = {"path": "a.txt"}
    assert results(events) == [ev.ToolCallCompleted("call_0", "write", arguments, "wrote a.txt")]
    assert events[-1].result == "All done."


async def test_parallel_calls_may_interleave_and_thinking_is_reported() -> None:
    first = [
        {0: DeltaThinkingPart(content="h")},
        {0: DeltaThinkingPart(content="m")},
        begin(1, '{"path": '),
        begin(2, '{"path": "b"}'),  # pydantic-ai reports the end of the first call here
        more(1, '"a"}'),
        begin(3, name="now"),
    ]
    found, events = await run(function_model(first, ["Done."]))
    assert outcomes(found.calls) == [{"path": "a"}, {"path": "b"}, {}]
    assert of_type(events, ev.ThinkingCompleted) == [ev.ThinkingCompleted("hm", 0)]
    found_results = {event.call_id: event.result for event in results(events)}
    assert found_results == {"call_1": "wrote a", "call_2": "wrote b", "call_3": "2026-01-02"}
    assert failures(events) == []


async def test_output_of_a_model_is_the_result_of_the_run() -> None:
    class Answer(BaseModel):
        words: list[str]

    agent = Agent(TestModel(custom_output_args={"words": ["yes"]}), output_type=Answer)
    found, events = await read(agent.run_stream_events("Go."), tools=[])
    assert outcomes(found.calls) == [{"words": ["yes"]}]  # an output tool is not among the tools
    assert events[-1].result == {"words": ["yes"]}
    assert [event.name for event in results(events)] == ["final_result"]


async def test_tool_that_asks_for_a_retry_has_failed() -> None:
    def fail(path: str) -> str:
        raise ModelRetry(f"{path} does not exist")

    model = function_model([begin(0, '{"path": "a"}', "fail")], ["Sorry."])
    _, events = await read(Agent(model, tools=[fail], retries=2).run_stream_events("Go."))
    (failed,) = results(events)
    assert (failed.type, failed.name) == ("tool_call_failed", "fail")
    assert "a does not exist" in str(failed.error)


Connect = Callable[[MockProvider], Any]
CLIENTS: dict[str, tuple[Connect, Callable[[Any], Model]]] = {
    "anthropic": (
        lambda mock: AsyncAnthropic(base_url=mock.anthropic_url, api_key="any"),
        lambda client: AnthropicModel(
            "claude", provider=AnthropicProvider(anthropic_client=client)
        ),
    ),
    "chat": (
        lambda mock: AsyncOpenAI(base_url=mock.openai_url, api_key="any"),
        lambda client: OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=client)),
    ),
    "responses": (
        lambda mock: AsyncOpenAI(base_url=mock.openai_url, api_key="any"),
        lambda client: OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(openai_client=client)),
    ),
}


@pytest.mark.parametrize(("connect", "make"), CLIENTS.values(), ids=CLIENTS)
async def test_real_models_report_stops_and_usage(
    connect: Connect, make: Callable[[Any], Model]
) -> None:
    calls = CallTool("write", {"path": "a", "content": "é"}), CallTool("now", {})
    replies = [Reply(Think("hm"), "I write.", *calls), Reply("Done.")]
    with MockProvider(replies) as mock:
        async with connect(mock) as client:
            found, events = await run(make(client))
    assert outcomes(found.calls) == [{"path": "a", "content": "é"}, {}]
    assert [turn.stop for turn in turns(events)] == ["tool_calls", "end_turn"]
    used = [turn.usage for turn in turns(events)]
    assert all(usage.input_tokens and usage.output_tokens for usage in used)
    assert found.usage == used[0] + used[1] == events[-1].usage
    assert "".join(texts(events)) == "I write.Done."


async def test_handler_reads_each_response_with_its_usage() -> None:
    read_in: list[list[Event]] = []

    async def handle(_: RunContext[object], events: Any) -> None:
        read_in.append([event async for event in stream(events, protocol="pydantic-ai")])

    model = function_model([begin(0, '{"path": "a"}')], ["Done."])
    await Agent(model, tools=[Written().write]).run("Go.", event_stream_handler=handle)
    first, tools, second, nothing = read_in
    assert types(first)[-2:] == ["tool_args_completed", "turn_completed"]
    assert turns(first)[0].usage.input_tokens
    assert (tools, nothing) == ([], [])  # the calls belong to another stream
    assert types(second) == ["text_delta", "turn_completed"]


async def test_model_without_an_agent_has_a_stop_reason_and_usage() -> None:
    connect, make = CLIENTS["chat"]
    with MockProvider([Reply(CallTool("write", {}), stop="length")]) as mock:
        async with connect(mock) as client:
            prompt = messages.ModelRequest.user_text_prompt("Go.")
            _, events = await read(model_request_stream(make(client), [prompt]))
    (turn,) = turns(events)
    assert (turn.stop_reason, turn.stop) == ("length", "length")
    assert turn.usage.output_tokens


@rejecting
async def test_rejected_call_is_cut_off_and_does_not_run(
    options: dict[str, Any], reason: str
) -> None:
    sent: list[str] = []

    async def respond(*_: Any) -> AsyncIterator[Any]:
        yield begin(0, '{"path": "/etc/pass')
        yield more(0, 'wd", "content": "')
        for word in ["one ", "two ", "three "]:
            sent.append(word)
            yield more(0, word)
        yield more(0, '"}')

    written = Written()
    found, events = await run(FunctionModel(stream_function=respond), written, **options)
    invalid, turn = events[-2:]
    assert (invalid.verdict, invalid.error.reason) == ("rejected", reason)
    assert turn.stop == "rejected"
    assert written.paths == []
    assert len(sent) <= 1  # the run is at most one event ahead
    assert outcomes(found.calls) == ["rejected"]


async def test_exception_of_the_run_is_raised_after_the_verdicts() -> None:
    async def respond(*_: Any) -> AsyncIterator[Any]:
        yield begin(0, '{"path": "a"')
        raise ConnectionError("lost")

    read_first: list[Event] = []

    async def read_all() -> None:
        agent = Agent(FunctionModel(stream_function=respond), tools=[Written().write])
        async for event in stream(agent.run_stream_events("Go.")):
            read_first.append(event)  # noqa: PERF401 - kept although the loop raises

    with pytest.raises(ConnectionError, match="lost"):
        await read_all()
    assert isinstance(last := read_first[-1], ev.ToolArgsInvalid)
    assert last.verdict == "truncated"


async def test_leaving_the_loop_cancels_the_run() -> None:
    written = Written()
    model = function_model([begin(0, '{"path": "a"}'), begin(1, '{"path": "b"}')], ["Done."])
    agent = Agent(model, tools=[written.write])
    async with stream(agent.run_stream_events("Go.")) as events:
        async for event in events:
            if isinstance(event, ev.ToolArgsCompleted):
                break
    assert written.paths == []


CALL = ToolCallPart("write", '{"a": 1}', "call_1")
OPEN = PartStartEvent(index=0, part=ToolCallPart("write", None, "call_1"))
END = PartEndEvent(index=0, part=CALL)


def piece(args: Any, index: int = 0, **fields: Any) -> messages.PartDeltaEvent:
    return messages.PartDeltaEvent(
        index=index, delta=messages.ToolCallPartDelta(args_delta=args, **fields)
    )


def start(args: Any, index: int = 0, id_: str = "call_1", **fields: Any) -> PartStartEvent:
    return PartStartEvent(index=index, part=ToolCallPart("write", args, id_), **fields)


def end(args: Any, index: int = 0, id_: str = "call_1", **fields: Any) -> PartEndEvent:
    return PartEndEvent(index=index, part=ToolCallPart("write", args, id_), **fields)


def called(args: Any = None, id_: str = "call_1") -> messages.FunctionToolCallEvent:
    return messages.FunctionToolCallEvent(ToolCallPart("write", args, id_), args_valid=True)


def returned(content: Any, id_: str = "call_1", **fields: Any) -> messages.FunctionToolResultEvent:
    return messages.FunctionToolResultEvent(
        messages.ToolReturnPart("write", content, id_, **fields)
    )


test_arguments_and_verdicts = READER.test_outcomes(
    {
        "part of the text in the start": ([start('{"a"'), piece(": 1}"), END], [{"a": 1}]),
        "all of the text in the start": ([start('{"a": 1}'), END], [{"a": 1}]),
        "an object in the start": ([start({"a": 1}), end({"a": 1})], [{"a": 1}]),
        "an object that grows": (
            [start({}), piece({"a": 1}), piece({"b": [2]}), end({"a": 1, "b": [2]})],
            [{"a": 1, "b": [2]}],
        ),
        "an object that is replaced": (
            [start(None), piece({"a": 1}), piece({"a": 2}), end({"a": 2})],
            [{"a": 2}],
        ),
        "a whole object that grows": (
            [start({"a": 1}), piece({"b": 2}), end({"a": 1, "b": 2})],
            [{"a": 1, "b": 2}],
        ),
        "an empty object": ([start({}), end({})], [{}]),
        "lost pieces": ([OPEN, piece('{"a"'), END], [{"a": 1}]),
        "only the end": ([END], [{"a": 1}]),
        "a part that is sent again": (
            [OPEN, piece('{"a"'), end('{"a": 1}', next_part_kind="tool-call"),
             start('{"a": 1}', previous_part_kind="tool-call"), END],
            [{"a": 1}],
        ),
        "complete JSON without an end": ([OPEN, piece('{"a": 1}')], ["truncated"]),
        "end with incomplete JSON": ([OPEN, piece('{"a": 1'), end('{"a": 1')], ["truncated"]),
        "no text, and the stream ends": ([OPEN, end(None)], ["truncated"]),
        "no text, and the tool is called": ([OPEN, end(None), called()], [{}]),
        "no text, and a result": ([OPEN, end(None), returned("ok")], [{}]),
        "interleaved": (
            [OPEN, piece('{"a"'), end('{"a"', next_part_kind="tool-call"),
             start('{"b": 2}', 1, "call_2", previous_part_kind="tool-call"),
             piece(": 1}"), end('{"b": 2}', 1, "call_2"), called('{"a": 1}')],
            [{"a": 1}, {"b": 2}],
        ),
    }
)  # fmt: skip

test_unreadable_event_truncates_the_call = READER.test_unreadable(
    [OPEN],
    [
        PartStartEvent(index=None, part=TextPart("Hi")),  # type: ignore[arg-type]
        piece(7),
        piece("{}", index=3),
        start(7, 1, "call_2"),
        {"no": "event"},
        b"{",
    ],
    [END],
)


def test_events_as_objects_dicts_and_json_are_read_alike() -> None:
    run_events: list[Any] = [
        PartStartEvent(index=0, part=ThinkingPart("h")),
        messages.PartDeltaEvent(
            index=0, delta=messages.ThinkingPartDelta(content_delta="m", signature_delta="x")
        ),
        PartEndEvent(index=0, part=ThinkingPart("hm"), next_part_kind="text"),
        PartStartEvent(index=1, part=TextPart("s"), previous_part_kind="thinking"),
        messages.FinalResultEvent(tool_name=None, tool_call_id=None),
        messages.PartDeltaEvent(index=1, delta=messages.TextPartDelta(content_delta="o")),
        PartEndEvent(index=1, part=TextPart("so"), next_part_kind="tool-call"),
        start('{"a"', 2, previous_part_kind="text"),
        piece(": 1}", 2),
        end('{"a": 1}', 2),
        called(),
        returned({"b": 2}),
        PartStartEvent(index=0, part=TextPart("Done.")),
        PartEndEvent(index=0, part=TextPart("Done.")),
    ]
    adapter: TypeAdapter[Any] = TypeAdapter(messages.AgentStreamEvent)
    _, expected = READER.assemble(run_events)
    assert "".join(texts(expected)) == "soDone."
    assert results(expected) == [ev.ToolCallCompleted("call_1", "write", {"a": 1}, {"b": 2})]
    assert [len(turn.message.parts) for turn in turns(expected)] == [3, 1]
    assert list(stream(run_events)) == expected
    assert list(stream([adapter.dump_python(event) for event in run_events])) == expected
    lines = b"\n".join(adapter.dump_json(event) for event in run_events)
    assert list(stream([lines[:100], lines[100:]])) == expected


def test_native_tools_are_run_by_the_provider_and_have_results_in_the_message() -> None:
    search = messages.NativeToolCallPart("web_search", '{"query": "x"}', "srv_1")
    mcp = messages.NativeToolCallPart("mcp_server:docs", {"q": 1}, "srv_2")
    found = messages.NativeToolReturnPart("web_search", ["found"], "srv_1")
    failed = messages.NativeToolReturnPart("mcp_server:docs", "no", "srv_2", outcome="failed")
    run_events: list[Any] = [
        PartStartEvent(index=0, part=search),
        PartEndEvent(index=0, part=search, next_part_kind="builtin-tool-return"),
        PartStartEvent(index=1, part=found),
        PartStartEvent(index=2, part=mcp, previous_part_kind="builtin-tool-return"),
        PartEndEvent(index=2, part=mcp, next_part_kind="builtin-tool-return"),
        PartStartEvent(index=3, part=failed, previous_part_kind="builtin-tool-call"),
        called(id_="other"),
    ]
    calls, events = READER.assemble(run_events)
    kinds = [(call.kind, call.verdict) for call in calls]
    assert kinds == [("server", "complete"), ("mcp", "complete")]
    assert results(events) == [
        ev.ToolCallCompleted("srv_1", "web_search", {"query": "x"}, ["found"]),
        ev.ToolCallFailed("srv_2", "mcp_server:docs", "no"),
    ]
    (turn,) = turns(events)
    assert [type(part).__name__ for part in turn.message.parts] == ["CallPart", "ResultPart"] * 2


@pytest.mark.parametrize("outcome", ["failed", "denied", "interrupted", "retried"])
def test_result_that_is_no_success_is_a_failure(outcome: str) -> None:
    _, events = READER.assemble([OPEN, END, returned("no", outcome=outcome)])
    assert results(events) == [ev.ToolCallFailed("call_1", "write", "no")]


def test_values_of_a_growing_object_are_live() -> None:
    _, events = READER.assemble([start({}), piece({"a": 1}), piece({"b": [2]})])  # no end
    values = [event.value for event in of_type(events, ev.ArgumentCompleted)]
    assert values[:1] == [1]


async def test_call_is_complete_when_the_next_one_starts() -> None:
    first, second = begin(0, '{"path": "a"}'), begin(1, '{"path": "b"}')
    _, events = await run(function_model([first, second], ["Done."]))
    second_start = types(events).index("tool_call_started", 1)
    assert types(events)[second_start - 1] == "tool_args_completed"


def test_name_may_arrive_in_pieces() -> None:
    calls, events = READER.assemble([OPEN, piece('{"a"', tool_name_delta="_file"), END, called()])
    assert ([call.name for call in calls], outcomes(calls)) == (["write_file"], [{"a": 1}])
    (completed,) = of_type(events, ev.ToolArgsCompleted)
    assert completed.name == "write_file"


def test_response_may_follow_another_without_a_tool_between_them() -> None:
    """A response that is no valid output is followed by another one."""
    first = PartStartEvent(index=0, part=messages.NativeToolReturnPart("web_search", "x", "srv_1"))
    again = PartStartEvent(index=0, part=TextPart("So"))
    _, events = READER.assemble([first, again, PartEndEvent(index=0, part=TextPart("So"))])
    assert len(turns(events)) == 2


def test_result_of_a_call_from_an_earlier_run_is_not_reported() -> None:
    calls, events = READER.assemble([called(), returned("ok")])
    assert (calls, events) == ([], [])


async def test_observed_run_is_written_to_a_store() -> None:
    agent = Agent(function_model([begin(0, '{"path": "a"}')], ["Done."]), tools=[Written().write])
    async with open_store("memory:") as store:
        source = agent.run_stream_events("Go.")
        observed = observe(source, store=store, prompt="Go.", agent="writer")
        events = [event async for event in observed]
    assert (types(events)[0], types(events)[-1]) == ("run_started", "run_completed")
    assert of_type(events, ev.RunCompleted)[0].usage != Usage()


Misuse = Callable[[Agent[None, str]], object]


@pytest.mark.parametrize(
    "use",
    [lambda agent: agent.run("Go."), lambda agent: agent.run_stream("Go."), lambda agent: agent],
    ids=["run", "run_stream", "no method"],
)
async def test_wrong_method_of_an_agent_is_explained(use: Misuse) -> None:
    with pytest.raises(UsageError, match=r"Pass agent.run_stream_events\(...\)"):
        await read(use(Agent(TestModel())))

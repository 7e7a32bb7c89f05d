"""Anthropic Messages: rules that no recording shows alone."""

from typing import Any

import pytest

from argstream.events import TextDelta, ToolCallCompleted, ToolCallFailed, Usage
from argstream.history import OpaquePart, ResultPart, TextPart, ThinkingPart
from tests import provider_streams as api
from tests.provider_streams import block_delta, block_start, block_stop, input_json, tool_use, types
from tests.providers.tables import Tables, cases

READER = Tables("anthropic")
assemble, only_call, completed = READER.assemble, READER.only_call, READER.completed


def turn(*payloads: Any, stop_reason: str = "end_turn") -> list[Any]:
    return [api.message_start(), *payloads, *api.message_end(stop_reason)]


def empty(stop_reason: str) -> list[api.Payload]:
    return api.anthropic_call("", stop_reason=stop_reason)


def unstopped(stop_reason: str) -> list[api.Payload]:
    return turn(tool_use(0), input_json(0, '{"a":1}'), stop_reason=stop_reason)


def without_reason(text: str) -> list[api.Payload]:
    return [api.message_start(), tool_use(0), input_json(0, text), {"type": "message_stop"}]


CALL = api.anthropic_call('{"a": 1}')
BLOCK = {"type": "tool_use", "id": "x", "name": "tool", "input": {"a": 1}}
IN_START = api.message_start(content=[{**BLOCK, "input": {}}], stop_reason="tool_use")
RESPONSE = {**api.message_start(content=[{"type": "text", "text": "hello"}, BLOCK])["message"]}
RESPONSE |= {"type": "message", "stop_reason": "tool_use"}
ONE_OF_TWO = [api.message_start(), tool_use(0, id_="a"), input_json(0, '{"a":1}')]
UNKNOWN = [
    {"type": "ping"},
    {"type": "brand_new", "index": "?", "delta": 3},
    block_start(0, "brand_new_block", text=1),
    block_delta(0, "brand_new_delta", thing=[1]),
    *(block_stop(0), block_stop(9)),
]

test_outcomes = READER.test_outcomes(
    {
        "input of block start and deltas": (
            turn(tool_use(0, input={"a": 0}), input_json(0, '{"b":1}'), block_stop(0)),
            [{"b": 1}],
        ),
        "input of block start and empty delta": (
            turn(tool_use(0, input={"a": 0}), input_json(0, ""), block_stop(0)),
            [{"a": 0}],
        ),
        "call inside message_start": ([IN_START, {"type": "message_stop"}], [{}]),
        "whole response": ([RESPONSE], [{"a": 1}]),
        **cases("no text and", empty, {}, ["tool_use", "end_turn", "stop_sequence", "pause_turn"]),
        **cases("no text and", empty, "truncated", ["max_tokens", "refusal", "new"]),
        **cases("no text and", empty, "truncated", ["model_context_window_exceeded"]),
        **cases("block is not stopped and", unstopped, {"a": 1}, ["tool_use", "new"]),
        **cases("block is not stopped and", unstopped, "truncated", ["max_tokens"]),
        "stopped block and refusal": (api.anthropic_call("{}", stop_reason="refusal"), [{}]),
        **cases("no stop reason and", without_reason, {"a": 1}, ['{"a":1}']),
        **cases("no stop reason and", without_reason, "truncated", ['{"a', ""]),
        "unknown events": (turn(*UNKNOWN, tool_use(1), input_json(1, "{}"), block_stop(1)), [{}]),
        "interleaved calls": (
            turn(
                *(tool_use(0, id_="a"), tool_use(1, id_="b"), input_json(1, '{"b"')),
                *(input_json(0, '{"a"'), input_json(1, ":2}"), block_stop(1)),
                *(input_json(0, ":1}"), block_stop(0)),
            ),
            [{"a": 1}, {"b": 2}],
        ),
        "new message before the end": ([*ONE_OF_TWO, *api.anthropic_call("{}")], ["truncated", {}]),
        "whole text and no end": (ONE_OF_TWO, ["truncated"]),
        "block is started twice": ([*CALL[:2], *CALL[1:]], [{"a": 1}]),
    }
)


@pytest.mark.parametrize(
    ("type_", "kind"),
    [("tool_use", "function"), ("server_tool_use", "server"), ("mcp_tool_use", "mcp")],
)
def test_type_of_the_block_is_the_kind_of_the_call(type_: str, kind: str) -> None:
    start = block_start(0, type_, id="x", name="tool", input={})
    call = only_call(turn(start, input_json(0, '{"a":1}'), block_stop(0)))
    assert (call.kind, call.arguments) == (kind, {"a": 1})


def test_delta_without_a_block_start_is_a_malformed_call() -> None:
    call = only_call(turn(input_json(0, '{"a":1}'), block_stop(0)))
    assert (call.name, call.verdict, call.raw) == ("", "malformed", '{"a":1}')


THINKING = [
    block_start(0, "thinking", thinking="", signature=""),
    block_delta(0, "thinking_delta", thinking="hm"),
    block_delta(0, "signature_delta", signature="c2"),
    block_delta(0, "signature_delta", signature="ln"),
    block_stop(0),
]


def test_text_and_thinking_have_events_of_their_own() -> None:
    text = [block_start(1, "text", text=""), block_delta(1, "text_delta", text="so")]
    _, events = assemble(turn(*THINKING, *text, block_stop(1)))
    assert events[:4] == api.HM_AND_SO
    _, events = assemble([RESPONSE])
    assert events[0] == TextDelta("hello", 0)
    assert types(events)[-1] == "turn_completed"


CITATION = {"type": "web_search_result_location", "encrypted_index": "abc"}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}
CALLER: api.Payload = {"caller": {"type": "code_execution"}}
CALL_ITEM = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}, **CALLER}
END_WITH_CONTAINER = api.message_end()
END_WITH_CONTAINER[0]["delta"]["container"] = {"id": "container_1"}


def test_parts_that_must_go_back_are_kept() -> None:
    payloads = turn(
        *THINKING,
        *(block_start(1, "redacted_thinking", data="xyz"), block_stop(1)),
        block_start(2, "server_tool_use", id="s1", name="web_search", input={}),
        *(input_json(2, '{"q":1}'), block_stop(2)),
        block_start(3, "web_search_tool_result", tool_use_id="s1", content=[{"url": "u"}]),
        *(block_stop(3), block_start(4, "text", text="", citations=[])),
        block_delta(4, "text_delta", text="fact"),
        *(block_delta(4, "citations_delta", citation=CITATION), block_stop(4)),
        block_start(5, "compaction", content=""),
        *(block_delta(5, "compaction_delta", content="summary"), block_stop(5)),
        *(tool_use(6, **CALLER), input_json(6, "{}"), block_stop(6)),
    )
    assert READER.parts(payloads) == [
        ThinkingPart(text="hm", item={"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
        ThinkingPart(text="", item={"type": "redacted_thinking", "data": "xyz"}),
        api.call_part("s1", "web_search", {"q": 1}, '{"q":1}', kind="server"),
        ResultPart(call_id="s1", result=[{"url": "u"}], item=RESULT),
        TextPart(text="fact", item={"type": "text", "text": "fact", "citations": [CITATION]}),
        OpaquePart(item={"type": "compaction", "content": "summary"}),
        api.call_part("toolu_1", "write", {}, "{}", item=CALL_ITEM),
    ]
    assert READER.parts([api.message_start(), *END_WITH_CONTAINER]) == [
        OpaquePart(item={"container": {"id": "container_1"}})
    ]


@pytest.mark.parametrize(
    "content", [[{"type": "web_search_result"}], {"type": "web_search_tool_result_error"}]
)
def test_call_that_the_provider_runs_ends_with_its_result(content: Any) -> None:
    start = block_start(0, "server_tool_use", id="s1", name="web_search", input={})
    result = block_start(1, "web_search_tool_result", tool_use_id="s1", content=content)
    _, events = assemble(turn(start, block_stop(0), result, block_stop(1)))
    done = ToolCallCompleted("s1", "web_search", {}, content)
    failed = ToolCallFailed("s1", "web_search", content)
    assert types(events)[:2] == ["tool_call_started", "tool_args_completed"]
    assert events[2] == (failed if isinstance(content, dict) else done)


test_error_truncates_the_call = READER.test_failures(
    [api.message_start(), tool_use(0), input_json(0, '{"a":1}')],
    [
        (
            {"type": "error", "error": {"type": type_, "message": "no"}},
            api.provider_failed(type_, "no", retry),
        )
        for type_, retry in {"overloaded_error": True, "authentication_error": False}.items()
    ],
)


def test_usage_includes_cached_tokens() -> None:
    cached = {"cache_read_input_tokens": 100, "cache_creation_input_tokens": 10}
    usage = {"input_tokens": 7, "output_tokens": 1, **cached}
    event = completed([api.message_start(usage=usage), *api.message_end()])
    assert (event.usage, event.stop_reason) == (Usage(117, 5, 100, 10), "tool_use")
    assert (event.message.id, event.message.model) == ("msg_1", "claude")


def test_new_message_ends_the_one_before() -> None:
    _, events = assemble([*ONE_OF_TWO, *api.anthropic_call("{}")])
    assert types([*api.failures(events), *api.turns(events)]) == ["stream_failed", "turn_completed"]
    # With a stop reason, but without message_stop, the turn is complete.
    calls, events = assemble([*api.anthropic_call("{}")[:-1], *api.anthropic_call("{}")])
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert len(api.turns(events)) == 2


def test_stream_is_read_from_the_middle() -> None:
    payloads = [block_delta(3, "text_delta", text="so"), tool_use(4), input_json(4, "{}")]
    calls, events = assemble([*payloads, block_stop(4), *api.message_end()])
    assert events[0] == TextDelta("so", 0)
    assert calls[0].verdict == "complete"

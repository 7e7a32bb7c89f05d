"""OpenAI Responses: rules that no recording shows alone, and lanes of a WebSocket."""

import json
from typing import Any

import pytest

from argstream import stream
from argstream.assembly import Call
from argstream.events import Event, ToolCallCompleted, Usage
from argstream.history import OpaquePart, TextPart, ThinkingPart
from tests import provider_streams as api
from tests.provider_streams import FUNCTION_CALL, Payload, failures, item_added, item_done, turns
from tests.providers.tables import Tables, cases
from tests.providers.test_openai_client_calls import RESPONSE, Form, as_dicts, as_objects

READER = Tables("openai-responses")
assemble, only_call = READER.assemble, READER.only_call


def turn(*payloads: Any, **ending: Any) -> list[Any]:
    return [api.response_created(), *payloads, api.response_ended(**ending)]


def empty(status: str) -> list[Any]:
    payloads = turn(item_added(0, **FUNCTION_CALL), api.arguments_done(0, ""), status=status)
    payloads[-1]["type"] = "response.completed"
    return payloads


def new_status(text: str) -> list[Any]:
    payloads = turn(item_added(0, **FUNCTION_CALL), api.arguments_delta(0, text))
    payloads[-1]["response"]["status"] = "brand_new"
    return payloads


CALL = api.responses_call('{"a": 1}')
PIECES = [api.arguments_delta(0, '{"a"'), api.arguments_delta(0, ": 1}")]
NAMED_DONE = {**api.arguments_done(0, '{"a": 1}'), "name": "write", "item_id": "fc_1"}
OPERATION = {"type": "create_file", "path": "a.py", "diff": "+b"}
PATCH = {"type": "apply_patch_call", "id": "apc", "call_id": "c1", "operation": OPERATION}

test_outcomes = READER.test_outcomes(
    {
        **cases("no text and", empty, {}, ["completed"]),
        **cases("no text and", empty, "truncated", ["incomplete", "cancelled"]),
        **cases("new status and", new_status, {"a": 1}, ['{"a":1}']),
        **cases("new status and", new_status, "truncated", [""]),
        "whole text and no end": (CALL[:3], ["truncated"]),
        "item is added twice": ([*CALL[:2], *CALL[1:]], [{"a": 1}]),
        "no items, name at the end": (turn(*PIECES, NAMED_DONE, output=[]), [{"a": 1}]),
        "no items and no name": (turn(*PIECES, api.arguments_done(0, '{"a": 1}')), ["malformed"]),
        "patch without deltas": (turn(item_done(0, **PATCH)), [OPERATION]),
    }
)


@pytest.mark.parametrize(
    ("delta", "done", "arguments", "raw", "reading"),
    [
        ('{"a"', '{"a":1}', {"a": 1}, '{"a":1}', None),  # deltas stopped early
        ('{"a":1} ', '{"a":1}', {"a": 1}, '{"a":1} ', None),
        ('{"a":1}', '{"a":2}', {"a": 2}, '{"a":1}', "restated"),
        ('{"a":"x"', '{"a": "x"}', {"a": "x"}, '{"a":"x"', "restated"),
    ],
)
def test_text_at_the_end_is_compared_with_the_deltas(
    delta: str, done: str, arguments: Any, raw: str, reading: str | None
) -> None:
    begun = [item_added(0, **FUNCTION_CALL), api.arguments_delta(0, delta)]
    call = only_call(turn(*begun, api.arguments_done(0, done)))
    assert (call.arguments, call.raw, call.reinterpreted) == (arguments, raw, reading)
    cut = {**FUNCTION_CALL, "arguments": done, "status": "incomplete"}
    assert only_call(turn(*begun, item_done(0, **cut))).verdict == "truncated"


def test_incomplete_response_truncates_its_last_call() -> None:
    ended = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    calls, events = assemble(
        turn(item_added(0, **FUNCTION_CALL), api.arguments_delta(0, '{"a":1}'), **ended)
    )
    assert calls[0].verdict == "truncated"
    assert turns(events)[0].stop_reason == "max_output_tokens"


def test_code_is_free_text_and_its_outputs_are_its_result() -> None:
    item = {"type": "code_interpreter_call", "id": "ci", "code": "", "outputs": []}
    outputs = [{"type": "logs", "logs": "2"}]
    type_ = "response.code_interpreter_call_code"
    payloads = turn(
        item_added(0, **item),
        {"type": f"{type_}.delta", "output_index": 0, "delta": "1+1"},
        {"type": f"{type_}.done", "output_index": 0, "code": "1+1"},
        item_done(0, **{**item, "code": "1+1", "outputs": outputs}),
    )
    calls, events = assemble(payloads)
    assert (calls[0].kind, calls[0].name) == ("code", "code_interpreter")
    assert ToolCallCompleted("ci", "code_interpreter", "1+1", outputs) in events


@pytest.mark.parametrize(
    ("fields", "type_"),
    [
        ({"output": "found", "error": None}, "tool_call_completed"),
        ({"output": None, "error": {"type": "mcp_protocol_error"}}, "tool_call_failed"),
    ],
)
def test_mcp_call_ends_with_its_result(fields: dict[str, Any], type_: str) -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "name": "ask", "server_label": "s", "arguments": ""}
    payloads = turn(
        item_added(0, **item),
        {"type": "response.mcp_call_arguments.delta", "output_index": 0, "delta": "{}"},
        {"type": "response.mcp_call_arguments.done", "output_index": 0, "arguments": "{}"},
        item_done(0, **{**item, "arguments": "{}", **fields}),
    )
    calls, events = assemble(payloads)
    assert (calls[0].kind, api.types(events)[-2]) == ("mcp", type_)


def test_diff_of_a_patch_grows() -> None:
    begun = {**OPERATION, "diff": ""}
    whole = {**OPERATION, "diff": '@@\n-"a"\n+b'}
    diff = {"type": "response.apply_patch_call_operation_diff.delta", "output_index": 0}
    payloads = turn(
        item_added(0, **{**PATCH, "operation": begun}),
        *({**diff, "delta": text} for text in ('@@\n-"a', '"\n+b')),
        item_done(0, **{**PATCH, "operation": whole}),
    )
    calls, events = assemble(payloads)
    assert (calls[0].kind, calls[0].name, calls[0].arguments) == ("patch", "apply_patch", whole)
    deltas = [event for event in events if event.type == "argument_delta"]
    assert [one.text for one in deltas if one.path == ("diff",)] == ['@@\n-"a', '"\n+b']


REASONING = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
CONTENT = [{"type": "output_text", "text": "hi", "annotations": []}]
MESSAGE = {"type": "message", "id": "m", "role": "assistant", "content": CONTENT}
SEARCH = {"type": "web_search_call", "id": "ws", "status": "completed"}
KEPT = {name: value for name, value in FUNCTION_CALL.items() if name != "arguments"}


def test_parts_that_must_go_back_are_kept() -> None:
    payloads = turn(
        item_added(0, **{**REASONING, "encrypted_content": ""}),
        *(item_done(0, **REASONING), item_done(1, **MESSAGE), item_done(2, **SEARCH)),
        *(item_added(3, **FUNCTION_CALL), api.arguments_done(3, "{}")),
        item_done(3, **{**FUNCTION_CALL, "arguments": "{}", "status": "completed"}),
    )
    assert READER.completed(payloads).message.parts == (
        *(ThinkingPart(text="", item=REASONING), TextPart(text="hi", item=MESSAGE)),
        OpaquePart(item=SEARCH),
        api.call_part("call_1", "write", {}, "{}", item={**KEPT, "status": "completed"}),
    )


def test_thinking_comes_from_summaries_and_from_reasoning_text() -> None:
    part = {"type": "response.reasoning_summary_part.added", "output_index": 0}
    text = {"type": "response.reasoning_summary_text.delta", "output_index": 0}
    payloads = turn(
        item_added(0, type="reasoning", id="rs"),
        *({**part, "summary_index": 0}, {**text, "delta": "one"}),
        *({**part, "summary_index": 1}, {**text, "delta": "two"}),
        item_done(0, type="reasoning", id="rs"),
        item_done(1, type="reasoning", id="rt", content=[{"type": "x", "text": "three"}]),
    )
    thoughts = [one.text for one in assemble(payloads)[1] if one.type == "thinking_completed"]
    assert thoughts == ["one\n\ntwo", "three"]


OOPS = {"code": "server_error", "message": "oops"}
FLAT = {"type": "error", "code": "ERR", "message": "no", "param": None, "sequence_number": 1}

test_error_truncates_the_call = READER.test_failures(
    [api.response_created(), item_added(0, **FUNCTION_CALL)],
    [
        (FLAT, api.provider_failed("ERR", "no")),
        (
            api.response_ended("failed", error=OOPS),
            api.provider_failed("server_error", "oops", True),
        ),
    ],
)


def test_error_and_the_failed_response_after_it_are_one_failure() -> None:
    error = {"type": "error", "error": OOPS, "sequence_number": 3}
    begun = [api.response_created(), item_added(0, **FUNCTION_CALL)]
    calls, events = assemble([*begun, error, api.response_ended("failed", error=OOPS)])
    assert failures(events) == [api.provider_failed("server_error", "oops", retryable=True)]
    assert (calls[0].verdict, turns(events)) == ("truncated", [])


def test_whole_response_is_read_like_a_stream() -> None:
    usage: Payload = {
        "input_tokens": 10,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4},
    }
    usage["output_tokens_details"] = {"reasoning_tokens": 3}
    item = {**FUNCTION_CALL, "arguments": '{"a":1}'}
    response = {"object": "response", "id": "resp_1", "status": "completed", "output": [item]}
    calls, events = assemble([{**response, "usage": usage}])
    assert calls[0].arguments == {"a": 1}
    assert turns(events)[0].usage == Usage(10, 5, cache_read_tokens=4, reasoning_tokens=3)


def test_several_responses_in_one_stream_are_several_turns() -> None:
    calls, events = assemble([*api.responses_call('{"a":1}'), *api.responses_call('{"a":2}')])
    assert [call.arguments for call in calls] == [{"a": 1}, {"a": 2}]
    assert len(turns(events)) == 2


def test_unknown_events_and_done_are_ignored() -> None:
    """Some gateways end every stream with [DONE]."""
    payloads = turn({"type": "response.brand_new", "delta": {"a": 1}}, {"type": "keepalive"})
    assert api.types(assemble([*payloads, b"[DONE]"])[1]) == ["turn_completed"]


# Lanes: several responses at the same time over one WebSocket


class Lane:
    """The events of one lane. Items have the same index and the same item ID in all lanes."""

    def __init__(self, name: str | None, response_id: str | None = None) -> None:
        self.name = name
        self.response_id = response_id or f"resp_{name}"

    def event(self, type_: str, **fields: Any) -> Payload:
        lane = {} if self.name is None else {"stream_id": self.name}
        return {"type": type_, "sequence_number": 1, **fields, **lane}

    def response(self, status: str) -> Payload:
        response = {**RESPONSE, "id": self.response_id, "status": status}
        return self.event(f"response.{status}", response=response)

    def item(self, what: str, text: str, status: str) -> Payload:
        ids = {"id": "fc_1", "call_id": f"call_{self.name}", "name": f"tool_{self.name}"}
        item = {"type": "function_call", **ids, "arguments": text, "status": status}
        return self.event(f"response.output_item.{what}", output_index=0, item=item)

    def started(self) -> list[Payload]:
        created = self.event("response.created", response={**RESPONSE, "id": self.response_id})
        return [created, self.item("added", "", "in_progress")]

    def delta(self, text: str) -> Payload:
        type_ = "response.function_call_arguments.delta"
        return self.event(type_, item_id="fc_1", output_index=0, delta=text)

    def ended(self, text: str) -> list[Payload]:
        return [self.item("done", text, "completed"), self.response("completed")]

    def error(self, message: str) -> Payload:
        error = {"code": "server_error", "message": message, "type": "server_error"}
        return self.event("error", error=error, status=500)


A, B = Lane("a"), Lane("b")
BEGUN = [*A.started(), *B.started(), A.delta('{"x"'), B.delta('{"y"')]
REST_OF_B = [B.delta(": 2"), B.delta("}"), *B.ended('{"y": 2}')]
REST = [
    *(B.delta(": 2"), A.delta(": 1"), A.delta("}"), B.delta("}")),
    *(A.ended('{"x": 1}')[0], *B.ended('{"y": 2}'), A.ended("")[1]),
]
BOTH = [("call_a", {"x": 1}), ("call_b", {"y": 2})]


def as_text(payloads: list[Payload]) -> list[Any]:
    return [json.dumps(payload) for payload in payloads]


FORMS = pytest.mark.parametrize("form", [as_dicts, as_objects, as_text])


def read(payloads: list[Any]) -> tuple[list[Call], list[Event]]:
    events = stream(payloads)
    found = list(events)
    return events.calls, found


@FORMS
def test_interleaved_lanes_are_two_turns(form: Form) -> None:
    calls, events = read(form([*BEGUN, *REST]))
    assert [(call.id, call.arguments) for call in calls] == BOTH
    assert {call.reinterpreted for call in calls} == {None}
    found = [(turn.message.id, turn.message.parts[0].call_id) for turn in turns(events)]
    assert found == [("resp_b", "call_b"), ("resp_a", "call_a")]
    assert failures(events) == []


@FORMS
def test_lane_may_start_and_end_while_another_one_is_open(form: Form) -> None:
    again = Lane("b", "resp_b2")
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    payloads = [
        *(*A.started(), A.delta('{"x"')),
        *(*B.started(), B.delta('{"y": 2}'), *B.ended('{"y": 2}'), A.delta(": 1")),
        *(again.started()[0], again.event("response.output_text.delta", delta="Hello.", **where)),
        *(A.delta("}"), again.response("completed"), *A.ended('{"x": 1}')),
    ]
    calls, events = read(form(payloads))
    assert [(call.id, call.arguments) for call in calls] == BOTH
    assert [turn.message.id for turn in turns(events)] == ["resp_b", "resp_b2", "resp_a"]
    assert api.texts(events) == ["Hello."]
    assert failures(events) == []


@FORMS
def test_error_of_one_lane_truncates_only_its_calls(form: Form) -> None:
    calls, events = read(form([*BEGUN, A.error("overloaded"), *REST_OF_B]))
    found = [(call.id, call.verdict) for call in calls]
    assert found == [("call_a", "truncated"), ("call_b", "complete")]
    assert [event.message for event in failures(events)] == ["overloaded"]
    assert [turn.message.id for turn in turns(events)] == ["resp_b"]


def test_error_without_a_lane_truncates_no_call() -> None:
    calls, events = read([*BEGUN, Lane(None).error("connection limit"), *REST])
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert [event.message for event in failures(events)] == ["connection limit"]

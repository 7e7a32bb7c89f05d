"""Gemini's generateContent: the rules and details of wire.md, and Google's own SDK."""

import asyncio
import json
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest
from google import genai
from google.genai import types as google

from argstream import stream
from argstream.assembly import Call
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    Event,
    StreamFailed,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    TurnCompleted,
    Usage,
)
from argstream.history import OpaquePart, ResultPart, TextPart, ThinkingPart
from tests import provider_streams as providers
from tests.answering import answering
from tests.provider_streams import call_part, joined, of_type, outcomes, types

USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}


def chunk(*parts: Any, finish: str | None = None, index: int | None = None, **fields: Any) -> Any:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    if index is not None:
        candidate["index"] = index
    common = {"responseId": "r1", "modelVersion": "gemini", "usageMetadata": USAGE}
    return {"candidates": [candidate], **common, **fields}


def call(name: str = "write", *, part: Any = None, **fields: Any) -> Any:
    return {"functionCall": {"name": name, **fields}, **(part or {})}


def begin(name: str = "write", **part: Any) -> Any:
    return chunk(call(name, willContinue=True, part=part))


def leaf(path: str, *, more: bool = False, **value: Any) -> Any:
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}


def piece(*leaves: Any, goes_on: bool = True) -> Any:
    more = {"willContinue": True} if goes_on else {}
    return {"functionCall": {"partialArgs": list(leaves), **more}}


END: Any = {"functionCall": {}}
STOP = chunk({"text": ""}, finish="STOP")


def assemble(*payloads: Any) -> tuple[list[Call], list[Event]]:
    return providers.assemble(payloads, protocol="gemini")


def only_call(*payloads: Any) -> Call:
    (found,) = assemble(*payloads)[0]
    return found


def completed(*payloads: Any) -> TurnCompleted:
    return providers.completed(payloads, protocol="gemini")


NOTHING = chunk({"functionCall": {"willContinue": True}})
ONE_LEAF = [begin(), chunk(piece(leaf("$.a", numberValue=1)))]
OPEN_STRING = [begin(), chunk(piece(leaf("$.a", stringValue="x", more=True)))]


def leaves(*found: Any) -> list[Any]:
    """A call whose arguments come as these leaves."""
    return [begin(), chunk(piece(*found)), chunk(END), STOP]


CALLS: dict[str, tuple[list[Any], list[Any]]] = {
    # Whole calls
    "two calls without ids": (
        [chunk(call(args={"a": 1}), call(args={"a": 2}), finish="STOP")],
        [{"a": 1}, {"a": 2}],
    ),
    "a name alone, and nothing was cut": ([chunk(call()), STOP], [{}]),
    "a name alone in a turn that was cut": (
        [chunk(call()), chunk(finish="MAX_TOKENS")],
        ["truncated"],
    ),
    "a name alone, and a new reason": ([chunk(call()), chunk(finish="NEW")], ["truncated"]),
    "empty arguments, and no end": ([chunk(call(args={}))], [{}]),
    "a call before the turn was cut": (
        [chunk(call(args={"a": 1})), chunk(finish="SAFETY")],
        [{"a": 1}],
    ),
    **{
        f"two calls in the piece that was cut by {finish}": (
            [chunk(call(args={"a": 1}), call(args={"a": 2}), finish=finish)],
            [{"a": 1}, "truncated"],
        )
        for finish in ("MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")
    },
    "half a character in an escape": (
        [json.dumps(chunk(call(args={"a": "@"}), finish="STOP")).replace("@", r"\ud83d").encode()],
        [{"a": "\ufffd"}],
    ),
    "unknown fields": (
        [{"brandNew": 7}, {**chunk(call(args={}, brandNew=1), finish="STOP"), "newField": {}}],
        [{}],
    ),
    "OpenAI's mark at the end": ([chunk(call(), finish="STOP"), b"[DONE]"], [{}]),
    # Arguments as leaves. A recording has no empty piece at the end of a call: its last piece just
    # does not say that more comes.
    "the last leaf ends the call": (
        [begin(), chunk(piece(leaf("$.a", numberValue=0.5), goes_on=False))],
        [{"a": 0.5}],
    ),
    "calls that follow each other": (
        [
            begin("first"),
            chunk(piece(leaf("$.id", stringValue="A")), END),
            begin("second"),
            chunk(piece(leaf("$.id", stringValue="B"))),
            chunk(END, finish="STOP"),
        ],
        [{"id": "A"}, {"id": "B"}],
    ),
    "the first leaf beside the name": (
        [
            chunk(call(partialArgs=[leaf("$.a", stringValue="x")], willContinue=True)),
            chunk(END),
            STOP,
        ],
        [{"a": "x"}],
    ),
    "all leaves beside the name": (
        [chunk(call(partialArgs=[leaf("$.a", stringValue="x")])), STOP],
        [{"a": "x"}],
    ),
    "pieces that say nothing": (
        [chunk(END), NOTHING, begin(), NOTHING, chunk(END), chunk(END), STOP],
        [{}],
    ),
    "leaves without a call": (
        [chunk(piece(leaf("$.a", numberValue=1))), chunk(END), STOP],
        ["malformed"],
    ),
    "null": (leaves(leaf("$.a", nullValue=None)), [{"a": None}]),
    "null by its name": (leaves(leaf("$.a", nullValue="NULL_VALUE")), [{"a": None}]),
    "null, left out": (leaves(leaf("$.a")), [{"a": None}]),
    "a string whose end lost what is empty": (
        [*OPEN_STRING, chunk(piece(leaf("$.a"))), chunk(END), STOP],
        [{"a": "x"}],
    ),
    "leaves in another order": (
        leaves(*(leaf(path, numberValue=1) for path in ("$.a.b", "$.c", "$.a.d"))),
        [{"a": {"b": 1, "d": 1}, "c": 1}],
    ),
    "a value of an unknown kind is not null": (leaves(leaf("$.a", listValue=[1])), ["truncated"]),
    **{
        f"{number} is no number": (leaves(leaf("$.a", numberValue=number)), ["malformed"])
        for number in ("NaN", "Infinity", "-Infinity", inf)
    },
    # A text that is cut lacks its brace; of leaves it is we who would write it (invariant 8).
    **{
        f"more was to come: {begun[1:] and 'a leaf'} {name}": ([*begun, *end], ["truncated"])
        for begun in (ONE_LEAF, ONE_LEAF[:1])
        for name, end in {
            "STOP": [STOP],
            "MAX_TOKENS": [chunk(finish="MAX_TOKENS")],
            "a new reason": [chunk(finish="NEW")],
            "nothing": [],
        }.items()
    },
    "more was to come, and the next call came": (
        [*ONE_LEAF, chunk(call("next", args={})), STOP],
        ["truncated", {}],
    ),
    "a string was to go on when the call ended": ([*OPEN_STRING, chunk(END), STOP], ["truncated"]),
    "a string was to go on when the turn ended": ([*OPEN_STRING, STOP], ["truncated"]),
    "an end in the piece in which the turn is cut": (
        [*ONE_LEAF, chunk(END, finish="MAX_TOKENS")],
        ["truncated"],
    ),
    "an end in the last piece": ([*ONE_LEAF, chunk(END, finish="STOP")], [{"a": 1}]),
}


@pytest.mark.parametrize(("payloads", "expected"), CALLS.values(), ids=CALLS)
def test_what_becomes_of_calls(payloads: list[Any], expected: list[Any]) -> None:
    calls, _ = assemble(*payloads)
    assert outcomes(calls) == expected
    assert len({found.id for found in calls}) == len(calls)


def test_a_call_comes_whole() -> None:
    payload = chunk(call(args={"a": [1]}, id="x"), finish="STOP")
    _, events = assemble(payload)
    found = only_call(payload)
    assert (found.id, found.arguments, found.raw) == ("x", {"a": [1]}, '{"a":[1]}')
    assert types(events)[-2:] == ["tool_args_completed", "turn_completed"]


def test_a_key_given_twice_is_not_chosen_from() -> None:
    payload = b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f",'
    payload += b'"args":{"a":1,"a":2}}}]},"finishReason":"STOP"}]}'
    calls, events = assemble(payload)
    assert not calls
    assert types(events)[0] == "stream_failed"


def test_leaves_are_shown_as_they_come_and_a_piece_that_says_nothing_ends_the_call() -> None:
    payloads = [
        begin(),
        chunk(piece(leaf("$.path", stringValue="a.", more=True))),
        chunk(piece(leaf("$.path", stringValue="py", more=True))),
        chunk(piece(leaf("$.path", stringValue=""))),
        chunk(piece(leaf("$.edits[0].line", numberValue=5), leaf("$.edits[0].on", boolValue=True))),
        chunk(piece(leaf("$.edits[1]", nullValue=None))),
        chunk(END),
        STOP,
    ]
    calls, events = assemble(*payloads)
    (found,) = calls
    assert found.arguments == {"path": "a.py", "edits": [{"line": 5, "on": True}, None]}
    assert found.reinterpreted is None
    assert [event.text for event in of_type(events, ArgumentDelta)] == ["a.", "py"]
    assert [event.path for event in of_type(events, ArgumentCompleted)] == [
        ("path",),
        ("edits", 0, "line"),
        ("edits", 0, "on"),
        ("edits", 0),
        ("edits", 1),
        ("edits",),
    ]


def test_leaves_that_contradict_each_other_make_the_call_malformed() -> None:
    calls, events = assemble(
        begin(),
        chunk(piece(leaf("$.a", stringValue="x"), leaf("$.a", stringValue="y"))),
        chunk(END),
        STOP,
    )
    assert calls[0].verdict == "malformed"
    assert of_type(events, ToolArgsInvalid)[0].error.path == ("a",)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("$.a", ("a",)),
        ("$.a.b[0][0].c", ("a", "b", 0, 0, "c")),
        ("$['x y']", ("x y",)),
        ('$["x y"].z', ("x y", "z")),
        ("$['a.b[0]']", ("a.b[0]",)),
        (r"$['it\'s'][" + '"say \\"x\\""]', ("it's", 'say "x"')),
        (r"$['\\\/\b\f\n\r\t']", ("\\/\b\f\n\r\t",)),
        (r"$['\u00e9\uD83D\uDE00']", ("é😀",)),
        ("$.é😀", ("é😀",)),
        ("$.with-dash and space", ("with-dash and space",)),
        ("$['']", ("",)),
        ("$['0'][0]", ("0", 0)),
    ],
)
def test_paths(written: str, path: Any) -> None:
    _, events = assemble(begin(), chunk(piece(leaf(written, stringValue="x"))), chunk(END), STOP)
    assert [event.path for event in of_type(events, ArgumentDelta)] == [path]


@pytest.mark.parametrize(
    "written",
    [
        *("", "$", "a", "$a", "$.", "$..a", "$.a.", "$.a[", "$[]", "$.a[*]", "$.a[-1]", "$.a[01]"),
        *("$.a[1:2]", "$['a", "$['a'", "$[a]", r"$['\x']", "$.a[99999999999999999999]", "$['a']b"),
    ],
)
def test_what_is_no_path_is_refused(written: str) -> None:
    found = only_call(begin(), chunk(piece(leaf(written, stringValue="x"))), chunk(END), STOP)
    assert found.verdict == "truncated"


# Text, thoughts, and what must go back


def test_text_and_thoughts_are_blocks_for_as_long_as_they_go_on() -> None:
    _, events = assemble(
        chunk({"text": "hm", "thought": True}),
        chunk({"text": "!", "thought": True}),
        chunk({"text": "so"}),
        chunk({"text": " be it"}, finish="STOP"),
    )
    assert joined(events)[:-1] == [
        ThinkingStarted(0),
        ThinkingDelta("hm!", 0),
        ThinkingCompleted("hm!", 0),
        TextDelta("so be it", 1),
    ]


def test_a_signature_goes_back_with_the_part_that_it_came_with() -> None:
    signed = {"thoughtSignature": "c2ln"}
    event = completed(
        chunk({"text": "hm", "thought": True}),
        chunk({"text": "!", "thought": True, **signed}),
        chunk({"text": "one "}),
        chunk({"text": "two", **signed}),
        chunk({"text": " three"}),
        chunk(call(args={"a": 1}, id="x", part=signed)),
        begin("other", **signed),
        chunk(piece(leaf("$.a", stringValue="y"))),
        chunk(END),
        chunk({"text": "", **signed}, finish="STOP"),
    )
    assert event.message.parts == (
        ThinkingPart(text="hm"),
        ThinkingPart(text="!", item={"text": "!", "thought": True, **signed}),
        TextPart(text="one "),
        TextPart(text="two", item={"text": "two", **signed}),
        TextPart(text=" three"),
        call_part(
            "x",
            "write",
            {"a": 1},
            '{"a":1}',
            item={"functionCall": {"name": "write", "id": "x"}, **signed},
        ),
        call_part(
            "call_r1_0_1",
            "other",
            {"a": "y"},
            '{"a":"y"}',
            item={"functionCall": {"name": "other"}, **signed},
        ),
        OpaquePart(item={"text": "", **signed}),
    )
    empty = {"text": "", "thought": True, **signed}
    assert completed(chunk(empty), STOP).message.parts == (ThinkingPart(text="", item=empty),)
    assert (event.message.id, event.message.model) == ("r1", "gemini")


def test_what_only_gemini_understands_is_kept_whole() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "c2ln"}
    event = completed(chunk({"text": "look: "}, picture, {"brandNew": {"x": 1}}), STOP)
    assert event.message.parts == (
        TextPart(text="look: "),
        OpaquePart(item=picture),
        OpaquePart(item={"brandNew": {"x": 1}}),
    )


@pytest.mark.parametrize("ids", [{}, {"id": "code1"}])
@pytest.mark.parametrize(("outcome", "failed"), [("OUTCOME_OK", False), ("OUTCOME_FAILED", True)])
def test_code_that_gemini_runs_is_a_call_with_its_result(
    ids: Any, outcome: str, failed: bool
) -> None:
    code = {"language": "PYTHON", "code": "print(1)", **ids}
    result = {"outcome": outcome, "output": "1\n", **ids}
    calls, events = assemble(
        chunk({"executableCode": code}), chunk({"codeExecutionResult": result}), STOP
    )
    (found,) = calls
    assert (found.kind, found.name, found.arguments) == ("code", "code_execution", "print(1)")
    done = of_type(events, ToolCallCompleted, ToolCallFailed)
    assert done == [
        ToolCallFailed(found.id, "code_execution", result)
        if failed
        else ToolCallCompleted(found.id, "code_execution", "print(1)", result)
    ]
    parts = of_type(events, TurnCompleted)[0].message.parts
    kept = {name: value for name, value in code.items() if name != "code"}
    assert parts[0].item == {"executableCode": kept}
    assert parts[1] == ResultPart(
        call_id=found.id, result=result, failed=failed, item={"codeExecutionResult": result}
    )


def test_a_tool_of_googles_is_a_call_with_its_result() -> None:
    tool = {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}}
    response = {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"found": 1}}
    calls, events = assemble(chunk({"toolCall": tool}), chunk({"toolResponse": response}), STOP)
    assert [(found.kind, found.id) for found in calls] == [("server", "t1")]
    (done,) = of_type(events, ToolCallCompleted)
    assert done == ToolCallCompleted("t1", "GOOGLE_SEARCH_WEB", {"queries": ["x"]}, {"found": 1})


# Ends


def test_every_reason_of_the_sdk_to_stop_is_known() -> None:
    for reason in google.FinishReason:
        found = only_call(chunk(call()), chunk(finish=reason.value))
        assert found.verdict == ("complete" if reason.value == "STOP" else "truncated"), reason
    for reason in set(google.FinishReason) - {google.FinishReason.STOP}:
        payloads = [begin(), chunk(piece(leaf("$.a", numberValue=1))), chunk(finish=reason.value)]
        assert only_call(*payloads).verdict == "truncated", reason


def test_usage_counts_thoughts_as_output() -> None:
    usage = {
        "promptTokenCount": 100,
        "toolUsePromptTokenCount": 10,
        "cachedContentTokenCount": 40,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 5,
    }
    event = completed(chunk({"text": "hi"}, finish="STOP"), {"usageMetadata": usage})
    assert event.usage == Usage(
        input_tokens=110, output_tokens=25, cache_read_tokens=40, reasoning_tokens=5
    )
    assert event.stop_reason == "STOP"
    without_numbers = completed(STOP, {"usageMetadata": {"trafficType": "ON_DEMAND"}})
    assert without_numbers.usage.input_tokens == 7  # which was known before


def test_candidates_are_kept_apart() -> None:
    calls, events = assemble(
        chunk(call("a", willContinue=True), index=0),
        chunk(call("b", willContinue=True), index=1),
        chunk(piece(leaf("$.x", numberValue=1)), index=0),
        chunk(piece(leaf("$.x", numberValue=2)), index=1),
        chunk(END, finish="STOP", index=0),
        chunk(finish="MAX_TOKENS", index=1),
    )
    assert [(found.name, found.verdict) for found in calls] == [
        ("a", "complete"),
        ("b", "truncated"),
    ]
    assert len(of_type(events, TurnCompleted)) == 1


def test_another_answer_begins_under_another_id() -> None:
    """The SDK answers calls by itself if it may, and goes on in the same stream."""
    second = chunk({"text": "done"}, finish="STOP", responseId="r2")
    _, events = assemble(chunk(call(args={})), STOP, second)
    turns = of_type(events, TurnCompleted)
    assert [turn.message.id for turn in turns] == ["r1", "r2"]


ERROR = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}


@pytest.mark.parametrize("wrapped", [ERROR, [ERROR], json.dumps([ERROR]).encode()])
def test_an_error_is_a_failure(wrapped: Any) -> None:
    calls, events = assemble(begin(), wrapped)
    assert calls[0].verdict == "truncated"
    assert events[-1] == StreamFailed("UNAVAILABLE", "overloaded", retryable=True)
    error = {"error": {"code": 400, "message": "bad key", "status": "INVALID_ARGUMENT"}}
    assert assemble(error)[1] == [StreamFailed("INVALID_ARGUMENT", "bad key", retryable=False)]


# Forms of a payload


TURN = [
    chunk({"text": "hm", "thought": True}),
    chunk(
        call("whole", args={"myKey": {"other_key": 1}}, id="x", part={"thoughtSignature": "+/+/"})
    ),
    begin("pieces"),
    chunk(piece(leaf("$.a.bC", stringValue="x", more=True))),
    chunk(piece(leaf("$.a.bC", stringValue=""), leaf("$.a.n", numberValue=5))),
    chunk(piece(leaf("$.a.z", nullValue=None))),
    chunk(END),
    chunk({"inlineData": {"mimeType": "image/png", "data": "+/+/"}}),
    chunk({"text": "bye"}, finish="STOP"),
]


def snake(value: Any) -> Any:
    """The names as some proxies send them; not those of the user."""
    if isinstance(value, list):
        return [snake(part) for part in value]
    if isinstance(value, dict):
        return {
            "".join(f"_{c.lower()}" if c.isupper() else c for c in name): part
            if name == "args"
            else snake(part)
            for name, part in value.items()
        }
    return value


FORMS: dict[str, Any] = {
    "bytes": [json.dumps(payload).encode() for payload in TURN],
    "text": [json.dumps(payload) for payload in TURN],
    "objects of the SDK": [google.GenerateContentResponse.model_validate(p) for p in TURN],
    "dicts of the SDK": [
        google.GenerateContentResponse.model_validate(payload).model_dump(exclude_none=True)
        for payload in TURN
    ],
    "one array": [json.dumps(TURN).encode()],
    "a list": [TURN],
}


@pytest.mark.parametrize("form", FORMS)
def test_whatever_form_payloads_have_they_mean_the_same(form: str) -> None:
    _, expected = assemble(*TURN)
    assert len(of_type(expected, TurnCompleted)) == 1
    _, events = assemble(*FORMS[form])
    if form == "dicts of the SDK":  # which have decoded the bytes
        assert types(events) == types(expected)
    else:
        assert events == expected


@pytest.mark.parametrize("encode", [json.dumps, lambda p: json.dumps(p).encode(), lambda p: p])
def test_names_in_snake_case_mean_the_same(encode: Any) -> None:
    calls, _ = assemble(*TURN)
    found, events = assemble(*(encode(snake(payload)) for payload in TURN))
    assert [(c.id, c.name, c.arguments, c.raw) for c in found] == [
        (c.id, c.name, c.arguments, c.raw) for c in calls
    ]
    (turn,) = of_type(events, TurnCompleted)
    assert turn.usage.input_tokens == 7
    assert turn.message.parts[1].item["thoughtSignature"] == "+/+/"


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"null", b"7", b"nonsense", b'{"candidates":7}', b"[7]"),
        b'{"candidates":[{"content":{"parts":7}}]}',
        b'{"candidates":[{"content":{"parts":[{"text":7}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"functionCall":7}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":"{}"}}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":7}}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{}]}}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":7}]}}]}}]}',
        json.dumps(chunk(piece(leaf("$.b", numberValue=[])))).encode(),
        json.dumps(chunk(piece(leaf("$.b", numberValue="nonsense")))).encode(),
        json.dumps(chunk(piece(leaf("$.b", stringValue=7)))).encode(),
    ],
)
def test_a_payload_of_a_wrong_form_truncates_what_is_open(payload: bytes) -> None:
    calls, events = assemble(begin(), chunk(piece(leaf("$.a", numberValue=1))), payload, STOP)
    assert calls[0].verdict == "truncated"
    assert "bad_payload" in [event.code for event in of_type(events, StreamFailed)]


def test_what_came_before_an_unreadable_part_is_known() -> None:
    bad = chunk({"text": "first"}, call("f", willContinue=True), piece(leaf("nonsense")))
    calls, events = assemble(bad, STOP)
    assert events[0] == TextDelta("first", 0)
    assert [(found.name, found.verdict) for found in calls] == [("f", "truncated")]


# Google's own client


@pytest.fixture
def client() -> Iterator[genai.Client]:
    body = b"".join(b"data: " + json.dumps(payload).encode() + b"\r\n\r\n" for payload in TURN)
    with answering(body) as address:
        options = google.HttpOptions(base_url=address)
        yield genai.Client(api_key="any", http_options=options)


@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")  # what the SDK does
def test_the_stream_of_googles_async_client_is_read(client: genai.Client) -> None:
    async def read() -> list[Event]:
        async with client.aio as models:
            # Not awaited: that is stream()'s business.
            source = models.models.generate_content_stream(model="gemini", contents="hi")
            return [event async for event in stream(source, "gemini")]

    assert asyncio.run(read()) == assemble(*TURN)[1]


# Found by attack


def test_a_reason_that_is_not_specified_is_none() -> None:
    """Where defaults are sent, every piece but the last has it."""
    none, path = "FINISH_REASON_UNSPECIFIED", leaf("$.path", stringValue="/tmp")
    payloads = [
        chunk(call("rm", willContinue=True, partialArgs=[path]), finish=none),
        chunk(piece(leaf("$.dry_run", boolValue=True)), finish=none),
        chunk({"functionCall": {}}, finish="STOP"),
    ]
    feedback = {"promptFeedback": {"blockReason": "BLOCKED_REASON_UNSPECIFIED"}}
    calls, events = assemble(feedback, *payloads)
    assert [call.arguments for call in calls] == [{"path": "/tmp", "dry_run": True}]
    assert events[-1].type == "turn_completed"


def test_names_in_snake_case_are_seen_wherever_they_are() -> None:
    blocked = json.dumps({"prompt_feedback": {"block_reason": "SAFETY"}})
    assert assemble(blocked)[1] == [StreamFailed("SAFETY", "the prompt was blocked")]
    content = {"parts": [{"text": "hi"}]}
    text = {"candidates": [{"content": content, "finish_reason": "STOP"}], "response_id": "r"}
    (turn,) = of_type(assemble(json.dumps(text))[1], TurnCompleted)
    assert turn.message.id == "r"


def test_what_a_dump_has_goes_back_as_it_is_on_the_wire() -> None:
    written = {"name": "f", "id": None, "args": {"a_b": "x"}}
    part = {"function_call": written, "thought_signature": b"\xff\xfe", "text": None}
    candidate = {"content": {"parts": [part]}, "finish_reason": "STOP"}
    (turn,) = of_type(assemble({"candidates": [candidate]})[1], TurnCompleted)
    item = turn.message.parts[0].item
    assert item == {"functionCall": {"name": "f"}, "thoughtSignature": "//4="}
    assert turn.message.parts[0].arguments == {"a_b": "x"}


def test_nothing_is_read_that_is_not_needed() -> None:
    """The SDK hangs the whole history on every chunk, with the pictures in it."""

    class Costly:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("nobody asked for this")

    payload = {**chunk(call(), finish="STOP"), "automatic_function_calling_history": [Costly()]}
    assert only_call(payload).verdict == "complete"


def test_a_payload_that_is_nested_too_deeply_is_told_as_that() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    _, events = assemble(chunk({"text": "x"}), chunk(call(args={"a": deep})))
    assert "nested too deeply" in of_type(events, StreamFailed)[0].message

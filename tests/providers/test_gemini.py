"""Gemini's generateContent: rules that no recording shows alone, and Google's own SDK."""

import json
from math import inf
from typing import Any

import pytest

from argstream import events as ev
from argstream import stream
from argstream.assembly import Call
from argstream.history import OpaquePart, ResultPart, TextPart, ThinkingPart
from tests import provider_streams as api
from tests.answering import answering
from tests.provider_streams import call_part, of_type, provider_failed, results, turns, types
from tests.providers.tables import Tables, cases

READER = Tables("gemini")
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


def assemble(*payloads: Any) -> tuple[list[Call], list[ev.Event]]:
    return READER.assemble(payloads)


def only_call(*payloads: Any) -> Call:
    return READER.only_call(payloads)


def completed(*payloads: Any) -> ev.TurnCompleted:
    return READER.completed(payloads)


NOTHING = chunk({"functionCall": {"willContinue": True}})
ONE = leaf("$.a", numberValue=1)
ONE_LEAF = [begin(), chunk(piece(ONE))]
OPEN_STRING = [begin(), chunk(piece(leaf("$.a", stringValue="x", more=True)))]
SURROGATE = json.dumps(chunk(call(args={"a": "@"}), finish="STOP")).replace("@", r"\ud83d").encode()
NEW_FIELDS = {**chunk(call(args={}, brandNew=1), finish="STOP"), "newField": {}}


def leaves(*found: Any) -> list[Any]:
    """A call whose arguments come as these leaves."""
    return [begin(), chunk(piece(*found)), chunk(END), STOP]


def name_alone(finish: str) -> list[Any]:
    return [chunk(call()), chunk(finish=finish)]


def two_calls(finish: str) -> list[Any]:
    return [chunk(call(args={"a": 1}), call(args={"a": 2}), finish=finish)]


def number(value: Any) -> list[Any]:
    return leaves(leaf("$.a", numberValue=value))


def at(path: str) -> list[Any]:
    return leaves(leaf(path, stringValue="x"))


def leaf_and(finish: str) -> list[Any]:
    """The model announced more leaves, so nothing closed the object (invariant 8)."""
    return [*ONE_LEAF, *([chunk(finish=finish)] if finish else [])]


def start_and(finish: str) -> list[Any]:
    return [begin(), *([chunk(finish=finish)] if finish else [])]


CUT = ["MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"]
INVALID_PATHS = [
    *("", "$", "a", "$a", "$.", "$..a", "$.a.", "$.a[", "$[]", "$.a[*]", "$.a[-1]", "$.a[01]"),
    *("$.a[1:2]", "$['a", "$['a'", "$[a]", r"$['\x']", "$.a[99999999999999999999]", "$['a']b"),
]
REASONS = ["STOP", "MAX_TOKENS", "NEW", ""]
A, B = leaf("$.id", stringValue="A"), leaf("$.id", stringValue="B")
MIXED = [leaf(path, numberValue=1) for path in ("$.a.b", "$.c", "$.a.d")]

test_outcomes = READER.test_outcomes(
    {
        # Whole calls
        "two calls without IDs": (two_calls("STOP"), [{"a": 1}, {"a": 2}]),
        **{f"two calls cut by {cut}": (two_calls(cut), [{"a": 1}, "truncated"]) for cut in CUT},
        **cases("a name alone and", name_alone, {}, ["STOP"]),
        **cases("a name alone and", name_alone, "truncated", ["MAX_TOKENS", "NEW"]),
        "empty arguments and no end": ([chunk(call(args={}))], [{}]),
        "cut after a call": ([chunk(call(args={"a": 1})), chunk(finish="SAFETY")], [{"a": 1}]),
        "lone surrogate": ([SURROGATE], [{"a": "\ufffd"}]),
        "unknown fields": ([{"brandNew": 7}, NEW_FIELDS], [{}]),
        "[DONE] at the end": ([chunk(call(), finish="STOP"), b"[DONE]"], [{}]),
        # Arguments as leaves. In recordings, the last piece only lacks willContinue.
        "last leaf ends the call": ([begin(), chunk(piece(ONE, goes_on=False))], [{"a": 1}]),
        "consecutive calls": (
            [begin(), chunk(piece(A), END), begin(), chunk(piece(B)), chunk(END, finish="STOP")],
            [{"id": "A"}, {"id": "B"}],
        ),
        "first leaf beside the name": (
            [chunk(call(partialArgs=[A], willContinue=True)), chunk(END), STOP],
            [{"id": "A"}],
        ),
        "all leaves beside the name": ([chunk(call(partialArgs=[A])), STOP], [{"id": "A"}]),
        "empty": ([chunk(END), NOTHING, begin(), NOTHING, chunk(END), chunk(END), STOP], [{}]),
        "leaves without a call": ([chunk(piece(ONE)), chunk(END), STOP], ["malformed"]),
        "null": (leaves(leaf("$.a", nullValue=None)), [{"a": None}]),
        "null by its name": (leaves(leaf("$.a", nullValue="NULL_VALUE")), [{"a": None}]),
        "null by no value": (leaves(leaf("$.a")), [{"a": None}]),
        "string ends without a value": (
            [*OPEN_STRING, chunk(piece(leaf("$.a"))), chunk(END), STOP],
            [{"a": "x"}],
        ),
        "leaves in another order": (leaves(*MIXED), [{"a": {"b": 1, "d": 1}, "c": 1}]),
        "value of an unknown kind": (leaves(leaf("$.a", listValue=[1])), ["truncated"]),
        **cases("number is", number, "malformed", ["NaN", "Infinity", "-Infinity", inf]),
        **cases("invalid path", at, "truncated", INVALID_PATHS),
        **cases("leaf without an end and", leaf_and, "truncated", REASONS),
        **cases("start without an end and", start_and, "truncated", REASONS),
        "next call before the end": ([*ONE_LEAF, chunk(call(args={})), STOP], ["truncated", {}]),
        "call ends in an open string": ([*OPEN_STRING, chunk(END), STOP], ["truncated"]),
        "turn ends in an open string": ([*OPEN_STRING, STOP], ["truncated"]),
        "end in the cut chunk": ([*ONE_LEAF, chunk(END, finish="MAX_TOKENS")], ["truncated"]),
        "end in the last chunk": ([*ONE_LEAF, chunk(END, finish="STOP")], [{"a": 1}]),
    }
)


def test_whole_call_keeps_its_id() -> None:
    payload = chunk(call(args={"a": [1]}, id="x"), finish="STOP")
    found = only_call(payload)
    assert (found.id, found.arguments, found.raw) == ("x", {"a": [1]}, '{"a":[1]}')
    assert types(assemble(payload)[1])[-2:] == ["tool_args_completed", "turn_completed"]
    twice = json.dumps(payload).replace('{"a": [1]}', '{"a": 1, "a": 2}').encode()
    calls, events = assemble(twice)
    assert (calls, types(events)[0]) == ([], "stream_failed")


def test_leaves_are_shown_as_they_come() -> None:
    payloads = [
        begin(),
        *(chunk(piece(leaf("$.path", stringValue=text, more=True))) for text in ("a.", "py")),
        chunk(piece(leaf("$.path", stringValue=""))),
        chunk(piece(leaf("$.edits[0].line", numberValue=5), leaf("$.edits[0].on", boolValue=True))),
        *(chunk(piece(leaf("$.edits[1]", nullValue=None))), chunk(END), STOP),
    ]
    (found,), events = assemble(*payloads)
    assert found.arguments == {"path": "a.py", "edits": [{"line": 5, "on": True}, None]}
    assert found.reinterpreted is None
    assert [event.text for event in of_type(events, ev.ArgumentDelta)] == ["a.", "py"]
    assert [event.path for event in of_type(events, ev.ArgumentCompleted)] == [
        *(("path",), ("edits", 0, "line"), ("edits", 0, "on")),
        *(("edits", 0), ("edits", 1), ("edits",)),
    ]


@pytest.mark.parametrize(
    ("written", "path"),
    [
        *(("$.a", ("a",)), ("$.a.b[0][0].c", ("a", "b", 0, 0, "c")), ("$['x y']", ("x y",))),
        *(('$["x y"].z', ("x y", "z")), ("$['a.b[0]']", ("a.b[0]",))),
        (r"$['it\'s'][" + '"say \\"x\\""]', ("it's", 'say "x"')),
        (r"$['\\\/\b\f\n\r\t']", ("\\/\b\f\n\r\t",)),
        *((r"$['\u00e9\uD83D\uDE00']", ("é😀",)), ("$.é😀", ("é😀",))),
        ("$.with-dash and space", ("with-dash and space",)),
        *(("$['']", ("",)), ("$['0'][0]", ("0", 0))),
    ],
)
def test_path_of_a_leaf_is_parsed(written: str, path: Any) -> None:
    _, events = assemble(*at(written))
    assert [event.path for event in of_type(events, ev.ArgumentDelta)] == [path]


def test_text_and_thoughts_are_blocks() -> None:
    thoughts = [chunk({"text": text, "thought": True}) for text in ("hm", "!")]
    _, events = assemble(*thoughts, chunk({"text": "so"}), chunk({"text": " be it"}, finish="STOP"))
    thinking = [ev.ThinkingStarted(0), ev.ThinkingDelta("hm!", 0), ev.ThinkingCompleted("hm!", 0)]
    assert api.joined(events)[:-1] == [*thinking, ev.TextDelta("so be it", 1)]


SIGNED = {"thoughtSignature": "c2ln"}
EMPTY_THOUGHT = {"text": "", "thought": True, **SIGNED}
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, **SIGNED}
NAMED = {"functionCall": {"name": "write", "id": "x"}, **SIGNED}


def test_parts_that_must_go_back_are_kept() -> None:
    payloads = [
        *(chunk({"text": "hm", "thought": True}), chunk({**EMPTY_THOUGHT, "text": "!"})),
        *(chunk({"text": "one "}), chunk({"text": "two", **SIGNED})),
        chunk({"text": " three"}),
        chunk(call(args={"a": 1}, id="x", part=SIGNED)),
        *(begin("other", **SIGNED), chunk(piece(leaf("$.a", stringValue="y")))),
        *(chunk(END), chunk({"text": "", **SIGNED}, finish="STOP")),
    ]
    assert READER.parts(payloads) == [
        ThinkingPart(text="hm"),
        ThinkingPart(text="!", item={**EMPTY_THOUGHT, "text": "!"}),
        *(TextPart(text="one "), TextPart(text="two", item={"text": "two", **SIGNED})),
        TextPart(text=" three"),
        call_part("x", "write", {"a": 1}, '{"a":1}', item=NAMED),
        call_part(
            *("call_r1_0_1", "other", {"a": "y"}, '{"a":"y"}'),
            item={"functionCall": {"name": "other"}, **SIGNED},
        ),
        OpaquePart(item={"text": "", **SIGNED}),
    ]
    assert READER.parts([chunk(EMPTY_THOUGHT), STOP]) == [ThinkingPart(text="", item=EMPTY_THOUGHT)]
    assert READER.parts([chunk({"text": "look: "}, PICTURE, {"brandNew": {"x": 1}}), STOP]) == [
        TextPart(text="look: "),
        *(OpaquePart(item=PICTURE), OpaquePart(item={"brandNew": {"x": 1}})),
    ]


@pytest.mark.parametrize("ids", [{}, {"id": "code1"}])
@pytest.mark.parametrize("outcome", ["OUTCOME_OK", "OUTCOME_FAILED"])
def test_code_that_gemini_runs_is_a_call_with_its_result(ids: Any, outcome: str) -> None:
    code = {"language": "PYTHON", **ids}
    result = {"outcome": outcome, "output": "1\n", **ids}
    (found,), events = assemble(
        chunk({"executableCode": {**code, "code": "print(1)"}}),
        *(chunk({"codeExecutionResult": result}), STOP),
    )
    assert (found.kind, found.name, found.arguments) == ("code", "code_execution", "print(1)")
    is_failed = outcome == "OUTCOME_FAILED"
    failed = ev.ToolCallFailed(found.id, "code_execution", result)
    done = ev.ToolCallCompleted(found.id, "code_execution", "print(1)", result)
    assert results(events) == [failed if is_failed else done]
    first, second = turns(events)[0].message.parts
    assert first.item == {"executableCode": code}
    item = {"codeExecutionResult": result}
    assert second == ResultPart(call_id=found.id, result=result, failed=is_failed, item=item)


def test_tool_that_google_runs_is_a_call_with_its_result() -> None:
    tool = {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}}
    response = {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"found": 1}}
    calls, events = assemble(chunk({"toolCall": tool}), chunk({"toolResponse": response}), STOP)
    assert [(found.kind, found.id) for found in calls] == [("server", "t1")]
    done = ev.ToolCallCompleted("t1", "GOOGLE_SEARCH_WEB", {"queries": ["x"]}, {"found": 1})
    assert results(events) == [done]


def test_only_stop_completes_a_call_without_arguments() -> None:
    from google.genai import types as google

    for reason in google.FinishReason:
        found = only_call(*name_alone(reason.value))
        assert found.verdict == ("complete" if reason.value == "STOP" else "truncated"), reason
        assert only_call(*leaf_and(reason.value)).verdict == "truncated", reason


def test_usage_counts_thoughts_as_output() -> None:
    read = {"promptTokenCount": 100, "toolUsePromptTokenCount": 10, "cachedContentTokenCount": 40}
    usage = {**read, "candidatesTokenCount": 20, "thoughtsTokenCount": 5}
    event = completed(chunk({"text": "hi"}, finish="STOP"), {"usageMetadata": usage})
    assert event.usage == ev.Usage(110, 25, cache_read_tokens=40, reasoning_tokens=5)
    assert (event.stop_reason, event.message.id, event.message.model) == ("STOP", "r1", "gemini")
    without_numbers = completed(STOP, {"usageMetadata": {"trafficType": "ON_DEMAND"}})
    assert without_numbers.usage.input_tokens == 7


def test_candidates_are_separate() -> None:
    calls, events = assemble(
        *(chunk(call(name, willContinue=True), index=n) for n, name in enumerate("ab")),
        *(chunk(piece(leaf("$.x", numberValue=n)), index=n) for n in range(2)),
        *(chunk(END, finish="STOP", index=0), chunk(finish="MAX_TOKENS", index=1)),
    )
    found = [(one.name, one.verdict) for one in calls]
    assert found == [("a", "complete"), ("b", "truncated")]
    assert len(turns(events)) == 1


def test_new_response_id_starts_a_turn() -> None:
    """The SDK can run calls by itself and continues in the same stream."""
    second = chunk({"text": "done"}, finish="STOP", responseId="r2")
    _, events = assemble(chunk(call(args={})), STOP, second)
    assert [turn.message.id for turn in turns(events)] == ["r1", "r2"]


def test_unspecified_finish_reason_is_none() -> None:
    """Servers that send defaults send it in every chunk but the last."""
    none, path = "FINISH_REASON_UNSPECIFIED", leaf("$.path", stringValue="/tmp")
    calls, events = assemble(
        {"promptFeedback": {"blockReason": "BLOCKED_REASON_UNSPECIFIED"}},
        chunk(call("rm", willContinue=True, partialArgs=[path]), finish=none),
        chunk(piece(leaf("$.dry_run", boolValue=True)), finish=none),
        chunk(END, finish="STOP"),
    )
    assert [call.arguments for call in calls] == [{"path": "/tmp", "dry_run": True}]
    assert events[-1].type == "turn_completed"


def error(code: int, message: str, status: str) -> Any:
    return {"error": {"code": code, "message": message, "status": status}}


OVERLOADED = error(503, "overloaded", "UNAVAILABLE")
FORMS_OF_ERROR = [OVERLOADED, [OVERLOADED], json.dumps([OVERLOADED]).encode()]

test_error_truncates_the_call = READER.test_failures(
    [begin()],
    [
        *((one, provider_failed("UNAVAILABLE", "overloaded", True)) for one in FORMS_OF_ERROR),
        (error(400, "bad key", "INVALID_ARGUMENT"), provider_failed("INVALID_ARGUMENT", "bad key")),
    ],
)


TURN = [
    chunk({"text": "hm", "thought": True}),
    chunk(
        call("whole", args={"myKey": {"other_key": 1}}, id="x", part={"thoughtSignature": "+/+/"})
    ),
    *(begin("pieces"), chunk(piece(leaf("$.a.bC", stringValue="x", more=True)))),
    chunk(piece(leaf("$.a.bC", stringValue=""), leaf("$.a.n", numberValue=5))),
    *(chunk(piece(leaf("$.a.z", nullValue=None))), chunk(END)),
    chunk({"inlineData": {"mimeType": "image/png", "data": "+/+/"}}),
    chunk({"text": "bye"}, finish="STOP"),
]


def test_every_form_of_a_payload_gives_the_same_events() -> None:
    from google.genai import types as google

    expected = assemble(*TURN)[1]
    assert len(turns(expected)) == 1
    objects = [google.GenerateContentResponse.model_validate(payload) for payload in TURN]
    texts = [json.dumps(payload) for payload in TURN]
    whole = json.dumps(TURN).encode()
    for form in ([text.encode() for text in texts], texts, objects, [whole], [TURN]):
        assert assemble(*form)[1] == expected
    dicts = [found.model_dump(exclude_none=True) for found in objects]  # with decoded bytes
    assert types(assemble(*dicts)[1]) == types(expected)


def snake(value: Any) -> Any:
    """Return the payload in snake case, as some proxies send it, except for the arguments."""
    if isinstance(value, list):
        return [snake(part) for part in value]
    if not isinstance(value, dict):
        return value
    names = {name: "".join(f"_{c.lower()}" if c.isupper() else c for c in name) for name in value}
    return {names[name]: part if name == "args" else snake(part) for name, part in value.items()}


@pytest.mark.parametrize("encode", [json.dumps, lambda p: json.dumps(p).encode(), lambda p: p])
def test_names_in_snake_case_are_read(encode: Any) -> None:
    calls, _ = assemble(*TURN)
    found, events = assemble(*(encode(snake(payload)) for payload in TURN))
    expected = [(c.id, c.name, c.arguments, c.raw) for c in calls]
    assert [(c.id, c.name, c.arguments, c.raw) for c in found] == expected
    (turn,) = turns(events)
    assert (turn.message.id, turn.usage.input_tokens) == ("r1", 7)
    assert turn.message.parts[1].item["thoughtSignature"] == "+/+/"
    blocked = encode({"prompt_feedback": {"block_reason": "SAFETY"}})
    assert assemble(blocked)[1] == [provider_failed("SAFETY", "the prompt was blocked")]


def test_parts_of_a_dump_go_back_in_the_form_of_the_wire() -> None:
    written = {"name": "f", "id": None, "args": {"a_b": "x"}}
    part = {"function_call": written, "thought_signature": b"\xff\xfe", "text": None}
    candidate = {"content": {"parts": [part]}, "finish_reason": "STOP"}
    (kept,) = turns(assemble({"candidates": [candidate]})[1])[0].message.parts
    assert kept.item == {"functionCall": {"name": "f"}, "thoughtSignature": "//4="}
    assert kept.arguments == {"a_b": "x"}


def parts(text: str) -> bytes:
    return f'{{"candidates":[{{"content":{{"parts":{text}}}}}]}}'.encode()


test_unreadable_payload_truncates_the_call = READER.test_unreadable(
    ONE_LEAF,
    [
        *(b"", b"null", b"7", b"nonsense", b'{"candidates":7}', b"[7]"),
        *(parts("7"), parts('[{"text":7}]'), parts('[{"functionCall":7}]')),
        parts('[{"functionCall":{"name":"f","args":"{}"}}]'),
        *(parts(f'[{{"functionCall":{{"partialArgs":{x}}}}}]') for x in ("7", "[{}]")),
        parts('[{"functionCall":{"partialArgs":[{"jsonPath":7}]}}]'),
        json.dumps(chunk(piece(leaf("$.b", numberValue=[])))).encode(),
        json.dumps(chunk(piece(leaf("$.b", numberValue="nonsense")))).encode(),
        json.dumps(chunk(piece(leaf("$.b", stringValue=7)))).encode(),
    ],
    [STOP],
)


def test_parts_before_an_unreadable_part_are_read() -> None:
    bad = chunk({"text": "first"}, call("f", willContinue=True), piece(leaf("nonsense")))
    calls, events = assemble(bad, STOP)
    assert events[0] == ev.TextDelta("first", 0)
    assert [(found.name, found.verdict) for found in calls] == [("f", "truncated")]


def test_only_needed_fields_are_read() -> None:
    """The SDK attaches the whole history to every chunk, with its pictures."""

    class Costly:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("this field is not needed")

    payload = {**chunk(call(), finish="STOP"), "automatic_function_calling_history": [Costly()]}
    assert only_call(payload).verdict == "complete"


def test_deeply_nested_payload_is_a_failure() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    _, events = assemble(chunk({"text": "x"}), chunk(call(args={"a": deep})))
    assert "nested too deeply" in api.failures(events)[0].message


@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")  # of the SDK
async def test_stream_of_the_async_client_is_read() -> None:
    from google import genai

    body = b"".join(b"data: " + json.dumps(payload).encode() + b"\r\n\r\n" for payload in TURN)
    with answering(body) as address:
        async with genai.Client(api_key="any", http_options={"base_url": address}).aio as models:
            # stream() awaits it.
            source = models.models.generate_content_stream(model="gemini", contents="hi")
            events = [event async for event in stream(source, "gemini")]
    assert events == assemble(*TURN)[1]

"""Payloads that no provider should send: none of them raises or makes an incomplete call complete.

Payloads are dropped, repeated, swapped and damaged, at random and by hand (invariants 8 to 10).
"""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from argstream import events as ev
from argstream import stream
from argstream.jsonstream import Limits
from argstream.testing import cut
from tests import provider_streams as api
from tests.provider_streams import Payload, assemble, chat_call, chunk, entry, tool_calls, tool_use

PIECES = ['{"path": "/tmp/', 'é😀", "edits"', ": [1, null", ', {"old": ""}]}']

LONG_TURNS: dict[str, list[Payload]] = {
    "anthropic": [
        api.message_start(),
        api.block_start(0, "thinking", thinking=""),
        api.block_delta(0, "thinking_delta", thinking="hm"),
        api.block_delta(0, "signature_delta", signature="sig"),
        api.block_stop(0),
        api.block_start(1, "text", text=""),
        api.block_delta(1, "text_delta", text="so"),
        api.block_delta(1, "citations_delta", citation={"url": "u"}),
        api.block_stop(1),
        tool_use(2, id_="a"),
        tool_use(3, id_="b"),
        *(api.input_json(index, piece) for piece in PIECES for index in (2, 3)),
        api.block_stop(2),
        api.block_stop(3),
        api.block_start(4, "server_tool_use", id="s", name="search", input={"q": 1}),
        api.block_stop(4),
        api.block_start(5, "web_search_tool_result", tool_use_id="s", content=[{"url": "u"}]),
        api.block_stop(5),
        *api.message_end(),
    ],
    "chat": [
        chunk(role="assistant", content=""),
        chunk(reasoning_content="hm"),
        chunk(content="so"),
        tool_calls(entry("", index=0, id="a", name="write")),
        tool_calls(entry("", index=1, id="b", name="write")),
        *(tool_calls(entry(piece, index=index)) for piece in PIECES for index in (0, 1)),
        chunk(function_call={"name": "old", "arguments": "{}"}),
        chunk(finish="tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 1}},
    ],
    "responses": [
        api.response_created(),
        api.item_added(0, type="reasoning", id="r"),
        api.item_done(0, type="reasoning", id="r", summary=[{"type": "x", "text": "hm"}]),
        *api.responses_call(*PIECES)[1:-1],
        api.item_added(2, type="custom_tool_call", id="c", call_id="cc", name="sql", input=""),
        {"type": "response.custom_tool_call_input.delta", "output_index": 2, "delta": "select"},
        api.item_done(2, type="custom_tool_call", id="c", call_id="cc", name="sql", input="select"),
        api.response_ended(output=[{"type": "message", "content": [{"text": "hi"}]}]),
    ],
}


ENDS = ("turn_completed", "stream_failed")


def check(events: list[ev.Event], calls: list[Any], ends: Sequence[str] = ENDS) -> None:
    """Check what holds for the events of every stream. ``ends`` are the types of the last event."""
    started: list[str] = []  # the text of each call, in order
    places: dict[str, int] = {}  # index of the newest call with the ID; IDs may repeat
    settled: set[int] = set()
    for event in events:
        assert ev.from_json(ev.to_json(event)) == event
        call_id = getattr(event, "call_id", "")
        if isinstance(event, ev.ToolCallStarted):
            assert call_id not in places or places[call_id] in settled
            places[call_id] = len(started)
            started.append("")
        elif isinstance(event, ev.ToolArgsDelta):
            assert event.delta
            assert places[call_id] not in settled
            started[places[call_id]] += event.delta
        elif isinstance(event, ev.ToolArgsCompleted | ev.ToolArgsInvalid):
            assert places[call_id] not in settled
            settled.add(places[call_id])
        elif event.type.startswith("argument_"):
            assert places[call_id] not in settled
        elif event.type.startswith("tool_call_"):
            assert places[call_id] in settled
    assert len(settled) == len(started) == len(calls)
    for call, text in zip(calls, started, strict=True):
        assert call.verdict != "open"
        assert call.raw.startswith(text)
        if call.verdict == "complete":
            assert call.raw == text
    assert events[-1].type in ends


ODD_VALUES: list[Any] = [None, 3, -1.5, True, "", "x", "\ud83d", [], ["x"], {}, {"type": "text"}]


def damaged(value: Any, random: Random) -> Any:
    """Replace something inside a payload."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice(list(value))
        return {**value, key: damaged(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        return [*value[:at], damaged(value[at], random), *value[at + 1 :]]
    return random.choice([*ODD_VALUES, [[[]]]])


@pytest.mark.bulk
@pytest.mark.parametrize("name", LONG_TURNS)
@pytest.mark.parametrize("seed", range(4))
def test_events_of_a_shuffled_and_damaged_turn_are_consistent(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    for _ in range(60):
        turn: list[Any] = list(LONG_TURNS[name])
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(turn))
            match random.randrange(5):
                case 0 if len(turn) > 1:
                    del turn[at]
                case 1:
                    turn.insert(random.randrange(len(turn)), turn[at])
                case 2:
                    other = random.randrange(len(turn))
                    turn[at], turn[other] = turn[other], turn[at]
                case 3:
                    turn[at] = damaged(turn[at], random)
                case _:
                    turn = turn[: at + 1]
        calls, events = assemble(turn)
        check(events, calls)


@pytest.mark.bulk
@pytest.mark.parametrize("name", LONG_TURNS)
@pytest.mark.parametrize("seed", range(3))
def test_events_of_damaged_bytes_are_consistent_in_any_chunking(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    body = api.sse(LONG_TURNS[name])
    for _ in range(30):
        data = bytearray(body)
        for _ in range(random.randint(1, 5)):
            data[random.randrange(len(data))] = random.randrange(256)
        events = stream([bytes(data)])
        found = list(events)
        check(found, events.calls)
        sizes = [random.randint(0, 90) for _ in range(50)]
        assert api.joined(stream(cut(bytes(data), [*sizes, 7]))) == api.joined(found)


def messages(*payloads: Payload, stop: str = "tool_use") -> list[Any]:
    return [api.message_start(), *payloads, *api.message_end(stop)]


def chats(*payloads: Payload, finish: str = "tool_calls") -> list[Any]:
    return [*payloads, chunk(finish=finish)]


def responses(*payloads: Payload, end: Payload | None = None) -> list[Any]:
    return [api.response_created(), *payloads, end or api.response_ended()]


def item(**fields: Any) -> Payload:
    return {**api.FUNCTION_CALL, **fields}


def done(**fields: Any) -> Payload:
    return api.item_done(0, **item(**fields))


def message(*inputs: Any, stop: str | None = "max_tokens") -> list[Any]:
    """A whole message of Anthropic, with a call for each input."""
    blocks = [{"type": "tool_use", "id": f"t{n}", "name": "t"} for n in range(len(inputs))]
    content = [{**block, "input": given} for block, given in zip(blocks, inputs, strict=True)]
    return [{"type": "message", "content": content, "stop_reason": stop}]


def free_text(text: str, index: int = 0, **fields: Any) -> Payload:
    return tool_calls({"index": index, "id": f"c{index}", "custom": {"input": text, **fields}})


def patch(**operation: Any) -> Payload:
    return {"type": "apply_patch_call", "call_id": "p", "operation": operation}


def patch_delta(text: Any) -> Payload:
    type_ = "response.apply_patch_call_operation_diff.delta"
    return {"type": type_, "output_index": 0, "delta": text}


def with_finish(reason: str, turn: list[Any]) -> list[Any]:
    for payload in turn:
        payload["choices"][0]["finish_reason"] = payload["choices"][0]["finish_reason"] or reason
    return turn


def by_item_id(id_: str) -> list[Payload]:
    """A call of Responses whose payloads have no index."""
    named = item(id=id_, call_id=f"call_{id_}")
    type_ = "response.function_call_arguments.delta"
    return [
        {"type": "response.output_item.added", "item": named},
        {"type": type_, "item_id": id_, "delta": json.dumps({"id": id_})},
        {"type": "response.output_item.done", "item": named},
    ]


TRUNCATED, MALFORMED, ONE = ["truncated"], ["malformed"], [{"a": 1}]
A1 = '{"a":1}'
WHOLE = item(arguments=A1)
ADDED = api.item_added(0, **api.FUNCTION_CALL)
LIVE = [ADDED, api.arguments_delta(0, A1)]
CUT = api.response_ended("incomplete")
UPDATE = {"type": "update_file", "path": "a", "diff": "+x\n+y"}
SEARCH = api.block_start(0, "server_tool_use", id="s", name="search", input={"q": 1})
FOUND = api.block_start(1, "web_search_tool_result", tool_use_id="s", content=[])
A_CALL, A_CHAT = api.anthropic_call(A1), chat_call('{"a":1', "}")
UTF_8_HEAD = b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta",'
CUT_UTF_8: list[Any] = [
    UTF_8_HEAD + b'"partial_json":"{\\"a\\": \\"\xf0\x9f"}}',
    UTF_8_HEAD + b'"partial_json":"\x98\x80\\"}"}}',
    api.block_stop(0),
]

# Name, payloads, and for each call its arguments if it is complete or else its verdict.
TURNS: list[tuple[str, list[Any], list[Any]]] = [
    # Whole, but reported as cut
    ("message with max_tokens", message({"path": "a"}), TRUNCATED),
    ("empty message with max_tokens", message({}), TRUNCATED),
    ("message without stop reason", message({"a": 1}, stop=None), TRUNCATED),
    ("only the last call of a cut message is cut", message({"a": 1}, {}), [*ONE, "truncated"]),
    ("only the last call of a cut response is cut",
     [{"object": "response", "status": "incomplete", "output": [
         item(id=id_, call_id=id_, arguments="{}") for id_ in ("x", "y")]}], [{}, "truncated"]),
    *((f"{status} response without status, text {text!r}",
       responses(ADDED, api.arguments_delta(0, text),
                 end={"type": f"response.{status}", "response": {"id": "resp_1"}}), TRUNCATED)
      for status in ("failed", "incomplete", "cancelled") for text in (A1, "")),
    ("incomplete patch",
     responses(api.item_done(0, **patch(**UPDATE), status="incomplete"), end=CUT), TRUNCATED),
    ("items that a cut response never closed",
     responses(api.item_added(0, **patch(type="update_file", path="a")), patch_delta("+x"),
               api.item_added(1, **api.FUNCTION_CALL), end=CUT), TRUNCATED * 2),
    ("response in progress",
     [{"object": "response", "status": "in_progress", "output": [WHOLE]}], TRUNCATED),
    ("incomplete response with status completed",
     responses(ADDED, end={**CUT, "response": {**CUT["response"], "status": "completed"}}),
     TRUNCATED),
    # Free text
    *((f"free text with finish reason {finish}",
       chats(free_text("rm -rf /tmp/", name="sh"), finish=finish), TRUNCATED)
      for finish in ("max_tokens", "MAX_TOKENS", "abort", "insufficient_system_resource", "new")),
    ("free text that goes on after a later call began",
     chats(free_text("a", 0, name="sh"), free_text("a", 1, name="sh"), free_text("b", 0),
           finish="length"), TRUNCATED * 2),
    ("free text before a later call",
     chats(free_text("a", 0, name="sh"), free_text("a", 1, name="sh"), finish="length"),
     ["a", "truncated"]),
    # Lost or odd pieces
    ("payload lost before the name came",
     [tool_calls(entry('{"a":"x', id="c")), b"?", *chats(tool_calls(entry('y"}', name="t")))],
     TRUNCATED),
    ("piece of a patch that is a number",
     responses(api.item_added(0, **patch(type="create_file")), patch_delta(5)), TRUNCATED),
    *((f"piece of Anthropic without place {odd}", [*A_CALL[:3], odd, *A_CALL[3:]], TRUNCATED)
      for odd in (
          {"type": "content_block_delta", "delta": api.input_json(0, "x")["delta"]},
          {"type": "content_block_delta", "index": 0},
          {"type": "content_block_delta", "index": 0, "delta": {"partial_json": "x"}},
          {**api.input_json(0, "x"), "index": 1.5})),
    *((f"piece of Chat without place {odd}", [*A_CHAT[:2], odd, *A_CHAT[2:]], verdict)
      for odd, verdict in (
          (chunk(tool_calls=["x"]), TRUNCATED), ({"choices": ["x"]}, TRUNCATED),
          (tool_calls(entry({"b": 2})), MALFORMED))),
    ("UTF-8 cut between payloads", messages(tool_use(0), *CUT_UTF_8), [{"a": "😀"}]),
    # Contradictions
    *((f"invalid last text {text}",
       responses(*LIVE, api.arguments_done(0, text), done(arguments=text)), MALFORMED)
      for text in ('{"a":1,"b', '{"a":1,"a":2}', "[1]")),
    *((f"{late} after an empty close",
       messages(tool_use(0), api.block_stop(0), api.input_json(0, late)), MALFORMED)
      for late in ('{"path":"x"', '{"path":"x"}')),
    ("infinite number, which is no JSON", chat_call('{"a": [1e999]}'), MALFORMED),
    ("largest number", chat_call('{"a": [1e308]}'), [{"a": [1e308]}]),
    # Arguments in unusual places
    ("input of a block that is never stopped", messages(tool_use(0, input={"a": 1})), ONE),
    ("only in the response", responses(ADDED, end=api.response_ended(output=[WHOLE])), ONE),
    ("only in the added item", responses(api.item_added(0, **WHOLE)), ONE),
    ("only in the done item", responses(ADDED, api.arguments_done(0, ""), done(arguments=A1)), ONE),
    ("only in the done text", responses(ADDED, api.arguments_done(0, A1)), ONE),
    ("item done without arguments", responses(ADDED, done()), [{}]),
    ("item done without arguments, response with",
     responses(ADDED, done(), end=api.response_ended(output=[WHOLE])), ONE),
    ("items known only by their IDs",
     responses(*by_item_id("x"), *by_item_id("y"), end=api.response_ended(
         output=[item(id="x", call_id="call_x", arguments='{"id": "x"}')])),
     [{"id": "x"}, {"id": "y"}]),
    ("delta that names its item by ID",
     responses(ADDED, api.arguments_delta(9, A1, output_index=None, item_id="fc_1")), ONE),
    ("items never added", [api.response_created(), *api.responses_call('{"a"', ":1}")[2:]], ONE),
    ("item added again after its end", responses(*api.responses_call(A1)[1:-1], ADDED), ONE),
    ("finish reason null", with_finish("null", chat_call('{"a":', "1}")), ONE),
    ("input of a call that the provider runs", messages(SEARCH, FOUND), [{"q": 1}]),
    ("result for a call that the client runs",
     [api.message_start(), tool_use(0, id_="s"), api.input_json(0, A1), FOUND], TRUNCATED),
    # Calls that must be kept separate
    ("two blocks with one index",
     messages(tool_use(0, id_="a"), api.input_json(0, A1), tool_use(0, id_="b"), api.block_stop(0)),
     ["truncated", {}]),
    ("two items with one index",
     responses(ADDED, api.item_added(0, **item(call_id="c2")), done(call_id="c2", arguments="{}")),
     ["truncated", {}]),
    ("calls as objects without any key",
     chats(tool_calls(*(entry({"a": n}, index=None, name="f") for n in (1, 1, 2)))),
     [{"a": 1}, {"a": 1}, {"a": 2}]),
    ("text after a complete call", [*chat_call("{}"), tool_calls(entry("more"))], [{}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("payloads", "expected"), [row[1:] for row in TURNS], ids=[row[0] for row in TURNS]
)
def test_odd_turn_completes_only_whole_calls(payloads: list[Any], expected: list[Any]) -> None:
    calls, events = assemble(payloads)
    assert api.outcomes(calls) == expected
    check(events, calls)


def test_piece_that_is_a_number_truncates_the_call() -> None:
    for turn in (api.anthropic_call, chat_call):
        payloads = json.loads(json.dumps(turn('{"a":1', "?", "}")).replace('"?"', "23"))
        for form in (payloads, map(json.dumps, payloads)):
            assert api.outcomes(assemble(form)[0]) == TRUNCATED


@pytest.mark.parametrize(
    ("type_", "field", "done_type", "text"),
    [
        ("custom_tool_call", "input", "response.custom_tool_call_input.done", "rm -rf /tmp/"),
        ("function_call", "arguments", "response.function_call_arguments.done", A1),
    ],
)
def test_item_reported_incomplete_after_its_text_was_done_is_truncated(
    type_: str, field: str, done_type: str, text: str
) -> None:
    opened = {"type": type_, "id": "i", "call_id": "c", "name": "sh", field: ""}
    ended = {**opened, field: text}
    texts = [api.item_added(0, **opened), {"type": done_type, "output_index": 0, field: text}]
    for payloads in (
        responses(*texts, api.item_done(0, **ended, status="incomplete"), end=CUT),
        responses(*texts, end=CUT),
        responses(end=api.response_ended("incomplete", output=[ended])),
    ):
        assert api.only_call(payloads).verdict == "truncated"


QUIRKS = ["cumulative", "empty_prefix", "double_encoded"]
OPENED = api.item_added(0, **patch(**{**UPDATE, "diff": ""}))
ENDS_DIFFERENTLY = responses(OPENED, patch_delta("+x"), api.item_done(0, **patch(**UPDATE)))


@pytest.mark.parametrize(
    ("payloads", "quirks", "arguments", "reinterpreted"),
    [
        (ENDS_DIFFERENTLY, [], UPDATE, "restated"),
        # In Python 1 equals True, in JSON it does not.
        (responses(*LIVE, done(arguments='{"a":true}')), [], {"a": True}, "restated"),
        (responses(*LIVE, done(arguments='{"a":2}')), QUIRKS, {"a": 2}, "restated"),
        (api.responses_call('"{\\"a\\":', '1}"'), QUIRKS[2:], {"a": 1}, "double_encoded"),
        (chat_call('"{\\"a\\":1}"'), QUIRKS[2:], {"a": 1}, "double_encoded"),
        (chats(free_text("#", name="md"), free_text("## x"), finish="stop"), QUIRKS[:1], "### x",
         None),
    ],
)  # fmt: skip
def test_contradicted_arguments_are_marked(
    payloads: list[Any], quirks: list[str], arguments: Any, reinterpreted: str | None
) -> None:
    call = api.only_call(payloads, quirks=quirks)
    assert (call.arguments, call.reinterpreted) == (arguments, reinterpreted)


def test_text_held_back_by_a_quirk_is_kept_when_the_stream_is_cut() -> None:
    call = api.only_call(chat_call("{}")[:-1], quirks=["empty_prefix"])
    assert (call.verdict, call.raw) == ("truncated", "{}")
    assert (
        api.only_call(chat_call('"{\\"a\\":1}'), quirks=["double_encoded"]).verdict == "truncated"
    )
    assert (
        api.only_call([api.message_start(), tool_use(0, input={"cmd": "ls"})]).raw == '{"cmd":"ls"}'
    )


@pytest.mark.parametrize(
    "pieces", [['"{\\"a\\":VALUE}"'], ["{}", '{"a":VALUE}'], ['{"a', '{"a":VALUE}']]
)
def test_limits_and_infinity_hold_in_every_reading(pieces: list[str]) -> None:
    for value, verdict in (("1", "complete"), ("1e999", "malformed"), ("[[1]]", "malformed")):
        texts = [piece.replace("VALUE", value) for piece in pieces]
        assert api.only_call(chat_call(*texts), limits=Limits(max_depth=2)).verdict == verdict
    payloads = chats(free_text("x" * 31, name="sh"), finish="stop")
    assert api.only_call(payloads, limits=Limits(max_chars=30)).verdict == "malformed"


TEXT_ITEM = {"type": "message", "content": [{"type": "output_text", "text": "hello"}]}
TEXT_ADDED = api.item_added(0, type="message", content=[])
TEXT_CUT = {"type": "response.output_text.delta", "output_index": 0, "delta": "hel"}
REPEATED = {"choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    "payloads",
    [
        responses(TEXT_ADDED, TEXT_CUT, api.item_done(0, **TEXT_ITEM)),
        responses(TEXT_ADDED, end=api.response_ended(output=[TEXT_ITEM])),
        [chunk(content="hello"), REPEATED],
    ],
    ids=["the item completes it", "the response completes it", "the message repeats it"],
)
def test_text_is_delivered_once_and_whole(payloads: list[Any]) -> None:
    _, events = assemble(payloads)
    assert "".join(event.text for event in api.of_type(events, ev.TextDelta)) == "hello"


@pytest.mark.parametrize(
    ("payloads", "ids"),
    [
        ([tool_calls(entry("", name="t")), tool_calls(entry("{}", id="late"))], ["late"]),
        ([tool_calls(entry("{}", index=n, id="same", name=f"t{n}")) for n in (0, 1)],
         [None, "same"]),
    ],
    ids=["an ID after the name", "two calls with one ID"],
)  # fmt: skip
def test_id_that_differs_from_the_call_id_is_kept_for_the_result(
    payloads: list[Any], ids: list[str | None]
) -> None:
    calls, events = assemble(chats(*payloads))
    assert len({call.id for call in calls}) == len(ids)
    (turn,) = api.of_type(events, ev.TurnCompleted)
    assert [part.item and part.item["id"] for part in turn.message.parts] == ids


def test_signature_of_a_thought_that_is_never_stopped_is_kept() -> None:
    signature = api.block_delta(0, "signature_delta", signature="sig")
    _, events = assemble(messages(api.block_start(0, "thinking", thinking=""), signature))
    (turn,) = api.of_type(events, ev.TurnCompleted)
    assert turn.message.parts[0].item["signature"] == "sig"


@pytest.mark.parametrize(
    "payloads",
    [
        chats(*(tool_calls(entry(index=None, name=name)) for name in ("first", "second"))),
        chats(*(chunk(function_call={"name": name, "arguments": "{}"})
                for name in ("first", "second")), finish="function_call"),
    ],
    ids=["names alone", "legacy calls"],
)  # fmt: skip
def test_each_name_without_an_id_is_a_call(payloads: list[Any]) -> None:
    assert [call.name for call in assemble(payloads)[0]] == ["first", "second"]


THOUGHT = ["thinking_started", "thinking_delta", "thinking_completed"]


def test_late_thinking_and_reasoning_details_are_thoughts() -> None:
    late = api.block_delta(0, "thinking_delta", thinking="late")
    _, events = assemble(messages(api.block_start(0, "thinking"), api.block_stop(0), late))
    assert api.types(events)[:5] == ["thinking_started", "thinking_completed", *THOUGHT]
    details = [{"type": "reasoning.text", "text": "hm"}]
    _, events = assemble([chunk(reasoning_details=details), chunk(content="so", finish="stop")])
    assert api.types(events)[:3] == THOUGHT


def test_deeply_nested_payload_does_not_raise() -> None:
    for depth in (900, 200_000):
        block = f'{{"type":"x","y":{"[" * depth + "]" * depth}}}'
        body = f'{{"type":"content_block_start","index":0,"content_block":{block}}}'
        calls, events = assemble([api.message_start(), tool_use(1), body, api.block_stop(0)])
        check(events, calls)
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    for payload in ({"choices": deep}, {"error": deep}, {"type": "message", "content": deep}):
        assert assemble([payload])[1][-1].type == "stream_failed"


def test_invalid_utf_8_becomes_replacement_characters() -> None:
    body = api.sse(messages(api.block_delta(0, "text_delta", text="a?b")))
    assert next(stream([body.replace(b"a?b", b"a\xffb")])) == ev.TextDelta("a\ufffdb", 0)


@pytest.mark.parametrize(
    "body",
    [
        '{"choices":[{"delta":{"tool_calls":[CALL]}}]}',
        '{"choices":[{"delta":{"tool_calls":[CALL]},"finish_reason":"tool_calls"}]}',
        '{"choices":[{"message":{"tool_calls":[CALL]},"finish_reason":"tool_calls"}]}',
        '{"choices":[{"delta":{"tool_calls":[CALL,CALL]}}]}',
        '{"type":"message","content":[BLOCK],"stop_reason":"tool_use"}',
        '{"type":"message_start","message":{"content":[BLOCK],"stop_reason":"tool_use"}}',
        '{"type":"content_block_start","index":0,"content_block":BLOCK}',
        '{"type":"response.output_item.done","output_index":0,"item":PATCH}',
    ],
)
def test_duplicate_key_is_refused_wherever_arguments_are_objects(body: str) -> None:
    twice = '{"a":1,"a":2}'
    body = (
        body.replace("CALL", f'{{"id":"c","function":{{"name":"t","arguments":{twice}}}}}')
        .replace("BLOCK", f'{{"type":"tool_use","id":"c","name":"t","input":{twice}}}')
        .replace("PATCH", f'{{"type":"apply_patch_call","call_id":"c","operation":{twice}}}')
    )
    calls, events = assemble([body])
    assert [call for call in calls if call.verdict == "complete"] == []
    assert api.of_type(events, ev.StreamFailed)[0].message == "duplicate key in an object"


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (chat_call(A1)[:-1], {"object": "error", "message": "no", "code": 500}),
        (chat_call(A1)[:-1], {"type": "error", "message": "no"}),
        (chat_call(A1)[:-1], {"error": 500}),
        (chat_call(A1)[:-1], {"error": ["no"]}),
        (chat_call(A1)[:-1], {"error": True}),
        (A_CALL[:3], {"error": {"type": "api_error", "message": "no"}}),
        (api.responses_call(A1)[:3], {"type": "response.error", "message": "no"}),
    ],
)
def test_error_of_any_form_fails_the_turn(turn: list[Any], error: Any) -> None:
    calls, events = assemble([*turn, error, b"[DONE]"])
    assert api.outcomes(calls) == TRUNCATED
    failed = api.of_type(events, ev.StreamFailed)[0]
    if "message" in str(error):
        assert failed.message == "no"


def test_text_for_a_complete_call_is_a_failure() -> None:
    """A server that sends "stop" with every chunk completes the call too early."""
    calls, events = assemble(with_finish("stop", chat_call("{}", '{"path": "x"}', finish="stop")))
    assert (calls[0].verdict, calls[0].raw) == ("complete", "")
    assert [failure.code for failure in api.of_type(events, ev.StreamFailed)] == ["late_text"]
    _, events = assemble([*chat_call(A1), tool_calls(entry(A1))])
    assert api.of_type(events, ev.StreamFailed) == []  # some servers repeat the text


@pytest.mark.parametrize("data", ["", " ", "keep-alive", "{"])
def test_keep_alives_do_not_cost_a_call(data: str) -> None:
    alive = f"event: ping\ndata: {data}\n\n".encode() + b"data:\n\n: comment\n\n"
    events = stream([api.sse([payload]) + alive for payload in api.anthropic_call('{"a"', ":1}")])
    assert api.types(events)[-1] == "turn_completed"
    assert api.outcomes(events.calls) == ONE


@pytest.mark.parametrize("start", [[":"], [":hb"] * 2, ["data:"], ["", ": x", ""], ["\ufeff:hb"]])
def test_lines_with_keep_alives_between_them_are_read(start: list[str]) -> None:
    lines = api.sse(A_CALL).decode().splitlines()
    for source in ([*start, *lines], [lines[1], ":hb", "", *lines[2:]]):
        for form in (source, [line.encode() for line in source]):
            if form[:1] != [b":"]:  # of bytes, a colon alone may be a piece
                assert api.types(stream(form))[-1] == "turn_completed", form[:3]


def test_dicts_mixed_with_text_keep_their_order() -> None:
    turn: list[Any] = chat_call('{"a":"x', "y", 'z"}')
    for at in range(len(turn)):
        events = stream([*turn[:at], json.dumps(turn[at]), *turn[at + 1 :]])
        assert api.types(events)[-1] == "turn_completed"
        assert api.outcomes(events.calls) == [{"a": "xyz"}]


def test_complete_event_does_not_wait_for_the_next() -> None:
    first, *rest = [api.sse([payload]) for payload in api.anthropic_call("{}")[1:]]
    for form in (first, first.splitlines()[1], first.splitlines()[1] + b"\n"):
        seen: list[str] = []

        def source(form: bytes = form, seen: list[str] = seen) -> Iterator[bytes]:
            yield form
            assert seen == ["tool_call_started"]
            yield from rest

        for event in stream(source()):
            seen.append(event.type)  # noqa: PERF401 - the source looks at it meanwhile


def test_bytes_decoded_with_surrogateescape_are_read() -> None:
    body = api.sse(chat_call('{"a": "?"}')).replace(b"?", "€".encode())
    events = stream(body.decode("ascii", "surrogateescape").splitlines())
    list(events)
    assert api.outcomes(events.calls) == [{"a": "€"}]

"""What no provider should send: nothing of it raises, and nothing of it makes a call complete.

Payloads are dropped, repeated, swapped and damaged, at random and by hand (invariants 8 to 10).
"""

import json
from random import Random
from typing import Any

import pytest

from argstream import stream
from argstream.events import (
    Event,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallStarted,
    TurnCompleted,
    from_json,
    to_json,
)
from argstream.testing import cut
from tests.providers import (
    FUNCTION_CALL,
    anthropic_call,
    arguments_delta,
    arguments_done,
    assemble,
    block_delta,
    block_start,
    block_stop,
    chat_call,
    chunk,
    entry,
    input_json,
    item_added,
    item_done,
    joined,
    message_end,
    message_start,
    of_type,
    only_call,
    response_created,
    response_ended,
    responses_call,
    sse,
    tool_calls,
    tool_use,
    types,
)

PIECES = ['{"path": "/tmp/', 'é😀", "edits"', ": [1, null", ', {"old": ""}]}']

LONG_TURNS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        message_start(),
        block_start(0, "thinking", thinking=""),
        block_delta(0, "thinking_delta", thinking="hm"),
        block_delta(0, "signature_delta", signature="sig"),
        block_stop(0),
        block_start(1, "text", text=""),
        block_delta(1, "text_delta", text="so"),
        block_delta(1, "citations_delta", citation={"url": "u"}),
        block_stop(1),
        tool_use(2, id_="a"),
        tool_use(3, id_="b"),
        *(input_json(index, piece) for piece in PIECES for index in (2, 3)),
        block_stop(2),
        block_stop(3),
        block_start(4, "server_tool_use", id="s", name="search", input={"q": 1}),
        block_stop(4),
        block_start(5, "web_search_tool_result", tool_use_id="s", content=[{"url": "u"}]),
        block_stop(5),
        *message_end(),
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
        response_created(),
        item_added(0, type="reasoning", id="r"),
        item_done(0, type="reasoning", id="r", summary=[{"type": "x", "text": "hm"}]),
        *responses_call(*PIECES)[1:-1],
        item_added(2, type="custom_tool_call", id="c", call_id="cc", name="sql", input=""),
        {"type": "response.custom_tool_call_input.delta", "output_index": 2, "delta": "select"},
        item_done(2, type="custom_tool_call", id="c", call_id="cc", name="sql", input="select"),
        response_ended(output=[{"type": "message", "content": [{"text": "hi"}]}]),
    ],
}


def check(events: list[Event], calls: list[Any]) -> None:
    """Every promise about the events of a stream, whatever was in it."""
    started: list[str] = []  # the text of each call, in order
    places: dict[str, int] = {}  # of the call that an id means now; ids may repeat across turns
    settled: set[int] = set()
    for event in events:
        assert from_json(to_json(event)) == event
        call_id = getattr(event, "call_id", "")
        if isinstance(event, ToolCallStarted):
            assert call_id not in places or places[call_id] in settled
            places[call_id] = len(started)
            started.append("")
        elif isinstance(event, ToolArgsDelta):
            assert event.delta
            assert places[call_id] not in settled
            started[places[call_id]] += event.delta
        elif isinstance(event, ToolArgsCompleted | ToolArgsInvalid):
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
    assert events[-1].type in ("turn_completed", "stream_failed")


def damaged(value: Any, random: Random) -> Any:
    """Change something inside a payload into something else."""
    odd: list[Any] = [
        None,
        3,
        -1.5,
        True,
        "",
        "x",
        "\ud83d",
        [],
        ["x"],
        {},
        {"type": "text"},
        [[[]]],
    ]
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice(list(value))
        return {**value, key: damaged(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        return [*value[:at], damaged(value[at], random), *value[at + 1 :]]
    return random.choice(odd)


@pytest.mark.parametrize("name", LONG_TURNS)
@pytest.mark.parametrize("seed", range(10))
def test_a_shuffled_and_damaged_turn_keeps_every_promise(name: str, seed: int) -> None:
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


@pytest.mark.parametrize("name", LONG_TURNS)
@pytest.mark.parametrize("seed", range(5))
def test_damaged_bytes_keep_every_promise_however_they_are_cut(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    body = sse(LONG_TURNS[name])
    for _ in range(40):
        data = bytearray(body)
        for _ in range(random.randint(1, 5)):
            data[random.randrange(len(data))] = random.randrange(256)
        events = stream([bytes(data)])
        found = list(events)
        check(found, events.calls)
        sizes = [random.randint(0, 90) for _ in range(50)]
        assert joined(stream(cut(bytes(data), [*sizes, 7]))) == joined(found)


def verdict(payloads: list[Any], **options: Any) -> str:
    return only_call(payloads, **options).verdict


class TestNothingIsCompleteThat:
    """Each of these once was."""

    def test_anthropic_sent_whole_but_said_was_cut(self) -> None:
        for given in ({"path": "a"}, {}):
            block = {"type": "tool_use", "id": "x", "name": "tool", "input": given}
            message = {"type": "message", "content": [block], "stop_reason": "max_tokens"}
            assert verdict([message]) == "truncated"

    @pytest.mark.parametrize("status", ["failed", "incomplete", "cancelled"])
    def test_responses_ended_badly_without_a_status(self, status: str) -> None:
        end = response_ended(status)
        del end["response"]["status"]
        for text in ('{"a":1}', ""):
            payloads = [
                response_created(),
                item_added(0, **FUNCTION_CALL),
                arguments_delta(0, text),
            ]
            assert verdict([*payloads, end]) == "truncated"

    @pytest.mark.parametrize(
        ("type_", "field", "done", "text"),
        [
            ("custom_tool_call", "input", "response.custom_tool_call_input.done", "rm -rf /tmp/"),
            ("function_call", "arguments", "response.function_call_arguments.done", '{"a":1}'),
        ],
    )
    def test_an_item_is_said_to_be_incomplete_after_its_text_was_done(
        self, type_: str, field: str, done: str, text: str
    ) -> None:
        item = {"type": type_, "id": "i", "call_id": "c", "name": "sh", field: ""}
        ended = {**item, field: text, "status": "incomplete"}
        payloads = [
            response_created(),
            item_added(0, **item),
            {"type": done, "output_index": 0, field: text},
        ]
        assert (
            verdict([*payloads, item_done(0, **ended), response_ended("incomplete")]) == "truncated"
        )
        assert verdict([*payloads, response_ended("incomplete")]) == "truncated"
        whole = {**item, field: text}
        assert (
            verdict([response_created(), response_ended("incomplete", output=[whole])])
            == "truncated"
        )

    def test_a_patch_is_said_to_be_incomplete(self) -> None:
        operation = {"type": "update_file", "path": "a", "diff": "+x"}
        item = {"type": "apply_patch_call", "call_id": "c", "operation": operation}
        payloads = [response_created(), item_done(0, **item, status="incomplete")]
        assert verdict([*payloads, response_ended("incomplete")]) == "truncated"

    @pytest.mark.parametrize(
        "finish", ["max_tokens", "MAX_TOKENS", "abort", "insufficient_system_resource", "new"]
    )
    def test_free_text_ends_with_a_reason_that_does_not_say_it_is_whole(self, finish: str) -> None:
        custom = {"index": 0, "id": "c", "custom": {"name": "sh", "input": "rm -rf /tmp/"}}
        assert verdict([tool_calls(custom), chunk(finish=finish)]) == "truncated"

    def test_free_text_was_written_to_after_a_later_call_began(self) -> None:
        def piece(index: int, text: str) -> dict[str, Any]:
            name = {"name": "sh"} if text == "a" else {}
            return {"index": index, "id": f"c{index}", "custom": {**name, "input": text}}

        turn = [tool_calls(piece(0, "a")), tool_calls(piece(1, "a")), tool_calls(piece(0, "b"))]
        calls, _ = assemble([*turn, chunk(finish="length")])
        assert [call.verdict for call in calls] == ["truncated", "truncated"]
        calls, _ = assemble([*turn[:2], chunk(finish="length")])
        assert [call.verdict for call in calls] == ["complete", "truncated"]

    def test_an_item_was_never_closed_before_the_response_was_cut(self) -> None:
        operation = {"type": "update_file", "path": "a"}
        payloads = [
            response_created(),
            item_added(0, type="apply_patch_call", call_id="p", operation=operation),
            {
                "type": "response.apply_patch_call_operation_diff.delta",
                "output_index": 0,
                "delta": "+x",
            },
            item_added(1, **FUNCTION_CALL),
            response_ended("incomplete"),
        ]
        calls, _ = assemble(payloads)
        assert [call.verdict for call in calls] == ["truncated", "truncated"]

    def test_a_payload_was_lost_while_a_call_waited_for_its_name(self) -> None:
        payloads = [
            tool_calls(entry('{"a":"x', id="c")),
            b"garbage",
            tool_calls(entry('y"}', name="tool")),
            chunk(finish="tool_calls"),
        ]
        assert verdict(payloads) == "truncated"

    def test_a_piece_is_of_a_type_that_it_cannot_have(self) -> None:
        for turn in (anthropic_call('{"a":1', "?", "}"), chat_call('{"a":1', "?", "}")):
            text = json.dumps(turn).replace('"?"', "23")
            for payloads in (json.loads(text), [json.dumps(p) for p in json.loads(text)]):
                assert verdict(payloads) == "truncated"
        diff = {"type": "response.apply_patch_call_operation_diff.delta", "output_index": 0}
        item = {"type": "apply_patch_call", "call_id": "p", "operation": {"type": "create_file"}}
        payloads = [response_created(), item_added(0, **item), {**diff, "delta": 5}]
        assert verdict([*payloads, response_ended()]) == "truncated"

    def test_the_string_around_the_arguments_never_ends(self) -> None:
        assert verdict(chat_call('"{\\"a\\":1}'), quirks=["double_encoded"]) == "truncated"
        assert verdict(chat_call('"{\\"a\\":1}"'), quirks=["double_encoded"]) == "complete"

    @pytest.mark.parametrize("text", ['{"a":1,"b', '{"a":1,"a":2}', "[1]"])
    def test_the_text_at_the_end_is_another_one_and_not_valid(self, text: str) -> None:
        payloads = responses_call('{"a":1} ')
        payloads[3:5] = [
            arguments_done(0, text),
            item_done(0, **{**FUNCTION_CALL, "arguments": text}),
        ]
        assert verdict(payloads) == "malformed"

    def test_arguments_as_an_object_have_a_key_twice(self) -> None:
        call = '{"index":0,"id":"c","function":{"name":"t","arguments":{"a":1,"a":2}}}'
        payload = '{"choices":[{"delta":{"tool_calls":[' + call + "]}}]}"
        calls, events = assemble([payload, chunk(finish="tool_calls")])
        assert calls == []
        assert of_type(events, StreamFailed)[0].message == "a key is given twice in one object"


class TestNothingIsLost:
    def test_the_input_of_a_block_that_is_never_stopped(self) -> None:
        start = tool_use(0, input={"cmd": "ls"})
        assert only_call([message_start(), start, *message_end()]).arguments == {"cmd": "ls"}
        assert only_call([message_start(), start]).raw == '{"cmd":"ls"}'

    def test_the_signature_of_a_thought_that_is_never_stopped(self) -> None:
        payloads = [
            message_start(),
            block_start(0, "thinking", thinking=""),
            block_delta(0, "signature_delta", signature="sig"),
            *message_end(),
        ]
        (event,) = of_type(assemble(payloads)[1], TurnCompleted)
        assert event.message.parts[0].item["signature"] == "sig"

    def test_arguments_that_responses_says_in_unusual_places(self) -> None:
        item = {**FUNCTION_CALL, "arguments": '{"a":1}'}
        added, created = item_added(0, **FUNCTION_CALL), response_created()
        for payloads in (
            [created, added, response_ended(output=[item])],
            [created, item_added(0, **item), response_ended()],
            [created, added, arguments_done(0, ""), item_done(0, **item), response_ended()],
            [created, added, arguments_done(0, '{"a":1}'), response_ended()],
        ):
            assert only_call(payloads).arguments == {"a": 1}

    def test_items_that_responses_knows_only_by_their_ids(self) -> None:
        payloads = [response_created()]
        for id_ in ("x", "y"):
            item = {**FUNCTION_CALL, "id": id_, "call_id": f"call_{id_}"}
            delta = {"type": "response.function_call_arguments.delta", "item_id": id_}
            payloads += [
                {"type": "response.output_item.added", "item": item},
                {**delta, "delta": json.dumps({"id": id_})},
                {"type": "response.output_item.done", "item": item},
            ]
        output = [{**FUNCTION_CALL, "id": "x", "call_id": "call_x", "arguments": '{"id": "x"}'}]
        calls, _ = assemble([*payloads, response_ended(output=output)])
        assert [call.arguments for call in calls] == [{"id": "x"}, {"id": "y"}]

    def test_a_patch_that_ends_differently_is_told(self) -> None:
        operation = {"type": "update_file", "path": "a", "diff": "+x\n+y"}
        item = {"type": "apply_patch_call", "call_id": "p", "operation": operation}
        diff = {"type": "response.apply_patch_call_operation_diff.delta", "output_index": 0}
        payloads = [
            response_created(),
            item_added(0, **{**item, "operation": {**operation, "diff": ""}}),
            {**diff, "delta": "+x"},
            item_done(0, **item),
            response_ended(),
        ]
        call = only_call(payloads)
        assert (call.arguments, call.reinterpreted) == (operation, "restated")

    def test_text_that_stops_early_is_completed_at_the_end(self) -> None:
        message = {"type": "message", "content": [{"type": "output_text", "text": "hello"}]}
        delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "hel"}
        added = item_added(0, type="message", content=[])
        for payloads in (
            [added, delta, item_done(0, **message), response_ended()],
            [added, response_ended(output=[message])],
        ):
            _, events = assemble([response_created(), *payloads])
            assert "".join(event.text for event in events if event.type == "text_delta") == "hello"

    def test_an_id_that_comes_after_the_name_is_kept_for_the_result(self) -> None:
        payloads = [
            tool_calls(entry("", name="tool")),
            tool_calls(entry("{}", id="late")),
            chunk(finish="tool_calls"),
        ]
        (event,) = [event for event in assemble(payloads)[1] if event.type == "turn_completed"]
        assert event.message.parts[0].item == {"id": "late"}

    def test_a_prefix_that_was_held_back_when_the_stream_was_cut(self) -> None:
        call = only_call(chat_call("{}")[:-1], quirks=["empty_prefix"])
        assert (call.verdict, call.raw) == ("truncated", "{}")


class TestNothingIsConfused:
    def test_two_calls_at_one_key_are_two_calls_and_the_first_is_cut(self) -> None:
        turns = [
            [
                message_start(),
                tool_use(0, id_="a"),
                input_json(0, '{"a":1}'),
                tool_use(0, id_="b"),
                block_stop(0),
                *message_end(),
            ],
            [
                response_created(),
                item_added(0, **FUNCTION_CALL),
                item_added(0, **{**FUNCTION_CALL, "call_id": "call_2"}),
                item_done(0, **{**FUNCTION_CALL, "call_id": "call_2", "arguments": "{}"}),
                response_ended(),
            ],
        ]
        for turn in turns:
            calls, events = assemble(turn)
            assert [call.verdict for call in calls] == ["truncated", "complete"]
            check(events, calls)

    def test_two_calls_with_one_id_have_ids_of_their_own(self) -> None:
        payloads = [
            tool_calls(entry("{}", index=0, id="same", name="first")),
            tool_calls(entry("{}", index=1, id="same", name="second")),
            chunk(finish="tool_calls"),
        ]
        calls, events = assemble(payloads)
        assert [call.name for call in calls] == ["first", "second"]
        assert calls[0].id == "same" != calls[1].id
        assert events[-1].type == "turn_completed"
        assert events[-1].message.parts[1].item == {"id": "same"}

    def test_names_without_anything_else_are_calls_of_their_own(self) -> None:
        payloads = [
            tool_calls(entry(index=None, name="first")),
            tool_calls(entry(index=None, name="second")),
            chunk(finish="tool_calls"),
        ]
        assert [call.name for call in assemble(payloads)[0]] == ["first", "second"]

    def test_a_value_that_equals_in_python_alone_is_told_apart(self) -> None:
        payloads = responses_call('{"a":1}')
        item = {**FUNCTION_CALL, "arguments": '{"a":true}'}
        payloads[3:5] = [item_done(0, **item)]
        call = only_call(payloads)
        assert (call.arguments, call.reinterpreted) == ({"a": True}, "restated")

    def test_what_comes_after_a_complete_call_does_not_change_it(self) -> None:
        calls, events = assemble([*chat_call("{}"), tool_calls(entry("more"))])
        assert calls[0].raw == "{}"
        check(events, calls)

    def test_late_thinking_is_a_thought_of_its_own(self) -> None:
        late = block_delta(0, "thinking_delta", thinking="late")
        payloads = [
            message_start(),
            block_start(0, "thinking"),
            block_stop(0),
            late,
            *message_end(),
        ]
        assert types(assemble(payloads)[1])[:5] == [
            "thinking_started",
            "thinking_completed",
            "thinking_started",
            "thinking_delta",
            "thinking_completed",
        ]

    def test_an_infinite_number_is_malformed(self) -> None:
        """It could not be written as JSON again, neither in an event nor for the model."""
        assert verdict(chat_call('{"a": [1e999]}')) == "malformed"
        assert only_call(chat_call('{"a": [1e308]}')).arguments == {"a": [1e308]}


class TestNothingRaises:
    @pytest.mark.parametrize("depth", [900, 200_000])
    def test_deep_nesting(self, depth: int) -> None:
        deep = "[" * depth + "]" * depth
        body = (
            f'{{"type":"content_block_start","index":0,"content_block":{{"type":"x","y":{deep}}}}}'
        )
        calls, events = assemble([message_start(), tool_use(1), body, block_stop(0)])
        check(events, calls)

    def test_utf8_that_a_server_cut_between_two_payloads_is_joined(self) -> None:
        head = b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta",'
        pieces = [b'"partial_json":"{\\"a\\": \\"\xf0\x9f"}}', b'"partial_json":"\x98\x80\\"}"}}']
        payloads = [message_start(), tool_use(0), *(head + piece for piece in pieces)]
        call = only_call([*payloads, block_stop(0), *message_end()])
        assert call.arguments == {"a": "😀"}

    def test_bytes_that_are_no_utf8_become_replacement_characters(self) -> None:
        body = sse([message_start(), block_delta(0, "text_delta", text="a?b"), *message_end()])
        events = list(stream([body.replace(b"a?b", b"a\xffb")]))
        assert events[0].type == "text_delta"
        assert events[0].text == "a\ufffdb"

    @pytest.mark.parametrize("data", ["", " ", "keep-alive", "{"])
    def test_keep_alives_do_not_cost_a_call(self, data: str) -> None:
        alive = f"event: ping\ndata: {data}\n\n".encode() + b"data:\n\n: comment\n\n"
        turn = [sse([payload]) + alive for payload in anthropic_call('{"a"', ":1}")]
        events = stream(turn)
        assert types(list(events))[-1] == "turn_completed"
        assert events.calls[0].verdict == "complete"

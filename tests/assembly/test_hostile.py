"""What no provider should send: nothing of it raises, and nothing of it makes a call complete.

Payloads are dropped, repeated, swapped and damaged, at random and by hand (invariants 8 to 10).
"""

import json
from collections.abc import Iterator
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
from argstream.jsonstream import Limits
from argstream.testing import cut
from tests.provider_streams import (
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


@pytest.mark.bulk
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


@pytest.mark.bulk
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
            *("thinking_started", "thinking_completed", "thinking_started", "thinking_delta"),
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

    def test_deep_dicts(self) -> None:
        deep: Any = []
        for _ in range(5_000):
            deep = [deep]
        for payload in ({"choices": deep}, {"error": deep}, {"type": "message", "content": deep}):
            assert assemble([payload])[1][-1].type == "stream_failed"

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


class TestTheSecondAttack:
    """Each of these was complete, or lost something, after the first round was mended."""

    def test_text_after_an_empty_close_contradicts_it(self) -> None:
        for late in ('{"path":"x"', '{"path":"x"}'):
            payloads = [tool_use(0), block_stop(0), input_json(0, late)]
            assert verdict([message_start(), *payloads, *message_end()]) == "malformed"

    def test_a_response_may_say_at_its_end_what_an_item_left_out(self) -> None:
        item = {**FUNCTION_CALL, "arguments": '{"a":1}'}
        payloads = [
            response_created(),
            item_added(0, **FUNCTION_CALL),
            item_done(0, **FUNCTION_CALL),
        ]
        assert only_call([*payloads, response_ended(output=[item])]).arguments == {"a": 1}
        assert only_call([*payloads, response_ended()]).arguments == {}

    @pytest.mark.parametrize(
        "body",
        [
            '{"choices":[{"delta":{"tool_calls":[CALL]},"finish_reason":"tool_calls"}]}',
            '{"choices":[{"message":{"tool_calls":[CALL]},"finish_reason":"tool_calls"}]}',
            '{"choices":[{"delta":{"tool_calls":[CALL,CALL]}}]}',
            '{"type":"message","content":[BLOCK],"stop_reason":"tool_use"}',
            '{"type":"message_start","message":{"content":[BLOCK],"stop_reason":"tool_use"}}',
            '{"type":"content_block_start","index":0,"content_block":BLOCK}',
            '{"type":"response.output_item.done","output_index":0,"item":PATCH}',
        ],
    )
    def test_a_key_that_is_given_twice_is_refused_wherever_objects_come(self, body: str) -> None:
        twice = '{"a":1,"a":2}'
        body = (
            body.replace("CALL", f'{{"id":"c","function":{{"name":"t","arguments":{twice}}}}}')
            .replace("BLOCK", f'{{"type":"tool_use","id":"c","name":"t","input":{twice}}}')
            .replace("PATCH", f'{{"type":"apply_patch_call","call_id":"c","operation":{twice}}}')
        )
        calls, events = assemble([body])
        assert [call.verdict for call in calls if call.verdict == "complete"] == []
        assert of_type(events, StreamFailed)

    def test_a_result_closes_only_what_the_provider_runs_and_keeps_its_input(self) -> None:
        result = block_start(1, "web_search_tool_result", tool_use_id="s", content=[])
        search = block_start(0, "server_tool_use", id="s", name="search", input={"q": 1})
        assert only_call([message_start(), search, result, *message_end()]).arguments == {"q": 1}
        client = tool_use(0, id_="s")
        assert verdict([message_start(), client, input_json(0, '{"a":1}'), result]) == "truncated"

    def test_what_is_still_in_progress_is_not_complete(self) -> None:
        item = {**FUNCTION_CALL, "arguments": '{"a":1}', "status": "in_progress"}
        polled = {"object": "response", "status": "in_progress", "output": [item]}
        assert verdict([polled]) == "truncated"
        end = response_ended("incomplete")
        end["response"]["status"] = "completed"
        payloads = [response_created(), item_added(0, **FUNCTION_CALL), end]
        assert verdict(payloads) == "truncated"
        block = {"type": "tool_use", "id": "x", "name": "tool", "input": {"a": 1}}
        assert (
            verdict([{"type": "message", "content": [block], "stop_reason": None}]) == "truncated"
        )

    def test_a_contradiction_is_told_also_when_quirks_are_asked_for(self) -> None:
        payloads = responses_call('{"a":1}')
        payloads[3:5] = [item_done(0, **{**FUNCTION_CALL, "arguments": '{"a":2}'})]
        call = only_call(payloads, quirks=["cumulative", "empty_prefix", "double_encoded"])
        assert (call.arguments, call.reinterpreted) == ({"a": 2}, "restated")
        same = responses_call('"{\\"a\\":', '1}"')
        call = only_call(same, quirks=["double_encoded"])
        assert (call.arguments, call.reinterpreted) == ({"a": 1}, "double_encoded")

    @pytest.mark.parametrize(
        "pieces", [['"{\\"a\\":VALUE}"'], ["{}", '{"a":VALUE}'], ['{"a', '{"a":VALUE}']]
    )
    def test_limits_and_infinity_hold_in_every_reading(self, pieces: list[str]) -> None:
        def read(value: str, limits: Limits | None = None) -> str:
            text = [piece.replace("VALUE", value) for piece in pieces]
            return verdict(chat_call(*text), limits=limits)

        assert read("1") == "complete"
        assert read("1e999") == "malformed"
        assert read("[[1]]", Limits(max_depth=2)) == "malformed"

    def test_the_limit_of_length_holds_for_free_text(self) -> None:
        custom = {"index": 0, "id": "c", "custom": {"name": "sh", "input": "x" * 31}}
        payloads = [tool_calls(custom), chunk(finish="stop")]
        assert verdict(payloads, limits=Limits(max_chars=30)) == "malformed"

    def test_dicts_mixed_with_text_keep_their_order(self) -> None:
        turn: list[Any] = chat_call('{"a":"x', "y", 'z"}')
        for at in range(len(turn)):
            mixed = [*turn[:at], json.dumps(turn[at]), *turn[at + 1 :]]
            events = stream(mixed)
            assert types(list(events))[-1] == "turn_completed"
            assert events.calls[0].arguments == {"a": "xyz"}

    @pytest.mark.parametrize(
        "error",
        [
            {"object": "error", "message": "no", "code": 500},
            {"type": "error", "message": "no"},
            {"error": 500},
            {"error": ["no"]},
            {"error": True},
        ],
    )
    def test_an_error_of_chat_may_look_like_anything(self, error: Any) -> None:
        calls, events = assemble([*chat_call('{"a":1}')[:-1], error, b"[DONE]"])
        assert calls[0].verdict == "truncated"
        assert of_type(events, StreamFailed)

    def test_errors_of_the_others_may_look_odd_too(self) -> None:
        for turn, error in (
            (anthropic_call('{"a":1}')[:3], {"error": {"type": "api_error", "message": "no"}}),
            (responses_call('{"a":1}')[:3], {"type": "response.error", "message": "no"}),
        ):
            calls, events = assemble([*turn, error])
            assert calls[0].verdict == "truncated"
            assert of_type(events, StreamFailed)[0].message == "no"

    @pytest.mark.parametrize(
        "odd",
        [
            {
                "type": "content_block_delta",
                "delta": {"type": "input_json_delta", "partial_json": "x"},
            },
            {"type": "content_block_delta", "index": 0},
            {"type": "content_block_delta", "index": 0, "delta": {"partial_json": "x"}},
            {**input_json(0, "x"), "index": 1.5},
        ],
    )
    def test_a_piece_of_anthropic_that_cannot_be_placed_costs_the_call(self, odd: Any) -> None:
        turn = anthropic_call('{"a":1}')
        assert verdict([*turn[:3], odd, *turn[3:]]) == "truncated"

    @pytest.mark.parametrize(
        "odd", [chunk(tool_calls=["x"]), {"choices": ["x"]}, tool_calls(entry({"b": 2}))]
    )
    def test_a_piece_of_chat_that_cannot_be_placed_costs_the_call(self, odd: Any) -> None:
        turn = chat_call('{"a":1', "}")
        assert verdict([*turn[:2], odd, *turn[2:]]) in ("truncated", "malformed")

    def test_deltas_that_name_their_item_by_its_id_find_it(self) -> None:
        delta = arguments_delta(0, '{"a":1}', item_id="fc_1")
        del delta["output_index"]
        payloads = [response_created(), item_added(0, **FUNCTION_CALL), delta, response_ended()]
        assert only_call(payloads).arguments == {"a": 1}

    def test_an_item_that_is_added_again_after_its_end_is_no_second_call(self) -> None:
        turn = responses_call("{}")
        assert len(assemble([*turn[:-1], turn[1], turn[-1]])[0]) == 1

    def test_a_server_that_never_adds_its_items_is_read_at_their_end(self) -> None:
        turn = responses_call('{"a"', ":1}")
        assert only_call([turn[0], *turn[2:]]).arguments == {"a": 1}

    def test_a_finish_reason_may_be_the_word_null(self) -> None:
        turn = chat_call('{"a":', "1}")
        for payload in turn[:-1]:
            payload["choices"][0]["finish_reason"] = "null"
        assert only_call(turn).arguments == {"a": 1}

    def test_text_for_a_call_that_is_complete_is_told(self) -> None:
        """A server that says stop with every chunk: the call was complete too early."""
        turn = chat_call("{}", '{"path": "x"}')
        for payload in turn:
            payload["choices"][0]["finish_reason"] = "stop"
        calls, events = assemble(turn)
        assert (calls[0].verdict, calls[0].raw) == ("complete", "")
        assert [failure.code for failure in of_type(events, StreamFailed)] == ["late_text"]
        _, events = assemble([*chat_call('{"a":1}'), tool_calls(entry('{"a":1}'))])
        assert of_type(events, StreamFailed) == []  # once more the same, which some do

    def test_two_legacy_calls_are_two_calls(self) -> None:
        payloads = [
            chunk(function_call={"name": "first", "arguments": "{}"}),
            chunk(function_call={"name": "second", "arguments": "{}"}),
            chunk(finish="function_call"),
        ]
        assert [call.name for call in assemble(payloads)[0]] == ["first", "second"]

    def test_quirks_leave_free_text_alone(self) -> None:
        pieces = [{"index": 0, "id": "c", "custom": {"name": "md", "input": "#"}}]
        pieces.append({"index": 0, "custom": {"input": "## x"}})
        payloads = [*map(tool_calls, pieces), chunk(finish="stop")]
        assert only_call(payloads, quirks=["cumulative"]).arguments == "### x"

    def test_a_second_turn_of_chat_needs_no_mark_between(self) -> None:
        second = [{**payload, "id": "chatcmpl-2"} for payload in chat_call('{"b":2}')]
        calls, events = assemble([*chat_call('{"a":1}'), *second])
        assert [call.arguments for call in calls] == [{"a": 1}, {"b": 2}]
        assert types(events).count("turn_completed") == 2

    def test_calls_as_objects_without_any_key_are_told_apart(self) -> None:
        entries = [entry({"a": n}, index=None, name="f") for n in (1, 1, 2)]
        calls, _ = assemble([tool_calls(*entries), chunk(finish="stop")])
        assert [call.arguments for call in calls] == [{"a": 1}, {"a": 1}, {"a": 2}]

    def test_only_the_last_call_of_a_cut_message_is_cut(self) -> None:
        blocks = [
            {"type": "tool_use", "id": id_, "name": "t", "input": {"a": 1}} for id_ in ("x", "y")
        ]
        message = {"type": "message", "content": blocks, "stop_reason": "max_tokens"}
        call = {"type": "function_call", "name": "t", "arguments": "{}"}
        items = [{**call, "call_id": id_} for id_ in ("x", "y")]
        response = {"object": "response", "status": "incomplete", "output": items}
        for payload in (message, response):
            assert [call.verdict for call in assemble([payload])[0]] == ["complete", "truncated"]

    def test_a_message_that_repeats_its_deltas_is_not_said_twice(self) -> None:
        last = chunk(finish="stop")
        last["choices"][0]["message"] = {"content": "Hi"}
        del last["choices"][0]["delta"]
        _, events = assemble([chunk(content="Hi"), last])
        assert [event.text for event in events if event.type == "text_delta"] == ["Hi"]

    def test_reasoning_that_is_only_in_its_details_is_shown(self) -> None:
        details = [{"type": "reasoning.text", "text": "hm"}]
        _, events = assemble([chunk(reasoning_details=details), chunk(content="so", finish="stop")])
        assert types(events)[:3] == ["thinking_started", "thinking_delta", "thinking_completed"]

    @pytest.mark.parametrize(
        "start",
        [[":"], [":hb", ":hb"], ["data:"], ["", ": x", ""], ["\ufeff:hb"]],
    )
    def test_lines_with_keep_alives_between_them_are_read(self, start: list[str]) -> None:
        lines = sse(anthropic_call('{"a":1}')).decode().splitlines()
        for source in ([*start, *lines], [lines[1], ":hb", "", *lines[2:]]):
            for form in (source, [line.encode() for line in source]):
                if form[:1] == [b":"]:
                    continue  # of bytes, a colon alone may be a piece
                events = stream(form)
                assert types(list(events))[-1] == "turn_completed", form[:3]

    def test_an_event_that_is_whole_does_not_wait_for_the_next(self) -> None:
        first, *rest = [sse([payload]) for payload in anthropic_call("{}")[1:]]
        for form in (first, first.splitlines()[1], first.splitlines()[1] + b"\n"):
            seen: list[str] = []

            def source(form: bytes = form, seen: list[str] = seen) -> Iterator[bytes]:
                yield form
                assert seen == ["tool_call_started"]
                yield from rest

            for event in stream(source()):
                seen.append(event.type)  # noqa: PERF401 - the source looks at it meanwhile

    def test_bytes_that_were_no_utf8_survive_as_text(self) -> None:
        body = sse(chat_call('{"a": "?"}')).replace(b"?", "€".encode())
        as_text = body.decode("ascii", "surrogateescape")
        events = stream(as_text.splitlines())
        list(events)
        assert events.calls[0].arguments == {"a": "€"}

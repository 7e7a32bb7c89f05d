"""The quirks of wire.md, by number: what servers really send, and what we make of it.

``QUIRKS`` maps each to its tests, here or in the module of an adapter. A quirk without a test, and
a test that does not exist, fail. Details of wire.md have their tests beside each adapter.
"""

import json
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest

from argstream import Call, stream
from argstream.assembly import Numbering
from argstream.events import ArgumentDelta, TextDelta, ToolArgsDelta, ToolCallStarted, to_json
from argstream.testing import chunkings, cut
from tests.providers import (
    FUNCTION_CALL,
    anthropic_call,
    arguments_delta,
    arguments_done,
    assemble,
    chat_call,
    chunk,
    entry,
    item_added,
    item_done,
    of_type,
    only_call,
    response_created,
    response_ended,
    responses_call,
    sse,
    tool_calls,
)

QUIRKS: dict[str, list[str]] = {
    "1 same index, new id": [
        "test_a_new_id_with_a_name_at_the_same_index_is_a_new_call",
        "test_a_new_id_without_a_name_is_the_same_call",
    ],
    "2 same id at several indexes, same index twice in a chunk": [
        "test_the_same_id_at_another_index_is_the_same_call",
        "test_the_same_index_twice_in_one_chunk_is_one_call",
        "test_same_index_and_empty_ids_are_two_calls_when_a_name_comes_after_a_whole_object",
    ],
    "3 no index, index from 1, index as a string": [
        "test_without_an_index_the_id_decides",
        "test_without_index_and_id_a_name_that_begins_an_object_is_a_new_call",
        "test_indexes_may_begin_at_one",
        "test_an_index_may_be_a_string",
        "test_an_index_of_langchain_may_be_a_string",
        "test_ollama.test_without_index_and_id_each_entry_is_a_call_with_an_id_of_its_own",
        "test_ollama.test_the_same_index_in_several_chunks_means_several_calls",
    ],
    "4 cumulative resend, full replay": [
        "test_a_cumulative_resend_is_understood_at_the_close",
        "test_a_cumulative_resend_is_live_when_asked_for",
        "test_a_full_replay_is_understood_at_the_close",
    ],
    "5 {} first, arguments as an object, encoded twice": [
        "test_an_empty_object_before_the_arguments_is_understood_at_the_close",
        "test_an_empty_object_before_the_arguments_is_dropped_when_asked_for",
        "test_arguments_may_come_as_an_object",
        "test_tool_calls_may_be_an_object_instead_of_a_list",
        "test_arguments_encoded_twice_are_understood_at_the_close",
        "test_arguments_encoded_twice_are_live_when_asked_for",
        "test_bedrock.test_the_input_of_a_call_may_be_an_object",
        "test_cohere.test_arguments_may_be_an_object",
    ],
    "6 name in every chunk, split, after the arguments": [
        "test_a_name_in_every_chunk_is_said_once",
        "test_a_name_in_every_chunk_without_an_id_is_one_call",
        "test_a_name_in_pieces_is_joined",
        "test_a_name_that_grows_is_replaced",
        "test_a_name_after_the_arguments_holds_them_back",
    ],
    "7 ids that are empty, null, the word null, or repeat across turns": [
        "test_an_id_is_made_where_none_is_sent",
        "test_made_ids_are_stable_and_told_apart_across_turns",
        "test_an_id_that_repeats_across_turns_stays_as_it_is",
        "test_xai_grpc.test_calls_without_ids_get_ids_of_their_own",
    ],
    "8 item_id that changes, payload under message and delta": [
        "test_an_item_id_that_changes_with_every_event_does_not_matter",
        "test_a_payload_under_both_message_and_delta_counts_once",
        "test_an_item_id_may_be_the_only_key",
    ],
    "9 truncation called tool_calls": [
        "test_truncation_called_tool_calls_is_truncation",
        "test_a_native_finish_reason_that_says_cut_is_believed",
    ],
    "10 closing a call because its text parses": [
        "test_a_text_that_parses_is_not_closed_by_that",
    ],
    "11 legacy function_call, custom tools over Chat": [
        "test_a_legacy_function_call_is_a_call",
        "test_a_custom_tool_over_chat_is_free_text",
    ],
    "12 UTF-8 or surrogates split by servers": [
        "test_a_surrogate_pair_split_between_payloads_is_joined",
        "test_half_a_surrogate_pair_becomes_a_replacement_character",
        "test_utf8_split_between_network_chunks_is_joined",
    ],
}


def test_every_quirk_has_its_tests() -> None:
    numbers = [name.split()[0] for name in QUIRKS]
    assert numbers == [str(number) for number in range(1, 13)]
    for names in QUIRKS.values():
        assert names
        for name in names:
            module, _, test = name.rpartition(".")
            home = import_module(f"tests.adapters.{module or 'test_quirks'}")
            assert callable(getattr(home, test))


def names_and_arguments(payloads: list[Any], **options: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in assemble(payloads, **options)[0]]


END = chunk(finish="tool_calls")

# 1


def test_a_new_id_with_a_name_at_the_same_index_is_a_new_call() -> None:
    payloads = [
        tool_calls(entry('{"a":', id="call_a", name="first")),
        tool_calls(entry("1}")),
        tool_calls(entry('{"b":', id="call_b", name="second")),
        tool_calls(entry("2}")),
        END,
    ]
    assert names_and_arguments(payloads) == [("first", {"a": 1}), ("second", {"b": 2})]


def test_a_new_id_without_a_name_is_the_same_call() -> None:
    payloads = [
        tool_calls(entry("", id="call_a", name="tool")),
        tool_calls(entry('{"a":', id="other")),
        tool_calls(entry("1}", id="other")),
        END,
    ]
    call = only_call(payloads)
    assert (call.id, call.arguments) == ("call_a", {"a": 1})


# 2


def test_the_same_id_at_another_index_is_the_same_call() -> None:
    payloads = [
        tool_calls(entry("", index=0, id="call_a", name="tool")),
        tool_calls(entry('{"a":1}', index=1, id="call_a", name="tool")),
        END,
    ]
    assert names_and_arguments(payloads) == [("tool", {"a": 1})]


def test_the_same_id_for_another_tool_is_another_call() -> None:
    payloads = [
        tool_calls(entry('{"a":1}', index=0, id="same", name="first")),
        tool_calls(entry('{"b":2}', index=0, id="same", name="second")),
        END,
    ]
    assert names_and_arguments(payloads) == [("first", {"a": 1}), ("second", {"b": 2})]


def test_the_same_index_twice_in_one_chunk_is_one_call() -> None:
    payloads = [
        tool_calls(entry("", id="call_a", name="tool"), entry('{"a":')),
        tool_calls(entry("1}")),
        END,
    ]
    assert names_and_arguments(payloads) == [("tool", {"a": 1})]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(
            [entry('{"a":1}', id="", name="tool"), entry('{"a":2}', id="", name="tool")],
            id="whole calls",
        ),
        pytest.param(
            [
                entry('{"a"', id="", name="tool"),
                entry(":1}"),
                entry('{"a":', id="", name="tool"),
                entry("2}"),
            ],
            id="in pieces",
        ),
        pytest.param(
            [
                entry("", id="", name="tool"),
                entry('{"a":1}', id=""),
                entry("", id="", name="tool"),
                entry("", id=""),
                entry('{"a":', id=""),
                entry("2}", id=""),
            ],
            id="the name before the arguments",
        ),
        pytest.param(
            [entry({"a": 1}, id="null", name="tool"), entry({"a": 2}, id="null", name="tool")],
            id="arguments as objects",
        ),
        pytest.param(
            [
                entry('{"a":', id="", name="tool"),
                entry("1}", id="", name="tool"),
                entry("", id="", name="tool"),
                entry('{"a":', id="", name="tool"),
                entry("2}", id="", name="tool"),
            ],
            id="a name in every chunk of both",
        ),
    ],
)
def test_same_index_and_empty_ids_are_two_calls_when_a_name_comes_after_a_whole_object(
    entries: list[Any],
) -> None:
    for payloads in ([*map(tool_calls, entries), END], [tool_calls(*entries), END]):
        calls, events = assemble(payloads)
        assert [(call.name, call.arguments) for call in calls] == [
            ("tool", {"a": 1}),
            ("tool", {"a": 2}),
        ]
        assert [call.reinterpreted for call in calls] == [None, None]
        assert len({call.id for call in calls}) == 2
        assert len(of_type(events, ToolCallStarted)) == 2
        for _, chunks in chunkings(sse(payloads)):
            assert [call.arguments for call in _calls(chunks)] == [{"a": 1}, {"a": 2}]


# 3


def test_without_an_index_the_id_decides() -> None:
    payloads = [
        tool_calls(entry('{"a":', index=None, id="call_a", name="first")),
        tool_calls(entry('{"b":', index=None, id="call_b", name="second")),
        tool_calls(entry("1}", index=None, id="call_a")),
        tool_calls(entry("2}", index=None, id="call_b")),
        END,
    ]
    assert names_and_arguments(payloads) == [("first", {"a": 1}), ("second", {"b": 2})]


def test_without_index_and_id_a_name_that_begins_an_object_is_a_new_call() -> None:
    payloads = [
        tool_calls(
            entry('{"a":1}', index=None, name="tool"), entry('{"a":', index=None, name="tool")
        ),
        tool_calls(entry("2}", index=None)),
        END,
    ]
    assert names_and_arguments(payloads) == [("tool", {"a": 1}), ("tool", {"a": 2})]


def test_indexes_may_begin_at_one() -> None:
    payloads = [
        tool_calls(entry("{}", index=1, id="call_a", name="first")),
        tool_calls(entry("{}", index=2, id="call_b", name="second")),
        END,
    ]
    assert names_and_arguments(payloads) == [("first", {}), ("second", {})]


def test_an_index_may_be_a_string() -> None:
    payloads = [
        tool_calls(entry("", index="0", id="call_a", name="first")),
        tool_calls(entry("", index="1", id="call_b", name="second")),
        tool_calls(entry('{"a":1}', index="0")),
        tool_calls(entry('{"b":2}', index="1")),
        END,
    ]
    for form in (payloads, sse(payloads).split(b"\n")):
        assert [call.arguments for call in _calls(form)] == [{"a": 1}, {"b": 2}]


def test_an_index_of_langchain_may_be_a_string() -> None:
    """A number is the same index either way; a name such as ``lc_tc_1`` is only a name."""

    def message(args: str, index: object, **fields: str) -> dict[str, Any]:
        pieces = [{"args": args, "index": index, **fields}]
        return {"type": "AIMessageChunk", "id": "lc_run--1", "tool_call_chunks": pieces}

    for first, second, again in (("lc_tc_0", "lc_tc_1", "lc_tc_0"), ("0", "1", 0), (0, 1, "0")):
        payloads = [
            message("", first, id="call_a", name="first"),
            message("", second, id="call_b", name="second"),
            message('{"a":1}', again),
            message('{"b":2}', second),
            {**message("", again), "chunk_position": "last"},
        ]
        assert names_and_arguments(payloads, protocol="langchain") == [
            ("first", {"a": 1}),
            ("second", {"b": 2}),
        ]


def _calls(source: Iterable[object]) -> list[Call]:
    events = stream(source)
    list(events)
    return events.calls


# 4

RESENT = ['{"path": "/tm', '{"path": "/tmp/a", "n', '{"path": "/tmp/a", "n": 1}']


def test_a_cumulative_resend_is_understood_at_the_close() -> None:
    calls, events = assemble(chat_call(*RESENT))
    assert calls[0].arguments == {"path": "/tmp/a", "n": 1}
    assert calls[0].verdict == "complete"
    assert calls[0].reinterpreted == "cumulative"
    assert calls[0].raw == "".join(RESENT)
    assert "tool_args_invalid" not in [event.type for event in events]


def test_a_cumulative_resend_is_live_when_asked_for() -> None:
    calls, events = assemble(chat_call(*RESENT), quirks=["cumulative"])
    assert calls[0].arguments == {"path": "/tmp/a", "n": 1}
    assert calls[0].reinterpreted == "cumulative"
    assert "".join(event.delta for event in of_type(events, ToolArgsDelta)) == RESENT[-1]
    assert [event.text for event in of_type(events, ArgumentDelta)] == ["/tm", "p/a"]


def test_a_literal_reading_that_is_valid_is_never_reinterpreted() -> None:
    """A string may well contain what came before it."""
    pieces = ['{"a": "', '{\\"a\\": \\"', '"}']
    call = only_call(chat_call(*pieces), quirks=["cumulative"])
    assert (call.arguments, call.reinterpreted) == ({"a": '{"a": "'}, None)


def test_a_resend_that_breaks_off_is_malformed_as_soon_as_nothing_fits() -> None:
    calls, events = assemble(chat_call('{"a', '{"ab', "nonsense"))
    assert calls[0].verdict == "malformed"
    (invalid,) = [event for event in events if event.type == "tool_args_invalid"]
    assert invalid.raw == '{"a{"abnonsense'


@pytest.mark.parametrize("pieces", [['{"a"', ":1}", '{"a":1}'], ['{"a":1}{"a"', ":1}"]])
def test_a_full_replay_is_understood_at_the_close(pieces: list[str]) -> None:
    call = only_call(chat_call(*pieces))
    assert (call.arguments, call.reinterpreted) == ({"a": 1}, "replay")


def test_a_replay_that_differs_is_malformed() -> None:
    call = only_call(chat_call('{"a":1}', '{"a":2}'))
    assert (call.verdict, call.arguments) == ("malformed", {"INVALID_JSON": '{"a":1}{"a":2}'})


def test_a_second_reading_that_ends_too_early_is_malformed() -> None:
    for pieces in (['{"a":1}', '{"a"'], ["{}", '{"a": 1'], ["{}", '{"a": 1', "}}"]):
        assert only_call(chat_call(*pieces)).verdict == "malformed", pieces


# 5


def test_an_empty_object_before_the_arguments_is_understood_at_the_close() -> None:
    call = only_call(chat_call("{}", '{"a":', "1}"))
    assert (call.arguments, call.reinterpreted) == ({"a": 1}, "empty_prefix")


def test_an_empty_object_before_the_arguments_is_dropped_when_asked_for() -> None:
    calls, events = assemble(chat_call("{}", '{"a":', '"b"}'), quirks=["empty_prefix"])
    assert (calls[0].arguments, calls[0].reinterpreted) == ({"a": "b"}, "empty_prefix")
    assert [event.text for event in of_type(events, ArgumentDelta)] == ["b"]
    assert only_call(chat_call("{}"), quirks=["empty_prefix"]).arguments == {}


def test_arguments_may_come_as_an_object() -> None:
    payloads = [tool_calls(entry({"a": [1, "é"], "b": {}}, id="call_a", name="tool")), END]
    calls, events = assemble(payloads)
    assert calls[0].arguments == {"a": [1, "é"], "b": {}}
    assert calls[0].raw == '{"a":[1,"é"],"b":{}}'
    assert "".join(event.delta for event in of_type(events, ToolArgsDelta)) == calls[0].raw


CALL_AS_OBJECT: dict[str, Any] = {"tool_calls": entry('{"a":', id="call_a", name="tool")}


def test_tool_calls_may_be_an_object_instead_of_a_list() -> None:
    payloads = [
        chunk(content="Hel", tool_calls={}),
        chunk(content="lo", tool_calls={}),
        chunk(**CALL_AS_OBJECT),
        chunk(tool_calls=entry("1}")),
        END,
    ]
    calls, events = assemble(payloads)
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("call_a", "tool", {"a": 1})
    ]
    assert "stream_failed" not in [event.type for event in events]
    assert len({event.block for event in of_type(events, TextDelta)}) == 1
    for _, chunks in chunkings(sse(payloads)):
        assert list(stream(chunks)) == events


def test_tool_calls_of_a_whole_message_may_be_an_object() -> None:
    message = {"role": "assistant", "tool_calls": entry('{"a":1}', id="call_a", name="tool")}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    payload = {"object": "chat.completion", "choices": [choice]}
    for form in (payload, json.dumps(payload).encode()):
        assert names_and_arguments([form]) == [("tool", {"a": 1})]


TWICE = ['"{\\"a\\": \\"b', '\\\\n\\"', '}"']


def test_arguments_encoded_twice_are_understood_at_the_close() -> None:
    call = only_call(chat_call(*TWICE))
    assert (call.arguments, call.reinterpreted) == ({"a": "b\n"}, "double_encoded")


def test_arguments_encoded_twice_are_live_when_asked_for() -> None:
    calls, events = assemble(chat_call(*TWICE), quirks=["double_encoded"])
    assert (calls[0].arguments, calls[0].reinterpreted) == ({"a": "b\n"}, "double_encoded")
    assert "".join(event.text for event in of_type(events, ArgumentDelta)) == "b\n"


def test_arguments_encoded_twice_and_cut_are_truncated() -> None:
    for quirks in ([], ["double_encoded"]):
        call = only_call(chat_call(*TWICE[:2]), quirks=quirks)
        assert call.verdict == "truncated"


def test_a_string_that_holds_no_object_is_malformed() -> None:
    assert only_call(chat_call('"hello"')).verdict == "malformed"


# 6


def test_a_name_in_every_chunk_is_said_once() -> None:
    payloads = [
        tool_calls(entry('{"a"', id="call_a", name="tool")),
        tool_calls(entry(":1", id="call_a", name="tool")),
        tool_calls(entry("}", name="tool")),
        END,
    ]
    calls, events = assemble(payloads)
    assert [(call.name, call.arguments) for call in calls] == [("tool", {"a": 1})]
    assert len(of_type(events, ToolCallStarted)) == 1


@pytest.mark.parametrize(
    "pieces",
    [
        ['{"a":1', "}"],
        ['{"a":1}', ""],
        ['{"a":', '{"b":1}', "}"],
        ['{"a":1}', "", "\n"],
        ["", '{"a":1}', None],
    ],
)
def test_a_name_in_every_chunk_without_an_id_is_one_call(pieces: list[str | None]) -> None:
    payloads = [*(tool_calls(entry(piece, id="", name="tool")) for piece in pieces), END]
    (call,) = assemble(payloads)[0]
    assert (call.name, call.verdict) == ("tool", "complete")
    assert call.raw.strip() == "".join(filter(None, pieces)).strip()


def test_a_name_in_pieces_is_joined() -> None:
    payloads = [
        tool_calls(entry("", id="call_a", name="edit_ex")),
        tool_calls(entry("", name="isting_file")),
        tool_calls(entry('{"a":1}')),
        END,
    ]
    calls, events = assemble(payloads)
    assert [(call.name, call.arguments) for call in calls] == [("edit_existing_file", {"a": 1})]
    assert calls[0].reinterpreted == "split_name"
    assert {event.name for event in of_type(events, ToolArgsDelta)} == {"edit_existing_file"}


def test_a_name_that_grows_is_replaced() -> None:
    payloads = [
        tool_calls(entry(None, id="call_a", name="edit")),
        tool_calls(entry("{}", name="edit_file")),
        END,
    ]
    assert names_and_arguments(payloads) == [("edit_file", {})]


def test_a_name_after_the_arguments_holds_them_back() -> None:
    payloads = [
        tool_calls(entry('{"a"', id="call_a")),
        tool_calls(entry(":1}", name="tool")),
        END,
    ]
    calls, events = assemble(payloads)
    assert [(call.name, call.arguments) for call in calls] == [("tool", {"a": 1})]
    assert events[0] == ToolCallStarted("call_a", 0, "tool")


@pytest.mark.parametrize("text", ['{"a":1}', ""])
def test_a_call_that_never_gets_a_name_is_malformed(text: str) -> None:
    call = only_call([tool_calls(entry(text, id="call_a")), END])
    assert (call.name, call.verdict) == ("", "malformed")


# 7


@pytest.mark.parametrize("id_", ["", None, "null"])
def test_an_id_is_made_where_none_is_sent(id_: str | None) -> None:
    payloads = [
        tool_calls(entry("{}", index=0, id=id_, name="first")),
        tool_calls(entry("{}", index=1, id=id_, name="second")),
        END,
    ]
    calls, _ = assemble(payloads)
    assert [call.name for call in calls] == ["first", "second"]
    assert len({call.id for call in calls}) == 2
    assert all(call.id.startswith("call_") for call in calls)


def test_made_ids_are_stable_and_told_apart_across_turns() -> None:
    def ids(response_id: str, turn: int) -> list[str]:
        payload = tool_calls(entry("{}", name="tool"))
        payload["id"] = response_id
        return [call.id for call in assemble([payload, END], after=Numbering(turns=turn))[0]]

    assert ids("chatcmpl-1", 0) == ids("chatcmpl-1", 0)
    assert ids("chatcmpl-1", 0) != ids("chatcmpl-2", 0)
    assert ids("", 0) != ids("", 1)


def test_an_id_that_repeats_across_turns_stays_as_it_is() -> None:
    """Its result must go back under it."""
    turn = [tool_calls(entry("{}", id="functions.add:0", name="add")), END, b"[DONE]"]
    calls, _ = assemble([*turn, *turn])
    assert [(call.id, call.verdict) for call in calls] == [("functions.add:0", "complete")] * 2


# 8


def test_an_item_id_that_changes_with_every_event_does_not_matter() -> None:
    payloads = [
        response_created(),
        item_added(0, **{**FUNCTION_CALL, "id": "a"}),
        arguments_delta(0, '{"a"', item_id="b"),
        arguments_delta(0, ":1}", item_id="c"),
        {**arguments_done(0, '{"a":1}'), "item_id": "d"},
        item_done(0, **{**FUNCTION_CALL, "id": "e", "arguments": '{"a":1}'}),
        response_ended(),
    ]
    call = only_call(payloads)
    assert (call.id, call.arguments) == ("call_1", {"a": 1})


def test_a_payload_under_both_message_and_delta_counts_once() -> None:
    payloads = [
        tool_calls(entry('{"a"', id="call_a", name="tool")),
        tool_calls(entry(":1}")),
        END,
    ]
    for payload in payloads:
        (choice,) = payload["choices"]
        choice["message"] = choice["delta"]
    assert names_and_arguments(payloads) == [("tool", {"a": 1})]


def test_an_item_id_may_be_the_only_key() -> None:
    """xAI Realtime: deltas have no output_index, and every item has the first one."""
    first, second = ({**FUNCTION_CALL, "id": id_, "call_id": id_} for id_ in ("item_a", "item_b"))
    delta = {"type": "response.function_call_arguments.delta", "response_id": "resp_1"}
    payloads = [
        response_created(),
        item_added(0, **first),
        item_added(0, **second),
        {**delta, "item_id": "item_a", "delta": '{"a":1}'},
        {**delta, "item_id": "item_b", "delta": '{"b":2}'},
        item_done(0, **{**first, "arguments": '{"a":1}', "status": "completed"}),
        item_done(0, **{**second, "arguments": '{"b":2}', "status": "completed"}),
        {"type": "response.done", "response": {"id": "resp_1", "status": "completed"}},
    ]
    calls, _ = assemble(payloads, protocol="openai-realtime")
    assert [(call.id, call.arguments) for call in calls] == [
        ("item_a", {"a": 1}),
        ("item_b", {"b": 2}),
    ]


# 9


def test_truncation_called_tool_calls_is_truncation() -> None:
    call = only_call(chat_call('{"a": "b'))
    assert (call.verdict, call.arguments) == ("truncated", {"INVALID_JSON": '{"a": "b'})


def test_a_native_finish_reason_that_says_cut_is_believed() -> None:
    end = chunk(finish="tool_calls")
    end["choices"][0]["native_finish_reason"] = "max_output_tokens"
    call = only_call([tool_calls(entry("", id="call_a", name="tool")), end])
    assert call.verdict == "truncated"


# 10


@pytest.mark.parametrize(
    "turn", [anthropic_call('{"a":1}'), chat_call('{"a":1}'), responses_call('{"a":1}')]
)
def test_a_text_that_parses_is_not_closed_by_that(turn: list[Any]) -> None:
    """Invariant 8: up to the payload that closes it, a whole text is an open call."""
    text_at = next(at for at in range(len(turn)) if only_call_so_far(turn[: at + 1]) == '{"a":1}')
    calls, events = assemble(turn[: text_at + 1])
    assert calls[0].verdict == "truncated"
    assert "tool_args_completed" not in [event.type for event in events]
    assert only_call(turn).verdict == "complete"


def only_call_so_far(payloads: list[Any]) -> str:
    calls, _ = assemble(payloads)
    return calls[0].raw if calls else ""


# 11


def test_a_legacy_function_call_is_a_call() -> None:
    payloads = [
        chunk(function_call={"name": "tool", "arguments": ""}),
        chunk(function_call={"arguments": '{"a":'}),
        chunk(function_call={"arguments": "1}"}),
        chunk(finish="function_call"),
    ]
    assert names_and_arguments(payloads) == [("tool", {"a": 1})]


def test_a_custom_tool_over_chat_is_free_text() -> None:
    first = {"index": 0, "id": "call_a", "type": "custom", "custom": {"name": "sql", "input": ""}}
    payloads = [
        tool_calls(first),
        tool_calls({"index": 0, "custom": {"input": "select "}}),
        tool_calls({"index": 0, "custom": {"input": '"a"'}}),
        END,
    ]
    call = only_call(payloads)
    assert (call.name, call.kind, call.arguments) == ("sql", "custom", 'select "a"')


def test_half_a_pair_at_the_end_of_the_arguments_is_kept_as_a_replacement() -> None:
    function = r'{"name":"t","arguments":"{\"a\": \"x\ud83d"}'
    whole = f'{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"function":{function}}}]}}}}]}}'
    for end in ([], [END]):
        call = only_call([whole, *end])
        assert (call.verdict, call.raw) == ("truncated", '{"a": "x\ufffd')


# 12


def test_a_surrogate_pair_split_between_payloads_is_joined() -> None:
    """msgspec refuses half a pair in an escape: the stream must not die of it."""
    pieces = [r"{\"a\": \"x\ud83d", r"\ude00y\"}"]
    head = '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"'
    bodies = [
        '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"t"}}]}}]}',
        *(head + piece + '"}}]}}]}' for piece in pieces),
        '{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}',
    ]
    call = only_call(bodies)
    assert call.arguments == {"a": "x\U0001f600y"}
    call.raw.encode()


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    text = '{"choices":[{"delta":{"content":"a\\ud83d","reasoning":"\\ude00b"}}],"id":"\\udc00"}'
    _, events = assemble([text, '{"choices":[{"delta":{"content":"!"},"finish_reason":"stop"}]}'])
    told = "".join(event.text for event in events if event.type in ("text_delta", "thinking_delta"))
    assert told == "�ba�!"
    for event in events:
        to_json(event)  # which raises for half a pair


def test_utf8_split_between_network_chunks_is_joined() -> None:
    body = sse(chat_call('{"a": "é😀"}')).replace(rb"\u00e9\ud83d\ude00", "é😀".encode())
    assert "😀".encode() in body
    for size in (1, 2, 3, 5):
        events = stream(cut(body, [size]))
        list(events)
        assert [call.arguments for call in events.calls] == [{"a": "é😀"}]

"""Deviations of servers from their protocol, numbered as in wire.md."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from argstream import stream
from argstream.assembly import Call, Numbering
from argstream.events import ArgumentDelta, TextDelta, ToolArgsDelta, ToolCallStarted, to_json
from argstream.testing import cut
from tests import provider_streams as api
from tests.provider_streams import assemble, chat_call, chunk, entry, of_type, only_call, tool_calls

END = chunk(finish="tool_calls")
ONE = [("f", {"a": 1})]
TWO = [("f", {"a": 1}), ("g", {"b": 2})]
SAME_TWICE = [("f", {"a": 1}), ("f", {"a": 2})]


def names_and_arguments(payloads: list[Any], **options: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in assemble(payloads, **options)[0]]


def calls_of(source: Iterable[object]) -> list[Call]:
    events = stream(source)
    list(events)
    return events.calls


def f(text: Any, **fields: Any) -> dict[str, Any]:
    return entry(text, **{"id": "x", "name": "f", **fields})


def g(text: Any, **fields: Any) -> dict[str, Any]:
    return entry(text, **{"id": "y", "name": "g", **fields})


def no_id(text: Any, **fields: Any) -> dict[str, Any]:
    return entry(text, **{"id": "", "name": "f", **fields})


A1, A2, B2 = '{"a":1}', '{"a":2}', '{"b":2}'
Calls = list[tuple[str, Any]]


def expecting(expected: Calls, entries: dict[str, list[Any]]) -> dict[str, tuple[list[Any], Calls]]:
    return {name: (given, expected) for name, given in entries.items()}


ENTRIES = {
    **expecting(
        ONE,
        {
            "1 a new ID without a name": [f(""), *(entry(x, id="z") for x in ('{"a":', "1}"))],
            "2 the same ID at another index": [f(""), f(A1, index=1)],
            "6 a name in every chunk": [f('{"a"'), f(":1"), entry("}", name="f")],
            "6 a name after the arguments": [entry('{"a"', id="x"), entry(":1}", name="f")],
        },
    ),
    **expecting(
        TWO,
        {
            "1 a new ID with a name": [f('{"a":'), entry("1}"), g('{"b":'), entry("2}")],
            "2 the same ID for another tool": [f(A1), g(B2, id="x")],
            "3 no index, the ID decides": [
                *(f('{"a":', index=None), g('{"b":', index=None)),
                *(entry("1}", index=None, id="x"), entry("2}", index=None, id="y")),
            ],
            "3 indexes that begin at one": [f(A1, index=1), g(B2, index=2)],
            "3 an index that is a string": [
                *(f("", index="0"), g("", index="1")),
                *(entry(A1, index="0"), entry(B2, index="1")),
            ],
            **{
                f"7 the ID {id_!r} is replaced": [f(A1, id=id_), g(B2, index=1, id=id_)]
                for id_ in ("", None, "null")
            },
        },
    ),
    **expecting(
        SAME_TWICE,
        {
            "2 empty IDs, whole calls": [no_id(A1), no_id(A2)],
            "2 empty IDs, pieces": [no_id('{"a"'), entry(":1}"), no_id('{"a":'), entry("2}")],
            "2 empty IDs, the name before the arguments": [
                *(no_id(""), entry(A1, id=""), no_id("")),
                *(entry(text, id="") for text in ("", '{"a":', "2}")),
            ],
            "2 the ID 'null', objects": [f({"a": 1}, id="null"), f({"a": 2}, id="null")],
            "2 empty IDs, a name in every chunk": [
                no_id(text) for text in ('{"a":', "1}", "", '{"a":', "2}")
            ],
            "3 no index and no ID, a name that begins an object": [
                *(entry(text, index=None, name="f") for text in (A1, '{"a":')),
                entry("2}", index=None),
            ],
        },
    ),
    "6 a name in pieces": (
        [entry("", id="x", name="edit_ex"), entry("", name="isting_file"), entry(A1)],
        [("edit_existing_file", {"a": 1})],
    ),
    "6 a name that grows": (
        [entry(None, id="x", name="edit"), entry(A1, name="edit_file")],
        [("edit_file", {"a": 1})],
    ),
}


@pytest.mark.parametrize(("entries", "expected"), ENTRIES.values(), ids=ENTRIES)
def test_entries_become_these_calls(entries: list[Any], expected: list[tuple[str, Any]]) -> None:
    for payloads in ([*map(tool_calls, entries), END], [tool_calls(*entries), END]):
        calls, events = assemble(payloads)
        assert [(call.name, call.arguments) for call in calls] == expected
        assert len({call.id for call in calls if call.id}) in (len(calls), 1)
        assert {call.reinterpreted for call in calls} <= {None, "split_name"}
        assert len(of_type(events, ToolCallStarted)) == len(expected)
        for size in (1, 7, 64):
            found = calls_of(cut(api.sse(payloads), [size]))
            assert [(call.name, call.arguments) for call in found] == expected


def test_index_of_langchain_may_be_a_string() -> None:
    """A number and its text are the same index. A name such as ``lc_tc_1`` is only a name."""

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
        found = names_and_arguments(payloads, protocol="langchain")
        assert found == [("first", {"a": 1}), ("second", {"b": 2})]


RESENT = ['{"path": "/tm', '{"path": "/tmp/a", "n', '{"path": "/tmp/a", "n": 1}']
TWICE = ['"{\\"a\\": \\"b', '\\\\n\\"', '}"']


@pytest.mark.parametrize(
    ("pieces", "arguments", "reading"),
    [
        (RESENT, {"path": "/tmp/a", "n": 1}, "cumulative"),
        (['{"a"', ":1}", '{"a":1}'], {"a": 1}, "replay"),
        (['{"a":1}{"a"', ":1}"], {"a": 1}, "replay"),
        (["{}", '{"a":', "1}"], {"a": 1}, "empty_prefix"),
        (TWICE, {"a": "b\n"}, "double_encoded"),
    ],
)
def test_arguments_are_reinterpreted_when_the_call_closes(
    pieces: list[str], arguments: Any, reading: str
) -> None:
    calls, events = assemble(chat_call(*pieces))
    (call,) = calls
    assert (call.arguments, call.reinterpreted, call.raw) == (arguments, reading, "".join(pieces))
    assert "tool_args_invalid" not in api.types(events)


@pytest.mark.parametrize(
    ("pieces", "quirk", "texts"),
    [
        (RESENT, "cumulative", ["/tm", "p/a"]),
        (["{}", '{"a":', '"b"}'], "empty_prefix", ["b"]),
        (TWICE, "double_encoded", ["b", "\n"]),
    ],
)
def test_quirk_reinterprets_arguments_live(pieces: list[str], quirk: Any, texts: list[str]) -> None:
    calls, events = assemble(chat_call(*pieces), quirks=[quirk])
    assert calls[0].reinterpreted == quirk
    assert [event.text for event in of_type(events, ArgumentDelta)] == texts
    assert calls[0].arguments == only_call(chat_call(*pieces)).arguments


def test_quirk_option_leaves_valid_arguments_alone() -> None:
    """A string may contain the text before it."""
    pieces = ['{"a": "', '{\\"a\\": \\"', '"}']
    call = only_call(chat_call(*pieces), quirks=["cumulative"])
    assert (call.arguments, call.reinterpreted) == ({"a": '{"a": "'}, None)
    assert only_call(chat_call("{}"), quirks=["empty_prefix"]).arguments == {}


@pytest.mark.parametrize(
    "pieces",
    [
        *(['{"a', '{"ab', "nonsense"], ['{"a":1}', '{"a":2}'], ['{"a":1}', '{"a"']),
        *(["{}", '{"a": 1'], ["{}", '{"a": 1', "}}"], ['"hello"']),
    ],
)
def test_text_that_fits_no_reading_is_malformed(pieces: list[str]) -> None:
    calls, events = assemble(chat_call(*pieces))
    assert calls[0].verdict == "malformed"
    (invalid,) = [event for event in events if event.type == "tool_args_invalid"]
    assert invalid.raw == "".join(pieces)


def test_arguments_may_come_as_an_object() -> None:
    payloads = [tool_calls(entry({"a": [1, "é"], "b": {}}, id="call_a", name="tool")), END]
    calls, events = assemble(payloads)
    assert calls[0].arguments == {"a": [1, "é"], "b": {}}
    assert calls[0].raw == '{"a":[1,"é"],"b":{}}'
    assert "".join(event.delta for event in of_type(events, ToolArgsDelta)) == calls[0].raw


def test_tool_calls_may_be_an_object_instead_of_a_list() -> None:
    payloads = [
        *(chunk(content="Hel", tool_calls={}), chunk(content="lo", tool_calls={})),
        chunk(tool_calls=entry('{"a":', id="call_a", name="tool")),
        *(chunk(tool_calls=entry("1}")), END),
    ]
    calls, events = assemble(payloads)
    found = [(call.id, call.name, call.arguments) for call in calls]
    assert found == [("call_a", "tool", {"a": 1})]
    assert "stream_failed" not in api.types(events)
    assert len({event.block for event in of_type(events, TextDelta)}) == 1
    assert list(stream([api.sse(payloads)])) == events
    message = {"role": "assistant", "tool_calls": entry('{"a":1}', id="call_a", name="tool")}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    payload = {"object": "chat.completion", "choices": [choice]}
    for form in (payload, json.dumps(payload).encode()):
        assert names_and_arguments([form]) == [("tool", {"a": 1})]


@pytest.mark.parametrize(
    "pieces",
    [
        *(['{"a":1', "}"], ['{"a":1}', ""], ['{"a":', '{"b":1}', "}"]),
        *(['{"a":1}', "", "\n"], ["", '{"a":1}', None]),
    ],
)
def test_name_in_every_chunk_without_an_id_is_one_call(pieces: list[str | None]) -> None:
    payloads = [*(tool_calls(entry(piece, id="", name="tool")) for piece in pieces), END]
    (call,) = assemble(payloads)[0]
    assert (call.name, call.verdict) == ("tool", "complete")
    assert call.raw.strip() == "".join(filter(None, pieces)).strip()


def test_generated_ids_are_stable_and_differ_between_turns() -> None:
    def ids(response_id: str, turn: int) -> list[str]:
        payload = tool_calls(entry("{}", name="tool"))
        payload["id"] = response_id
        return [call.id for call in assemble([payload, END], after=Numbering(turns=turn))[0]]

    assert ids("chatcmpl-1", 0) == ids("chatcmpl-1", 0)
    assert ids("chatcmpl-1", 0) != ids("chatcmpl-2", 0)
    assert ids("", 0) != ids("", 1)


def both(payload: Any) -> Any:
    """Add the entry under both message and delta."""
    (choice,) = payload["choices"]
    return {**payload, "choices": [{**choice, "message": choice["delta"]}]}


def escaped(arguments: str, **fields: str) -> str:
    """A chunk whose arguments have these escapes."""
    function = json.dumps({**fields, "arguments": "@"}).replace("@", arguments)
    entries = f'{{"index":0,"function":{function}}}'
    return f'{{"choices":[{{"delta":{{"tool_calls":[{entries}]}}}}]}}'


NATIVE_END = chunk(finish="tool_calls")
NATIVE_END["choices"][0]["native_finish_reason"] = "max_output_tokens"
LEGACY: list[Any] = [{"name": "f", "arguments": ""}, {"arguments": '{"a":'}, {"arguments": "1}"}]
CUSTOM = {"index": 0, "id": "call_a", "type": "custom", "custom": {"name": "f", "input": ""}}
FREE_TEXT = [{"index": 0, "custom": {"input": text}} for text in ("select ", '"a"')]
ITEMS = [
    *(api.response_created(), api.item_added(0, **{**api.FUNCTION_CALL, "id": "a", "name": "f"})),
    *(api.arguments_delta(0, '{"a"', item_id="b"), api.arguments_delta(0, ":1}", item_id="c")),
    {**api.arguments_done(0, A1), "item_id": "d"},
    api.item_done(0, **{**api.FUNCTION_CALL, "id": "e", "name": "f", "arguments": A1}),
    api.response_ended(),
]
# msgspec rejects a lone surrogate in an escape. The stream must survive that.
LONE = escaped(r"{\"a\": \"x\ud83d", name="f")
PAIR = [LONE, escaped(r"\ude00y\"}")]

OTHER_FORMS: dict[str, tuple[list[Any], list[tuple[str, Any]]]] = {
    "1 same index twice in a chunk": (
        [tool_calls(f(""), entry('{"a":')), tool_calls(entry("1}")), END],
        ONE,
    ),
    "6 no name": ([tool_calls(entry(A1, id="x")), END], [("", "malformed")]),
    "6 no name and no text": ([tool_calls(entry("", id="x")), END], [("", "malformed")]),
    "8 item ID changes with every event": (ITEMS, ONE),
    "8 under message and delta": (
        [both(tool_calls(f('{"a"'))), both(tool_calls(entry(":1}"))), both(END)],
        ONE,
    ),
    "9 open text and the reason tool_calls": (chat_call('{"a": "b'), [("write", "truncated")]),
    "9 native reason means cut": ([tool_calls(f("")), NATIVE_END], [("f", "truncated")]),
    "10 legacy function_call": (
        [*(chunk(function_call=piece) for piece in LEGACY), chunk(finish="function_call")],
        ONE,
    ),
    "11 custom tool": ([*map(tool_calls, [CUSTOM, *FREE_TEXT]), END], [("f", 'select "a"')]),
    "12 surrogate pair in two payloads": ([*PAIR, END], [("f", {"a": "x\U0001f600y"})]),
}


@pytest.mark.parametrize(("payloads", "expected"), OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_other_forms_of_a_call(payloads: list[Any], expected: list[tuple[str, Any]]) -> None:
    call = only_call(payloads)
    assert [(call.name, *api.outcomes([call]))] == expected
    assert call.kind == ("custom" if call.arguments == 'select "a"' else "function")
    call.raw.encode()  # raises for a lone surrogate


def test_lone_surrogate_at_the_end_of_arguments_is_replaced() -> None:
    for payloads in ([LONE], [LONE, END]):
        call = only_call(payloads)
        assert (call.verdict, call.raw) == ("truncated", '{"a": "x\ufffd')


def test_lone_surrogate_in_text_is_replaced() -> None:
    text = '{"choices":[{"delta":{"content":"a\\ud83d","reasoning":"\\ude00b"}}],"id":"\\udc00"}'
    _, events = assemble([text, '{"choices":[{"delta":{"content":"!"},"finish_reason":"stop"}]}'])
    shown = "".join(one.text for one in events if one.type in ("text_delta", "thinking_delta"))
    assert shown == "�ba�!"
    for event in events:
        to_json(event)  # raises for a lone surrogate

"""Claude Code and the Agent SDK: the rules and details, on lines and on the SDK's own messages."""

import asyncio
import json
from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ToolUseBlock,
    query,
)
from claude_agent_sdk.types import ContentBlock
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from argstream import stream
from argstream.assembly import Assembler, Call
from argstream.events import (
    Event,
    RunCompleted,
    RunFailed,
    StreamFailed,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    TurnCompleted,
    Usage,
)
from argstream.history import ResultPart, TextPart, ThinkingPart
from argstream.testing import cut
from tests.claude_agent import (
    FORMS,
    SESSION,
    FakeTransport,
    assistant,
    event,
    in_form,
    init,
    read,
    run_result,
    streamed,
    streamed_call,
    text,
    thinking,
    tool_result,
    use,
    user,
)
from tests.provider_streams import (
    Payload,
    assemble,
    block_delta,
    block_start,
    block_stop,
    input_json,
    joined,
    message_end,
    message_start,
    of_type,
    tool_use,
    types,
)

TASK = "toolu_task"
ARGUMENTS = {"path": "ä.py", "lines": [1, 2.5, {"deep": 'a "word"\n😀'}], "force": True}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def run(*lines: Payload) -> list[Payload]:
    return [init(), *lines, run_result()]


def turn(*lines: Payload, id_: str = "msg_1", parent: str | None = None) -> list[Payload]:
    """A turn whose events come, too."""
    ends = streamed(*message_end(), parent=parent)
    return [event(message_start(id_), parent), *lines, *ends]


def call_of(form: str, lines: list[Payload]) -> Call:
    (call,) = read(form, lines)[0]
    return call


# Events and whole messages


PIECES = ('{"path": "a.py", ', '"size": 1}')
VALUE = {"path": "a.py", "size": 1}
WHOLE = assistant(text("I write."), use(VALUE))
EVENTS = streamed(
    message_start(),
    block_start(0, "text", text=""),
    block_delta(0, "text_delta", text="I write."),
    block_stop(0),
    tool_use(1),
    *(input_json(1, piece) for piece in PIECES),
    block_stop(1),
    *message_end(),
)


@pytest.mark.parametrize("place", range(len(EVENTS) - 3, len(EVENTS) + 1))
def test_a_whole_message_beside_its_events_changes_nothing(form: str, place: int) -> None:
    """It comes before the stop; but whether it comes later, or at the end, is all the same."""
    _, expected = read(form, run(*EVENTS))
    calls, events = read(form, run(*EVENTS[:place], WHOLE, *EVENTS[place:]))
    assert joined(events) == joined(expected)
    assert [call.raw for call in calls] == ["".join(PIECES)]


def test_without_events_the_whole_message_is_what_there_is(form: str) -> None:
    calls, events = read(form, run(WHOLE))
    assert of_type(events, TextDelta) == [TextDelta("I write.", 0)]
    assert types(events)[-3:] == ["tool_args_completed", "turn_completed", "run_completed"]
    assert [(call.id, call.name, call.arguments) for call in calls] == [("toolu_1", "write", VALUE)]


def test_a_call_without_events_is_complete_at_once(form: str) -> None:
    assembler = Assembler("claude-agent")
    for line in in_form(form, [init(), assistant(use({"a": 1})), assistant(use({}, "toolu_2"))]):
        assembler.feed(line)
    assert [call.verdict for call in assembler.calls] == ["complete", "open"]
    for line in in_form(form, [user([tool_result(id_="toolu_2")])]):
        assembler.feed(line)
    assert [call.arguments for call in assembler.calls] == [{"a": 1}, {}]


def test_an_empty_input_without_events_is_not_believed_if_the_call_failed(form: str) -> None:
    """An agent says {} of input that it cannot read (invariant 8)."""
    cut = assistant(text("API Error"), id_="x", error="max_output_tokens")
    failed = user([tool_result("InputValidationError", is_error=True)])
    for after in ([cut, failed], [failed]):
        assert call_of(form, run(assistant(use({})), *after)).verdict == "truncated"
    assert call_of(form, run(assistant(use({})))).arguments == {}


def test_whole_messages_with_one_id_are_one_turn(form: str) -> None:
    """Without any id, as in older versions of the SDK, they are one until somebody answers."""
    bare = [assistant(text("so"), id_=None), assistant(use({}), id_=None), user([tool_result()])]
    turns = of_type(read(form, run(*bare, assistant(text("done"), id_=None)))[1], TurnCompleted)
    assert [len(one.message.parts) for one in turns] == [2, 1]
    lines = run(
        assistant(thinking("hm")),
        assistant(text("so")),
        assistant(use({"a": 1}, "toolu_1")),
        user([tool_result(id_="toolu_1")]),
        assistant(use({"b": 2}, "toolu_2")),  # another one of the first message
        user([tool_result(id_="toolu_2")]),
        assistant(text("done"), id_="msg_2"),
    )
    turns = of_type(read(form, lines)[1], TurnCompleted)
    assert [[part.__struct_config__.tag for part in one.message.parts] for one in turns] == [
        ["thinking", "text", "call", "call"],
        ["text"],
    ]
    assert [one.message.id for one in turns] == ["msg_1", "msg_2"]
    assert turns[0].message.model == "claude"
    assert turns[0].usage == Usage(input_tokens=7, output_tokens=1)


def test_a_block_whose_events_are_missing_comes_from_the_whole_message(form: str) -> None:
    lines = run(
        *streamed(message_start()),
        assistant(text("I write.")),  # no event told of it
        *streamed_call(*PIECES, index=1, id_="toolu_1"),
        assistant(use({"b": 2}, "toolu_2")),  # nor of this
        *streamed_call('{"c":3}', index=3, id_="toolu_3"),
        *streamed(*message_end()),
    )
    calls, events = read(form, lines)
    assert [call.arguments for call in calls] == [VALUE, {"b": 2}, {"c": 3}]
    assert of_type(events, TextDelta) == [TextDelta("I write.", 0)]
    (completed,) = of_type(events, TurnCompleted)
    assert [part.__struct_config__.tag for part in completed.message.parts] == [
        "text",
        "call",
        "call",
        "call",
    ]


def test_a_block_without_a_beginning_comes_from_the_whole_message(form: str) -> None:
    """Somebody joined in the middle."""
    lines = [
        *streamed(block_delta(0, "text_delta", text="ite.")),
        assistant(text("I write.")),
        *streamed(block_stop(0), input_json(1, ' "a.py"}')),
        assistant(use({"path": "a.py"})),
        *streamed(block_stop(1), *message_end()),
    ]
    calls, events = read(form, [*lines, run_result()])
    assert [(call.name, call.arguments) for call in calls] == [("write", {"path": "a.py"})]
    assert of_type(events, TextDelta) == [TextDelta("I write.", 0)]
    assert not of_type(events, StreamFailed)


@pytest.mark.parametrize(
    "style", [{}, {"ensure_ascii": False}, {"indent": 1}, {"separators": (",", ":")}]
)
def test_a_call_that_breaks_off_anywhere_gets_its_rest(form: str, style: Any) -> None:
    written = json.dumps(ARGUMENTS, **style)
    for place in range(len(written) + 1):
        lines = run(
            *streamed(message_start(), tool_use(0), input_json(0, written[:place])),
            assistant(use(ARGUMENTS)),
            user([tool_result()]),
        )
        calls, events = read(form, lines)
        assert [call.arguments for call in calls] == [ARGUMENTS], written[:place]
        assert json.loads(calls[0].raw) == ARGUMENTS, written[:place]
        assert calls[0].reinterpreted is None, written[:place]
        assert "".join(found.delta for found in of_type(events, ToolArgsDelta)) == calls[0].raw
        assert not of_type(events, StreamFailed)


ALL = run(
    *streamed(message_start(), block_start(0, "text", text="")),
    *streamed(*(block_delta(0, "text_delta", text=piece) for piece in ["I ", "write", "."])),
    assistant(text("I write.")),
    *streamed(block_stop(0)),
    *streamed_call(*cut(json.dumps(ARGUMENTS), [9]), index=1, id_="toolu_1"),
    *streamed_call(*cut('{"a": "b"}', [2]), index=2, id_="toolu_2"),
    *streamed(*message_end()),
    user([tool_result(id_="toolu_1"), tool_result(id_="toolu_2")]),
)


@given(lost=st.sets(st.sampled_from([place for place, line in enumerate(ALL) if "event" in line])))
def test_whichever_events_are_missing_no_call_is_complete_but_as_it_was(lost: set[int]) -> None:
    calls, events = read("lines", [line for place, line in enumerate(ALL) if place not in lost])
    assert [call.id for call in calls] == ["toolu_1", "toolu_2"]
    for call, value in zip(calls, [ARGUMENTS, {"a": "b"}], strict=True):
        assert call.verdict in ("complete", "truncated", "malformed")
        assert call.verdict != "complete" or call.arguments == value
    assert len(of_type(events, ToolCallCompleted)) == 2
    assert isinstance(events[-1], RunCompleted)


def test_text_and_thinking_that_break_off_get_their_rest(form: str) -> None:
    lines = run(
        *streamed(
            message_start(),
            block_start(0, "thinking", thinking="", signature=""),
            block_delta(0, "thinking_delta", thinking="let me "),
        ),
        assistant(thinking("let me see", "c2ln")),
        *streamed(block_start(1, "text", text=""), block_delta(1, "text_delta", text="I ")),
        assistant(text("I write.")),
    )
    _, events = read(form, lines)
    assert [found for found in events if not isinstance(found, RunCompleted)][:-1] == [
        ThinkingStarted(0),
        ThinkingDelta("let me ", 0),
        ThinkingDelta("see", 0),
        ThinkingCompleted("let me see", 0),
        TextDelta("I ", 1),
        TextDelta("write.", 1),
    ]
    (completed,) = of_type(events, TurnCompleted)
    assert completed.message.parts == (
        ThinkingPart(text="let me see", item=thinking("let me see", "c2ln")),
        TextPart(text="I write."),
    )


@pytest.mark.parametrize(
    ("written", "value", "expected", "reading"),
    [
        # What only looks different is not restated: JavaScript has other numbers and key orders.
        ('{ "a" : "\\u00e9\\/" }', {"a": "é/"}, {"a": "é/"}, None),
        ('{"a": 1.0, "b": 1e2}', {"a": 1, "b": 100}, {"a": 1.0, "b": 100.0}, None),
        ('{"a": 12345678901234567890}', {"a": 12345678901234567000}, "complete", None),
        ('{"b": 1, "2": 2, "1": 3}', {"1": 3, "2": 2, "b": 1}, {"b": 1, "2": 2, "1": 3}, None),
        ('{"a": "\\ud83d"}', {"a": "\ud83d"}, "complete", None),
        (" ", {}, {}, None),
        (" ", {"a": 1}, {"a": 1}, None),
        # The whole message has the last word,
        ('{"a": 1}', {"a": 2}, {"a": 2}, "restated"),
        ('{"a": 1}', {"a": True}, {"a": True}, "restated"),
        ('{"a": 1}', {}, {}, "restated"),
        ("{}", {"a": 1}, {"a": 1}, "restated"),
        # but does not mend what was malformed.
        ('{"a": 1, "a": 2}', {"a": 2}, "malformed", None),
        ('{"a": "\\d"}', {"a": 2}, "malformed", None),
        ('{"a": 1e999}', {"a": 2}, "malformed", None),
    ],
)
def test_the_whole_message_is_compared_with_what_streamed(
    form: str, written: str, value: Any, expected: Any, reading: str | None
) -> None:
    call = call_of(form, run(*turn(*streamed_call(written, value=value))))
    assert expected in (call.verdict, call.arguments)
    assert call.reinterpreted == reading
    assert call.raw.startswith(written)


@pytest.mark.parametrize("written", ["{", '{"path": "a.py", "cont', '{"path": "a.py"'])
def test_a_call_that_was_cut_is_not_what_stands_in_for_it(form: str, written: str) -> None:
    """Claude Code says ``{}`` of a call that it cannot read."""
    lines = [*streamed(message_start()), *streamed_call(written, value={})]
    ends = streamed(*message_end("max_tokens"))
    assert call_of(form, run(*lines, *ends)).verdict == "truncated"


def test_a_call_without_input_is_complete_when_nothing_was_cut(form: str) -> None:
    """An agent says {} of a call that was cut at its very beginning, too (invariant 8)."""
    lines = streamed_call("")
    for ordered in (lines, [*lines[:-2], lines[-1], lines[-2]]):
        turn = [init(), *streamed(message_start()), *ordered]
        for stop_reason, verdict in (("tool_use", "complete"), ("max_tokens", "truncated")):
            assembler = Assembler("claude-agent")
            for line in in_form(form, turn):
                assembler.feed(line)
            assert [call.verdict for call in assembler.calls] == ["open"]
            for line in in_form(form, streamed(*message_end(stop_reason))):
                assembler.feed(line)
            assert [call.verdict for call in assembler.calls] == [verdict]


@pytest.mark.parametrize(
    ("stop_reason", "verdict"), [("max_tokens", "truncated"), ("tool_use", "complete")]
)
def test_a_whole_message_after_the_stop_reason_changes_no_verdict(
    form: str, stop_reason: str, verdict: str
) -> None:
    lines = [
        *streamed(message_start(), tool_use(0), block_stop(0), *message_end(stop_reason)[:1]),
        assistant(use({})),
        *streamed(*message_end()[1:]),
    ]
    calls, events = read(form, run(*lines))
    assert [(call.verdict, call.raw) for call in calls] == [(verdict, "")]
    assert not of_type(events, StreamFailed)


def test_what_was_stopped_too_early_stays_as_it_was_shown(form: str) -> None:
    """Its whole message comes when all has been told already."""
    lines = [
        *streamed(message_start(), block_start(0, "thinking", thinking="", signature="")),
        *streamed(block_delta(0, "thinking_delta", thinking="let"), block_stop(0)),
        assistant(thinking("let me see")),
        *streamed(tool_use(1), input_json(1, '{"a": 1'), block_stop(1)),
        assistant(use({"a": 1})),
        *streamed(*message_end()),
    ]
    calls, events = read(form, run(*lines))
    assert [(call.verdict, call.raw) for call in calls] == [("truncated", '{"a": 1')]
    assert of_type(events, ThinkingStarted, ThinkingCompleted) == [
        ThinkingStarted(0),
        ThinkingCompleted("let", 0),
    ]


def test_the_last_call_of_a_whole_message_may_be_cut(form: str) -> None:
    blocks = use({"a": 1}, "toolu_1"), use({"b": 1}, "toolu_2")
    calls, events = read(form, run(assistant(*blocks, stop_reason="max_tokens")))
    assert [call.verdict for call in calls] == ["complete", "truncated"]
    assert [found.stop_reason for found in of_type(events, TurnCompleted)] == ["max_tokens"]
    cut_off = assistant(use({"b": 1}), stop_reason="max_tokens")
    _, events = read(form, run(cut_off, assistant(text("so"), id_="msg_2")))
    assert [found.stop_reason for found in of_type(events, TurnCompleted)] == ["max_tokens", None]
    assert not of_type(events, StreamFailed)


@pytest.mark.parametrize("value", [{"a": 1}, {"a": 2}])
def test_the_input_of_a_block_start_is_given_once_as_the_whole_message_has_it(
    form: str, value: Payload
) -> None:
    lines = streamed(message_start(), tool_use(0, input={"a": 1}))
    calls, events = read(form, run(*lines, assistant(use(value)), *streamed(*message_end())))
    assert [(call.arguments, json.loads(call.raw)) for call in calls] == [(value, value)]
    assert not of_type(events, StreamFailed)


def test_the_same_call_said_whole_twice_is_one(form: str) -> None:
    lines = [assistant(use({"a": 1})), assistant(use({"a": 1}), use({"b": 1}, "toolu_2"))]
    assert [call.id for call in read(form, run(*lines))[0]] == ["toolu_1", "toolu_2"]


def test_calls_without_an_id_are_calls_all_the_same(form: str) -> None:
    calls, _ = read(form, run(assistant(use({"a": 1}, ""), use({"b": 2}, ""))))
    assert [call.arguments for call in calls] == [{"a": 1}, {"b": 2}]


def test_a_message_that_begins_anew_cuts_the_one_before(form: str) -> None:
    """The connection to the API broke; it tries again."""
    lines = run(
        *streamed(message_start("msg_1"), tool_use(0, id_="toolu_1"), input_json(0, '{"a":1}')),
        {"type": "system", "subtype": "api_retry", "attempt": 1, **SESSION},
        *turn(*streamed_call('{"a":1}', id_="toolu_2", message="msg_2"), id_="msg_2"),
    )
    calls, events = read(form, lines)
    assert [call.verdict for call in calls] == ["truncated", "complete"]
    assert types(of_type(events, StreamFailed, TurnCompleted)) == [
        "stream_failed",
        "turn_completed",
    ]


def test_a_turn_whose_end_is_missing_is_whole_if_all_of_it_was_said_whole(form: str) -> None:
    lines = run(
        *streamed(message_start()),
        *streamed_call('{"a":1}'),
        user([tool_result()]),
        *streamed(message_start("msg_2"), *message_end("end_turn")),
    )
    events = of_type(read(form, lines)[1], StreamFailed, TurnCompleted)
    assert [(one.type, one.stop_reason) for one in events] == [
        ("turn_completed", None),
        ("turn_completed", "end_turn"),
    ]


# Thinking


def test_thinking_without_text_still_shows_that_it_happens(form: str) -> None:
    signature = block_delta(0, "signature_delta", signature="c2ln")
    with_events = [
        *streamed(message_start(), block_start(0, "thinking", thinking="", signature="")),
        *streamed(block_delta(0, "thinking_delta", thinking=""), signature),
        assistant(thinking("")),
        *streamed(block_stop(0), *message_end("end_turn")),
    ]
    for lines in (with_events, [assistant(thinking(""))]):
        _, events = read(form, run(*lines))
        assert events[:2] == [ThinkingStarted(0), ThinkingCompleted("", 0)]
        (completed,) = of_type(events, TurnCompleted)
        assert completed.message.parts == (ThinkingPart(text="", item=thinking("")),)


def test_who_called_is_kept_with_the_call() -> None:
    caller: Payload = {"caller": {"type": "direct"}}
    whole = assistant({**use({"a": 1}), **caller})
    with_events = turn(*streamed(tool_use(0, **caller), input_json(0, '{"a":1}')), whole)
    for lines in ([whole], with_events):
        (completed,) = of_type(read("lines", run(*lines))[1], TurnCompleted)
        (part,) = completed.message.parts
        assert part.item == {**use({}), **caller}


# Calls that the API runs


@pytest.mark.parametrize("is_streamed", [True, False])
def test_what_the_api_ran_has_its_result_in_the_message(form: str, is_streamed: bool) -> None:
    called = {**use({"q": 1}, "srv_1", "advisor"), "type": "server_tool_use"}
    content = {"type": "advisor_result", "text": "yes"}
    result: Payload = {"type": "advisor_tool_result", "tool_use_id": "srv_1", "content": content}
    lines = [assistant(called), assistant(result)]
    if is_streamed:
        start = block_start(0, "server_tool_use", **{**called, "input": {}})
        lines = [
            *streamed(message_start(), start, input_json(0, '{"q":1}')),
            lines[0],
            *streamed(block_stop(0), block_start(1, **{**result, "type_": result["type"]})),
            lines[1],
            *streamed(block_stop(1), *message_end("end_turn")),
        ]
    calls, events = read(form, run(*lines))
    assert [(call.kind, call.arguments) for call in calls] == [("server", {"q": 1})]
    assert of_type(events, ToolCallCompleted) == [
        ToolCallCompleted("srv_1", "advisor", {"q": 1}, content)
    ]
    (completed,) = of_type(events, TurnCompleted)
    assert completed.message.parts[1:] == (
        ResultPart(call_id="srv_1", result=content, item=result),
    )


def test_messages_may_be_made_by_hand() -> None:
    blocks: list[ContentBlock] = [
        TextBlock("hello"),
        ToolUseBlock("toolu_1", "Read", {"a": 1}),
        ServerToolUseBlock("srv_1", "web_search", {}),
        ServerToolResultBlock("srv_1", {"type": "web_search_tool_result_error"}),
    ]
    calls, events = assemble(
        [AssistantMessage(content=blocks, model="claude")], protocol="claude-agent"
    )
    assert [call.kind for call in calls] == ["function", "server"]
    assert types(events)[-2:] == ["tool_call_failed", "turn_completed"]


# Results


@pytest.mark.parametrize(
    ("content", "is_error"),
    [
        ("done", None),
        ("done", False),
        ([{"type": "text", "text": "done"}], None),
        ("no such file", True),
    ],
)
@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_result_completes_its_call(
    form: str, content: Any, is_error: bool | None, is_streamed: bool
) -> None:
    called = turn(*streamed_call('{"a":1}')) if is_streamed else [assistant(use({"a": 1}))]
    answer = user([tool_result(content, is_error=is_error)], tool_use_result={"stdout": "done"})
    _, events = read(form, run(*called, answer))
    expected = (
        ToolCallFailed("toolu_1", "write", content)
        if is_error
        else ToolCallCompleted("toolu_1", "write", {"a": 1}, content)
    )
    assert of_type(events, ToolCallCompleted, ToolCallFailed) == [expected]
    assert not any(isinstance(part, ResultPart) for part in _parts(events))


def _parts(events: list[Event]) -> list[Any]:
    return [part for one in of_type(events, TurnCompleted) for part in one.message.parts]


def test_a_result_without_content_is_what_the_tool_said(form: str) -> None:
    answer = user([tool_result(None)], tool_use_result={"stdout": "done"})
    _, events = read(form, run(assistant(use({})), answer))
    (done,) = of_type(events, ToolCallCompleted)
    assert done.result == {"stdout": "done"}


@pytest.mark.parametrize(
    "line",
    [
        user("please write"),
        user([text("please write")]),
        user([text("[Request interrupted by user]")], isSynthetic=True),
        user("please write", isReplay=True),
        user([text("do it")], TASK),
        user([tool_result(id_="toolu_old")]),  # of a call that never came
    ],
)
def test_what_a_user_says_is_no_result(form: str, line: Payload) -> None:
    expected = joined(read(form, run(assistant(use({}))))[1])
    assert joined(read(form, run(line, assistant(use({})), line))[1]) == expected


def test_a_call_has_one_result(form: str) -> None:
    answers = [user([tool_result("first")]), user([tool_result("second")])]
    _, events = read(form, run(assistant(use({})), *answers))
    assert [done.result for done in of_type(events, ToolCallCompleted)] == ["first"]
    replayed = user([tool_result()], isReplay=True)
    assert not of_type(read("lines", run(assistant(use({})), replayed))[1], ToolCallCompleted)


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("written", ["", '{"a":1}', '{"a'])
def test_what_was_run_was_written_and_what_failed_may_have_been_cut(
    form: str, written: str, failed: bool
) -> None:
    """The end of the call was missed, and its whole message, too.

    Where somebody interrupts, every call gets a result that says so, written or not.
    """
    begun = streamed(message_start(), tool_use(0), input_json(0, written))
    answer = user([tool_result("interrupted", is_error=True) if failed else tool_result()])
    calls, events = read(form, run(*begun, answer))
    is_cut = failed or written == '{"a'
    assert [call.verdict for call in calls] == ["truncated" if is_cut else "complete"]
    assert len(of_type(events, ToolCallFailed if failed else ToolCallCompleted)) == 1


# Sub-agents


@pytest.mark.parametrize("is_streamed", [True, False])
def test_what_a_sub_agent_says_is_told_apart_by_the_call_that_started_it(
    form: str, is_streamed: bool
) -> None:
    def said(value: Payload, id_: str, message: str, parent: str | None = None) -> list[Payload]:
        if not is_streamed:
            return [assistant(use(value, id_), id_=message, parent=parent)]
        whole = streamed_call(json.dumps(value), id_=id_, message=message, parent=parent)
        return turn(*whole, id_=message, parent=parent)

    lines = run(
        *said({"prompt": "look"}, TASK, "msg_1"),
        user([text("look")], TASK),
        *said({"a": 1}, "toolu_1", "msg_2", TASK),
        user([tool_result("found", "toolu_1")], TASK),
        assistant(thinking(""), text("here"), id_="msg_3", parent=TASK),
        user([tool_result("here", TASK)]),
        assistant(text("It is here."), id_="msg_4"),
    )
    calls, events = read(form, lines)
    assert [(call.id, call.parent_id) for call in calls] == [(TASK, None), ("toolu_1", TASK)]
    assert [done.result for done in of_type(events, ToolCallCompleted)] == ["found", "here"]
    texts = of_type(events, ThinkingStarted, TextDelta)
    assert [found.parent_id for found in texts] == [TASK, TASK, None]
    turns = [(one.message.id, one.parent_id) for one in of_type(events, TurnCompleted)]
    assert sorted(turns) == [("msg_1", None), ("msg_2", TASK), ("msg_3", TASK), ("msg_4", None)]


def test_agents_that_speak_at_once_are_never_mixed(form: str) -> None:
    """All of them write to a block of the same index."""
    parents = [None, "toolu_a", "toolu_b"]
    texts = [json.dumps({"by": str(parent), "x": "y" * 40}) for parent in parents]
    lines: list[Payload] = [event(message_start(str(parent)), parent) for parent in parents]
    lines += [event(tool_use(0, id_=f"call_{parent}"), parent) for parent in parents]
    for pieces in zip(*(cut(written, [5]) for written in texts), strict=False):
        lines += [
            event(input_json(0, piece), parent)
            for parent, piece in zip(parents, pieces, strict=True)
        ]
    for parent, written in zip(parents, texts, strict=True):
        whole = use(json.loads(written), f"call_{parent}")
        lines.append(assistant(whole, id_=str(parent), parent=parent))
    lines += [event(end, parent) for end in message_end() for parent in parents]
    calls, events = read(form, run(*lines))
    assert [(call.parent_id, call.arguments) for call in calls] == [
        (parent, json.loads(written)) for parent, written in zip(parents, texts, strict=True)
    ]
    assert [one.parent_id for one in of_type(events, TurnCompleted)] == parents
    assert not of_type(events, StreamFailed)


def test_the_result_of_its_call_ends_a_sub_agent(form: str) -> None:
    begun = streamed(message_start("msg_2"), tool_use(0), input_json(0, '{"a'), parent=TASK)
    answer = user([tool_result("gave up", TASK, is_error=True)])
    _, events = read(form, run(assistant(use({"a": 1}, TASK)), *begun, answer))
    ends = of_type(events, ToolArgsInvalid, TurnCompleted, ToolCallFailed)
    assert [(one.type, getattr(one, "parent_id", "")) for one in ends] == [
        ("tool_args_invalid", ""),
        ("turn_completed", TASK),
        ("tool_call_failed", ""),
        ("turn_completed", None),
    ]


@pytest.mark.parametrize("ends", [True, False])
def test_a_sub_agent_in_the_background_goes_on_after_its_call_has_a_result(
    form: str, ends: bool
) -> None:
    started = user([tool_result("started", TASK)], tool_use_result={"isAsync": True})
    told = {"task_id": "t", "status": "completed", "output_file": "", "summary": "", **SESSION}
    over = {"type": "system", "subtype": "task_notification", "tool_use_id": TASK, **told}
    whole = streamed_call('{"a":1}', message="msg_2", parent=TASK)
    lines = [
        assistant(use({}, TASK)),
        *streamed(message_start("msg_2"), parent=TASK),
        *whole[:2],
        started,
        *whole[2:],
        *([over] if ends else streamed(*message_end(), parent=TASK)),
    ]
    calls, events = read(form, run(*lines))
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert [one.parent_id for one in of_type(events, TurnCompleted)] == [TASK, None]


def test_a_sub_agent_that_fails_leaves_the_others_alone(form: str) -> None:
    lines = [
        *streamed(message_start("msg_a"), tool_use(0, id_="toolu_a"), parent="toolu_1"),
        *streamed(message_start("msg_b"), tool_use(0, id_="toolu_b"), parent="toolu_2"),
        assistant(text("Overloaded"), id_="msg_x", parent="toolu_1", error="server_error"),
        *streamed(input_json(0, '{"b":1}'), block_stop(0), *message_end(), parent="toolu_2"),
    ]
    calls, events = read(form, run(*lines))
    assert [call.verdict for call in calls] == ["truncated", "complete"]
    assert types(of_type(events, StreamFailed, TurnCompleted, RunCompleted)) == [
        "stream_failed",
        "turn_completed",
        "run_completed",
    ]


# How a run ends


def test_a_result_message_ends_the_run(form: str) -> None:
    usage = {"input_tokens": 4, "cache_read_input_tokens": 100, "output_tokens": 50}
    _, events = read(form, [init(), assistant(text("so")), run_result(result="so", usage=usage)])
    assert events[-1] == RunCompleted("so", Usage(104, 50, cache_read_tokens=100))
    assert types(events) == ["text_delta", "turn_completed", "run_completed"]
    idle = {"type": "system", "subtype": "session_state_changed", "state": "idle", **SESSION}
    structured = run_result(result="{}", structured_output={"a": 1})
    _, events = read(form, [init(), structured, idle])
    assert events == [RunCompleted({"a": 1}, Usage(7, 5))]


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        (run_result("error_max_turns"), RunFailed("error_max_turns", "error_max_turns")),
        (
            run_result("error_during_execution", errors=["first", "second"]),
            RunFailed("error_during_execution", "first; second"),
        ),
        (
            run_result("error_max_budget_usd", errors=["over 1 USD"]),
            RunFailed("error_max_budget_usd", "over 1 USD"),
        ),
        (
            run_result(is_error=True, result="API Error: 529", api_error_status=529),
            RunFailed("api_error", "API Error: 529"),
        ),
        (
            run_result("error_during_execution", terminal_reason="aborted_streaming"),
            RunFailed("aborted_streaming", "aborted_streaming"),
        ),
        (
            run_result(terminal_reason="aborted_tools", result=""),
            RunFailed("aborted_tools", "aborted_tools"),
        ),
        (run_result("something_new", is_error=False), RunFailed("something_new", "something_new")),
        (run_result("", is_error=None), RunFailed("unknown", "unknown")),
    ],
)
def test_a_run_that_failed_says_why(form: str, result: Payload, failed: RunFailed) -> None:
    assert read(form, [init(), result])[1] == [replace(failed, usage=Usage(7, 5))]


def test_the_end_of_the_run_gives_everything_its_verdict(form: str) -> None:
    lines = [
        init(),
        *streamed(message_start(), tool_use(0), input_json(0, '{"a":1}')),
        *streamed(message_start("msg_2"), block_start(0, "thinking"), parent=TASK),
        run_result("error_during_execution", terminal_reason="aborted_streaming"),
    ]
    calls, events = read(form, lines)
    assert [call.verdict for call in calls] == ["truncated"]
    assert types(events)[-5:] == [
        "tool_args_invalid",
        "turn_completed",
        "thinking_completed",
        "turn_completed",
        "run_failed",
    ]


def test_a_second_run_may_look_just_like_the_first(form: str) -> None:
    """Where ids were taken out, for example."""
    lines = run(assistant(use({"a": 1})), user([tool_result()]))
    once, twice = read(form, lines), read(form, [*lines, *lines])
    assert types(twice[1]) == types(once[1]) * 2
    assert [call.arguments for call in twice[0]] == [{"a": 1}, {"a": 1}]


MISSING = StreamFailed("truncated", "the stream ended before the run did", retryable=True)


@pytest.mark.parametrize(
    "lines",
    [
        [init()],
        [init(), *turn(*streamed_call('{"a":1}')), user([tool_result()])],
        [user("hello"), *EVENTS],
        [init(), run_result(), init()],
    ],
)
def test_a_run_without_a_result_was_cut(form: str, lines: list[Payload]) -> None:
    _, events = read(form, lines)
    assert events[-1] == MISSING
    assert len(of_type(events, StreamFailed)) == 1


@pytest.mark.parametrize(
    "begun",
    [
        streamed(message_start(), tool_use(0)),
        [assistant(use({"a": 1}))],
        [assistant(use({}, TASK)), *streamed(message_start("msg_2"), parent=TASK)],
        [*streamed(message_start("msg_2"), parent=TASK), *EVENTS],
    ],
)
def test_a_turn_in_the_middle_of_which_all_ends_was_cut_and_that_is_said_once(
    form: str, begun: list[Payload]
) -> None:
    _, events = read(form, [init(), *begun])
    (failed,) = of_type(events, StreamFailed)
    assert (failed.code, failed.retryable) == ("truncated", True)
    assert events[-1] == failed


@pytest.mark.parametrize("lines", [[WHOLE], EVENTS, [*EVENTS, assistant(text("so"), id_="msg_2")]])
def test_who_picked_out_what_the_model_said_misses_no_result(
    form: str, lines: list[Payload]
) -> None:
    _, events = read(form, lines)
    assert not of_type(events, StreamFailed)
    assert isinstance(events[-1], TurnCompleted)


# Failures


@pytest.mark.parametrize(
    ("code", "is_retryable"),
    [("authentication_failed", False), ("rate_limit", True), ("server_error", True)],
)
def test_an_error_of_the_api_is_no_word_of_the_model(
    form: str, code: str, is_retryable: bool
) -> None:
    failed = assistant(text("It did not work"), id_="made_up", error=code)
    for lines in ([init(), failed], [init(), failed, run_result(is_error=True, result="It")]):
        _, events = read(form, lines)
        assert events[0] == StreamFailed(code, "It did not work", is_retryable)
        assert types(events[1:]) in ([], ["run_failed"])


def test_an_error_in_the_middle_of_a_turn_cuts_it(form: str) -> None:
    begun = streamed(message_start(), tool_use(0), input_json(0, '{"a":1}'))
    failed = assistant(text("Overloaded"), id_="made_up", error="server_error")
    calls, events = read(form, [init(), *begun, failed])
    assert [call.verdict for call in calls] == ["truncated"]
    assert types(events)[-2:] == ["tool_args_invalid", "stream_failed"]
    _, events = read(form, [init(), *begun, failed, run_result(is_error=True)])
    assert types(events)[-2:] == ["stream_failed", "run_failed"]


# What is tolerated, and what is not


OTHERS: list[Payload] = [
    {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 529},
    {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto"}},
    {"type": "system", "subtype": "task_updated", "task_id": "t", "patch": {"status": "running"}},
    {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}},
    {"type": "stream_event", "event": {"type": "ping"}},
    {"type": "stream_event", "event": {"type": "brand_new", "index": "?", "delta": 3}},
    {"type": "brand_new", "parent_tool_use_id": 3, "message": ["?"], "event": "?", "subtype": 1},
    {"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool"}},
    {"type": "tool_progress", "tool_use_id": "toolu_1", "parent_tool_use_id": None},
    {"type": "keep_alive"},
]


@pytest.mark.parametrize("other", OTHERS)
def test_other_messages_change_nothing(form: str, other: Payload) -> None:
    lines = run(*turn(*streamed_call(*PIECES)), user([tool_result()]))
    expected = joined(read(form, lines)[1])
    for place in range(1, len(lines)):
        told = [*lines[:place], {**SESSION, **other}, *lines[place:]]
        assert joined(read(form, told)[1]) == expected


@pytest.mark.parametrize(
    "line",
    [
        event({**input_json(0, ""), "delta": 3}),
        event(input_json(0, "x"), parent=3),  # type: ignore[arg-type]
        {"type": "stream_event", **SESSION},
        {**event(input_json(0, "x")), "event": "a word"},
        {**WHOLE, "message": "a word"},
        {**WHOLE, "message": {"content": 3}},
        {**WHOLE, "message": {"content": ["a word"]}},
        {**WHOLE, "parent_tool_use_id": 3},
        assistant({"type": "tool_use", "id": "toolu_2", "name": "write"}),
        assistant(use(None, "toolu_2")),
        assistant(use('{"a":1}', "toolu_2")),
        user(3, parent=3),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_read_completes_nothing(line: Payload) -> None:
    begun = [init(), *streamed(message_start(), tool_use(0), input_json(0, '{"a":1}'))]
    for payload in (json.dumps(line).encode(), line):
        calls, events = assemble([*begun, payload], protocol="claude-agent")
        assert [call.verdict for call in calls] == ["truncated"]
        assert of_type(events, StreamFailed)[0].code == "bad_payload"


def test_a_key_that_is_given_twice_in_a_whole_call_is_refused() -> None:
    line = json.dumps(assistant(use({"a": 1, "b": 2}))).replace('"b"', '"a"').encode()
    calls, events = assemble([json.dumps(init()).encode(), line], protocol="claude-agent")
    assert calls == []
    assert of_type(events, StreamFailed)[0].code == "bad_payload"


def test_a_line_with_half_a_character_is_read() -> None:
    """JavaScript escapes it, and no strict decoder reads that."""
    lines = [
        *streamed(message_start()),
        *streamed_call('{"a":"\ud83d', '\ude00"}', value={"a": "😀"}),
    ]
    call = call_of("lines", run(*lines))
    assert (call.arguments, call.reinterpreted) == ({"a": "😀"}, None)


# The SDK itself


CONVERSATION = run(
    *turn(*streamed_call(*PIECES)),
    user([tool_result("written")]),
    assistant(text("Done."), id_="msg_2"),
)


def test_a_query_of_the_sdk_is_a_source() -> None:
    async def main() -> list[Event]:
        messages = query(prompt="write", transport=FakeTransport(CONVERSATION))
        async with stream(messages, protocol="claude-agent") as events:
            return [found async for found in events]

    assert joined(asyncio.run(main())) == joined(read("objects", CONVERSATION)[1])


def test_who_stops_reading_a_query_aborts_what_is_open() -> None:
    async def main() -> list[Call]:
        messages = query(prompt="write", transport=FakeTransport(CONVERSATION))
        async with stream(messages, protocol="claude-agent") as events:
            async for found in events:
                if isinstance(found, ToolArgsDelta):
                    break
        await asyncio.sleep(0.05)  # the SDK leaves its cleaning up to the event loop
        return events.calls

    assert [call.verdict for call in asyncio.run(main())] == ["aborted"]
    assert of_type(read("objects", CONVERSATION)[1], ToolArgsCompleted)


def test_a_whole_block_of_a_call_that_streams_belongs_to_its_message(form: str) -> None:
    """Also if it has no id and something was answered meanwhile, or its start was missed."""
    parts = [tool_use(0), input_json(0, '{"a"'), input_json(0, ": 1}")]
    start, *rest = streamed(message_start(), *parts)
    for before in ([start], []):
        lines = [
            *before,
            *rest,
            user([tool_result(id_="another")]),
            assistant(use({"a": 1}), id_=None),
            *streamed(block_stop(0), *message_end()),
        ]
        calls, events = read(form, run(*lines))
        assert [(call.id, call.arguments) for call in calls] == [("toolu_1", {"a": 1})]
        assert of_type(events, StreamFailed) == []


def test_a_sub_agent_in_the_background_outlives_the_run(form: str) -> None:
    started = user([tool_result("started", TASK)], tool_use_result={"isAsync": True})
    begun = streamed(message_start("msg_2"), tool_use(0), input_json(0, '{"a"'), parent=TASK)
    ended = streamed(input_json(0, ": 1}"), block_stop(0), *message_end(), parent=TASK)
    lines = [assistant(use({"a": 1}, TASK)), started, *begun, run_result(), *ended]
    calls, events = read(form, [init(), *lines])
    assert [(call.id, call.arguments) for call in calls] == [
        (TASK, {"a": 1}),
        ("toolu_1", {"a": 1}),
    ]
    assert [turn.parent_id for turn in of_type(events, TurnCompleted)] == [None, TASK]


def test_what_only_closes_a_call_is_not_believed_if_the_turn_was_cut(form: str) -> None:
    """Somebody may have made a value of a text that was cut."""
    begun = streamed(message_start(), tool_use(0), input_json(0, '{"path": "/tmp/ab'))
    guess = use({"path": "/tmp/ab"})
    for message in (assistant(guess), assistant(guess, stop_reason="max_tokens")):
        lines = [*begun, message, *streamed(block_stop(0), *message_end("max_tokens"))]
        assert call_of(form, run(*lines)).verdict == "truncated"
    lines = [*begun, assistant(guess), *streamed(block_stop(0), *message_end())]
    assert call_of(form, run(*lines)).arguments == {"path": "/tmp/ab"}

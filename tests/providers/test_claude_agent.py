"""Claude Code and the Agent SDK: on lines and on the SDK's own messages."""

import json
from typing import Any

import claude_agent_sdk as sdk
import pytest
from claude_agent_sdk import AssistantMessage, ServerToolUseBlock, TextBlock, ToolUseBlock
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from argstream import events as ev
from argstream.assembly import Assembler
from argstream.history import ResultPart, TextPart, ThinkingPart
from argstream.testing import cut
from tests import provider_streams as api
from tests.claude_agent import (
    FORMS,
    SESSION,
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
from tests.provider_streams import Payload, block_stop, input_json, message_end, message_start

TASK = "toolu_task"
ARGUMENTS = {"path": "ä.py", "lines": [1, 2.5, {"deep": 'a "word"\n😀'}], "force": True}

STYLES: list[dict[str, Any]] = [
    *({}, {"ensure_ascii": False}, {"separators": (",", ":")}),
    {"indent": 2, "ensure_ascii": False},
]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def run(*lines: Payload) -> list[Payload]:
    return [init(), *lines, run_result()]


def turn(*lines: Payload, id_: str = "msg_1", parent: str | None = None) -> list[Payload]:
    """A turn with its stream events."""
    ends = streamed(*message_end(), parent=parent)
    return [event(message_start(id_), parent), *lines, *ends]


def begun(written: str, id_: str = "toolu_1", message: str = "msg_1") -> list[Payload]:
    """A turn that starts a call with this text."""
    return streamed(message_start(message), api.tool_use(0, id_=id_), input_json(0, written))


def ended(stop_reason: str = "tool_use") -> list[Payload]:
    return streamed(block_stop(0), *message_end(stop_reason))


def tags(events: list[ev.Event]) -> list[list[str]]:
    return [[part.__struct_config__.tag for part in one.message.parts] for one in api.turns(events)]


PIECES = ('{"path": "a.py", ', '"size": 1}')
VALUE = {"path": "a.py", "size": 1}
WHOLE = assistant(text("I write."), use(VALUE))
EVENTS = streamed(
    *(message_start(), api.block_start(0, "text", text="")),
    *(api.block_delta(0, "text_delta", text="I write."), block_stop(0), api.tool_use(1)),
    *(*(input_json(1, piece) for piece in PIECES), block_stop(1), *message_end()),
)


@pytest.mark.parametrize("place", range(len(EVENTS) - 3, len(EVENTS) + 1))
def test_whole_message_beside_its_events_changes_nothing(form: str, place: int) -> None:
    _, expected = read(form, run(*EVENTS))
    calls, events = read(form, run(*EVENTS[:place], WHOLE, *EVENTS[place:]))
    assert api.joined(events) == api.joined(expected)
    assert [call.raw for call in calls] == ["".join(PIECES)]
    # Without stream events, it is read itself.
    calls, events = read(form, run(WHOLE))
    assert api.joined(events)[0] == ev.TextDelta("I write.", 0)
    assert api.types(events)[-3:] == ["tool_args_completed", "turn_completed", "run_completed"]
    assert [(call.id, call.name, call.arguments) for call in calls] == [("toolu_1", "write", VALUE)]


API_ERROR = assistant(text("API Error"), id_="x", error="max_output_tokens")
INVALID = user([tool_result("InputValidationError", is_error=True)])
DONE, FAILED = user([tool_result()]), user([tool_result("interrupted", is_error=True)])
GUESS = use({"path": "/tmp/ab"})
CUT_GUESS = assistant(GUESS, stop_reason="max_tokens")
RETRY = {"type": "system", "subtype": "api_retry", "attempt": 1, **SESSION}
OTHER = streamed_call('{"a":1}', id_="toolu_2", message="msg_2")
TWO = [use({"a": 1}, "toolu_1"), use({"b": 1}, "toolu_2")]
LOST_START = streamed(api.tool_use(0), input_json(0, '{"a": 1}'))
LATE_WHOLE = [user([tool_result(id_="another")]), assistant(use({"a": 1}), id_=None), *ended()]


def cut_turn(written: str) -> list[Payload]:
    """Claude Code sends ``{}`` for input that it cannot read."""
    whole = streamed_call(written, value={})
    return [*streamed(message_start()), *whole, *streamed(*message_end("max_tokens"))]


OUTCOMES: dict[str, tuple[list[Payload], list[Any]]] = {
    # Claude Code sends {} for input that it cannot read, so it is no proof (invariant 8).
    "empty input": ([assistant(use({}))], [{}]),
    "empty input and an error": ([assistant(use({})), API_ERROR, INVALID], ["truncated"]),
    "empty input and a failed result": ([assistant(use({})), INVALID], ["truncated"]),
    "text and an error": ([*begun('{"a":1}'), API_ERROR], ["truncated"]),
    **{
        f"cut after {written}": (cut_turn(written), ["truncated"])
        for written in ("{", '{"path": "a.py", "cont', '{"path": "a.py"')
    },
    # A whole message may have parsed a prefix.
    "cut guess": ([*begun('{"path": "/tmp/ab'), CUT_GUESS, *ended("max_tokens")], ["truncated"]),
    "guess in a cut turn": (
        [*begun('{"path": "/tmp/ab'), assistant(GUESS), *ended("max_tokens")],
        ["truncated"],
    ),
    "guess in a whole turn": (
        [*begun('{"path": "/tmp/ab'), assistant(GUESS), *ended()],
        [{"path": "/tmp/ab"}],
    ),
    # Without an end and a whole message, a result shows that the call was whole. An interrupted
    # call has a failed result.
    "no text and a result": ([*begun(""), DONE], [{}]),
    "text and a result": ([*begun('{"a":1}'), DONE], [{"a": 1}]),
    "open text and a result": ([*begun('{"a'), DONE], ["truncated"]),
    "no text and a failure": ([*begun(""), FAILED], ["truncated"]),
    "text and a failure": ([*begun('{"a":1}'), FAILED], ["truncated"]),
    "open text and a failure": ([*begun('{"a'), FAILED], ["truncated"]),
    "last call is cut": ([assistant(*TWO, stop_reason="max_tokens")], [{"a": 1}, "truncated"]),
    "repeated call": ([assistant(TWO[0]), assistant(*TWO)], [{"a": 1}, {"b": 1}]),
    "calls without IDs": ([assistant(use({"a": 1}, ""), use({"b": 2}, ""))], [{"a": 1}, {"b": 2}]),
    "new message after a retry": (
        [*begun('{"a":1}'), RETRY, *turn(*OTHER, id_="msg_2")],
        ["truncated", {"a": 1}],
    ),
    "whole block without an ID": ([event(message_start()), *LOST_START, *LATE_WHOLE], [{"a": 1}]),
    "whole block without an ID or a start": ([*LOST_START, *LATE_WHOLE], [{"a": 1}]),
}


@pytest.mark.parametrize(("lines", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_outcomes(form: str, lines: list[Payload], expected: list[Any]) -> None:
    calls, events = read(form, run(*lines))
    assert api.outcomes(calls) == expected
    assert len(api.results(events)) == sum(line in (DONE, FAILED, INVALID) for line in lines)
    assert bool(api.failures(events)) == (API_ERROR in lines or RETRY in lines)


def feed(assembler: Assembler, form: str, lines: list[Payload]) -> list[str]:
    for line in in_form(form, lines):
        assembler.feed(line)
    return [call.verdict for call in assembler.calls]


def test_whole_call_is_complete_at_once_unless_its_input_is_empty(form: str) -> None:
    assembler = Assembler("claude-agent")
    lines = [init(), assistant(use({"a": 1})), assistant(use({}, "toolu_2"))]
    assert feed(assembler, form, lines) == ["complete", "open"]
    feed(assembler, form, [user([tool_result(id_="toolu_2")])])
    assert [call.arguments for call in assembler.calls] == [{"a": 1}, {}]


@pytest.mark.parametrize(
    ("stop_reason", "verdict"), [("tool_use", "complete"), ("max_tokens", "truncated")]
)
def test_call_without_input_needs_a_stop_reason(form: str, stop_reason: str, verdict: str) -> None:
    """Claude Code sends {} for a call that was cut at its start, too (invariant 8)."""
    lines = streamed_call("")
    for ordered in (lines, [*lines[:-2], lines[-1], lines[-2]]):
        assembler = Assembler("claude-agent")
        assert feed(assembler, form, [init(), *streamed(message_start()), *ordered]) == ["open"]
        assert feed(assembler, form, streamed(*message_end(stop_reason))) == [verdict]
    late = [
        *streamed(message_start(), api.tool_use(0), block_stop(0), *message_end(stop_reason)[:1]),
        *(assistant(use({})), *streamed(*message_end()[1:])),
    ]
    calls, events = read(form, run(*late))
    assert [(call.verdict, call.raw) for call in calls] == [(verdict, "")]
    assert api.failures(events) == []


def test_whole_messages_with_one_id_are_one_turn(form: str) -> None:
    lines = run(
        *(assistant(thinking("hm")), assistant(text("so")), assistant(use({"a": 1}))),
        *(DONE, assistant(use({"b": 2}, "toolu_2")), user([tool_result(id_="toolu_2")])),
        assistant(text("done"), id_="msg_2"),
    )
    _, events = read(form, lines)
    assert tags(events) == [["thinking", "text", "call", "call"], ["text"]]
    assert [one.message.id for one in api.turns(events)] == ["msg_1", "msg_2"]
    first = api.turns(events)[0]
    assert (first.message.model, first.usage) == ("claude", ev.Usage(7, 1))
    # Older versions of the SDK have no IDs. There, a result ends the turn.
    bare = [assistant(text("so"), id_=None), assistant(use({}), id_=None), DONE]
    _, events = read(form, run(*bare, assistant(text("done"), id_=None)))
    assert tags(events) == [["text", "call"], ["text"]]


def test_block_without_events_comes_from_the_whole_message(form: str) -> None:
    lines = run(
        *(*streamed(message_start()), assistant(text("I write."))),
        *streamed_call(*PIECES, index=1, id_="toolu_1"),
        assistant(use({"b": 2}, "toolu_2")),
        *streamed_call('{"c":3}', index=3, id_="toolu_3"),
        *streamed(*message_end()),
    )
    calls, events = read(form, lines)
    assert [call.arguments for call in calls] == [VALUE, {"b": 2}, {"c": 3}]
    assert api.of_type(events, ev.TextDelta) == [ev.TextDelta("I write.", 0)]
    assert tags(events) == [["text", "call", "call", "call"]]


def test_block_without_a_start_comes_from_the_whole_message(form: str) -> None:
    lines = [
        *(event(api.block_delta(0, "text_delta", text="ite.")), assistant(text("I write."))),
        *streamed(block_stop(0), input_json(1, ' "a.py"}')),
        *(assistant(use({"path": "a.py"})), *streamed(block_stop(1), *message_end())),
    ]
    calls, events = read(form, [*lines, run_result()])
    assert [(call.name, call.arguments) for call in calls] == [("write", {"path": "a.py"})]
    assert api.of_type(events, ev.TextDelta) == [ev.TextDelta("I write.", 0)]
    assert api.failures(events) == []


@pytest.mark.parametrize("style", STYLES)
def test_cut_call_is_completed_from_the_whole_message(form: str, style: dict[str, Any]) -> None:
    written, whole = json.dumps(ARGUMENTS, **style), json.dumps(ARGUMENTS, ensure_ascii=False)
    for place in range(len(written) + 1):
        calls, events = read(form, run(*begun(written[:place]), assistant(use(ARGUMENTS)), DONE))
        assert [call.arguments for call in calls] == [ARGUMENTS], written[:place]
        is_same = place == len(written) or whole.startswith(written[:place])
        assert calls[0].reinterpreted == (None if is_same else "restated"), written[:place]
        assert "".join(one.delta for one in api.of_type(events, ev.ToolArgsDelta)) == calls[0].raw
        assert api.failures(events) == []


ALL = run(
    *streamed(message_start(), api.block_start(0, "text", text="")),
    *streamed(*(api.block_delta(0, "text_delta", text=piece) for piece in ["I ", "write", "."])),
    *(assistant(text("I write.")), event(block_stop(0))),
    *streamed_call(*cut(json.dumps(ARGUMENTS), [9]), index=1, id_="toolu_1"),
    *streamed_call(*cut('{"a": "b"}', [2]), index=2, id_="toolu_2"),
    *streamed(*message_end()),
    user([tool_result(id_="toolu_1"), tool_result(id_="toolu_2")]),
)


@given(lost=st.sets(st.sampled_from([place for place, line in enumerate(ALL) if "event" in line])))
def test_missing_events_never_change_the_arguments_of_a_complete_call(lost: set[int]) -> None:
    calls, events = read("lines", [line for place, line in enumerate(ALL) if place not in lost])
    assert [call.id for call in calls] == ["toolu_1", "toolu_2"]
    for call, value in zip(calls, [ARGUMENTS, {"a": "b"}], strict=True):
        assert call.verdict in ("complete", "truncated", "malformed")
        assert call.verdict != "complete" or call.arguments == value
    assert len(api.of_type(events, ev.ToolCallCompleted)) == 2
    assert isinstance(events[-1], ev.RunCompleted)


def test_cut_text_and_thinking_are_completed_from_the_whole_message(form: str) -> None:
    lines = run(
        *streamed(message_start(), api.block_start(0, "thinking", thinking="", signature="")),
        event(api.block_delta(0, "thinking_delta", thinking="let me ")),
        assistant(thinking("let me see", "c2ln")),
        *streamed(api.block_start(1, "text", text=""), api.block_delta(1, "text_delta", text="I ")),
        assistant(text("I write.")),
    )
    _, events = read(form, lines)
    assert events[:-2] == [
        *(ev.ThinkingStarted(0), ev.ThinkingDelta("let me ", 0), ev.ThinkingDelta("see", 0)),
        ev.ThinkingCompleted("let me see", 0),
        *(ev.TextDelta("I ", 1), ev.TextDelta("write.", 1)),
    ]
    thought = ThinkingPart(text="let me see", item=thinking("let me see", "c2ln"))
    assert api.turns(events)[0].message.parts == (thought, TextPart(text="I write."))


@pytest.mark.parametrize(
    ("written", "value", "expected", "reading"),
    [
        # JavaScript has other numbers and another order of keys. That is not a difference.
        ('{ "a" : "\\u00e9\\/" }', {"a": "é/"}, {"a": "é/"}, None),
        ('{"a": 1.0, "b": 1e2}', {"a": 1, "b": 100}, {"a": 1.0, "b": 100.0}, None),
        ('{"a": 12345678901234567890}', {"a": 12345678901234567000}, "complete", None),
        ('{"b": 1, "2": 2, "1": 3}', {"1": 3, "2": 2, "b": 1}, {"b": 1, "2": 2, "1": 3}, None),
        (f'{{"a": {10**400}}}', {"a": 10**500}, "complete", None),  # both are Infinity
        ('{"a": "\\ud83d"}', {"a": "\ud83d"}, "complete", None),
        (" ", {}, {}, None),
        (" ", {"a": 1}, {"a": 1}, None),
        # The whole message wins
        ('{"a": 1}', {"a": 2}, {"a": 2}, "restated"),
        ('{"a": 1}', {"a": True}, {"a": True}, "restated"),
        ('{"a": 1}', {}, {}, "restated"),
        ("{}", {"a": 1}, {"a": 1}, "restated"),
        ('{"a": [1]}', {"a": [1, 2]}, {"a": [1, 2]}, "restated"),
        # but does not repair malformed text.
        ('{"a": 1, "a": 2}', {"a": 2}, "malformed", None),
        ('{"a": "\\d"}', {"a": 2}, "malformed", None),
        ('{"a": 1e999}', {"a": 2}, "malformed", None),
        ("[" * 100_000, {"a": 2}, "malformed", None),
    ],
)
def test_whole_message_is_compared_with_the_streamed_text(
    form: str, written: str, value: Any, expected: Any, reading: str | None
) -> None:
    (call,), _ = read(form, run(*turn(*streamed_call(written, value=value))))
    assert expected in (call.verdict, call.arguments)
    assert call.reinterpreted == reading
    assert call.raw.startswith(written)


def test_block_that_was_stopped_too_early_is_not_changed(form: str) -> None:
    lines = [
        *streamed(message_start(), api.block_start(0, "thinking", thinking="", signature="")),
        *streamed(api.block_delta(0, "thinking_delta", thinking="let"), block_stop(0)),
        assistant(thinking("let me see")),
        *streamed(api.tool_use(1), input_json(1, '{"a": 1'), block_stop(1)),
        *(assistant(use({"a": 1})), *streamed(*message_end())),
    ]
    calls, events = read(form, run(*lines))
    assert [(call.verdict, call.raw) for call in calls] == [("truncated", '{"a": 1')]
    shown = api.of_type(events, ev.ThinkingStarted, ev.ThinkingCompleted)
    assert shown == [ev.ThinkingStarted(0), ev.ThinkingCompleted("let", 0)]


@pytest.mark.parametrize("value", [{"a": 1}, {"a": 2}])
def test_input_of_a_block_start_is_replaced_by_the_whole_message(form: str, value: Payload) -> None:
    lines = streamed(message_start(), api.tool_use(0, input={"a": 1}))
    calls, events = read(form, run(*lines, assistant(use(value)), *streamed(*message_end())))
    assert [(call.arguments, json.loads(call.raw)) for call in calls] == [(value, value)]
    assert api.failures(events) == []


def test_turn_without_an_end_is_complete_if_its_blocks_are_whole(form: str) -> None:
    second = streamed(message_start("msg_2"), *message_end("end_turn"))
    lines = run(*streamed(message_start()), *streamed_call('{"a":1}'), DONE, *second)
    events = api.of_type(read(form, lines)[1], ev.StreamFailed, ev.TurnCompleted)
    found = [(one.type, one.stop_reason) for one in events]
    assert found == [("turn_completed", None), ("turn_completed", "end_turn")]
    cut_off = assistant(use({"b": 1}), stop_reason="max_tokens")
    _, events = read(form, run(cut_off, assistant(text("so"), id_="msg_2")))
    assert [found.stop_reason for found in api.turns(events)] == ["max_tokens", None]
    assert api.failures(events) == []


def test_thinking_without_text_has_events(form: str) -> None:
    signature = api.block_delta(0, "signature_delta", signature="c2ln")
    with_events = [
        *streamed(message_start(), api.block_start(0, "thinking", thinking="", signature="")),
        *streamed(api.block_delta(0, "thinking_delta", thinking=""), signature),
        *(assistant(thinking("")), *ended("end_turn")),
    ]
    for lines in (with_events, [assistant(thinking(""))]):
        _, events = read(form, run(*lines))
        assert events[:2] == [ev.ThinkingStarted(0), ev.ThinkingCompleted("", 0)]
        (completed,) = api.turns(events)
        assert completed.message.parts == (ThinkingPart(text="", item=thinking("")),)


def test_caller_is_kept_with_the_call() -> None:
    caller: Payload = {"caller": {"type": "direct"}}
    whole = assistant({**use({"a": 1}), **caller})
    with_events = turn(*streamed(api.tool_use(0, **caller), input_json(0, '{"a":1}')), whole)
    for lines in ([whole], with_events):
        ((part,),) = [one.message.parts for one in api.turns(read("lines", run(*lines))[1])]
        assert part.item == {**use({}), **caller}


@pytest.mark.parametrize("is_streamed", [True, False])
def test_call_that_the_api_runs_has_its_result_in_the_message(form: str, is_streamed: bool) -> None:
    called = {**use({"q": 1}, "srv_1", "advisor"), "type": "server_tool_use"}
    content = {"type": "advisor_result", "text": "yes"}
    result: Payload = {"type": "advisor_tool_result", "tool_use_id": "srv_1", "content": content}
    lines = [assistant(called), assistant(result)]
    if is_streamed:
        start = api.block_start(0, "server_tool_use", **{**called, "input": {}})
        lines = [
            *(*streamed(message_start(), start, input_json(0, '{"q":1}')), lines[0]),
            *streamed(block_stop(0), api.block_start(1, **{**result, "type_": result["type"]})),
            *(lines[1], *streamed(block_stop(1), *message_end("end_turn"))),
        ]
    calls, events = read(form, run(*lines))
    assert [(call.kind, call.arguments) for call in calls] == [("server", {"q": 1})]
    assert api.results(events) == [ev.ToolCallCompleted("srv_1", "advisor", {"q": 1}, content)]
    kept = ResultPart(call_id="srv_1", result=content, item=result)
    assert api.turns(events)[0].message.parts[1:] == (kept,)


def test_messages_that_were_not_parsed_by_the_sdk_are_read() -> None:
    message = AssistantMessage(
        content=[
            *(TextBlock("hello"), ToolUseBlock("toolu_1", "Read", {"a": 1})),
            ServerToolUseBlock("srv_1", "web_search", {}),
            sdk.ServerToolResultBlock("srv_1", {"type": "web_search_tool_result_error"}),
        ],
        model="claude",
    )
    calls, events = api.assemble([message], protocol="claude-agent")
    assert [call.kind for call in calls] == ["function", "server"]
    assert api.types(events)[-2:] == ["tool_call_failed", "turn_completed"]


@pytest.mark.parametrize(
    ("content", "is_error"),
    [
        *(("done", None), ("done", False), ("no such file", True)),
        ([{"type": "text", "text": "done"}], None),
    ],
)
@pytest.mark.parametrize("is_streamed", [True, False])
def test_result_completes_its_call(
    form: str, content: Any, is_error: bool | None, is_streamed: bool
) -> None:
    called = turn(*streamed_call('{"a":1}')) if is_streamed else [assistant(use({"a": 1}))]
    answer = user([tool_result(content, is_error=is_error)], tool_use_result={"stdout": "done"})
    _, events = read(form, run(*called, answer))
    done = ev.ToolCallCompleted("toolu_1", "write", {"a": 1}, content)
    assert api.results(events) == [
        ev.ToolCallFailed("toolu_1", "write", content) if is_error else done
    ]
    assert tags(events) == [["call"]]


@pytest.mark.parametrize(
    "line",
    [
        *(user("please write"), user([text("please write")]), user([text("do it")], TASK)),
        user([text("[Request interrupted by user]")], isSynthetic=True),
        user("please write", isReplay=True),
        user([tool_result(id_="toolu_old")]),  # of an unknown call
    ],
)
def test_message_of_a_user_is_not_a_result(form: str, line: Payload) -> None:
    expected = api.joined(read(form, run(assistant(use({}))))[1])
    assert api.joined(read(form, run(line, assistant(use({})), line))[1]) == expected


def test_first_result_of_a_call_counts_also_without_content(form: str) -> None:
    bare = user([tool_result(None)], tool_use_result={"stdout": "done"})
    _, events = read(form, run(assistant(use({})), bare))
    assert [done.result for done in api.results(events)] == [{"stdout": "done"}]
    answers = [user([tool_result("first")]), user([tool_result("second")])]
    _, events = read(form, run(assistant(use({})), *answers))
    assert [done.result for done in api.results(events)] == ["first"]
    replayed = user([tool_result()], isReplay=True)
    assert api.results(read("lines", run(assistant(use({})), replayed))[1]) == []


@pytest.mark.parametrize("is_streamed", [True, False])
def test_events_of_a_sub_agent_have_the_call_that_started_it(form: str, is_streamed: bool) -> None:
    def said(value: Payload, id_: str, message: str, parent: str | None = None) -> list[Payload]:
        if not is_streamed:
            return [assistant(use(value, id_), id_=message, parent=parent)]
        whole = streamed_call(json.dumps(value), id_=id_, message=message, parent=parent)
        return turn(*whole, id_=message, parent=parent)

    lines = run(
        *(*said({"prompt": "look"}, TASK, "msg_1"), user([text("look")], TASK)),
        *said({"a": 1}, "toolu_1", "msg_2", TASK),
        user([tool_result("found", "toolu_1")], TASK),
        assistant(thinking(""), text("here"), id_="msg_3", parent=TASK),
        user([tool_result("here", TASK)]),
        assistant(text("It is here."), id_="msg_4"),
    )
    calls, events = read(form, lines)
    assert [(call.id, call.parent_id) for call in calls] == [(TASK, None), ("toolu_1", TASK)]
    assert [done.result for done in api.results(events)] == ["found", "here"]
    shown = api.of_type(events, ev.ThinkingStarted, ev.TextDelta)
    assert [found.parent_id for found in shown] == [TASK, TASK, None]
    found = [(one.message.id, one.parent_id) for one in api.turns(events)]
    assert sorted(found) == [("msg_1", None), ("msg_2", TASK), ("msg_3", TASK), ("msg_4", None)]


def test_concurrent_agents_are_separate(form: str) -> None:
    """All of them write to a block of the same index."""
    parents = [None, "toolu_a", "toolu_b"]
    written = [json.dumps({"by": str(parent), "x": "y" * 40}) for parent in parents]
    lines: list[Payload] = [event(message_start(str(parent)), parent) for parent in parents]
    lines += [event(api.tool_use(0, id_=f"call_{parent}"), parent) for parent in parents]
    for pieces in zip(*(cut(one, [5]) for one in written), strict=False):
        both = zip(parents, pieces, strict=True)
        lines += [event(input_json(0, piece), parent) for parent, piece in both]
    for parent, one in zip(parents, written, strict=True):
        whole = use(json.loads(one), f"call_{parent}")
        lines.append(assistant(whole, id_=str(parent), parent=parent))
    lines += [event(end, parent) for end in message_end() for parent in parents]
    calls, events = read(form, run(*lines))
    expected = [(parent, json.loads(one)) for parent, one in zip(parents, written, strict=True)]
    assert [(call.parent_id, call.arguments) for call in calls] == expected
    assert [one.parent_id for one in api.turns(events)] == parents
    assert api.failures(events) == []


def test_concurrent_agents_never_share_a_call_id(form: str) -> None:
    parents = [None, "toolu_a"]
    lines: list[Payload] = [event(message_start(str(parent)), parent) for parent in parents]
    lines += [event(api.tool_use(0, id_="call_1"), parent) for parent in parents]
    calls, _ = read(form, run(*lines))
    assert calls[0].id == "call_1" != calls[1].id


def test_result_of_its_call_ends_a_sub_agent(form: str) -> None:
    open_turn = streamed(message_start("msg_2"), api.tool_use(0), input_json(0, '{"a'), parent=TASK)
    answer = user([tool_result("gave up", TASK, is_error=True)])
    _, events = read(form, run(assistant(use({"a": 1}, TASK)), *open_turn, answer))
    ends = api.of_type(events, ev.ToolArgsInvalid, ev.TurnCompleted, ev.ToolCallFailed)
    assert [(one.type, getattr(one, "parent_id", "")) for one in ends] == [
        *(("tool_args_invalid", ""), ("turn_completed", TASK)),
        *(("tool_call_failed", ""), ("turn_completed", None)),
    ]


STARTED = user([tool_result("started", TASK)], tool_use_result={"isAsync": True})


@pytest.mark.parametrize("ends", [True, False])
def test_background_agent_continues_after_the_result_of_its_call(form: str, ends: bool) -> None:
    told = {"task_id": "t", "status": "completed", "output_file": "", "summary": "", **SESSION}
    over = {"type": "system", "subtype": "task_notification", "tool_use_id": TASK, **told}
    whole = streamed_call('{"a":1}', message="msg_2", parent=TASK)
    lines = [
        *(assistant(use({}, TASK)), *streamed(message_start("msg_2"), parent=TASK)),
        *(*whole[:2], STARTED, *whole[2:]),
        *([over] if ends else streamed(*message_end(), parent=TASK)),
    ]
    calls, events = read(form, run(*lines))
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert [one.parent_id for one in api.turns(events)] == [TASK, None]


def test_background_agent_may_outlive_the_run(form: str) -> None:
    first = streamed(message_start("msg_2"), api.tool_use(0), input_json(0, '{"a"'), parent=TASK)
    rest = streamed(input_json(0, ": 1}"), block_stop(0), *message_end(), parent=TASK)
    lines = [assistant(use({"a": 1}, TASK)), STARTED, *first, run_result(), *rest]
    calls, events = read(form, [init(), *lines])
    found = [(call.id, call.arguments) for call in calls]
    assert found == [(TASK, {"a": 1}), ("toolu_1", {"a": 1})]
    assert [turn.parent_id for turn in api.turns(events)] == [None, TASK]


def test_failure_of_a_sub_agent_does_not_affect_others(form: str) -> None:
    lines = [
        *streamed(message_start("msg_a"), api.tool_use(0, id_="toolu_a"), parent="toolu_1"),
        *streamed(message_start("msg_b"), api.tool_use(0, id_="toolu_b"), parent="toolu_2"),
        assistant(text("Overloaded"), id_="msg_x", parent="toolu_1", error="server_error"),
        *streamed(input_json(0, '{"b":1}'), block_stop(0), *message_end(), parent="toolu_2"),
    ]
    calls, events = read(form, run(*lines))
    assert [call.verdict for call in calls] == ["truncated", "complete"]
    ends = api.of_type(events, ev.StreamFailed, ev.TurnCompleted, ev.RunCompleted)
    assert api.types(ends) == ["stream_failed", "turn_completed", "run_completed"]


def test_result_message_ends_the_run(form: str) -> None:
    usage = {"input_tokens": 4, "cache_read_input_tokens": 100, "output_tokens": 50}
    _, events = read(form, [init(), assistant(text("so")), run_result(result="so", usage=usage)])
    assert events[-1] == ev.RunCompleted("so", ev.Usage(104, 50, cache_read_tokens=100))
    assert api.types(events) == ["text_delta", "turn_completed", "run_completed"]
    idle = {"type": "system", "subtype": "session_state_changed", "state": "idle", **SESSION}
    structured = run_result(result="{}", structured_output={"a": 1})
    _, events = read(form, [init(), structured, idle])
    assert events == [ev.RunCompleted({"a": 1}, ev.Usage(7, 5))]


EXECUTION = "error_during_execution"
API_529 = run_result(is_error=True, result="API Error: 529", api_error_status=529)


@pytest.mark.parametrize(
    ("result", "code", "message"),
    [
        (run_result("error_max_turns"), "error_max_turns", "error_max_turns"),
        (run_result(EXECUTION, errors=["first", "second"]), EXECUTION, "first; second"),
        (run_result("error_max_budget_usd", errors=["over"]), "error_max_budget_usd", "over"),
        (API_529, "api_error", "API Error: 529"),
        (run_result(EXECUTION, terminal_reason="aborted_streaming"), *["aborted_streaming"] * 2),
        (run_result(terminal_reason="aborted_tools", result=""), *["aborted_tools"] * 2),
        (run_result("something_new", is_error=False), *["something_new"] * 2),
        (run_result("", is_error=None), "unknown", "unknown"),
    ],
)
def test_failed_run_has_its_reason(form: str, result: Payload, code: str, message: str) -> None:
    failed = replace(ev.RunFailed(code, message), usage=ev.Usage(7, 5))
    assert read(form, [init(), result])[1] == [failed]


def test_end_of_the_run_ends_everything(form: str) -> None:
    thought = streamed(message_start("msg_2"), api.block_start(0, "thinking"), parent=TASK)
    aborted = run_result(EXECUTION, terminal_reason="aborted_streaming")
    calls, events = read(form, [init(), *begun('{"a":1}'), *thought, aborted])
    assert [call.verdict for call in calls] == ["truncated"]
    assert api.types(events)[-5:-3] == ["tool_args_invalid", "turn_completed"]
    assert api.types(events)[-3:] == ["thinking_completed", "turn_completed", "run_failed"]


def test_second_run_may_equal_the_first(form: str) -> None:
    """IDs may have been removed, for example."""
    lines = run(assistant(use({"a": 1})), DONE)
    once, twice = read(form, lines), read(form, [*lines, *lines])
    assert api.types(twice[1]) == api.types(once[1]) * 2
    assert [call.arguments for call in twice[0]] == [{"a": 1}, {"a": 1}]


SUB_AGENT = streamed(message_start("msg_2"), parent=TASK)


@pytest.mark.parametrize(
    "lines",
    [
        *([init()], [init(), *turn(*streamed_call('{"a":1}')), DONE]),
        *([user("hello"), *EVENTS], [init(), run_result(), init()]),
        # Within a turn
        *([init(), *begun("")], [init(), assistant(use({"a": 1}))]),
        *([init(), assistant(use({}, TASK)), *SUB_AGENT], [init(), *SUB_AGENT, *EVENTS]),
    ],
)
def test_run_without_a_result_is_one_failure(form: str, lines: list[Payload]) -> None:
    _, events = read(form, lines)
    (failed,) = api.failures(events)
    assert (failed.code, failed.retryable, events[-1]) == ("truncated", True, failed)


@pytest.mark.parametrize("lines", [[WHOLE], EVENTS, [*EVENTS, assistant(text("so"), id_="msg_2")]])
def test_messages_of_the_model_alone_need_no_result(form: str, lines: list[Payload]) -> None:
    _, events = read(form, lines)
    assert (api.failures(events), api.types(events)[-1]) == ([], "turn_completed")


@pytest.mark.parametrize(
    ("code", "is_retryable"),
    [("authentication_failed", False), ("rate_limit", True), ("server_error", True)],
)
def test_error_of_the_api_is_not_model_text(form: str, code: str, is_retryable: bool) -> None:
    failed = assistant(text("It did not work"), id_="made_up", error=code)
    for lines in ([init(), failed], [init(), failed, run_result(is_error=True, result="It")]):
        _, events = read(form, lines)
        assert events[0] == api.provider_failed(code, "It did not work", is_retryable)
        assert api.types(events[1:]) in ([], ["run_failed"])


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
    lines = run(*turn(*streamed_call(*PIECES)), DONE)
    expected = api.joined(read(form, lines)[1])
    for place in range(1, len(lines)):
        found = [*lines[:place], {**SESSION, **other}, *lines[place:]]
        assert api.joined(read(form, found)[1]) == expected


@pytest.mark.parametrize(
    "line",
    [
        *(event({**input_json(0, ""), "delta": 3}), {"type": "stream_event", **SESSION}),
        event(input_json(0, "x"), parent=3),  # type: ignore[arg-type]
        {**event(input_json(0, "x")), "event": "a word"},
        *({**WHOLE, "message": "a word"}, {**WHOLE, "message": {"content": 3}}),
        *({**WHOLE, "message": {"content": ["a word"]}}, {**WHOLE, "parent_tool_use_id": 3}),
        assistant({"type": "tool_use", "id": "toolu_2", "name": "write"}),
        *(assistant(use(None, "toolu_2")), assistant(use('{"a":1}', "toolu_2"))),
        user(3, parent=3),  # type: ignore[arg-type]
    ],
)
def test_unreadable_line_truncates_the_call(line: Payload) -> None:
    for payload in (json.dumps(line).encode(), line):
        calls, events = api.assemble([init(), *begun('{"a":1}'), payload], protocol="claude-agent")
        assert [call.verdict for call in calls] == ["truncated"]
        assert api.failures(events)[0].code == "bad_payload"


def test_duplicate_key_in_a_whole_call_is_refused() -> None:
    line = json.dumps(assistant(use({"a": 1, "b": 2}))).replace('"b"', '"a"').encode()
    calls, events = api.assemble([json.dumps(init()).encode(), line], protocol="claude-agent")
    assert (calls, api.failures(events)[0].code) == ([], "bad_payload")


def test_surrogate_pair_split_between_lines_is_joined() -> None:
    """JavaScript escapes a lone surrogate, and strict decoders reject that."""
    whole = streamed_call('{"a":"\ud83d', '\ude00"}', value={"a": "😀"})
    (call,), _ = read("lines", run(*streamed(message_start()), *whole))
    assert (call.arguments, call.reinterpreted) == ({"a": "😀"}, None)

"""stream(tools=…, policy=…): a call is rejected while it is written, in every protocol."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from argstream import UsageError, stream
from argstream import events as ev
from argstream.assembly import Assembler, Call
from argstream.errors import ArgumentUnavailableError, SchemaError
from argstream.policy import Equals, Glob, Policy, Rule
from argstream.providers import AGENTS
from argstream.recording import Recorder
from argstream.streaming import make_check
from argstream.testing import chunkings, cut
from argstream.validation import Schema, ToolSpec
from tests import provider_streams as api
from tests.provider_streams import anthropic_call, chat_call, entry, input_json, of_type, sse, types
from tests.streaming.faces import AsyncSource, Source, collect
from tests.streaming.test_readers import leaves
from tests.turns import STREAMED, Streamed

PROPERTIES = {"path": {"type": "string"}, "mode": {"enum": ["append", "write"]}}
SCHEMA = {
    "type": "object",
    "properties": {**PROPERTIES, "content": {"type": "string"}},
    "required": ["path", "content"],
    "additionalProperties": False,
}
WRITE = ToolSpec("write", "write a file", SCHEMA)
RIGHT = '{"path": "a.txt", "mode": "write", "content": "hello"}'
NO_SECRETS = Policy(
    [Rule("deny", argument="path", when=Glob("**/.env"), name="secrets", reason="it has keys")],
    default="allow",
)
DENIED_CALL = anthropic_call('{"path": ".env"', ', "content": "x', "x" * 100, '"}')

every_protocol = pytest.mark.parametrize("streamed", STREAMED, ids=lambda one: one.protocol)


def arriving(streamed: Streamed, *pieces: str) -> list[bytes]:
    """A turn with one call, as bytes: an item for each payload."""
    return [streamed.wire([payload]) for payload in streamed.payloads(*pieces)]


def checked_stream(payloads: Any, **options: Any) -> tuple[list[Call], list[ev.Event]]:
    """Read payloads to their end, with the tool ``write``."""
    events = stream(payloads, **{"tools": [WRITE], **options})
    found = list(events)
    return events.calls, found


def read(payloads: Any, **options: Any) -> tuple[Call, list[ev.Event]]:
    """Read a turn with one call."""
    (call,), events = checked_stream(payloads, **options)
    return call, events


def verdict(payloads: Any, **options: Any) -> str:
    return read(payloads, **options)[0].verdict


def refusal(events: list[ev.Event]) -> ev.ArgumentsError:
    (invalid,) = of_type(events, ev.ToolArgsInvalid)
    assert invalid.verdict == "rejected"
    error: ev.ArgumentsError = invalid.error
    return error


def ended(events: list[ev.Event]) -> ev.TurnCompleted:
    assert isinstance(events[-1], ev.TurnCompleted)
    return events[-1]


@every_protocol
def test_valid_call_has_the_same_events_as_without_checks(streamed: Streamed) -> None:
    payloads = arriving(streamed, *cut(RIGHT, [5]))
    unchecked = list(stream(payloads, streamed.protocol))
    assert read(payloads, protocol=streamed.protocol)[1] == unchecked


@every_protocol
def test_invalid_call_is_rejected_with_the_piece_that_makes_it_invalid(streamed: Streamed) -> None:
    pieces = ['{"path": "a.txt", "mo', 'de": "wr', "ong", '", "content": "long"}']
    events = stream(arriving(streamed, *pieces), streamed.protocol, [WRITE])
    event = next(event for event in events if isinstance(event, ev.ToolArgsInvalid))
    assert event.raw == "".join(pieces[:3])
    message = '\'mode\' must be one of "append" or "write", not "wro…'
    expected = ev.ArgumentsError("schema", message, offset=29, path=("mode",), keyword="enum")
    assert event.error == expected


@every_protocol
@pytest.mark.parametrize(
    ("text", "keyword", "offset"),
    [
        ('{"path": 7, "content": ""}', "type", 9),
        ('{"path": "a", "pth": "b", "content": ""}', "additionalProperties", 18),
        ('{"path": "a", "mode": "x"}', "enum", 23),
        (r'{"path": "\u00e9\n", "mode": "\u0077\u0072\u0071"}', "enum", 47),
        ('{"path": "a"}', "required", 13),
    ],
)
def test_rejection_is_the_same_in_every_chunking(
    streamed: Streamed, text: str, keyword: str, offset: int
) -> None:
    found: list[Any] = []
    for _, pieces in chunkings(text):
        payloads = arriving(streamed, *(one for one in pieces if one))
        call, events = read(payloads, protocol=streamed.protocol)
        error = refusal(events)
        assert (error.keyword, error.offset) == (keyword, offset)
        arguments = [event for event in api.joined(events) if event.type.startswith("argument")]
        found.append((error, arguments, call.partial, call.path, call.raw))
    assert all(one == found[0] for one in found)


def test_text_after_a_rejection_is_kept_and_makes_no_events() -> None:
    pieces = ['{"path": 7', ', "content": ', '"long"}']
    call, events = read(anthropic_call(*pieces))
    assert types(events)[types(events).index("tool_args_invalid") + 1 :] == ["turn_completed"]
    assert call.raw == "".join(pieces)
    assert call.arguments == {"INVALID_JSON": "".join(pieces)}
    # The next call of the turn is read all the same.
    again = [*api.call_block(1, RIGHT, id_="toolu_2"), *api.message_end()]
    calls, _ = checked_stream([*anthropic_call(*pieces)[:-2], *again])
    assert [call.verdict for call in calls] == ["rejected", "complete"]


@pytest.mark.parametrize(
    ("payloads", "tools", "expected"),
    [
        (anthropic_call('{"path": "a"', stop_reason="max_tokens"), [WRITE], "truncated"),
        (anthropic_call('{"path": "a", oops'), [WRITE], "malformed"),
        (anthropic_call('{"path": 7, oops'), [WRITE], "rejected"),
        (anthropic_call(), [WRITE], "rejected"),  # no arguments, though some are required
        (anthropic_call(), [ToolSpec("write", "", {"type": "object"})], "complete"),
        (anthropic_call('{"a": 1}'), [ToolSpec("write")], "complete"),  # no schema
        (anthropic_call(RIGHT), [], "rejected"),  # no tools
        (anthropic_call(RIGHT), [ToolSpec("write_all", "", {})], "rejected"),  # another name
    ],
)
def test_verdict_on_a_call(payloads: list[Any], tools: list[ToolSpec], expected: str) -> None:
    assert verdict(payloads, tools=tools) == expected
    if not any("oops" in str(payload) for payload in payloads):
        assert verdict(payloads, tools=tools, policy=NO_SECRETS) == expected


@every_protocol
def test_unknown_tool_is_rejected_when_the_call_starts(streamed: Streamed) -> None:
    payloads, other = arriving(streamed, RIGHT), ToolSpec("read", "", SCHEMA)
    call, events = read(payloads, protocol=streamed.protocol, tools=[other])
    if streamed.protocol in AGENTS:  # an agent has tools of its own
        assert call.verdict == "complete"
        return
    assert types(events)[types(events).index("tool_call_started") + 1] == "tool_args_invalid"
    error = refusal(events)
    assert error.reason == "unknown_tool"
    assert "'write'" in error.message
    assert "read" in error.message
    assert call.raw == RIGHT


def test_policy_applies_to_the_own_tools_of_an_agent() -> None:
    agent = next(one for one in STREAMED if one.protocol == "claude-agent")
    denying = Policy([Rule("deny", tool="write")], default="allow")
    for tools in (None, [ToolSpec("mine", "", SCHEMA)]):
        _, events = read(arriving(agent, RIGHT), tools=tools, policy=denying)
        assert refusal(events).reason == "denied"
        assert types(events) == ["tool_call_started", "tool_args_invalid", "turn_completed"]


def custom_call(name: str) -> list[Any]:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": name}
    text = {"type": "response.custom_tool_call_input.done", "output_index": 0, "input": "SELECT 1"}
    done = api.item_done(0, **item, input="SELECT 1", status="completed")
    return [
        api.response_created(),
        api.item_added(0, **item, input=""),
        text,
        done,
        api.response_ended(),
    ]


def test_custom_tool_must_be_known_and_accepts_any_text() -> None:
    tools = [{"type": "custom", "name": "sql"}]
    assert read(custom_call("sql"), tools=tools)[0].arguments == "SELECT 1"
    assert refusal(read(custom_call("sqlite"), tools=tools)[1]).reason == "unknown_tool"
    _, events = read(custom_call("sql"), tools=[ToolSpec("sql", "", {"type": "object"})])
    assert "not free text" in refusal(events).message
    policy = Policy([Rule("deny", argument=(), when=Equals("SELECT 1"))], default="allow")
    assert verdict(custom_call("sql"), tools=tools, policy=policy) == "rejected"


def named(*names: str) -> list[Any]:
    """A call whose name comes in pieces."""
    starts = [api.tool_calls(entry("", id="call_1", name=name)) for name in names]
    return [*starts, api.tool_calls(entry(RIGHT)), api.chunk(finish="tool_calls")]


def test_name_in_pieces_is_not_rejected_at_the_first_piece() -> None:
    assert verdict(named("wri", "te")) == "complete"
    call, events = read(named("wri"))
    assert call.verdict == "rejected"
    assert types(events)[:3] == ["tool_call_started", "tool_args_delta", "tool_args_invalid"]
    wider = ToolSpec("write_all", "", {"required": ["all"]})
    _, events = read(named("write", "_all"), tools=[WRITE, wider])
    assert refusal(events).message == 'the argument "all" is missing'


@pytest.mark.parametrize("names", [("read_file",), ("rea", "d_file"), ("read", "_file")])
def test_name_is_not_denied_by_its_beginning(names: tuple[str, ...]) -> None:
    for denied, expected in (("read", "complete"), ("read_file", "rejected")):
        policy = Policy([Rule("deny", tool=denied)], default="allow")
        call, _ = read(named(*names), tools=None, policy=policy)
        assert call.verdict == expected
        assert call.policy_decision is not None


@pytest.mark.parametrize("schema", [{"type": "strng"}, {"$ref": "https://example.com/schema"}])
def test_unusable_schema_raises_with_the_name_of_its_tool(schema: Any) -> None:
    with pytest.raises(SchemaError, match="'write'"):
        stream([], tools=[ToolSpec("write", "", schema)])


def test_schema_may_be_compiled_with_its_own_options() -> None:
    schema = Schema({"properties": {"path": {"format": "date"}}}, formats=True)
    _, events = read(anthropic_call(RIGHT), tools=[ToolSpec("write", "", schema)])
    assert refusal(events).keyword == "format"


def test_check_can_be_shared_by_streams_and_assemblers() -> None:
    check = make_check([WRITE], NO_SECRETS)
    for _ in range(2):
        assert verdict(anthropic_call('{"path": 7}'), tools=None, check=check) == "rejected"
        assembler = Assembler(check=check)
        events = [event for one in anthropic_call('{"path": 7}') for event in assembler.feed(one)]
        assert refusal(events).keyword == "type"
    assert make_check() is None
    with pytest.raises(UsageError, match="pass check= alone"):
        stream([], tools=[WRITE], check=check)


MODE = ['{"mode": "w', '{"mode": "write"']


@pytest.mark.parametrize(
    ("pieces", "reinterpreted"),
    [
        ([json.dumps(RIGHT)], "double_encoded"),
        (["{}", RIGHT], "empty_prefix"),
        ([RIGHT[:9], RIGHT[9:], RIGHT], "replay"),
        (['{"path": "a', '{"path": "a.txt", "mode": "write', RIGHT], "cumulative"),
        ([*MODE, f'{{"mode": "write", {RIGHT[1:16]}, "content": ""}}'], "cumulative"),
    ],
)
def test_valid_text_in_another_reading_is_complete(pieces: list[str], reinterpreted: str) -> None:
    call, events = read(chat_call(*pieces))
    assert (call.verdict, call.reinterpreted) == ("complete", reinterpreted)
    assert not of_type(events, ev.ToolArgsInvalid)


@pytest.mark.parametrize(
    "pieces",
    [
        *([json.dumps('{"path": 7}')], ["{}", '{"path": 7}'], ["null"]),
        [*MODE, f'{MODE[1]}, "path": 7}}'],
    ],
)
def test_invalid_text_in_another_reading_is_rejected(pieces: list[str]) -> None:
    assert refusal(read(chat_call(*pieces))[1]).keyword in ("type", "required")


def test_text_that_turns_out_not_to_be_cumulative_is_rejected() -> None:
    _, events = read(chat_call('{"mode": "', '{"mode": "x', "yz", '"}'))
    assert refusal(events).offset == 10


def test_policy_is_applied_to_the_final_reading() -> None:
    denied = chat_call(json.dumps('{"path": ".env", "content": ""}'))
    assert refusal(read(denied, policy=NO_SECRETS)[1]).reason == "denied"
    call, _ = read(chat_call('{"path": ".env', f'{{"path": ".env{RIGHT[10:]}'), policy=NO_SECRETS)
    assert (call.verdict, call.reinterpreted) == ("complete", "cumulative")


def test_late_leaves_count_before_an_argument_is_missing() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["a"]}
    tool = ToolSpec("write", "", {"properties": {"to": inner}, "required": ["to"]})
    late = leaves(("$.to.b", "x"), ("$.z", "x"), ("$.to.a", "x"))
    assert verdict(late, tools=[tool]) == "complete"
    _, events = read(leaves(("$.to.b", "x"), ("$.z", "x"), ("$.y", "x")), tools=[tool])
    assert refusal(events).keyword == "required"


def test_checks_of_an_open_container_wait_for_late_leaves() -> None:
    to, mode = {"to": {"required": ["force"]}}, {"mode": {"enum": ["y"]}}
    schema = {"anyOf": [{"properties": to}, {"properties": mode}]}
    payloads = leaves(("$.to.a", "x"), ("$.mode", "x"), ("$.to.force", 1))
    call, _ = read(payloads, tools=[ToolSpec("write", "", schema)])
    assert (call.verdict, call.reinterpreted) == ("complete", "restated")
    rules = [
        Rule("allow", argument=("to", "force"), when=Equals(1)),
        Rule("deny", argument="mode", when=Equals("x")),
    ]
    call, _ = read(payloads, tools=None, policy=Policy(rules, default="deny"))
    assert call.verdict == "complete"
    assert call.policy_decision is not None
    assert call.policy_decision.action == "allow"


def test_invalid_leaf_is_rejected_at_once() -> None:
    events = stream(leaves(("$.path", 7), ("$.content", "x")), tools=[WRITE])
    error = next(event.error for event in events if isinstance(event, ev.ToolArgsInvalid))
    assert (error.path, error.keyword) == (("path",), "type")


@every_protocol
def test_denied_call_closes_the_source_before_its_content_is_written(streamed: Streamed) -> None:
    pieces = ['{"path": "/srv/.env"', ', "content": "', *("x" for _ in range(100)), '"}']
    source = Source(arriving(streamed, *pieces))
    call, events = read(source, protocol=streamed.protocol, policy=NO_SECRETS)
    assert source.closed
    assert source.unread > 100
    assert types(events)[-3:] == ["argument_completed", "tool_args_invalid", "turn_completed"]
    error = refusal(events)
    assert (error.reason, error.path, error.offset) == ("denied", ("path",), 20)
    assert "it has keys" in error.message
    end = ended(events)
    assert (end.stop_reason, end.characters_read) == ("rejected", 20)
    assert end.message.parts[0].verdict == "rejected"  # type: ignore[union-attr]  # it is a call
    assert call.policy_decision is not None
    assert (call.policy_decision.action, call.policy_decision.rule) == ("deny", "secrets")


def test_source_that_fails_to_close_does_not_hide_the_rejection() -> None:
    class Failing(Source):
        def close(self) -> None:
            raise OSError("it does not close")

    found: list[ev.Event] = []
    with pytest.raises(OSError, match="does not close"):
        found.extend(stream(Failing(DENIED_CALL), policy=NO_SECRETS))
    assert types(found)[-2:] == ["tool_args_invalid", "turn_completed"]


async def test_reader_cancelled_while_the_source_closes_is_cancelled() -> None:
    closing = asyncio.Event()

    class Hanging(AsyncSource):
        async def aclose(self) -> None:
            closing.set()
            await asyncio.Event().wait()

    reading = asyncio.create_task(collect(stream(Hanging(DENIED_CALL), policy=NO_SECRETS)))
    await closing.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_awaited_source_is_closed_only_if_left_and_hides_no_error() -> None:
    class Failing(AsyncSource):
        async def aclose(self) -> None:
            raise RuntimeError("it does not close")

    async def ask(error: Exception | None) -> AsyncSource:
        return Failing(anthropic_call(RIGHT), error)

    assert types(await collect(stream(ask(None))))[-1] == "turn_completed"
    with pytest.raises(ConnectionError):
        await collect(stream(ask(ConnectionError("lost"))))


def test_end_of_a_recording_after_a_denial_is_not_reported(tmp_path: Path) -> None:
    file = tmp_path / "turn.rec"
    with Recorder(file) as recorder:
        recorder.write(sse(DENIED_CALL[:4]))
        recorder.close("cut")
    for _, pieces in chunkings(file.read_bytes()):
        events = list(stream(pieces, policy=NO_SECRETS))
        assert types(events)[-2:] == ["tool_args_invalid", "turn_completed"]


def test_denial_without_a_condition_is_at_the_last_argument_read() -> None:
    rules = [Rule("allow", argument="path", when=Glob("src/**")), Rule("deny", reason="elsewhere")]
    policy = Policy(rules, default="deny")
    call, events = read(anthropic_call('{"path": "/etc/x", "mode": "w'), policy=policy)
    assert call.partial == {"path": "/etc/x"}
    assert (refusal(events).path, refusal(events).offset) == (("path",), 17)


def chat(*pieces: tuple[int, str]) -> list[Any]:
    """Calls of Chat, which closes none of them."""
    known: set[int] = set()
    payloads = []
    for index, text in pieces:
        name = {} if index in known else {"id": f"call_{index}", "name": "write"}
        known.add(index)
        payloads.append(api.tool_calls(entry(text, index=index, **name)))
    return [*payloads, api.chunk(finish="tool_calls")]


OPEN = [api.message_start(), api.tool_use(0), input_json(0, '{"content": "x')]
DENIED = [api.tool_use(1, id_="toolu_2"), input_json(1, '{"path": ".env"')]
MORE = [input_json(1, ', "content": "y"}'), api.block_stop(1), *api.message_end()]
CLOSED = [input_json(0, '", "path": "a"}'), api.block_stop(0)]


@pytest.mark.parametrize(
    ("payloads", "verdicts", "unread"),
    [
        pytest.param([*OPEN, *DENIED, *CLOSED, *MORE], "complete rejected", 4, id="is written"),
        # Only the stop reason, which does not come, would show that nothing of it was cut.
        pytest.param([*OPEN[:2], CLOSED[1], *DENIED, *MORE], "aborted rejected", 4, id="is empty"),
        pytest.param(
            chat((0, '{"path": "a"}'), (1, '{"path": ".env"'), (1, ', "content": ""}')),
            "complete rejected", 2, id="was left",
        ),
        pytest.param(
            chat((0, '{"path": "a"'), (1, '{"path": ".env"'), (0, "}"), (1, ', "content": ""}')),
            "complete rejected", 1, id="goes on",
        ),
    ],
)  # fmt: skip
def test_reading_stops_when_no_other_call_is_open(
    payloads: list[Any], verdicts: str, unread: int
) -> None:
    source = Source(payloads)
    calls, events = checked_stream(source, tools=None, policy=NO_SECRETS)
    assert " ".join(call.verdict for call in calls) == verdicts
    assert source.unread == unread
    assert ended(events).stop_reason == "rejected"
    assert ended(events).characters_read == sum(len(call.raw) for call in calls)


def test_failed_turn_with_a_denied_call_does_not_complete() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    _, events = checked_stream([*OPEN, *DENIED, error], tools=None, policy=NO_SECRETS)
    assert types(events)[-1] == "stream_failed"
    assert "turn_completed" not in types(events)


def test_denial_in_the_last_payload_keeps_the_stop_reason() -> None:
    sent = [api.tool_calls(entry('{"path": ".env"}', id="c", name="write"), finish="tool_calls")]
    _, events = checked_stream(sent, policy=NO_SECRETS)
    assert (ended(events).stop_reason, ended(events).characters_read) == ("tool_calls", None)


def test_denial_completes_open_thinking_and_counts_all_text() -> None:
    payloads = [
        *(api.message_start(), *api.text_block(0, "I will.")[:-1]),
        *(*api.thinking_block(1, "Or not?")[:-1], *api.call_block(2, '{"path": ".env"')[:-1]),
    ]
    _, events = checked_stream(payloads, policy=NO_SECRETS)
    assert types(events)[-2:] == ["thinking_completed", "turn_completed"]
    assert ended(events).characters_read == len('I will.Or not?{"path": ".env"')


@pytest.mark.parametrize(
    ("stop_on", "path", "is_stopped"),
    [
        *(("denied", ".env", True), ("denied", 7, False), ("rejected", ".env", True)),
        *(("rejected", 7, True), ("never", ".env", False), ("never", 7, False)),
    ],
)
def test_stop_on_selects_what_stops_the_stream(stop_on: Any, path: Any, is_stopped: bool) -> None:
    source = Source(anthropic_call(f'{{"path": {json.dumps(path)}', ', "content": "x', '"}'))
    call, events = read(source, policy=NO_SECRETS, stop_on=stop_on)
    assert call.verdict == "rejected"
    assert source.closed is is_stopped
    assert (ended(events).stop_reason == "rejected") is is_stopped


@pytest.mark.parametrize("action", ["allow", "ask"])
def test_call_has_the_policy_decision_as_soon_as_it_is_made(action: Any) -> None:
    policy = Policy([Rule(action, argument="path", when=Glob("**"), name="mine")], default="deny")
    events = stream(
        anthropic_call('{"path": "a"', ', "content": "x"}'), policy=policy, on_ask="report"
    )
    for event in events:
        call = events.calls[0]
        if isinstance(event, ev.ToolCallStarted):
            assert call.policy_decision is None
        if isinstance(event, ev.ArgumentCompleted):
            assert call.policy_decision is not None
            assert (call.policy_decision.action, call.policy_decision.path) == (action, ("path",))
        if isinstance(event, ev.ToolArgsCompleted):
            assert event.policy_decision == call.policy_decision
            assert ev.from_json(ev.to_json(event)) == event
    assert events.calls[0].verdict == "complete"


def test_without_a_policy_there_is_no_policy_decision() -> None:
    call, events = read(anthropic_call(RIGHT))
    (completed,) = of_type(events, ev.ToolArgsCompleted)
    assert call.policy_decision is completed.policy_decision is None
    assert b"policy_decision" not in ev.to_json(completed)


def test_first_of_schema_and_policy_rejects() -> None:
    for text, reason in (
        ('{"path": ".env", "mode": "x"}', "denied"),
        ('{"mode": "x", "path": ".env"}', "schema"),
    ):
        for source in (anthropic_call(text), sse(anthropic_call(text))):
            assert refusal(checked_stream(source, policy=NO_SECRETS)[1]).reason == reason


def test_waiting_reader_raises_the_rejection() -> None:
    events = stream(DENIED_CALL, policy=NO_SECRETS)
    call = next(events.live_calls())
    assert call.argument("path") == ".env"
    with pytest.raises(ArgumentUnavailableError, match="secrets") as caught:
        "".join(call.text("content"))
    assert caught.value.verdict == "rejected"
    assert list(events.live_calls())[1:] == []


ASKING = {
    "default": Policy(),
    "default of a tool": Policy(default="allow", defaults={"write": "ask"}),
    "rule": Policy([Rule("ask", tool="write", name="mine", reason="check it")], default="allow"),
}
can_ask = pytest.mark.parametrize("policy", ASKING.values(), ids=ASKING)


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b""


@can_ask
def test_only_a_policy_that_can_ask_needs_on_ask(policy: Policy) -> None:
    assert policy.can_ask
    needs_option, needs_check = (
        r'on_ask="deny" .* on_ask="report"',
        r"make_check\(policy=policy, on",
    )
    for make, message in (
        (lambda: stream([], policy=policy), needs_option),
        (lambda: stream(endless(), policy=policy), needs_option),
        (lambda: make_check(policy=policy), needs_option),
        (lambda: make_check([WRITE], policy), needs_option),
        (lambda: stream([], check=policy), needs_check),
        (lambda: Assembler(check=policy), needs_check),
    ):
        with pytest.raises(UsageError, match=message):
            make()
    assert not NO_SECRETS.can_ask
    for on_ask in (None, "deny", "report"):
        assert verdict(anthropic_call(RIGHT), policy=NO_SECRETS, on_ask=on_ask) == "complete"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_ask": "allow"}, 'on_ask must be "deny" or "report", not \'allow\''),
        ({"on_ask": "allow", "policy": NO_SECRETS}, 'on_ask must be "deny" or "report"'),
        ({"on_ask": "allow", "policy": Policy()}, 'on_ask must be "deny" or "report"'),
        ({"on_ask": "deny", "check": make_check([WRITE])}, "pass check= alone"),
        ({"stop_on": "always"}, "denied, rejected, never"),
        ({"policy": "policy.toml"}, r"Policy\.load"),
        ({"policy": {"rules": []}}, r"Policy\.load"),
        ({"policy": [Rule("deny")]}, r"Policy\.load"),
    ],
)
def test_impossible_options_raise_at_once(options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        stream([], **options)


@can_ask
def test_on_ask_deny_rejects_the_call_and_closes_the_source(policy: Policy) -> None:
    source = Source(anthropic_call(RIGHT))
    events = list(stream(source, policy=policy, on_ask="deny"))
    assert types(events) == ["tool_call_started", "tool_args_invalid", "turn_completed"]
    error = refusal(events)
    assert error.reason == "denied"
    assert error.message.startswith("a call to write needs approval under the policy")
    assert "this stream has no approver" in error.message
    assert ("(mine)" in error.message) == ("check it" in error.message) == (policy.rules != ())
    assert source.closed


@pytest.mark.parametrize(("glob", "default"), [("*.py", "allow"), ("*.md", None)])
def test_on_ask_deny_rejects_as_early_as_a_denial(glob: str, default: Any) -> None:
    def make_policy(action: Any) -> Policy:
        """By a rule, or by the default if that is None."""
        rule = Rule(action if default else "allow", argument="path", when=Glob(glob))
        late = Rule("deny", argument="content", when=Glob("**"))
        return Policy([rule, late], default=default or action)

    source = anthropic_call('{"path": "a.py"', ', "content": "long"}')
    _, denied = checked_stream(source, policy=make_policy("deny"))
    _, asked = checked_stream(source, policy=make_policy("ask"), on_ask="deny")
    assert types(asked) == types(denied)
    assert types(asked)[-3:] == ["argument_completed", "tool_args_invalid", "turn_completed"]
    assert (refusal(asked).path, refusal(asked).offset) == (("path",), refusal(denied).offset)


@can_ask
def test_on_ask_report_completes_the_call_with_the_decision(policy: Policy) -> None:
    for tools in (None, [WRITE]):
        call, events = read(anthropic_call(RIGHT), policy=policy, on_ask="report", tools=tools)
        (completed,) = of_type(events, ev.ToolArgsCompleted)
        assert completed.policy_decision is not None
        assert completed.policy_decision.action == "ask"
        assert completed.policy_decision == call.policy_decision
        assert ev.from_json(ev.to_json(completed)) == completed

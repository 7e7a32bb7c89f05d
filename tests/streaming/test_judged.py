"""stream(tools=…, policy=…): a call is refused while it is written, in every protocol."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from argstream import UsageError, stream
from argstream.assembly import Assembler, Call
from argstream.errors import ArgumentUnavailable, SchemaError
from argstream.events import (
    ArgumentCompleted,
    ArgumentsError,
    Event,
    ToolArgsCompleted,
    ToolArgsInvalid,
    ToolCallStarted,
    TurnCompleted,
    from_json,
    to_json,
)
from argstream.policy import Equals, Glob, Policy, Rule
from argstream.recording import Recorder
from argstream.streaming import make_judge
from argstream.testing import chunkings, cut
from argstream.validation import Schema, ToolSpec
from tests.provider_streams import (
    anthropic_call,
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
    response_created,
    response_ended,
    sse,
    tool_calls,
    tool_use,
    types,
)
from tests.providers.test_gemini import begin, leaf, piece
from tests.providers.test_gemini import chunk as gemini_chunk
from tests.streaming.faces import collect
from tests.turns import STREAMED, Streamed

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "mode": {"enum": ["append", "write"]},
        "content": {"type": "string"},
    },
    "required": ["path", "content"],
    "additionalProperties": False,
}
WRITE = ToolSpec("write", "write a file", SCHEMA)
RIGHT = '{"path": "a.txt", "mode": "write", "content": "hello"}'
NO_SECRETS = Policy(
    [Rule("deny", argument="path", when=Glob("**/.env"), name="secrets", reason="it has keys")],
    default="allow",
)

every_protocol = pytest.mark.parametrize("streamed", STREAMED, ids=lambda one: one.protocol)


def arriving(streamed: Streamed, *pieces: str) -> list[bytes]:
    """A turn with one call, as bytes: an item for each payload."""
    return [streamed.wire([payload]) for payload in streamed.payloads(*pieces)]


def judged(payloads: Any, **options: Any) -> tuple[list[Call], list[Event]]:
    """Read payloads to their end, with the tool ``write``."""
    events = stream(payloads, **{"tools": [WRITE], **options})
    told = list(events)
    return events.calls, told


def read(payloads: Any, **options: Any) -> tuple[Call, list[Event]]:
    """Read a turn with one call."""
    (call,), told = judged(payloads, **options)
    return call, told


def refusal(events: list[Event]) -> ArgumentsError:
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert invalid.verdict == "rejected"
    error: ArgumentsError = invalid.error
    return error


def ended(events: list[Event]) -> TurnCompleted:
    assert isinstance(events[-1], TurnCompleted)
    return events[-1]


def turn(*calls: tuple[str, ...]) -> list[Any]:
    """A turn with several calls, each in these pieces."""
    payloads: list[Any] = [message_start()]
    for index, pieces in enumerate(calls):
        texts = [input_json(index, text) for text in pieces]
        payloads += [tool_use(index, id_=f"toolu_{index}"), *texts, block_stop(index)]
    return [*payloads, *message_end()]


# By a schema


@every_protocol
def test_a_right_call_is_complete_as_if_nobody_judged(streamed: Streamed) -> None:
    pieces = cut(RIGHT, [5])
    unjudged = list(stream(arriving(streamed, *pieces), streamed.protocol))
    assert read(arriving(streamed, *pieces), protocol=streamed.protocol)[1] == unjudged


@every_protocol
def test_a_wrong_call_is_rejected_with_the_piece_that_makes_it_wrong(streamed: Streamed) -> None:
    pieces = ['{"path": "a.txt", "mo', 'de": "wr', "ong", '", "content": "long"}']
    events = stream(arriving(streamed, *pieces), streamed.protocol, [WRITE])
    for event in events:
        if isinstance(event, ToolArgsInvalid):
            assert event.raw == "".join(pieces[:3])
            break
    else:
        pytest.fail("it was not rejected")
    assert event.error == ArgumentsError(
        "schema",
        '\'mode\' must be one of "append" or "write", not "wro…',
        offset=29,
        path=("mode",),
        keyword="enum",
    )


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
def test_however_the_text_is_cut_the_refusal_is_the_same(
    streamed: Streamed, text: str, keyword: str, offset: int
) -> None:
    told: list[Any] = []
    for _, pieces in chunkings(text):
        payloads = arriving(streamed, *(one for one in pieces if one))
        call, events = read(payloads, protocol=streamed.protocol)
        error = refusal(events)
        assert (error.keyword, error.offset) == (keyword, offset)
        arguments = [event for event in joined(events) if event.type.startswith("argument")]
        told.append((error, arguments, call.partial, call.path, call.raw))
    assert all(one == told[0] for one in told)


def test_what_comes_after_a_refusal_is_kept_and_makes_no_events() -> None:
    pieces = ['{"path": 7', ', "content": ', '"long"}']
    call, events = read(anthropic_call(*pieces))
    place = types(events).index("tool_args_invalid")
    assert types(events)[place + 1 :] == ["turn_completed"]
    assert call.raw == "".join(pieces)
    assert call.arguments == {"INVALID_JSON": "".join(pieces)}


def test_the_next_call_of_the_turn_is_read_all_the_same() -> None:
    calls, _ = judged(turn(('{"path": 7}',), (RIGHT,)))
    assert [call.verdict for call in calls] == ["rejected", "complete"]


@pytest.mark.parametrize(
    ("payloads", "tools", "verdict"),
    [
        (anthropic_call('{"path": "a"', stop_reason="max_tokens"), [WRITE], "truncated"),
        (anthropic_call('{"path": "a", oops'), [WRITE], "malformed"),
        (anthropic_call('{"path": 7, oops'), [WRITE], "rejected"),
        (anthropic_call(), [WRITE], "rejected"),  # no arguments, though some are required
        (anthropic_call(), [ToolSpec("write", "", {"type": "object"})], "complete"),
        (anthropic_call('{"a": 1}'), [ToolSpec("write")], "complete"),  # no schema
        (anthropic_call(RIGHT), [], "rejected"),  # no tools
        (anthropic_call(RIGHT), [ToolSpec("write_all", "", {})], "rejected"),  # not a beginning
    ],
)
def test_the_verdict_on_a_call(payloads: list[Any], tools: list[ToolSpec], verdict: str) -> None:
    assert read(payloads, tools=tools)[0].verdict == verdict
    if not any("oops" in str(payload) for payload in payloads):
        assert read(payloads, tools=tools, policy=NO_SECRETS)[0].verdict == verdict


# Tools


@pytest.mark.parametrize(
    "streamed",
    [one for one in STREAMED if one.protocol != "claude-agent"],
    ids=lambda one: one.protocol,
)
def test_an_unknown_tool_is_rejected_when_the_call_starts(streamed: Streamed) -> None:
    other = ToolSpec("read", "", SCHEMA)
    call, events = read(arriving(streamed, RIGHT), protocol=streamed.protocol, tools=[other])
    place = types(events).index("tool_call_started")
    assert types(events)[place + 1] == "tool_args_invalid"
    error = refusal(events)
    assert error.reason == "unknown_tool"
    assert "'write'" in error.message
    assert "read" in error.message
    assert call.raw == RIGHT


def test_calls_that_the_provider_runs_itself_are_left_alone() -> None:
    payloads = [
        message_start(),
        block_start(0, "server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        input_json(0, '{"query": "x"}'),
        block_stop(0),
        *message_end("end_turn"),
    ]
    denying = Policy(default="deny")
    assert read(payloads, policy=denying)[0].verdict == "complete"


def custom_call(name: str) -> list[Any]:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": name}
    done = {"type": "response.custom_tool_call_input.done", "output_index": 0, "input": "SELECT 1"}
    return [
        response_created(),
        item_added(0, **item, input=""),
        done,
        item_done(0, **item, input="SELECT 1", status="completed"),
        response_ended(),
    ]


def test_custom_tools_must_be_known_and_take_any_text() -> None:
    tools = [{"type": "custom", "name": "sql"}]
    assert read(custom_call("sql"), tools=tools)[0].arguments == "SELECT 1"
    assert refusal(read(custom_call("sqlite"), tools=tools)[1]).reason == "unknown_tool"
    _, events = read(custom_call("sql"), tools=[ToolSpec("sql", "", {"type": "object"})])
    assert "not free text" in refusal(events).message
    policy = Policy([Rule("deny", argument=(), when=Equals("SELECT 1"))], default="allow")
    assert read(custom_call("sql"), tools=tools, policy=policy)[0].verdict == "rejected"


def test_an_agent_has_tools_of_its_own_but_a_policy_counts_for_them() -> None:
    agent = next(one for one in STREAMED if one.protocol == "claude-agent")
    other = ToolSpec("mine", "", SCHEMA)
    call, _ = read(arriving(agent, RIGHT), tools=[other])
    assert call.verdict == "complete"
    denying = Policy([Rule("deny", tool="write")], default="allow")
    for tools in (None, [other]):
        _, events = read(arriving(agent, RIGHT), tools=tools, policy=denying)
        assert refusal(events).reason == "denied"
        assert types(events) == ["tool_call_started", "tool_args_invalid", "turn_completed"]


def named(*names: str, arguments: str = RIGHT) -> list[Any]:
    """A call whose name comes in pieces."""
    starts = [tool_calls(entry("", id="call_1", name=name)) for name in names]
    return [*starts, tool_calls(entry(arguments)), chunk(finish="tool_calls")]


def test_a_name_that_comes_in_pieces_is_not_refused_at_its_first() -> None:
    assert read(named("wri", "te"))[0].verdict == "complete"
    call, events = read(named("wri"))
    assert call.verdict == "rejected"
    assert types(events)[:3] == ["tool_call_started", "tool_args_delta", "tool_args_invalid"]
    wider = ToolSpec("write_all", "", {"required": ["all"]})
    _, events = read(named("write", "_all"), tools=[WRITE, wider])
    assert refusal(events).message == 'the argument "all" is missing'


@pytest.mark.parametrize("names", [("read_file",), ("rea", "d_file"), ("read", "_file")])
def test_a_name_is_not_denied_by_its_beginning(names: tuple[str, ...]) -> None:
    for denied, verdict in (("read", "complete"), ("read_file", "rejected")):
        policy = Policy([Rule("deny", tool=denied)], default="allow")
        call, _ = read(named(*names), tools=None, policy=policy)
        assert call.verdict == verdict
        assert call.policy_decision is not None


@pytest.mark.parametrize("schema", [{"type": "strng"}, {"$ref": "https://example.com/schema"}])
def test_a_schema_that_cannot_be_used_says_of_which_tool_it_is(schema: Any) -> None:
    with pytest.raises(SchemaError, match="'write'"):
        stream([], tools=[ToolSpec("write", "", schema)])


def test_a_schema_may_be_compiled_before_with_options_of_its_own() -> None:
    schema = Schema({"properties": {"path": {"format": "date"}}}, formats=True)
    _, events = read(anthropic_call(RIGHT), tools=[ToolSpec("write", "", schema)])
    assert refusal(events).keyword == "format"


def test_a_judge_may_be_made_once_for_many_streams_and_assemblers() -> None:
    judge = make_judge([WRITE], NO_SECRETS)
    for _ in range(2):
        call, _ = read(anthropic_call('{"path": 7}'), tools=None, judge=judge)
        assert call.verdict == "rejected"
        assembler = Assembler(judge=judge)
        events = [event for one in anthropic_call('{"path": 7}') for event in assembler.feed(one)]
        assert refusal(events).keyword == "type"
    assert make_judge() is None
    with pytest.raises(UsageError, match="either judge="):
        stream([], tools=[WRITE], judge=judge)


# Texts that are meant in another way


@pytest.mark.parametrize(
    ("pieces", "reinterpreted"),
    [
        ([json.dumps(RIGHT)], "double_encoded"),
        (["{}", RIGHT], "empty_prefix"),
        ([RIGHT[:9], RIGHT[9:], RIGHT], "replay"),
        (['{"path": "a', '{"path": "a.txt", "mode": "write', RIGHT], "cumulative"),
        (['{"mode": "w', '{"mode": "write"', f'{{"mode": "write", {RIGHT[1:16]}, "content": ""}}'],
         "cumulative"),
    ],
)  # fmt: skip
def test_a_text_is_judged_by_what_it_means(pieces: list[str], reinterpreted: str) -> None:
    call, events = read(chat_call(*pieces))
    assert (call.verdict, call.reinterpreted) == ("complete", reinterpreted)
    assert not of_type(events, ToolArgsInvalid)


@pytest.mark.parametrize(
    "pieces",
    [
        [json.dumps('{"path": 7}')],
        ["{}", '{"path": 7}'],
        ['{"mode": "w', '{"mode": "write"', '{"mode": "write", "path": 7}'],
        ["null"],
    ],
)
def test_what_it_means_may_be_wrong(pieces: list[str]) -> None:
    call, events = read(chat_call(*pieces))
    assert call.verdict == "rejected"
    assert refusal(events).keyword in ("type", "required")


def test_pieces_that_turn_out_not_to_repeat_each_other_are_refused_then() -> None:
    call, events = read(chat_call('{"mode": "', '{"mode": "x', "yz", '"}'))
    assert call.verdict == "rejected"
    assert refusal(events).offset == 10


def in_leaves(*leaves: tuple[str, dict[str, Any]]) -> list[Any]:
    """A call of Gemini, leaf by leaf."""
    chunks = [
        gemini_chunk(piece(leaf(path, **value), goes_on=number < len(leaves)))
        for number, (path, value) in enumerate(leaves, 1)
    ]
    return [begin(), *chunks, gemini_chunk(finish="STOP")]


X = {"stringValue": "x"}


def test_leaves_that_come_late_count_before_something_is_missed() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["a"]}
    tool = ToolSpec("write", "", {"properties": {"to": inner}, "required": ["to"]})
    late = in_leaves(("$.to.b", X), ("$.z", X), ("$.to.a", X))
    assert read(late, tools=[tool])[0].verdict == "complete"
    _, events = read(in_leaves(("$.to.b", X), ("$.z", X), ("$.y", X)), tools=[tool])
    assert refusal(events).keyword == "required"


def test_what_rests_on_a_container_that_was_left_waits() -> None:
    schema = {
        "anyOf": [
            {"properties": {"to": {"required": ["force"]}}},
            {"properties": {"mode": {"enum": ["y"]}}},
        ]
    }
    payloads = in_leaves(("$.to.a", X), ("$.mode", X), ("$.to.force", {"boolValue": True}))
    call, _ = read(payloads, tools=[ToolSpec("write", "", schema)])
    assert (call.verdict, call.reinterpreted) == ("complete", "restated")
    rules = [
        Rule("allow", argument=("to", "force"), when=Equals(True)),
        Rule("deny", argument="mode", when=Equals("x")),
    ]
    call, _ = read(payloads, tools=None, policy=Policy(rules, default="deny"))
    assert call.verdict == "complete"
    assert call.policy_decision is not None
    assert call.policy_decision.action == "allow"


def test_a_wrong_leaf_is_refused_at_once() -> None:
    events = stream(in_leaves(("$.path", {"numberValue": 7}), ("$.content", X)), tools=[WRITE])
    error = next(event.error for event in events if isinstance(event, ToolArgsInvalid))
    assert (error.path, error.keyword) == (("path",), "type")


# By a policy


class Source(Iterator[Any]):
    """Payloads, and how many were asked for, and whether it was closed."""

    def __init__(self, payloads: list[Any]) -> None:
        self.rest = list(payloads)
        self.closed = False

    def __next__(self) -> Any:
        if not self.rest:
            raise StopIteration
        return self.rest.pop(0)

    def close(self) -> None:
        self.closed = True


@every_protocol
def test_a_denied_call_closes_the_source_before_its_content_is_written(
    streamed: Streamed,
) -> None:
    pieces = ['{"path": "/srv/.env"', ', "content": "', *("x" for _ in range(100)), '"}']
    source = Source(arriving(streamed, *pieces))
    events = stream(source, streamed.protocol, [WRITE], NO_SECRETS)
    told = list(events)
    assert source.closed
    assert len(source.rest) > 100
    assert types(told)[-3:] == ["argument_completed", "tool_args_invalid", "turn_completed"]
    error = refusal(told)
    assert (error.reason, error.path, error.offset) == ("denied", ("path",), 20)
    assert "it has keys" in error.message
    end = told[-1]
    assert isinstance(end, TurnCompleted)
    assert (end.stop_reason, end.characters_read) == ("rejected", 20)
    assert end.message.parts[0].verdict == "rejected"  # type: ignore[union-attr]  # it is a call
    (call,) = events.calls
    assert call.policy_decision is not None
    assert (call.policy_decision.action, call.policy_decision.rule) == ("deny", "secrets")


def test_a_source_that_fails_to_close_does_not_hide_the_refusal() -> None:
    class Failing(Source):
        def close(self) -> None:
            raise OSError("it does not close")

    events = stream(
        Failing(anthropic_call('{"path": ".env"', ', "content": ""}')), policy=NO_SECRETS
    )
    told: list[Event] = []
    with pytest.raises(OSError, match="does not close"):
        told.extend(events)
    assert types(told)[-2:] == ["tool_args_invalid", "turn_completed"]


class AsyncSource:
    """Payloads, then an error or the end; closing it does what the test says."""

    def __init__(self, payloads: list[Any], close: Any, error: Exception | None = None) -> None:
        self.rest, self.aclose, self.error = payloads, close, error

    def __aiter__(self) -> "AsyncSource":
        return self

    async def __anext__(self) -> Any:
        if self.rest:
            return self.rest.pop(0)
        raise self.error or StopAsyncIteration


async def test_who_is_cancelled_while_a_source_is_closed_is_cancelled() -> None:
    async def hang() -> None:
        await asyncio.sleep(60)

    source = AsyncSource(anthropic_call('{"path": ".env"', ', "content": ""}'), hang)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(collect(stream(source, policy=NO_SECRETS)), 0.05)


async def test_what_is_awaited_is_closed_only_if_it_was_left_and_hides_no_error() -> None:
    async def fail() -> None:
        raise RuntimeError("it does not close")

    async def ask(error: Exception | None) -> AsyncSource:
        return AsyncSource(anthropic_call(RIGHT), fail, error)

    assert types(await collect(stream(ask(None))))[-1] == "turn_completed"
    with pytest.raises(ConnectionError):
        await collect(stream(ask(ConnectionError("lost"))))


async def test_an_async_source_is_closed_too() -> None:
    closed: list[bool] = []

    async def close() -> None:
        closed.append(True)

    payloads = anthropic_call('{"path": ".env"', ', "content": "x', "x" * 100, '"}')
    source = AsyncSource(payloads, close)
    told = await collect(stream(source, policy=NO_SECRETS))
    assert (closed, len(source.rest)) == ([True], 6)
    assert ended(told).stop_reason == "rejected"


def test_the_end_of_a_recording_is_not_told_of_after_a_denial(tmp_path: Path) -> None:
    file = tmp_path / "turn.rec"
    with Recorder(file) as recorder:
        recorder.write(sse(anthropic_call('{"path": ".env"', ', "content": "')[:4]))
        recorder.close("cut")
    recorded = file.read_bytes()
    for _, pieces in chunkings(recorded):
        told = list(stream(pieces, policy=NO_SECRETS))
        assert types(told)[-2:] == ["tool_args_invalid", "turn_completed"]


def test_a_denial_without_a_condition_shows_what_was_read() -> None:
    policy = Policy(
        [Rule("allow", argument="path", when=Glob("src/**")), Rule("deny", reason="elsewhere")],
        default="deny",
    )
    call, events = read(anthropic_call('{"path": "/etc/x", "mode": "w'), policy=policy)
    assert call.partial == {"path": "/etc/x"}
    error = refusal(events)
    assert (error.path, error.offset) == (("path",), 17)


def chat(*pieces: tuple[int, str]) -> list[Any]:
    """Calls of Chat, which closes none of them."""
    known: set[int] = set()
    payloads = []
    for index, text in pieces:
        name = {} if index in known else {"id": f"call_{index}", "name": "write"}
        known.add(index)
        payloads.append(tool_calls(entry(text, index=index, **name)))
    return [*payloads, chunk(finish="tool_calls")]


OPEN = [message_start(), tool_use(0), input_json(0, '{"content": "x')]
DENIED = [tool_use(1, id_="toolu_2"), input_json(1, '{"path": ".env"')]
MORE = [input_json(1, ', "content": "y"}'), block_stop(1), *message_end()]
CLOSED = [input_json(0, '", "path": "a"}'), block_stop(0)]


@pytest.mark.parametrize(
    ("payloads", "verdicts", "unread"),
    [
        pytest.param([*OPEN, *DENIED, *CLOSED, *MORE], "complete rejected", 4, id="is written"),
        # Whether nothing of it was cut only the stop reason could tell, which does not come.
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
def test_reading_stops_when_no_other_call_is_being_written(
    payloads: list[Any], verdicts: str, unread: int
) -> None:
    source = Source(payloads)
    calls, told = judged(source, tools=None, policy=NO_SECRETS)
    assert " ".join(call.verdict for call in calls) == verdicts
    assert len(source.rest) == unread
    assert ended(told).stop_reason == "rejected"
    assert ended(told).characters_read == sum(len(call.raw) for call in calls)


def test_a_turn_that_has_failed_does_not_end_twice() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    _, told = judged([*OPEN, *DENIED, error], tools=None, policy=NO_SECRETS)
    assert types(told)[-1] == "stream_failed"
    assert "turn_completed" not in types(told)


def test_a_call_denied_in_the_last_payload_changes_nothing_about_the_end() -> None:
    payloads = [tool_calls(entry('{"path": ".env"}', id="c", name="write"), finish="tool_calls")]
    _, told = judged(payloads, policy=NO_SECRETS)
    assert (ended(told).stop_reason, ended(told).characters_read) == ("tool_calls", None)


def test_thinking_that_goes_on_is_ended_and_text_counts_as_read() -> None:
    payloads = [
        message_start(),
        block_start(0, "text", text=""),
        block_delta(0, "text_delta", text="I will."),
        block_start(1, "thinking", thinking=""),
        block_delta(1, "thinking_delta", thinking="Or not?"),
        tool_use(2),
        input_json(2, '{"path": ".env"'),
    ]
    _, told = judged(payloads, policy=NO_SECRETS)
    assert types(told)[-2:] == ["thinking_completed", "turn_completed"]
    assert ended(told).characters_read == len('I will.Or not?{"path": ".env"')


@pytest.mark.parametrize(
    ("stop_on", "path", "is_stopped"),
    [
        ("denied", ".env", True),
        ("denied", 7, False),
        ("rejected", ".env", True),
        ("rejected", 7, True),
        ("never", ".env", False),
        ("never", 7, False),
    ],
)
def test_one_can_choose_what_stops_the_stream(stop_on: Any, path: Any, is_stopped: bool) -> None:
    source = Source(anthropic_call(f'{{"path": {json.dumps(path)}', ', "content": "x', '"}'))
    calls, told = judged(source, policy=NO_SECRETS, stop_on=stop_on)
    assert calls[0].verdict == "rejected"
    assert source.closed is is_stopped
    assert (ended(told).stop_reason == "rejected") is is_stopped


@pytest.mark.parametrize("action", ["allow", "ask"])
def test_what_is_not_denied_is_told_on_the_call(action: Any) -> None:
    policy = Policy([Rule(action, argument="path", when=Glob("**"), name="mine")], default="deny")
    source = anthropic_call('{"path": "a"', ', "content": "x"}')
    events = stream(source, policy=policy, on_ask="report")
    for event in events:
        call = events.calls[0]
        if isinstance(event, ToolCallStarted):
            assert call.policy_decision is None
        if isinstance(event, ArgumentCompleted):
            assert call.policy_decision is not None
            assert (call.policy_decision.action, call.policy_decision.path) == (action, ("path",))
        if isinstance(event, ToolArgsCompleted):
            assert event.policy_decision == call.policy_decision
            assert from_json(to_json(event)) == event
    assert events.calls[0].verdict == "complete"


def test_without_a_policy_there_is_no_decision() -> None:
    call, events = read(anthropic_call(RIGHT))
    (completed,) = of_type(events, ToolArgsCompleted)
    assert call.policy_decision is None
    assert completed.policy_decision is None
    assert b"policy_decision" not in to_json(completed)


# A policy that can answer "ask"

ASKING = {
    "default": Policy(),
    "default of a tool": Policy(default="allow", defaults={"write": "ask"}),
    "rule": Policy([Rule("ask", tool="write", name="mine", reason="check it")], default="allow"),
}
can_ask = pytest.mark.parametrize("policy", ASKING.values(), ids=ASKING)


@can_ask
def test_policy_that_can_ask_needs_on_ask(policy: Policy) -> None:
    assert policy.can_ask
    for make in (
        lambda: stream([], policy=policy),
        lambda: stream(endless(), policy=policy),
        lambda: make_judge(policy=policy),
        lambda: make_judge([WRITE], policy),
    ):
        with pytest.raises(UsageError, match=r'on_ask="deny" .* on_ask="report"'):
            make()


@can_ask
def test_policy_that_can_ask_is_not_accepted_as_a_judge(policy: Policy) -> None:
    for make in (lambda: stream([], judge=policy), lambda: Assembler(judge=policy)):
        with pytest.raises(UsageError, match=r'make_judge\(policy=policy, on_ask="deny"\)'):
            make()


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b""


def test_policy_that_cannot_ask_needs_no_on_ask() -> None:
    assert not NO_SECRETS.can_ask
    for on_ask in (None, "deny", "report"):
        call, _ = read(anthropic_call(RIGHT), policy=NO_SECRETS, on_ask=on_ask)
        assert call.verdict == "complete"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"on_ask": "allow"}, 'on_ask must be "deny" or "report", not \'allow\''),
        ({"on_ask": "allow", "policy": NO_SECRETS}, 'on_ask must be "deny" or "report"'),
        ({"on_ask": "allow", "policy": Policy()}, 'on_ask must be "deny" or "report"'),
        ({"on_ask": "deny", "judge": make_judge([WRITE])}, "either judge="),
        ({"stop_on": "always"}, "denied, rejected, never"),
        ({"policy": "policy.toml"}, r"Policy\.load"),
        ({"policy": {"rules": []}}, r"Policy\.load"),
        ({"policy": [Rule("deny")]}, r"Policy\.load"),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(options: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        stream([], **options)


@can_ask
def test_denied_ask_rejects_the_call_and_closes_the_source(policy: Policy) -> None:
    source = Source(anthropic_call(RIGHT))
    told = list(stream(source, policy=policy, on_ask="deny"))
    assert types(told) == ["tool_call_started", "tool_args_invalid", "turn_completed"]
    error = refusal(told)
    assert error.reason == "denied"
    assert error.message.startswith("a call to write needs approval by the policy")
    assert "this stream has no approver" in error.message
    assert ("(mine)" in error.message) == ("check it" in error.message) == (policy.rules != ())
    assert source.closed


LATE = Rule("deny", argument="content", when=Glob("**"))


@pytest.mark.parametrize(
    "make_policy",
    [
        lambda action: Policy(
            [Rule(action, argument="path", when=Glob("*.py")), LATE], default="allow"
        ),
        lambda action: Policy(
            [Rule("allow", argument="path", when=Glob("*.md")), LATE], default=action
        ),
    ],
    ids=["rule", "default"],
)
def test_denied_ask_rejects_as_early_as_a_denial(make_policy: Callable[[Any], Policy]) -> None:
    source = anthropic_call('{"path": "a.py"', ', "content": "long"}')
    _, denied = judged(source, policy=make_policy("deny"))
    _, asked = judged(source, policy=make_policy("ask"), on_ask="deny")
    assert types(asked) == types(denied)
    assert types(asked)[-3:] == ["argument_completed", "tool_args_invalid", "turn_completed"]
    assert (refusal(asked).path, refusal(asked).offset) == (("path",), refusal(denied).offset)


@can_ask
def test_reported_ask_completes_the_call_with_the_answer(policy: Policy) -> None:
    for options in ({"tools": None}, {"tools": [WRITE]}):
        call, told = read(anthropic_call(RIGHT), policy=policy, on_ask="report", **options)
        (completed,) = of_type(told, ToolArgsCompleted)
        assert completed.policy_decision is not None
        assert completed.policy_decision.action == "ask"
        assert completed.policy_decision == call.policy_decision
        assert from_json(to_json(completed)) == completed


def test_the_first_of_schema_and_policy_counts() -> None:
    for text, reason in (
        ('{"path": ".env", "mode": "x"}', "denied"),
        ('{"mode": "x", "path": ".env"}', "schema"),
    ):
        for source in (anthropic_call(text), sse(anthropic_call(text))):
            assert refusal(judged(source, policy=NO_SECRETS)[1]).reason == reason


def test_a_policy_judges_what_a_text_means() -> None:
    call, events = read(chat_call(json.dumps('{"path": ".env", "content": ""}')), policy=NO_SECRETS)
    assert call.verdict == "rejected"
    assert refusal(events).reason == "denied"
    call, _ = read(chat_call('{"path": ".env', f'{{"path": ".env{RIGHT[10:]}'), policy=NO_SECRETS)
    assert (call.verdict, call.reinterpreted) == ("complete", "cumulative")


# Readers


def test_a_reader_that_waits_is_told_of_the_refusal() -> None:
    events = stream(anthropic_call('{"path": ".env"', ', "content": "x', '"}'), policy=NO_SECRETS)
    call = next(events.live_calls())
    assert call.argument("path") == ".env"
    with pytest.raises(ArgumentUnavailable, match="secrets") as caught:
        "".join(call.text("content"))
    assert caught.value.verdict == "rejected"
    assert list(events.live_calls())[1:] == []

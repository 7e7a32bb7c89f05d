"""stream(tools=…, policy=…): a call is refused while it is written, in every protocol."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from argstream import ArgumentUnavailable, SchemaError, UsageError, stream
from argstream.assembly import Assembler, Call
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
from tests.adapters.test_gemini import begin, leaf, piece
from tests.adapters.test_gemini import chunk as gemini_chunk
from tests.providers import (
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
    assert call.error is not None
    assert call.error.path == ("path",)


def test_the_next_call_of_the_turn_is_read_all_the_same() -> None:
    payloads = [
        message_start(),
        tool_use(0),
        input_json(0, '{"path": 7}'),
        block_stop(0),
        tool_use(1, id_="toolu_2"),
        input_json(1, RIGHT),
        block_stop(1),
        *message_end(),
    ]
    calls, _ = judged(payloads)
    assert [call.verdict for call in calls] == ["rejected", "complete"]


def test_a_call_that_was_cut_is_truncated_not_rejected() -> None:
    call, _ = read(anthropic_call('{"path": "a"', stop_reason="max_tokens"))
    assert call.verdict == "truncated"


def test_malformed_json_is_malformed_if_nothing_was_wrong_before() -> None:
    assert read(anthropic_call('{"path": "a", oops'))[0].verdict == "malformed"
    assert read(anthropic_call('{"path": 7, oops'))[0].verdict == "rejected"


def test_no_arguments_are_judged_when_it_is_known_that_none_come() -> None:
    call, events = read(anthropic_call())
    assert call.verdict == "rejected"
    assert refusal(events).keyword == "required"
    nothing = ToolSpec("write", "", {"type": "object"})
    assert read(anthropic_call(), tools=[nothing])[0].arguments == {}


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


def test_a_tool_without_a_schema_may_be_called_with_anything() -> None:
    assert read(anthropic_call('{"a": 1}'), tools=[ToolSpec("write")])[0].verdict == "complete"


def test_with_no_tools_every_call_is_rejected() -> None:
    assert read(anthropic_call(RIGHT), tools=[])[0].verdict == "rejected"


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


def test_free_text_for_a_tool_that_takes_arguments_is_rejected() -> None:
    tools = [ToolSpec("sql", "", {"type": "object"})]
    _, events = read(custom_call("sql"), tools=tools)
    assert "not free text" in refusal(events).message


def test_a_name_that_is_the_beginning_of_another_is_unknown() -> None:
    payloads = anthropic_call(RIGHT)
    wider = ToolSpec("write_all", "", {})
    for policy in (None, Policy([], default="allow")):
        call, events = read(payloads, tools=[wider], policy=policy)
        assert call.verdict == "rejected"
        assert refusal(events).reason == "unknown_tool"


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


def test_a_policy_decides_on_free_text_when_it_is_whole() -> None:
    tools = [{"type": "custom", "name": "sql"}]
    policy = Policy([Rule("deny", argument=(), when=Equals("SELECT 1"))], default="allow")
    call, _ = read(custom_call("sql"), tools=tools, policy=policy)
    assert call.verdict == "rejected"


def test_a_name_that_comes_in_pieces_is_not_refused_at_its_first() -> None:
    def named(*names: str) -> list[Any]:
        return [
            *(tool_calls(entry("", id="call_1", name=name)) for name in names),
            tool_calls(entry(RIGHT)),
            chunk(finish="tool_calls"),
        ]

    assert read(named("wri", "te"))[0].verdict == "complete"
    call, events = read(named("wri"))
    assert call.verdict == "rejected"
    assert types(events)[:3] == ["tool_call_started", "tool_args_delta", "tool_args_invalid"]
    wider = ToolSpec("write_all", "", {"required": ["all"]})
    call, events = read(named("write", "_all"), tools=[WRITE, wider])
    assert refusal(events).message == 'the argument "all" is missing'


@pytest.mark.parametrize("names", [("read_file",), ("rea", "d_file"), ("read", "_file")])
def test_a_name_is_not_denied_by_its_beginning(names: tuple[str, ...]) -> None:
    payloads = [
        *(tool_calls(entry("", id="call_1", name=name)) for name in names),
        tool_calls(entry('{"a": 1}')),
        chunk(finish="tool_calls"),
    ]
    policy = Policy([Rule("deny", tool="read")], default="allow")
    call, _ = read(payloads, tools=None, policy=policy)
    assert call.verdict == "complete"
    policy = Policy([Rule("deny", tool="read_file")], default="allow")
    call, events = read(payloads, tools=None, policy=policy)
    assert call.verdict == "rejected"
    assert call.policy_decision is not None
    assert call.policy_decision.action == "deny"
    assert refusal(events).reason == "denied"


@pytest.mark.parametrize("schema", [{"type": "strng"}, {"$ref": "https://example.com/schema"}])
def test_a_schema_that_cannot_be_used_says_of_which_tool_it_is(schema: Any) -> None:
    with pytest.raises(SchemaError, match="'write'"):
        stream([], tools=[ToolSpec("write", "", schema)])


def test_a_schema_may_be_compiled_before_with_options_of_its_own() -> None:
    schema = Schema({"properties": {"path": {"format": "date"}}}, formats=True)
    _, events = read(anthropic_call(RIGHT), tools=[ToolSpec("write", "", schema)])
    assert refusal(events).keyword == "format"


def test_an_assembler_takes_the_same_judge() -> None:
    judge = make_judge([WRITE])
    for _ in range(2):  # for many streams
        assembler = Assembler(judge=judge)
        events = [event for one in anthropic_call('{"path": 7}') for event in assembler.feed(one)]
        assert refusal(events).keyword == "type"
    assert make_judge() is None


def test_a_judge_may_be_made_once_for_many_streams() -> None:
    judge = make_judge([WRITE], NO_SECRETS)
    for _ in range(2):
        call, _ = read(anthropic_call('{"path": 7}'), tools=None, judge=judge)
        assert call.verdict == "rejected"
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


@pytest.mark.parametrize("pieces", [*chunkings(f"{{}}{RIGHT}")], ids=lambda one: one[0])
def test_an_empty_object_before_the_text_is_not_judged(pieces: tuple[str, list[str]]) -> None:
    call, _ = read(chat_call(*(piece for piece in pieces[1] if piece)))
    assert (call.verdict, call.reinterpreted) == ("complete", "empty_prefix")


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


def test_leaves_that_come_late_count_before_something_is_missed() -> None:
    schema = {
        "properties": {
            "to": {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["a"]}
        },
        "required": ["to"],
    }
    tool = ToolSpec("write", "", schema)

    def leaves(last: str) -> list[Any]:
        return [
            begin(),
            gemini_chunk(piece(leaf("$.to.b", stringValue="x"))),
            gemini_chunk(piece(leaf("$.z", stringValue="x"))),
            gemini_chunk(piece(leaf(last, stringValue="x"), goes_on=False)),
            gemini_chunk(finish="STOP"),
        ]

    assert read(leaves("$.to.a"), tools=[tool])[0].verdict == "complete"
    call, events = read(leaves("$.y"), tools=[tool])
    assert refusal(events).keyword == "required"
    assert call.verdict == "rejected"


def test_what_rests_on_a_container_that_was_left_waits() -> None:
    schema = {
        "anyOf": [
            {"properties": {"to": {"required": ["force"]}}},
            {"properties": {"mode": {"enum": ["y"]}}},
        ]
    }
    payloads = [
        begin(),
        gemini_chunk(piece(leaf("$.to.a", stringValue="x"))),
        gemini_chunk(piece(leaf("$.mode", stringValue="x"))),
        gemini_chunk(piece(leaf("$.to.force", boolValue=True), goes_on=False)),
        gemini_chunk(finish="STOP"),
    ]
    call, _ = read(payloads, tools=[ToolSpec("write", "", schema)])
    assert (call.verdict, call.reinterpreted) == ("complete", "restated")
    policy = Policy(
        [
            Rule("allow", argument=("to", "force"), when=Equals(True)),
            Rule("deny", argument="mode", when=Equals("x")),
        ],
        default="deny",
    )
    call, _ = read(payloads, tools=None, policy=policy)
    assert call.verdict == "complete"
    assert call.policy_decision is not None
    assert call.policy_decision.action == "allow"


def test_a_wrong_leaf_is_refused_at_once() -> None:
    payloads = [
        begin(),
        gemini_chunk(piece(leaf("$.path", numberValue=7))),
        gemini_chunk(piece(leaf("$.content", stringValue="long"), goes_on=False)),
        gemini_chunk(finish="STOP"),
    ]
    events = stream(payloads, tools=[WRITE])
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


def test_who_is_cancelled_while_a_source_is_closed_is_cancelled() -> None:
    class Hanging:
        def __init__(self) -> None:
            self.rest = anthropic_call('{"path": ".env"', ', "content": ""}')

        def __aiter__(self) -> "Hanging":
            return self

        async def __anext__(self) -> Any:
            return self.rest.pop(0)

        async def aclose(self) -> None:
            await asyncio.sleep(60)

    async def main() -> None:
        async with asyncio.timeout(0.05):
            async for _ in stream(Hanging(), policy=NO_SECRETS):
                pass

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_what_is_awaited_is_closed_only_if_it_was_left_and_hides_no_error() -> None:
    class Awaited:
        def __init__(self, payloads: list[Any], error: Exception | None) -> None:
            self.rest, self.error = payloads, error

        def __aiter__(self) -> "Awaited":
            return self

        async def __anext__(self) -> Any:
            if self.rest:
                return self.rest.pop(0)
            raise self.error or StopAsyncIteration

        async def aclose(self) -> None:
            raise RuntimeError("it does not close")

    async def main(error: Exception | None) -> list[Event]:
        async def ask() -> Awaited:
            return Awaited(anthropic_call(RIGHT), error)

        return [event async for event in stream(ask())]

    assert types(asyncio.run(main(None)))[-1] == "turn_completed"
    with pytest.raises(ConnectionError):
        asyncio.run(main(ConnectionError("lost")))


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


@pytest.mark.parametrize("policy", ["policy.toml", {"rules": []}, [Rule("deny")]])
def test_what_is_no_policy_is_refused_at_once(policy: Any) -> None:
    with pytest.raises(UsageError, match=r"Policy\.load"):
        stream([], policy=policy)


def test_an_async_source_is_closed_too() -> None:
    left, closed = [], []

    async def source() -> AsyncIterator[Any]:
        payloads = anthropic_call('{"path": ".env"', ', "content": "x', "x" * 100, '"}')
        try:
            while payloads:
                yield payloads.pop(0)
        finally:
            left.extend(payloads)
            closed.append(True)

    async def main() -> list[Event]:
        return [event async for event in stream(source(), policy=NO_SECRETS)]

    told = asyncio.run(main())
    assert closed
    assert len(left) == 6
    assert isinstance(told[-1], TurnCompleted)
    assert told[-1].stop_reason == "rejected"


def test_another_call_that_is_being_written_is_waited_for() -> None:
    payloads = [
        message_start(),
        tool_use(0),
        input_json(0, '{"content": "x'),
        tool_use(1, id_="toolu_2"),
        input_json(1, '{"path": ".env"'),
        input_json(1, ', "content": "y"}'),
        input_json(0, '", "path": "a"}'),
        block_stop(0),
        block_stop(1),
        *message_end(),
    ]
    source = Source(payloads)
    calls, told = judged(source, tools=None, policy=NO_SECRETS)
    assert [call.verdict for call in calls] == ["complete", "rejected"]
    assert source.rest[0]["type"] == "content_block_stop"
    assert isinstance(told[-1], TurnCompleted)
    assert told[-1].stop_reason == "rejected"


def test_a_call_without_arguments_that_is_over_is_not_waited_for() -> None:
    payloads = [
        message_start(),
        tool_use(0),
        block_stop(0),
        tool_use(1, id_="toolu_2"),
        input_json(1, '{"path": ".env"'),
        input_json(1, ', "content": "y"}'),
        block_stop(1),
        *message_end(),
    ]
    source = Source(payloads)
    events = stream(source, policy=NO_SECRETS)
    told = list(events)
    # Whether nothing of it was cut only the stop reason could tell, which does not come.
    assert [call.verdict for call in events.calls] == ["aborted", "rejected"]
    assert len(source.rest) == 4
    assert isinstance(told[-1], TurnCompleted)


def test_a_turn_that_has_failed_does_not_end_twice() -> None:
    payloads = [
        message_start(),
        tool_use(0),
        input_json(0, '{"content": "x'),
        tool_use(1, id_="toolu_2"),
        input_json(1, '{"path": ".env"'),
        {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    ]
    _, told = judged(payloads, tools=None, policy=NO_SECRETS)
    assert types(told)[-1] == "stream_failed"
    assert "turn_completed" not in types(told)


def test_where_nothing_closes_a_call_the_next_one_does() -> None:
    payloads = [
        tool_calls(entry('{"path": "a"}', id="call_1", name="write")),
        tool_calls(entry("", index=1, id="call_2", name="write")),
        tool_calls(entry('{"path": ".env"', index=1)),
        tool_calls(entry(', "content": ""}', index=1)),
        chunk(finish="tool_calls"),
    ]
    source = Source(payloads)
    calls, told = judged(source, tools=None, policy=NO_SECRETS)
    assert [call.verdict for call in calls] == ["complete", "rejected"]
    assert len(source.rest) == 2
    assert isinstance(told[-1], TurnCompleted)
    assert told[-1].characters_read == 28


def test_a_call_that_is_not_whole_when_another_is_denied_goes_on() -> None:
    payloads = [
        tool_calls(entry('{"path": "a"', id="call_1", name="write")),
        tool_calls(entry('{"path": ".env"', index=1, id="call_2", name="write")),
        tool_calls(entry("}", index=0)),
        tool_calls(entry(', "content": ""}', index=1)),
        chunk(finish="tool_calls"),
    ]
    source = Source(payloads)
    calls, told = judged(source, tools=None, policy=NO_SECRETS)
    assert [call.verdict for call in calls] == ["complete", "rejected"]
    assert isinstance(told[-1], TurnCompleted)


def test_a_call_denied_in_the_last_payload_changes_nothing_about_the_end() -> None:
    payloads = [tool_calls(entry('{"path": ".env"}', id="c", name="write"), finish="tool_calls")]
    _, told = judged(payloads, policy=NO_SECRETS)
    assert isinstance(told[-1], TurnCompleted)
    assert (told[-1].stop_reason, told[-1].characters_read) == ("tool_calls", None)


def test_thinking_that_goes_on_is_ended_and_text_counts_as_read() -> None:
    payloads = [
        message_start(),
        block_start(0, "text", text=""),
        block_delta(0, "text_delta", text="I will."),
        block_stop(0),
        block_start(1, "thinking", thinking=""),
        block_delta(1, "thinking_delta", thinking="Or not?"),
        tool_use(2),
        input_json(2, '{"path": ".env"'),
        *message_end(),
    ]
    _, told = judged(payloads, policy=NO_SECRETS)
    assert types(told)[-2:] == ["thinking_completed", "turn_completed"]
    assert isinstance(told[-1], TurnCompleted)
    assert told[-1].characters_read == len('I will.Or not?{"path": ".env"')


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
    events = stream(source, tools=[WRITE], policy=NO_SECRETS, stop_on=stop_on)
    told = list(events)
    assert events.calls[0].verdict == "rejected"
    assert source.closed is is_stopped
    assert isinstance(told[-1], TurnCompleted)
    assert (told[-1].stop_reason == "rejected") is is_stopped


def test_a_wrong_choice_says_which_there_are() -> None:
    with pytest.raises(UsageError, match="denied, rejected, never"):
        stream([], stop_on="always")  # type: ignore[call-overload]  # that is the point


def test_a_tool_that_is_denied_as_such_is_rejected_when_it_starts() -> None:
    policy = Policy([Rule("deny", tool="write", reason="not today")], default="allow")
    source = Source(anthropic_call(RIGHT))
    told = list(stream(source, policy=policy))
    assert types(told) == ["tool_call_started", "tool_args_invalid", "turn_completed"]
    assert source.closed


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


@pytest.mark.parametrize("options", [{}, {"policy": NO_SECRETS}, {"policy": Policy()}])
def test_unknown_on_ask_is_refused(options: Any) -> None:
    with pytest.raises(UsageError, match='on_ask must be "deny" or "report", not \'allow\''):
        stream([], **options, on_ask="allow")  # type: ignore[call-overload]  # that is the point


def test_on_ask_is_refused_beside_a_judge() -> None:
    judge = make_judge(policy=Policy(), on_ask="report")
    with pytest.raises(UsageError, match="either judge="):
        stream([], judge=judge, on_ask="deny")


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
    _, told = judged(anthropic_call('{"path": ".env", "mode": "x"}'), policy=NO_SECRETS)
    assert refusal(told).reason == "denied"
    _, told = judged(anthropic_call('{"mode": "x", "path": ".env"}'), policy=NO_SECRETS)
    assert refusal(told).reason == "schema"


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


def test_bytes_that_come_whole_are_judged_in_the_same_order() -> None:
    body = sse(anthropic_call('{"path": ".env", "content": "x"}'))
    told = list(stream(body, tools=[WRITE], policy=NO_SECRETS))
    assert types(told)[-2:] == ["tool_args_invalid", "turn_completed"]
    assert not of_type(told, ToolArgsCompleted)

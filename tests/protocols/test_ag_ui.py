"""AG-UI: how each event is encoded, and how the body of a request is read."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from argstream import Approve, Deny
from argstream import events as ev
from argstream.errors import UsageError
from argstream.protocols import ag_ui
from argstream.protocols.ag_ui import AgUiEncoder, RunAgentInput, Version
from tests.chance_runs import HISTORY
from tests.protocols.reading import read, records_of, snapshot_of

Data = dict[str, Any]

START = (ev.RunStarted("run_1", "Go"), ev.TurnStarted(1))
CALL_STARTED = ev.ToolCallStarted("c1", 0, "send")
CALL = (
    CALL_STARTED,
    ev.ToolArgsDelta("c1", "send", '{"to": "ada"}'),
    ev.ToolArgsCompleted("c1", "send", {"to": "ada"}),
)
REQUEST = ev.ApprovalRequested("c1", "send", {"to": "ada"}, "d1", "always asked", "rule 1", 4_000.0)
PAUSED = (*START, *CALL, REQUEST, ev.RunPaused("run_1", (REQUEST,)))
RESUMED = ev.RunResumed("run_1")
HI = ev.TextDelta("Hi", 0)


def decoded(written: bytes) -> list[Data]:
    return [event.data for event in read(written)]


def encoded(*events: ev.Event, version: Version = "1.0") -> list[Data]:
    """What a client receives that follows the run from its beginning."""
    return decoded(AgUiEncoder("thread", "ask", version).encode(records_of(events)).data)


def replay(*events: ev.Event, known: list[Data] | None = None) -> list[Any]:
    """What a client receives that joins after these events."""
    has = None if known is None else msgspec.json.encode(known)
    encoder = AgUiEncoder("thread", "ask", "1.0", has)
    encoder.begin(snapshot_of(records_of(events)))
    return decoded(encoder.replay().data)


def kinds(events: Iterable[Data]) -> list[str]:
    return [event["type"] for event in events]


def customs(events: Iterable[Data]) -> list[tuple[str, Any]]:
    return [(event["name"], event["value"]) for event in events if event["type"] == "CUSTOM"]


def test_stream_starts_with_the_run_id_of_the_log() -> None:
    assert encoded(ev.RunStarted("run_1", "Go")) == [
        {
            "type": "RUN_STARTED",
            "threadId": "thread",
            "runId": "ask",
            "protocolVersion": "1.0",
            "metadata": {"argstream": {"runId": "run_1"}},
        }
    ]


@pytest.mark.parametrize(
    ("end", "version", "kind", "outcome"),
    [
        (ev.RunCompleted("Hi"), "1.0", "RUN_FINISHED", {"type": "success"}),
        (ev.RunCompleted("Hi"), "0.0.59", "RUN_FINISHED", {"type": "success"}),
        (ev.RunStopped("enough"), "1.0", "RUN_FINISHED", {"type": "cancelled"}),
        (ev.RunStopped("enough"), "0.0.59", "RUN_ERROR", None),
        (ev.RunFailed("overloaded", "busy"), "1.0", "RUN_ERROR", None),
    ],
)
def test_end_by_client_version(end: ev.Event, version: Version, kind: str, outcome: Any) -> None:
    last = encoded(*START, HI, end, version=version)[-1]
    assert (last["type"], last.get("outcome")) == (kind, outcome)


@pytest.mark.parametrize(
    ("usage", "sent"),
    [
        (ev.Usage(3), [{"inputTokens": 3, "totalTokens": 3}]),
        (
            ev.Usage(output_tokens=4, cache_write_tokens=0),
            [{"outputTokens": 4, "totalTokens": 4, "cacheWriteInputTokens": 0}],
        ),
        (ev.Usage(), None),
    ],
)
def test_unknown_token_counts_are_omitted(usage: ev.Usage, sent: list[Data] | None) -> None:
    assert encoded(*START, ev.RunCompleted("Hi", usage))[-1].get("usage") == sent


def test_interval_grows_with_the_text() -> None:
    encoder = AgUiEncoder("thread", "ask")
    records = records_of([*START, ev.TextDelta("x" * 1_000_000, 0)])
    encoder.encode(records[:2])
    assert encoder.interval == 0.045
    encoder.encode(records[2:])
    assert 0.2 < encoder.interval <= 1.0


def test_thinking_without_text_and_events_of_sub_agents() -> None:
    events = encoded(*START, ev.ThinkingStarted(0), ev.ThinkingCompleted("", 0))
    assert kinds(events)[-2:] == ["REASONING_START", "REASONING_END"]
    events = encoded(ev.RunStarted("run_1", "Go"), *CALL, ev.TextDelta("I look.", 0, "c1"))
    assert [event.get("subagentRunId") for event in events[-2:]] == ["c1", "c1"]
    assert all("subagentRunId" not in event for event in events[:-2])


@pytest.mark.parametrize(
    ("following", "is_closed"),
    [(CALL_STARTED, True), (ev.TurnStarted(2), True), (ev.TextDelta("Ho", 1, "c9"), False)],
)
def test_text_is_closed_by_the_next_block_of_the_same_agent(
    following: ev.Event, *, is_closed: bool
) -> None:
    assert ("TEXT_MESSAGE_END" in kinds(encoded(*START, HI, following))) == is_closed


def test_text_of_a_closed_message_opens_it_again() -> None:
    late = encoded(*START, HI, ev.TextDelta("Ho", 1), ev.TextDelta("!", 0))[-3:]
    assert kinds(late) == [f"TEXT_MESSAGE_{kind}" for kind in ("START", "CONTENT", "END")]
    assert {event["messageId"] for event in late} == {"run_1-1"}


def test_name_that_comes_in_pieces_is_sent_in_a_second_start() -> None:
    encoder = AgUiEncoder("thread", "ask")
    encoder.begin(snapshot_of(records_of([*START, CALL_STARTED])))
    rest = records_of([ev.ToolArgsDelta("c1", "send_mail", "{")], first=4)
    end, start, arguments = decoded(encoder.encode(rest).data)
    assert (end["type"], arguments["delta"]) == ("TOOL_CALL_END", "{")
    assert (start["type"], start["toolCallName"]) == ("TOOL_CALL_START", "send_mail")


def test_arguments_are_sent_as_text_and_differences_as_custom_events() -> None:
    events = encoded(*START, CALL_STARTED, ev.ToolArgsCompleted("c1", "send", {}))
    assert [event["delta"] for event in events if event["type"] == "TOOL_CALL_ARGS"] == ["{}"]
    assert customs(events) == []
    call = (CALL_STARTED, ev.ToolArgsDelta("c1", "add", '{}{"a": 1}'))
    events = encoded(*START, *call, ev.ToolArgsCompleted("c1", "add", {"a": 1}))
    assert customs(events) == [("argstream.arguments", {"toolCallId": "c1", "arguments": {"a": 1}})]
    running = ev.ToolExecutionStarted("c1", "send", "key")
    events = encoded(*START, *CALL, running, ev.ToolOutputDelta("c1", "send", "half"))
    assert customs(events) == [("argstream.tool_output", {"toolCallId": "c1", "delta": "half"})]


@pytest.mark.parametrize(
    ("end", "content", "metadata"),
    [
        (ev.ToolCallCompleted("c1", "send", {}, {"rows": [1]}), '{"rows":[1]}', None),
        (ev.ToolCallFailed("c1", "send", "no"), "no", {"argstream": {"failed": True}}),
    ],
)
def test_result_is_text_or_json_and_marks_failures(
    end: ev.Event, content: str, metadata: Data | None
) -> None:
    [result] = [event for event in encoded(*START, *CALL, end) if "content" in event]
    assert (result["content"], result.get("metadata")) == (content, metadata)


def test_call_without_result_gets_one_when_the_run_ends() -> None:
    search = (ev.ToolCallStarted("s1", 0, "f", "server"), ev.ToolArgsCompleted("s1", "f", {}))
    run = (*START, *search, ev.RunFailed("max_turns", "too many"))
    events = encoded(*run)
    assert kinds(events)[-3:] == ["TOOL_CALL_RESULT", "STEP_FINISHED", "RUN_ERROR"]
    assert replay(*run)[-2] == events[-3]


def test_lost_turn_is_void_and_its_ids_are_not_reused() -> None:
    lost = (ev.TextDelta("I s", 0), CALL_STARTED, ev.RunResumed("run_1", "crash"))
    events = encoded(*START, *lost, ev.TurnStarted(1, 2), ev.TextDelta("I send", 0), *CALL)
    started = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START"]
    assert started == ["c1", "c1~2"]
    [void] = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert void["toolCallId"] == "c1"
    assert customs(events) == [("argstream.turn_lost", {"messageIds": ["run_1-1", "run_1-2"]})]
    texts = {event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"}
    assert texts == {"run_1-1", "run_1-3"}
    late = (ev.ToolOutputDelta("c1", "send", "late"), ev.ToolCallFailed("c1", "send", "late"))
    assert "late" not in str(encoded(*START, *lost, ev.TurnStarted(1, 2), *late))


def test_id_that_looks_like_that_of_a_repeated_call_is_not_taken_for_it() -> None:
    other, again = ev.ToolCallStarted("c1~2", 1, "send"), ev.TurnStarted(1, 2)
    for calls in ((CALL_STARTED, other, again, CALL_STARTED), (CALL_STARTED, again, *CALL, other)):
        events = (*START, *calls)
        started = [e["toolCallId"] for e in encoded(*events) if e["type"] == "TOOL_CALL_START"]
        assert len(set(started)) == len(started) == 3
        messages = replay(*events)[1]["messages"]
        assert [call["id"] for one in messages for call in one.get("toolCalls", [])] == started


def test_pause_is_an_interrupt_with_the_exact_arguments() -> None:
    [interrupt] = encoded(*PAUSED)[-1]["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["toolCallId"]) == ("d1", "c1")
    assert interrupt["expiresAt"] == "1970-01-01T01:06:40+00:00"
    assert interrupt["metadata"]["argstream"]["arguments"] == {"to": "ada"}
    # Client 0.0.59 would be stuck on an interrupt that has expired.
    [older] = encoded(*PAUSED, version="0.0.59")[-1]["outcome"]["interrupts"]
    assert "expiresAt" not in older
    assert older["metadata"]["argstream"]["expiresAt"] == "1970-01-01T01:06:40+00:00"
    answer = interrupt["responseSchema"]
    assert answer["required"] == ["approved"]
    assert answer["properties"]["editedArgs"]["default"] == {"to": "ada"}


def test_decided_requests_are_no_interrupts_but_custom_events() -> None:
    other = ev.ApprovalRequested("c2", "send", {"to": "eve"}, "d2", "always asked")
    second = (ev.ToolCallStarted("c2", 1, "send"), ev.ToolArgsCompleted("c2", "send", {}))
    both = (*START, *CALL, *second, REQUEST, other, ev.RunPaused("run_1", (REQUEST, other)))
    approved = ev.ApprovalDecided("c1", "send", "approved")
    last = encoded(*both, RESUMED, approved, ev.RunPaused("run_1", (other,)))[-1]
    assert [each["id"] for each in last["outcome"]["interrupts"]] == ["d2"]
    edited = ev.ApprovalDecided("c1", "send", "edited", "", {"to": "grace"})
    name, value = customs(encoded(*PAUSED, RESUMED, edited))[-1]
    assert (name, value["editedArgs"]) == ("argstream.approval_decided", {"to": "grace"})


MEANWHILE = ev.TextDelta("Meanwhile", 5, "c8")
OBSERVED = (
    ev.RunStarted("run_1", "Go", mode="observed"),
    *(*CALL, REQUEST, ev.RunPaused("run_1", (REQUEST,), keeps_lease=True), MEANWHILE),
)


def test_observed_run_starts_its_next_stream_with_all_so_far() -> None:
    encoder = AgUiEncoder("thread", "ask", "1.0", b"[]")
    decided = ev.ApprovalDecided("c1", "send", "approved")
    done = ev.ToolCallCompleted("c1", "send", {"to": "ada"}, "sent")
    records = records_of([*OBSERVED, RESUMED, decided, done])
    first = encoder.encode(records[:6])
    assert first.ends
    assert read(first.data)[-1].data["outcome"]["type"] == "interrupt"
    assert encoder.encode(records[6:7]) == (b"", False)
    written = encoder.encode(records[7:])
    assert not written.ends
    second = decoded(written.data)
    assert kinds(second)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    contents = [message.get("content") for message in second[1]["messages"]]
    assert contents == ["Go", None, "Meanwhile"]
    assert "TEXT_MESSAGE_START" in kinds(second)  # the sub-agent may go on
    assert kinds(second)[-2:] == ["CUSTOM", "TOOL_CALL_RESULT"]


def test_observed_run_that_ends_while_it_is_paused_is_shown_completely() -> None:
    encoder = AgUiEncoder("thread", "ask", "1.0")
    stopped = (ev.ToolCallFailed("c1", "send", "given up"), ev.RunStopped("enough", "run_1"))
    records = records_of([*OBSERVED, *stopped])
    encoder.encode(records[:6])
    written = encoder.encode(records[6:])
    assert written.ends
    last = decoded(written.data)
    assert kinds(last)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert kinds(last)[2:] == ["CUSTOM", "TOOL_CALL_RESULT", "RUN_FINISHED"]
    assert last[3]["content"] == "given up"


def test_paused_run_that_is_stopped_ends_with_the_results_of_its_calls() -> None:
    encoder = AgUiEncoder("thread", "ask", "1.0")
    encoder.encode(records_of(PAUSED))
    stopped = (ev.ToolCallFailed("c1", "send", "given up"), ev.RunStopped("enough", "run_1"))
    written = encoder.encode(records_of(stopped, first=len(PAUSED) + 1)).data
    shown = ["MESSAGES_SNAPSHOT", "CUSTOM", "TOOL_CALL_RESULT"]
    ends = ["STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"]
    assert kinds(decoded(written)) == ["RUN_STARTED", *shown, *ends]


def test_opening_keeps_the_other_messages_of_the_client() -> None:
    known = [
        {"id": "u1", "role": "user", "content": "Before"},
        {"id": "run_0-1", "role": "assistant", "content": "Yes"},
        {"id": "u2", "role": "user", "content": "Go"},
        {"id": "run_1-1", "role": "assistant", "content": "He"},
    ]
    _, snapshot, *rest = replay(*START, ev.TextDelta("Hello", 0), known=known)
    assert [message["id"] for message in snapshot["messages"]] == ["u1", "run_0-1", "u2", "run_1-1"]
    assert snapshot["messages"][-1]["content"] == "Hello"
    assert kinds(rest) == ["STEP_STARTED", "TEXT_MESSAGE_START"]


@pytest.mark.parametrize("is_paused", [False, True])
def test_messages_of_the_client_are_released_when_its_stream_starts(*, is_paused: bool) -> None:
    known = msgspec.json.encode([{"id": f"u{number}"} for number in range(100)])
    before = sys.getrefcount(known)
    records = records_of(PAUSED if is_paused else (*START, HI))
    encoder = AgUiEncoder("thread", "ask", "1.0", known)
    encoder.begin(snapshot_of(records))
    if is_paused:
        encoder.encode(records_of([RESUMED], first=len(records) + 1))
    else:
        encoder.replay()
    assert sys.getrefcount(known) == before


def test_client_without_messages_gets_the_history_of_the_log() -> None:
    _, snapshot, *_ = replay(ev.RunStarted("run_1", "Go", HISTORY), HI)
    roles = [message["role"] for message in snapshot["messages"]]
    assert roles == ["user", "assistant", "user", "assistant"]
    assert "c2ln" not in str(snapshot)  # items of the provider stay on the server


BODY: Data = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": []}


def request(**fields: Any) -> RunAgentInput:
    return msgspec.json.decode(msgspec.json.encode(BODY | fields), type=RunAgentInput)


def answers(*entries: Data) -> Any:
    entry = {"interruptId": "d1", "status": "resolved"}
    return ag_ui.answers_of(request(resume=[entry | one for one in entries]).resume or [])


@pytest.mark.parametrize(
    ("fields", "version"),
    [({"protocolVersion": "1.0"}, "1.0"), ({"protocolVersion": "1.7"}, "1.0"), ({}, "0.0.59")],
)
def test_version_is_chosen_by_the_request(fields: Data, version: Version) -> None:
    assert ag_ui.version_of(request(**fields).protocol_version) == version


@pytest.mark.parametrize("name", ["threadId", "runId", "messages"])
def test_missing_field_is_named(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.convert({**BODY, name: None}, RunAgentInput)


def test_prompt_is_the_last_message_if_it_is_the_users() -> None:
    user, assistant = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Do it!"}
    assert ag_ui.prompt_of(request(messages=[assistant, user]).messages) == "Hi"
    assert ag_ui.prompt_of(request(messages=[user, assistant]).messages) is None
    assert ag_ui.prompt_of(request(messages=[]).messages) is None


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ([{"type": "image", "source": {}}], "type 'image': only text"),
        ([{"type": "text"}], "type 'text'"),
        (["Hi"], "only text"),
        (" ", "empty"),
        ([], "empty"),
        (7, "must be a text"),
        (None, "must be a text"),
    ],
)
def test_prompt_that_is_not_text_is_refused(content: Any, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        ag_ui.prompt_of(request(messages=[{"role": "user", "content": content}]).messages)


@pytest.mark.parametrize("read_messages", [ag_ui.prompt_of, ag_ui.known_of])
def test_message_must_be_an_object(read_messages: Callable[[Sequence[Any]], Any]) -> None:
    with pytest.raises(UsageError, match="each message must be an object"):
        read_messages(request(messages=[7]).messages)


def test_known_messages_are_one_line_of_json_and_at_most_1000() -> None:
    body = msgspec.json.encode({**BODY, "messages": [{"id": "1"}, {"id": "a\nb"}]})
    pretty = msgspec.json.decode(msgspec.json.format(body), type=RunAgentInput)
    assert ag_ui.known_of(pretty.messages) == b'[{"id":"1"},{"id":"a\\nb"}]'
    assert ag_ui.known_of(request(messages=[{}] * 1_000).messages) is not None
    assert ag_ui.known_of(request(messages=[{}] * 1_001).messages) is None


@pytest.mark.parametrize(
    ("payload", "decision"),
    [
        ({"approved": True}, Approve(digest="d1")),
        (
            {"approved": True, "editedArgs": {"to": "eve"}, "reason": "so"},
            Approve(arguments={"to": "eve"}, digest="d1", reason="so"),
        ),
        ({"approved": False, "reason": "no"}, Deny("no")),
        ({"approved": False, "reason": "x" * 10_000}, Deny("x" * 10_000)),
    ],
)
def test_answer_is_bound_to_the_digest(payload: Data, decision: Approve | Deny) -> None:
    assert answers({"payload": payload}).resolved == {"d1": decision}


@pytest.mark.parametrize(
    "payload", [None, True, {}, {"approved": "yes"}, {"approved": True, "edits": {}}, ["approved"]]
)
def test_malformed_answer_is_refused_with_the_expected_form(payload: Any) -> None:
    with pytest.raises(UsageError, match=r"interrupt d1 .*approved: true"):
        answers({"payload": payload})


def test_interrupt_is_cancelled_or_answered_once_with_a_short_reason() -> None:
    assert set(answers({"status": "cancelled", "payload": None}).cancelled) == {"d1"}
    with pytest.raises(UsageError, match="length <= 10000"):
        answers({"payload": {"approved": False, "reason": "x" * 10_001}})
    with pytest.raises(UsageError, match="twice"):
        answers({"payload": {"approved": True}}, {"status": "cancelled"})

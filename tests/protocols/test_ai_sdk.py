"""Events as parts of a UI message stream, and what is meant by what a client posts."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from argstream.errors import UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArgumentsError,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    TextDelta,
    ThinkingCompleted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnStarted,
    Usage,
)
from argstream.history import CallPart, Message, Part, ResultPart, TextPart
from argstream.protocols.ai_sdk import (
    AiSdkEncoder,
    Answer,
    Answered,
    ChatBody,
    Said,
    history_before,
    meant,
)
from argstream.protocols.encoding import Written
from tests.chance_runs import RUN
from tests.protocols.ai_sdk_client import Client
from tests.protocols.reading import records_of, snapshot_of

STARTED: list[Event] = [RunStarted(RUN, "Go"), TurnStarted(1)]
CALL = ToolCallStarted("c1", 0, "send")
WRITTEN: list[Event] = [CALL, ToolArgsDelta("c1", "send", '{"to": "ada"}')]
WHOLE: list[Event] = [*WRITTEN, ToolArgsCompleted("c1", "send", {"to": "ada"})]
REQUEST = ApprovalRequested("c1", "send", {"to": "ada"}, "digest", "send must be confirmed")
ASKED: list[Event] = [*WHOLE, REQUEST, RunPaused(RUN, (REQUEST,))]


def told(events: Sequence[Event]) -> list[Any]:
    """The parts that these events are told as, without the first and the step."""
    data = AiSdkEncoder(RUN).take(records_of([*STARTED, *events])).data.decode()
    lines = [line for line in data.split("\n") if line]
    parts = [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]
    assert [part["type"] for part in parts[:2]] == ["start", "start-step"]
    return parts[2:]


def types(events: Sequence[Event]) -> list[str]:
    return [part["type"] for part in told(events)]


def shown(events: Sequence[Event]) -> Any:
    """The one call of these events, as a client has it."""
    client = Client().read(AiSdkEncoder(RUN).take(records_of([*STARTED, *events])).data)
    [call] = [part for part in client.parts if part["type"] == "dynamic-tool"]
    return call


# Out


def test_a_call_is_seen_from_its_name_to_its_result() -> None:
    done: list[Event] = [
        ToolExecutionStarted("c1", "send", "key"),
        ToolCallCompleted("c1", "send", {}, "sent"),
    ]

    assert types([*WHOLE, *done[:1]]) == [
        "tool-input-start",
        "tool-input-delta",
        "tool-input-available",
    ]
    assert shown([*WHOLE, *done]) == {
        "type": "dynamic-tool",
        "toolCallId": "c1",
        "toolName": "send",
        "state": "output-available",
        "input": {},
        "output": "sent",
        "errorText": None,
    }


def test_a_pause_asks_and_ends_the_stream_so_that_the_client_can_answer() -> None:
    request, finish_step, finish = told(ASKED)[-3:]

    assert request["approvalId"] == "digest"
    assert request["reason"] == "send must be confirmed"
    assert finish_step == {"type": "finish-step"}
    assert finish["finishReason"] == "tool-calls"


def test_after_a_pause_a_new_stream_goes_on_in_the_same_message() -> None:
    encoder = AiSdkEncoder(RUN)
    before = encoder.take(records_of([*STARTED, *ASKED]))
    after = encoder.take(records_of([RunResumed(RUN), ApprovalDecided("c1", "send", "approved")]))

    assert before.ends
    assert not after.ends
    assert after.data.startswith(b'data: {"type":"start","messageId":"run_1"')


def test_who_sees_a_decision_of_somebody_else_is_asked_no_more() -> None:
    approved: list[Event] = [*ASKED, RunResumed(RUN), ApprovalDecided("c1", "send", "approved")]

    assert shown(approved)["state"] == "input-available"


def test_what_is_shown_is_what_runs_when_it_was_edited() -> None:
    edited = ApprovalDecided("c1", "send", "edited", "", {"to": "grace"})

    assert shown([*ASKED, RunResumed(RUN), edited])["input"] == {"to": "grace"}


# Runs that are only observed tell of no turns, and do not pause

OBSERVED: list[Event] = [RunStarted(RUN, "Go"), *WHOLE]
OTHER: list[Event] = [
    ToolCallStarted("c2", 1, "look"),
    ToolArgsCompleted("c2", "look", {"at": "it"}),
]


def states(client: Client) -> dict[str, str]:
    return {part["toolCallId"]: part["state"] for part in client.parts if "toolCallId" in part}


def test_an_observed_run_ends_its_stream_when_somebody_is_asked() -> None:
    written = AiSdkEncoder(RUN).take(records_of([*OBSERVED, *OTHER, REQUEST]))
    client = Client().read(written.data)

    assert written.ends
    assert client.ends[-1]["finishReason"] == "tool-calls"
    # The client sends an answer when all calls but those that are asked about have a result.
    assert states(client) == {"c1": "approval-requested", "c2": "output-available"}


def test_an_observed_run_goes_on_when_it_was_decided() -> None:
    encoder = AiSdkEncoder(RUN)
    client = Client().read(encoder.take(records_of([*OBSERVED, *OTHER, REQUEST])).data)
    meanwhile = encoder.take(records_of([ToolCallStarted("c3", 2, "look"), TextDelta("Hm", 9)]))
    client.read(encoder.take(records_of([ApprovalDecided("c1", "send", "approved")])).data)

    assert meanwhile == Written(b"")
    assert client.is_streaming
    assert states(client) == {
        "c1": "input-available",
        "c2": "input-available",
        "c3": "input-streaming",
    }


def test_one_of_two_decisions_does_not_end_the_stream_before_the_other() -> None:
    second = ApprovalRequested("c2", "look", {"at": "it"}, "other", "why")
    encoder = AiSdkEncoder(RUN)
    encoder.take(records_of([*OBSERVED, *OTHER, REQUEST, second]))

    assert not encoder.take(records_of([ApprovalDecided("c1", "send", "approved")])).ends
    assert not encoder.take(records_of([ApprovalDecided("c2", "look", "approved")])).ends


def test_who_joins_an_observed_run_that_waits_is_asked() -> None:
    encoder = AiSdkEncoder(RUN)
    waiting = snapshot_of(records_of([*OBSERVED, REQUEST]))
    encoder.begin(waiting)
    opening = encoder.opening(waiting)
    client = Client().read(opening.data)

    assert opening.ends
    assert states(client) == {"c1": "approval-requested"}
    client.read(encoder.take(records_of([ApprovalDecided("c1", "send", "denied")])).data)
    assert states(client) == {"c1": "output-denied"}


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("denied", "output-denied"), ("expired", "output-denied"), ("withdrawn", "output-error")],
)
def test_what_is_not_approved_is_over(outcome: Any, state: str) -> None:
    failed = ToolCallFailed("c1", "send", "the call was not run")

    assert shown([*ASKED, ApprovalDecided("c1", "send", outcome), failed])["state"] == state


def test_a_decision_is_told_to_who_wants_to_know_more() -> None:
    events: list[Event] = [*ASKED, ApprovalDecided("c1", "send", "denied", "not to her")]
    [decision] = [part for part in told(events) if part["type"].startswith("data-")]

    assert decision["type"] == "data-argstream-decision"
    assert decision["data"] == {"toolCallId": "c1", "decision": "denied", "reason": "not to her"}


def test_an_invalid_call_ends_with_what_was_written_of_it() -> None:
    error = ArgumentsError("schema", "'to' must be a string")
    invalid = ToolArgsInvalid("c1", "send", "rejected", '{"to": 7', error)
    events: list[Event] = [CALL, ToolArgsDelta("c1", "send", '{"to": 7'), invalid]
    failed = ToolCallFailed("c1", "send", "the call was not run")

    call = shown([*events, failed])
    assert call["state"] == "output-error"
    assert call["input"] == '{"to": 7'
    assert call["errorText"] == "rejected: 'to' must be a string"


def test_what_a_tool_says_while_it_runs_is_a_preliminary_output() -> None:
    running: list[Event] = [*WHOLE, ToolExecutionStarted("c1", "send", "key")]
    saying: list[Event] = [
        ToolOutputDelta("c1", "send", "one "),
        ToolOutputDelta("c1", "send", "two"),
    ]

    call = shown([*running, *saying])
    assert (call["output"], call["preliminary"]) == ("one two", True)
    assert "preliminary" not in shown([*running, *saying, ToolCallFailed("c1", "send", "no")])


def test_of_a_tool_that_says_much_the_end_is_shown_while_it_runs() -> None:
    pieces = [ToolOutputDelta("c1", "send", f"{number}\n") for number in range(5_000)]

    call = shown([*WHOLE, *pieces])
    assert call["output"].endswith("4998\n4999\n")
    assert len(call["output"]) == 4_000


def test_what_a_tool_says_waits_until_its_input_is_written() -> None:
    early: list[Event] = [*WRITTEN, ToolExecutionStarted("c1", "send", "key")]
    said = ToolOutputDelta("c1", "send", "begun")

    assert shown([*early, said])["state"] == "input-streaming"
    whole = shown([*early, said, ToolArgsCompleted("c1", "send", {"to": "ada"})])
    assert whole["output"] == "begun"


def test_free_text_is_not_read_as_json() -> None:
    events: list[Event] = [
        ToolCallStarted("c1", 0, "run", "code"),
        ToolArgsDelta("c1", "run", "print(1)"),
        ToolArgsCompleted("c1", "run", "print(1)"),
    ]
    start, _, available = told(events)

    assert start["inputEncoding"] == "text"
    assert start["providerExecuted"] is True
    assert available["input"] == "print(1)"


def test_a_name_that_comes_in_pieces_is_shown_whole() -> None:
    events: list[Event] = [ToolCallStarted("c1", 0, "se"), ToolArgsDelta("c1", "send", "{")]

    assert shown(events)["toolName"] == "send"
    assert shown(events)["input"] == "{"


def test_a_turn_that_begins_again_leaves_nothing_of_the_first_attempt_open() -> None:
    again: list[Event] = [
        TextDelta("I", 0),
        *WRITTEN,
        TurnStarted(1, 2),
        TextDelta("It", 0),
        *WRITTEN,
    ]
    client = Client().read(AiSdkEncoder(RUN).take(records_of([*STARTED, *again])).data)
    first, lost, mark, _, second = client.parts[1:]

    assert (first["text"], first["state"]) == ("I", "done")
    assert (lost["state"], lost["toolCallId"]) == ("output-error", "c1")
    assert mark == {"type": "data-argstream-lost", "data": {"turn": 1}}
    assert (second["state"], second["toolCallId"]) == ("input-streaming", "c1~2")


def test_thoughts_that_come_only_whole_are_shown() -> None:
    assert told([ThinkingCompleted("Hm.", 0)]) == [
        {"type": "reasoning-start", "id": "0"},
        {"type": "reasoning-delta", "id": "0", "delta": "Hm."},
        {"type": "reasoning-end", "id": "0"},
    ]


def test_a_sub_agent_says_for_which_call_it_works() -> None:
    start = told([*WHOLE, TextDelta("I look.", 1, "c1")])[3]

    assert start["type"] == "text-start"
    assert start["providerMetadata"] == {"argstream": {"parentToolCallId": "c1"}}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("MAX_TOKENS", "length"),
        ("refusal", "content-filter"),
        ("odd", "other"),
    ],
)
def test_why_the_model_stopped_is_said_in_words_that_clients_know(reason: str, finish: str) -> None:
    end = told([RunCompleted("", Usage(3, 4), reason, RUN)])[-1]

    assert end["finishReason"] == finish
    assert end["messageMetadata"]["usage"]["totalTokens"] == 7
    assert end["messageMetadata"]["stopReason"] == reason


@pytest.mark.parametrize(
    ("usage", "sent"),
    [
        (Usage(3), {"inputTokens": 3, "totalTokens": 3}),
        (
            Usage(3, 4, 0),
            {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7, "cachedInputTokens": 0},
        ),
        (Usage(), {}),
    ],
)
def test_unknown_token_counts_are_left_out(usage: Usage, sent: dict[str, int]) -> None:
    end = told([RunCompleted("", usage, "end_turn", RUN)])[-1]
    assert end["messageMetadata"]["usage"] == sent


@pytest.mark.parametrize(
    ("end", "part"),
    [
        (RunFailed("busy", "no model"), {"type": "error", "errorText": "no model (busy)"}),
        (RunStopped("enough"), {"type": "abort", "reason": "enough"}),
    ],
)
def test_a_call_that_is_open_at_the_end_ends_as_well(end: Event, part: Any) -> None:
    *_, error, finish_step, last = told([*WHOLE, end])

    assert error["type"] == "tool-output-error"
    assert finish_step["type"] == "finish-step"
    assert last == part


@pytest.mark.parametrize("why", ["shutdown", "behind", "failure"])
def test_who_is_sent_away_is_told_to_resume(why: Any) -> None:
    error, done, rest = AiSdkEncoder(RUN).parting(why).decode().split("\n\n")

    assert json.loads(error[6:])["type"] == "error"
    assert "resume the stream" in error
    assert (done, rest) == ("data: [DONE]", "")


@pytest.mark.parametrize("text", ["\r", "\n\n", "data: x", "\x00", "\x85", "\u2028", "\u2029"])
def test_nothing_that_is_said_ends_its_frame(text: str) -> None:
    [_, delta] = told([TextDelta(f"a{text}data: [DONE]{text}b", 0)])

    assert delta["delta"] == f"a{text}data: [DONE]{text}b"


@pytest.mark.parametrize(
    "value",
    [
        {"__proto__": 1},
        [{"a": [{"__proto__": {}}]}],
        {"constructor": {"prototype": {}}},
    ],
)
def test_what_the_clients_refuse_is_sent_as_text(value: Any) -> None:
    output = told([*WHOLE, ToolCallCompleted("c1", "send", {"to": "ada"}, value)])[-1]

    assert json.loads(output["output"]) == value


@pytest.mark.parametrize("value", [{"constructor": "Ford"}, "__proto__", {"a": "constructor"}])
def test_what_only_looks_like_it_stays_as_it_is(value: Any) -> None:
    output = told([*WHOLE, ToolCallCompleted("c1", "send", {"to": "ada"}, value)])[-1]

    assert output["output"] == value


def test_pieces_become_rarer_as_an_input_grows() -> None:
    encoder = AiSdkEncoder(RUN)
    intervals = [encoder.interval]
    encoder.take(records_of([*STARTED, CALL]))
    for _ in range(3):
        encoder.take(records_of([ToolArgsDelta("c1", "send", "x" * 300_000)]))
        intervals.append(encoder.interval)
    encoder.take(records_of([ToolArgsCompleted("c1", "send", {"to": "ada"})]))

    assert intervals == [0.05, 0.4, 0.8, 1.0]
    assert encoder.interval == 0.05


# In


def body(**fields: Any) -> ChatBody:
    return msgspec.convert({"id": "chat", **fields}, ChatBody)


def said(text: str, id: str = "") -> Any:  # noqa: A002 - what the client calls it
    return {"role": "user", "id": id, "parts": [{"type": "text", "text": text}]}


def call(state: str, **approval: Any) -> Any:
    part = {"type": "tool-send", "state": state, "input": {"to": "ada"}, "approval": approval}
    return {"role": "assistant", "parts": [{"type": "step-start"}, part]}


@pytest.mark.parametrize("chat_id", ["", "x" * 257])
def test_a_chat_has_an_id_that_is_not_long(chat_id: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.id"):
        body(id=chat_id)


def test_the_last_message_is_what_the_user_says() -> None:
    assert meant(body(messages=[said("one"), said("two")])) == Said("two", before=("one",))


def test_a_message_that_takes_the_place_of_another_is_said_again() -> None:
    again = [said("one"), said("two", "u2")]

    assert meant(body(messages=again, trigger="regenerate-message")) == Said("two", True, ("one",))
    assert meant(body(messages=again, messageId="u2")) == Said("two", True, ("one",))


def test_answers_are_those_of_the_last_message() -> None:
    old = call("approval-responded", id="old", approved=True)
    new = call("approval-responded", id="new", approved=False, reason="no")

    assert meant(body(messages=[old, new])) == Answered({"new": Answer(False, "no")})


def test_an_answer_may_bring_other_arguments() -> None:
    message = call("approval-responded", id="d", approved=True)

    wanted = meant(body(messages=[message], edits={"d": {"to": "eve"}}))
    assert wanted == Answered({"d": Answer(True, "", {"to": "eve"})})


def test_what_is_over_is_no_answer() -> None:
    with pytest.raises(UsageError, match="nothing new"):
        meant(body(messages=[call("output-available", id="d", approved=True)]))


def history(*texts: str) -> list[Message]:
    """A conversation in which each message of the user was answered with a call and its result."""
    messages: list[Message] = []
    for text in texts:
        called = CallPart(
            call_id=text, name="f", kind="function", arguments={}, raw="", verdict="complete"
        )
        result = ResultPart(call_id=text, result="done")
        for role, part in (("user", TextPart(text=text)), ("assistant", called), ("user", result)):
            parts: tuple[Part, ...] = (part,)
            messages.append(msgspec.convert({"role": role, "parts": ()}, Message))
            messages[-1] = msgspec.structs.replace(messages[-1], parts=parts)
    return messages


def test_what_is_said_again_comes_after_what_came_before_it() -> None:
    messages = history("one", "two", "three")

    assert history_before(messages, Said("x", True, ("one",))) == tuple(messages[:3])
    assert history_before(messages, Said("x", True, ())) == ()


def test_without_a_history_the_last_thing_is_said_again() -> None:
    messages = history("one", "two")

    assert history_before(messages, Said("x", True)) == tuple(messages[:3])
    assert history_before([], Said("x", True)) == ()


def test_what_was_not_kept_can_be_said_again() -> None:
    messages = history("one")

    assert history_before(messages, Said("refused", True, ("one",))) == tuple(messages)


@pytest.mark.parametrize("before", [("other",), ("one", "two", "three")])
def test_a_history_of_another_making_is_refused(before: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="not what the store has"):
        history_before(history("one", "two"), Said("x", True, before))

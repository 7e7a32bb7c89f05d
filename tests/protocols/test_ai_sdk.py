"""Events as parts of a UI message stream, and what is meant by what a client posts."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from argstream import events as ev
from argstream.errors import UsageError
from argstream.history import CallPart, Message, Part, ResultPart, TextPart
from argstream.protocols import Written
from argstream.protocols.ai_sdk import (
    AiSdkEncoder,
    Answer,
    Answered,
    ChatBody,
    Said,
    history_before,
    meant,
)
from tests.chance_runs import RUN
from tests.protocols.ai_sdk_client import Client
from tests.protocols.reading import records_of, snapshot_of

STARTED: list[ev.Event] = [ev.RunStarted(RUN, "Go"), ev.TurnStarted(1)]
CALL = ev.ToolCallStarted("c1", 0, "send")
WRITTEN: list[ev.Event] = [CALL, ev.ToolArgsDelta("c1", "send", '{"to": "ada"}')]
WHOLE: list[ev.Event] = [*WRITTEN, ev.ToolArgsCompleted("c1", "send", {"to": "ada"})]
REQUEST = ev.ApprovalRequested("c1", "send", {"to": "ada"}, "digest", "send must be confirmed")
ASKED: list[ev.Event] = [*WHOLE, REQUEST, ev.RunPaused(RUN, (REQUEST,))]


def told(events: Sequence[ev.Event]) -> list[Any]:
    """The parts that these events are told as, without the first and the step."""
    data = AiSdkEncoder(RUN).take(records_of([*STARTED, *events])).data.decode()
    lines = [line for line in data.split("\n") if line]
    parts = [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]
    assert [part["type"] for part in parts[:2]] == ["start", "start-step"]
    return parts[2:]


def types(events: Sequence[ev.Event]) -> list[str]:
    return [part["type"] for part in told(events)]


def shown(events: Sequence[ev.Event]) -> Any:
    """The one call of these events, as a client has it."""
    client = Client().read(AiSdkEncoder(RUN).take(records_of([*STARTED, *events])).data)
    [call] = [part for part in client.parts if part["type"] == "dynamic-tool"]
    return call


# Out


def test_a_call_is_seen_from_its_name_to_its_result() -> None:
    done: list[ev.Event] = [
        ev.ToolExecutionStarted("c1", "send", "key"),
        ev.ToolCallCompleted("c1", "send", {}, "sent"),
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


def test_who_sees_a_decision_of_somebody_else_is_asked_no_more() -> None:
    approved: list[ev.Event] = [
        *ASKED,
        ev.RunResumed(RUN),
        ev.ApprovalDecided("c1", "send", "approved"),
    ]

    assert shown(approved)["state"] == "input-available"


# Runs that are only observed tell of no turns, and do not pause

OBSERVED: list[ev.Event] = [ev.RunStarted(RUN, "Go"), *WHOLE]
OTHER: list[ev.Event] = [
    ev.ToolCallStarted("c2", 1, "look"),
    ev.ToolArgsCompleted("c2", "look", {"at": "it"}),
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
    meanwhile = encoder.take(
        records_of([ev.ToolCallStarted("c3", 2, "look"), ev.TextDelta("Hm", 9)])
    )
    client.read(encoder.take(records_of([ev.ApprovalDecided("c1", "send", "approved")])).data)

    assert meanwhile == Written(b"")
    assert client.is_streaming
    assert states(client) == {
        "c1": "input-available",
        "c2": "input-available",
        "c3": "input-streaming",
    }


def test_one_of_two_decisions_does_not_end_the_stream_before_the_other() -> None:
    second = ev.ApprovalRequested("c2", "look", {"at": "it"}, "other", "why")
    encoder = AiSdkEncoder(RUN)
    encoder.take(records_of([*OBSERVED, *OTHER, REQUEST, second]))

    assert not encoder.take(records_of([ev.ApprovalDecided("c1", "send", "approved")])).ends
    assert not encoder.take(records_of([ev.ApprovalDecided("c2", "look", "approved")])).ends


def test_who_joins_an_observed_run_that_waits_is_asked() -> None:
    encoder = AiSdkEncoder(RUN)
    waiting = snapshot_of(records_of([*OBSERVED, REQUEST]))
    encoder.begin(waiting)
    opening = encoder.opening(waiting)
    client = Client().read(opening.data)

    assert opening.ends
    assert states(client) == {"c1": "approval-requested"}
    client.read(encoder.take(records_of([ev.ApprovalDecided("c1", "send", "denied")])).data)
    assert states(client) == {"c1": "output-denied"}


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("denied", "output-denied"), ("expired", "output-denied"), ("withdrawn", "output-error")],
)
def test_what_is_not_approved_is_over(outcome: Any, state: str) -> None:
    failed = ev.ToolCallFailed("c1", "send", "the call was not run")

    assert shown([*ASKED, ev.ApprovalDecided("c1", "send", outcome), failed])["state"] == state


def test_a_decision_is_told_to_who_wants_to_know_more() -> None:
    events: list[ev.Event] = [*ASKED, ev.ApprovalDecided("c1", "send", "denied", "not to her")]
    [decision] = [part for part in told(events) if part["type"].startswith("data-")]

    assert decision["type"] == "data-argstream-decision"
    assert decision["data"] == {"toolCallId": "c1", "decision": "denied", "reason": "not to her"}


def test_what_a_tool_says_while_it_runs_is_a_preliminary_output() -> None:
    running: list[ev.Event] = [*WHOLE, ev.ToolExecutionStarted("c1", "send", "key")]
    saying: list[ev.Event] = [
        ev.ToolOutputDelta("c1", "send", "one "),
        ev.ToolOutputDelta("c1", "send", "two"),
    ]

    call = shown([*running, *saying])
    assert (call["output"], call["preliminary"]) == ("one two", True)
    assert "preliminary" not in shown([*running, *saying, ev.ToolCallFailed("c1", "send", "no")])


def test_of_a_tool_that_says_much_the_end_is_shown_while_it_runs() -> None:
    pieces = [ev.ToolOutputDelta("c1", "send", f"{number}\n") for number in range(5_000)]

    call = shown([*WHOLE, *pieces])
    assert call["output"].endswith("4998\n4999\n")
    assert len(call["output"]) == 4_000


def test_what_a_tool_says_waits_until_its_input_is_written() -> None:
    early: list[ev.Event] = [*WRITTEN, ev.ToolExecutionStarted("c1", "send", "key")]
    said = ev.ToolOutputDelta("c1", "send", "begun")

    assert shown([*early, said])["state"] == "input-streaming"
    whole = shown([*early, said, ev.ToolArgsCompleted("c1", "send", {"to": "ada"})])
    assert whole["output"] == "begun"


def test_free_text_is_not_read_as_json() -> None:
    events: list[ev.Event] = [
        ev.ToolCallStarted("c1", 0, "run", "code"),
        ev.ToolArgsDelta("c1", "run", "print(1)"),
        ev.ToolArgsCompleted("c1", "run", "print(1)"),
    ]
    start, _, available = told(events)

    assert start["inputEncoding"] == "text"
    assert start["providerExecuted"] is True
    assert available["input"] == "print(1)"


def test_a_name_that_comes_in_pieces_is_shown_whole() -> None:
    events: list[ev.Event] = [
        ev.ToolCallStarted("c1", 0, "se"),
        ev.ToolArgsDelta("c1", "send", "{"),
    ]

    assert shown(events)["toolName"] == "send"
    assert shown(events)["input"] == "{"


def test_a_turn_that_begins_again_leaves_nothing_of_the_first_attempt_open() -> None:
    again: list[ev.Event] = [
        ev.TextDelta("I", 0),
        *WRITTEN,
        ev.TurnStarted(1, 2),
        ev.TextDelta("It", 0),
        *WRITTEN,
    ]
    client = Client().read(AiSdkEncoder(RUN).take(records_of([*STARTED, *again])).data)
    first, lost, mark, _, second = client.parts[1:]

    assert (first["text"], first["state"]) == ("I", "done")
    assert (lost["state"], lost["toolCallId"]) == ("output-error", "c1")
    assert mark == {"type": "data-argstream-lost", "data": {"turn": 1}}
    assert (second["state"], second["toolCallId"]) == ("input-streaming", "c1~2")


def test_thoughts_that_come_only_whole_are_shown() -> None:
    assert told([ev.ThinkingCompleted("Hm.", 0)]) == [
        {"type": "reasoning-start", "id": "0"},
        {"type": "reasoning-delta", "id": "0", "delta": "Hm."},
        {"type": "reasoning-end", "id": "0"},
    ]


def test_a_sub_agent_says_for_which_call_it_works() -> None:
    start = told([*WHOLE, ev.TextDelta("I look.", 1, "c1")])[3]

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
    end = told([ev.RunCompleted("", ev.Usage(3, 4), reason, RUN)])[-1]

    assert end["finishReason"] == finish
    assert end["messageMetadata"]["usage"]["totalTokens"] == 7
    assert end["messageMetadata"]["stopReason"] == reason


@pytest.mark.parametrize(
    ("end", "part"),
    [
        (ev.RunFailed("busy", "no model"), {"type": "error", "errorText": "no model (busy)"}),
        (ev.RunStopped("enough"), {"type": "abort", "reason": "enough"}),
    ],
)
def test_a_call_that_is_open_at_the_end_ends_as_well(end: ev.Event, part: Any) -> None:
    *_, error, finish_step, last = told([*WHOLE, end])

    assert error["type"] == "tool-output-error"
    assert finish_step["type"] == "finish-step"
    assert last == part


@pytest.mark.parametrize(
    ("value", "is_refused"),
    [
        ({"__proto__": 1}, True),
        ([{"a": [{"__proto__": {}}]}], True),
        ({"constructor": {"prototype": {}}}, True),
        ({"constructor": "Ford"}, False),
        ("__proto__", False),
        ({"a": "constructor"}, False),
    ],
)
def test_what_the_clients_refuse_is_sent_as_text(value: Any, *, is_refused: bool) -> None:
    output = told([*WHOLE, ev.ToolCallCompleted("c1", "send", {"to": "ada"}, value)])[-1]["output"]

    assert (json.loads(output) if is_refused else output) == value


def test_pieces_become_rarer_as_an_input_grows() -> None:
    encoder = AiSdkEncoder(RUN)
    intervals = [encoder.interval]
    encoder.take(records_of([*STARTED, CALL]))
    for _ in range(3):
        encoder.take(records_of([ev.ToolArgsDelta("c1", "send", "x" * 300_000)]))
        intervals.append(encoder.interval)
    encoder.take(records_of([ev.ToolArgsCompleted("c1", "send", {"to": "ada"})]))

    assert intervals == [0.05, 0.4, 0.8, 1.0]
    assert encoder.interval == 0.05


# In


def body(**fields: Any) -> ChatBody:
    return msgspec.convert({"id": "chat", **fields}, ChatBody)


def said(text: str, id: str = "") -> Any:
    return {"role": "user", "id": id, "parts": [{"type": "text", "text": text}]}


def call(state: str, **approval: Any) -> Any:
    part = {"type": "tool-send", "state": state, "input": {"to": "ada"}, "approval": approval}
    return {"role": "assistant", "parts": [{"type": "step-start"}, part]}


AGAIN = [said("one"), said("two", "u2")]
RESPONDED = call("approval-responded", id="new", approved=False, reason="no")


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"messages": [said("one"), said("two")]}, Said("two", before=("one",))),
        # A message that takes the place of another is said again.
        ({"messages": AGAIN, "trigger": "regenerate-message"}, Said("two", True, ("one",))),
        ({"messages": AGAIN, "messageId": "u2"}, Said("two", True, ("one",))),
        # Answers are those of the last message.
        (
            {"messages": [call("approval-responded", id="old", approved=True), RESPONDED]},
            Answered({"new": Answer(False, "no")}),
        ),
        (
            {"messages": [RESPONDED], "edits": {"new": {"to": "eve"}}},
            Answered({"new": Answer(False, "no", {"to": "eve"})}),
        ),
    ],
)
def test_what_a_client_means(fields: dict[str, Any], wanted: Said | Answered) -> None:
    assert meant(body(**fields)) == wanted


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


@pytest.mark.parametrize(
    ("before", "kept"),
    [((), 0), (("one",), 3), (None, 6), (("one", "two", "three"), 9)],  # the last was not kept
)
def test_what_is_said_again_comes_after_what_came_before_it(
    before: tuple[str, ...] | None, kept: int
) -> None:
    messages = history("one", "two", "three")

    assert history_before(messages, Said("x", True, before)) == tuple(messages[:kept])
    assert history_before([], Said("x", True)) == ()


@pytest.mark.parametrize("before", [("other",), ("one", "two", "three")])
def test_a_history_of_another_making_is_refused(before: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="not what the store has"):
        history_before(history("one", "two"), Said("x", True, before))

"""AI SDK: events as parts of a UI message stream, and how the body of a request is read."""

import json
from typing import Any

import msgspec
import pytest

from argstream import Approve, Deny
from argstream import events as ev
from argstream.errors import UsageError
from argstream.history import CallPart, Message, ResultPart, TextPart
from argstream.protocols import Written, ai_sdk
from argstream.protocols.ai_sdk import AiSdkEncoder, Answered, Said, history_before, meant
from tests.chance_runs import RUN
from tests.protocols.ai_sdk_client import Client
from tests.protocols.reading import read, records_of, snapshot_of

STARTED = (ev.RunStarted(RUN, "Go"), ev.TurnStarted(1))
CALL = ev.ToolCallStarted("c1", 0, "send")
WRITTEN = (CALL, ev.ToolArgsDelta("c1", "send", '{"to": "ada"}'))
WHOLE = (*WRITTEN, ev.ToolArgsCompleted("c1", "send", {"to": "ada"}))
REQUEST = ev.ApprovalRequested("c1", "send", {"to": "ada"}, "digest", "send must be confirmed")
PAUSED = (*WHOLE, REQUEST, ev.RunPaused(RUN, (REQUEST,)))
APPROVED = ev.ApprovalDecided("c1", "send", "approved")
DONE = b"data: [DONE]\n\n"
EXECUTING = ev.ToolExecutionStarted("c1", "send", "key")


def encode(encoder: AiSdkEncoder, *events: ev.Event) -> Written:
    return encoder.encode(records_of(events, first=encoder.state.seq + 1))


def encoded(*events: ev.Event) -> list[Any]:
    """The parts of these events, without the start of the message and of the step."""
    data = encode(AiSdkEncoder(RUN), *STARTED, *events).data.decode()
    lines = [line for line in data.split("\n") if line]
    parts = [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]
    assert [part["type"] for part in parts[:2]] == ["start", "start-step"]
    return parts[2:]


def shown(*events: ev.Event) -> Any:
    client = Client().read(encode(AiSdkEncoder(RUN), *STARTED, *events).data)
    [call] = [part for part in client.parts if part["type"] == "dynamic-tool"]
    return call


def test_call_from_its_name_to_its_result() -> None:
    call = shown(ev.ToolCallStarted("c1", 0, "se"), ev.ToolArgsDelta("c1", "send", "{"))
    assert (call["toolName"], call["input"]) == ("send", "{")  # the name came in pieces
    kinds = [part["type"] for part in encoded(*WHOLE, EXECUTING)]
    assert kinds == ["tool-input-start", "tool-input-delta", "tool-input-available"]
    assert shown(*WHOLE, EXECUTING, ev.ToolCallCompleted("c1", "send", {}, "sent")) == {
        "type": "dynamic-tool",
        "toolCallId": "c1",
        "toolName": "send",
        "state": "output-available",
        "input": {},
        "output": "sent",
        "errorText": None,
    }


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("denied", "output-denied"), ("expired", "output-denied"), ("withdrawn", "output-error")],
)
def test_call_that_was_not_approved_is_over(outcome: Any, state: str) -> None:
    failed = ev.ToolCallFailed("c1", "send", "the call was not run")
    decided = (ev.RunResumed(RUN), ev.ApprovalDecided("c1", "send", outcome), failed)
    assert shown(*PAUSED, *decided)["state"] == state


def test_output_of_a_running_tool_is_preliminary_and_bounded() -> None:
    output = [ev.ToolOutputDelta("c1", "send", text) for text in ("one ", "two")]
    call = shown(*WHOLE, EXECUTING, *output)
    assert (call["output"], call["preliminary"]) == ("one two", True)
    failed = shown(*WHOLE, EXECUTING, *output, ev.ToolCallFailed("c1", "send", "no"))
    assert "preliminary" not in failed
    long = [ev.ToolOutputDelta("c1", "send", f"{number}\n") for number in range(5_000)]
    call = shown(*WHOLE, *long)
    assert call["output"].endswith("4998\n4999\n")
    assert len(call["output"]) == 4_000
    early: list[ev.Event] = [*WRITTEN, EXECUTING, *output]
    assert shown(*early)["state"] == "input-streaming"
    assert shown(*early, WHOLE[-1])["output"] == "one two"  # held back until the input is complete


def test_decision_is_sent_as_data_part() -> None:
    assert shown(*PAUSED, ev.RunResumed(RUN), APPROVED)["state"] == "input-available"
    denied = ev.ApprovalDecided("c1", "send", "denied", "not to her")
    parts = encoded(*PAUSED, ev.RunResumed(RUN), denied)
    [decision] = [part for part in parts if part["type"].startswith("data-")]
    assert decision["type"] == "data-argstream-decision"
    assert decision["data"] == {"toolCallId": "c1", "decision": "denied", "reason": "not to her"}


def test_free_text_input_is_not_parsed_as_json() -> None:
    start, _, available = encoded(
        ev.ToolCallStarted("c1", 0, "run", "code"),
        ev.ToolArgsDelta("c1", "run", "print(1)"),
        ev.ToolArgsCompleted("c1", "run", "print(1)"),
    )
    assert (start["inputEncoding"], start["providerExecuted"]) == ("text", True)
    assert available["input"] == "print(1)"


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
def test_keys_that_clients_refuse_are_sent_as_text(value: Any, *, is_refused: bool) -> None:
    done = ev.ToolCallCompleted("c1", "send", {"to": "ada"}, value)
    output = encoded(*WHOLE, done)[-1]["output"]
    assert (json.loads(output) if is_refused else output) == value


def test_retried_turn_closes_what_the_first_attempt_left_open() -> None:
    first_attempt = (ev.TextDelta("I", 0), *WRITTEN)
    second_attempt = (ev.TurnStarted(1, 2), ev.TextDelta("It", 0), *WRITTEN)
    data = encode(AiSdkEncoder(RUN), *STARTED, *first_attempt, *second_attempt).data
    first, lost, mark, _, second = Client().read(data).parts[1:]
    assert (first["text"], first["state"]) == ("I", "done")
    assert (lost["state"], lost["toolCallId"]) == ("output-error", "c1")
    assert mark == {"type": "data-argstream-lost", "data": {"turn": 1}}
    assert (second["state"], second["toolCallId"]) == ("input-streaming", "c1~2")


def test_thinking_without_deltas_and_text_of_sub_agents() -> None:
    assert encoded(ev.ThinkingCompleted("Hm.", 0)) == [
        {"type": "reasoning-start", "id": "/0"},
        {"type": "reasoning-delta", "id": "/0", "delta": "Hm."},
        {"type": "reasoning-end", "id": "/0"},
    ]
    start = encoded(*WHOLE, ev.TextDelta("I look.", 1, "c1"))[3]
    assert start["type"] == "text-start"
    assert start["providerMetadata"] == {"argstream": {"parentToolCallId": "c1"}}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("end_turn", "stop"), ("MAX_TOKENS", "length"), ("refusal", "content-filter"), ("x", "other")],
)
def test_finish_reason_and_usage(reason: str, finish: str) -> None:
    end = encoded(ev.RunCompleted("", ev.Usage(3, 4), reason, RUN))[-1]
    assert end["finishReason"] == finish
    assert end["messageMetadata"]["usage"]["totalTokens"] == 7
    assert end["messageMetadata"]["stopReason"] == reason


def test_interval_grows_with_the_length_of_the_input() -> None:
    encoder = AiSdkEncoder(RUN)
    intervals = [encoder.interval]
    encode(encoder, *STARTED, CALL)
    for _ in range(3):
        encode(encoder, ev.ToolArgsDelta("c1", "send", "x" * 300_000))
        intervals.append(encoder.interval)
    encode(encoder, WHOLE[-1])
    assert [*intervals, encoder.interval] == [0.045, 0.4, 0.8, 1.0, 0.045]


# Observed runs go on while they are paused

OBSERVED = (ev.RunStarted(RUN, "Go", mode="observed"), *WHOLE)
OTHER = (ev.ToolCallStarted("c2", 1, "look"), ev.ToolArgsCompleted("c2", "look", {"at": "it"}))
SECOND = ev.ApprovalRequested("c2", "look", {"at": "it"}, "other", "why")
RESUMED = ev.RunResumed(RUN)
LOOKED = ev.ToolCallCompleted("c2", "look", {"at": "it"}, "seen")
MEANWHILE = (ev.ToolCallStarted("c3", 2, "look", parent_id="c1"), ev.TextDelta("Hm", 9, "c1"))


def paused(*requests: ev.ApprovalRequested) -> ev.RunPaused:
    return ev.RunPaused(RUN, requests, keeps_lease=True)


def states(client: Client) -> dict[str, str]:
    return {part["toolCallId"]: part["state"] for part in client.parts if "toolCallId" in part}


def texts(client: Client) -> list[str]:
    return [part["text"] for part in client.parts if part["type"] == "text"]


def joined_late(encoder: AiSdkEncoder) -> Client:
    return Client().read(encoder.replay().data)


def test_paused_run_ends_its_stream_so_that_a_client_can_answer() -> None:
    encoder = AiSdkEncoder(RUN)
    written = encode(encoder, *OBSERVED, *OTHER, REQUEST, paused(REQUEST))
    client = Client().read(written.data)
    assert written.ends
    assert client.ends[-1]["finishReason"] == "tool-calls"
    # The client sends an answer once all calls without a request have a result.
    assert states(client) == {"c1": "approval-requested", "c2": "output-available"}
    assert encode(encoder, *MEANWHILE) == Written(b"")
    client.read(encode(encoder, RESUMED, APPROVED).data)
    assert client.is_streaming
    open_calls = ["input-available", "input-available", "input-streaming"]
    assert [*states(client).values()] == open_calls


@pytest.mark.parametrize("is_new_encoder", [False, True])
def test_request_is_not_repeated_after_its_decision(*, is_new_encoder: bool) -> None:
    encoder = AiSdkEncoder(RUN)
    encode(encoder, *STARTED, *PAUSED)
    if is_new_encoder:
        encoder = AiSdkEncoder(RUN)
        encoder.begin(snapshot_of(records_of([*STARTED, *PAUSED])))
    written = encode(encoder, RESUMED, APPROVED, ev.RunPaused(RUN, ()))
    kinds = [event.data["type"] for event in read(written.data.removesuffix(DONE))]
    assert kinds == [
        *("start", "data-argstream-decision", "tool-input-available"),
        *("tool-output-available", "finish-step", "finish"),  # it is not pending any more
    ]


@pytest.mark.parametrize("is_new_encoder", [False, True])
def test_next_stream_contains_what_happened_during_the_pause(*, is_new_encoder: bool) -> None:
    encoder = AiSdkEncoder(RUN)
    first = encode(encoder, *OBSERVED, *OTHER, REQUEST, paused(REQUEST))
    assert encode(encoder, *MEANWHILE, LOOKED) == Written(b"")
    if is_new_encoder:  # that of the first stream was dropped with its last viewer
        encoder = AiSdkEncoder(RUN)
        seen = (*OBSERVED, *OTHER, REQUEST, paused(REQUEST), *MEANWHILE, LOOKED)
        encoder.begin(snapshot_of(records_of(seen)))
    clients = [Client().read(first.data), joined_late(encoder)]
    assert [texts(client) for client in clients] == [[], []]
    second = encode(encoder, RESUMED, APPROVED, ev.TextDelta("!", 9, "c1"))
    for client in clients:
        client.read(second.data)
        assert texts(client) == ["Hm!"]
        assert [*states(client).values()] == [
            *("input-available", "output-available", "input-streaming")
        ]
        assert client.parts[2]["output"] == "seen"
    assert texts(joined_late(encoder)) == ["Hm!"]


def test_text_that_grows_during_a_pause_is_continued_in_another_part() -> None:
    encoder = AiSdkEncoder(RUN)
    said = (ev.TextDelta("I lo", 0, "c1"), REQUEST, paused(REQUEST))
    client = Client().read(encode(encoder, *OBSERVED, *said).data)
    encode(encoder, ev.TextDelta("ok", 0, "c1"))
    assert texts(joined_late(encoder)) == texts(client) == ["I lo"]
    client.read(encode(encoder, RESUMED, APPROVED, ev.TextDelta("!", 0, "c1")).data)
    assert texts(client) == ["I lo", "ok!"]


def test_one_of_two_decisions_ends_the_next_stream_again() -> None:
    encoder = AiSdkEncoder(RUN)
    written = encode(encoder, *OBSERVED, *OTHER, REQUEST, paused(REQUEST))
    client = Client().read(written.data)
    # The second request comes while the client has no stream.
    assert encode(encoder, SECOND, paused(REQUEST, SECOND)) == Written(b"")
    written = encode(encoder, RESUMED, APPROVED, paused(SECOND))
    assert written.ends
    client.read(written.data)
    assert states(client) == {"c1": "output-available", "c2": "approval-requested"}
    denied = ev.ApprovalDecided("c2", "look", "denied")
    client.read(encode(encoder, RESUMED, denied).data)
    assert states(client) == {"c1": "input-available", "c2": "output-denied"}


def test_run_that_ends_during_a_pause_is_shown_completely() -> None:
    encoder = AiSdkEncoder(RUN)
    client = Client().read(encode(encoder, *OBSERVED, REQUEST, paused(REQUEST)).data)
    written = encode(encoder, *MEANWHILE, ev.RunStopped("enough", RUN))
    client.read(written.data)
    assert written.ends
    assert client.ends[-1] == {"type": "abort", "reason": "enough"}
    assert states(client) == {"c1": "output-error", "c3": "output-error"}
    assert texts(client) == texts(joined_late(encoder)) == ["Hm"]


def user(text: str, id: str = "") -> Any:
    return {"role": "user", "id": id, "parts": [{"type": "text", "text": text}]}


def responded(id: str, **approval: Any) -> Any:
    part = {"type": "tool-send", "state": "approval-responded", "approval": {"id": id, **approval}}
    return {"role": "assistant", "parts": [{"type": "step-start"}, {**part, "input": {}}]}


AGAIN = [user("one"), user("two", "u2")]
ACCEPTED = responded("new", approved=True)
DENIED = responded("new", approved=False, reason="no")


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"messages": [user("one"), user("two")]}, Said("two", before=("one",))),
        # A message that replaces another is said again.
        ({"messages": AGAIN, "trigger": "regenerate-message"}, Said("two", True, ("one",))),
        ({"messages": AGAIN, "messageId": "u2"}, Said("two", True, ("one",))),
        # Only the answers of the last message count.
        (
            {"messages": [responded("old", approved=True), DENIED]},
            Answered({"new": Deny("no")}),
        ),
        (
            {"messages": [ACCEPTED], "edits": {"new": {"to": "eve"}}},
            Answered({"new": Approve(arguments={"to": "eve"}, digest="new")}),
        ),
    ],
)
def test_request_is_a_message_or_an_answer(fields: dict[str, Any], wanted: Said | Answered) -> None:
    assert meant(msgspec.convert({"id": "chat", **fields}, ai_sdk.ChatBody)) == wanted


def test_edit_of_a_denied_call_is_refused() -> None:
    body = {"id": "chat", "messages": [DENIED], "edits": {"new": {"to": "eve"}}}
    with pytest.raises(UsageError, match="arguments for the denied request"):
        meant(msgspec.convert(body, ai_sdk.ChatBody))


def history(*texts: str) -> list[Message]:
    """A conversation in which each message of the user was followed by a call and its result."""
    messages: list[Message] = []
    fields: Any = {"kind": "function", "arguments": {}, "raw": "", "verdict": "complete"}
    for text in texts:
        call = CallPart(call_id=text, name="f", **fields)
        messages.append(Message(role="user", parts=(TextPart(text=text),)))
        messages.append(Message(role="assistant", parts=(call,)))
        messages.append(Message(role="user", parts=(ResultPart(call_id=text, result="done"),)))
    return messages


@pytest.mark.parametrize(
    ("before", "kept"),
    [((), 0), (("one",), 3), (None, 6), (("one", "two", "three"), 9)],  # the last was not kept
)
def test_regenerated_message_keeps_its_history(before: tuple[str, ...] | None, kept: int) -> None:
    messages = history("one", "two", "three")
    assert history_before(messages, Said("x", True, before)) == tuple(messages[:kept])
    assert history_before([], Said("x", True)) == ()


@pytest.mark.parametrize("before", [("other",), ("one", "two", "three")])
def test_history_that_differs_from_the_store_is_refused(before: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="not those that the store has"):
        history_before(history("one", "two"), Said("x", True, before))

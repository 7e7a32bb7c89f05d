"""A conversation as the messages of a chat: which runs are told, each as its stream tells it."""

import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from argstream import events as ev
from argstream.history import CallPart, Message, ResultPart, TextPart, ThinkingPart
from argstream.protocols.ai_sdk import AiSdkEncoder, ChatHistory
from argstream.runs import Record, RunView
from tests.chance_runs import RUN, logged_runs
from tests.protocols.reading import records_of, snapshot_of
from tests.server.nodes import run_node

Ui = dict[str, Any]


def shown(*runs: ev.RunSnapshot) -> list[Ui]:
    """The messages of these runs, the newest of which comes first."""
    history = ChatHistory()
    for run in runs:
        history.add(run)
    messages: list[Ui] = msgspec.json.decode(msgspec.json.encode(history.messages()))
    return messages


def run(
    run_id: str, prompt: str, answer: str = "", history: tuple[Message, ...] = ()
) -> ev.RunSnapshot:
    started = ev.RunStarted(run_id, prompt, history)
    return seen(
        started, ev.TurnStarted(1), ev.TextDelta(answer or run_id, 0), ev.RunCompleted(None)
    )


def seen(*events: ev.Event) -> ev.RunSnapshot:
    view = RunView()
    for event in events:
        view.take(event)
    return view.snapshot()


def said(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text=text),))


def answered(*parts: Any) -> Message:
    return Message(role="assistant", parts=parts)


def texts(messages: list[Ui]) -> list[tuple[str, str]]:
    return [
        (message["id"], "".join(part.get("text", "") for part in message["parts"]))
        for message in messages
    ]


def results(*parts: ResultPart) -> Message:
    return Message(role="user", parts=parts)


HELLO = (said("Hello"), answered(TextPart(text="a")))


# Which runs


def test_a_run_is_two_messages_the_answer_under_its_id() -> None:
    user, answer = shown(run("a", "Hello", "Hi"))

    assert user == {
        "id": "a-prompt",
        "role": "user",
        "parts": [{"type": "text", "text": "Hello"}],
    }
    assert (answer["id"], answer["role"]) == ("a", "assistant")
    assert answer["metadata"]["runId"] == "a"
    assert answer["parts"] == [
        {"type": "step-start"},
        {"type": "text", "text": "Hi", "state": "done"},
    ]


def test_runs_are_told_in_the_order_in_which_they_were() -> None:
    messages = shown(run("b", "More", history=HELLO), run("a", "Hello"))

    assert [message["id"] for message in messages] == ["a-prompt", "a", "b-prompt", "b"]


def test_a_run_whose_place_was_taken_is_not_told() -> None:
    newest = run("d", "More", history=(said("Hullo"), answered(TextPart(text="c"))))

    messages = shown(newest, run("c", "Hullo"), run("b", "More", history=HELLO), run("a", "Hello"))

    assert [message["id"] for message in messages] == ["c-prompt", "c", "d-prompt", "d"]


def test_of_a_run_that_was_asked_for_again_the_later_answer_is_told() -> None:
    messages = shown(run("c", "More", history=HELLO), run("b", "Hello"), run("a", "Hello"))

    assert texts(messages)[1] == ("b", "b")
    assert len(messages) == 4


def test_all_is_told_when_nothing_was_said_before_a_run() -> None:
    history = ChatHistory()
    assert not history.is_whole
    history.add(run("b", "More", history=HELLO))
    assert not history.is_whole
    history.add(run("a", "Hello"))
    assert history.is_whole


def test_runs_that_are_only_observed_tell_of_no_history_and_all_belong() -> None:
    observed = [
        seen(ev.RunStarted(name, name), ev.TextDelta("Yes.", 0), ev.RunCompleted(None))
        for name in "ba"
    ]

    assert [one for one, _ in texts(shown(*observed))] == ["a-prompt", "a", "b-prompt", "b"]


def test_an_answer_of_which_nothing_has_come_is_no_message() -> None:
    assert [message["role"] for message in shown(seen(ev.RunStarted("a", "Hello")))] == ["user"]


# What was said before the oldest run that is there


def test_runs_that_are_gone_are_told_by_the_history_of_the_next() -> None:
    messages = shown(run("b", "More", history=(*HELLO, said("Again"))))

    assert texts(messages) == [
        ("message-0", "Hello"),
        ("message-1", "a"),
        ("message-2", "Again"),
        ("b-prompt", "More"),
        ("b", "b"),
    ]


def test_an_earlier_answer_is_one_message_with_its_steps_and_calls() -> None:
    def call(call_id: str, **more: Any) -> CallPart:
        fields = {"name": "send", "kind": "function", "arguments": {"to": "ada"}, "raw": "{"}
        return CallPart(**{"call_id": call_id, "verdict": "complete", **fields, **more})

    history = (
        said("Send"),
        answered(ThinkingPart(text="Hm."), ThinkingPart(text="", item={}), call("c1"), call("c2")),
        results(
            ResultPart(call_id="c1", result={"sent": True}),
            ResultPart(call_id="c2", result="no such address", failed=True),
        ),
        answered(call("c3", verdict="rejected", arguments={"INVALID_JSON": "{"})),
        results(ResultPart(call_id="c3", result="not like this", failed=True)),
        answered(TextPart(text="Done.")),
    )

    _, answer, *_ = shown(run("b", "More", history=history))

    tool = {"type": "dynamic-tool", "toolName": "send", "input": {"to": "ada"}}
    assert answer == {
        "id": "message-1",
        "role": "assistant",
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "id": "0", "text": "Hm.", "state": "done"},
            tool | {"toolCallId": "c1", "state": "output-available", "output": {"sent": True}},
            tool | {"toolCallId": "c2", "state": "output-error", "errorText": "no such address"},
            {"type": "step-start"},
            tool
            | {
                "toolCallId": "c3",
                "state": "output-error",
                "input": "{",
                "errorText": "rejected: not like this",
            },
            {"type": "step-start"},
            {"type": "text", "text": "Done.", "state": "done"},
        ],
    }


# Each run as the published clients have it


def test_the_clients_make_the_same_message_of_the_stream(tmp_path: Path) -> None:
    drawn: list[Record] = []

    @settings(database=None)
    @given(logged_runs(), st.integers(1, 100))
    def draw(events: list[ev.Event], cut: int) -> None:
        records = records_of(events)
        drawn.append(snapshot_of(records[: 1 + cut * (len(records) - 1) // 100]))

    draw()
    folded = asked_of(tmp_path, "ai_sdk_fold.mjs", [[_stream(record)] for record in drawn])
    snapshots = [record.event for record in drawn]
    chats = [shown(event) for event in snapshots if isinstance(event, ev.RunSnapshot)]
    checked = asked_of(tmp_path, "ai_sdk_valid.mjs", chats)

    for messages, ours in zip(folded, checked, strict=True):
        assert ours["faults"] == []
        for message, chat in zip(messages, ours["chats"], strict=True):
            parts = chat[-1]["parts"] if chat[-1]["role"] == "assistant" else []
            assert _comparable(parts) == _comparable(message["parts"])


def asked_of(folder: Path, script: str, what: Any) -> list[Any]:
    """What both versions say."""
    file = folder / "asked.json"
    file.write_text(json.dumps(what))
    return run_node(script, str(file))


def _stream(snapshot: Record) -> str:
    encoder = AiSdkEncoder(RUN)
    encoder.begin(snapshot)
    return encoder.opening(snapshot).data.decode()


def _comparable(parts: list[Ui]) -> list[Ui]:
    """Parts without what is told otherwise: approvals, and what JSON in the midst of a word is.

    The clients show that a step has begun when something comes in it.
    """
    while parts[-1:] == [{"type": "step-start"}]:
        parts = parts[:-1]
    return [
        {name: value for name, value in part.items() if name not in _left_out(part)}
        for part in parts
    ]


def _left_out(part: Ui) -> tuple[str, ...]:
    may_be_cut_off = part.get("state") in ("input-streaming", "output-error")
    return ("approval", "input") if may_be_cut_off else ("approval",)


def test_a_call_is_shown_with_the_input_as_far_as_it_has_come() -> None:
    begun: list[ev.Event] = [
        ev.RunStarted("a", "Go"),
        ev.TurnStarted(1),
        ev.ToolCallStarted("c1", 0, "write"),
    ]
    _, nothing = shown(seen(*begun))
    _, something = shown(seen(*begun, ev.ToolArgsDelta("c1", "write", '{"path": "no')))

    assert nothing["parts"][1]["state"] == something["parts"][1]["state"] == "input-streaming"
    assert "input" not in nothing["parts"][1]
    assert something["parts"][1]["input"] == {"path": "no"}

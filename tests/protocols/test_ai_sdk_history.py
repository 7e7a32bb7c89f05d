"""A conversation as the messages of a chat: which runs are included, and their content."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from argstream import events as ev
from argstream.history import CallPart, Message, ResultPart, TextPart, ThinkingPart
from argstream.protocols.ai_sdk import AiSdkEncoder, ChatHistory
from argstream.runs import RunState
from tests.chance_runs import RUN, logged_runs
from tests.protocols.reading import records_of, snapshot_of
from tests.server.nodes import examples_of, run_node_on

Ui = dict[str, Any]


def messages_of(*runs: ev.RunSnapshot) -> list[Ui]:
    """The messages of these runs. The newest run comes first."""
    history = ChatHistory()
    for run in runs:
        history.add(run)
    messages: list[Ui] = msgspec.json.decode(msgspec.json.encode(history.messages()))
    return messages


def snapshot(*events: ev.Event) -> ev.RunSnapshot:
    state = RunState()
    for event in events:
        state.apply(event)
    return state.snapshot()


def run(
    run_id: str, prompt: str, *history: Message, answer: str = "", is_observed: bool = False
) -> ev.RunSnapshot:
    turn = [] if is_observed else [ev.TurnStarted(1)]
    mode: Any = "observed" if is_observed else "agent"
    started = ev.RunStarted(run_id, prompt, history, mode=mode)
    text = ev.TextDelta(answer or run_id, 0)
    return snapshot(started, *turn, text, ev.RunCompleted(None))


def user(*parts: Any) -> Message:
    return Message(role="user", parts=parts)


def assistant(*parts: Any) -> Message:
    return Message(role="assistant", parts=parts)


def ids(*runs: ev.RunSnapshot) -> list[str]:
    return [message["id"] for message in messages_of(*runs)]


HELLO = (user(TextPart(text="Hello")), assistant(TextPart(text="a")))
HULLO = (user(TextPart(text="Hullo")), assistant(TextPart(text="c")))


def test_run_is_a_prompt_and_an_answer_with_the_id_of_the_run() -> None:
    prompt, answer = messages_of(run("a", "Hello", answer="Hi"))
    text = {"type": "text", "text": "Hello"}
    assert prompt == {"id": "a-prompt", "role": "user", "parts": [text]}
    assert (answer["id"], answer["role"]) == ("a", "assistant")
    assert answer["metadata"]["runId"] == "a"
    text = {"type": "text", "text": "Hi", "state": "done"}
    assert answer["parts"] == [{"type": "step-start"}, text]


def test_runs_are_in_order_without_those_that_were_replaced() -> None:
    first, second = run("a", "Hello"), run("b", "More", *HELLO)
    assert ids(second, first) == ["a-prompt", "a", "b-prompt", "b"]
    edited = (run("d", "More", *HULLO), run("c", "Hullo"))
    assert ids(*edited, second, first) == ["c-prompt", "c", "d-prompt", "d"]
    regenerated = (run("c", "More", *HELLO), run("b", "Hello"))
    assert ids(*regenerated, first) == ["b-prompt", "b", "c-prompt", "c"]
    # Observed runs have no history.
    observed = [run(name, name, is_observed=True) for name in "ba"]
    assert ids(*observed) == ["a-prompt", "a", "b-prompt", "b"]
    assert ids(snapshot(ev.RunStarted("a", "Hello"))) == ["a-prompt"]


def test_history_is_whole_when_the_first_run_is_added() -> None:
    history = ChatHistory()
    assert not history.is_whole
    history.add(run("b", "More", *HELLO))
    assert not history.is_whole
    history.add(run("a", "Hello"))
    assert history.is_whole


def test_restored_answer_is_one_message_with_its_steps_and_calls() -> None:
    def call(call_id: str, **more: Any) -> CallPart:
        fields = {"name": "send", "kind": "function", "arguments": {"to": "ada"}, "raw": "{"}
        return CallPart(**{"call_id": call_id, "verdict": "complete", **fields, **more})

    history = (
        user(TextPart(text="Send")),
        assistant(ThinkingPart(text="Hm."), ThinkingPart(text="", item={}), call("c1"), call("c2")),
        user(
            ResultPart(call_id="c1", result={"sent": True}),
            ResultPart(call_id="c2", result="no such address", failed=True),
        ),
        assistant(call("c3", verdict="rejected", arguments={"INVALID_JSON": "{"})),
        user(ResultPart(call_id="c3", result="not like this", failed=True)),
        assistant(TextPart(text="Done.")),
    )
    _, answer, *_ = messages_of(run("b", "More", *history))
    tool = {"type": "dynamic-tool", "toolName": "send", "input": {"to": "ada"}}
    failed = tool | {"state": "output-error"}
    rejected = {"input": "{", "errorText": "rejected: not like this"}
    assert (answer["id"], answer["role"]) == ("message-1", "assistant")
    assert answer["parts"] == [
        {"type": "step-start"},
        {"type": "reasoning", "id": "/0", "text": "Hm.", "state": "done"},
        tool | {"toolCallId": "c1", "state": "output-available", "output": {"sent": True}},
        failed | {"toolCallId": "c2", "errorText": "no such address"},
        {"type": "step-start"},
        failed | {"toolCallId": "c3"} | rejected,
        {"type": "step-start"},
        {"type": "text", "text": "Done.", "state": "done"},
    ]


def test_call_in_progress_shows_its_input_so_far() -> None:
    started = (ev.RunStarted("a", "Go"), ev.TurnStarted(1), ev.ToolCallStarted("c1", 0, "write"))
    _, nothing = messages_of(snapshot(*started))
    _, some = messages_of(snapshot(*started, ev.ToolArgsDelta("c1", "write", '{"path": "no')))
    assert nothing["parts"][1]["state"] == some["parts"][1]["state"] == "input-streaming"
    assert "input" not in nothing["parts"][1]
    assert some["parts"][1]["input"] == {"path": "no"}


def test_published_clients_build_the_same_message_from_the_stream() -> None:
    drawn: list[ev.RunSnapshot] = []
    for events, cut in examples_of(st.tuples(logged_runs(), st.integers(1, 100))):
        records = records_of(events)
        drawn.append(snapshot_of(records[: 1 + cut * (len(records) - 1) // 100]))
    folded = run_node_on("ai_sdk_fold.mjs", [[_stream(one)] for one in drawn])
    chats = [messages_of(one) for one in drawn]
    checked = run_node_on("ai_sdk_valid.mjs", chats)
    for messages, ours in zip(folded, checked, strict=True):
        assert ours["faults"] == []
        for message, chat in zip(messages, ours["chats"], strict=True):
            parts = chat[-1]["parts"] if chat[-1]["role"] == "assistant" else []
            assert _comparable(parts) == _comparable(message["parts"])


def _stream(run: ev.RunSnapshot) -> str:
    encoder = AiSdkEncoder(RUN)
    encoder.begin(run)
    return encoder.replay().data.decode()


def _comparable(parts: list[Ui]) -> list[Ui]:
    """Parts without approvals and incomplete inputs. Clients show a step with its first part."""
    while parts[-1:] == [{"type": "step-start"}]:
        parts = parts[:-1]
    kept: list[Ui] = []
    for part in parts:
        may_be_cut = part.get("state") in ("input-streaming", "output-error")
        omitted = ("approval", "input") if may_be_cut else ("approval",)
        kept.append({name: part[name] for name in part if name not in omitted})
    return kept

"""The published AG-UI clients against a real server: 1.0 and 0.0.59, each in one Node process."""

from typing import Any

import pytest

from argstream.server import AgentServer
from tests.server.chat_scenes import MUCH, SEPARATORS, SPEECH, playing
from tests.server.nodes import run_node
from tests.server.servers import serving
from tests.server.talking import GENEROUS

ENDING = ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"]


class Played:
    """What a client has seen of the scenes, and what came of them."""

    def __init__(self, version: str, seen: dict[str, Any], done: list[Any]) -> None:
        self.version = version
        self.seen = seen
        self.done = done


@pytest.fixture(scope="module", params=["1.0", "0.0.59"])
def played(request: pytest.FixtureRequest) -> Played:
    agent, effects = playing()
    with serving(AgentServer(agent, token=None, limits=GENEROUS)) as base:
        lines = run_node("ag_ui.mjs", base, request.param)
    assert [line["warnings"] for line in lines] == [[]] * len(lines)
    return Played(request.param, {line["scene"]: line["seen"] for line in lines}, effects.seen)


def said(seen: Any) -> list[tuple[str, str | None]]:
    return [(message["role"], message.get("content")) for message in seen["messages"]]


def test_thoughts_and_words_come_as_they_were_written(played: Played) -> None:
    seen = played.seen["hello"]
    assert said(seen) == [("user", "hello"), ("reasoning", "Hm."), ("assistant", SEPARATORS)]
    assert seen["events"][0] == "RUN_STARTED"
    assert seen["events"][-4:] == ENDING


def test_what_is_approved_is_run_and_its_result_told(played: Played) -> None:
    first, second = played.seen["approve"]["first"], played.seen["approve"]["second"]
    [interrupt] = first["interrupts"]
    assert interrupt["metadata"]["argstream"]["arguments"] == {"to": "ada"}
    assert first["last"]["outcome"]["type"] == "interrupt"
    assert said(second)[2:] == [
        ("assistant", None),
        ("tool", "sent to ada"),
        ("assistant", "sent to ada"),
    ]
    assert second["interrupts"] == []
    assert second["last"]["outcome"] == {"type": "success"}


def test_what_is_edited_is_run_as_it_was_edited(played: Played) -> None:
    assert said(played.seen["edit"]["second"])[-2] == ("tool", "sent to grace")
    assert ("send", {"to": "grace"}) in played.done


def test_what_is_denied_is_not_run_and_the_model_is_told_why(played: Played) -> None:
    role, content = said(played.seen["deny"]["second"])[-2]
    assert role == "tool"
    assert content is not None
    assert "not today" in content
    assert played.done.count(("send", {"to": "ada"})) == 2  # once approved, and once reloaded


@pytest.mark.parametrize(
    ("scene", "words"), [("wrong", "approved: true"), ("unfit", "'to' must be a string")]
)
def test_an_answer_that_cannot_be_used_is_refused_and_the_call_still_asked_about(
    played: Played, scene: str, words: str
) -> None:
    second = played.seen[scene]["second"]
    assert second["failure"].startswith("HTTP 422")
    assert words in second["failure"]
    assert len(second["interrupts"]) == 1


def test_an_invalid_call_has_a_result_and_is_told_with_its_place(played: Played) -> None:
    seen = played.seen["invalid"]
    [custom] = seen["customs"]
    assert (custom["value"]["verdict"], custom["value"]["path"]) == ("rejected", ["to"])
    assert [role for role, _ in said(seen)] == ["user", "assistant", "tool", "assistant"]


def test_a_failure_is_an_error_of_the_run(played: Played) -> None:
    last = played.seen["error"]["last"]
    assert (last["type"], last["code"]) == ("RUN_ERROR", "overloaded")


def test_a_thread_goes_on_with_what_was_said_before(played: Played) -> None:
    assert said(played.seen["talk"])[-1] == ("assistant", "You said: hello, count")


@pytest.mark.parametrize("scene", ["cut", "leave"])
def test_who_lost_the_connection_asks_again_and_has_all_of_it_once(
    played: Played, scene: str
) -> None:
    first, second = played.seen[scene]["first"], played.seen[scene]["second"]
    assert len(said(first)[-1][1] or "") < len(SPEECH)
    assert said(second) == [("user", "speak at length"), ("assistant", SPEECH)]
    assert second["last"]["outcome"] == {"type": "success"}


def test_a_call_that_was_cut_in_the_midst_is_whole_in_the_end(played: Played) -> None:
    second = played.seen["cutWhileWriting"]["second"]
    assert [role for role, _ in said(second)] == ["user", "assistant", "tool", "assistant"]
    [call] = second["messages"][1]["toolCalls"]
    assert MUCH in call["function"]["arguments"]
    assert played.done.count(("write", {"path": "a", "content": MUCH})) == 1


def test_to_stop_is_a_request_of_its_own(played: Played) -> None:
    seen = played.seen["stop"]
    assert len(said(seen)[-1][1] or "") < len(SPEECH)
    if played.version == "1.0":
        assert seen["last"]["outcome"] == {"type": "cancelled"}
    else:
        assert (seen["last"]["type"], seen["last"]["code"]) == ("RUN_ERROR", "abort")


def test_a_page_that_is_loaded_anew_has_the_thread_and_what_is_asked(played: Played) -> None:
    reload = played.seen["reload"]
    assert reload["messages"] == reload["first"]["messages"]
    assert said(reload["second"])[-2] == ("tool", "sent to ada")


def test_who_decides_too_late_is_refused_and_can_go_on(played: Played) -> None:
    reload = played.seen["reload"]
    assert reload["late"]["failure"].startswith("HTTP 403")
    assert reload["way"]["interrupts"] == []
    assert said(reload["way"]) == said(reload["second"])


def test_something_else_is_not_begun_while_a_run_waits(played: Played) -> None:
    assert played.seen["busy"]["failure"].startswith("HTTP 409")

"""A chat, as the published clients of the AI SDK have it: ``ai`` 6 and 7, ``Chat`` of their React.

``node/ai_sdk.mjs`` plays the scenes, all at once, and tells what a front end would show.
"""

from typing import Any

import pytest

from argstream.server import AgentServer
from tests.server.chat_scenes import MUCH, ODD, SEPARATORS, SPEECH, playing
from tests.server.nodes import run_node
from tests.server.servers import serving
from tests.server.talking import GENEROUS

Scene = dict[str, Any]


@pytest.fixture(scope="module", params=["6", "7"])
def scenes(request: pytest.FixtureRequest) -> dict[str, Scene]:
    """All scenes, played once for each version."""
    agent, effects = playing()
    with serving(AgentServer(agent, token=None, limits=GENEROUS)) as url:
        told = {scene["scene"]: scene for scene in run_node("ai_sdk.mjs", url, request.param)}
    for scene in told.values():
        assert "failed" not in scene, scene
    return told | {"effects": {"seen": effects.seen, "version": request.param}}


def calls(scene: Scene) -> list[Scene]:
    return [part for part in scene["messages"][-1]["parts"] if part["type"] == "dynamic-tool"]


def call(scene: Scene) -> Scene:
    [only] = calls(scene)
    return only


def every_call(messages: list[Scene]) -> list[Scene]:
    return [call for message in messages for call in calls({"messages": [message]})]


def without_ids(message: Scene) -> Scene:
    """A message without what is not told again: the user's id; and what version 6 does not keep."""
    if message["role"] == "user":
        return message | {"id": ""}
    parts = [dict(part) for part in message["parts"]]
    for part in parts:
        if "approval" in part:
            part["approval"] = part["approval"] | {"requestReason": ""}
    return message | {"parts": parts}


def kinds(scene: Scene) -> list[str]:
    return [part["type"] for part in scene["messages"][-1]["parts"]]


def test_an_answer_is_one_message_under_the_id_of_its_run(scenes: dict[str, Scene]) -> None:
    scene = scenes["text"]
    _, answer = scene["messages"]

    assert scene["status"] == "ready"
    assert kinds(scene) == ["step-start", "reasoning", "text"]
    assert scene["text"] == SEPARATORS
    assert answer["id"] == answer["metadata"]["runId"]
    assert answer["metadata"]["usage"]["outputTokens"] > 0
    assert scene["finished"] == [finished("stop")]


def test_an_approval_goes_on_in_the_same_message(scenes: dict[str, Scene]) -> None:
    scene = scenes["approval"]
    paused = call(scene["paused"])

    assert scene["paused"]["status"] == "ready"
    assert paused["state"] == "approval-requested"
    assert paused["input"] == {"to": "ada"}
    assert paused["approval"]["descriptor"]["reason"] == "send must be confirmed each time"
    assert call(scene)["state"] == "output-available"
    assert call(scene)["output"] == "sent to ada"
    assert scene["text"] == "I send it.sent to ada"
    assert len(scene["messages"]) == 2
    assert scene["finished"] == [finished("tool-calls"), finished("stop")]


def test_the_client_sends_an_answer_once(scenes: dict[str, Scene]) -> None:
    for name in ("approval", "denial", "two_approvals", "edit"):
        assert scenes[name]["requests"] == ["POST", "POST"]


def test_only_version_7_has_the_reason_in_the_approval_itself(scenes: dict[str, Scene]) -> None:
    approval = call(scenes["approval"])["approval"]

    assert ("requestReason" in approval) == (scenes["effects"]["version"] == "7")


def test_a_denial_has_its_reason_told_to_the_model(scenes: dict[str, Scene]) -> None:
    scene = scenes["denial"]

    assert call(scene)["state"] == "output-denied"
    assert scene["text"].endswith("it was denied: not to her")


def test_two_approvals_are_sent_when_both_are_answered(scenes: dict[str, Scene]) -> None:
    scene = scenes["two_approvals"]

    assert scene["requests_before"] == 1
    assert [one["state"] for one in calls(scene)] == ["output-available", "output-denied"]


def test_some_of_several_can_be_decided_before_the_others(scenes: dict[str, Scene]) -> None:
    scene = scenes["one_of_two"]

    assert scene["between"] == ["output-available", "approval-requested"]
    assert [one["output"] for one in calls(scene)] == ["sent to ada", "sent to eve"]
    assert scene["text"] == "sent to ada; sent to eve"


def test_what_is_shown_after_an_edit_is_what_ran(scenes: dict[str, Scene]) -> None:
    scene = scenes["edit"]

    assert call(scene)["input"] == {"to": "grace"}
    assert call(scene)["output"] == "sent to grace"
    assert ("send", {"to": "grace"}) in scenes["effects"]["seen"]


def test_an_edit_that_the_tool_does_not_take_is_refused(scenes: dict[str, Scene]) -> None:
    scene = scenes["wrong_edit"]

    assert scene["status"] == "error"
    assert "'to' must be a string, not a number" in scene["error"]
    assert ("send", {"to": 7}) not in scenes["effects"]["seen"]


def test_a_call_that_is_not_valid_ends_with_its_text_and_why(scenes: dict[str, Scene]) -> None:
    shown = call(scenes["invalid"])

    assert shown["state"] == "output-error"
    assert shown["input"] == '{"to": 7'
    assert shown["errorText"] == "rejected: 'to' must be a string, not a number"


def test_keys_that_the_client_refuses_do_not_end_the_stream(scenes: dict[str, Scene]) -> None:
    scene = scenes["odd_keys"]

    assert scene["status"] == "ready"
    assert call(scene)["state"] == "output-available"
    for key in ODD:
        assert key in call(scene)["input"]
        assert key in call(scene)["output"]


def test_an_input_is_seen_while_it_is_written(scenes: dict[str, Scene]) -> None:
    scene = scenes["growing"]

    assert len([length for length in scene["lengths"] if 0 < length < len(MUCH)]) >= 3
    assert scene["lengths"] == sorted(scene["lengths"])
    assert call(scene)["input"] == {"path": "a", "content": MUCH}


def test_a_run_that_fails_is_an_error_of_the_chat(scenes: dict[str, Scene]) -> None:
    scene = scenes["failure"]

    assert scene["status"] == "error"
    assert scene["error"] == "the model is busy (overloaded)"


def test_the_history_is_that_of_the_store(scenes: dict[str, Scene]) -> None:
    scene = scenes["two_turns"]

    assert scene["roles"] == ["user", "assistant", "user", "assistant"]
    assert scene["text"] == "You said: hello, count"
    assert len(set(scene["ids"])) == 4


def test_what_is_asked_again_takes_the_place_of_what_was_asked(scenes: dict[str, Scene]) -> None:
    scene = scenes["regenerate"]

    assert scene["second"] == scene["first"] == "You said: hello, count"
    assert scene["third"] == "You said: count"
    assert scene["messages"] == 2


def test_a_stream_that_broke_is_resumed(scenes: dict[str, Scene]) -> None:
    scene = scenes["cut"]
    broken = scene["broken"]

    assert broken["status"] == "error"
    assert 0 < len(broken["text"]) < len(SPEECH)
    assert scene["status"] == "ready"
    assert scene["text"] == SPEECH
    assert len(scene["messages"]) == 2


def test_what_was_missed_of_a_run_that_is_over_can_be_had(scenes: dict[str, Scene]) -> None:
    scene = scenes["cut_until_it_was_over"]

    assert len(scene["without"]["text"]) < len(SPEECH)
    assert scene["text"] == SPEECH
    assert len(scene["messages"]) == 2


def test_a_page_that_is_loaded_anew_shows_what_is_asked(scenes: dict[str, Scene]) -> None:
    scene = scenes["reload"]

    assert call(scene["paused"])["state"] == "approval-requested"
    assert call(scene)["output"] == "sent to ada"
    assert scene["text"] == "I send it.sent to ada"


def test_there_is_nothing_to_resume_when_the_run_is_over(scenes: dict[str, Scene]) -> None:
    assert scenes["reload"]["nothing"]["status"] == "ready"
    assert scenes["reload"]["nothing"]["messages"] == []


def test_a_page_that_is_loaded_anew_is_given_all_that_it_had(scenes: dict[str, Scene]) -> None:
    scene = scenes["reload_when_over"]
    before, first = scene["before"]["messages"], scene["first"]["messages"]

    assert [without_ids(message) for message in first] == [
        without_ids(message) for message in before
    ]
    assert [one["state"] for one in every_call(first)] == [
        "output-error",
        "output-available",
        "output-available",
        "output-denied",
    ]
    assert [message["id"] for message in first[1::2]] == [one["id"] for one in before[1::2]]
    assert scene["first"]["run"] == {"id": first[-1]["id"], "status": "completed"}


def test_then_there_is_nothing_to_resume_and_the_next_message_goes_on(
    scenes: dict[str, Scene],
) -> None:
    scene = scenes["reload_when_over"]
    first, last = scene["first"]["messages"], scene["last"]["messages"]

    assert scene["reloaded"]["messages"] == first
    assert scene["reloaded"]["requests"] == ["GET"]
    assert scene["text"].endswith("send to ada, , count, count")
    assert last[: len(first)] == first
    assert without_ids(last[-1]) == without_ids(scene["messages"][-1])


def test_what_is_asked_can_be_answered_by_a_page_that_is_loaded_anew(
    scenes: dict[str, Scene],
) -> None:
    scene = scenes["reload_while_asked"]

    assert scene["first"]["run"]["status"] == "paused"
    assert [message["id"] for message in scene["paused"]["messages"]] == [
        message["id"] for message in scene["first"]["messages"]
    ]
    assert scene["paused"]["messages"][-1] == scene["before"]["messages"][-1]
    assert [one["state"] for one in calls(scene["decided"])] == ["output-available"] * 2
    assert len(scene["decided"]["messages"]) == 4
    assert scene["text"] == "You said: hello, send to ada and eve, , count"
    assert len(scene["messages"]) == 6


def test_a_page_that_is_loaded_anew_in_the_midst_of_an_answer_goes_on_in_it(
    scenes: dict[str, Scene],
) -> None:
    scene = scenes["reload_while_it_speaks"]
    first, resumed = scene["first"], scene["resumed"]["messages"]

    assert first["run"] == {"id": first["messages"][-1]["id"], "status": "running"}
    assert len(first["messages"][-1]["parts"][-1]["text"]) < len(SPEECH)
    assert [message["id"] for message in resumed] == [one["id"] for one in first["messages"]]
    assert resumed[-1] == scene["before"]["messages"][-1]
    assert scene["text"] == "You said: hello, keep a speech, and wait for reload, , count"
    assert len(scene["messages"]) == 6


def test_a_page_that_is_loaded_anew_shows_what_is_being_written(scenes: dict[str, Scene]) -> None:
    scene = scenes["reload_while_it_writes"]
    shown = call(scene["first"])

    assert shown["state"] == "input-streaming"
    assert MUCH.startswith(shown["input"]["content"])
    assert call(scene)["input"]["content"] == MUCH
    assert len(scene["messages"]) == 2


def test_a_chat_in_which_nothing_was_said_has_no_messages(scenes: dict[str, Scene]) -> None:
    assert scenes["reload_nothing"]["messages"] == []
    assert scenes["reload_nothing"]["run"] is None


def test_an_approval_is_answered_though_something_else_was_said(scenes: dict[str, Scene]) -> None:
    scene = scenes["said_while_asked"]
    roles = ["user", "assistant", "user", "assistant"]

    assert "urn:argstream:conversation-busy" in scene["refused"]["error"]
    assert scene["answered"]["status"] == "ready"
    assert [message["role"] for message in scene["answered"]["messages"]] == roles[:3]
    assert every_call(scene["answered"]["messages"])[0]["output"] == "sent to ada"
    assert scene["text"] == "You said: send to ada, , count"
    assert [message["role"] for message in scene["messages"]] == roles


def test_what_was_said_too_early_can_be_taken_back(scenes: dict[str, Scene]) -> None:
    scene = scenes["said_while_asked_and_taken_back"]

    assert scene["status"] == "ready"
    assert scene["text"] == "I send it.sent to ada"
    assert len(scene["messages"]) == 2


def test_one_who_stops_what_is_asked_can_say_something_else(scenes: dict[str, Scene]) -> None:
    scene = scenes["stop_and_say"]

    assert call(scene["stopped"])["state"] == "output-error"
    assert scene["text"] == "You said: send to ada, , count"
    assert scene["status"] == "ready"


def test_what_was_answered_elsewhere_is_not_answered_again(scenes: dict[str, Scene]) -> None:
    assert scenes["answered_elsewhere"]["status"] == "error"
    assert "urn:argstream:not-pending" in scenes["answered_elsewhere"]["error"]


def test_to_stop_reading_is_not_to_stop_the_run(scenes: dict[str, Scene]) -> None:
    scene = scenes["leave"]

    assert len(scene["left"]["text"]) < len(SPEECH)
    assert scene["text"] == SPEECH


def test_a_run_that_is_stopped_leaves_nothing_open(scenes: dict[str, Scene]) -> None:
    scene = scenes["stop"]

    assert scene["statuses"] == [204, 204]
    assert scene["status"] == "ready"
    assert call(scene)["state"] == "output-error"
    assert scene["requests"] == ["POST"]


def test_what_a_stopped_run_had_asked_cannot_be_answered(scenes: dict[str, Scene]) -> None:
    scene = scenes["stop_while_asked"]

    assert scene["status"] == "error"
    assert "urn:argstream:not-pending" in scene["error"]


def finished(reason: str) -> Scene:
    """What a client's ``onFinish`` is told of an answer that came to its end."""
    return {"finishReason": reason, "isAbort": False, "isDisconnect": False, "isError": False}

"""argstream.js and a real server: beginning, following, deciding, stopping, reading the log.

``node/argstream_js_client.mjs`` plays the scenes, all at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from argstream import Agent, tool
from argstream.history import ResultPart, said_by_user
from argstream.models import CallTool, ModelRequest, Reply, ScriptedModel
from argstream.runs import MemoryStore
from argstream.server import AgentServer, Serving
from tests.agent.following import Effects
from tests.server.chat_scenes import MUCH, SEPARATORS, SPEECH
from tests.server.nodes import run_node
from tests.server.talking import GENEROUS

Scene = dict[str, Any]

TOKEN = "a token that nobody guesses".replace(" ", "-")
_HUGE = 12345678901234567890123


@tool(requires_confirmation=True)
def keep(data: dict[str, Any]) -> dict[str, Any]:
    """Give back what it is given."""
    return data


def _answer(request: ModelRequest) -> Reply:
    last = request.messages[-1]
    if any(isinstance(part, ResultPart) for part in last.parts):
        return Reply("That is done.")
    match said_by_user(last):
        case "hello":
            return Reply(SEPARATORS)
        case "send to ada":
            return Reply("I send it.", CallTool("send", {"to": "ada"}))
        case "keep number":
            return Reply(CallTool("keep", {"data": {"number": _HUGE + 1}}))
        case "write much":
            return Reply("Now.", CallTool("write", {"path": "é😀", "content": MUCH}), piece_size=10)
        case said:
            assert said == "speak at length"
            return Reply(SPEECH * 10)


@contextmanager
def _serving(**doors: Any) -> Iterator[str]:
    effects = Effects()
    tools = [tool(requires_confirmation=True)(effects.send), effects.write, keep]
    agent = Agent(ScriptedModel(_answer, delay=0.002, repeat=True), tools, store=MemoryStore())
    with Serving(AgentServer(agent, limits=GENEROUS, **({"token": None} | doors))) as serving:
        yield serving.url


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    """All scenes, played once."""
    with _serving() as url, _serving(token=TOKEN) as guarded:
        told = run_node("argstream_js_client.mjs", url, guarded, TOKEN, timeout=50)
    return {scene["scene"]: scene for scene in told}


def _wrote_much(told: Scene) -> None:
    assert told["text"] == "Now.That is done."
    assert told["names"] == ["write"]
    assert told["arguments"] == {"path": "é😀", "content": MUCH}
    assert told["values"] == {"path": "é😀", "content": MUCH}
    assert [outcome for outcome, _ in told["results"]] == ["completed"]
    assert told["done"] == 1


def test_a_message_is_answered_in_one_stream(scenes: dict[str, Scene]) -> None:
    scene = scenes["converse"]

    _wrote_much(scene["told"])
    assert scene["status"] == "completed"
    assert scene["prompt"] == "write much"
    assert scene["states"] == ["text", "completed", "text"]
    assert scene["conversation"] == "talk é"
    assert scene["hasId"]
    assert scene["tokens"]
    assert scene["hasEnded"]


def test_connections_that_break_lose_nothing_and_double_nothing(scenes: dict[str, Scene]) -> None:
    scene = scenes["broken"]

    _wrote_much(scene["told"])
    assert scene["asked"][0] == "POST ?history=false"
    seqs = [int(asked.partition("after=")[2] or 0) for asked in scene["asked"][1:]]
    assert len(seqs) >= 7
    assert seqs == sorted(seqs)
    assert scene["status"] == "completed"


def test_who_comes_when_it_is_over_is_told_the_same(scenes: dict[str, Scene]) -> None:
    _wrote_much(scenes["broken"]["again"])


def test_a_run_goes_on_when_it_is_approved(scenes: dict[str, Scene]) -> None:
    scene = scenes["approved"]

    assert scene["before"]["status"] == "paused"
    assert scene["before"]["states"] == ["text", "asking"]
    assert scene["states"] == ["text", "completed", "text"]


def test_integers_of_any_size_are_shown_and_edited_exactly(scenes: dict[str, Scene]) -> None:
    scene = scenes["edited"]

    assert scene["request"] == {"data": {"number": _HUGE + 1}}
    assert scene["edited"] == scene["args"] == {"data": {"number": _HUGE}}
    assert scene["result"] == {"number": _HUGE}


def test_decisions_are_refused_in_words(scenes: dict[str, Scene]) -> None:
    scene = scenes["denied"]

    assert scene["wrongDigest"]["status"] == scene["second"]["status"] == 403
    assert scene["wrongDigest"]["message"]
    assert scene["states"] == ["text", "denied", "text"]
    assert scene["reason"] == "not to her"


def test_a_run_is_stopped_and_forgotten(scenes: dict[str, Scene]) -> None:
    scene = scenes["stopped"]

    assert scene["status"] == scene["info"] == "stopped"
    assert scene["reason"] == "enough"
    for refused in (scene["known"], scene["gone"]):
        assert (refused["status"], refused["type"]) == (404, "urn:argstream:unknown-run")


def test_runs_are_listed_with_what_they_were_asked(scenes: dict[str, Scene]) -> None:
    scene = scenes["listed"]

    assert (scene["prompt"], scene["status"], scene["pending"]) == ("send to ada", "paused", 1)
    assert scene["reasons"] == ["send must be confirmed each time"]
    assert scene["refused"]["status"] == 409


def test_the_log_is_read_whole_and_from_any_place(scenes: dict[str, Scene]) -> None:
    scene = scenes["log"]

    assert scene["isSame"]
    assert scene["isWhole"]
    assert scene["isTimed"]
    assert scene["rest"] == [-1, 0]


def test_a_token_opens_the_door(scenes: dict[str, Scene]) -> None:
    scene = scenes["token"]

    assert scene["refused"]["status"] == scene["wrong"]["status"] == 401
    assert scene["status"] == "completed"
    assert (scene["session"]["needs_token"], scene["session"]["signed_in"]) == (True, False)
    assert (scene["own"]["needs_token"], scene["own"]["signed_in"]) == (False, True)

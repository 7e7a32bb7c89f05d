"""How argstream.js follows a run where the connection is bad: without a gap, patiently, and once.

``node/argstream_js_following.mjs`` plays the scenes, all in one process and without a server.
"""

from typing import Any

import pytest

from tests.server.nodes import run_node

Scene = dict[str, Any]

EVENTS = "GET /agent/api/runs/run_1/events?history=false"
POST = "POST /agent/api/runs?history=false"


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    return {scene["scene"]: scene for scene in run_node("argstream_js_following.mjs")}


def asked(scene: Scene) -> list[str]:
    return [one["asked"] for one in scene["asked"]]


def waited_for(scene: Scene) -> list[str]:
    return [state for state in scene["states"] if state.startswith("waiting")]


def test_what_is_cut_goes_on_after_the_last_whole_frame(scenes: dict[str, Scene]) -> None:
    scene = scenes["cut"]

    assert scene["texts"] == ["One ", "two ", "three"]
    assert scene["done"] == {"status": "stopped", "seq": 5}
    assert asked(scene) == [EVENTS, *(f"{EVENTS}&after={seq}" for seq in (2, 3, 3))]
    assert [one["lastEventId"] for one in scene["asked"]] == [None, "2", "3", "3"]
    assert scene["states"][:4] == ["connecting", "open", "waiting", "connecting"]
    assert scene["states"][-2:] == ["open", "closed"]


def test_it_waits_longer_each_time_up_to_a_bound(scenes: dict[str, Scene]) -> None:
    assert scenes["backOff"]["waits"] == [0.25, 0.5, 1, 2, 4, 8, 10, 10]


def test_not_all_come_at_once(scenes: dict[str, Scene]) -> None:
    assert scenes["half"]["waits"] == [0.125, 0.25]


def test_who_has_heard_something_waits_shortly_again(scenes: dict[str, Scene]) -> None:
    assert scenes["progress"]["waits"] == [0.25, 0.5, 0.25, 0.5, 0.25]


def test_it_heeds_when_the_server_wants_to_be_asked(scenes: dict[str, Scene]) -> None:
    assert scenes["retryField"]["waits"] == [3, 6]
    by_seconds, by_date, *others = scenes["retryAfter"]["waits"]
    assert by_seconds == 7
    assert 50 < by_date <= 60
    assert others == [1, 2]


def test_what_may_pass_is_told_and_tried_again(scenes: dict[str, Scene]) -> None:
    assert waited_for(scenes["retryAfter"]) == [
        "waiting: no: too-many",
        "waiting: no: store-failure",
        "waiting: no: late",
        "waiting: Bad Gateway",
    ]
    assert scenes["retryAfter"]["done"]["status"] == "stopped"


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("forbidden", 401, "token-needed"), ("unknown", 404, "unknown-run")],
)
def test_a_refusal_is_final(scenes: dict[str, Scene], name: str, status: int, code: str) -> None:
    scene = scenes[name]

    assert scene["done"]["isProblem"]
    assert scene["done"]["error"] == {
        "name": "ServerProblem",
        "message": f"no: {code}",
        "status": status,
        "type": f"urn:argstream:{code}",
        "retryAfter": None,
    }
    assert scene["states"][-1] == f"closed: no: {code}"


def test_204_means_that_there_is_no_more(scenes: dict[str, Scene]) -> None:
    assert scenes["over"]["done"]["seq"] == 1
    assert scenes["over"]["states"][-1] == "closed"


def test_what_is_no_stream_of_ours_is_not_read(scenes: dict[str, Scene]) -> None:
    assert "no stream of events" in scenes["page"]["done"]["error"]["message"]
    assert scenes["nonsense"]["done"]["error"]["name"] == "SyntaxError"
    assert len(scenes["page"]["asked"]) == len(scenes["nonsense"]["asked"]) == 1


def test_what_comes_twice_is_told_once(scenes: dict[str, Scene]) -> None:
    assert scenes["sentTwice"]["texts"] == ["One "]
    assert scenes["sentTwice"]["frames"] == [1, 2, 3]


@pytest.mark.parametrize(("name", "seq"), [("posted", 2), ("postedWithoutHeaders", 1)])
def test_what_a_post_began_goes_on_with_a_get(
    scenes: dict[str, Scene], name: str, seq: int
) -> None:
    assert asked(scenes[name]) == [POST, f"{EVENTS}&after={seq}"]
    assert scenes[name]["done"]["status"] == "stopped"
    assert scenes[name]["runId"] == "run_1"
    assert scenes[name]["conversation"] == ("talk é" if name == "posted" else "")


def test_a_message_is_never_sent_twice(scenes: dict[str, Scene]) -> None:
    for name, error in (("notPosted", "ConnectionLost"), ("postRefused", "ServerProblem")):
        assert asked(scenes[name]) == [POST]
        assert scenes[name]["done"]["error"]["name"] == error


def test_a_connection_that_says_nothing_is_lost(scenes: dict[str, Scene]) -> None:
    [waiting] = waited_for(scenes["silence"])
    assert "nothing was heard" in waiting
    assert scenes["silence"]["done"]["status"] == "stopped"


def test_who_closes_is_told_nothing_more(scenes: dict[str, Scene]) -> None:
    assert scenes["closed"]["texts"] == ["One "]
    assert scenes["closed"]["states"] == ["connecting", "open", "closed"]
    assert scenes["closed"]["done"] == {"status": "running", "seq": 2}


def test_it_can_be_closed_at_any_time(scenes: dict[str, Scene]) -> None:
    assert scenes["closedWhileConnecting"]["states"] == ["connecting", "closed"]
    assert scenes["closedAtOnce"]["states"] == ["closed"]
    assert scenes["closedAtOnce"]["asked"] == []
    assert scenes["closedWhileWaiting"]["states"] == ["connecting", "waiting", "closed"]


def test_it_tries_at_once_when_online_again_or_told_to(scenes: dict[str, Scene]) -> None:
    assert scenes["woken"] == {"scene": "woken", "status": "stopped", "left": 0}


def test_what_handlers_throw_is_reported_and_harms_nobody(scenes: dict[str, Scene]) -> None:
    scene = scenes["throwing"]

    assert scene["thrown"] == ["One ", "two", "done"]
    assert scene["reported"] == 1
    assert scene["done"]["seq"] == 4


def test_no_id_leads_to_another_path(scenes: dict[str, Scene]) -> None:
    assert scenes["dots"]["errors"] == [404] * 6
    assert scenes["urls"]["asked"] == [
        "GET /a/b/api/runs?status=paused&conversation=a%26b%3Dc%2F%C3%A9&limit=3",
        "GET /a/b/api/runs",
        "GET /api/runs/a%2Fb%3Fc%23d",
        "GET /x/api/session",
    ]


def test_a_server_that_is_not_there_is_told_as_such(scenes: dict[str, Scene]) -> None:
    assert scenes["unreachable"] == {"scene": "unreachable", "isLost": True, "hasCause": True}


def test_a_log_that_is_cut_off_is_no_log(scenes: dict[str, Scene]) -> None:
    assert scenes["cutLog"]["seqs"] == [1, 1]
    assert scenes["cutLog"]["error"] == "ConnectionLost"
    assert asked(scenes["cutLog"]) == ["GET /api/runs/run%2F%C3%A9/log?history=false&after=7"]

"""argstream.js: with a real server, over bad connections, and its parsers.

The scripts in ``node/`` play the scenes, each script in one process.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from argstream import Agent, tool
from argstream.history import ResultPart, said_by_user
from argstream.models import CallTool, ModelRequest, Reply, ScriptedModel
from argstream.runs import MemoryStore
from argstream.wire import Broken, SseDecoder
from tests.agent.following import Effects
from tests.server.chat_scenes import MUCH, SEPARATORS, SPEECH
from tests.server.nodes import run_node, run_node_on
from tests.server.talking import GENEROUS, served

Scene = dict[str, Any]
Scenes = dict[str, Scene]

TOKEN = "a-token-nobody-guesses"
HUGE = 12345678901234567890123


# With a real server


@tool(requires_confirmation=True)
def keep(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data."""
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
            return Reply(CallTool("keep", {"data": {"number": HUGE + 1}}))
        case "write much":
            return Reply("Now.", CallTool("write", {"path": "é😀", "content": MUCH}), piece_size=10)
        case said:
            assert said == "speak at length"
            return Reply(SPEECH * 10)


@contextmanager
def _serving(token: str | None) -> Iterator[str]:
    effects = Effects()
    tools = [tool(requires_confirmation=True)(effects.send), effects.write, keep]
    agent = Agent(ScriptedModel(_answer, delay=0.002, repeat=True), tools, store=MemoryStore())
    with served(agent, limits=GENEROUS, token=token) as client:
        yield client.url


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    with _serving(None) as url, _serving(TOKEN) as guarded:
        played = run_node("argstream_js_client.mjs", url, guarded, TOKEN)
    return {scene["scene"]: scene for scene in played}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("converse", {"status": "completed", "prompt": "write much", "conversation": "talk é"}),
        ("converse", {"states": ["text", "completed", "text"]}),
        ("converse", {"hasId": True, "tokens": True, "hasEnded": True}),
        ("broken", {"status": "completed"}),
        ("approved", {"states": ["text", "completed", "text"]}),
        ("denied", {"states": ["text", "denied", "text"], "reason": "not to her"}),
        ("stopped", {"status": "stopped", "info": "stopped", "reason": "enough"}),
        ("listed", {"prompt": "send to ada", "status": "paused", "pending": 1}),
        ("listed", {"reasons": ["send always needs approval"]}),
        ("log", {"isSame": True, "isWhole": True, "isTimed": True, "rest": [-1, 0]}),
        ("token", {"status": "completed"}),
    ],
)
def test_scene_ends_as_expected(scenes: Scenes, name: str, expected: Scene) -> None:
    assert {key: scenes[name][key] for key in expected} == expected


@pytest.mark.parametrize(
    ("scene", "key"), [("converse", "told"), ("broken", "told"), ("broken", "again")]
)
def test_handlers_receive_the_whole_run_once(scenes: Scenes, scene: str, key: str) -> None:
    """Also over connections that break, and when the run is over."""
    handled = scenes[scene][key]
    assert (handled["text"], handled["names"], handled["done"]) == (
        "Now.That is done.",
        ["write"],
        1,
    )
    assert handled["arguments"] == handled["values"] == {"path": "é😀", "content": MUCH}
    assert [outcome for outcome, _ in handled["results"]] == ["completed"]


def test_broken_connection_resumes_after_the_last_seq(scenes: Scenes) -> None:
    first, *others = scenes["broken"]["asked"]
    assert first == "POST ?history=false"
    seqs = [int(asked.partition("after=")[2] or 0) for asked in others]
    assert len(seqs) >= 7
    assert seqs == sorted(seqs)


def test_integers_of_any_size_are_shown_and_edited_exactly(scenes: Scenes) -> None:
    scene = scenes["edited"]
    assert scene["request"] == {"data": {"number": HUGE + 1}}
    assert scene["edited"] == scene["args"] == {"data": {"number": HUGE}}
    assert scene["result"] == {"number": HUGE}
    before = scenes["approved"]["before"]
    assert (before["status"], before["states"]) == ("paused", ["text", "pending"])


def test_refusals_of_the_server_are_problems(scenes: Scenes) -> None:
    denied, stopped, token = scenes["denied"], scenes["stopped"], scenes["token"]
    assert denied["wrongDigest"]["status"] == denied["second"]["status"] == 403
    assert denied["wrongDigest"]["message"]
    for refused in (stopped["known"], stopped["gone"]):
        assert (refused["status"], refused["type"]) == (404, "urn:argstream:unknown-run")
    assert scenes["listed"]["refused"]["status"] == 409
    assert token["refused"]["status"] == token["wrong"]["status"] == 401
    assert (token["session"]["needs_token"], token["session"]["signed_in"]) == (True, False)
    assert (token["own"]["needs_token"], token["own"]["signed_in"]) == (False, True)


# Over bad connections, without a server

EVENTS = "GET /agent/api/runs/run_1/events?history=false"
POST = "POST /agent/api/runs?history=false"


@pytest.fixture(scope="module")
def cut() -> Scenes:
    return {scene["scene"]: scene for scene in run_node("argstream_js_following.mjs")}


def asked(scene: Scene) -> list[str]:
    return [one["asked"] for one in scene["asked"]]


def waits(scene: Scene) -> list[str]:
    return [state for state in scene["states"] if state.startswith("waiting")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # The wait doubles up to a bound, with jitter; progress and the server reset it.
        ("backOff", {"waits": [0.25, 0.5, 1, 2, 4, 8, 10, 10]}),
        ("half", {"waits": [0.125, 0.25]}),
        ("progress", {"waits": [0.25, 0.5, 0.25, 0.5, 0.25]}),
        ("retryField", {"waits": [3, 6]}),
        ("sentTwice", {"texts": ["One "], "frames": [1, 2, 3]}),
        # No handler is called after close().
        ("closed", {"texts": ["One "], "states": ["connecting", "open", "closed"]}),
        ("closed", {"done": {"status": "running", "seq": 2}}),
        ("closedWhileConnecting", {"states": ["connecting", "closed"]}),
        ("closedAtOnce", {"states": ["closed"], "asked": []}),
        ("closedWhileWaiting", {"states": ["connecting", "waiting", "closed"]}),
        # It reconnects at once when it is online again or reconnect() is called.
        ("woken", {"status": "stopped", "left": 0}),
        ("throwing", {"thrown": ["One ", "two", "done"]}),
        ("unreachable", {"isLost": True, "hasCause": True}),
        ("cutLog", {"seqs": [1, 1], "error": "ConnectionLost"}),
        # No ID leads to another path.
        ("dots", {"errors": [404] * 6}),
        (
            "urls",
            {
                "asked": [
                    "GET /a/b/api/runs?status=paused&conversation=a%26b%3Dc%2F%C3%A9&limit=3",
                    "GET /a/b/api/runs",
                    "GET /api/runs/a%2Fb%3Fc%23d",
                    "GET /x/api/session",
                ]
            },
        ),
    ],
)
def test_client_over_bad_connections(cut: Scenes, name: str, expected: Scene) -> None:
    assert {key: cut[name][key] for key in expected} == expected


def test_cut_stream_resumes_after_the_last_whole_frame(cut: Scenes) -> None:
    scene = cut["cut"]
    assert scene["texts"] == ["One ", "two ", "three"]
    assert scene["done"] == {"status": "stopped", "seq": 5}
    assert asked(scene) == [EVENTS, *(f"{EVENTS}&after={seq}" for seq in (2, 3, 3))]
    assert [one["lastEventId"] for one in scene["asked"]] == [None, "2", "3", "3"]
    assert scene["states"][:4] == ["connecting", "open", "waiting", "connecting"]
    assert scene["states"][-2:] == ["open", "closed"]
    log = "GET /api/runs/run%2F%C3%A9/log?history=false&after=7"
    assert asked(cut["cutLog"]) == [log]  # a log that is cut is not resumed


def test_temporary_refusals_are_retried_after_the_given_time(cut: Scenes) -> None:
    scene = cut["retryAfter"]
    by_seconds, by_date, *others = scene["waits"]
    assert (by_seconds, others) == (7, [1, 2])
    assert 50 < by_date <= 60
    reasons = ("no: too-many", "no: store-failure", "no: late", "Bad Gateway")
    assert waits(scene) == [f"waiting: {reason}" for reason in reasons]
    assert scene["done"]["status"] == "stopped"
    [waiting] = waits(cut["silence"])
    assert "nothing was heard" in waiting
    assert cut["silence"]["done"]["status"] == "stopped"
    assert cut["throwing"]["done"]["seq"] == 4


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("forbidden", 401, "token-needed"), ("unknown", 404, "unknown-run")],
)
def test_permanent_refusal_ends_the_stream(cut: Scenes, name: str, status: int, code: str) -> None:
    assert cut[name]["done"]["isProblem"]
    problem = {"name": "ServerProblem", "message": f"no: {code}", "retryAfter": None}
    expected = problem | {"status": status, "type": f"urn:argstream:{code}"}
    assert cut[name]["done"]["error"] == expected
    assert cut[name]["states"][-1] == f"closed: no: {code}"


def test_204_and_answers_that_are_no_stream_close_it(cut: Scenes) -> None:
    assert cut["over"]["done"]["seq"] == 1
    assert cut["over"]["states"][-1] == "closed"
    assert "no stream of events" in cut["page"]["done"]["error"]["message"]
    assert cut["nonsense"]["done"]["error"]["name"] == "SyntaxError"
    assert len(cut["page"]["asked"]) == len(cut["nonsense"]["asked"]) == 1


@pytest.mark.parametrize(
    ("name", "seq", "conversation"), [("posted", 2, "talk é"), ("postedWithoutHeaders", 1, "")]
)
def test_run_that_a_post_started_is_resumed_with_get(
    cut: Scenes, name: str, seq: int, conversation: str
) -> None:
    assert asked(cut[name]) == [POST, f"{EVENTS}&after={seq}"]
    assert cut[name]["done"]["status"] == "stopped"
    assert (cut[name]["runId"], cut[name]["conversation"]) == ("run_1", conversation)


def test_message_is_never_sent_twice(cut: Scenes) -> None:
    for name, error in (("notPosted", "ConnectionLost"), ("postRefused", "ServerProblem")):
        assert asked(cut[name]) == [POST]
        assert cut[name]["done"]["error"]["name"] == error


# Parsers

STREAMS = [
    'data: {"a": 1}\n\n',
    "data: one\r\ndata: two\r\n\r\ndata: three\r\r",
    "data:one\ndata:  two\ndata\n\ndata\n\n",
    ": a comment\n\nretry: 1500\nid: 7\nevent: x\ndata: y\n\n:\n\n",
    "retry: 1.5\nretry: -1\nretry: \nretry: x\n\ndata: z\n\n",
    "\r\n\r\n\n\r\rdata: late\r\n\ndata: never ended",
    "data: é😀\u2028\u2029\x85\x0b\x0c\x1c\n\nDATA: no\n data: no\ndata : no\n\n",
    "data: a: b:c\n\ndata:: d\n\n",
    "id: 1\rdata: x\r\rid: 2\rdata: y\r\r",
    ": only\r\n: comments\r\n\r\n",
]
INTEGERS = [
    *("9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993"),
    *("12345678901234567890", "-" + "9" * 400, "1" + "0" * 4000, "0", "-1"),
]
VALUES = [
    *INTEGERS,
    f"[{', '.join(INTEGERS)}]",
    f'{{"a": {{"b": [{INTEGERS[2]}, "{INTEGERS[2]}"]}}, "{INTEGERS[2]}": {INTEGERS[3]}}}',
    '"9007199254740993"',
    '["\\"9007199254740993", "\\\\", 9007199254740993, "\\u0022, 9007199254740993"]',
    "[-0.0, 1.5, 123456789012345680000.0, 9007199254740993]",
    *("1.2345678901234567", "0.00000000000000012345678901234567890", "-123456789012345678.5"),
    *("12345678901234567e2", "1234567890123456789E-3"),
    '{"__proto__": 9007199254740993, "constructor": {"__proto__": [1234567890123456789]}}',
    " [ 1234567890123456789 , true, false, null ]\n",
]
REFUSED = [
    *("{1234567890123456789: 1}", "01234567890123456789", "+1234567890123456789"),
    *("1234567890123456789 1", "[1234567890123456789", '"1234567890123456789'),
    *("--1234567890123456789", ""),
]


@pytest.fixture(scope="module")
def units() -> dict[str, list[Scene]]:
    value = {"streams": STREAMS, "numbers": [*VALUES, *REFUSED]}
    found: dict[str, list[Scene]] = {}
    for one in run_node_on("argstream_js_units.mjs", value):
        found.setdefault(one["test"], []).append(one)
    return found


def test_event_streams_are_read_the_same_however_they_are_cut(units: dict[str, Any]) -> None:
    for stream, read in zip(STREAMS, units["stream"], strict=True):
        decoder = SseDecoder()
        data = []
        for event in decoder.feed(stream.encode()):
            assert not isinstance(event, Broken)
            data.append(event.data.decode())
        retry = None if decoder.retry is None else decoder.retry / 1_000
        assert read["ways"] == [{"data": data, "retry": retry}]
    assert [one["prompts"] for one in units["bytes"]] == [["é😀\u2028\ufeff stopped"]]


def test_integers_are_exact_and_bad_json_is_refused_in_every_engine(units: dict[str, Any]) -> None:
    [read] = units["numbers"]
    assert read["new"] == read["old"]
    values = [one["value"] for one in read["new"][: len(VALUES)]]
    assert list(map(repr, values)) == [repr(json.loads(text)) for text in VALUES]
    assert [type(value) for value in values[: len(INTEGERS)]] == [int] * len(INTEGERS)
    assert read["new"][len(VALUES) :] == [{"refused": "SyntaxError"}] * len(REFUSED)


def test_json_is_written_as_stringify_does_except_for_integers(units: dict[str, Any]) -> None:
    assert units["as stringify"] == [{"test": "as stringify", "same": True}]
    written = '{"huge":[1180591620717411303424,-0.0,1.152921504606847e+18]}'
    assert [one["text"] for one in units["helped"]] == [written]


def test_large_inputs_are_read_whole_and_snapshots_drop_other_blocks(units: dict[str, Any]) -> None:
    size = 64 * 150_000
    assert units["large frame"][0]["lengths"] == [size]
    assert units["large run"][0]["lengths"] == [size] * 4
    [scene] = units["lost end"]
    assert (scene["isKept"], scene["isFresh"], scene["isLost"]) == (True, True, True)
    assert scene["place"] == [4, "talk"]

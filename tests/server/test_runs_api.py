"""``/api/runs`` and ``/api/converse``: start, follow, decide, stop, list, read the log, delete."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from argstream import Agent, tool
from argstream import events as ev
from argstream.history import ResultPart, TextPart
from argstream.jsonstream import Fragment, Parser
from argstream.models import CallTool, ModelRequest, Reply, Say, ScriptedModel, Think
from argstream.protocols.native import Frame
from argstream.runs import MemoryStore, Record, with_arguments
from argstream.server import Limits
from tests.agent.following import only, send
from tests.server.nodes import examples_of
from tests.server.talking import (
    GENEROUS,
    Client,
    agent_for,
    content,
    decode,
    eventually,
    folded,
    frames_in,
    paused,
    problem,
    served,
    talking,
)
from tests.server.watching import RUN, Feeding
from tests.strategies import json_values, scalars

ADDING = Reply(Think("hm"), Say("I add."), CallTool("add", {"a": 1, "b": 2}))
LONG = Reply(Say("word " * 40), CallTool("write", {"path": "a.txt", "content": "line\n" * 40}))
STREAM = {"accept": "text/event-stream"}
SEND = CallTool("send", {"to": "ada"})
SENT_TO_ADA = [("send", {"to": "ada"})]


def count(request: ModelRequest) -> str:
    return f"{len(request.messages)} messages."


class JobStore(MemoryStore):
    """Keeps the names of what its backend was asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[str] = []

    def worked_in(self, seconds: float) -> bool:
        """Forget the jobs so far, and return True if there are others in these seconds."""
        self.jobs.clear()
        time.sleep(seconds)
        return bool(self.jobs)


def noted(name: str) -> Callable[..., Any]:
    async def method(self: JobStore, *given: Any, **options: Any) -> Any:
        self.jobs.append(name)
        return await getattr(MemoryStore, name)(self, *given, **options)

    return method


for name in ("_create", "_change", "_append", "_load", "_page", "_delete"):
    setattr(JobStore, name, noted(name))


def test_approval_costs_one_read_and_four_store_jobs_until_the_tool_runs() -> None:
    store, jobs, has_run = JobStore(), list[str](), threading.Event()

    @tool(requires_confirmation=True)
    async def send(to: str) -> str:
        """Send a mail."""
        jobs.extend(store.jobs)
        has_run.set()
        return to

    with served(Agent(ScriptedModel(SEND, "Sent."), [send], store=store)) as client:
        run_id = client.run(until="paused")
        [pending] = client.show(run_id)["pending"]
        decision = {pending["call_id"]: {"decision": "approve", "digest": pending["digest"]}}
        eventually(lambda: not store.worked_in(0.05))  # the driver looks for decisions once more
        client.post(f"/api/runs/{run_id}/decisions", {"decisions": decision})
        assert has_run.wait(10)
    # The log, then: decide, acquire the lease, the waiting commands, append.
    assert jobs == ["_page", "_change", "_change", "_load", "_append"]


def test_call_is_parsed_once_in_the_driving_process(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    class CountingParser(Parser):
        def feed(self, chunk: str | bytes | bytearray | memoryview) -> list[Fragment]:
            parsed.append(str(chunk))
            return super().feed(chunk)

    monkeypatch.setattr("argstream.runs._state.Parser", CountingParser)
    with talking(LONG, "Done.", delay=0.01) as client:
        answer = client.post("/api/runs", {"message": "Write."}, **STREAM)
        frames = list(frames_in(answer.iter_lines()))
    shown = [event for frame in frames for event in frame.arguments]
    assert "".join(one.text for one in only(shown, ev.ArgumentDelta)) == "a.txt" + "line\n" * 40
    assert parsed == [], "viewers use the argument events of the driver"


def test_run_is_followed_to_its_end_and_resumed_after_any_frame() -> None:
    with talking(ADDING, LONG, "Done.", delay=0.004) as client:
        answer = client.post("/api/runs", {"message": "1 + 2?"})
        run_id = answer.json()["run"]
        assert answer.status_code == 201
        assert answer.headers["location"] == f"/api/runs/{run_id}"
        live = list(client.frames(run_id))
        assert live[0].snapshot is not None
        assert live[0].snapshot.prompt == "1 + 2?"
        assert live[0].snapshot.conversation_id == answer.json()["conversation"]
        assert isinstance(live[-1].event, ev.RunCompleted)
        seqs = [frame.seq for frame in live]
        assert seqs == sorted(set(seqs))
        whole = folded(content(frame) for frame in live)
        for number, frame in enumerate(live[:-1], 1):
            rest = list(client.frames(run_id, **{"Last-Event-ID": str(frame.seq)}))
            assert rest[0].seq > frame.seq
            assert folded(content(one) for one in (*live[:number], *rest)) == whole
        assert folded(client.events(run_id, "?after=0")) == whole
        path = f"/api/runs/{run_id}/events"
        assert client.status(path, **{"Last-Event-ID": str(live[-1].seq)}) == 204
        assert client.status(f"{path}?after={live[-1].seq + 100}") == 204
        for after in ("-1", "x", "1e3", "٣", "9" * 30, ""):
            refused = client.get(f"{path}?after={after}")
            assert refused.status_code == 422
            assert "after must be a number" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("text/event-stream", 200),
        ("application/json;q=0.5, Text/Event-Stream; q=1", 200),
        ("*/*", 201),
        ("text/*", 201),
        ("application/json", 201),
    ],
)
def test_post_is_answered_with_the_run_if_a_stream_is_accepted(accept: str, status: int) -> None:
    body = {"message": "Go", "conversation": "talk 1"}
    with talking(LONG, "Done.") as client:
        answer = client.post("/api/runs", body, accept=accept)
        assert answer.status_code == status
        if status == 200:
            run_id = answer.headers["x-argstream-run"]
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["x-argstream-conversation"] == "talk%201"
            assert answer.headers["location"] == f"/api/runs/{run_id}"
            frames = list(frames_in(answer.iter_lines()))
            assert frames[0].snapshot is not None
            assert frames[0].snapshot.conversation_id == "talk 1"
            assert folded(content(frame) for frame in frames) == folded(client.events(run_id))


def test_history_can_be_omitted_from_streams_and_logs() -> None:
    with talking("One.", "Two.") as client:
        client.run(conversation="talk")
        body = {"message": "And?", "conversation": "talk"}
        answer = client.post("/api/runs?history=false", body, **STREAM)
        run_id = answer.headers["x-argstream-run"]
        first = content(next(frames_in(answer.iter_lines())))
        for events in (
            [first],
            client.events(run_id, "?history=false"),
            client.events(run_id, "?after=0&history=false"),
            [content(frame) for frame in log(client, run_id, "?history=false")],
        ):
            assert isinstance(events[0], ev.RunSnapshot | ev.RunStarted)
            assert (events[0].history, events[0].prompt) == ((), "And?")
        for query in ("", "?history=true"):
            assert len(folded(client.events(run_id, query)).history) == 2
        assert len(folded(content(frame) for frame in log(client, run_id)).history) == 2
        for path in (f"/api/runs/{run_id}/events?history=", f"/api/runs/{run_id}/log?history=x"):
            assert client.status(path) == 422


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {"message": ""}),
        ("", {"message": " \n"}),
        ("", {"massage": "Hi"}),
        ("", {"message": 1}),
        ("", {"message": "Hi", "conversation": "x" * 300}),
        ("", {"message": "Hi", "conversation": "a\nb"}),
        ("", []),
        ("?history=no", {"message": "Hi"}),
    ],
)
def test_unusable_message_is_refused_and_starts_no_run(query: str, body: Any) -> None:
    with talking("Hello.") as client:
        for headers in ({}, STREAM):
            assert problem(client.post(f"/api/runs{query}", body, **headers))[0] == 422
        assert client.listed() == []


def test_converse_streams_and_continues_the_conversation_that_it_named() -> None:
    keys: dict[str, float] = {}
    with (
        talking(LONG, "Done.", delay=0.005) as client,
        client.http.stream("POST", "/api/converse", json={"message": "Go"}) as answer,
    ):
        for line in answer.iter_lines():
            if line:
                keys.setdefault(next(iter(json.loads(line[6:]))), time.monotonic())
    assert list(keys) == ["text", "tool_start", "block", "tool_result", "done"]
    assert keys["block"] - keys["tool_start"] > 0.1  # the time in which it was written
    assert keys["tool_start"] - keys["text"] > 0.1
    with talking("Hello.", count) as client:
        done = client.converse("Hi")[-1]["done"]
        again = client.converse("And?", conversation=done["conversation"])
    assert done["status"] == "completed"
    assert "".join(one.get("text", "") for one in again) == "3 messages."
    assert again[-1]["done"]["conversation"] == done["conversation"]


def test_unusable_decisions_are_refused() -> None:
    with paused() as (client, run_id):
        wrong = client.approve(run_id, arguments={"to": 7})
        assert wrong.status_code == 422
        assert "not valid" in wrong.json()["detail"]
        assert client.decide(run_id, decision="deny", digest="0" * 64).status_code == 403
        empty = client.post(f"/api/runs/{run_id}/decisions", {"decisions": {}})
        long = "x" * 20_000
        too_long = client.decide(run_id, decision="deny", reason=long)
        for refused in (empty, too_long, client.stop(run_id, reason=long)):
            assert refused.status_code == 422
        assert len(client.show(run_id)["pending"]) == 1


def test_approval_for_a_conversation_holds_until_its_runs_are_deleted() -> None:
    with talking(send("ada"), "Sent.", send("bob"), "Sent.", *[send("eve")] * 2) as client:
        runs = [client.run(conversation="talk", until="paused")]
        client.approve(runs[0], always="conversation")
        client.until(runs[0], "completed")
        runs.append(client.run(conversation="talk"))
        client.run(conversation="another", until="paused")
        for run_id in runs:
            assert client.delete(f"/api/runs/{run_id}").status_code == 204
        client.run(conversation="talk", until="paused")
    assert client.effects.seen == [*SENT_TO_ADA, ("send", {"to": "bob"})]


def test_forged_replayed_and_late_decisions_are_403() -> None:
    with paused(send("ada"), send("bob"), "Sent.") as (client, run_id):

        def post(call: str, digest: str) -> Any:
            decision = {"decision": "approve", "digest": digest}
            path = f"/api/runs/{run_id}/decisions"
            return client.post(path, {"decisions": {call: decision}})

        def status(call: str, digest: str) -> int:
            return int(post(call, digest).status_code)

        [pending] = client.show(run_id)["pending"]
        call_id, digest = pending["call_id"], pending["digest"]
        [foreign] = client.show(client.run(until="paused"))["pending"]
        forged = ((call_id, ""), (call_id, foreign["digest"]), ("another", digest))
        assert [status(*one) for one in forged] == [403] * 3
        assert client.effects.seen == []
        assert [status(call_id, digest) for _ in range(2)] == [202, 403]
        client.until(run_id, "completed")
        assert problem(post(call_id, digest)) == (403, "already-decided")
    assert client.effects.seen == SENT_TO_ADA


def test_decision_on_an_expired_request_is_403(monkeypatch: pytest.MonkeyPatch) -> None:
    with paused(approval_timeout=3_600) as (client, run_id):
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + 3_600)
        assert problem(client.approve(run_id)) == (403, "expired")
        assert client.effects.seen == []


# Edited arguments


class Editing:
    """A model that calls a tool with a value, and the value that the tool receives."""

    def __init__(self) -> None:
        self.wanted: Any = None
        self.received: Any = None
        self.client: Client

    def answer(self, request: ModelRequest) -> Reply:
        is_done = any(isinstance(part, ResultPart) for part in request.messages[-1].parts)
        return Reply("Done.") if is_done else Reply(CallTool("keep", {"value": self.wanted}))

    def keep(self, value: Any) -> str:
        """Keep a value."""
        self.received = value
        return "kept"

    def edited(self, original: Any, edited: Any) -> Any:
        """Approve a call with another value, and return the value that the tool receives."""
        self.wanted = original
        run_id = self.client.run(until="paused")
        answer = self.client.approve(run_id, arguments={"value": edited})
        assert answer.status_code == 202, answer.text
        self.client.until(run_id, "completed")
        return self.received


@pytest.fixture(scope="module")
def editing() -> Iterator[Editing]:
    editing = Editing()
    tools = [tool(requires_confirmation=True)(editing.keep)]
    model = ScriptedModel(editing.answer, repeat=True)
    with served(Agent(model, tools, store=MemoryStore()), limits=GENEROUS) as editing.client:
        yield editing


def test_unchanged_arguments_are_exactly_the_original(editing: Editing) -> None:
    values = [5.0, *examples_of(json_values(*scalars))]
    again = _as_a_browser_writes(json.loads(json.dumps(values)))
    for received, value in zip(editing.edited(values, again), values, strict=True):
        assert repr(received) == repr(value)


def _as_a_browser_writes(value: Any) -> Any:
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: not item[0].isdecimal())
        return {key: _as_a_browser_writes(inner) for key, inner in items}
    if isinstance(value, list):
        return [_as_a_browser_writes(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.mark.parametrize(
    ("original", "edited", "kept"),
    [
        ({"b": 1.0, "2": 2, "1": 3}, {"1": 3, "2": 5, "b": 1}, {"b": 1.0, "2": 5, "1": 3}),
        ({"a": [1.0, 2.0]}, {"a": [1, 3, 4], "new": 5}, {"a": [1.0, 3, 4], "new": 5}),
        ({"a": 1, "b": 2}, {"b": 2}, {"b": 2}),
        ({"a": [1, 2, 3]}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": True}, {"a": True}),  # 1 == True in Python
        ([True, 0], [1, False], [1, False]),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
    ],
)
def test_unchanged_parts_of_edited_arguments_are_kept(
    editing: Editing, original: Any, edited: Any, kept: Any
) -> None:
    assert repr(editing.edited(original, edited)) == repr(kept)


@pytest.mark.parametrize("is_paused", [False, True])
def test_run_is_stopped_and_only_then_deleted(*, is_paused: bool) -> None:
    with talking(send() if is_paused else LONG, "Done.", delay=0.02) as client:
        run_id = client.run(until="paused") if is_paused else client.start()
        path = f"/api/runs/{run_id}"
        assert "owner" not in client.show(run_id)
        if not is_paused:
            assert client.show(run_id)["is_driven"] is True
            assert client.delete(path).status_code == 409
        assert client.stop(run_id, reason="enough").status_code == 204
        client.until(run_id, "stopped")
        assert client.stop(run_id).status_code == 204  # already stopped
        [stopped] = only(client.events(run_id, "?after=0"), ev.RunStopped)
        assert stopped.reason == "enough"
        assert client.delete(path).status_code == 204
        assert [client.status(path), client.status(f"{path}/events")] == [404, 404]
    assert client.effects.seen == []


def test_list_that_has_not_changed_is_304() -> None:
    with paused() as (client, run_id):
        path = "/api/runs?limit=7"
        eventually(lambda: not client.listed("?limit=7")[0]["is_driven"])
        listed = client.get(path)
        kept = {"if-none-match": listed.headers["etag"]}
        again = client.get(path, **kept)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == listed.headers["etag"]
        for one in (listed, again):
            assert one.headers["cache-control"] == "private, no-cache"
        assert client.get("/api/runs?status=failed", **kept).json() == {"runs": []}
        client.approve(run_id)
        changed = client.get(path, **kept)
        assert changed.status_code == 200
        assert changed.headers["etag"] != listed.headers["etag"]


def test_runs_are_listed_newest_first_by_status_and_conversation() -> None:
    with talking("One.", "Two.", send(), "Three.") as client:
        first, second = (client.run(conversation="a") for _ in range(2))
        third = client.run("x" * 500, conversation="b", until="paused")
        for query, expected in (
            ("", [third, second, first]),
            ("?status=completed", [second, first]),
            ("?conversation=a&limit=1", [second]),
        ):
            assert [run["run"] for run in client.listed(query)] == expected
        assert [run["prompt"] for run in client.listed()] == ["x" * 200, "Go", "Go"]
        assert client.show(third)["prompt"] == "x" * 200
        for query in ("?status=nice", "?limit=0"):
            assert client.status(f"/api/runs{query}") == 422


def log(client: Client, run_id: str, query: str = "") -> list[Frame]:
    answer = client.get(f"/api/runs/{run_id}/log{query}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert not answer.content or answer.content.endswith(b"\n")
    return [decode(line) for line in answer.content.splitlines()]


def logged(store: MemoryStore) -> tuple[Agent, list[Record]]:
    """An agent with a run of more than two pages: a call whose arguments come in small pieces."""
    text = '{"path": "a.txt", "content": "' + "line\\n" * 200 + '"}'
    deltas = [ev.ToolArgsDelta("c1", "write", text[at : at + 6]) for at in range(0, len(text), 6)]
    start = (ev.RunStarted(RUN, "Go"), ev.TurnStarted(1), ev.ToolCallStarted("c1", 0, "write"))
    feeding = Feeding(store)
    asyncio.run(feeding.write(*start, *deltas, ev.RunCompleted("done")))
    assert len(feeding.records) > 200
    return agent_for("Done.", store=store, name="agent")[0], feeding.records


def test_log_has_a_frame_per_record_and_starts_after_any_seq() -> None:
    agent, records = logged(MemoryStore())
    with served(agent) as client:
        frames = log(client, RUN)
        for after in (0, 1, 100, 151, len(records) - 1):
            assert log(client, RUN, f"?after={after}") == frames[after:]
        assert log(client, RUN, f"?after={len(records) + 5}") == []
        assert client.status(f"/api/runs/{RUN}/log?after=x") == 422
    stored = [(record.seq, record.time, record.event) for record in records]
    assert [(frame.seq, frame.time, frame.event) for frame in frames] == stored
    events = [event for frame in frames for event in (content(frame), *frame.arguments)]
    assert events == list(with_arguments(record.event for record in records))


def test_log_of_a_run_in_progress_ends_and_counts_as_a_viewer() -> None:
    def log_is_refused_while_watched() -> bool:
        with client.http.stream("GET", f"/api/runs/{run_id}/events") as response:
            if response.status_code != 200:
                return False  # the request for the log still counts
            assert client.status(f"/api/runs/{run_id}/log") == 503
            return True

    with paused(limits=Limits(max_viewers=1)) as (client, run_id):
        assert isinstance(log(client, run_id)[-1].event, ev.RunPaused)
        eventually(log_is_refused_while_watched)
        eventually(lambda: client.status(f"/api/runs/{run_id}/log") == 200)


class VanishingStore(MemoryStore):
    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        if after:
            await self.delete(run_id)
        return await super().read(run_id, after, limit)


def test_log_of_a_run_that_is_deleted_meanwhile_ends() -> None:
    with served(logged(VanishingStore())[0]) as client:
        assert len(log(client, RUN)) == 100


def conversations(client: Client) -> list[Any]:
    listed: list[Any] = client.get("/api/conversations").json()["conversations"]
    return listed


def test_conversations_are_listed_with_the_state_of_their_newest_run() -> None:
    with talking("One.", "Two.", SEND) as client:
        first = client.show(client.run("Count", "c1"))
        second = client.show(client.run("Again", "c1"))
        third = client.show(client.run("Mail", "c2", until="paused"))
        answer = client.get("/api/conversations")
        listed = answer.json()
        assert (listed["agent"], listed["model"]) == ("agent", "scripted")
        [mail, count] = listed["conversations"]
        assert mail == {
            "conversation": "c2",
            "title": "Mail",
            "created": third["created"],
            "updated": third["updated"],
            "run": third["run"],
            "status": "paused",
            "is_driven": False,
            "pending": 1,
        }
        assert (count["title"], count["created"]) == ("Count", first["created"])
        assert (count["run"], count["status"]) == (second["run"], "completed")
        known = {"if-none-match": answer.headers["etag"]}
        assert client.status("/api/conversations", **known) == 304
        assert [
            one["conversation"]
            for one in client.get("/api/conversations?limit=1").json()["conversations"]
        ] == ["c2"]
        assert client.status("/api/conversations?limit=0") == 422


def test_conversation_is_renamed_deleted_and_restored() -> None:
    with talking("One.", "Two.", SEND) as client:
        client.run("Count", "a/b c")
        path = "/api/conversations/a%2Fb%20c"
        renamed = client.http.patch(path, json={"title": "Numbers"}, headers=client.headers)
        assert renamed.status_code == 204
        assert [one["title"] for one in conversations(client)] == ["Numbers"]
        assert client.http.patch(path, json={"title": ""}).status_code == 422
        assert client.http.patch("/api/conversations/x", json={"title": "X"}).status_code == 404
        assert client.delete(path).status_code == 204
        assert conversations(client) == client.listed("?conversation=a/b c") == []
        assert client.post(f"{path}/restore").status_code == 204
        assert len(conversations(client)) == len(client.listed("?conversation=a/b c")) == 1
        client.delete(path)
        client.run("Go on", "a/b c")
        assert [one["title"] for one in conversations(client)] == ["Numbers"], "a message restores"


def test_conversation_with_a_running_run_is_not_deleted() -> None:
    with talking(LONG, "Done.", delay=0.05) as client:
        run_id = client.start("Write", "c1")
        assert problem(client.delete("/api/conversations/c1")) == (409, "run-taken")
        client.stop(run_id)
        client.until(run_id, "stopped")
        assert client.delete("/api/conversations/c1").status_code == 204
        assert problem(client.delete("/api/conversations/nothing")) == (404, "unknown-conversation")


def test_conversations_of_other_users_and_agents_are_unknown() -> None:
    store = MemoryStore()
    with talking("One.", store=store, name="hr") as client:
        client.run("Salaries", "c1")
    with talking("Two.", store=store, name="public") as client:
        assert conversations(client) == []
        for answer in (
            client.delete("/api/conversations/c1"),
            client.post("/api/conversations/c1/restore"),
            client.http.patch("/api/conversations/c1", json={"title": "Mine"}),
        ):
            assert problem(answer) == (404, "unknown-conversation")


def test_runs_of_a_deleted_conversation_are_deleted_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with talking("One.", recovery_seconds=0.02) as client:
        run_id = client.run("Count", "c1")
        client.delete("/api/conversations/c1")
        assert client.status(f"/api/runs/{run_id}") == 200
        monkeypatch.setattr("argstream.server._runs._KEEP_DELETED", 0.0)
        eventually(lambda: client.status(f"/api/runs/{run_id}") == 404)
        assert problem(client.post("/api/conversations/c1/restore"))[0] == 404


def test_old_conversations_are_found_without_reading_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("argstream.server._runs._RECENT_RUNS", 1)
    with talking(*["Yes."] * 4) as client:
        for number in range(4):
            client.run("Go", f"c{number}")
        for _ in range(2):
            assert [one["conversation"] for one in conversations(client)] == [
                "c3",
                "c2",
                "c1",
                "c0",
            ]


def test_last_run_is_tried_again_with_the_messages_before_it() -> None:
    with talking("{}", count, count, count, count) as client:
        first = client.run("One", "c1")
        second = client.run("Two", "c1")

        def again(message: str, replaces: str) -> httpx.Response:
            body = {"message": message, "conversation": "c1", "replaces": replaces}
            return client.post("/api/runs", body)

        assert problem(again("Two", first)) == (409, "conversation-changed")
        assert problem(again("Two", "run_unknown")) == (409, "conversation-changed")
        third = again("Two, edited", second).json()["run"]
        assert client.until(third, "completed")["replaces"] == second
        [snapshot] = [one for one in client.events(third) if isinstance(one, ev.RunSnapshot)]
        assert (snapshot.prompt, snapshot.replaces) == ("Two, edited", second)
        history = [message.parts for message in snapshot.history]
        assert history == [(TextPart(text="One"),), (TextPart(text="{}"),)]
        listed = client.listed("?conversation=c1")
        assert [(run["run"], run["replaces"]) for run in listed] == [
            (third, second), (second, ""), (first, "")
        ]  # fmt: skip
        fourth = client.run("Three", "c1")
        [answer] = [one for one in client.events(fourth) if isinstance(one, ev.RunSnapshot)]
        assert isinstance(answer.end, ev.RunCompleted)
        assert answer.end.result == "5 messages.", "without the second run"


def test_run_that_is_not_over_is_not_replaced() -> None:
    with talking(SEND, "Sent.") as client:
        run_id = client.run("Mail", "c1", until="paused")
        body = {"message": "Mail", "conversation": "c1", "replaces": run_id}
        assert problem(client.post("/api/runs", body)) == (409, "conversation-busy")

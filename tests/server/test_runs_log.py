"""What pages of one's own need of runs: their logs, their prompts, a stream without the past."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from argstream import Agent
from argstream import events as ev
from argstream.errors import StoreFailure
from argstream.models import CallTool, Reply, Say, ScriptedModel
from argstream.protocols.native import Frame
from argstream.runs import MemoryStore, Record, with_arguments
from argstream.server import Limits
from tests.agent.following import only
from tests.server.stalling import Stalled
from tests.server.talking import Client, agent_for, eventually, folded, paused, served
from tests.server.watching import RUN, Feeding

WRITING = Reply(Say("word " * 40), CallTool("write", {"path": "a.txt", "content": "line\n" * 40}))
_decode = msgspec.json.Decoder(Frame).decode


def log(client: Client, run_id: str, query: str = "") -> list[Frame]:
    answer = client.get(f"/api/runs/{run_id}/log{query}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert not answer.content or answer.content.endswith(b"\n")
    return [_decode(line) for line in answer.content.splitlines()]


def fed(*events: ev.Event, store: MemoryStore | None = None) -> tuple[Agent, list[Record]]:
    """Give an agent with a run of these events, each a record."""
    agent, _ = agent_for("Done.", store=store, name="agent")
    assert agent.store is not None
    feeding = Feeding(agent.store)
    asyncio.run(feeding.write(*events))
    return agent, feeding.records


def writing() -> list[ev.Event]:
    """A call whose arguments come in small pieces."""
    text = '{"path": "a.txt", "content": "' + "line\\n" * 200 + '"}'
    pieces = [text[start : start + 6] for start in range(0, len(text), 6)]
    return [
        ev.RunStarted(RUN, "Go"),
        ev.TurnStarted(1),
        ev.ToolCallStarted("c1", 0, "write"),
        *(ev.ToolArgsDelta("c1", "write", piece) for piece in pieces),
        ev.RunCompleted("done"),
    ]


class TestLog:
    def test_has_a_frame_for_each_record_with_its_time_and_its_arguments(self) -> None:
        agent, records = fed(*writing())
        with served(agent) as client:
            frames = log(client, RUN)
        assert [(frame.seq, frame.time, frame.event) for frame in frames] == [
            (record.seq, record.time, record.event) for record in records
        ]
        told = [event for frame in frames for event in (frame.event, *frame.arguments)]
        assert told == list(with_arguments(record.event for record in records))

    def test_is_read_in_pages_and_goes_on_after_any_record(self) -> None:
        agent, records = fed(*writing())
        assert len(records) > 200  # more than two pages
        with served(agent) as client:
            frames = log(client, RUN)
            for after in (0, 1, 100, 151, len(records) - 1):
                assert log(client, RUN, f"?after={after}") == frames[after:]
            assert log(client, RUN, f"?after={len(records) + 5}") == []
            assert client.get(f"/api/runs/{RUN}/log?after=x").status_code == 422
            assert client.get(f"/api/runs/{RUN}/log?history=x").status_code == 422

    def test_ends_with_what_is_there(self) -> None:
        with paused() as (client, run_id, _):
            assert isinstance(log(client, run_id)[-1].event, ev.RunPaused)

    def test_leaves_out_what_was_said_before_if_that_is_asked(self) -> None:
        agent, _ = agent_for("One.", "Two.")
        with served(agent) as client:
            client.until(client.start(conversation="talk"), "completed")
            run_id = client.start(conversation="talk")
            client.until(run_id, "completed")
            [started] = only((frame.event for frame in log(client, run_id)), ev.RunStarted)
            assert len(started.history) == 2
            events = [frame.event for frame in log(client, run_id, "?history=false")]
            assert only(events, ev.RunStarted)[0].history == ()

    def test_takes_the_place_of_a_viewer(self) -> None:
        agent, _ = agent_for("word " * 500, "Done.", delay=0.01)
        with served(agent, limits=Limits(max_viewers=1)) as client:
            run_id = client.start()
            with client.http.stream("GET", f"/api/runs/{run_id}/events"):
                assert client.get(f"/api/runs/{run_id}/log").status_code == 503
            eventually(lambda: client.get(f"/api/runs/{run_id}/log").status_code == 200)

    def test_of_a_run_that_is_deleted_meanwhile_ends(self) -> None:
        agent, _ = fed(*writing(), store=Vanishing())
        with served(agent) as client:
            assert len(log(client, RUN)) == 100

    @pytest.mark.bulk
    def test_of_one_who_does_not_read_is_dropped(self) -> None:
        reply = Reply(Say("x" * 4_000_000), piece_size=20_000)
        agent = Agent(ScriptedModel(reply), store="memory:")
        with served(agent, limits=Limits(stalled_seconds=0.3)) as client:
            run_id = client.start()
            client.until(run_id, "completed")
            stalled = Stalled(str(client.http.base_url), run_id, "log")
            try:
                assert stalled.is_dropped(5.0)
            finally:
                stalled.close()


class Vanishing(MemoryStore):
    """Forgets a run as soon as a second page of it is read."""

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        if after:
            await self.delete(run_id)
        return await super().read(run_id, after, limit)


class TestPrompts:
    def listed(self, client: Client) -> list[str]:
        return [run["prompt"] for run in client.get("/api/runs").json()["runs"]]

    def test_are_told_as_far_as_a_list_has_room(self) -> None:
        agent, _ = agent_for("One.", "Two.")
        with served(agent) as client:
            client.until(client.start("First\nof all"), "completed")
            run_id = client.start("x" * 500)
            client.until(run_id, "completed")
            assert self.listed(client) == ["x" * 200, "First\nof all"]
            assert client.show(run_id)["prompt"] == "x" * 200

    def test_are_those_of_the_log_for_runs_of_another_process(self) -> None:
        store = Counting()
        agent, _ = agent_for("One.", "Two.", "Three.", store=store)
        with served(agent) as client:
            for prompt in ("1", "2", "3"):
                client.until(client.start(prompt), "completed")
            assert store.reads == 0  # what was begun here is known
        again, _ = agent_for("No.", store=store)
        with served(again) as client:
            assert self.listed(client) == ["3", "2", "1"]
            assert store.reads == 3
            assert self.listed(client) == ["3", "2", "1"]
            assert store.reads == 3

    def test_that_cannot_be_read_do_not_hide_the_rest_and_are_tried_again_after_a_while(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = Counting()
        agent, _ = agent_for("One.", "Two.", "Three.", store=store)
        with served(agent) as client:
            runs = [client.start(prompt, f"talk-{prompt}") for prompt in ("1", "2", "3")]
            for run_id in runs:
                client.until(run_id, "completed")
        again, _ = agent_for("No.", store=store)
        store.broken, store.empty = runs[0], runs[1]
        real, passed = time.monotonic, 0.0
        monkeypatch.setattr(time, "monotonic", lambda: real() + passed)
        with served(again, limits=Limits(keep_alive_seconds=1_000)) as client:
            for seconds, reads in ((0, 3), (30, 3), (60, 5), (20, 5)):
                passed += seconds
                assert sorted(self.listed(client)) == ["", "", "3"]
                assert store.reads == reads
            store.broken = store.empty = ""
            assert sorted(self.listed(client)) == ["", "", "3"]
            passed += 60
            assert sorted(self.listed(client)) == ["1", "2", "3"]
        told = "what the run %s was asked cannot be read: "
        assert [message for message in caplog.messages if "cannot be read" in message] == [
            f"{told % runs[1]}its log does not begin with the start of a run",
            f"{told % runs[0]}its file is gone",
        ], "told once"

    def test_are_forgotten_with_their_runs(self) -> None:
        store = Counting()
        agent, _ = agent_for("One.", store=store)
        with served(agent) as client:
            run_id = client.start("a secret")
            client.until(run_id, "completed")
            assert client.delete(f"/api/runs/{run_id}").status_code == 204
            assert self.listed(client) == []


class Counting(MemoryStore):
    """Counts how often first records are read; some cannot be."""

    reads = 0
    broken = ""
    empty = ""

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        if limit == 1:
            self.reads += 1
        if run_id == self.broken:
            raise StoreFailure("its file is gone")
        return [] if run_id == self.empty else await super().read(run_id, after, limit)


def streamed(client: Client, path: str, body: Any, accept: str = "text/event-stream") -> Any:
    return client.http.stream("POST", path, json=body, headers={"accept": accept})


def frames_in(lines: Iterator[str]) -> list[Frame]:
    return [_decode(line[6:]) for line in lines if line.startswith("data: ")]


class TestBeginningAndFollowing:
    def test_the_answer_to_a_message_is_its_run(self) -> None:
        agent, _ = agent_for(WRITING, "Done.", delay=0.002)
        body = {"message": "Go", "conversation": "talk 1"}
        with served(agent) as client:
            with streamed(client, "/api/runs", body) as answer:
                assert answer.status_code == 200
                assert answer.headers["content-type"].startswith("text/event-stream")
                run_id = answer.headers["x-argstream-run"]
                assert answer.headers["x-argstream-conversation"] == "talk%201"
                assert answer.headers["location"] == f"/api/runs/{run_id}"
                frames = frames_in(answer.iter_lines())
            assert isinstance(frames[0].event, ev.RunSnapshot)
            assert frames[0].session_id == "talk 1"
            assert isinstance(frames[-1].event, ev.RunCompleted)
            seen = folded([frame.event for frame in frames])
            assert seen == folded(client.events(run_id))

    def test_who_leaves_comes_again_by_the_number_of_the_last_event(self) -> None:
        agent, _ = agent_for(WRITING, "Done.", delay=0.004)
        with served(agent) as client:
            seen: list[Frame] = []
            with streamed(client, "/api/runs", {"message": "Go"}) as answer:
                run_id = answer.headers["x-argstream-run"]
                for line in answer.iter_lines():
                    seen += frames_in(iter([line]))
                    if len(seen) == 3:
                        break
            seen += client.frames(run_id, f"?after={seen[-1].seq}&history=false")
            assert folded([frame.event for frame in seen]) == folded(client.events(run_id))

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
    def test_only_who_says_so_is_given_it(self, accept: str, status: int) -> None:
        agent, _ = agent_for("Done.")
        with (
            served(agent) as client,
            streamed(client, "/api/runs", {"message": "Go"}, accept) as it,
        ):
            assert it.status_code == status

    def test_what_is_refused_begins_nothing(self) -> None:
        agent, _ = agent_for("Done.")
        events = {"accept": "text/event-stream"}
        with served(agent) as client:
            for path, message in (("/api/runs", " "), ("/api/runs?history=no", "Hi")):
                assert client.post(path, {"message": message}, **events).status_code == 422
            assert client.get("/api/runs").json() == {"runs": []}


class TestWithoutHistory:
    def test_what_was_said_before_the_run_is_left_out(self) -> None:
        agent, _ = agent_for("One.", "Two.", delay=0.005)
        with served(agent) as client:
            client.until(client.start(conversation="talk"), "completed")
            body = {"message": "And?", "conversation": "talk"}
            with streamed(client, "/api/runs?history=false", body) as answer:
                run_id = answer.headers["x-argstream-run"]
                told = frames_in(answer.iter_lines())
            assert isinstance(told[0].event, ev.RunSnapshot)
            assert told[0].event.history == ()
            everything = client.events(run_id, "?after=0&history=false")
            assert only(everything, ev.RunStarted)[0].history == ()
            assert len(folded(client.events(run_id)).history) == 2
            assert len(folded(client.events(run_id, "?history=true")).history) == 2
            [whole] = only(client.events(run_id, "?history=false"), ev.RunSnapshot)
            assert (whole.history, whole.prompt) == ((), "And?")
            assert client.get(f"/api/runs/{run_id}/events?history=").status_code == 422

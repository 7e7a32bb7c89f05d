"""Several processes over one store behave as one: follow, decide and stop anywhere, survive one."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from argstream.events import Event, RunResumed, SeenText
from tests.agent.following import only
from tests.runs.redis_server import RedisServer
from tests.server.program import WORDS
from tests.server.raw import connect
from tests.server.talking import Client, eventually, folded

ROOT = Path(__file__).parents[2]


class Process(Client):
    """A server process, and a client of it."""

    def __init__(self, process: "subprocess.Popen[str]", http: httpx.Client) -> None:
        super().__init__(http)
        self.process = process


@contextmanager
def two(store: str, effects: Path) -> Iterator[tuple[Process, Process]]:
    """Start two servers over one store."""
    command = [sys.executable, "-m", "tests.server.program", store, str(effects)]
    with ExitStack() as stack:
        processes = []
        for _ in range(2):
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            processes.append(process)
        one, other = (stack.enter_context(_client(process)) for process in processes)
        yield one, other


@contextmanager
def _client(process: "subprocess.Popen[str]") -> Iterator[Process]:
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url, "the server does not start"
    with httpx.Client(base_url=url, timeout=20) as http:
        yield Process(process, http)


@pytest.fixture(params=["redis", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "runs.db")
        return
    with RedisServer() as server:
        yield server.url


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    file = tmp_path / "effects"
    file.touch()
    return file


def said(events: list[Event]) -> str:
    """What was said last, also by who began the run before it was left."""
    return "\n".join(block.text for block in folded(events).blocks if isinstance(block, SeenText))


def test_a_run_of_one_process_is_followed_decided_and_stopped_in_another(
    store: str, effects: Path
) -> None:
    with two(store, effects) as (one, other):
        run_id = one.start()
        here, there = Followed(one, run_id), Followed(other, run_id)
        [request] = one.until(run_id, "paused")["pending"]
        decision = {request["call_id"]: {"decision": "approve", "digest": request["digest"]}}
        answers = [
            client.post(f"/api/runs/{run_id}/decisions", {"decisions": decision})
            for client in (other, one, other)
        ]
        assert [answer.status_code for answer in answers] == [202, 403, 403]
        assert folded(here.events()) == folded(there.events())
        assert folded(here.events()).status == "completed"
        assert effects.read_text() == "ada\n"

        second = one.start()
        other.post(f"/api/runs/{second}/stop")
        one.until(second, "stopped")


def test_when_one_is_killed_midway_the_other_goes_on_and_nothing_is_lost_or_done_twice(
    store: str, effects: Path
) -> None:
    with two(store, effects) as (one, other):
        run_id = one.start()
        there = Followed(other, run_id)
        eventually(lambda: len(there.seen) > 5)
        one.process.kill()
        other.until(run_id, "paused")
        other.decide(run_id, decision="approve")
        events = there.events()
        assert only(events, RunResumed)[0].cause == "crash"
        assert folded(events) == folded(other.events(run_id))
        assert effects.read_text() == "ada\n"
        lost = folded(events).blocks[0]
        assert isinstance(lost, SeenText)
        assert lost.is_lost
        assert WORDS.startswith(lost.text[:20])
        assert said(events).endswith(f"sent to ada {WORDS}")


def test_a_server_that_ends_in_order_tells_viewers_to_come_again_and_leaves_its_runs(
    store: str, effects: Path
) -> None:
    with two(store, effects) as (one, other):
        run_id = one.start()
        with one.http.stream("GET", f"/api/runs/{run_id}/events") as answer:
            lines = answer.iter_lines()
            seen = [next(lines) for _ in range(6)]
            number = signal.SIGTERM if store.startswith("redis") else signal.SIGINT
            one.process.send_signal(number)
            rest = list(lines)  # it ends in order: no error
        assert rest[-3:] == ["retry: 1000", ": the server ends; come again", ""]
        assert one.process.wait(10) == 0
        last = [line[4:] for line in (*seen, *rest) if line.startswith("id: ")][-1]
        other.until(run_id, "paused")  # soon, as the claim was given up
        other.decide(run_id, decision="deny")
        rest_there = list(other.frames(run_id, **{"Last-Event-ID": last}))
        assert rest_there[0].seq > int(last)
        assert folded([frame.event for frame in rest_there]).status == "completed"


class Followed:
    """A run that is followed in the background, as a page does."""

    def __init__(self, client: Client, run_id: str) -> None:
        self.seen: list[Event] = []
        self._thread = threading.Thread(target=self._follow, args=(client, run_id), daemon=True)
        self._thread.start()

    def _follow(self, client: Client, run_id: str) -> None:
        for frame in client.frames(run_id):
            self.seen.append(frame.event)

    def events(self) -> list[Event]:
        """Give all events, when the run is over."""
        self._thread.join(20)
        assert not self._thread.is_alive(), "the run does not end"
        return self.seen


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with two(str(tmp_path / "runs.db"), tmp_path / "effects") as (one, _):
        run_id = one.start()
        with connect(one.http.base_url.port or 0) as slow:
            slow.sendall(
                b"POST /api/runs HTTP/1.1\r\nhost: localhost\r\n"
                b"content-type: application/json\r\ncontent-length: 50\r\n\r\n"
            )
            with one.http.stream("GET", f"/api/runs/{run_id}/events") as answer:
                lines = answer.iter_lines()
                next(lines)
                one.process.send_signal(signal.SIGTERM)
                assert ": the server ends; come again" in list(lines)
            one.process.send_signal(signal.SIGTERM)  # while the request is waited for
            assert one.process.wait(timeout=4) == -signal.SIGTERM


@pytest.mark.parametrize("app", ["alone", "mounted"])
def test_under_plain_uvicorn_it_ends_in_order_as_well(app: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "uvicorn", f"tests.server.uvicorn_apps:{app}", "--port", "0"]
    environment = {**os.environ, "STORE": str(tmp_path / "runs.db")}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "running on" in line)
            [url] = re.findall(r"http://[\d.:]+", line)
            with httpx.Client(base_url=url, timeout=20) as http:
                client = Client(http)
                run_id = client.start()
                with http.stream("GET", f"/api/runs/{run_id}/events") as answer:
                    lines = answer.iter_lines()
                    next(lines)
                    process.send_signal(signal.SIGTERM)
                    assert list(lines)[-3:] == ["retry: 1000", ": the server ends; come again", ""]
            # uvicorn raises the signal again when it has ended in order.
            assert process.wait(10) in (0, -signal.SIGTERM)
        finally:
            process.kill()

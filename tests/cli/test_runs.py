"""argstream runs, and replay and inspect of a run, on real stores."""

import asyncio
import json
import signal
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from msgspec.structs import replace

from argstream import events as e
from argstream.history import Message
from argstream.runs import Record, from_json, open_store
from tests.cli.in_process import argstream, refused, timeless
from tests.cli.processes import running
from tests.runs.redis_server import RedisServer
from tests.support import screen

Timed = tuple[float, e.Event]

RUN = "run_0a1b2c3d4e5f"
MESSAGE = Message(role="assistant", parts=())


def turn_ended(reason: str = "tool_use") -> e.TurnCompleted:
    return e.TurnCompleted(reason, MESSAGE, e.Usage(7, 5))


def call(at: float, call_id: str, name: str, raw: str, arguments: dict[str, Any]) -> list[Timed]:
    """A call that is written in two pieces."""
    half = len(raw) // 2
    return [
        (at, e.ToolCallStarted(call_id, 0, name)),
        (at + 0.1, e.ToolArgsDelta(call_id, name, raw[:half])),
        (at + 0.2, e.ToolArgsDelta(call_id, name, raw[half:])),
        (at + 0.3, e.ToolArgsCompleted(call_id, name, arguments)),
    ]


REQUEST = e.ApprovalRequested(
    "c1", "send", {"to": "ada", "text": "one\ntwo"}, "digest", "send must be confirmed"
)
# Waits for an approval.
PAUSED: list[Timed] = [
    (0.0, e.RunStarted(RUN, "Send a mail\nto Ada")),
    (0.0, e.TurnStarted(1)),
    (0.1, e.TextDelta("I send it.", 0)),
    *call(0.2, "c1", "send", '{"to": "ada", "text": "one\\ntwo"}', REQUEST.arguments),
    (0.5, REQUEST),
    (0.6, turn_ended()),
    (0.6, e.RunPaused(RUN, (REQUEST,))),
]
# Was paused for more than an hour.
FINISHED: list[Timed] = [
    *PAUSED,
    (4000.6, e.RunResumed(RUN)),
    (4000.6, e.ApprovalDecided("c1", "send", "edited", "not him", {"to": "eve"}, "conversation")),
    (4000.7, e.ToolExecutionStarted("c1", "send", "key")),
    (4000.8, e.ToolOutputDelta("c1", "send", "dialling\n")),
    (4000.9, e.ToolOutputDelta("c1", "send", "sent")),
    (4001.0, e.ToolCallCompleted("c1", "send", {"to": "eve"}, {"sent": True})),
    (4001.0, e.TurnStarted(2)),
    (4001.1, e.TextDelta("It is sent.", 1)),
    (4001.2, turn_ended("end_turn")),
    (4001.2, e.RunCompleted("It is sent.", e.Usage(14, 10), "end_turn", RUN)),
]
MALFORMED = e.ArgumentsError("unexpected_character", "this character cannot stand here", 7)
# Crashed in its first turn, was resumed, and crashed again.
CRASHED: list[Timed] = [
    (0.0, e.RunStarted(RUN, "Count")),
    (0.0, e.TurnStarted(1)),
    *call(0.1, "c1", "count", '{"to": 3}', {"to": 3}),
    (0.5, e.ToolExecutionStarted("c1", "count", "key")),
    (9.0, e.RunResumed(RUN, "crash", ("c1",), "count was cut off")),
    (9.0, e.ToolCallFailed("c1", "count", "it was interrupted")),
    (9.0, e.TurnStarted(1, 2)),
    (9.1, e.ToolCallStarted("c2", 0, "count")),
    (9.2, e.ToolArgsDelta("c2", "count", '{"to": x')),
    (9.2, e.ToolArgsInvalid("c2", "count", "malformed", '{"to": x', MALFORMED)),
    (9.3, e.ToolCallFailed("c2", "count", "it was not run")),
]


def records_of(
    events: Sequence[Timed], run_id: str = RUN, agent: str = "mailer", start: float = 0.0
) -> list[Record]:
    """Return the events as records of a run with this ID."""
    own = [
        replace(event, run_id=run_id) if getattr(event, "run_id", "") else event
        for _, event in events
    ]
    return [
        Record(seq, start + at, run_id, "session_1", agent, event)
        for seq, ((at, _), event) in enumerate(zip(events, own, strict=True), 1)
    ]


def logged(
    store: Path | str,
    events: Sequence[Timed] = FINISHED,
    run_id: str = RUN,
    *,
    agent: str = "mailer",
    began: float | None = None,
    owner: str | None = None,
) -> str:
    """Write a run, which holds a lease only if an owner is named. Return the store's name."""
    start = time.time() - events[-1][0] if began is None else began
    records = records_of(events, run_id, agent, start)

    async def write() -> None:
        opened = open_store(store)
        lease = await opened.create(records, owner or "a test", 3600.0)
        if owner is None:
            await opened.release(lease)
        await opened.aclose()

    asyncio.run(write())
    return str(store)


SHOWN = "\n".join([*screen("replay-of-a-run"), ""])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def lines_of(columns: int, *arguments: str) -> list[str]:
    """Return the lines of a command whose terminal is this wide."""
    done = argstream(*arguments, COLUMNS=str(columns))
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


class TestList:
    def test_each_run_is_one_line(self, store: Path) -> None:
        logged(store, CRASHED, "run_crashed_long_ago", agent="mailer", began=time.time() - 7300)
        logged(store, FINISHED, "run_finished", began=time.time() - 4001.2 - 200)
        logged(store, PAUSED, "run_paused", began=time.time() - 70)
        lines = lines_of(70, "runs", "--store", str(store))
        assert lines == [
            "STATUS            AGE    ID        PROMPT",
            "! needs approval  1 min  paused    Send a mail to Ada  send",
            "✓ done            3 min  finished  Send a mail to Ada",
            "‖ interrupted     2 h    crashed_  Count",
        ]
        assert lines == lines_of(70, "runs", "list", "--store", str(store))

    def test_expired_request_cannot_be_decided(self, store: Path) -> None:
        expired = replace(REQUEST, expires_at=time.time() - 1)
        logged(store, [(at, expired if one is REQUEST else one) for at, one in PAUSED])
        assert "‖ paused" in lines_of(70, "runs", "--store", str(store))[1]
        for command in ("approve", "deny"):
            message = refused("runs", command, RUN, "--store", str(store))
            assert "call c1 (send) can't be decided: its approval has expired. " in message
            assert message.endswith(f"argstream runs resume 0a1b2c3d --store {store}")

    def test_agents_have_a_column_if_there_are_several(self, store: Path) -> None:
        logged(store, CRASHED, "run_one", owner="worker 7")
        logged(store, FINISHED, "run_two", agent="reader")
        lines = lines_of(70, "runs", "--store", str(store))
        assert lines[0].split() == ["STATUS", "AGE", "ID", "AGENT", "PROMPT"]
        assert {tuple(line.split()[1:2] + line.split()[4:6]) for line in lines[1:]} == {
            ("running", "one", "mailer"),
            ("done", "two", "reader"),
        }

    def test_ids_are_long_enough_to_tell_them_apart(self, store: Path) -> None:
        for run_id in ("order-2026-11-a", "order-2026-11-b"):
            logged(store, FINISHED, run_id)
        ids = [line.split()[4] for line in lines_of(80, "runs", "--store", str(store))[1:]]
        assert ids == ["order-2026-11-b", "order-2026-11-a"]

    @pytest.mark.parametrize("columns", [40, 60, 200])
    def test_lines_fit_the_terminal_and_cannot_act_on_it(self, store: Path, columns: int) -> None:
        prompt: list[Timed] = [(0.0, e.RunStarted(RUN, "go \x1b[2J" + "on and " * 40))]
        logged(store, [*prompt, *PAUSED[1:]])
        logged(store, prompt, "run_2", agent="an agent \x1b]52;c;x\x07 with a long name " * 3)
        lines = lines_of(columns, "runs", "--store", str(store))
        assert len(lines) == 3
        assert max(map(len, lines)) < columns
        assert "\x1b" not in "".join(lines)

    def test_colours_are_only_for_terminals(
        self, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        logged(store)
        assert b"\x1b" not in argstream("runs", "--store", str(store)).stdout
        coloured = argstream("runs", "--store", str(store), FORCE_COLOR="1").stdout
        assert b"\x1b[32m\xe2\x9c\x93 done" in coloured

    def test_status_and_limit_select_runs(self, store: Path) -> None:
        for number in range(3):
            logged(store, PAUSED, f"run_paused_{number}")
        logged(store, FINISHED)
        options = ("runs", "--store", str(store))
        found = argstream(*options, "--status", "paused", "--limit", "2")
        assert found.stdout.decode().count("needs approval") == 2
        assert found.stderr.startswith(b"More runs exist. Use --limit 4 to see them.\n")
        none = argstream(*options, "--status", "failed")
        assert (none.returncode, none.stdout) == (0, b"no runs found with status failed\n")
        message = refused(*options, "--status", "gone")
        assert message.startswith("argstream: --status must be one of running, completed, paused")

    def test_json_is_one_run_a_line(self, store: Path) -> None:
        async def make_empty() -> None:
            async with aclosing(open_store(store)) as opened:
                await opened.runs()

        asyncio.run(make_empty())
        for arguments, output in (([], b"no runs found\n"), (["--json"], b"")):
            done = argstream("runs", "--store", str(store), *arguments)
            assert (done.returncode, done.stdout, done.stderr) == (0, output, b"")
        logged(store, PAUSED)
        (line,) = argstream("runs", "--store", str(store), "--json").stdout.splitlines()
        found = json.loads(line)
        assert (found["run_id"], found["pending"]) == (RUN, {"c1": "digest"})
        assert (found["seq"], found["prompt"]) == (10, "Send a mail\nto Ada")

    def test_store_can_be_in_redis(self) -> None:
        with RedisServer(tcp=True) as server:
            logged(server.url, PAUSED)
            first = lines_of(60, "runs", "--store", server.url)[1]
            assert "0a1b2c3d" in first
            done = argstream("replay", "run:run_0", "--store", server.url, "--speed", "max")
        begun = SHOWN[: SHOWN.index("┄ 1 h")]
        assert timeless(done.stdout) == begun

    def test_default_store_is_named_by_the_environment_or_is_here(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("ARGSTREAM_STORE", raising=False)
        logged(tmp_path / "argstream.db", PAUSED, "run_here")
        logged(tmp_path / "other.db", PAUSED, "run_elsewhere")
        here = argstream("runs", "--json")
        assert json.loads(here.stdout)["run_id"] == "run_here"
        elsewhere = argstream("runs", "--json", ARGSTREAM_STORE="other.db")
        assert json.loads(elsewhere.stdout)["run_id"] == "run_elsewhere"

    @pytest.mark.parametrize("command", [["runs"], ["inspect", "run:x"]])
    def test_missing_store_is_not_created(self, store: Path, command: list[str]) -> None:
        message = refused(*command, "--store", str(store))
        assert "not found" in message
        assert "--store" in message
        assert not store.exists()

    def test_file_that_is_no_store_is_left_alone(self, store: Path) -> None:
        store.write_bytes(b"no database at all, but a text of some length" * 9)
        assert "not an SQLite database" in refused("runs", "--store", str(store))
        assert store.read_bytes().startswith(b"no database")


def replay(store: Path | str, *options: str) -> CompletedProcess[bytes]:
    return argstream("replay", f"run:{RUN}", "--store", str(store), "--speed", "max", *options)


class TestReplay:
    def test_run_is_shown_again(self, store: Path) -> None:
        done = replay(logged(store))
        assert (done.returncode, done.stderr) == (0, b"")
        assert timeless(done.stdout).replace(str(store), "runs.db") == SHOWN

    def test_crash_and_lost_turn_are_shown(self, store: Path) -> None:
        done = replay(logged(store, CRASHED))
        assert (done.returncode, done.stderr) == (1, b"")
        assert timeless(done.stdout).splitlines() == screen("replay-of-a-crash")

    def test_json_is_the_records(self, store: Path) -> None:
        done = replay(logged(store, began=0.0), "--json")
        assert done.stdout.isascii()
        assert [from_json(line) for line in done.stdout.splitlines()] == records_of(FINISHED)

    @pytest.mark.parametrize(
        ("speed", "pause", "least"), [("200", 100.0, 0.5), ("max", 3_600.0, 0.0)]
    )
    def test_pauses_last_as_long_as_the_speed_says(
        self, store: Path, speed: str, pause: float, least: float
    ) -> None:
        """At normal speed, the pauses would outlast the timeout of a test."""
        logged(store, [(0.0, e.RunStarted(RUN, "Go")), (pause, e.TextDelta("later", 0))])
        start = time.monotonic()
        assert b"later" in replay(store, "--speed", speed).stdout
        assert time.monotonic() - start >= least

    def test_run_is_named_by_its_id_or_a_unique_prefix(self, store: Path) -> None:
        for run_id in ("run_1", f"{RUN}_and_more", RUN):
            logged(store, PAUSED, run_id)
        assert replay(store).returncode == 0  # the whole id, though another begins with it
        for name, message in [
            ("run_0", f"run ID 'run_0' is ambiguous: {RUN}, {RUN}_and_more"),
            ("x", "run 'x' not found. List runs with `argstream runs --store "),
            ("", "expected a run ID after 'run:'"),
        ]:
            assert message in refused("replay", f"run:{name}", "--store", str(store))

    def test_follow_shows_records_as_they_are_appended(self, store: Path) -> None:
        def record(seq: int, event: e.Event) -> Record:
            return Record(seq, time.time(), RUN, "s", "a", event)

        async def drive() -> None:
            opened = open_store(store)
            lease = await opened.create([record(1, e.RunStarted(RUN, "Go"))], "a test", 60.0)
            with running("replay", f"run:{RUN}", "--follow", "--store", str(store)) as process:
                assert await asyncio.to_thread(process.stdout.readline) == b"> Go\n"
                await opened.append(lease, [record(2, e.RunFailed("max_turns", "too many turns"))])
                await opened.aclose()
                shown, errors = await asyncio.to_thread(process.communicate, timeout=20)
            assert "✗ Failed: too many turns" in shown.decode()
            assert (process.returncode, errors) == (1, b"")

        asyncio.run(drive())

    def test_ctrl_c_exits_with_130(self, store: Path) -> None:
        logged(store, PAUSED)
        with running("replay", f"run:{RUN}", "--follow", "--store", str(store)) as process:
            while b"Paused" not in process.stdout.readline():
                pass
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert process.stderr.read() == b""


def inspect(store: Path | str, *options: str) -> CompletedProcess[bytes]:
    return argstream("inspect", f"run:{RUN}", "--store", str(store), *options)


# Without TurnStarted, as from other frameworks.
WITH_SUB_AGENT: list[Timed] = [
    (0.0, e.RunStarted(RUN, "Go")),
    (0.1, e.ToolCallStarted("c1", 0, "Task")),
    (0.2, e.ToolArgsCompleted("c1", "Task", {})),
    (0.3, e.TurnCompleted("tool_use", MESSAGE)),
    (0.4, e.ToolCallStarted("s1", 1, "Read", parent_id="c1")),
    (0.5, e.TurnCompleted(None, MESSAGE, parent_id="c1")),
    (0.6, e.TurnCompleted("end_turn", MESSAGE)),
]
FAILED: list[Timed] = [(0.0, e.RunStarted(RUN, "Go")), (0.1, e.RunFailed("oh", "it broke"))]
TURNS = ["turn 1  0.00 s to 0.30 s: tool_use", "turn 2  0.30 s to 0.60 s: end_turn"]
WAITING = "  ● send  c1  needs approval"


class TestInspect:
    def test_report_of_a_run(self, store: Path, tmp_path: Path) -> None:
        logged(store, began=0.0)
        picture = str(tmp_path / "run.svg")
        command = ("inspect", f"run:{RUN}", "--store", str(store), "--svg", picture)
        lines = lines_of(80, *command)
        assert f">{RUN}</text>" in Path(picture).read_text()
        assert argstream(*command).returncode == 2  # it is not overwritten
        assert lines[:2] == [f"{RUN}: completed", "agent mailer, conversation session_1"]
        assert lines[2].endswith(", 1 h 6 min, 20 records")
        assert lines[3:] == screen("report-of-a-run")

    def test_crashes_and_lost_calls_are_reported(self, store: Path) -> None:
        done = inspect(logged(store, CRASHED))
        assert done.returncode == 1
        lines = done.stdout.decode().splitlines()
        assert lines[3:23] == screen("report-of-a-crash")
        waterfall = [" ".join(line.split()) for line in lines[23:]]
        assert "tool cut off ✗" in waterfall
        assert any(line.startswith("● count · malformed 0.1 s ├──") for line in waterfall)

    @pytest.mark.parametrize(
        ("events", "lines", "error"),
        [
            (PAUSED, [WAITING, "‖ paused at 0.60 s; pending: send (c1)"], b""),
            (FAILED, [], b"argstream: it broke\n"),
            (WITH_SUB_AGENT, [*TURNS, "      of a sub-agent of c1"], b""),
        ],
    )
    def test_pauses_failures_and_sub_agents_are_reported(
        self, store: Path, events: list[Timed], lines: list[str], error: bytes
    ) -> None:
        done = inspect(logged(store, events))
        assert (done.returncode, done.stderr) == (1 if error else 0, error)
        assert set(lines) <= set(done.stdout.decode().splitlines())

    def test_json_is_one_document(self, store: Path) -> None:
        found = json.loads(inspect(logged(store), "--json").stdout)
        assert (found["run_id"], found["status"], found["seq"]) == (RUN, "completed", 20)
        assert [turn["stop_reason"] for turn in found["turns"]] == ["tool_use", "end_turn"]
        (call,) = found["calls"]
        assert (call["name"], call["decision"], call["outcome"]) == ("send", "edited", "completed")
        assert (call["argument_bytes"], call["result_bytes"]) == (33, 13)
        assert [call["visible"], call["written"], call["asked"]] == pytest.approx([0.2, 0.5, 0.5])
        assert call["started"] == pytest.approx([4000.7])
        (pause,) = found["breaks"]
        assert (pause["cause"], pause["calls"]) == ("pause", ["c1"])
        assert found["end"]["result"] == "It is sent."

    def test_content_cannot_act_on_a_terminal(self, store: Path) -> None:
        started = e.ToolCallStarted("c\x1b[1m", 0, "se\x1b[31mnd")
        logged(store, [(0.0, e.RunStarted(RUN, "Go \x1b[2J")), (0.1, started)])
        for done in (inspect(store), replay(store)):
            assert b"\x1b" not in done.stdout
            assert "⟦ESC⟧" in done.stdout.decode()

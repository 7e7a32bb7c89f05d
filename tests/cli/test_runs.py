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

from argstream import events as e
from argstream.history import Message
from argstream.runs import Record, from_json, open_store
from tests.cli.in_process import argstream, refused, timeless
from tests.cli.processes import running
from tests.runs.redis_server import RedisServer

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
    return [
        Record(seq, start + at, run_id, "session_1", agent, event)
        for seq, (at, event) in enumerate(events, 1)
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


SHOWN = """\
> Send a mail
> to Ada
│ I send it.
● send
  to = "ada"
  text =
  │ one
  │ two
  ✓ 2 lines, 33 B in …
? send must be approved: send must be confirmed
  to = "ada"
  text =
  │ one
  │ two
‖ paused, waits for a decision on send
┄ 1 h 6 min later
▶ goes on after a pause
● send
✓ send is approved with other arguments: not him; later calls of this tool are, too
  to
  - "ada"
  + "eve"
  text  taken away
  - one
  - two
  runs
  ┆ dialling
  ┆ sent
  └ {"sent": true}
— tool_use · 7 tokens in, 5 out

│ It is sent.
  └ It is sent.
■ done (end_turn) · … · 14 tokens in, 10 out
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def lines_of(columns: int, *arguments: str) -> list[str]:
    """Return the lines of a command whose terminal is this wide."""
    done = argstream(*arguments, COLUMNS=str(columns))
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


class TestRuns:
    def test_runs_are_listed_with_their_state(self, store: Path) -> None:
        logged(store, CRASHED, "run_crashed_long_ago", agent="counter", began=time.time() - 7300)
        logged(store, FINISHED, "run_finished", began=time.time() - 4001.2 - 200)
        logged(store, PAUSED, "run_paused")
        assert lines_of(70, "runs", "--store", str(store)) == [
            "run           status     last record  agent                   records",
            "run_paused    paused     just now     mailer                       10",
            "  > Send a mail to Ada",
            "  waits for a decision on 1 call: c1",
            "run_finished  completed  3 min ago    mailer                       20",
            "  > Send a mail to Ada",
            "run_crashed_  running    2 h ago      counter                      14",
            "  > Count",
            "  no process drives it: Agent.resume continues it",
        ]

    def test_owner_of_the_lease_is_shown(self, store: Path) -> None:
        logged(store, CRASHED, owner="worker 7")
        assert "  driven by worker 7, for 3" in lines_of(70, "runs", "--store", str(store))[3]

    def test_ids_are_long_enough_to_tell_them_apart(self, store: Path) -> None:
        for run_id in ("order-2026-11-a", "order-2026-11-b"):
            logged(store, PAUSED, run_id)
        ids = [line.split()[0] for line in lines_of(80, "runs", "--store", str(store))[1::3]]
        assert ids == ["order-2026-11-b", "order-2026-11-a"]

    @pytest.mark.parametrize("columns", [60, 200])
    def test_lines_fit_the_terminal_and_cannot_act_on_it(self, store: Path, columns: int) -> None:
        prompt: list[Timed] = [(0.0, e.RunStarted(RUN, "go \x1b[2J" + "on and " * 40))]
        logged(store, prompt, agent="an agent \x1b]52;c;x\x07 whose name is far too long " * 3)
        lines = lines_of(columns, "runs", "--store", str(store))
        assert max(map(len, lines)) < min(columns, 101)
        assert "⟦ESC⟧" in lines[2]
        assert "\x1b" not in "".join(lines)

    def test_status_and_limit_select_runs(self, store: Path) -> None:
        for number in range(3):
            logged(store, PAUSED, f"run_paused_{number}")
        logged(store, FINISHED)
        found = argstream("runs", "--store", str(store), "--status", "paused", "--limit", "2")
        assert found.stdout.decode().count("\nrun_") == 2
        assert found.stderr == b"There are older ones: --limit 4 shows more.\n"
        none = argstream("runs", "--store", str(store), "--status", "failed")
        assert (none.returncode, none.stdout) == (0, b"there are no runs here that are failed\n")

    def test_json_is_one_run_a_line(self, store: Path) -> None:
        async def make_empty() -> None:
            async with aclosing(open_store(store)) as opened:
                await opened.runs()

        asyncio.run(make_empty())
        for arguments, output in (([], b"there are no runs here\n"), (["--json"], b"")):
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
            assert first.split()[:2] == ["run_0a1b2c3d", "paused"]
            done = argstream("replay", "run:run_0", "--store", server.url, "--speed", "max")
        begun = SHOWN[: SHOWN.index("┄ 1 h")]
        assert timeless(done.stdout) == begun + "— tool_use · 7 tokens in, 5 out\n"

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
        assert "there is no store" in message
        assert "--store" in message
        assert not store.exists()

    def test_file_that_is_no_store_is_left_alone(self, store: Path) -> None:
        store.write_bytes(b"no database at all, but a text of some length" * 9)
        assert "no SQLite database" in refused("runs", "--store", str(store))
        assert store.read_bytes().startswith(b"no database")


def replay(store: Path | str, *options: str) -> CompletedProcess[bytes]:
    return argstream("replay", f"run:{RUN}", "--store", str(store), "--speed", "max", *options)


class TestReplay:
    def test_run_is_shown_again(self, store: Path) -> None:
        done = replay(logged(store))
        assert (done.returncode, done.stderr) == (0, b"")
        assert timeless(done.stdout) == SHOWN

    def test_crash_and_lost_turn_are_shown(self, store: Path) -> None:
        done = replay(logged(store, CRASHED))
        assert (done.returncode, done.stderr) == (1, b"argstream: 1 call is not valid\n")
        assert timeless(done.stdout).splitlines() == [
            "> Count",
            "● count",
            "  to = 3",
            "  runs",
            "┄ … later",
            "▶ goes on after a crash; cut off: count",
            "  the model is told: count was cut off",
            "● count",
            "  ✗ it was interrupted",
            "▶ turn 1 begins again, attempt 2: what came of it is lost",
            "● count",
            "  ✗ malformed at character 7: this character cannot stand here",
        ]

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
            ("run_0", f"there are 2 runs that begin with 'run_0': {RUN}, {RUN}_and_more"),
            ("x", "has no run 'x'"),
            ("", "comes the id of a run"),
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
            assert "■ failed (max_turns): too many turns" in shown.decode()
            assert (process.returncode, errors) == (1, b"argstream: too many turns\n")

        asyncio.run(drive())

    def test_ctrl_c_exits_with_130(self, store: Path) -> None:
        logged(store, PAUSED)
        with running("replay", f"run:{RUN}", "--follow", "--store", str(store)) as process:
            while b"paused" not in process.stdout.readline():
                pass
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert process.stderr.read() == b""


def inspect(store: Path | str, *options: str) -> CompletedProcess[bytes]:
    return argstream("inspect", f"run:{RUN}", "--store", str(store), *options)


class TestInspect:
    def test_report_of_a_run(self, store: Path) -> None:
        logged(store, began=0.0)
        lines = lines_of(80, "inspect", f"run:{RUN}", "--store", str(store))
        assert lines[:2] == [f"{RUN}: completed", "agent mailer, conversation session_1"]
        assert lines[2].endswith(", 1 h 6 min, 20 records")
        assert [line.replace("\u2571", "/") for line in lines[3:]] == [
            "2 turns, 1 call, 14 tokens in, 10 out",
            "> Send a mail to Ada",
            "",
            "turn 1  0.00 s to 0.60 s: tool_use (7 tokens in, 5 out)",
            "",
            "  ● send  c1  completed",
            "      visible        0.20 s",
            "      complete       0.50 s   33 B",
            "      asked          0.50 s   send must be confirmed",
            "      edited      4000.60 s   not him",
            "      started     4000.70 s",
            "      completed   4001.00 s   13 B",
            "",
            "‖ paused at 0.60 s, for 1 h 6 min; waited for send (c1)",
            "",
            "turn 2  4001.00 s to 4001.20 s: end_turn (7 tokens in, 5 out)",
            "",
            "                       sooner  0:00.0     0:00.2     0:00.4        1:06:40.8",
            "                               ┬──────────┬──────────┬─────//──────┬───────────",
            "● send                  0.3 s             ├────────────────✓",
            "    to                  0.2 s                   ▎",
            "    text                0.1 s                        ▐",
            "    asks a person                                          ┄┄┄ 1 h 6 min",
            "    tool runs                                                ▒▒▒▒▒ 0.3 s ▒▒▒▒▒▒",
            "    without argstream                     ░░░░░░░░░░░░░░░░░░ 0.3 s of silence",
            "",
            "// 1 h 6 min are left out, in which no call was written and no tool is known to",
            "have run.",
            "The first argument was visible 0.2 s before the last brace: 0.3 s of silence",
            "were replaced.",
        ]

    def test_crashes_and_lost_calls_are_reported(self, store: Path) -> None:
        done = inspect(logged(store, CRASHED))
        assert done.returncode == 1
        lines = done.stdout.decode().splitlines()
        assert lines[3:23] == [
            "1 turn, 2 calls",
            "no process drives it: Agent.resume continues it",
            "> Count",
            "",
            "turn 1  0.00 s to –",
            "",
            "  ● count  c1  lost",
            "      visible        0.10 s",
            "      complete       0.40 s   9 B",
            "      started        0.50 s",
            '      failed         9.00 s   "it was interrupted"',
            "",
            "▶ cut off at 0.50 s, for 8.50 s; ran then: count (c1)",
            "",
            "turn 1, attempt 2  9.00 s to –",
            "",
            "  ● count  c2  failed",
            "      visible        9.10 s",
            "      malformed      9.20 s   8 B: this character cannot stand here",
            '      failed         9.30 s   "it was not run"',
        ]
        assert "    tool runs                                                cut off ▒▒✗" in lines
        assert "malformed ├──────✗" in lines[30]

    def test_svg_is_written_once(self, store: Path, tmp_path: Path) -> None:
        picture = tmp_path / "run.svg"
        logged(store)
        assert inspect(store, "--svg", str(picture)).returncode == 0
        assert f">{RUN}</text>" in picture.read_text()
        assert inspect(store, "--svg", str(picture)).returncode == 2

    def test_paused_run_names_the_pending_call(self, store: Path) -> None:
        done = inspect(logged(store, PAUSED))
        assert done.returncode == 0
        lines = done.stdout.decode().splitlines()
        assert "  ● send  c1  waits for a decision" in lines
        assert "‖ paused at 0.60 s; waited for send (c1)" in lines

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

    def test_failed_run_exits_with_1(self, store: Path) -> None:
        events: list[Timed] = [(0.0, e.RunStarted(RUN, "Go")), (0.1, e.RunFailed("oh", "it broke"))]
        done = inspect(logged(store, events))
        assert (done.returncode, done.stderr) == (1, b"argstream: it broke\n")

    def test_turns_are_found_without_turn_started_events(self, store: Path) -> None:
        events: list[Timed] = [
            (0.0, e.RunStarted(RUN, "Go")),
            (0.1, e.ToolCallStarted("c1", 0, "Task")),
            (0.2, e.ToolArgsCompleted("c1", "Task", {})),
            (0.3, e.TurnCompleted("tool_use", MESSAGE)),
            (0.4, e.ToolCallStarted("s1", 1, "Read", parent_id="c1")),
            (0.5, e.TurnCompleted(None, MESSAGE, parent_id="c1")),
            (0.6, e.TurnCompleted("end_turn", MESSAGE)),
        ]
        lines = inspect(logged(store, events)).stdout.decode().splitlines()
        assert "turn 1  0.00 s to 0.30 s: tool_use" in lines
        assert "turn 2  0.30 s to 0.60 s: end_turn" in lines
        assert "      of a sub-agent of c1" in lines

    def test_content_cannot_act_on_a_terminal(self, store: Path) -> None:
        started = e.ToolCallStarted("c\x1b[1m", 0, "se\x1b[31mnd")
        logged(store, [(0.0, e.RunStarted(RUN, "Go \x1b[2J")), (0.1, started)])
        for done in (inspect(store), replay(store)):
            assert b"\x1b" not in done.stdout
            assert "⟦ESC⟧" in done.stdout.decode()

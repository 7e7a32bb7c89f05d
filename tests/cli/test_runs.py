"""argstream runs, and replay and inspect of a run, on real stores."""

import asyncio
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from argstream.events import (
    RunFailed,
    RunStarted,
    TextDelta,
    ToolArgsCompleted,
    ToolCallStarted,
    TurnCompleted,
)
from argstream.runs import Record, from_json, open_store
from tests.cli.in_process import argstream
from tests.cli.logged_runs import CRASHED, FINISHED, PAUSED, RUN, SAID, Timed, logged
from tests.cli.recordings import Process, running
from tests.cli.test_cli import COMMAND, ENVIRONMENT
from tests.cli.timeless import timeless
from tests.runs.redis_server import RedisServer

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


def sized(columns: int, *arguments: str) -> list[str]:
    """The lines of a command that is told how wide its output may be."""
    done = argstream(*arguments, COLUMNS=str(columns))
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


class TestRuns:
    def test_they_are_listed_with_what_they_wait_for(self, store: Path) -> None:
        logged(store, CRASHED, "run_crashed_long_ago", agent="counter", began=time.time() - 7300)
        logged(store, FINISHED, "run_finished", began=time.time() - 4001.2 - 200)
        logged(store, PAUSED, "run_paused")
        assert sized(70, "runs", "--store", str(store)) == [
            "run           status     last record  agent                   records",
            "run_paused    paused     just now     mailer                       10",
            "  > Send a mail to Ada",
            "  waits for a decision on 1 call: c1",
            "run_finished  completed  3 min ago    mailer                       20",
            "  > Send a mail to Ada",
            "run_crashed_  running    2 h ago      counter                      14",
            "  > Count",
            "  nobody drives it: Agent.resume goes on with it",
        ]

    def test_who_drives_one_is_told(self, store: Path) -> None:
        logged(store, CRASHED, owner="worker 7")
        assert "  driven by worker 7, for 3" in sized(70, "runs", "--store", str(store))[3]

    def test_ids_are_as_long_as_tells_them_apart(self, store: Path) -> None:
        for run_id in ("order-2026-11-a", "order-2026-11-b"):
            logged(store, PAUSED, run_id)
        ids = [line.split()[0] for line in sized(80, "runs", "--store", str(store))[1::3]]
        assert ids == ["order-2026-11-b", "order-2026-11-a"]

    @pytest.mark.parametrize("columns", [60, 200])
    def test_no_line_is_longer_than_the_terminal_and_none_acts_on_it(
        self, store: Path, columns: int
    ) -> None:
        prompt: list[Timed] = [(0.0, RunStarted(RUN, "go \x1b[2J" + "on and " * 40))]
        logged(store, prompt, agent="an agent \x1b]52;c;x\x07 whose name is far too long " * 3)
        lines = sized(columns, "runs", "--store", str(store))
        assert max(map(len, lines)) < min(columns, 101)
        assert "⟦ESC⟧" in lines[2]
        assert "\x1b" not in "".join(lines)

    def test_only_some_can_be_asked_for(self, store: Path) -> None:
        for number in range(3):
            logged(store, PAUSED, f"run_paused_{number}")
        logged(store, FINISHED)
        found = argstream("runs", "--store", str(store), "--status", "paused", "--limit", "2")
        assert found.stdout.decode().count("\nrun_") == 2
        assert found.stderr == b"There are older ones: --limit 4 shows more.\n"
        none = argstream("runs", "--store", str(store), "--status", "failed")
        assert (none.returncode, none.stdout) == (0, b"there are no runs here that are failed\n")

    def test_json_is_a_line_each(self, store: Path) -> None:
        logged(store, PAUSED)
        (line,) = argstream("runs", "--store", str(store), "--json").stdout.splitlines()
        found = json.loads(line)
        assert found["run_id"] == RUN
        assert found["pending"] == {"c1": "digest"}
        assert (found["seq"], found["prompt"]) == (10, "Send a mail\nto Ada")

    def test_an_empty_store_says_so(self, store: Path) -> None:
        asyncio.run(_made(store))
        for arguments, output in (([], b"there are no runs here\n"), (["--json"], b"")):
            done = argstream("runs", "--store", str(store), *arguments)
            assert (done.returncode, done.stdout, done.stderr) == (0, output, b"")

    def test_a_store_may_be_in_redis(self) -> None:
        with RedisServer(tcp=True) as server:
            logged(server.url, PAUSED)
            assert sized(60, "runs", "--store", server.url)[1].split()[:2] == [
                "run_0a1b2c3d",
                "paused",
            ]
            done = argstream("replay", "run:run_0", "--store", server.url, "--speed", "max")
            begun = SHOWN[: SHOWN.index("┄ 1 h")]
            assert timeless(done.stdout) == begun + "— tool_use · 7 tokens in, 5 out\n"

    def test_the_store_is_named_by_the_environment_or_is_here(self, tmp_path: Path) -> None:
        logged(tmp_path / "argstream.db", PAUSED, "run_here")
        logged(tmp_path / "other.db", PAUSED, "run_elsewhere")
        for named, run_id in (({}, "run_here"), ({"ARGSTREAM_STORE": "other.db"}, "run_elsewhere")):
            done = subprocess.run(
                [COMMAND, "runs", "--json"],
                env={**ENVIRONMENT, **named},
                cwd=tmp_path,
                capture_output=True,
                check=True,
            )
            assert json.loads(done.stdout)["run_id"] == run_id

    @pytest.mark.parametrize("command", [["runs"], ["inspect", "run:x"]])
    def test_a_store_that_is_not_there_is_not_made(self, store: Path, command: list[str]) -> None:
        done = argstream(*command, "--store", str(store))
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"there is no store" in done.stderr
        assert b"--store" in done.stderr
        assert not store.exists()

    def test_a_file_that_is_no_store_is_told_and_left_alone(self, store: Path) -> None:
        store.write_bytes(b"no database at all, but a text of some length" * 9)
        done = argstream("runs", "--store", str(store))
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"no SQLite database" in done.stderr
        assert store.read_bytes().startswith(b"no database")


class TestReplay:
    def test_it_shows_what_happened(self, store: Path) -> None:
        done = argstream("replay", f"run:{RUN}", "--store", logged(store), "--speed", "max")
        assert (done.returncode, done.stderr) == (0, b"")
        assert timeless(done.stdout) == SHOWN

    def test_after_a_crash_what_was_lost_is_told(self, store: Path) -> None:
        done = argstream("replay", f"run:{RUN}", "--store", logged(store, CRASHED), "--speed", "9")
        assert done.returncode == 1
        assert done.stderr == b"argstream: 1 call is not valid\n"
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
        done = argstream(
            "replay", f"run:{RUN}", "--store", logged(store), "--speed", "max", "--json"
        )
        assert done.stdout.isascii()
        assert [from_json(line) for line in done.stdout.splitlines()] == records_in(store)

    @pytest.mark.parametrize(
        ("speed", "pause", "least"), [("100", 100.0, 1.0), ("max", 3_600.0, 0.0)]
    )
    def test_it_takes_the_time_that_it_took(
        self, store: Path, speed: str, pause: float, least: float
    ) -> None:
        """Or less, by its speed: without that, the pauses are longer than any test."""
        logged(store, [(0.0, RunStarted(RUN, "Go")), (pause, TextDelta("later", 0))])
        start = time.monotonic()
        with running("replay", f"run:{RUN}", "--store", str(store), "--speed", speed) as process:
            process.stdout.read()
            assert least <= time.monotonic() - start < pause

    @pytest.mark.parametrize("name", ["run_0", "run_0a1b2c3d4e5f"])
    def test_the_first_characters_of_an_id_are_enough(self, store: Path, name: str) -> None:
        logged(store, PAUSED, "run_1")
        logged(store, PAUSED, f"{RUN}_and_more")
        logged(store, PAUSED)
        done = argstream("replay", f"run:{name}", "--store", str(store), "--speed", "max")
        if name == RUN:  # whole, though another begins with it
            assert done.returncode == 0
            return
        assert done.returncode == 2
        told = f"there are 2 runs that begin with 'run_0': {RUN}, {RUN}_and_more"
        assert told in done.stderr.decode()

    def test_one_that_is_not_there_is_told(self, store: Path) -> None:
        logged(store)
        for name, told in (("run:x", "has no run 'x'"), ("run:", "comes the id of a run")):
            done = argstream("replay", name, "--store", str(store))
            assert (done.returncode, done.stdout) == (2, b"")
            assert told in done.stderr.decode()

    def test_a_run_that_goes_on_can_be_followed(self, store: Path) -> None:
        async def go_on(first_line_is_there: Any) -> None:
            opened = open_store(store)
            begun = [Record(1, time.time(), RUN, "s", "a", RunStarted(RUN, "Go"))]
            claim = await opened.begin(begun, "a test", 60.0)
            await asyncio.to_thread(first_line_is_there)
            end = RunFailed("max_turns", "too many turns")
            await opened.append(claim, [Record(2, time.time(), RUN, "s", "a", end)])
            await opened.aclose()

        asyncio.run(_made(store))
        processes: list[Process] = []

        def follow() -> None:
            command = [str(COMMAND), "replay", f"run:{RUN}", "--follow", "--store", str(store)]
            pipe = subprocess.PIPE
            processes.append(Process(command, stdout=pipe, stderr=pipe, env=ENVIRONMENT))
            assert processes[0].stdout.readline() == b"> Go\n"

        asyncio.run(go_on(follow))
        shown, told = processes[0].communicate(timeout=20)
        assert "■ failed (max_turns): too many turns" in shown.decode()
        assert (processes[0].returncode, told) == (1, b"argstream: too many turns\n")

    def test_ctrl_c_exits_with_130(self, store: Path) -> None:
        logged(store, PAUSED)
        with running("replay", f"run:{RUN}", "--follow", "--store", str(store)) as process:
            while b"paused" not in process.stdout.readline():
                pass
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert process.stderr.read() == b""

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["replay", "run:x", "--raw"], "--raw and --from are for recordings"),
            (["inspect", "run:x", "--deep"], "--deep and --from are for recordings"),
            (["replay", "turn.rec", "--follow"], "--store and --follow are for runs"),
            (["inspect", "turn.rec", "--store", "x"], "--store is for runs"),
        ],
    )
    def test_wrong_usage_exits_with_2(self, arguments: list[str], message: str) -> None:
        done = argstream(*arguments)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.decode().split())


class TestInspect:
    def test_it_tells_when_what_happened(self, store: Path) -> None:
        logged(store, began=0.0)
        lines = sized(80, "inspect", f"run:{RUN}", "--store", str(store))
        assert lines[:2] == [f"{RUN}: completed", "agent mailer, session session_1"]
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

    def test_crashes_and_what_they_cost_are_told(self, store: Path) -> None:
        done = argstream("inspect", f"run:{RUN}", "--store", logged(store, CRASHED))
        assert done.returncode == 1
        lines = done.stdout.decode().splitlines()
        assert lines[3:23] == [
            "1 turn, 2 calls",
            "nobody drives it: Agent.resume goes on with it",
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

    def test_its_picture_is_written_to_a_file(self, store: Path, tmp_path: Path) -> None:
        picture = tmp_path / "run.svg"
        command = ("inspect", f"run:{RUN}", "--store", logged(store), "--svg", str(picture))
        assert argstream(*command).returncode == 0
        assert f">{RUN}</text>" in picture.read_text()
        assert argstream(*command).returncode == 2

    def test_a_run_that_waits_says_for_what(self, store: Path) -> None:
        done = argstream("inspect", f"run:{RUN}", "--store", logged(store, PAUSED))
        assert done.returncode == 0
        lines = done.stdout.decode().splitlines()
        assert "  ● send  c1  waits for a decision" in lines
        assert "‖ paused at 0.60 s; waited for send (c1)" in lines

    def test_json_is_one_document(self, store: Path) -> None:
        done = argstream("inspect", f"run:{RUN}", "--store", logged(store), "--json")
        found = json.loads(done.stdout)
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

    def test_a_run_that_failed_exits_with_1(self, store: Path) -> None:
        events: list[Timed] = [(0.0, RunStarted(RUN, "Go")), (0.1, RunFailed("oh", "it broke"))]
        done = argstream("inspect", f"run:{RUN}", "--store", logged(store, events))
        assert (done.returncode, done.stderr) == (1, b"argstream: it broke\n")

    def test_agents_that_do_not_say_when_a_turn_begins_have_turns_too(self, store: Path) -> None:
        events: list[Timed] = [
            (0.0, RunStarted(RUN, "Go")),
            (0.1, ToolCallStarted("c1", 0, "Task")),
            (0.2, ToolArgsCompleted("c1", "Task", {})),
            (0.3, TurnCompleted("tool_use", SAID)),
            (0.4, ToolCallStarted("s1", 1, "Read", parent_id="c1")),
            (0.5, TurnCompleted(None, SAID, parent_id="c1")),
            (0.6, TurnCompleted("end_turn", SAID)),
        ]
        done = argstream("inspect", f"run:{RUN}", "--store", logged(store, events))
        lines = done.stdout.decode().splitlines()
        assert "turn 1  0.00 s to 0.30 s: tool_use" in lines
        assert "turn 2  0.30 s to 0.60 s: end_turn" in lines
        assert "      of a sub-agent of c1" in lines

    def test_what_a_model_wrote_does_not_act_on_a_terminal(self, store: Path) -> None:
        events: list[Timed] = [
            (0.0, RunStarted(RUN, "Go \x1b[2J")),
            (0.1, ToolCallStarted("c\x1b[1m", 0, "se\x1b[31mnd")),
        ]
        for command in ("inspect", "replay"):
            done = argstream(command, f"run:{RUN}", "--store", logged(store, events))
            assert b"\x1b" not in done.stdout
            assert "⟦ESC⟧" in done.stdout.decode()
            store.unlink()


def records_in(store: Path) -> list[Record]:
    async def read() -> list[Record]:
        opened = open_store(store)
        try:
            return await opened.read(RUN)
        finally:
            await opened.aclose()

    return asyncio.run(read())


async def _made(store: Path) -> None:
    opened = open_store(store)
    await opened.runs()
    await opened.aclose()

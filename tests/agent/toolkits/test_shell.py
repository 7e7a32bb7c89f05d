"""A shell: asked for, heard while it runs, and gone with all that it started."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from argstream.agent.toolkits import shell_tool
from argstream.agent.tools import ToolContext
from argstream.errors import ToolFailure, UsageError
from argstream.validation.lint import lint
from tests.agent.tools.calling import run

pytestmark = pytest.mark.anyio


# Works on, though it is asked to end, and leaves a trace all the time.
STUBBORN = "trap '' TERM; while :; do echo x >> trace; sleep 0.02; done"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill what does not end by itself sooner than usual."""
    monkeypatch.setattr("argstream.agent.toolkits._shell._GRACE", 0.2)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give what does not end by itself more time than anybody wants to wait."""
    monkeypatch.setattr("argstream.agent.toolkits._shell._GRACE", 20)


def shell(root: Path, command: str, said: list[str] | None = None, timeout: float = 30) -> str:
    answer: str = asyncio.run(run(shell_tool(root, timeout=timeout), said, command=command))
    return answer


def test_it_always_asks(tmp_path: Path) -> None:
    tool = shell_tool(tmp_path, timeout=90)
    assert tool.name == "run_command"
    assert tool.requires_confirmation is True
    assert "It may take 90 seconds" in tool.description
    assert list(lint([tool.spec])) == []


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), True])
def test_its_time_must_be_some(tmp_path: Path, timeout: float) -> None:
    with pytest.raises(UsageError, match="a number of seconds above 0"):
        shell_tool(tmp_path, timeout=timeout)


def test_what_it_prints_and_how_it_ended_is_the_result(tmp_path: Path) -> None:
    assert shell(tmp_path, "pwd; echo no >&2; exit 3") == f"exit status 3\n{tmp_path}\nno\n"
    assert shell(tmp_path, ":") == "exit status 0, no output"
    assert shell(tmp_path, "kill -9 $$") == "killed by SIGKILL, no output"
    assert shell(tmp_path, "nonsense-program").startswith("exit status 127\n")


async def test_what_it_prints_is_told_while_it_runs(tmp_path: Path) -> None:
    said: list[str] = []
    command = "printf 'one\\342\\202'; until [ -e go ]; do sleep 0.02; done; printf '\\254two'"
    running = asyncio.create_task(run(shell_tool(tmp_path, timeout=30), said, command=command))
    while not said:
        await asyncio.sleep(0.01)
    assert said == ["one"]
    (tmp_path / "go").touch()
    assert (await running) == "exit status 0\none€two"
    assert "".join(said) == "one€two"


def test_there_is_nobody_to_be_asked(tmp_path: Path) -> None:
    assert shell(tmp_path, "cat; read line; echo got:$line") == "exit status 0\ngot:\n"
    assert shell(tmp_path, "echo hi > /dev/tty && echo there is").startswith("exit status ")
    assert "there is" not in shell(tmp_path, "(echo hi > /dev/tty) && echo there is")


def test_the_keys_that_we_read_are_not_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"HOME", "ANTHROPIC_BASE_URL", "MY_API_KEY"}
    keys = {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "XAI_API_KEY"}
    for name in kept | keys | {"ARGSTREAM_TOKEN", "ARGSTREAM_STORE"}:
        monkeypatch.setenv(name, f"value of {name}")
    found = {line.partition("=")[0] for line in shell(tmp_path, "env").splitlines()}
    assert found & {*os.environ} == {*os.environ} - keys - {"ARGSTREAM_TOKEN", "ARGSTREAM_STORE"}
    assert found >= kept


@pytest.mark.parametrize("command", ["echo \0", "x" * 3_000_000])
def test_what_cannot_be_started_is_told(tmp_path: Path, command: str) -> None:
    with pytest.raises(ToolFailure, match="the command could not be started"):
        shell(tmp_path, command)


def test_a_folder_that_was_replaced_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    tool = shell_tool(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "a").mkdir()
    with pytest.raises(ToolFailure, match="was replaced"):
        asyncio.run(run(tool, command="touch x"))
    assert not (tmp_path / "a/x").exists()


# Much output


def test_of_much_output_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    said: list[str] = []
    answer = shell(tmp_path, "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done", said)
    assert answer.startswith("exit status 0\n0\n1\n2\n")
    assert answer.endswith("\n19998\n19999\n")
    assert "\n… (78890 characters left out) …\n" in answer
    assert "".join(said) == "".join(f"{number}\n" for number in range(20_000))


def test_what_is_told_live_is_bounded(tmp_path: Path) -> None:
    said: list[str] = []
    answer = shell(tmp_path, "head -c 3000000 /dev/zero | tr '\\0' x; echo end", said)
    assert "".join(said) == "x" * 1_000_000 + "\n… more is not shown while it runs\n"
    assert answer.endswith("xend\n")


@pytest.mark.parametrize("size", [1, 9_999, 29_999, 30_000, 50_000])
def test_a_transcript_is_the_same_however_it_is_cut(tmp_path: Path, size: int) -> None:
    whole = "é" * size + "\ufffd"
    left_out = f"\n… ({size + 1 - 30_000} characters left out) …\n"
    wanted = whole if size < 30_000 else whole[:10_000] + left_out + whole[-20_000:]
    (tmp_path / "text").write_bytes("é".encode() * size + b"\xff")
    for pieces in ("cat text", "head -c 1 text; sleep 0.05; tail -c +2 text"):
        assert shell(tmp_path, pieces) == f"exit status 0\n{wanted}"


async def test_a_slow_reader_holds_it_up(tmp_path: Path) -> None:
    said: list[str] = []
    has_room = asyncio.Event()
    tool = shell_tool(tmp_path)
    context = ToolContext("r", "c", "run_command", "k", said.append, has_room.wait)
    bound = tool.bind('{"command": "head -c 500000 /dev/zero | tr \'\\\\0\' x; touch over"}')
    running = asyncio.create_task(tool.execute(bound, context))
    await asyncio.sleep(0.3)
    held = sum(map(len, said))
    assert not (tmp_path / "over").exists()
    has_room.set()
    answer = await running
    assert 0 < held < 200_000
    assert sum(map(len, said)) == 500_000
    assert answer.startswith("exit status 0")


# The end


def leaves_no_more_traces(root: Path) -> bool:
    """Say whether what left a trace all the time is at rest."""
    before = (root / "trace").stat().st_size
    time.sleep(0.15)
    return (root / "trace").stat().st_size == before > 0


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "command",
    [
        STUBBORN,
        f"({STUBBORN}) & {STUBBORN}",
        f"echo begun; ({STUBBORN}) > /dev/null 2>&1 & wait",
        f'sh -c "sh -c \\"{STUBBORN}\\""',
        f"exec >&- 2>&-; {STUBBORN}",
    ],
)
def test_after_its_time_nothing_is_done_any_more(tmp_path: Path, command: str) -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="the command was stopped: it took longer"):
        shell(tmp_path, command, timeout=0.3)
    assert time.monotonic() - began < 5
    assert leaves_no_more_traces(tmp_path)


def test_what_it_said_until_its_time_was_up_is_told(tmp_path: Path) -> None:
    command = "trap 'echo cleaned up; exit' TERM; echo begun; while :; do sleep 0.05; done"
    with pytest.raises(TimeoutError) as late:
        shell(tmp_path, command, timeout=0.3)
    assert "longer than 0.3 s; it said:\nbegun\n" in str(late.value)
    assert str(late.value).endswith("cleaned up\n")


@pytest.mark.usefixtures("impatient")
async def test_when_it_is_cancelled_nothing_is_done_any_more(tmp_path: Path) -> None:
    running = asyncio.create_task(run(shell_tool(tmp_path), command=STUBBORN))
    await until((tmp_path / "trace").exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert leaves_no_more_traces(tmp_path)


@pytest.mark.usefixtures("patient")
def test_who_does_not_want_to_wait_for_its_end_need_not(tmp_path: Path) -> None:
    async def main() -> float:
        running = asyncio.create_task(run(shell_tool(tmp_path), command=STUBBORN))
        await until((tmp_path / "trace").exists)
        running.cancel()
        await asyncio.sleep(0.05)
        size = (tmp_path / "trace").stat().st_size
        await until(lambda: (tmp_path / "trace").stat().st_size > size)  # it may end by itself
        return time.monotonic()

    left = asyncio.run(main())  # which cancels what is left, whoever shields it
    assert time.monotonic() - left < 10
    assert leaves_no_more_traces(tmp_path)


@pytest.mark.usefixtures("patient")
def test_a_program_that_is_left_at_once_leaves_nothing_running(tmp_path: Path) -> None:
    def leave(_: str) -> None:
        raise SystemExit

    async def main() -> None:
        tool = shell_tool(tmp_path)
        context = ToolContext("r", "c", "run_command", "k", leave)
        bound = tool.bind(json.dumps({"command": f"echo x > trace; echo begun; {STUBBORN}"}))
        await tool.execute(bound, context)

    began = time.monotonic()
    with pytest.raises(SystemExit):
        asyncio.run(main())
    assert time.monotonic() - began < 10
    assert leaves_no_more_traces(tmp_path)


# Ends, and has a child that ends before, while a command runs.
PROGRAM = """
import asyncio, os, sys, threading, time
from argstream.agent.toolkits import shell_tool
from tests.agent.tools.calling import run

def work():
    asyncio.run(run(shell_tool("."), command=sys.argv[1]))

def size():
    return os.path.exists("trace") and os.path.getsize("trace")

threading.Thread(target=work, daemon=True).start()
while not size():
    time.sleep(0.01)
if not (child := os.fork()):
    sys.exit()
os.waitpid(child, 0)
before = size()
time.sleep(0.2)
sys.exit("the child has ended it" if size() == before else 0)
"""


def test_it_ends_with_the_program_that_has_started_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, STUBBORN]
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, timeout=30)
    assert done.returncode == 0
    assert leaves_no_more_traces(tmp_path)


def test_what_it_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    began = time.monotonic()
    answer = shell(tmp_path, f"({STUBBORN}) & until [ -e trace ]; do sleep 0.02; done; echo done")
    assert answer == "exit status 0\ndone\n"
    assert time.monotonic() - began < 10
    assert leaves_no_more_traces(tmp_path)


def test_a_process_that_has_left_the_group_does_not_hold_it_up(tmp_path: Path) -> None:
    script = "import os, time; os.setsid(); open('pid', 'w').write(str(os.getpid())); time.sleep(9)"
    began = time.monotonic()
    command = f'python3 -c "{script}" & until [ -s pid ]; do sleep 0.02; done; echo done'
    try:
        assert shell(tmp_path, command) == "exit status 0\ndone\n"
        assert time.monotonic() - began < 8
    finally:
        os.kill(int((tmp_path / "pid").read_text(encoding="utf-8")), 9)


def test_no_file_stays_open(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 - a count

    shell(tmp_path, "echo")
    before = open_files()
    for _ in range(3):
        shell(tmp_path, "echo")
        with pytest.raises(TimeoutError):
            shell(tmp_path, "sleep 9", timeout=0.05)
        with pytest.raises(ToolFailure):
            shell(tmp_path, "\0")
    assert open_files() == before

"""The shell tool: it always needs approval, streams its output, and leaves no process behind."""

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
from argstream.errors import ToolError, UsageError
from argstream.validation.lint import lint
from tests.agent.tools.calling import Consumer, run

pytestmark = pytest.mark.anyio


# Ignores SIGTERM, and writes to a file all the time.
STUBBORN = "trap '' TERM; while :; do echo x >> trace; sleep 0.02; done"


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill processes that ignore SIGTERM sooner than usual."""
    monkeypatch.setattr("argstream.agent.toolkits._shell._GRACE", 0.2)


@pytest.fixture
def long_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argstream.agent.toolkits._shell._GRACE", 20)


def shell(root: Path, command: str, output: list[str] | None = None, timeout: float = 30) -> str:
    answer: str = asyncio.run(run(shell_tool(root, timeout=timeout), output, command=command))
    return answer


def test_tool_needs_approval_and_names_its_timeout(tmp_path: Path) -> None:
    tool = shell_tool(tmp_path, timeout=90)
    assert tool.name == "run_command"
    assert tool.requires_confirmation is True
    assert "It may take 90 seconds" in tool.description
    assert list(lint([tool.spec])) == []
    for timeout in (0, -1, float("inf"), float("nan"), True):
        with pytest.raises(UsageError, match="timeout must be a number of seconds greater than 0"):
            shell_tool(tmp_path, timeout=timeout)


def test_result_is_the_exit_status_and_the_output(tmp_path: Path) -> None:
    assert shell(tmp_path, "pwd; echo no >&2; exit 3") == f"exit status 3\n{tmp_path}\nno\n"
    assert shell(tmp_path, ":") == "exit status 0, no output"
    assert shell(tmp_path, "kill -9 $$") == "killed by SIGKILL, no output"
    assert shell(tmp_path, "nonsense-program").startswith("exit status 127\n")


async def test_output_is_streamed_while_the_command_runs(tmp_path: Path) -> None:
    output: list[str] = []
    command = "printf 'one\\342\\202'; until [ -e go ]; do sleep 0.02; done; printf '\\254two'"
    running = asyncio.create_task(run(shell_tool(tmp_path, timeout=30), output, command=command))
    await until(lambda: bool(output))
    assert output == ["one"]
    (tmp_path / "go").touch()
    assert (await running) == "exit status 0\none€two"
    assert "".join(output) == "one€two"


def test_command_has_no_input_and_no_terminal(tmp_path: Path) -> None:
    assert shell(tmp_path, "cat; read line; echo got:$line") == "exit status 0\ngot:\n"
    assert "there is" not in shell(tmp_path, "(echo hi > /dev/tty) && echo there is")


def test_environment_of_the_command_has_no_keys_of_argstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"HOME", "ANTHROPIC_BASE_URL", "MY_API_KEY"}
    keys = {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "XAI_API_KEY"}
    keys |= {"ARGSTREAM_TOKEN", "ARGSTREAM_STORE"}
    for name in kept | keys:
        monkeypatch.setenv(name, f"value of {name}")
    found = {line.partition("=")[0] for line in shell(tmp_path, "env").splitlines()}
    assert found & {*os.environ} == {*os.environ} - keys
    assert found >= kept


@pytest.mark.parametrize("command", ["echo \0", "x" * 3_000_000])
def test_command_that_cannot_be_started_fails(tmp_path: Path, command: str) -> None:
    with pytest.raises(ToolError, match="the command could not be started"):
        shell(tmp_path, command)


async def test_replaced_folder_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    tool = shell_tool(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "a").mkdir()
    with pytest.raises(ToolError, match="was replaced"):
        await run(tool, command="touch x")
    assert not (tmp_path / "a/x").exists()


def test_streamed_output_is_bounded(tmp_path: Path) -> None:
    output: list[str] = []
    answer = shell(tmp_path, "head -c 3000000 /dev/zero | tr '\\0' x; echo end", output)
    assert "".join(output) == "x" * 1_000_000 + "\n… more is not shown while it runs\n"
    assert answer.endswith("xend\n")


@pytest.mark.parametrize("size", [1, 9_999, 29_999, 30_000, 50_000])
def test_chunking_of_the_output_does_not_change_the_result(tmp_path: Path, size: int) -> None:
    whole = "é" * size + "\ufffd"
    left_out = f"\n… ({size + 1 - 30_000} characters left out) …\n"
    wanted = whole if size < 30_000 else whole[:10_000] + left_out + whole[-20_000:]
    (tmp_path / "text").write_bytes("é".encode() * size + b"\xff")
    for command in ("cat text", "head -c 1 text; sleep 0.05; tail -c +2 text"):
        assert shell(tmp_path, command) == f"exit status 0\n{wanted}"


async def test_slow_consumer_slows_the_command_down(tmp_path: Path) -> None:
    consumer = Consumer()
    command = "head -c 500000 /dev/zero | tr '\\0' x; touch over"
    running = await consumer.start(shell_tool(tmp_path), command=command)
    await asyncio.sleep(0.1)
    held = sum(map(len, consumer.output))
    assert not (tmp_path / "over").exists()
    consumer.has_room.set()
    answer = await running
    assert 0 < held < 200_000
    assert sum(map(len, consumer.output)) == 500_000
    assert answer.startswith("exit status 0")


def is_at_rest(root: Path) -> bool:
    before = (root / "trace").stat().st_size
    time.sleep(0.1)
    return (root / "trace").stat().st_size == before > 0


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


def timed_out(root: Path, command: str) -> str:
    timeout, message = 0.3, ""
    while not (root / "trace").exists():
        with pytest.raises(TimeoutError) as late:
            shell(root, command, timeout=timeout)
        timeout, message = 3 * timeout, str(late.value)  # a busy machine needs longer
    return message


@pytest.mark.usefixtures("short_grace")
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
def test_timeout_ends_all_processes_of_the_command(tmp_path: Path, command: str) -> None:
    assert timed_out(tmp_path, command).startswith("the command was stopped: it took longer")
    assert is_at_rest(tmp_path)


def test_timeout_error_has_the_output_so_far(tmp_path: Path) -> None:
    cleaning = "trap 'echo cleaned up; exit' TERM; echo begun; echo x > trace"
    message = timed_out(tmp_path, f"{cleaning}; while :; do sleep 0.05; done")
    assert " s; it said:\nbegun\n" in message
    assert message.endswith("cleaned up\n")


@pytest.mark.usefixtures("short_grace")
async def test_cancellation_ends_the_command(tmp_path: Path) -> None:
    running = asyncio.create_task(run(shell_tool(tmp_path), command=STUBBORN))
    await until((tmp_path / "trace").exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert is_at_rest(tmp_path)


async def test_cancelled_command_has_time_to_clean_up(tmp_path: Path) -> None:
    cleaning = "trap 'sleep 0.2; echo x > cleaned; exit' TERM; echo x > trace"
    command = f"{cleaning}; while :; do sleep 0.05; done"
    running = asyncio.create_task(run(shell_tool(tmp_path), command=command))
    await until((tmp_path / "trace").exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (tmp_path / "cleaned").exists()


@pytest.mark.timeout(15)  # less than the grace
@pytest.mark.usefixtures("long_grace")
def test_second_cancellation_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    async def main() -> None:
        running = asyncio.create_task(run(shell_tool(tmp_path), command=STUBBORN))
        await until((tmp_path / "trace").exists)
        running.cancel()
        await asyncio.sleep(0.05)
        size = (tmp_path / "trace").stat().st_size
        await until(lambda: (tmp_path / "trace").stat().st_size > size)  # it has time to end

    asyncio.run(main())  # cancels all tasks that are left
    assert is_at_rest(tmp_path)


@pytest.mark.timeout(15)  # less than the grace
@pytest.mark.usefixtures("long_grace")
def test_program_that_exits_at_once_ends_the_command(tmp_path: Path) -> None:
    def leave(_: str) -> None:
        raise SystemExit

    async def main() -> None:
        tool = shell_tool(tmp_path)
        context = ToolContext("r", "c", "run_command", "k", leave)
        bound = tool.bind(json.dumps({"command": f"echo x > trace; echo begun; {STUBBORN}"}))
        await tool.execute(bound, context)

    with pytest.raises(SystemExit):
        asyncio.run(main())
    assert is_at_rest(tmp_path)


# Starts a command, forks a child that exits, and then exits itself.
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
while size() == before:  # the child has not ended the command
    time.sleep(0.01)
"""


def test_command_ends_with_the_program_that_started_it_and_not_with_a_fork(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, STUBBORN]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=30)
    assert is_at_rest(tmp_path)


def test_background_process_ends_with_the_command(tmp_path: Path) -> None:
    answer = shell(tmp_path, f"({STUBBORN}) & until [ -e trace ]; do sleep 0.02; done; echo done")
    assert answer == "exit status 0\ndone\n"
    assert is_at_rest(tmp_path)


def test_process_in_another_session_does_not_delay_the_result(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    command = "setsid sh -c 'echo $$ > pid; exec sleep 50' & until [ -s pid ]; do sleep 0.02; done"
    try:
        assert shell(tmp_path, f"{command}; echo done") == "exit status 0\ndone\n"
        os.kill(int(started.read_text()), 0)  # raises if it has ended
    finally:
        os.kill(int(started.read_text()), 9)


def test_no_file_descriptor_leaks(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 - a count

    shell(tmp_path, "echo")
    before = open_files()
    for _ in range(3):
        shell(tmp_path, "echo")
        with pytest.raises(TimeoutError):
            shell(tmp_path, "sleep 9", timeout=0.05)
        with pytest.raises(ToolError):
            shell(tmp_path, "\0")
    assert open_files() == before

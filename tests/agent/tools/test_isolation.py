"""An isolated tool has a process of its own, which is gone when nobody waits for it any more."""

import asyncio
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argstream.agent.tools import Tool, ToolContext, as_tool, failure_words, tool
from argstream.agent.tools._frames import Frame, FrameReader, encode
from argstream.errors import ToolFailure, UsageError
from argstream.testing import chunkings
from tests.agent.tools import isolated_tools
from tests.agent.tools.calling import run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="it needs process groups")


def in_time(given: Tool, timeout: float) -> Tool:
    """The same tool with a time-out."""
    return tool(isolate=True, timeout=timeout)(given.function)


def test_it_runs_in_a_process_of_its_own_with_its_context() -> None:
    said: list[str] = []
    found = asyncio.run(run(isolated_tools.where, said, point={"x": 1}))
    assert found.pop("process") == found.pop("leader") != os.getpid()
    assert found == {
        "x": 1,
        "ids": ["run-1", "call-1", "where", "key-1"],
        "cancelled": False,
        "arguments": sys.argv,
    }
    assert said == ["said"]


def test_all_kinds_of_functions_can_be_isolated() -> None:
    async def main() -> tuple[Any, ...]:
        return await asyncio.gather(
            run(isolated_tools.later, text="\ud800é" * 100_000),
            run(isolated_tools.letters, said),
            run(isolated_tools.more_letters, said),
        )

    said: list[str] = []
    assert tuple(asyncio.run(main())) == ("é\ufffd" * 100_000, "ab", "cd")
    assert sorted(said) == ["a", "b", "c", "d"]


def test_what_it_prints_is_output_and_never_a_result() -> None:
    said: list[str] = []
    assert asyncio.run(run(isolated_tools.prints, said, size=300_000)) == "true"
    text = "".join(said)
    assert '["result","forged"]\n' in text
    assert "\ufffd\n" in text
    assert "x" * 300_000 in text
    assert text.endswith("é without an end")


def test_a_large_result_comes_whole() -> None:
    assert len(asyncio.run(run(isolated_tools.large, size=10_000_000))) == 10_000_000


def test_what_goes_wrong_in_it_is_told() -> None:
    expected = {
        "raise": "FileNotFoundError: [Errno 2] No such file: 'x'",
        "exit": "fails tried to end the program: SystemExit(3)",
        "hard exit": "the process of fails ended with exit code 3 before it had a result; it said "
        "last: last words",
        "crash": "the process of fails was killed by SIGSEGV before it had a result",
        "killed": "the process of fails was killed by SIGKILL (was there too little memory?) "
        "before it had a result",
        "fork": "the process of fails ended with exit code 7 before it had a result",
        "closes": "the process of fails ended with exit code 1 before it had a result",
    }

    async def main() -> list[Any]:
        calls = (run(isolated_tools.fails, how=how) for how in expected)
        return await asyncio.gather(*calls, run(isolated_tools.odd), return_exceptions=True)

    *failures, unwritable = asyncio.run(main())
    assert all(isinstance(one, ToolFailure) for one in failures)
    assert [failure_words(one) for one in failures] == list(expected.values())
    assert failures[0].kind == "FileNotFoundError"
    assert "odd has run, but what it returned cannot be written as JSON" in str(unwritable)


@pytest.mark.parametrize("way", ["print", "output"])
def test_a_slow_reader_holds_up_what_it_says_and_gets_all_of_it(way: str) -> None:
    said: list[str] = []
    has_room = asyncio.Event()

    async def room() -> None:
        await has_room.wait()

    async def main() -> tuple[int, Any]:
        flood = as_tool(isolated_tools.flood)
        context = ToolContext("r", "c", "flood", "k", said.append, room)
        bound = flood.bind(f'{{"way": "{way}", "size": 5000000}}')
        task = asyncio.create_task(flood.execute(bound, context))
        while not said:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        held = sum(map(len, said))
        has_room.set()
        return held, await task

    held, result = asyncio.run(main())
    assert held < 1_000_000
    assert result == "done"
    assert sum(map(len, said)) == 5_000_000


def test_its_last_words_are_told_though_the_reader_is_slow() -> None:
    said: list[str] = []

    async def main() -> None:
        fails = as_tool(isolated_tools.fails)
        context = ToolContext("r", "c", "fails", "k", said.append, asyncio.Event().wait)
        with pytest.raises(ToolFailure, match="exit code 3 before it had a result; it said last"):
            await fails.execute(fails.bind('{"how": "hard exit"}'), context)

    asyncio.run(main())
    assert "".join(said) == "last words\n"


def growth(path: Path) -> tuple[int, int]:
    """Say how much has been written, and how much a little later."""
    before = path.stat().st_size
    time.sleep(0.1)
    return before, path.stat().st_size


def test_it_has_no_effects_after_its_time(tmp_path: Path) -> None:
    targets = [tmp_path / "sync", tmp_path / "async"]

    async def main(timeout: float) -> list[Any]:
        sync = in_time(isolated_tools.grows, timeout)
        in_loop = in_time(isolated_tools.grows_async, timeout)
        pairs = zip((sync, in_loop), targets, strict=True)
        calls = [run(one, path=str(target)) for one, target in pairs]
        return await asyncio.gather(*calls, return_exceptions=True)

    for timeout in (1, 4, 16):  # until it is enough for a busy machine to start them
        for failure in asyncio.run(main(timeout)):
            assert isinstance(failure, TimeoutError)
            assert f"was stopped: it took longer than {timeout} s" in str(failure)
        if all(target.exists() for target in targets):
            break
    for target in targets:
        before, after = growth(target)
        assert before == after > 0


def test_it_has_no_effects_after_a_stop(tmp_path: Path) -> None:
    target = tmp_path / "file"

    async def main() -> None:
        task = asyncio.create_task(run(isolated_tools.grows, path=str(target)))
        while not target.exists():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        before, after = growth(target)
        assert before == after > 0

    asyncio.run(main())


def test_a_stop_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "file"

    async def main() -> None:
        task = asyncio.create_task(run(isolated_tools.grows, path=str(target)))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    time.sleep(0.5)
    assert not target.exists()


def test_what_it_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    target = tmp_path / "file"
    assert asyncio.run(run(isolated_tools.leaves_behind, path=str(target))) == "done"
    before, after = growth(target)
    assert before == after > 0


def test_its_modules_put_things_in_order_at_its_end(tmp_path: Path) -> None:
    target = tmp_path / "file"
    asyncio.run(run(isolated_tools.in_order, path=str(target)))
    assert target.read_text() == "put in order"


def children() -> list[str]:
    """Name the processes that this one has started and not waited for."""
    tasks = Path("/proc/self/task").glob("*/children")
    return [child for one in tasks for child in one.read_text().split()]


def open_files() -> list[str]:
    return sorted(file.name for file in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells")
def test_neither_processes_nor_files_stay_open() -> None:
    async def main() -> tuple[Any, Any]:
        await run(isolated_tools.letters)
        before = children(), open_files()
        with pytest.raises(ToolFailure):
            await run(isolated_tools.fails, how="killed")
        with pytest.raises(TimeoutError):
            await run(in_time(isolated_tools.grows, 0.05), path="/dev/null")
        await run(isolated_tools.letters)
        return before, (children(), open_files())

    before, after = asyncio.run(main())
    assert before == after
    assert after[0] == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells")
def test_it_ends_with_the_program(tmp_path: Path) -> None:
    target = tmp_path / "file"
    program = f"""
        import asyncio
        from tests.agent.tools import isolated_tools
        from tests.agent.tools.calling import run
        asyncio.run(run(isolated_tools.grows, path={str(target)!r}))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    try:
        deadline = time.monotonic() + 20
        while not target.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    time.sleep(0.2)
    before, after = growth(target)
    assert before == after > 0


SCRIPT = """
import asyncio, os, sys
from pydantic import BaseModel
from argstream.agent.tools import ToolContext
from argstream.agent.tools import as_tool, tool

class Point(BaseModel):
    x: "Number"

Number = int
started = os.getpid()

@tool(isolate=True, name="double-it")
def double(point: Point) -> list:
    return [point.x * 2, __name__ , started == os.getpid()]

async def main():
    call = as_tool(double)
    context = ToolContext("r", "c", "double-it", "k", print)
    print(await call.execute(call.bind('{"point": {"x": 4}}'), context))
"""
GUARDED = SCRIPT + 'if __name__ == "__main__":\n    asyncio.run(main())\n'


def run_python(*arguments: str, directory: Path, given: str | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        input=given,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_script_and_a_module_that_is_run_are_found(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "script").write_text(GUARDED)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(GUARDED)
    assert run_python("package/script", directory=tmp_path) == "[8, '__mp_main__', True]\n"
    assert run_python("-m", "package", directory=tmp_path) == "[8, 'package.__main__', True]\n"


def test_a_script_that_starts_to_work_when_it_is_run_again_is_told(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"{SCRIPT}\nasyncio.run(main())\n")
    told = run_python("script.py", directory=tmp_path)
    assert "the subprocess of double-it cannot import it" in told
    assert "put what it does below 'if __name__ == \"__main__\":'" in told


def test_what_is_in_no_file_cannot_be_isolated(tmp_path: Path) -> None:
    for arguments, given in ((["-c", SCRIPT], None), (["-"], SCRIPT)):
        told = run_python(*arguments, directory=tmp_path, given=given)
        assert "double() cannot be isolated: it is defined in an interactive session" in told


def local() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


class Shelf:
    def take(self) -> None: ...


def renamed() -> None: ...


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (local(), r"inner\(\) cannot be isolated: it is defined inside local"),
        (lambda: None, "cannot be isolated: it is defined inside"),
        (Shelf.take, "it is a method, and its object is only here"),
        (Shelf().take, "it is a method, and its object is only here"),
    ],
)
def test_what_another_process_cannot_import_is_refused(function: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        tool(isolate=True)(function)


def test_a_function_that_is_not_found_under_its_name_is_refused_when_it_is_used() -> None:
    renamed.__qualname__ = "take"
    made = tool(isolate=True)(renamed)
    with pytest.raises(UsageError, match=r"test_isolation\.take is not this function"):
        as_tool(made)


def test_messages_are_read_however_they_are_cut() -> None:
    data = encode("output", "é") + encode("result", [1, None]) + encode("error", {"a": "\ufffd"})
    for name, chunks in chunkings(data):
        reader = FrameReader()
        frames = [frame for chunk in chunks for frame in reader.feed(chunk)]
        expected = [("output", "é"), ("result", [1, None]), ("error", {"a": "\ufffd"})]
        assert frames == [Frame(*one) for one in expected], name

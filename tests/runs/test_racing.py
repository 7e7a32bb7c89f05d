"""Two processes race for one run and for one decision: exactly one of them wins, each time."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, contextmanager
from pathlib import Path

import pytest

from tests.runs.racing import open_at
from tests.runs.redis_server import new_prefix, shared_server

NAMES = ("ada", "bob")
RUNS = 125  # two races for each, with each of two stores: 500 in all


class Racer:
    """A process that races."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        assert self.hear() == "ready"

    def tell(self, *words: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def racer(where: str, prefix: str, name: str) -> Iterator[Racer]:
    command = [sys.executable, "-m", "tests.runs.racing", where, prefix, name]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            yield Racer(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)


async def reason_in(where: str, prefix: str, run_id: str) -> str:
    """Say whose decision is in the store."""
    async with aclosing(open_at(where, prefix)) as store:
        return (await store.posted(run_id)).decisions["c1"].reason


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_of_two_processes_that_race_one_wins(kind: str, tmp_path: Path) -> None:
    where, prefix = (
        (str(tmp_path / "runs.db"), "") if kind == "sqlite" else (shared_server().url, new_prefix())
    )
    with ExitStack() as stack:
        racers = [stack.enter_context(racer(where, prefix, name)) for name in NAMES]

        def decided(run_id: str) -> str:
            return asyncio.run(reason_in(where, prefix, run_id))

        def race(what: str, run_id: str) -> list[str]:
            moment = time.time() + 0.001
            for one in racers:
                one.tell(what, run_id, moment)
            heard = [one.hear() for one in racers]
            assert what != "decide" or decided(run_id) == NAMES[heard.index("won")]
            return sorted(heard)

        for number in range(RUNS):
            assert race("begin", f"run-{number}") == ["UsageError", "won"]
            assert race("claim", f"run-{number}") == ["RunTaken", "won"]
            assert race("decide", f"run-{number}") == ["AlreadyDecided", "won"]

"""Signals to a command: the first one stops it in order, the next one does not wait."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from argstream.agent.tools.process_groups import noted
from argstream.cli import _stopping
from argstream.cli._stopping import Stopping

TAKEN = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """See to it that the signals are as before, whatever a test does."""
    before = [signal.getsignal(number) for number in TAKEN]
    yield
    assert [signal.getsignal(number) for number in TAKEN] == before


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("hangup_ends_processes")
@pytest.mark.parametrize("number", TAKEN)
def test_where_nothing_runs_all_blocks_are_left(number: signal.Signals) -> None:
    left: list[str] = []
    block = ExitStack()
    block.callback(left.append, "a block")
    with pytest.raises(SystemExit) as leaving, Stopping(), block:
        signal.raise_signal(number)
    assert leaving.value.code == 128 + number
    assert left == ["a block"]


@pytest.mark.usefixtures("hangup_ends_processes")
@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")],
)
def test_what_runs_is_stopped_in_order(number: signal.Signals, reason: str) -> None:
    reasons: list[str] = []

    async def main(stopping: Stopping) -> None:
        with stopping.stops(reasons.append):
            signal.raise_signal(number)
            await until(lambda: reasons)

    with Stopping() as stopping:
        asyncio.run(main(stopping))
    assert (reasons, stopping.status) == ([reason], 128 + number)


@pytest.mark.parametrize("numbers", [[signal.SIGQUIT], [signal.SIGINT, signal.SIGTERM]])
def test_who_does_not_want_to_wait_need_not(numbers: list[signal.Signals]) -> None:
    left = []

    async def main(stopping: Stopping) -> None:
        with stopping.stops(lambda _: None):
            try:
                for number in numbers:
                    signal.raise_signal(number)
                await asyncio.sleep(60)
            finally:
                left.append(True)

    with pytest.raises(SystemExit) as leaving, Stopping() as stopping:
        asyncio.run(main(stopping))
    assert leaving.value.code == 128 + numbers[0]
    assert left == [True]


def test_then_what_tools_have_started_is_killed() -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    with (
        subprocess.Popen(sleeping, start_new_session=True) as process,
        noted(process),
        pytest.raises(SystemExit),
        Stopping(),
    ):
        signal.raise_signal(signal.SIGQUIT)
    assert process.returncode == -signal.SIGKILL


def test_who_holds_a_key_down_does_not_tear_what_puts_things_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stopping():
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # it does nothing
        monkeypatch.setattr(_stopping, "_PATIENCE", 0)
        with pytest.raises(SystemExit):  # but after a while, whatever hangs is left too
            signal.raise_signal(signal.SIGINT)


def test_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Stopping() as stopping:
            signal.raise_signal(signal.SIGHUP)
        assert stopping.status is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_inherited_as_ignored_are_reset() -> None:
    """As in a background job of a non-interactive shell, such as ``nohup make test &``."""
    ignoring = ["sh", "-c", 'trap "" INT QUIT HUP; exec "$@"', "sh"]
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "0", __file__, "-k", "blocks_are_left"]
    done = subprocess.run([*ignoring, *tests], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{len(TAKEN)} passed" in done.stdout

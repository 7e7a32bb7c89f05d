"""Settings for all tests."""

import gc
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.together import Together

# These check for many tests, and should say what they saw.
pytest.register_assert_rewrite(
    "tests.agent.histories",
    "tests.agent.ordering",
    "tests.surviving.checks",
    "tests.terminal.approving.sitting",
    "tests.terminal.emulator",
    "tests.terminal.looks.following",
    "tests.terminal.page",
    "tests.terminal.scenes.watching",
)

# No deadlines and no complaint about slowness: the machine may be busy with something else.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Whether a change lands must depend on the change: CI plays the same examples each time. New ones
# are played everywhere else, and 5,000 of each by `make soak`.
_in_ci = os.environ.get("CI") == "true"
settings.register_profile("test", _patient, max_examples=150, derandomize=_in_ci)
settings.register_profile("soak", _patient, max_examples=5_000)
settings.load_profile(os.environ.get("ARGSTREAM_HYPOTHESIS", "test"))

# A background job of a non-interactive shell (`make test &`) ignores SIGINT and SIGQUIT, and so do
# the processes that it starts. The tests send these signals to themselves and to such processes.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


@pytest.fixture
def hangup_ends_processes() -> Iterator[None]:
    """Let SIGHUP have its default effect in one test, also under nohup, which makes it ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together | None:
    return Together(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_finish() -> None:
    """Save time: of thousands of tests, and of hundreds of processes that they start."""
    gc.collect()
    gc.freeze()  # no search for garbage looks at what was collected
    # This process is measured for coverage already. What it starts would take twice as long.
    for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
        del os.environ[name]

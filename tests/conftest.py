"""Settings for all tests."""

import gc
import os
import signal
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

# A shell that runs the tests in the background has them ignore Ctrl-C, and what they start would
# inherit that: then nothing could show what Ctrl-C does.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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

"""Settings for all tests."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, Phase, settings

from tests.together import Together, sort_longest_first

_TESTS = Path(__file__).parent
_IN_CI = bool(os.environ.get("CI"))
_UNMEASURED = ("bulk", "hypothesis", "timing")
_PROFILE = os.environ.get("ARGSTREAM_HYPOTHESIS", "test")

# These check for many tests, and should say what they saw.
pytest.register_assert_rewrite(
    "tests.agent.histories",
    "tests.agent.ordering",
    "tests.terminal.approving.sitting",
    "tests.terminal.emulator",
    "tests.terminal.looks.following",
    "tests.terminal.page",
    "tests.terminal.scenes.watching",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# No deadlines and no complaint about slowness: the machine may be busy with something else.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# In CI the result must depend on the change alone, so CI runs the same examples each time.
# Everywhere else the examples are new in each run. `make soak-properties` runs 5,000 of each.
settings.register_profile("test", _patient, max_examples=30, derandomize=_IN_CI)
settings.register_profile("core", _patient, max_examples=100, derandomize=_IN_CI)
settings.register_profile("soak", _patient, max_examples=5_000)
# `make soak-mutants` runs the same examples for each mutant, and does not shrink them.
_unshrunk = settings(_patient, phases=(Phase.explicit, Phase.generate))
settings.register_profile("mutants", _unshrunk, max_examples=50, derandomize=True)
settings.load_profile(_PROFILE)
# Algorithms with an independent oracle. Their tests run more examples than others.
_CORE = ("assembly", "jsonstream", "policy", "validation", "wire")

# A background job of a non-interactive shell (`make test &`) ignores SIGINT and SIGQUIT, and so do
# the processes that it starts. The tests send these signals to themselves and to such processes.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Load the profile of a module before it is imported: @given stores the current one."""
    if isinstance(collector, pytest.Module) and _PROFILE == "test":
        folder = collector.path.relative_to(_TESTS).parts[0]
        settings.load_profile("core" if folder in _CORE else "test")


@pytest.fixture(scope="module", autouse=True)
def _freeze() -> Iterator[None]:
    """Keep garbage collection quick: it need not look at what was made before this module."""
    gc.collect()
    gc.freeze()
    yield
    gc.collect()  # what this module left open is reported for it and not for the next one


@pytest.fixture
def hangup_ends_processes() -> Iterator[None]:
    """Let SIGHUP have its default effect in one test, also under nohup, which makes it ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Pause coverage in tests that measure time, read a lot of data or run random examples."""
    is_measured = not any(item.get_closest_marker(name) for name in _UNMEASURED)
    coverage = None if is_measured else Coverage.current()
    if coverage is None:
        return (yield)
    coverage.stop()
    try:
        return (yield)
    finally:
        coverage.start()
        _measure_no_processes()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    config.option.loadscopereorder = False  # the order is that of sort_longest_first
    return Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sort_longest_first(items)


def pytest_collection_finish() -> None:
    """Load the profile for tests that call @given themselves, and do not measure processes."""
    settings.load_profile(_PROFILE)
    _measure_no_processes()


def _measure_no_processes() -> None:
    """Keep coverage out of what tests start: it would take twice as long, and leave traces."""
    for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
        del os.environ[name]

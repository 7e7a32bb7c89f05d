"""The order of the tests, and how processes share them."""

import pytest
from xdist.scheduler import LoadScopeScheduling

# The longest modules. Their tests are distributed one by one, before all others.
_LONGEST = (
    "tests/page/test_looks.py",
    "tests/page/test_markup.py",
    "tests/outside/test_recordings.py",
)
# Long modules. They start early, so that no process has to wait for the last.
_LONG = ("tests/page/", "tests/surviving/", "tests/server/", "tests/cli/")


def sort_longest_first(items: list[pytest.Item]) -> None:
    """Move the long tests to the beginning. The order is the same in each process."""
    first = (*_LONGEST, *_LONG)

    def place(item: pytest.Item) -> int:
        found = (at for at, start in enumerate(first) if item.nodeid.startswith(start))
        return next(found, len(first))

    items.sort(key=place)


class Together(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Distributes whole modules, so that their tests share servers and browsers.

    ``--dist=loadfile`` does that, too, but starts with the modules that have the most tests, which
    are not the longest.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(_LONGEST) else nodeid.partition("::")[0]

"""The order of the tests, and how processes share them."""

import pytest
from xdist.scheduler import LoadScopeScheduling

# Long modules. They start early, so that no process has to wait for the last.
_LONG = (
    *("tests/page/test_looks.py", "tests/page/test_markup.py", "tests/page/"),
    *("tests/test_types.py", "tests/surviving/", "tests/server/", "tests/cli/", "tests/outside/"),
)


def sort_longest_first(items: list[pytest.Item]) -> None:
    """Move the long tests to the beginning. The order is the same in each process."""

    def place(item: pytest.Item) -> int:
        found = (at for at, start in enumerate(_LONG) if item.nodeid.startswith(start))
        return next(found, len(_LONG))

    items.sort(key=place)


class Together(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Distributes whole modules, so that their tests share servers and browsers.

    ``--dist=loadfile`` does that, too, but starts with the modules that have the most tests, which
    are not the longest.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

"""Which tests one process runs, one after the other, where several processes share the work.

``--dist=loadgroup`` of pytest-xdist 3.8 would do, but it writes the groups into the names of tests,
and those of pytest 9.2 cannot be written to: so there are no groups.
"""

from xdist.scheduler import LoadScopeScheduling

TOGETHER = (
    "tests/server/test_argstream_js_runs.py",  # the runs are made once
    "tests/test_sanitise.py::TestEveryCharacter",  # and so are a million spellings
)
PAGE = "tests/page/"  # each module has to start its browser
APART = (  # there, a test takes far longer than that
    "tests/page/test_looks.py",
    "tests/page/test_markup.py",
)


class Together(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Gives out groups of tests, the largest first, and all others one by one."""

    def _split_scope(self, nodeid: str) -> str:
        """Name the group that a test belongs to."""
        for group in TOGETHER:
            if nodeid.startswith(group):
                return group
        is_together = nodeid.startswith(PAGE) and not nodeid.startswith(APART)
        return nodeid.partition("::")[0] if is_together else nodeid

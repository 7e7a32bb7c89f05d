"""``RunState`` and ``Run`` of argstream.js have the same states after the same frames."""

import json
from typing import Any

import pytest

from tests.runs.facts import without_blanks
from tests.runs.fixture_runs import CASES, FILE, written_file
from tests.server.nodes import run_node

RUNS: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))


def test_file_has_the_runs_of_the_script_and_their_states() -> None:
    assert written_file() == FILE.read_text("utf-8"), "run python -m tests.runs.fixture_runs"


@pytest.fixture(scope="module")
def in_javascript() -> dict[str, Any]:
    return dict(zip(CASES, run_node("argstream_js_fixtures.mjs", str(FILE)), strict=True))


@pytest.mark.parametrize("run", RUNS, ids=[run["name"] for run in RUNS])
def test_run_of_the_page_is_that_of_the_file(in_javascript: Any, run: dict[str, Any]) -> None:
    assert [without_blanks(state) for state in in_javascript[run["name"]]] == run["states"]

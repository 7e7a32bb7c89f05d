"""docs/providers.md: its tables are what the recordings show."""

from pathlib import Path

import pytest

from tests.outside.provider_facts import measure, order_table, pieces_table, same_tool_table
from tests.outside.recordings import recordings

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"


@pytest.mark.bulk
def test_the_tables_of_the_page_are_what_was_measured(outside_data: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    calls = measure(recordings(outside_data))
    for table in (pieces_table, order_table, same_tool_table):
        assert table(calls) in page, f"print the tables with python -m {measure.__module__}"

"""Outside data: public suites and recordings that are kept beside the repository, never in it."""

import os
from pathlib import Path

import pytest

from tests.support import program_is_missing

_SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture(scope="session")
def outside_data() -> Path:
    """Return the folder with outside data. Without it the tests are skipped, and fail in CI."""
    folder = Path(os.environ.get("ARGSTREAM_OUTSIDE_DATA", _SHARED))
    if not folder.is_dir():
        program_is_missing(
            "outside data is absent: put it into ../shared, or name it in ARGSTREAM_OUTSIDE_DATA"
        )
    return folder

"""Outside data: public suites and recordings that are kept beside the repository, never in it."""

import os
from pathlib import Path

import pytest

_SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture(scope="session")
def outside_data() -> Path:
    """Return the folder with outside data; without it, these tests only report that."""
    folder = Path(os.environ.get("ARGSTREAM_OUTSIDE_DATA", _SHARED))
    if not folder.is_dir():
        pytest.skip(
            "outside data is absent: put it into ../shared, or name it in ARGSTREAM_OUTSIDE_DATA"
        )
    return folder

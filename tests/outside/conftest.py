"""Outside data: public suites and recordings that are kept beside the repository, never in it."""

import os
from pathlib import Path

import pytest

from tests.outside.recordings import Recording, recordings
from tests.support import program_is_missing

_SHARED = Path(__file__).parents[3] / "shared"


def _folder(name: str) -> Path:
    """Return a folder of outside data. Without it the tests are skipped, and fail in CI."""
    folder = Path(os.environ.get("ARGSTREAM_OUTSIDE_DATA", _SHARED)) / name
    if not folder.is_dir():
        program_is_missing(f"no {folder}: put outside data there, or set ARGSTREAM_OUTSIDE_DATA")
    return folder


@pytest.fixture(scope="session")
def json_test_suite() -> Path:
    return _folder("conformance/json_test_suite")


@pytest.fixture(scope="session")
def json_schema_suite() -> Path:
    return _folder("conformance/json_schema_test_suite")


@pytest.fixture(scope="session")
def all_recordings() -> list[Recording]:
    return list(recordings(_folder("recordings")))

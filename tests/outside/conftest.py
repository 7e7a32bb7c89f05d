"""Outside data: public suites and recordings that are kept beside the repository, never in it."""

from pathlib import Path

import pytest

from tests.outside.recordings import Recording, outside_data, recordings
from tests.support import program_is_missing


def _folder(name: str) -> Path:
    """Return a folder of outside data. Without it the tests are skipped, and fail in CI."""
    folder = outside_data(name)
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

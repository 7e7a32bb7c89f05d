"""Runs each store test over the three stores, or over those in the module's STORES."""

from pathlib import Path

import pytest

from tests.runs.stores import KINDS, Place


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "place" in metafunc.fixturenames and "place" not in chosen:
        metafunc.parametrize("place", getattr(metafunc.module, "STORES", KINDS), indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


@pytest.fixture
def path(place: Place) -> Path:
    return place.path

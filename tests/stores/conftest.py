"""Gives each test of the contract the three stores, one after the other."""

from pathlib import Path

import pytest

from tests.stores.stores import KINDS, Place


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)

"""Gives the tests of this directory processes to kill."""

from collections.abc import Iterator

import pytest

from tests.surviving.trials import Lanes


@pytest.fixture(scope="package")
def lanes() -> Iterator[Lanes]:
    with Lanes(4) as lanes:
        yield lanes


@pytest.fixture(params=["sqlite", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)

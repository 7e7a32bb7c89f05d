"""Gives the tests of this directory processes to kill."""

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.surviving.checks", "tests.agent.ordering")

from tests.surviving.lanes import Lanes  # noqa: E402 - its checks should say what they saw


@pytest.fixture(scope="package")
def lanes() -> Iterator[Lanes]:
    with Lanes(4) as lanes:
        yield lanes


@pytest.fixture(params=["sqlite", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)

"""Isolated tools are killed; who is killed while coverage writes leaves what nobody can read."""

import os

import pytest


@pytest.fixture(autouse=True)
def not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not measure the processes that these tests start."""
    for name in os.environ:
        if name.startswith("COVERAGE_"):
            monkeypatch.delenv(name)

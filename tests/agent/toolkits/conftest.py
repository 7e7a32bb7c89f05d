"""Gives a test a project; whatever the test does, nothing outside of the project may change."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.toolkits.projects import Project, safe_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Give a folder with tools, beside a secret."""
    with safe_project(tmp_path) as made:
        yield made

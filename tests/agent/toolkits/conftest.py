"""The project of a test. Nothing outside it may be read or changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.toolkits.projects import CANARY, Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    with project.runner:
        yield project
    assert project.secret.read_text(encoding="utf-8") == CANARY
    assert [path.name for path in project.outside.iterdir()] == ["secret.txt"]
    assert {path.name for path in tmp_path.iterdir()} == {"outside", "project"}
    assert not [answer for answer in project.answers if "canary" in answer]
    assert not list(project.root.rglob(".argstream-*")), "no draft is left"

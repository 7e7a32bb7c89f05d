"""A project with tools for its files, beside a secret that must be neither read nor changed."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from argstream.agent.toolkits import file_tools
from argstream.agent.tools import failure_words
from argstream.errors import ToolFailure
from tests.agent.tools.calling import run

CANARY = "the canary sings\n"


class Project:
    """A folder, its tools, and what was said by them."""

    def __init__(self, place: Path) -> None:
        self.root = place / "project"
        self.outside = place / "outside"
        self.secret = self.outside / "secret.txt"
        self.root.mkdir()
        self.outside.mkdir()
        self.secret.write_text(CANARY, encoding="utf-8")
        self.tools = {tool.name: tool for tool in file_tools(self.root)}
        self.answers: list[str] = []

    def file(self, path: str, content: str | bytes = "") -> Path:
        """Put a file into the project."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def link(self, path: str, target: str | Path) -> None:
        """Put a symbolic link into the project."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).symlink_to(target)

    def call(self, name: str, /, **arguments: Any) -> str:
        """Call a tool as a runner would; give what a model is told."""
        answer: str = asyncio.run(run(self.tools[name], **arguments))
        self.answers.append(answer)
        return answer

    def refused(self, name: str, /, **arguments: Any) -> str:
        """Call a tool, which fails; give what a model is told."""
        with pytest.raises(ToolFailure) as failure:
            self.call(name, **arguments)
        self.answers.append(failure_words(failure.value))
        return self.answers[-1]

    def attempt(self, name: str, /, **arguments: Any) -> None:
        """Call a tool, whatever comes of it."""
        try:
            self.call(name, **arguments)
        except ToolFailure as failure:
            self.answers.append(failure_words(failure))

    def require_unharmed(self) -> None:
        """Assert that nothing outside was read, changed or made, and no draft is left."""
        assert self.secret.read_text(encoding="utf-8") == CANARY
        assert [path.name for path in self.outside.iterdir()] == ["secret.txt"]
        assert {path.name for path in self.outside.parent.iterdir()} == {"outside", "project"}
        assert not [answer for answer in self.answers if "canary" in answer]
        assert not list(self.root.rglob(".argstream-*"))

    def tree(self) -> list[str]:
        """Give all that is in the project."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*"))


@contextmanager
def safe_project(place: Path) -> Iterator[Project]:
    """Make a project; after what is done with it, all outside of it must be as before."""
    project = Project(place)
    yield project
    project.require_unharmed()

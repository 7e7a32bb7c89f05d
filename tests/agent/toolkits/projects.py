"""A project with file tools, beside a secret that must be neither read nor changed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from argstream.agent.toolkits import file_tools
from argstream.agent.tools import failure_message
from argstream.errors import ToolError
from tests.agent.tools.calling import run

CANARY = "the canary sings\n"


class Project:
    def __init__(self, place: Path) -> None:
        self.root = place / "project"
        self.outside = place / "outside"
        self.secret = self.outside / "secret.txt"
        self.root.mkdir()
        self.outside.mkdir()
        self.secret.write_text(CANARY, encoding="utf-8")
        self.tools = {tool.name: tool for tool in file_tools(self.root)}
        self.answers: list[str] = []
        self.runner = asyncio.Runner()

    def file(self, path: str, content: str | bytes = "") -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def link(self, path: str, target: str | Path) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).symlink_to(target)

    def call(self, name: str, /, **arguments: Any) -> str:
        answer: str = self.runner.run(run(self.tools[name], **arguments))
        self.answers.append(answer)
        return answer

    def refused(self, name: str, /, **arguments: Any) -> str:
        with pytest.raises(ToolError) as failure:
            self.call(name, **arguments)
        self.answers.append(failure_message(failure.value))
        return self.answers[-1]

    def edit(self, text: str | bytes, *edits: tuple[str, str]) -> bytes:
        target = self.file("a.txt", text)
        self.call("edit_file", path="a.txt", edits=[{"old": old, "new": new} for old, new in edits])
        return target.read_bytes()

    def refused_edit(self, text: str, *edits: tuple[str, str]) -> str:
        with pytest.raises(ToolError) as failure:
            self.edit(text, *edits)
        assert (self.root / "a.txt").read_bytes() == text.encode()
        return failure_message(failure.value)

    def tree(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*"))

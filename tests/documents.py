"""Runs the programs of the README and of docs/ as they are, against a provider on loopback."""

import os
import re
import subprocess
import sys
from pathlib import Path

from argstream.testing import MockProvider

ROOT = Path(__file__).parents[1]


class Document:
    """The fenced blocks of a Markdown file."""

    def __init__(self, name: str) -> None:
        self.text = (ROOT / name).read_text(encoding="utf-8")
        self.blocks: list[tuple[str, str]] = re.findall(
            r"^```(\w+)\n(.*?)^```$", self.text, re.DOTALL | re.MULTILINE
        )

    @property
    def programs(self) -> set[str]:
        return {text for kind, text in self.blocks if kind == "python"}

    def block(self, *words: str, language: str = "python") -> str:
        """Return the one block that contains these words."""
        [found] = [
            text
            for kind, text in self.blocks
            if kind == language and all(word in text for word in words)
        ]
        return found


def keys_for(provider: MockProvider | None) -> dict[str, str]:
    """Return the variables with which SDKs and models talk to this provider."""
    keys = {"ANTHROPIC_API_KEY": "a-key-of-some-length", "OPENAI_API_KEY": "a-key-of-some-length"}
    if provider is not None:
        keys |= {"ANTHROPIC_BASE_URL": provider.anthropic_url}
        keys |= {"OPENAI_BASE_URL": provider.openai_url}
    return keys


def run_program(program: str, folder: Path, provider: MockProvider) -> str:
    """Run a program in a process of its own and return what it prints. It must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **keys_for(provider)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout

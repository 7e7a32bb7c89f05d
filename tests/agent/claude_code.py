"""A fixture for tests that start the real Claude Code."""

import os
from pathlib import Path

import claude_agent_sdk
import pytest

from tests.support import program_is_missing

__all__ = ["claude_code_alone"]

_CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


@pytest.fixture
def claude_code_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Skip or fail if Claude Code is missing. It sees no settings of the developer."""
    if not _CLAUDE.exists():
        program_is_missing(
            f"claude-agent-sdk contains no Claude Code for this system: {_CLAUDE.name}"
        )
    for name in list(os.environ):
        if name != "PATH":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

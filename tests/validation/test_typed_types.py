"""Types are precise for the user: mypy and pyright agree on every line of ``typed_uses``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.streaming.test_types import check

USES = Path(__file__).with_name("typed_uses.py")


@pytest.mark.timeout(300)
def test_mypy_finds_every_use_precise() -> None:
    check(sys.executable, "-m", "mypy", str(USES))


@pytest.mark.timeout(300)
def test_pyright_finds_every_use_precise() -> None:
    """It comes as a package of npm's, which its own wrapper fetches at the first run."""
    version = subprocess.run(
        [sys.executable, "-m", "pyright", "--version"], capture_output=True, text=True, check=False
    )
    if version.returncode and not os.environ.get("CI"):
        pytest.skip(f"pyright cannot be started: {version.stderr[-200:]}")
    check(sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(USES))

"""pyright accepts every line of the files ``typed_uses``, and finds every public name typed.

mypy checks the same files in ``make types``.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def run_pyright(*arguments: str, cwd: Path = TESTS.parent) -> str:
    """Run pyright, an npm package that its wrapper downloads at the first run."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # of its own Python
    done = subprocess.run(
        [sys.executable, "-m", "pyright", *arguments],
        cwd=cwd,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and not done.stdout and not os.environ.get("CI"):
        pytest.skip(f"pyright cannot be started: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_pyright_finds_every_use_precise() -> None:
    uses = sorted(map(str, TESTS.glob("**/typed_uses.py")))
    assert len(uses) == 3
    run_pyright(*uses)


@pytest.mark.timeout(300)
def test_all_public_names_have_types(tmp_path: Path) -> None:
    options = ("--verifytypes", "argstream", "--ignoreexternal", "--outputjson")
    report = json.loads(run_pyright(*options, cwd=tmp_path))["typeCompleteness"]
    counts = report["exportedSymbolCounts"]
    assert counts["withKnownType"] > 500
    assert (counts["withUnknownType"], counts["withAmbiguousType"]) == (0, 0)
    assert report["completenessScore"] == 1

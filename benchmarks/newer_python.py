"""A second environment for axio, which needs a newer Python than argstream does."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from results import Results

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "ARGSTREAM_BENCH_PYTHON"

_ENVIRONMENT = ROOT / ".venv-bench"
_PYTHON = _ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "python"
_GROUP = "bench-axio"
_OLDEST = (3, 12)


class Unavailable(Exception):  # noqa: N818 - it is a finding for the report, not a fault
    """axio cannot be measured here; the message says why."""


def measure_axio(*, quick: bool) -> Results:
    """Measure argstream and axio in the second environment, which is made if it is missing."""
    _prepare()
    command = [str(_PYTHON), str(ROOT / "benchmarks" / "axio_worker.py")]
    if quick:
        command.append("--quick")
    worker = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if worker.returncode:
        raise Unavailable(f"the run in {_ENVIRONMENT.name} failed, see above")
    return Results.from_json(worker.stdout)


def _prepare() -> None:
    python = _newer_python()
    if _version(python) == _version(str(_PYTHON)) and _installed() == _wanted():
        return
    _progress(f"making {_ENVIRONMENT.name} for axio")
    install = [str(_PYTHON), "-m", "pip", "install", "--quiet"]
    for command in (
        [python, "-m", "venv", "--clear", str(_ENVIRONMENT)],
        [*install, "--upgrade", "pip"],  # --group needs 25.1
        [*install, "--group", f"{ROOT / 'pyproject.toml'}:{_GROUP}"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            _progress(done.stderr)
            raise Unavailable(f"{_ENVIRONMENT.name} could not be made, see above")


def _wanted() -> str:
    """Read what the dependency group pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (requirement,) = project["dependency-groups"][_GROUP]
    return str(requirement)


def _installed() -> str | None:
    """Ask the second environment, if it is there, what it has."""
    question = "import importlib.metadata as m; print('axio==' + m.version('axio'))"
    return _output([str(_PYTHON), "-c", question])


def _newer_python() -> str:
    """Find an interpreter that is new enough."""
    for python in _candidates():
        # A name on PATH may be a stand-in of pyenv that only says it is not chosen: so ask it.
        version = _version(python)
        if version and version >= _OLDEST:
            return python
    oldest = ".".join(map(str, _OLDEST))
    raise Unavailable(
        f"it needs Python {oldest} or newer and none was found; {VARIABLE} can name one"
    )


def _candidates() -> Iterator[str]:
    if named := os.environ.get(VARIABLE):
        yield named
        return
    yield sys.executable
    for name in ("python3.14", "python3.13", "python3.12"):
        if found := shutil.which(name):
            yield found
    versions = Path.home().glob(".pyenv/versions/3.*")
    for version in sorted(versions, key=lambda path: _numbers(path.name), reverse=True):
        yield str(version / "bin" / "python")


def _version(python: str) -> tuple[int, ...] | None:
    """Ask an interpreter for its version."""
    said = _output([python, "-c", "import platform; print(platform.python_version())"])
    return _numbers(said) if said else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _output(command: list[str]) -> str | None:
    """Run a command for what it prints; None if there is no such command or it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout.strip()


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

"""Mutation testing of the parser, the state of a run and the agent's loop.

Run by ``make soak-mutants``. mutmut changes one operator, value or argument of a function at a
time, and runs the tests that call this function. A mutant is killed if one of them fails. Exit
status 1 if fewer than 85 % of a file's mutants are killed.

To see a mutant that survived: ``cd .mutants/_parser && ../../.venv/bin/mutmut show NAME``
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).parents[1]
WORK = ROOT / ".mutants"
SOURCES = {
    "src/argstream/jsonstream/_parser.py": ["tests/jsonstream"],
    "src/argstream/runs/_state.py": [
        "tests/runs/test_state.py",
        "tests/runs/test_state_fixtures.py::test_file_has_the_runs_of_the_script_and_their_states",
    ],
    "src/argstream/agent/_loop.py": [
        "tests/agent/test_machine.py",
        "tests/agent/test_agent.py",
        "tests/agent/test_approvals.py",
        "tests/agent/test_hostile_provider.py",
        "tests/agent/test_leaving.py",
        "tests/agent/test_logged.py",
        "tests/agent/test_over_http.py",
    ],
}
REQUIRED = 0.85
SEED = 24
# Tests that measure time would fail because of mutmut's wrappers. mutmut ends a mutant that hangs.
PYTEST = ["-m", "not timing", "--timeout=0"]
CONFIGURATION = """
[tool.mutmut]
only_mutate = {source}
pytest_add_cli_args = {pytest}
pytest_add_cli_args_test_selection = {tests}
process_isolation = "forkserver"
timeout_constant = 20.0
timeout_multiplier = 4.0
"""


def main() -> None:
    """Test the mutants of each file and print how many were killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", nargs="*", default=list(SOURCES), help="files of src")
    parser.add_argument("--sample", type=int, help="mutants per file, at random; default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    results = {one: run(one, options.sample, options.jobs) for one in options.sources}
    print(f"{'mutants':>8}{'killed':>8}{'survived':>10}{'timed out':>11}{'share':>8}")
    shares = []
    for source, found in results.items():
        mutants, timed_out = found.total(), found["timeout"]
        # A mutant that hangs is not counted, because a mutant on a busy machine looks the same.
        shares.append(found["killed"] / mutants)
        survived = mutants - found["killed"] - timed_out
        figures = f"{mutants:>8}{found['killed']:>8}{survived:>10}{timed_out:>11}{shares[-1]:>8.1%}"
        print(f"{figures}  {source}")
    sys.exit(min(shares) < REQUIRED)


def run(source: str, sample: int | None, jobs: int) -> Counter[str]:
    """Return how many mutants of a file ended how, and print those that survived."""
    folder = WORK / Path(source).stem
    shutil.rmtree(folder, ignore_errors=True)
    unused = shutil.ignore_patterns("node_modules", "__pycache__")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=unused)
    facts = {"source": [source], "pytest": PYTEST, "tests": SOURCES[source]}
    configuration = CONFIGURATION.format_map(
        {key: json.dumps(value) for key, value in facts.items()}
    )
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + configuration)
    names = [
        get_mutant_name(Path(source), name)
        for name in mutate_file_contents(source, (ROOT / source).read_text()).mutant_names
    ]
    command = [str(Path(sys.executable).with_name("mutmut")), "run", f"--max-children={jobs}"]
    if sample is not None:
        names = random.Random(SEED).sample(names, min(sample, len(names)))
        command += names
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"ARGSTREAM_HYPOTHESIS": "mutants", "PYTHONHASHSEED": "0"},
        check=False,
    )
    if done.returncode:
        sys.exit(f"mutmut failed. These tests must pass: pytest {' '.join(SOURCES[source])}")
    codes = json.loads((folder / "mutants" / f"{source}.meta").read_text())["exit_code_by_key"]
    found = {name: status_by_exit_code[codes[name]] for name in names}
    for name, status in found.items():
        if status != "killed":
            print(f"{status}: {name}")
    return Counter(found.values())


if __name__ == "__main__":
    main()

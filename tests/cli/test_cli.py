"""The command line as a whole, and the JSON fragments of ``argstream inspect``."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.in_process import argstream

COMMAND = Path(sys.executable).parent / "argstream"

# As for most users: Python buffers its output, and nothing is said about colours.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONUNBUFFERED", "NO_COLOR", "FORCE_COLOR")
    # What is started is not measured: see tests/conftest.py, which says so later than this is read.
    and not name.startswith("COVERAGE_")
}


FRAGMENTS = [str(COMMAND), "inspect", "--fragments", "-"]


def fragments(file: str = "-", stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return argstream("inspect", "--fragments", file, stdin=stdin)


class TestFragments:
    def test_complete_json_is_fragments_a_line_each(self) -> None:
        done = fragments(stdin='{"a": ["é", 1]}'.encode())
        assert done.returncode == 0
        assert done.stderr == b""
        assert [json.loads(line) for line in done.stdout.splitlines()] == [
            {"fragment": "start", "path": [], "kind": "object", "offset": 0},
            {"fragment": "key", "path": ["a"], "offset": 3},
            {"fragment": "start", "path": ["a"], "kind": "array", "offset": 6},
            {"fragment": "start", "path": ["a", 0], "kind": "string", "offset": 7},
            {"fragment": "text", "path": ["a", 0], "text": "é"},
            {"fragment": "done", "path": ["a", 0], "value": "é", "offset": 10},
            {"fragment": "start", "path": ["a", 1], "kind": "number", "offset": 12},
            {"fragment": "done", "path": ["a", 1], "value": 1, "offset": 13},
            {"fragment": "done", "path": ["a"], "value": ["é", 1], "offset": 14},
            {"fragment": "done", "path": [], "value": {"a": ["é", 1]}, "offset": 15},
        ]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b'{"a": tru}', 'malformed, in ["a"]: only true, false and null are words of JSON'),
            (b'{"a": "x', 'truncated, in ["a"]: the text ended before the value was complete'),
            (b"", "truncated, in []: the text ended before the value was complete"),
            (b'"\xff"', "malformed, in []: the bytes are not UTF-8"),
        ],
    )
    def test_anything_else_exits_with_1_and_one_line(self, text: bytes, message: str) -> None:
        done = fragments(stdin=text)
        assert done.returncode == 1
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith(f"argstream: {message} (at character ")
        assert json.loads(done.stdout.splitlines()[-1])["fragment"] == "invalid"

    def test_fragments_come_while_the_input_is_still_arriving(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)  # a read does not wait here, so the command must
        with subprocess.Popen(
            FRAGMENTS, stdin=reader, stdout=subprocess.PIPE, env=ENVIRONMENT
        ) as process:
            os.close(reader)
            assert process.stdout is not None
            os.write(writer, b'{"path": "/tm')
            lines = [json.loads(process.stdout.readline()) for _ in range(4)]
            assert lines[-1] == {"fragment": "text", "path": ["path"], "text": "/tm"}
            time.sleep(0.1)  # nothing has arrived, but more will
            os.write(writer, b'p"}')
            os.close(writer)
            assert json.loads(process.stdout.readline())["text"] == "p"
            process.stdout.read()
        assert process.returncode == 0

    def test_a_file_and_a_dash(self, tmp_path: Path) -> None:
        file = tmp_path / "call.json"
        file.write_text("[1]")
        assert fragments(str(file)).stdout == fragments(stdin=b"[1]").stdout

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("no-such.json", "No such file or directory"),
            (".", "Is a directory"),
            ("", "No such file or directory"),
            ("./-", "No such file or directory"),
            # A file that opens and cannot be read, where there is one.
            *[(file, "Input/output error") for file in ["/proc/self/mem"] if Path(file).exists()],
        ],
    )
    def test_an_unreadable_file_is_said_plainly(self, name: str, why: str) -> None:
        done = fragments(name)
        assert done.returncode == 2
        assert done.stderr.decode() == f"argstream: cannot read {name}: {why}\n"

    def test_a_file_name_cannot_act_on_a_terminal(self) -> None:
        assert b"\x1b" not in fragments("\x1b]0;x\x07").stderr

    def test_nothing_on_the_screen_can_act_on_a_terminal(self) -> None:
        evil = {"\x1b]0;x\x07": "\u202e\x9b31m\x7f\ufeff"}
        done = fragments(stdin=json.dumps(evil, ensure_ascii=False).encode())
        assert done.returncode == 0
        assert set(done.stdout) <= {*range(0x20, 0x7F), 0x0A}
        assert json.loads(done.stdout.splitlines()[-1])["value"] == evil

    def test_an_infinite_number_stays_a_number(self) -> None:
        done = fragments(stdin=b'["Infinity \\" Infinity", 1e999, -1e999]')
        (value,) = [
            line["value"]
            for line in map(json.loads, done.stdout.splitlines())
            if line["fragment"] == "done" and not line["path"]
        ]
        assert value == ['Infinity " Infinity', float("inf"), float("-inf")]
        assert b"1e999" in done.stdout
        assert b", Infinity" not in done.stdout

    def test_a_reader_that_goes_away_is_no_crash(self, tmp_path: Path) -> None:
        file = tmp_path / "long.json"
        file.write_text("[" + "1," * 100_000)
        with subprocess.Popen(
            [COMMAND, "inspect", "--fragments", file],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
    def test_a_full_disk_is_not_taken_for_bad_input(self) -> None:
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                FRAGMENTS,
                input=b"[1]",
                stdout=full,
                stderr=subprocess.PIPE,
                env=ENVIRONMENT,
                check=False,
            )
        assert done.returncode == 2
        assert done.stderr == b"argstream: cannot go on: No space left on device\n"


class TestCommand:
    def test_python_finds_it_by_the_name_of_the_package(self) -> None:
        command = [sys.executable, "-m", "argstream", "--version"]
        done = subprocess.run(command, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout == argstream("--version").stdout

    def test_help_and_version(self) -> None:
        assert b"inspect" in argstream("--help").stdout
        assert argstream("--version").stdout.startswith(b"argstream 0.")

    def test_without_its_extra_it_says_what_to_install(self, tmp_path: Path) -> None:
        (tmp_path / "typer.py").write_text("raise ModuleNotFoundError('typer', name='typer')")
        done = subprocess.run(
            [COMMAND, "--help"],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr.decode().strip() == (
            "the argstream command needs the extra 'cli'. In a checkout: pip install '.[cli]'"
        )

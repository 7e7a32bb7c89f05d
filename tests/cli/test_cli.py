"""The command line as a whole, and the JSON fragments of ``argstream inspect``."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.in_process import argstream, refused
from tests.cli.processes import BODY, COMMAND, ENVIRONMENT, run, running, timed

FRAGMENTS = ("inspect", "--fragments")


def fragments(file: str = "-", stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return argstream(*FRAGMENTS, file, stdin=stdin)


class TestFragments:
    def test_complete_json_is_printed_one_fragment_a_line(self, tmp_path: Path) -> None:
        text = '{"a": ["é", 1]}'
        (tmp_path / "call.json").write_text(text, "utf-8")
        done = fragments(stdin=text.encode())
        assert (done.returncode, done.stderr) == (0, b"")
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
        assert fragments(str(tmp_path / "call.json")).stdout == done.stdout

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                b'{"a": tru}',
                'malformed, in ["a"]: not one of the JSON literals true, false and null',
            ),
            (b'{"a": "x', 'truncated, in ["a"]: the text ended before the value was complete'),
            (b"", "truncated, in []: the text ended before the value was complete"),
            (b'"\xff"', "malformed, in []: the bytes are not UTF-8"),
        ],
    )
    def test_invalid_json_exits_with_1_and_one_line(self, text: bytes, message: str) -> None:
        done = fragments(stdin=text)
        assert done.returncode == 1
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith(f"argstream: {message} (at character ")
        assert json.loads(done.stdout.splitlines()[-1])["fragment"] == "invalid"

    def test_fragments_are_printed_while_input_arrives(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)  # a read does not wait here, so the command must
        with running(*FRAGMENTS, "-", stdin=reader) as process:
            os.close(reader)
            os.write(writer, b'{"path": "/tm')
            lines = [json.loads(process.stdout.readline()) for _ in range(4)]
            assert lines[-1] == {"fragment": "text", "path": ["path"], "text": "/tm"}
            time.sleep(0.05)  # lets it find the pipe empty
            os.write(writer, b'p"}')
            os.close(writer)
            assert json.loads(process.stdout.readline())["text"] == "p"
            process.stdout.read()
            assert process.wait(20) == 0

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("no-such.json", "No such file or directory"),
            (".", "Is a directory"),
            ("", "No such file or directory"),
            ("./-", "No such file or directory"),
            # A file that opens and cannot be read, where there is one.
            *[(file, "Input/output error") for file in ["/proc/self/mem"] if Path(file).exists()],
        ],
    )
    def test_unreadable_file_exits_with_2(self, name: str, reason: str) -> None:
        done = fragments(name)
        assert done.returncode == 2
        assert done.stderr.decode() == f"argstream: cannot read {name}: {reason}\n"

    def test_neither_file_name_nor_content_acts_on_the_terminal(self) -> None:
        assert b"\x1b" not in fragments("\x1b]0;x\x07").stderr
        evil = {"\x1b]0;x\x07": "\u202e\x9b31m\x7f\ufeff"}
        done = fragments(stdin=json.dumps(evil, ensure_ascii=False).encode())
        assert done.returncode == 0
        assert set(done.stdout) <= {*range(0x20, 0x7F), 0x0A}
        assert json.loads(done.stdout.splitlines()[-1])["value"] == evil

    def test_infinite_number_stays_a_number(self) -> None:
        done = fragments(stdin=b'["Infinity \\" Infinity", 1e999, -1e999]')
        last = json.loads(done.stdout.splitlines()[-1])
        assert (last["fragment"], last["path"]) == ("done", [])
        assert last["value"] == ['Infinity " Infinity', float("inf"), float("-inf")]
        assert b"1e999" in done.stdout
        assert b", Infinity" not in done.stdout

    def test_closed_output_ends_without_a_traceback(self, tmp_path: Path) -> None:
        file = tmp_path / "long.json"
        file.write_text("[" + "1," * 100_000)
        with running(*FRAGMENTS, str(file)) as process:
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
    def test_full_disk_is_reported_as_such(self) -> None:
        with Path("/dev/full").open("wb") as full:
            done = run(*FRAGMENTS, "-", stdin=b"[1]", stdout=full.fileno())
        assert done.returncode == 2
        assert done.stderr == b"argstream: cannot go on: No space left on device\n"


def test_python_m_argstream_is_the_same_command() -> None:
    assert b"inspect" in argstream("--help").stdout
    version = argstream("--version").stdout
    assert version.startswith(b"argstream 0.")
    command = [sys.executable, "-m", "argstream", "--version"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", version)


@pytest.mark.parametrize(
    ("module", "arguments", "extra", "start"),
    [
        ("typer", "--help", "cli", "the argstream command"),
        ("jsonschema_rs", "lint -", "validation", "argstream: checking calls by a JSON Schema"),
    ],
)
def test_missing_extra_is_named_with_its_install_command(
    tmp_path: Path, module: str, arguments: str, extra: str, start: str
) -> None:
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError('', name='{module}')")
    tools = b'[{"name": "write", "input_schema": {"type": "object"}}]'
    environment = ENVIRONMENT | {"PYTHONPATH": str(tmp_path)}
    command = [str(COMMAND), *arguments.split()]
    done = subprocess.run(command, input=tools, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1 if extra == "cli" else 2, b"")
    message = f"{start} needs the extra '{extra}'. In a checkout: pip install '.[{extra}]'"
    assert done.stderr.decode().strip() == message


EXCLUSIVE = "--calls and --fragments exclude each other"
FOR_CALLS = "--tools, --policy and several files are for --calls"
PROXY = "record --proxy http://x.example"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("inspect x --calls --fragments", EXCLUSIVE),
        ("inspect x --calls run:y", f"{EXCLUSIVE}, run:ID"),
        ("inspect x --fragments --deep", EXCLUSIVE),
        ("inspect x --calls --json", EXCLUSIVE),
        ("inspect x --calls --svg y.svg", EXCLUSIVE),
        ("inspect x y", FOR_CALLS),
        ("inspect x --fragments --policy y", FOR_CALLS),
        ("inspect x --fragments --from gemini", "--deep and --from are for recordings"),
        ("inspect x --fragments --store y", "--store is for runs"),
        ("inspect x --force", "--force is for --svg"),
        ("inspect run:x --deep", "--deep and --from are for recordings"),
        ("inspect turn.rec --store x", "--store is for runs"),
        ("inspect none", "No such file"),
        ("watch none", "cannot read none: No such file"),
        ("watch --from claude", "openai-responses"),
        ("watch broken.json --tools broken.json", "is not valid JSON"),
        ("replay none", "No such file"),
        ("replay turn.rec --speed 0", "a number greater than 0, or max"),
        ("replay turn.rec --speed fast", "a number greater than 0, or max"),
        ("replay turn.rec --raw --json", "choose one"),
        ("replay turn.rec --follow", "--store and --follow are for runs"),
        ("replay run:x --raw", "--raw and --from are for recordings"),
        ("record -o none/turn.rec", "cannot write"),
        ("record --port 1", "are for --proxy"),
        ("record --with-request", "are for --proxy"),
        (f"{PROXY} --force", "are not for --proxy"),
        (f"{PROXY} -q", "are not for --proxy"),
        ("record --proxy x.example", "must be an http or https URL"),
        ("record --proxy http://api..example.com", "invalid host name"),
        (f"{PROXY} -o new.rec", "Pass a directory"),
        (f"{PROXY} -o broken.json", "Pass a directory"),
        ("mock turn.rec --timed --fault cut", "makes no --fault"),
        ("mock --timed", "Pass the file of one"),
        ("mock --fault cot=3", "argstream: unknown fault 'cot'. Faults: cut=BYTES"),
        ("mock none", "cannot read"),
        ("mock broken.json", "not a recording of"),
        ("mock wrong.json", "reply 1, part 1: a part must be"),
        ("mock cut.json", "the script is not JSON"),
    ],
)
def test_wrong_usage_exits_with_2(
    command: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    timed(tmp_path / "turn.rec", (0.0, BODY))
    (tmp_path / "broken.json").write_text("[{]")
    (tmp_path / "wrong.json").write_text('{"replies": [{"parts": [{"says": "x"}]}]}')
    (tmp_path / "cut.json").write_text('{"replies": [')
    assert message in refused(*command.split())


def test_ctrl_c_while_the_command_is_loaded_leaves_no_traceback() -> None:
    program = """
import sys
from argstream.cli import main

class Interrupted:
    def find_spec(self, name, *_):
        if name == "argstream.cli._commands":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")

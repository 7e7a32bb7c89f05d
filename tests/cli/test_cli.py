"""The command line as a whole, and the JSON fragments of ``argstream inspect``."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest

from argstream.cli._commands import Parser, help_texts
from argstream.providers import ProtocolName
from argstream.testing._replies import known_faults
from tests.cli.in_process import argstream, refused
from tests.cli.processes import BODY, COMMAND, ENVIRONMENT, run, running, timed
from tests.support import screen

FRAGMENTS = ("inspect", "--fragments")
TEXTS = help_texts()


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
        assert done.stderr == b"argstream: cannot write the output: No space left on device\n"


def test_python_m_argstream_is_the_same_command() -> None:
    assert b"inspect" in argstream("--help").stdout
    version = argstream("--version").stdout
    assert version.startswith(b"argstream 0.")
    command = [sys.executable, "-m", "argstream", "--version"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", version)


def test_missing_extra_is_named_with_its_install_command(tmp_path: Path) -> None:
    missing = "raise ModuleNotFoundError('', name='jsonschema_rs')"
    (tmp_path / "jsonschema_rs.py").write_text(missing)
    tools = b'[{"name": "write", "input_schema": {"type": "object"}}]'
    environment = ENVIRONMENT | {"PYTHONPATH": str(tmp_path)}
    command = [str(COMMAND), "lint", "-"]
    done = subprocess.run(command, input=tools, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    start = "argstream: checking calls by a JSON Schema"
    message = f"{start} needs the extra 'validation'. In a checkout: pip install '.[validation]'"
    assert done.stderr.decode().strip() == message


def test_wrong_usage_exits_with_2_and_says_how_to_correct_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ARGSTREAM_MODEL", "ARGSTREAM_STORE"):
        monkeypatch.delenv(name, raising=False)
    timed(tmp_path / "turn.rec", (0.0, BODY))
    (tmp_path / "broken.json").write_text("[{]")
    (tmp_path / "wrong.json").write_text('{"replies": [{"parts": [{"says": "x"}]}]}')
    (tmp_path / "cut.json").write_text('{"replies": [')
    expected = screen("wrong-usage")
    commands = [line.removeprefix("$ argstream ") for line in expected if line.startswith("$")]
    found = [[f"$ argstream {one}", refused(*shlex.split(one))] for one in commands]
    assert [line for pair in found for line in pair] == expected


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


class TestHelp:
    """The help of every command, which is also what its options are read from."""

    @pytest.mark.parametrize("name", TEXTS)
    def test_it_fits_80_columns_and_has_an_example(self, name: str) -> None:
        words = [] if name == "argstream" else name.split()
        done = argstream(*words, "--help")
        assert (done.returncode, done.stderr) == (0, b"")
        text = done.stdout.decode()
        assert text == f"{TEXTS[name]}\n"
        usage, _, summary, *lines = text.splitlines()
        assert usage.startswith(f"Usage: {' '.join(['argstream', *words])} ")
        assert max(map(len, [usage, summary, *lines])) <= 79
        assert summary.endswith(".")
        group = TEXTS["runs" if name.startswith("runs ") else "argstream"]
        assert name == "argstream" or re.search(rf"^  {words[-1]} +{summary}", group, re.MULTILINE)
        assert " ".join(["argstream", *words]) in lines[lines.index("Example:") + 1]
        assert "Commands:" in lines or any(line.startswith("Exit status: ") for line in lines)

    @pytest.mark.parametrize("name", [name for name in TEXTS if " " in name or name != "runs"])
    def test_examples_are_valid_command_lines(self, name: str) -> None:
        _, _, examples = TEXTS[name].partition("\nExample:\n")
        for line in examples.partition("\n\n")[0].splitlines():
            _, _, arguments = line.partition(f"argstream {name} ")
            if name != "argstream" and "…" not in arguments:
                Parser(TEXTS[name]).parse_intermixed_args(shlex.split(arguments))

    def test_values_of_options_are_those_of_the_code(self) -> None:
        watch, mock = (" ".join(TEXTS[name].split()) for name in ("watch", "mock"))
        protocols = [name for name in get_args(ProtocolName) if name != "auto"]
        assert f"Stream protocol: {', '.join(protocols)}. " in watch
        *faults, last = known_faults().split(", ")
        assert f"Inject a fault: {', '.join(faults)} or {last}. " in mock
        defaults = vars(Parser(TEXTS["serve"]).parse_args([]))
        given = {name: value for name, value in defaults.items() if value not in (None, [], False)}
        numbers = {"max_turns": 50, "port": 8000, "pace": 0.03}
        assert given == {"host": "127.0.0.1", "log_level": "warning", **numbers}

    def test_docs_describe_every_command_and_variable(self) -> None:
        text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
        commands = [name for name in TEXTS if name not in ("argstream", "runs")]
        headings = re.findall(r"^### argstream (.+)$", text, re.MULTILINE)
        assert sorted(headings) == sorted(commands)
        for name in commands:
            section = text.partition(f"### argstream {name}\n")[2].partition("\n#")[0]
            for line in re.findall(
                r"argstream .*", section.partition("```sh\n")[2].split("```")[0]
            ):
                prefix = "argstream runs" if line == "argstream runs" else f"argstream {name}"
                assert line.startswith(prefix), line
        for variable in re.findall(r"^  ([A-Z_]{4,})", TEXTS["argstream"], re.MULTILINE):
            assert f"`{variable}`" in text


def test_command_without_arguments_shows_the_commands() -> None:
    done = argstream()
    assert (done.returncode, done.stdout) == (2, argstream("--help").stdout)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("argstream ins", {"inspect"}),
        ("argstream runs ", {"list", "show", "approve", "deny", "resume", "stop", "delete"}),
        ("argstream runs approve x --", {"--edit", "--no-resume", "--store", "--help"}),
        ("argstream lint --", {"--only", "--json", "--help"}),
    ],
)
def test_bash_completes_commands_and_options(line: str, words: set[str]) -> None:
    *given, last = line.split(" ")
    typed = " ".join(f"'{word}'" for word in [*given, last])
    script = argstream("--completion", "bash").stdout.decode()
    script += f"\nCOMP_WORDS=({typed}); COMP_CWORD={len(given)}; _argstream; echo ${{COMPREPLY[*]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == words
    assert "--completion must be one of bash, zsh, fish" in refused("--completion", "tcsh")

"""Each example prints what it describes."""

from pathlib import Path

import pytest

from tests.cli.in_process import run_file

EXAMPLES = Path(__file__).parents[1] / "examples"
FILE = ["def greet(name):", '    print(f"hello, {name}")']


def run(name: str, *options: str, typed: str = "", status: int = 0) -> str:
    done = run_file(EXAMPLES / f"{name}.py", *options, stdin=typed)
    assert done.returncode == status, done.stderr
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("live_turn", ["[write_file]", *FILE, "[complete: now greet.py can be written]"]),
        (
            "live_reader",
            [
                *("[write_file greet.py]", *FILE, "[complete: 2 arguments]", "[edit_file main.py]"),
                *("1: from greet import greet", "9: greet('you')", "[complete: 2 arguments]"),
            ],
        ),
    ],
)
def test_example_prints_a_call_as_it_is_written(name: str, expected: list[str]) -> None:
    assert run(name).splitlines() == expected


def test_live_arguments_shows_each_argument_and_the_error() -> None:
    text = '{"path": "a.py", "lines": [1, 2], "content": "x\\n", "mode": 0755}'
    assert run("live_arguments", typed=text, status=1).splitlines() == [
        *("path: a.py", "lines: … [1, 2]", "content: x\\n", "mode: "),
        "refused: not a valid JSON number (at character 61)",
        "(malformed)",
    ]


def test_ask_first_sends_the_approved_text_and_denies_without_an_approver() -> None:
    lines = run("ask_first", "--piped", typed="y\nWe are a bit late.\n").splitlines()
    assert "  (a mail goes to bob@example.org: We are a bit late.)" in lines
    assert lines[-1] == "Done: sent to bob@example.org"
    printed = run("ask_first")
    assert "a mail goes to" not in printed
    assert printed.splitlines()[-1].endswith("nobody is here to decide")


def test_forbidden_write_is_stopped_early() -> None:
    started, path, rejected, stopped, last = run("forbidden_write").splitlines()
    assert (started, path) == ("write_file …", "  path = ../../etc/passwd")
    assert rejected.startswith(
        "  rejected: a call to write_file is denied by the policy (nowhere else): "
        'only files of the project may be written (the argument path, "../../etc/passwd", is not'
    )
    assert stopped == "  stopped after 28 characters; 5800 were to follow"
    assert last.startswith("the provider saw the connection closed after")


def test_surviving_run_publishes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    waiting = "publish waits for a decision: {'version': '2.0'}\n"
    assert run("surviving_run", "begin") == waiting
    published = "  (version 2.0 is published, this once)\nThe release is out.\n"
    assert run("surviving_run", "yes") == published
    assert run("surviving_run", "yes") == ""


def test_agents_print_results_and_answers() -> None:
    assert run("streamed_file").endswith("\nin the project: song.txt; the song is whole\n")
    *_, approved, result, answer, log = run("claude_code_log").splitlines()
    assert (approved, result, answer) == ("  approved", "  = file created", "Sing along!")
    assert log.endswith("records of a run that has completed")
    lines = run("terminal_agent").splitlines()
    assert "  └ created greet.py with 9 lines" in lines
    assert "  └ made 2 edits in greet.py" in lines


def test_served_agent_streams_asks_and_hides_runs_from_other_users() -> None:
    lines = run("served_agent").splitlines()
    grown = "".join(line.partition("text += ")[2] for line in lines)
    assert grown == "We are late.⟦LF⟧The train is, too.⟦LF⟧"
    assert lines[-3:] == [
        "send_mail needs a yes, and gets it",
        "Done: 32 characters went to ada@example.org",
        "for another user: 404 run not found",
    ]

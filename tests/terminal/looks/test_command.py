"""Commands that are to be run."""

from argstream.terminal.looks import Command, Looks
from tests.terminal.looks.following import follow, roles

RUN = Looks({"run": Command(command="line")})


def test_a_short_command_is_the_title() -> None:
    seen = follow({"line": "pytest -q", "timeout": 5}, "run", RUN)
    assert (seen.title, seen.text) == ("pytest -q", "  timeout = 5\n")
    assert ["  $ pytes"] in seen.growing


def test_a_command_of_several_lines_is_shown_in_its_colours() -> None:
    seen = follow({"line": "for x in a; do\n  echo $x\ndone"}, "run", RUN)
    assert (seen.title, seen.text) == ("", "  $ for x in a; do\n      echo $x\n    done\n")
    assert roles(seen.lines[0])[0] == ("for", "keyword")


def test_a_long_command_is_no_title() -> None:
    seen = follow({"line": "echo " + "x" * 100}, "run", RUN)
    assert (seen.title, seen.text) == ("", f"  $ echo {'x' * 100}\n")


def test_nothing_is_no_title() -> None:
    assert follow({"line": ""}, "run", RUN).text == "  $\n"


def test_a_command_that_is_cut_is_no_title() -> None:
    seen = follow('{"line": "rm -rf /tm', "run", RUN)
    assert (seen.title, seen.text) == ("", "  $ rm -rf /tm\n")


def test_a_command_that_is_an_array_is_plain() -> None:
    assert follow({"line": ["ls", "-l"]}, "run", RUN).text == '  line = ["ls", "-l"]\n'

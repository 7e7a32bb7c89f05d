"""A file that is written."""

from argstream.terminal.looks import File, Looks
from argstream.terminal.looks._block import Block, numbered
from argstream.terminal.spans import Line, Span, Spans
from tests.terminal.looks.following import follow, roles, texts

FILE = Looks({"save": File(text="body", path="name", language=None)})


def test_lines_have_numbers_and_the_path_is_the_title() -> None:
    seen = follow({"name": "a.txt", "body": "one\n\ntwo\n"}, "save", FILE)
    assert seen.title == "a.txt"
    assert seen.text == "     1 │ one\n     2 │\n     3 │ two\n"
    assert "".join(span.text for span in seen.lines[0].rest or ()) == "       │ "


def test_a_line_is_coloured_by_the_name_of_the_file_once_it_is_complete() -> None:
    seen = follow({"name": "a.py", "body": "import os\n"}, "save", FILE)
    assert roles(seen.lines[0])[0] == ("import", "keyword")
    assert ["     1 │ impo"] in seen.growing


def test_an_argument_may_say_the_language() -> None:
    seen = follow({"name": "a", "language": "python", "body": "import os\n"}, "save", FILE)
    assert roles(seen.lines[1])[0] == ("import", "keyword")


def test_a_language_that_a_model_made_up_is_no_language() -> None:
    seen = follow({"name": "a", "language": "pyhton 4", "body": "import os\n"}, "save", FILE)
    assert roles(seen.lines[1]) == [("import os", "plain")]


def test_a_path_that_comes_after_the_text_is_a_line_and_colours_nothing() -> None:
    seen = follow({"body": "import os\n", "name": "a.py"}, "save", FILE)
    assert seen.title == ""
    assert seen.text == '     1 │ import os\n  name = "a.py"\n'
    assert roles(seen.lines[0]) == [("import os", "plain")]


def test_short_arguments_before_the_path_wait_for_it() -> None:
    seen = follow({"mode": "w", "name": "a.txt", "body": "x\n"}, "save", FILE)
    assert (seen.title, seen.text) == ("a.txt", '  mode = "w"\n     1 │ x\n')
    assert ['  mode = "w"'] in seen.growing


def test_a_text_that_does_not_end_with_a_newline_says_so_and_one_that_is_empty() -> None:
    assert follow({"body": "a\nb"}, "save", FILE).text.endswith("2 │ b\n  no newline at the end\n")
    assert follow({"body": ""}, "save", FILE).text == "  empty\n"


def test_a_text_that_is_cut_shows_what_came_and_says_nothing_of_its_end() -> None:
    assert follow('{"body": "a\\nbc', "save", FILE).text == "     1 │ a\n     2 │ bc\n"


def test_carriage_returns_are_seen_and_tabs_are_spaces() -> None:
    seen = follow({"name": "a.py", "body": "a = 1\r\n\tb\tc\n"}, "save", FILE)
    assert seen.text == "     1 │ a = 1⟦CR⟧\n     2 │     b   c\n"
    assert roles(seen.lines[0])[-1] == ("⟦CR⟧", "faint")


def test_what_the_declaration_does_not_name_or_is_of_another_kind_is_plain() -> None:
    seen = follow({"name": 3, "body": ["x"], "owner": "me"}, "save", FILE)
    assert seen.text == '  name = 3\n  body = ["x"]\n  owner = "me"\n'


def test_a_path_of_several_lines_is_no_title() -> None:
    seen = follow({"name": "a\nb", "body": "x\n"}, "save", FILE)
    assert (seen.title, seen.text) == ("", "  name =\n  │ a\n  │ b\n     1 │ x\n")


def test_nothing_in_a_path_acts_on_the_terminal() -> None:
    assert follow({"name": "a\x1b[2J\u202e", "body": ""}, "save", FILE).title == "a⟦ESC⟧[2J⟦RLO⟧"


def test_half_a_path_is_no_title() -> None:
    seen = follow('{"name": "src/a', "save", FILE)
    assert (seen.title, seen.text) == ("", '  name = "src/a\n')


def test_lines_get_their_colours_when_somebody_looks_or_when_they_become_many() -> None:
    painted: list[str] = []
    out: list[Line] = []

    def paint(text: str) -> Spans:
        painted.append(text)
        return (Span(text),)

    block = Block(out, numbered, paint)
    block.hold("one\ntwo\nthr")
    assert painted == []
    assert texts(block.growing()) == ["     3 │ thr"]
    block.write()
    assert texts(out) == ["     1 │ one", "     2 │ two"]
    block.hold("ee\n" * 30)
    assert len(painted) == 32

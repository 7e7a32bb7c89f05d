"""Arguments by their names."""

from argstream.terminal.looks import Looks, Plain
from tests.terminal.looks.following import follow, roles

PLAIN = Looks({"tool": Plain()})


def test_short_values_stand_behind_their_names_and_strings_are_quoted() -> None:
    seen = follow({"mode": "true", "force": True, "count": 3.5, "none": None}, looks=PLAIN)
    assert seen.text == '  mode = "true"\n  force = true\n  count = 3.5\n  none = null\n'
    assert roles(seen.lines[0]) == [("mode", "argument"), (" = ", "plain"), ('"true"', "plain")]


def test_quotes_and_backslashes_are_escaped_and_the_rest_is_made_visible_once() -> None:
    seen = follow({"a": 'C:\\x "y"', "b": "\x1b[2J\t⟦"}, looks=PLAIN)
    assert seen.text == '  a = "C:\\\\x \\"y\\""\n  b = "⟦ESC⟧[2J⟦TAB⟧⟦U+27E6⟧"\n'


def test_a_long_text_is_a_block_that_grows_line_by_line() -> None:
    seen = follow({"note": "one\n\tone a\n\nthree"}, looks=PLAIN)
    assert seen.text == "  note =\n  │ one\n  │     one a\n  │\n  │ three\n"
    assert ["  │ thre"] in seen.growing


def test_a_text_that_ends_with_a_newline_differs_from_one_that_does_not() -> None:
    assert follow({"a": "x\n"}, looks=PLAIN).text == "  a =\n  │ x\n  │\n"


def test_one_long_line_is_shown_from_behind_while_it_grows_and_wholly_at_the_end() -> None:
    long = "".join(f"{number} " for number in range(20_000))
    seen = follow({"a": long}, looks=PLAIN, size=1_000)
    assert max(len(line) for lines in seen.growing for line in lines) < 600
    assert seen.growing[-2][0].startswith("  │ …")
    assert seen.growing[-2][0].endswith("19999")
    assert seen.lines[1].spans[0].text == long


def test_what_is_inside_is_shown_by_its_path() -> None:
    arguments = {"a": {"b": [{"c": 1}, [2]]}, "x.y": {"z z": ""}, "e": {}, "f": [[]]}
    assert follow(arguments, looks=PLAIN).text == (
        "  a.b[0].c = 1\n"
        "  a.b[1] = [2]\n"
        '  ["x.y"]["z z"] = ""\n'
        "  e = {}\n"
        "  f[0] = []\n"
    )  # fmt: skip


def test_a_short_array_is_one_line_and_a_long_one_has_a_line_for_each_item() -> None:
    seen = follow({"tags": ["a", 1, None]}, looks=PLAIN)
    assert seen.text == '  tags = ["a", 1, null]\n'
    assert ['  tags = ["a", …'] in seen.growing
    many = follow({"tags": ["x" * 30] * 4}, looks=PLAIN)
    assert many.text == "".join(f'  tags[{index}] = "{"x" * 30}"\n' for index in range(4))


def test_patches_are_coloured_by_their_first_characters() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n"
    seen = follow({"patch": patch}, looks=PLAIN)
    found = [line.spans[0].role for line in seen.lines[1:-1]]
    assert found == ["place", "place", "place", "removed", "added", "plain"]


def test_what_is_called_a_diff_is_one_however_it_begins() -> None:
    seen = follow({"operation": {"diff": " same\n-old\n+new"}}, looks=PLAIN)
    assert [line.spans[0].role for line in seen.lines[1:]] == ["plain", "removed", "added"]


def test_a_list_with_dashes_is_no_patch() -> None:
    seen = follow({"note": "- milk\n- eggs\n"}, looks=PLAIN)
    assert {line.spans[0].role for line in seen.lines[1:3]} == {"plain"}


def test_what_is_cut_has_no_closing_quote() -> None:
    assert follow('{"a": "ab', looks=PLAIN).text == '  a = "ab\n'
    assert follow('{"a": [1, "ab', looks=PLAIN).text == '  a[0] = 1\n  a[1] = "ab\n'
    assert follow('{"a": "ab\\ncd', looks=PLAIN).text == "  a =\n  │ ab\n  │ cd\n"

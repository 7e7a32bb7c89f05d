"""How each kind of argument is shown: as a file, a command, a table, or by its name."""

from typing import Any

import pytest

from argstream.terminal import Command, File, Plain, Table, ToolViews
from argstream.validation import ToolSpec
from tests.terminal.looks.following import follow, roles, text_of

LOOKS = ToolViews(
    {
        "save": File(text="body", path="name", language=None),
        "run": Command(command="line"),
        "tool": Plain(),
        "add": Table(rows="people"),
    }
)
PEOPLE = "  people =\n  │ "
X60, Y60 = "x" * 60, "y" * 60


def spec(name: str, **properties: dict[str, Any]) -> ToolViews:
    schema = {"type": "object", "properties": properties}
    return ToolViews(tools=[ToolSpec(name, "", schema)])


FILES: list[tuple[Any, ...]] = [
    ({"name": "a", "body": "one\n\ntwo\n"}, "a", "     1 │ one\n     2 │\n     3 │ two\n"),
    # A path after the text is a line. Short arguments before it wait for it.
    ({"body": "import os\n", "name": "a.py"}, "", '     1 │ import os\n  name = "a.py"\n'),
    ({"mode": "w", "name": "a.txt", "body": "x\n"}, "a.txt", '  mode = "w"\n     1 │ x\n'),
    ({"body": "a\nb"}, "", "     1 │ a\n     2 │ b\n  no newline at the end\n"),
    ({"body": ""}, "", "  empty\n"),
    ('{"body": "a\\nbc', "", "     1 │ a\n     2 │ bc\n"),  # cut
    ({"body": "a = 1\r\n\tb\tc\n"}, "", "     1 │ a = 1⟦CR⟧\n     2 │     b   c\n"),
    # Arguments that are not declared, or of another type, are plain.
    ({"name": 3, "body": ["x"], "by": "me"}, "", '  name = 3\n  body = ["x"]\n  by = "me"\n'),
    ({"name": "a\nb", "body": "x\n"}, "", "  name =\n  │ a\n  │ b\n     1 │ x\n"),
    ({"name": "a\x1b[2J\u202e", "body": ""}, "a⟦ESC⟧[2J⟦RLO⟧", "  empty\n"),
    ('{"name": "src/a', "", '  name = "src/a\n'),
]


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        ({"name": "a.py", "body": "import os\n"}, ("import", "keyword")),
        ({"language": "python", "body": "import os\n"}, ("import", "keyword")),
        ({"language": "pyhton 4", "body": "import os\n"}, ("import os", "plain")),
        ({"body": "import os\n", "name": "a.py"}, ("import os", "plain")),
    ],
)
def test_file_is_coloured_by_its_path_or_language(
    arguments: dict[str, Any], first: tuple[str, str]
) -> None:
    seen = follow(arguments, "save", LOOKS)
    line = next(line for line in seen.lines if "1 │" in text_of(line.margin))
    assert roles(line)[0] == first
    assert text_of(line.rest or ()) == "       │ "
    assert any("     1 │ im" in growing[-1] for growing in seen.growing if growing)


COMMANDS: list[tuple[Any, ...]] = [
    ({"line": "pytest -q", "timeout": 5}, "pytest -q", "  timeout = 5\n"),
    ({"line": "for x; do\n  echo $x\ndone"}, "", "  $ for x; do\n      echo $x\n    done\n"),
    ({"line": "echo " + "x" * 100}, "", f"  $ echo {'x' * 100}\n"),
    ({"line": ""}, "", "  $\n"),
    ('{"line": "rm -rf /tm', "", "  $ rm -rf /tm\n"),  # cut
    ({"line": ["ls", "-l"]}, "", '  line = ["ls", "-l"]\n'),
]
PLAIN: list[tuple[Any, ...]] = [
    ({"mode": "true", "force": True}, '  mode = "true"\n  force = true\n'),
    ({"count": 3.5, "none": None}, "  count = 3.5\n  none = null\n"),
    ({"a": 'C:\\x "y"'}, '  a = "C:\\\\x \\"y\\""\n'),
    ({"b": "\x1b[2J\t⟦"}, '  b = "⟦ESC⟧[2J⟦TAB⟧⟦U+27E6⟧"\n'),
    ({"note": "1\n\t2\n\n3"}, "  note =\n  │ 1\n  │     2\n  │\n  │ 3\n"),
    ({"a": "x\n"}, "  a =\n  │ x\n  │\n"),
    ({"a": {"b": [{"c": 1}, [2]]}}, "  a.b[0].c = 1\n  a.b[1] = [2]\n"),
    ({"x.y": {"z z": ""}, "e": {}, "f": [[]]}, '  ["x.y"]["z z"] = ""\n  e = {}\n  f[0] = []\n'),
    ({"tags": ["a", 1, None]}, '  tags = ["a", 1, null]\n'),
    ({"tags": ["x" * 50] * 2}, f'  tags[0] = "{"x" * 50}"\n  tags[1] = "{"x" * 50}"\n'),
    ('{"a": "ab', '  a = "ab\n'),  # cut, so without a closing quote
    ('{"a": [1, "ab', '  a[0] = 1\n  a[1] = "ab\n'),
    ('{"a": "ab\\ncd', "  a =\n  │ ab\n  │ cd\n"),
]


def test_growing_value_is_shown_from_its_end() -> None:
    assert ["  │ thre"] in follow({"note": "one\nthree"}, looks=LOOKS, size=1).growing
    assert ['  tags = ["a", …'] in follow({"tags": ["a", 1]}, looks=LOOKS).growing
    assert ["  $ pytes"] in follow({"line": "pytest -q"}, "run", LOOKS).growing
    long = "".join(f"{number} " for number in range(20_000))
    seen = follow({"a": long}, looks=LOOKS, size=1_000)
    assert max(len(line) for lines in seen.growing for line in lines) < 600
    assert seen.growing[-2][0].startswith("  │ …")
    assert seen.growing[-2][0].endswith("19999")
    assert seen.lines[1].spans[0].text == long


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (
            {"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same"},
            ["place", "place", "place", "removed", "added", "plain"],
        ),
        ({"operation": {"diff": " same\n-old\n+new"}}, ["plain", "removed", "added"]),
        ({"note": "- milk\n- eggs"}, ["plain", "plain"]),  # no patch
    ],
)
def test_patches_are_coloured_by_their_first_characters(
    arguments: dict[str, Any], found: list[str]
) -> None:
    lines = follow(arguments, looks=LOOKS).lines[1:]
    assert [line.spans[0].role for line in lines] == found


TABLES: list[tuple[Any, ...]] = [
    (
        # No string can be taken for another value.
        [{"n": "Ann", "a": 3}, {"n": "true", "a": None}, {"n": "", "a": 1}, {"n": " x", "a": 0}],
        PEOPLE + 'n       a\n  │ Ann     3\n  │ "true"  null\n  │ ""      1\n  │ " x"    0\n',
    ),
    ([{"n": "日本"}, {"n": "\u200b", "x": 2}], PEOPLE + "n       x\n  │ 日本\n  │ ⟦ZWSP⟧  2\n"),
    ([{"a": 1, "b": 2}, {"b": 3}], "  people =\n  │ a  b\n  │ 1  2\n  │    3\n"),
    ([{"a": X60, "b": Y60}], f'  people[0].a = "{X60}"\n  people[0].b = "{Y60}"\n'),
    (
        # Rows that do not fit the columns of the first ones are shown by names.
        [*[{"a": 1}] * 5, {"a": 1, "more": 2}, {"a": "x" * 75}, {"a": "fits"}],
        "  people =\n  │ a\n" + "  │ 1\n" * 5 + "  people[5].a = 1\n  people[5].more = 2\n"
        f'  people[6].a = "{"x" * 75}"\n  │ fits\n',
    ),
    (
        [{"a": 1}, {"a": [1, {"b": 2}]}, {"a": "x\ny"}, {"a": 3}],
        (
            "  people =\n  │ a\n  │ 1\n  people[1].a[0] = 1\n  people[1].a[1].b = 2\n"
            "  people[2].a =\n  │ x\n  │ y\n  │ 3\n"
        ),
    ),
    ([1, {"a": 2}], "  people[0] = 1\n  people =\n  │ a\n  │ 2\n"),
    ([1, 2], "  people = [1, 2]\n"),
    ([], "  people = []\n"),
    ("x", '  people = "x"\n'),
]


def test_rows_are_settled_while_later_ones_are_written() -> None:
    seen = follow('{"people": [' + '{"n": 1}, ' * 7 + '{"n": "ab', "add", LOOKS)
    assert len(seen.settled) == 2 + 7
    assert seen.text.endswith('  │ 1\n  people[7].n = "ab\n')
    early = follow('{"people": [{"n": 1}, {"n": "abc', "add", LOOKS, size=1)
    assert ["  people[0].n = 1", '  people[1].n = "a'] in early.growing
    long = follow('{"people": [{"note": "one\\ntwo\\nthr', "add", LOOKS)
    assert [line.spans[0].text for line in long.settled] == ["people[0].note", "one", "two"]


LATE = {"content": "x\n", "path": "a.txt"}
NUMBERED = "     1 │ x\n"
CHANGE = "       - │ a\n       + │ b\n"
EDITS = f"  @@ f, edits[0] @@\n{CHANGE}"
CREATE = {"command": "create", "path": "a.txt", "file_text": "x\n"}


GUESSED: list[tuple[Any, ...]] = [
    ({"path": "a.txt", "content": "x\n"}, "store", "a.txt", NUMBERED),
    ({"file_path": "a.txt", "contents": "x\n"}, "store", "a.txt", NUMBERED),
    ({"filename": "a.txt", "file_text": "x\n"}, "store", "a.txt", NUMBERED),
    ({"file": "a.txt", "code": "x\n"}, "store", "a.txt", NUMBERED),
    ({"new_string": "b", "path": "f", "old_string": "a"}, "change", "f", CHANGE),
    ({"new_str": "b", "path": "f", "old_str": "a"}, "change", "f", CHANGE),
    ({"new": "b", "path": "f", "old": "a"}, "change", "f", CHANGE),
    ({"newText": "b", "path": "f", "oldText": "a"}, "change", "f", CHANGE),
    ({"path": "f", "search": "a", "replace": "b"}, "search_and_replace", "f", CHANGE),
    ({"edits": [{"path": "f", "new": "b", "old": "a"}]}, "change", "", EDITS),
    ({"find": "a", "limit": 3}, "lookup", "", '  find = "a"\n  limit = 3\n'),
    ({"command": "ls"}, "bash", "ls", ""),
    ({"cmd": "ls"}, "bash", "ls", ""),
    (CREATE, "str_replace_based_edit_tool", "a.txt", '  command = "create"\n' + NUMBERED),
    ({"todos": [{"id": 1}, {"id": 2}]}, "list", "", "  todos =\n  │ id\n  │ 1\n  │ 2\n"),
    ({"path": "src", "depth": 2}, "list_folder", "src", "  depth = 2\n"),
    ({"to": "Ann", "content": "x\ny"}, "send", "", '  to = "Ann"\n  content =\n  │ x\n  │ y\n'),
    ({"path": "src", "text": "TODO"}, "grep", "src", '  text = "TODO"\n'),
    (LATE, "write_file", "", NUMBERED + '  path = "a.txt"\n'),
    (LATE, "put", "", '  content =\n  │ x\n  │\n  path = "a.txt"\n'),
]


@pytest.mark.parametrize(
    ("arguments", "name", "title", "text"),
    [
        *((arguments, "save", title, text) for arguments, title, text in FILES),
        *((arguments, "run", title, text) for arguments, title, text in COMMANDS),
        *((arguments, "tool", "", text) for arguments, text in PLAIN),
        *(({"people": people}, "add", "", text) for people, text in TABLES),
        *GUESSED,
    ],
)
def test_each_kind_of_argument(arguments: Any, name: str, title: str, text: str) -> None:
    seen = follow(arguments, name, LOOKS)
    assert (seen.title, seen.text) == (title, text)


def test_look_is_guessed_by_schema() -> None:
    choices = spec("tool", command={"enum": ["start", "stop"]}, path={})
    assert follow({"command": "start"}, "tool", choices).text == '  command = "start"\n'
    assert follow(LATE, "put", spec("put", content={}, path={})).text.startswith(NUMBERED)
    raw = '{"city": "Rome", "days": 3'  # a title cannot come any more
    assert len(follow(raw, "weather", spec("weather", city={}, days={})).settled) == 1
    assert follow(raw, "weather").settled == []
    raw = '{"old": "a\\nb\\nc\\nd\\ne\\n", "new": "a\\nb\\nc\\nd\\ne'
    assert len(follow(raw, "t", spec("t", old={}, new={})).settled) == 4
    python = follow({"code": "import os\n"}, "run_python")
    assert python.lines[0].spans[0].role == "keyword"

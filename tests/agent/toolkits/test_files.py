"""The file tools: what they do, and what they answer to the model."""

import asyncio
import json
import os
import random
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from argstream import Agent
from argstream.agent.toolkits import file_tools, shell_tool, text_reader
from argstream.agent.tools import Tool
from argstream.errors import ToolError, UsageError
from argstream.models import CallTool, ScriptedModel
from argstream.policy import Policy
from argstream.validation.lint import lint
from tests.agent.toolkits.projects import Project
from tests.agent.tools.calling import context_for, run

MORE: dict[str, dict[str, Any]] = {
    "read_file": {},
    "write_file": {"content": ""},
    "edit_file": {"edits": [{"old": "x", "new": ""}]},
}


def test_arguments_that_policies_check_come_first(tmp_path: Path) -> None:
    tools = file_tools(tmp_path)
    assert [finding for tool in tools for finding in lint([tool.spec])] == []
    assert [list(tool.schema["properties"]) for tool in tools] == [
        ["path"],
        ["path", "start_line", "max_lines"],
        ["query", "path", "regex"],
        ["path", "content"],
        ["path", "edits"],
    ]


def test_only_writing_can_need_approval(tmp_path: Path) -> None:
    policy = Policy([])
    for confirm_writes in (False, True, policy):
        tools = file_tools(tmp_path, confirm_writes=confirm_writes)
        assert [tool.requires_confirmation for tool in tools] == [
            *(False, False, False),
            *(confirm_writes, confirm_writes),
        ]
        assert [tool.read_only for tool in tools] == [True, True, True, False, False]
    with pytest.raises(UsageError, match="True, False or a Policy"):
        file_tools(tmp_path, confirm_writes="yes")  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    ("options", "beside_shell", "with_policy"),
    [
        ({}, True, False),
        ({"confirm_writes": False}, False, False),
        ({"confirm_writes": True}, True, True),
    ],
)
def test_writing_needs_approval_beside_a_shell_unless_a_policy_allows_it(
    tmp_path: Path, options: dict[str, Any], beside_shell: bool, with_policy: bool
) -> None:
    def asks(*others: Tool, policy: Policy | None = None) -> bool:
        writing = CallTool("write_file", {"path": "conftest.py", "content": "import evil"})
        tools = [*file_tools(tmp_path, **options), *others]
        result = Agent(ScriptedModel(writing, "Written."), tools, policy=policy).run("Write it")
        assert (result.outcome == "completed") == (not result.pending)
        return bool(result.pending)

    shell = shell_tool(tmp_path)
    assert asks() == (options.get("confirm_writes") is True)
    assert asks(shell) == beside_shell
    assert asks(shell, policy=Policy([], default="allow")) == with_policy


def test_listing_is_recursive_and_skips_generated_folders(project: Project) -> None:
    for path in ("src/app.py", "src/deep/er.py", "README.md", "odd\nname"):
        project.file(path)
    for path in ("node_modules/left/pad.js", ".git/config", ".mypy_cache/x.json"):
        project.file(path)
    project.link("link", "src")
    assert project.call("list_files").splitlines() == [
        ".git/ (not listed)",
        ".mypy_cache/ (not listed)",
        "README.md",
        "link (symbolic link)",
        "node_modules/ (not listed)",
        '"odd\\nname"',
        *("src/", "src/app.py", "src/deep/", "src/deep/er.py"),
    ]
    assert project.call("list_files", path="src/deep/") == "src/deep/er.py"
    assert project.call("list_files", path="link") == "src/app.py\nsrc/deep/\nsrc/deep/er.py"
    assert project.call("list_files", path="node_modules").startswith("node_modules/left/")


def test_listing_of_a_large_folder_has_the_upper_levels(project: Project) -> None:
    for number in range(30):
        (project.root / f"{number:02}").mkdir()
        for name in range(40):
            (project.root / f"{number:02}/{name:02}").touch()
    *listed, note = project.call("list_files").splitlines()
    assert note == "… these are the first 1000: list one of the folders for more"
    assert len(listed) == 1_000
    assert "29/" in listed


def test_listing_tells_empty_folders_files_and_missing_paths_apart(project: Project) -> None:
    project.file("a.txt")
    (project.root / "empty").mkdir()
    assert project.call("list_files", path="empty") == "empty is empty"
    message = project.refused("list_files", path="a.txt")
    assert message.startswith("a.txt is not a folder: read_file")
    message = project.refused("list_files", path="b")
    assert message == "there is no b: list_files shows what there is"
    for name in ("read_file", "edit_file"):
        assert project.refused(name, path="b", **MORE[name]).startswith("there is no b")


def test_file_is_read_whole_or_in_part(project: Project) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 11))
    project.file("a.txt", text)
    for arguments, answer in (
        ({}, f"this is all of it:\n{text}"),
        (
            {"start_line": 4, "max_lines": 2},
            "this is lines 4 to 5; go on with start_line=6:\nline 4\nline 5\n",
        ),
        ({"start_line": 10}, "this is line 10:\nline 10\n"),
    ):
        found = project.call("read_file", path="a.txt", **arguments)
        assert found == f"a.txt has 10 lines; {answer}"
    message = project.refused("read_file", path="a.txt", start_line=11)
    assert message == "a.txt has 10 lines: there is no line 11"


def test_parts_of_a_large_file_join_to_the_whole(project: Project) -> None:
    lines = [f"{number} {'x' * (number % 900)}" for number in range(2_500)]
    project.file("a.txt", "\n".join(lines))
    found: list[str] = []
    while len(found) < len(lines):
        answer = project.call("read_file", path="a.txt", start_line=len(found) + 1, max_lines=9_999)
        assert len(answer) < 263_000
        found += answer.splitlines()[1:]
    assert found == lines


def test_long_line_is_shortened_with_a_note(project: Project) -> None:
    project.file("a.js", "x" * 300_000)
    answer = project.call("read_file", path="a.js")
    assert answer.startswith("a.js has 1 line; this is all of it:\nxxx")
    assert answer.endswith("x … (the line has 37856 characters more)\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "a.bin is not text, but binary data: only text in UTF-8"),
        ("größe".encode("latin-1"), "a.bin is not UTF-8 text (byte 2 is 0xf6): only that"),
        ("\ufeffx".encode("utf-16-le"), "a.bin is written in UTF-16: only text in UTF-8"),
        ("\ufeffx".encode("utf-32-be"), "a.bin is written in UTF-32: only text in UTF-8"),
    ],
)
def test_file_that_is_no_text_is_refused(project: Project, content: bytes, message: str) -> None:
    project.file("a.bin", content)
    for name in ("read_file", "edit_file"):
        assert project.refused(name, path="a.bin", **MORE[name]).startswith(message)
    assert (project.root / "a.bin").read_bytes() == content


def test_too_large_file_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argstream.agent.toolkits._files.MOST_BYTES", 2**20)
    project.file("a.txt", "x" * (2**20 + 1))
    assert project.refused("read_file", path="a.txt").startswith("a.txt is too large: it has more")
    message = project.refused("write_file", path="b.txt", content="x" * (2**20 + 1))
    assert message == "b.txt would have more than 1 MB: write less"
    assert not (project.root / "b.txt").exists()


def test_text_reader_returns_the_text_as_a_model_sees_it(project: Project) -> None:
    read = text_reader(project.root)
    project.file("src/a.txt", b"\xef\xbb\xbfone\r\ntwo\n")
    assert read("src/a.txt") == read(str(project.root / "src/a.txt")) == "one\ntwo\n"
    project.file("binary", b"\0")
    project.file("large", b"x" * 2_000_001)
    assert [read(path) for path in ("src", "missing", "binary", "large")] == [None] * 4


@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file"])
def test_folder_is_no_file(project: Project, name: str) -> None:
    project.file("src/app.py", "x")

    def message(path: str) -> str:
        return project.refused(name, path=path, **MORE[name])

    for path in (".", "src", "src/", "src/..", "src/."):
        assert "is a folder, not a file" in message(path)
    assert message("src/app.py/") == "src/app.py is a file: leave out the slash at the end"
    assert "not a directory" in message("src/app.py/x")
    if name == "write_file":
        assert message("new/") == "new would be a folder: leave out the slash at the end"
    assert project.tree() == ["src", "src/app.py"]


def test_file_is_written_with_its_parent_folders(project: Project) -> None:
    content = "grüße\r\n" * 213 + "end"
    for path, written, answer in (
        ("src/new/app.py", content, "created src/new/app.py with 214 lines"),
        ("src/new/app.py", "x\n", "wrote 1 line to src/new/app.py"),
        ("b", "", "created b with 0 lines"),
    ):
        assert project.call("write_file", path=path, content=written) == answer
        assert (project.root / path).read_bytes() == written.encode()
    assert project.tree() == ["b", "src", "src/new", "src/new/app.py"]
    assert project.call("read_file", path="b") == "b is empty"


def test_modes_are_kept_except_setuid(project: Project) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    before = os.umask(0o027)
    try:
        project.call("write_file", path="folder/new.sh", content="")
    finally:
        os.umask(before)
    assert mode(project.root / "folder/new.sh") == 0o640
    assert mode(project.root / "folder") == 0o750
    script = project.file("run.sh", "a")
    script.chmod(0o4755)
    project.call("edit_file", path="run.sh", edits=[{"old": "a", "new": "b"}])
    assert mode(script) == 0o755


def test_read_only_file_is_not_written(project: Project) -> None:
    project.file("a.txt", "x").chmod(0o444)
    for name in ("write_file", "edit_file"):
        message = project.refused(name, path="a.txt", **MORE[name])
        assert message == "a.txt may not be written: it is read-only"


def test_failed_write_leaves_the_old_file_and_nothing_else(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.file("a.txt", "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    message = project.refused("write_file", path="a.txt", content="new")
    assert message == "a.txt cannot be written: no space left on device"
    assert (project.root / "a.txt").read_text(encoding="utf-8") == "old"
    assert project.tree() == ["a.txt"]


def test_file_changed_during_the_write_is_not_overwritten(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = project.file("a.txt", "x")
    monkeypatch.setattr(os, "fsync", lambda _: target.write_bytes(b"their x"))
    for name in ("write_file", "edit_file"):
        message = project.refused(name, path="a.txt", **MORE[name])
        assert message == "a.txt was changed in the meantime: read it again first"
    assert target.read_bytes() == b"their x"


def test_concurrent_edits_of_one_file_are_all_made(project: Project) -> None:
    project.file("a.txt", "".join(f"<{number}>\n" for number in range(20)))

    async def edit_all() -> None:
        edits = [{"old": f"<{number}>", "new": f"[{number}]"} for number in range(20)]
        tool = project.tools["edit_file"]
        await asyncio.gather(*(run(tool, path="a.txt", edits=[edit]) for edit in edits))

    asyncio.run(edit_all())
    written = (project.root / "a.txt").read_text(encoding="utf-8")
    assert written == "".join(f"[{number}]\n" for number in range(20))


@pytest.mark.parametrize("name", ["write_file", "edit_file"])
def test_cancelled_call_does_not_write(project: Project, name: str) -> None:
    project.file("a.txt", "x")
    context = context_for(name)
    context.cancel()
    tool = project.tools[name]
    arguments = tool.bind(json.dumps({"path": "a.txt", **MORE[name]})).arguments
    with pytest.raises(ToolError, match="the call was stopped"):
        tool.function(**{**arguments, "context": context})
    assert (project.root / "a.txt").read_text(encoding="utf-8") == "x"


def test_order_of_edits_does_not_matter(project: Project) -> None:
    edits = (("two", "2"), ("four\n", ""), ("one", "ONE\nand a half"))
    for ordered in (edits, reversed(edits)):
        found = project.edit("one\ntwo\nthree\nfour\n", *ordered)
        assert found == b"ONE\nand a half\n2\nthree\n"
    assert project.edit("a b\n", ("a", "b"), ("b", "a")) == b"b a\n"
    assert "does not occur" in project.refused_edit("a\n", ("a", "b"), ("b", "c"))


def test_edits_may_touch_but_not_overlap(project: Project) -> None:
    assert project.edit("abcd", ("ab", "1"), ("cd", "2")) == b"12"
    assert project.refused_edit("x\nabcd", ("abc", "1"), ("cd", "2")) == (
        "two edits of a.txt overlap, around line 2: make one of them. Nothing was changed"
    )
    assert "overlap" in project.refused_edit("abcd", ("ab", "1"), ("ab", "2"))


def test_ambiguous_or_useless_edit_is_refused(project: Project) -> None:
    assert project.refused_edit("x\ny\nx\n", ("y", "z"), ("x", "z")) == (
        "old of edit 2 in a.txt occurs 2 times, in lines 1, 3: take in lines around it, so that it "
        "occurs once. Nothing was changed"
    )
    assert "occurs 2 times" in project.refused_edit("aaa", ("aa", "b"))
    assert "occurs more than 20 times" in project.refused_edit("x\n" * 1_000, ("x", "z"))
    message = project.refused_edit("x\n", ("x", "x"))
    assert message == "old and new are the same: a.txt was not changed"


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("nothing like it", "read the file again, and copy from it exactly"),
        ("if  x:\n", "line 2 is '    if x:', not 'if  x:'"),
        ("    if x:\n        go(1)", "line 3 is '        go()', not '        go(1)'"),
        ("\n\n", "read the file again"),
    ],
)
def test_edit_of_missing_text_names_a_near_line(old: str, message: str, project: Project) -> None:
    found = project.refused_edit("def f():\n    if x:\n        go()\n", (old, "y"))
    assert found.startswith(f"old in a.txt does not occur: {message}")
    assert found.endswith(". Nothing was changed")


def test_search_for_the_nearest_line_is_bounded(project: Project) -> None:
    began = time.process_time()
    assert "read the file again" in project.refused_edit("x\n" * 200_000, ("\n\nx", "y"))
    assert time.process_time() - began < 2


@pytest.mark.parametrize("edits", [[], [{"old": "", "new": "x"}], [{"old": "x"}], ["x"]])
def test_edit_without_old_text_is_invalid(project: Project, edits: Any) -> None:
    project.file("a.txt", "x")
    arguments = json.dumps({"path": "a.txt", "edits": edits})
    assert project.tools["edit_file"].problem(arguments) is not None


def test_edit_keeps_line_ends_and_byte_order_mark(project: Project) -> None:
    mark = b"\xef\xbb\xbf"
    found = project.edit(mark + b"a\r\nb\r\nc\r\n", ("a\nb\n", "1\n2\r\n3\n"))
    assert found == mark + b"1\r\n2\r\n3\r\nc\r\n"
    assert project.edit(b"a\nb\r\nc\nd", ("b\nc", "1\n2")) == b"a\n1\n2\nd"
    assert project.edit(b"a\r\nb\rc\n\r\n", ("b\rc", "x\ny")) == b"a\r\nx\r\ny\n\r\n"
    assert project.edit("\ufeffone".encode(), ("one", "é")) == "\ufeffé".encode()


def test_edit_keeps_all_other_bytes(project: Project) -> None:
    chance = random.Random(7)
    for _ in range(40):
        pieces = chance.choices(["a", "b", "\n", "\r\n", "\r", "é", "🎈"], k=chance.randint(1, 8))
        cut = chance.randint(0, len(pieces))
        before, after = "".join(pieces[:cut]), "".join(pieces[cut:])
        if before.endswith("\r"):
            before += "."  # otherwise it forms a line end with the replaced text
        found = project.edit(f"{before}<here>{after}", ("<here>", "<there>"))
        assert found == f"{before}<there>{after}".encode()


def test_search_finds_lines_in_all_files_below_a_path(project: Project) -> None:
    project.file("a.py", "one\ntwo [x]\n  two [x]\n")
    project.file("src/b.py", "two [x] two [x]\r\n")
    project.file("node_modules/c.js", "two [x]\n")
    project.file("d.py", "x\nif a:\r\n    b\nif a:\n    c\n")
    project.link("link.py", "a.py")
    in_a, in_b = "a.py:2: two [x]\na.py:3:   two [x]", "src/b.py:1: two [x] two [x]"
    for query, path, answer in (
        ("two [x]", ".", f"3 lines in 2 files\n{in_a}\n{in_b}"),
        ("[x]", "src", f"1 line in 1 file\n{in_b}"),
        ("one", "link.py", "1 line in 1 file\na.py:1: one"),
        ("[x]", "node_modules", "1 line in 1 file\nnode_modules/c.js:1: two [x]"),
        ("TWO", ".", "nothing was found"),
        (r"\w+", ".", "nothing was found"),
        ("if a:\n    b", ".", "1 line in 1 file\nd.py:2: if a:"),
    ):
        assert project.call("search_files", query=query, path=path) == answer


def test_search_by_regular_expression(project: Project) -> None:
    project.file("a.py", "class A:\ndef b():\n")
    found = project.call("search_files", query=r"^(class|def)\s\w+", regex=True)
    assert found.splitlines()[1:] == ["a.py:1: class A:", "a.py:2: def b():"]
    assert "a.py:1" in project.call("search_files", query="(?i)CLASS", regex=True)
    for query in (
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        r"(\d{1,3}\.){3}\d{1,3}",
        r".{0,200}x.{0,200}",
        r"\x{1F600}",
    ):
        assert project.call("search_files", query=query, regex=True) == "nothing was found"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("(", "unclosed group"),
        ("(?=x)", "look-around, including look-ahead and look-behind, is not supported"),
        (r"(a)\1", "backreferences are not supported"),
        (r"\w{1000}", "exceeds size limit"),
        ("(a{1,100}){1,100}b", "repeats so much"),
        ("(?:(?:a?){100}){100}", "repeats so much"),
        ("a{200}{200}", "repeats so much"),
        ("(?sx)(a{99}) {99}", "the flag x"),
    ],
)
def test_unsupported_expression_is_refused(project: Project, query: str, message: str) -> None:
    found = project.refused("search_files", query=query, regex=True)
    assert message in found
    assert found.endswith("Leave out regex to search for the text as it stands")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("query", ["(a+)+$", "(a|a)*b", "(a|aa)+c", "(.*a){30}x", "(a?){30}a{30}b"])
def test_expression_takes_linear_time(project: Project, query: str) -> None:
    project.file("a.txt", "a" * 50_000 + "!\n")
    began = time.process_time()
    project.call("search_files", query=query, regex=True)
    assert time.process_time() - began < 5


def test_search_has_a_time_limit(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argstream.agent.toolkits._files._SEARCH_SECONDS", 0.05)
    project.file("a.txt", ("ab" * 1_000 + "\n") * 2_000)
    assert project.call("search_files", query=r"([ab]?){1000}\d", regex=True) == (
        "nothing was found; it was stopped after 0.05 s, so there may be more: name a narrower path"
    )


def test_cancelled_search_ends(project: Project) -> None:
    project.file("a.txt", "x\n")
    context = context_for("search_files")
    context.cancel()
    answer = project.tools["search_files"].function("x", context=context)
    assert answer.startswith("nothing was found; it was stopped")


def test_search_result_is_bounded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.file("a.txt", f"{'x' * 1_000}\n" * 500)
    head, *lines = project.call("search_files", query="x").splitlines()
    assert head == (
        "200 lines in 1 file; it was stopped after 200, so there may be more: name a narrower path"
    )
    assert len(lines) == 200
    assert lines[0] == f"a.txt:1: {'x' * 300} … (700 characters more)"
    monkeypatch.setattr("argstream.agent.toolkits._files._MOST_ENTRIES", 2)
    project.file("b.txt")
    project.file("c.txt")
    answer = project.call("search_files", query="y")
    assert "it was stopped after 2 files and folders" in answer


def test_files_and_folders_that_cannot_be_searched_are_counted(project: Project) -> None:
    project.file("a.bin", b"\0x")
    project.file("b.txt", "größe x".encode("latin-1"))
    project.file("c.txt", "x\n")
    head, found = project.call("search_files", query="x").splitlines()
    assert head == "1 line in 1 file; not searched: 2 files, no text in UTF-8 or too large"
    assert found == "c.txt:1: x"
    assert "binary" in project.refused("search_files", query="x", path="a.bin")
    deep = "/".join(["d"] * 101)
    project.file(f"{deep}/a.txt", "y\n")
    project.file(f"{deep[:-2]}/b.txt", "y\n")
    head, found = project.call("search_files", query="y", path="d").splitlines()
    assert head == "1 line in 1 file; not searched: 1 folder, too deep or not to be opened"
    assert found == f"{deep[:-2]}/b.txt:1: y"
    last = project.call("list_files").splitlines()[-1]
    assert last == f"{deep}/ (not listed: it is too deep, or cannot be opened)"

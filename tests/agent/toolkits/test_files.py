"""The file tools: what they do, and what a model is told."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from argstream.agent.toolkits import _regular_files as regular_files
from argstream.agent.toolkits import file_tools, text_reader
from argstream.agent.toolkits._edits import Edit
from argstream.errors import ToolFailure
from argstream.validation.order import lint
from tests.agent.toolkits.projects import Project
from tests.agent.tools.calling import context_for, run

MORE: dict[str, dict[str, Any]] = {
    "read_file": {},
    "write_file": {"content": ""},
    "edit_file": {"edits": [{"old": "x", "new": ""}]},
}


def test_what_can_be_judged_early_comes_first(tmp_path: Path) -> None:
    tools = file_tools(tmp_path)
    assert [finding for tool in tools for finding in lint([tool.spec])] == []
    assert [list(tool.schema["properties"]) for tool in tools] == [
        ["path"],
        ["path", "start_line", "max_lines"],
        ["query", "path", "regex"],
        ["path", "content"],
        ["path", "edits"],
    ]


def test_each_argument_is_described(tmp_path: Path) -> None:
    for tool in file_tools(tmp_path):
        assert ":param" not in tool.description
        assert all(one["description"] for one in tool.schema["properties"].values())


# Listing


def test_a_listing_has_what_is_below_too(project: Project) -> None:
    project.file("src/app.py")
    project.file("src/deep/er.py")
    project.file("README.md")
    project.file("node_modules/left/pad.js")
    project.file(".git/config")
    project.file(".mypy_cache/x.json")
    project.file("odd\nname")
    project.link("link", "src")
    assert project.call("list_files").splitlines() == [
        ".git/ (not listed)",
        ".mypy_cache/ (not listed)",
        "README.md",
        "link (symbolic link)",
        "node_modules/ (not listed)",
        '"odd\\nname"',
        "src/",
        "src/app.py",
        "src/deep/",
        "src/deep/er.py",
    ]
    assert project.call("list_files", path="src/deep/") == "src/deep/er.py"
    assert project.call("list_files", path="link") == "src/app.py\nsrc/deep/\nsrc/deep/er.py"
    assert project.call("list_files", path="node_modules").startswith("node_modules/left/")


def test_of_a_large_folder_the_upper_part_is_listed(project: Project) -> None:
    for number in range(30):
        for name in range(40):
            (project.root / f"{number:02}").mkdir(exist_ok=True)
            (project.root / f"{number:02}/{name:02}").touch()
    *listed, note = project.call("list_files").splitlines()
    assert note == "… these are the first 1000: list one of the folders for more"
    assert len(listed) == 1_000
    assert "29/" in listed


def test_an_empty_folder_and_a_file_are_told_apart(project: Project) -> None:
    project.file("a.txt")
    (project.root / "empty").mkdir()
    assert project.call("list_files", path="empty") == "empty is empty"
    assert project.refused("list_files", path="a.txt").startswith("a.txt is no folder: read_file")
    assert project.refused("list_files", path="b") == (
        "there is no b: list_files shows what there is"
    )


# Reading


def test_a_file_is_read_whole_or_in_part(project: Project) -> None:
    project.file("a.txt", "".join(f"line {number}\n" for number in range(1, 11)))
    assert project.call("read_file", path="a.txt") == (
        "a.txt has 10 lines; this is all of it:\n"
        + "".join(f"line {number}\n" for number in range(1, 11))
    )
    assert project.call("read_file", path="a.txt", start_line=4, max_lines=2) == (
        "a.txt has 10 lines; this is lines 4 to 5; go on with start_line=6:\nline 4\nline 5\n"
    )
    assert project.call("read_file", path="a.txt", start_line=10) == (
        "a.txt has 10 lines; this is line 10:\nline 10\n"
    )
    assert project.refused("read_file", path="a.txt", start_line=11) == (
        "a.txt has 10 lines: there is no line 11"
    )


def test_a_large_file_is_read_in_parts_that_join_to_all_of_it(project: Project) -> None:
    lines = [f"{number} {'x' * (number % 900)}" for number in range(2_500)]
    project.file("a.txt", "\n".join(lines))
    found: list[str] = []
    while len(found) < len(lines):
        answer = project.call("read_file", path="a.txt", start_line=len(found) + 1, max_lines=9_999)
        assert len(answer) < 263_000
        found += answer.splitlines()[1:]
    assert found == lines


def test_a_long_line_is_cut_and_that_is_said(project: Project) -> None:
    project.file("a.js", "x" * 300_000)
    answer = project.call("read_file", path="a.js")
    assert answer.startswith("a.js has 1 line; this is all of it:\nxxx")
    assert answer.endswith("x … (the line has 37856 characters more)\n")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "a.bin is no text, but binary data: only text in UTF-8"),
        ("größe".encode("latin-1"), "a.bin is no text in UTF-8 (byte 2 is 0xf6): only that"),
        ("\ufeffx".encode("utf-16-le"), "a.bin is written in UTF-16: only text in UTF-8"),
        ("\ufeffx".encode("utf-32-be"), "a.bin is written in UTF-32: only text in UTF-8"),
    ],
)
@pytest.mark.parametrize("name", ["read_file", "edit_file"])
def test_what_is_no_text_is_told(project: Project, name: str, content: bytes, told: str) -> None:
    project.file("a.bin", content)
    assert project.refused(name, path="a.bin", **MORE[name]).startswith(told)
    assert (project.root / "a.bin").read_bytes() == content


def test_what_is_too_large_is_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_files, "MOST_BYTES", 2**20)
    project.file("a.txt", "x" * (2**20 + 1))
    assert project.refused("read_file", path="a.txt").startswith("a.txt is too large: it has more")
    told = project.refused("write_file", path="b.txt", content="x" * (2**20 + 1))
    assert told == "b.txt would have more than 1 MB: write less"
    assert not (project.root / "b.txt").exists()


def test_what_is_read_to_be_shown_is_as_a_model_sees_it(project: Project) -> None:
    read = text_reader(project.root)
    project.file("src/a.txt", b"\xef\xbb\xbfone\r\ntwo\n")
    assert read("src/a.txt") == read(str(project.root / "src/a.txt")) == "one\ntwo\n"
    project.file("binary", b"\0")
    project.file("large", b"x" * 2_000_001)
    assert [read(path) for path in ("src", "missing", "binary", "large")] == [None] * 4


@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file"])
def test_a_folder_is_no_file(project: Project, name: str) -> None:
    project.file("src/app.py", "x")

    def told(path: str) -> str:
        return project.refused(name, path=path, **MORE[name])

    for path in (".", "src", "src/", "src/..", "src/."):
        assert "is a folder, not a file" in told(path)
    assert told("src/app.py/") == "src/app.py is a file: leave out the slash at the end"
    assert "not a directory" in told("src/app.py/x")


def test_a_new_file_has_a_name(project: Project) -> None:
    told = project.refused("write_file", path="new/", content="")
    assert told == "new would be a folder: leave out the slash at the end"
    assert project.tree() == []


# Writing


def test_a_file_is_written_with_the_folders_above_it(project: Project) -> None:
    content = "grüße\r\n" * 213 + "end"
    told = project.call("write_file", path="src/new/app.py", content=content)
    assert told == "created src/new/app.py with 214 lines"
    assert (project.root / "src/new/app.py").read_bytes() == content.encode()
    told = project.call("write_file", path="src/new/app.py", content="x\n")
    assert told == "wrote 1 line to src/new/app.py"
    assert project.tree() == ["src", "src/new", "src/new/app.py"]
    assert project.call("write_file", path="b", content="") == "created b with 0 lines"
    assert project.call("read_file", path="b") == "b is empty"


def test_modes_are_kept_but_for_those_that_run_as_somebody_else(project: Project) -> None:
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


def test_what_is_read_only_stays_as_it_is(project: Project) -> None:
    project.file("a.txt", "x").chmod(0o444)
    told = project.refused("write_file", path="a.txt", content="y")
    assert told == "a.txt may not be written: it is read-only"
    assert "read-only" in project.refused(
        "edit_file", path="a.txt", edits=[{"old": "x", "new": "y"}]
    )


def test_what_goes_wrong_while_writing_leaves_the_old_file_and_nothing_else(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.file("a.txt", "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    told = project.refused("write_file", path="a.txt", content="new")
    assert told == "a.txt cannot be written: no space left on device"
    assert (project.root / "a.txt").read_text(encoding="utf-8") == "old"
    assert project.tree() == ["a.txt"]


def test_a_file_that_somebody_else_changes_meanwhile_is_not_overwritten(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = project.file("a.txt", "old")
    monkeypatch.setattr(os, "fsync", lambda _: target.write_bytes(b"theirs"))
    for name, more in (
        ("write_file", {"content": "new"}),
        ("edit_file", {"edits": [{"old": "theirs", "new": "ours"}]}),
    ):
        assert project.refused(name, path="a.txt", **more) == (
            "a.txt was changed by somebody else: read it again first"
        )
    assert target.read_bytes() == b"theirs"


def test_edits_of_one_file_at_the_same_time_are_all_made(project: Project) -> None:
    project.file("a.txt", "".join(f"<{number}>\n" for number in range(20)))

    async def all_at_once() -> None:
        edit = project.tools["edit_file"]
        await asyncio.gather(
            *(
                run(edit, path="a.txt", edits=[{"old": f"<{number}>", "new": f"[{number}]"}])
                for number in range(20)
            )
        )

    asyncio.run(all_at_once())
    written = (project.root / "a.txt").read_text(encoding="utf-8")
    assert written == "".join(f"[{number}]\n" for number in range(20))


@pytest.mark.parametrize("name", ["write_file", "edit_file"])
def test_a_call_that_was_stopped_does_not_write(project: Project, name: str) -> None:
    project.file("a.txt", "old")
    context = context_for(name)
    context.cancel()
    more = {"write_file": "new", "edit_file": [Edit(old="old", new="new")]}[name]
    with pytest.raises(ToolFailure, match="the call was stopped"):
        project.tools[name].function("a.txt", more, context=context)
    assert (project.root / "a.txt").read_text(encoding="utf-8") == "old"

"""No path leads the file tools out of their folder (the threat "path traversal").

After each test, the fixture ``project`` checks that the secret outside was not read or changed.
"""

import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from argstream.agent.toolkits import file_tools, shell_tool, text_reader
from argstream.errors import ToolError, UsageError
from tests.agent.toolkits.projects import CANARY, Project

EDITS = [{"old": "canary", "new": "cat"}]
CALLS: dict[str, dict[str, Any]] = {
    "list_files": {},
    "read_file": {},
    "search_files": {"query": "sings"},
    "write_file": {"content": "mine"},
    "edit_file": {"edits": EDITS},
}
OUTWARD = [
    *("..", "../outside/secret.txt", "./../outside/secret.txt", "src/../../outside/secret.txt"),
    *("src/../src/../../outside/secret.txt", "..//outside//secret.txt"),
    *("src/deep/../../../outside/secret.txt", "../project/../outside/secret.txt"),
    *("missing/../../outside/new.txt", "missing/../new.txt"),
    # absolute
    *("{outside}/secret.txt", "/{outside}/secret.txt", "file://{outside}/secret.txt"),
    *("{root}/../outside/secret.txt", "{root}-not/secret.txt", "/etc/passwd", "/"),
    *("~", "~/secret.txt", "~root/secret.txt"),
    # of other systems, or of none
    *("..\\outside\\secret.txt", "\u2024\u2024/outside/secret.txt\n", "", "\0"),
    *("../outside/secret.txt\0.txt", "src\0/../../outside/secret.txt"),
    *("x" * 5_000, "x" * 256, "é" * 128, "/".join("x" * 200)),
    # through links
    *("link", "folder/secret.txt", "folder/new.txt", "folder/new/new.txt", "folder/"),
    *("chain/secret.txt", "up/outside/secret.txt", "inner/folder/secret.txt"),
    *("dangling", "dangling/new.txt", "circle", "circle/x"),
]


@pytest.fixture
def outward(project: Project) -> list[str]:
    project.file("src/deep/app.py", "print()\n")
    for path, target in (
        *(("link", project.secret), ("folder", project.outside), ("src/folder", "../../outside")),
        *(("chain", "folder"), ("up", ".."), ("inner", "src"), ("circle", "circle")),
        ("dangling", "../outside/new.txt"),
    ):
        project.link(path, target)
    places = {"{outside}": str(project.outside), "{root}": str(project.root)}
    return [re.sub(r"{\w+}", lambda place: places[place[0]], path) for path in OUTWARD]


@pytest.mark.parametrize("name", CALLS)
def test_path_to_the_outside_is_refused(project: Project, outward: list[str], name: str) -> None:
    before = project.tree()
    for path in outward:
        assert len(project.refused(name, path=path, **CALLS[name])) < 600
    assert project.tree() == before


def test_text_reader_reads_nothing_outside(project: Project, outward: list[str]) -> None:
    read = text_reader(project.root)
    assert [read(path) for path in outward] == [None] * len(outward)


def test_refusal_does_not_show_whether_a_file_exists_outside(project: Project) -> None:
    project.link("there", project.secret)
    project.link("not there", project.outside / "nothing")
    there = project.refused("read_file", path="there")
    assert project.refused("read_file", path="not there") == there.replace("there", "not there", 1)


def test_link_inside_the_folder_is_followed(project: Project) -> None:
    project.file("src/app.py", "one\n")
    project.link("near", "src")
    project.link("src/again", "../near/./app.py")
    project.link("far", project.root / "src")
    project.link("later", "src/made/new.txt")
    assert project.call("read_file", path="far/again").endswith("\none\n")
    assert project.call("read_file", path="near/../src/app.py").endswith("\none\n")
    project.call("write_file", path="near/again", content="two\n")
    project.call("write_file", path="later", content="three\n")
    assert (project.root / "src/app.py").read_text(encoding="utf-8") == "two\n"
    assert (project.root / "src/again").is_symlink()
    assert (project.root / "src/made/new.txt").read_text(encoding="utf-8") == "three\n"


def test_path_may_be_relative_or_absolute_and_need_not_be_normal(project: Project) -> None:
    project.file("src/app.py", "x\n")
    root = project.root
    for path in "src//app.py", "./src/app.py", "src/./app.py", "src/../src/app.py":
        for named in (path, f"{root}/{path}"):
            found = project.call("read_file", path=named)
            assert found.endswith("has 1 line; this is all of it:\nx\n")


def test_folder_can_be_a_link_and_either_path_names_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.txt").write_text("x\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("real")
    read = file_tools(tmp_path / "link")[1].function
    for path in ("a.txt", str(tmp_path / "link/a.txt"), str(tmp_path / "real/a.txt")):
        assert read(path).startswith("a.txt has 1 line")


@pytest.mark.parametrize("make", [file_tools, shell_tool])
@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("nothing", "No such file"),
        ("file", "is not a folder"),
        ("a\0b", "null"),
        (5, "a Path or"),
        ("", "has no name"),
    ],
)
def test_invalid_folder_raises(
    tmp_path: Path, make: Callable[[Any], Any], root: Any, message: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=message):
        make(str(tmp_path / root) if isinstance(root, str) and root else root)


def test_system_without_dir_fd_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(UsageError, match="use Linux, macOS, or WSL"):
        file_tools(tmp_path)


def test_replaced_folder_is_not_used(project: Project) -> None:
    project.root.rename(project.root.with_name("moved"))
    project.root.mkdir()
    try:
        message = project.refused("write_file", path="a.txt", content="")
        assert message == "the folder was replaced by another: nothing is done in that"
        project.root.rmdir()
        project.root.symlink_to("moved")
        assert "cannot be opened" in project.refused("read_file", path="a.txt")
        project.root.unlink()
    finally:
        project.root.with_name("moved").rename(project.root)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", ["read_file", "search_files", "write_file", "edit_file"])
def test_pipe_socket_and_device_are_refused_without_waiting(
    project: Project, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(project.root / "pipe")
    monkeypatch.chdir(project.root)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    made = ["pipe", "socket"]
    with suppress(PermissionError):  # needs root
        os.mknod(project.root / "device", 0o020666, os.makedev(1, 5))  # /dev/zero
        made.append("device")
    for path in made:
        assert "is a pipe, a device or another special file" in project.refused(
            name, path=path, **CALLS[name]
        )
    assert project.tree() == sorted(made)


def test_hard_link_is_not_written_through(project: Project) -> None:
    os.link(project.secret, project.root / "hard.txt")
    project.call("edit_file", path="hard.txt", edits=[{"old": "sings", "new": "is quiet"}])
    assert project.secret.read_text(encoding="utf-8") == CANARY
    project.call("write_file", path="hard.txt", content="mine")
    assert (project.root / "hard.txt").stat().st_nlink == 1


def test_folders_of_version_control_are_not_written(project: Project) -> None:
    project.file(".git/config", "[core]\n")
    project.link("hooks", ".git")
    before = project.tree()
    for path in (
        *(".git/hooks/pre-commit", ".git/config", ".git", "sub/.git", "sub/.Git/hooks/x"),
        *(".g\u200cit/config", ".git::$INDEX_ALLOCATION/config", "GIT~1/config", ".hg/hgrc"),
        *("hooks/hooks/pre-commit", "src/../.git/config"),
    ):
        message = project.refused("write_file", path=path, content="#!/bin/sh\n")
        assert "version control" in message
    assert "version control" in project.refused("edit_file", path=".git/config", edits=EDITS)
    assert project.tree() == before
    assert project.call("read_file", path=".git/config").endswith("[core]\n")
    project.call("write_file", path=".gitignore", content="*.pyc\n")


@contextmanager
def repeatedly(swap: Callable[[], None]) -> Iterator[None]:
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            swap()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def exchanged(place: Path, other: Path) -> Callable[[], None]:
    aside = place.with_name(f"{place.name}.aside")

    def swap() -> None:
        place.rename(aside)
        other.rename(place)
        place.rename(other)
        aside.rename(place)

    return swap


def redirected(project: Project, path: str, inside: str) -> Callable[[], None]:
    """Return a function that points a link to the outside for a moment. It is never missing."""
    link = project.root / f"{path}.link"
    project.link(path, inside)

    def swap() -> None:
        for target in (project.outside, inside):
            link.symlink_to(target)
            link.replace(project.root / path)

    return swap


def check_race(project: Project, swap: Callable[[], None], name: str, **arguments: Any) -> None:
    outcomes: set[str] = set()
    tool = project.tools[name]
    text = json.dumps(arguments)
    calls = 0
    with repeatedly(swap):
        while calls < 50 or len(outcomes) < 2:
            calls += 1
            try:
                project.answers.append(tool.function(**tool.bind(text).arguments))
                outcomes.add("done")
            except ToolError as failure:
                project.answers.append(str(failure))
                outcomes.add("refused")


RACES: dict[str, dict[str, Any]] = {
    "list_files": {"path": "src"},
    "read_file": {"path": "src/secret.txt"},
    "search_files": {"path": "src", "query": "sings"},
    "edit_file": {"path": "src/secret.txt", "edits": [{"old": " sings", "new": " sings!"}]},
}


@pytest.mark.parametrize("name", RACES)
def test_folder_exchanged_for_a_link_leads_nowhere(project: Project, name: str) -> None:
    project.file("src/secret.txt", "ours sings, too\n")
    project.link("link", project.outside)
    swap = exchanged(project.root / "src", project.root / "link")
    check_race(project, swap, name, **RACES[name])


@pytest.mark.parametrize("path", ["src/secret.txt", "src/made/new.txt"])
def test_link_redirected_to_the_outside_is_not_written_through(project: Project, path: str) -> None:
    project.file("real/secret.txt", "ours\n")
    swap = redirected(project, "src", "real")
    check_race(project, swap, "write_file", path=path, content="x")
    assert (project.root / "real" / path.removeprefix("src/")).read_text(encoding="utf-8") == "x"


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_file_exchanged_for_a_link_or_pipe_is_not_read(project: Project, kind: str) -> None:
    target, other = project.file("a.txt", "ours\n"), project.root / "other"
    os.mkfifo(other) if kind == "pipe" else other.symlink_to(project.secret)
    swap = exchanged(target, other)
    check_race(project, swap, "read_file", path="a.txt")
    with repeatedly(swap):
        for _ in range(25):
            project.call("search_files", query="s")


BESIDE = ["", "-journal", "-wal", "-shm"]
REFUSED = "is kept from these tools: leave it alone"


def hide(project: Project, *files: Path | str) -> None:
    project.tools = {tool.name: tool for tool in file_tools(project.root, hidden=files)}


@pytest.fixture
def store(project: Project) -> Path:
    """Return the path of a store in the project that is hidden from the tools."""
    for ending in BESIDE[:3]:
        project.file(f"data/runs.db{ending}", "it sings")
    project.file("data/runs.db.txt", "a note")
    hide(project, project.root / "data/runs.db")
    return project.root / "data/runs.db"


@pytest.mark.parametrize("name", CALLS)
def test_hidden_files_are_refused(project: Project, store: Path, name: str) -> None:
    before = project.tree()
    for ending in BESIDE:
        for path in f"data/runs.db{ending}", f"{store}{ending}", f"./data//../data/Runs.DB{ending}":
            assert project.refused(name, path=path, **CALLS[name]).endswith(REFUSED)
    assert project.tree() == before
    assert store.read_text() == "it sings"


def test_no_spelling_or_link_leads_to_a_hidden_file(project: Project, store: Path) -> None:
    project.link("link", "data/runs.db")
    project.link("folder", "data")
    project.link("there", store)
    for path in (
        *("data/RUNS.db", "link", "there", "folder/runs.db-wal", "data/runs.db\u200b"),
        "data/runs.db-shm/new.txt",
    ):
        assert project.refused("write_file", path=path, content="").endswith(REFUSED)
    assert not store.with_name("runs.db-shm").exists()


def test_hidden_file_is_not_listed_searched_or_shown(project: Project, store: Path) -> None:
    assert project.call("list_files") == "data/\ndata/runs.db.txt"
    assert project.call("search_files", query="sings") == "nothing was found"
    assert project.call("search_files", query="note").startswith("1 line in 1 file")
    read = text_reader(project.root, hidden=[store])
    assert read("data/runs.db") is None
    assert read("data/runs.db.txt") == "a note"
    for path in ("runs.db", "data/deep/runs.db"):  # of the same name, elsewhere
        project.call("write_file", path=path, content="mine")
        assert "mine" in project.call("read_file", path=path)


def test_target_of_a_hidden_link_is_hidden(project: Project) -> None:
    real = project.file("real/runs.db", "it sings")
    project.link("runs.db", real)
    hide(project, project.root / "runs.db")
    assert project.refused("read_file", path="real/runs.db-wal").endswith(REFUSED)
    assert project.refused("read_file", path="runs.db").endswith(REFUSED)


def test_relative_hidden_path_is_relative_to_the_working_directory(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    project.file("argstream.db")
    hide(project, "argstream.db", "../outside/other.db")
    assert project.call("list_files") == ". is empty"


def test_invalid_hidden_option_raises(project: Project) -> None:
    with pytest.raises(UsageError, match=r"hidden is a list of paths: \['runs.db'\]"):
        file_tools(project.root, hidden="runs.db")
    with pytest.raises(UsageError, match="cannot be hidden"):
        file_tools(project.root, hidden=["a\0b"])

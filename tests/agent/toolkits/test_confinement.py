"""Nothing leads the file tools out of their folder: threats.md, path traversal.

The fixture ``project`` looks after each test that the secret outside was neither read nor changed.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from argstream.agent.toolkits import file_tools, shell_tool, text_reader
from argstream.errors import ToolFailure, UsageError
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
    "..",
    "../outside/secret.txt",
    "./../outside/secret.txt",
    "src/../../outside/secret.txt",
    "src/../src/../../outside/secret.txt",
    "..//outside//secret.txt",
    "src/deep/../../../outside/secret.txt",
    "../project/../outside/secret.txt",
    "{outside}/secret.txt",
    "/{outside}/secret.txt",
    "{root}/../outside/secret.txt",
    "{root}-not/secret.txt",
    "/etc/passwd",
    "/",
    "~",
    "~/secret.txt",
    "~root/secret.txt",
    "file://{outside}/secret.txt",
    "..\\outside\\secret.txt",
    "../outside/secret.txt\0.txt",
    "src\0/../../outside/secret.txt",
    "\0",
    "",
    "link",
    "folder/secret.txt",
    "folder/new.txt",
    "folder/new/new.txt",
    "folder/",
    "chain/secret.txt",
    "up/outside/secret.txt",
    "inner/folder/secret.txt",
    "dangling",
    "dangling/new.txt",
    "circle",
    "circle/x",
    "\u2024\u2024/outside/secret.txt\n",
    "x" * 5_000,
    "x" * 256,
    "é" * 128,
    "/".join("x" * 200),
    "missing/../../outside/new.txt",
    "missing/../new.txt",
]


def meant(path: str, project: Project) -> str:
    return path.replace("{outside}", str(project.outside)).replace("{root}", str(project.root))


def with_ways_out(project: Project) -> Project:
    project.file("src/deep/app.py", "print()\n")
    project.link("link", project.secret)
    project.link("folder", project.outside)
    project.link("chain", "folder")
    project.link("up", "..")
    project.link("inner", "src")
    project.link("src/folder", "../../outside")
    project.link("dangling", "../outside/new.txt")
    project.link("circle", "circle")
    return project


@pytest.mark.parametrize("name", CALLS)
def test_what_leads_out_is_refused(project: Project, name: str) -> None:
    before = with_ways_out(project).tree()
    for path in OUTWARD:
        told = project.refused(name, path=meant(path, project), **CALLS[name])
        assert len(told) < 600
    assert project.tree() == before


def test_what_is_read_to_be_shown_is_inside_too(project: Project) -> None:
    read = text_reader(with_ways_out(project).root)
    for path in OUTWARD:
        assert read(meant(path, project)) is None


def test_whether_there_is_something_outside_is_not_told(project: Project) -> None:
    project.link("there", project.secret)
    project.link("not there", project.outside / "nothing")
    there = project.refused("read_file", path="there")
    assert project.refused("read_file", path="not there") == there.replace("there", "not there", 1)


def test_links_that_stay_inside_are_followed(project: Project) -> None:
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


@pytest.mark.parametrize(
    "path",
    ["src//app.py", "./src/app.py", "src/./app.py", "src/../src/app.py", "{root}/src/app.py"],
)
def test_a_path_may_be_written_in_many_ways(project: Project, path: str) -> None:
    project.file("src/app.py", "x\n")
    found = project.call("read_file", path=path.replace("{root}", str(project.root)))
    assert found.endswith("has 1 line; this is all of it:\nx\n")


def test_the_folder_may_be_a_link_and_be_named_by_either_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.txt").write_text("x\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("real")
    read = file_tools(tmp_path / "link")[1].function
    for path in ("a.txt", str(tmp_path / "link/a.txt"), str(tmp_path / "real/a.txt")):
        assert read(path).startswith("a.txt has 1 line")


@pytest.mark.parametrize("make", [file_tools, shell_tool])
@pytest.mark.parametrize(
    ("root", "told"),
    [("nothing", "No such file"), ("file", "is no folder"), ("a\0b", "null"), (5, "a Path or")],
)
def test_the_folder_must_be_one(
    tmp_path: Path, make: Callable[[Any], Any], root: Any, told: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=told):
        make(str(tmp_path / root) if isinstance(root, str) else root)


def test_no_name_is_not_the_folder_that_the_program_runs_in() -> None:
    with pytest.raises(UsageError, match="has no name"):
        file_tools("")


def test_a_system_that_cannot_confine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(UsageError, match="use Linux, macOS, or WSL"):
        file_tools(tmp_path)


def test_a_folder_that_was_replaced_is_not_used(project: Project) -> None:
    project.root.rename(project.root.with_name("moved"))
    project.root.mkdir()
    try:
        told = project.refused("write_file", path="a.txt", content="")
        assert told == "the folder was replaced by another: nothing is done in that"
        project.root.rmdir()
        project.root.symlink_to("moved")
        assert "cannot be opened" in project.refused("read_file", path="a.txt")
        project.root.unlink()
    finally:
        project.root.with_name("moved").rename(project.root)


# Only regular files


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", ["read_file", "search_files", "write_file", "edit_file"])
def test_a_pipe_a_socket_and_a_device_are_left_alone_and_nothing_hangs(
    project: Project, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(project.root / "pipe")
    monkeypatch.chdir(project.root)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    made = ["pipe", "socket"]
    with suppress(PermissionError):  # few may make one
        os.mknod(project.root / "device", 0o020666, os.makedev(1, 5))  # zeros without an end
        made.append("device")
    for path in made:
        assert "is no regular file" in project.refused(name, path=path, **CALLS[name])
    assert project.tree() == sorted(made)


@pytest.mark.timeout(10)
def test_a_pipe_that_takes_the_place_of_a_file_does_not_hang(project: Project) -> None:
    target = project.file("a.txt", "x\n")
    pipe, spare = project.root / "pipe", project.root / "spare"
    os.mkfifo(pipe)

    def swap() -> None:
        target.rename(spare)
        pipe.rename(target)
        target.rename(pipe)
        spare.rename(target)

    with again_and_again(swap):
        for _ in range(100):
            project.attempt("read_file", path="a.txt")
            project.attempt("search_files", query="x")
    assert any(answer.startswith("a.txt has 1 line") for answer in project.answers)


def test_a_hard_link_is_not_written_through(project: Project) -> None:
    os.link(project.secret, project.root / "hard.txt")
    project.call("edit_file", path="hard.txt", edits=[{"old": "sings", "new": "is quiet"}])
    assert project.secret.read_text(encoding="utf-8") == CANARY
    project.call("write_file", path="hard.txt", content="mine")
    assert (project.root / "hard.txt").stat().st_nlink == 1


def test_nothing_is_written_where_version_control_runs_programs(project: Project) -> None:
    project.file(".git/config", "[core]\n")
    project.link("hooks", ".git")
    before = project.tree()
    for path in (
        ".git/hooks/pre-commit",
        ".git/config",
        ".git",
        "sub/.git",
        "sub/.Git/hooks/x",
        ".g\u200cit/config",
        ".git::$INDEX_ALLOCATION/config",
        "GIT~1/config",
        ".hg/hgrc",
        "hooks/hooks/pre-commit",
        "src/../.git/config",
    ):
        told = project.refused("write_file", path=path, content="#!/bin/sh\n")
        assert "version control" in told
    assert "version control" in project.refused("edit_file", path=".git/config", edits=EDITS)
    assert project.tree() == before
    assert project.call("read_file", path=".git/config").endswith("[core]\n")
    project.call("write_file", path=".gitignore", content="*.pyc\n")


# Races


@contextmanager
def again_and_again(swap: Callable[[], None]) -> Iterator[None]:
    """Do something in another thread, all the time."""
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


def exchanged(project: Project, path: str) -> Callable[[], None]:
    """Let a directory be a link to the outside for a moment, again and again."""
    place, aside = project.root / path, project.root / f"{path}.aside"
    link = project.root / f"{path}.link"
    link.symlink_to(project.outside)

    def swap() -> None:
        place.rename(aside)
        link.rename(place)
        place.rename(link)
        aside.rename(place)

    return swap


def redirected(project: Project, path: str, inside: str) -> Callable[[], None]:
    """Let a link lead to the outside and back again: it is never missing."""
    link = project.root / f"{path}.link"
    project.link(path, inside)

    def swap() -> None:
        for target in (project.outside, inside):
            link.symlink_to(target)
            link.replace(project.root / path)

    return swap


def met(project: Project, swap: Callable[[], None], name: str, **arguments: Any) -> set[str]:
    """Call a tool many times while something is exchanged; say what came of it.

    Each of the two must have been the case; on a busy machine that may take a while.
    """
    outcomes: set[str] = set()
    tool = project.tools[name]
    text = json.dumps(arguments)
    ends_at = time.monotonic() + 20
    calls = 0
    with again_and_again(swap):
        while calls < 1_000 or (len(outcomes) < 2 and time.monotonic() < ends_at):
            calls += 1
            try:
                project.answers.append(tool.function(**tool.bind(text).arguments))
                outcomes.add("done")
            except ToolFailure as failure:
                project.answers.append(str(failure))
                outcomes.add("refused")
    return outcomes


RACES: dict[str, dict[str, Any]] = {
    "list_files": {"path": "src"},
    "read_file": {"path": "src/secret.txt"},
    "search_files": {"path": "src", "query": "sings"},
    "edit_file": {"path": "src/secret.txt", "edits": [{"old": " sings", "new": " sings!"}]},
}


@pytest.mark.parametrize("name", RACES)
def test_a_directory_that_is_exchanged_for_a_link_meanwhile(project: Project, name: str) -> None:
    project.file("src/secret.txt", "ours sings, too\n")
    found = met(project, exchanged(project, "src"), name, **RACES[name])
    assert found == {"done", "refused"}  # otherwise they never met


@pytest.mark.parametrize("path", ["src/secret.txt", "src/made/new.txt"])
def test_a_link_that_is_turned_to_the_outside_meanwhile(project: Project, path: str) -> None:
    project.file("real/secret.txt", "ours\n")
    swap = redirected(project, "src", "real")
    assert met(project, swap, "write_file", path=path, content="x") == {"done", "refused"}
    assert (project.root / "real" / path.removeprefix("src/")).read_text(encoding="utf-8") == "x"


def test_a_file_that_is_exchanged_for_a_link_meanwhile(project: Project) -> None:
    target = project.file("a.txt", "ours\n")
    link, spare = project.root / "link", project.root / "spare"
    link.symlink_to(project.secret)

    def swap() -> None:
        target.rename(spare)
        link.rename(target)
        target.rename(link)
        spare.rename(target)

    with again_and_again(swap):
        for _ in range(100):
            project.attempt("read_file", path="a.txt")
            project.attempt("search_files", query="s")
    assert any(answer.startswith("a.txt has 1 line") for answer in project.answers)


# Files of the folder that its tools do not see: the store of the agent, above all


BESIDE = ["", "-journal", "-wal", "-shm"]
REFUSED = "is kept from these tools: leave it alone"


def hide(project: Project, *files: Path | str) -> None:
    project.tools = {tool.name: tool for tool in file_tools(project.root, hidden=files)}


@pytest.fixture
def store(project: Project) -> Path:
    """Give the path of a store in the project, which the tools are not to see."""
    for ending in BESIDE[:3]:
        project.file(f"data/runs.db{ending}", "it sings")
    project.file("data/runs.db.txt", "a note")
    hide(project, project.root / "data/runs.db")
    return project.root / "data/runs.db"


@pytest.mark.parametrize("ending", BESIDE)
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_done_with_them(project: Project, store: Path, name: str, ending: str) -> None:
    before = project.tree()
    for path in f"data/runs.db{ending}", f"{store}{ending}", f"./data//../data/Runs.DB{ending}":
        assert project.refused(name, path=path, **CALLS[name]).endswith(REFUSED)
    assert project.tree() == before
    assert store.read_text() == "it sings"


def test_no_other_spelling_and_no_link_leads_to_them(project: Project, store: Path) -> None:
    project.link("link", "data/runs.db")
    project.link("folder", "data")
    project.link("there", store)
    for path in "data/RUNS.db", "link", "there", "folder/runs.db-wal", "data/runs.db\u200b":
        assert project.refused("write_file", path=path, content="").endswith(REFUSED)


def test_no_folder_takes_the_place_of_one(project: Project, store: Path) -> None:
    told = project.refused("write_file", path="data/runs.db-shm/new.txt", content="")
    assert told.endswith(REFUSED)
    assert not store.with_name("runs.db-shm").exists()


@pytest.mark.usefixtures("store")
def test_they_are_neither_listed_nor_searched(project: Project) -> None:
    assert project.call("list_files") == "data/\ndata/runs.db.txt"
    assert project.call("search_files", query="sings") == "nothing was found"
    assert project.call("search_files", query="note").startswith("1 line in 1 file")


@pytest.mark.usefixtures("store")
def test_what_is_called_alike_elsewhere_is_seen(project: Project) -> None:
    project.call("write_file", path="runs.db", content="mine")
    project.call("write_file", path="data/deep/runs.db", content="mine")
    assert "mine" in project.call("read_file", path="runs.db")


def test_where_a_link_leads_is_hidden_too(project: Project) -> None:
    real = project.file("real/runs.db", "it sings")
    project.link("runs.db", real)
    hide(project, project.root / "runs.db")
    assert project.refused("read_file", path="real/runs.db-wal").endswith(REFUSED)
    assert project.refused("read_file", path="runs.db").endswith(REFUSED)


def test_a_relative_path_is_meant_as_that_of_a_store_is(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    project.file("argstream.db")
    hide(project, "argstream.db", "../outside/other.db")
    assert project.call("list_files") == ". is empty"


def test_they_are_not_shown_either(project: Project, store: Path) -> None:
    read = text_reader(project.root, hidden=[store])
    assert read("data/runs.db") is None
    assert read("data/runs.db.txt") == "a note"


def test_wrong_use_is_explained(project: Project) -> None:
    with pytest.raises(UsageError, match=r"hidden is a list of paths: \['runs.db'\]"):
        file_tools(project.root, hidden="runs.db")
    with pytest.raises(UsageError, match="cannot be hidden"):
        file_tools(project.root, hidden=["a\0b"])

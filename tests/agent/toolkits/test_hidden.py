"""Files of the folder that its tools do not see: the store of the agent, above all."""

from pathlib import Path

import pytest

from argstream.agent.toolkits import file_tools, text_reader
from argstream.errors import UsageError
from tests.agent.toolkits.projects import Project
from tests.agent.toolkits.test_confinement import CALLS

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

"""Searching: what is found, what is left out, and that it ends."""

import time

import pytest

from argstream.agent.toolkits import _search as searching
from tests.agent.toolkits.projects import Project
from tests.agent.tools.calling import context_for


def test_lines_are_found_in_all_files_below(project: Project) -> None:
    project.file("a.py", "one\ntwo [x]\n  two [x]\n")
    project.file("src/b.py", "two [x] two [x]\r\n")
    project.file("node_modules/c.js", "two [x]\n")
    project.link("link.py", "a.py")
    assert project.call("search_files", query="two [x]").splitlines() == [
        "3 lines in 2 files",
        "a.py:2: two [x]",
        "a.py:3:   two [x]",
        "src/b.py:1: two [x] two [x]",
    ]
    assert project.call("search_files", query="[x]", path="src").splitlines()[1:] == [
        "src/b.py:1: two [x] two [x]"
    ]
    assert (
        project.call("search_files", query="one", path="link.py") == "1 line in 1 file\na.py:1: one"
    )
    assert project.call("search_files", query="[x]", path="node_modules").startswith("1 line")
    assert project.call("search_files", query="TWO") == "nothing was found"


def test_a_query_of_several_lines_is_found_where_it_begins(project: Project) -> None:
    project.file("a.py", "x\nif a:\r\n    b\nif a:\n    c\n")
    assert project.call("search_files", query="if a:\n    b").splitlines()[1:] == ["a.py:2: if a:"]


def test_a_regular_expression_is_used_if_it_is_said_to_be_one(project: Project) -> None:
    project.file("a.py", "class A:\ndef b():\n")
    assert project.call("search_files", query=r"^(class|def)\s\w+", regex=True).splitlines()[
        1:
    ] == [
        "a.py:1: class A:",
        "a.py:2: def b():",
    ]
    assert "a.py:1" in project.call("search_files", query="(?i)CLASS", regex=True)
    assert project.call("search_files", query=r"\w+") == "nothing was found"


@pytest.mark.parametrize(
    ("query", "told"),
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
def test_an_expression_that_cannot_be_used_is_told(project: Project, query: str, told: str) -> None:
    said = project.refused("search_files", query=query, regex=True)
    assert told in said
    assert said.endswith("Leave out regex to search for the text as it stands")


@pytest.mark.parametrize(
    "query",
    [
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        r"(\d{1,3}\.){3}\d{1,3}",
        r".{0,200}x.{0,200}",
        r"\x{1F600}",
    ],
)
def test_an_expression_as_people_write_them_is_used(project: Project, query: str) -> None:
    assert project.call("search_files", query=query, regex=True) == "nothing was found"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("query", ["(a+)+$", "(a|a)*b", "(a|aa)+c", "(.*a){30}x", "(a?){30}a{30}b"])
def test_no_expression_takes_forever(project: Project, query: str) -> None:
    project.file("a.txt", "a" * 50_000 + "!\n")
    began = time.monotonic()
    project.call("search_files", query=query, regex=True)
    assert time.monotonic() - began < 5


def test_a_slow_search_ends_in_time_and_says_so(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "_SECONDS", 0.05)
    project.file("a.txt", ("ab" * 1_000 + "\n") * 2_000)
    said = project.call("search_files", query=r"([ab]?){1000}\d", regex=True)
    assert said == (
        "nothing was found; it was stopped after 0.05 s, so there may be more: name a narrower path"
    )


def test_a_search_that_was_stopped_ends(project: Project) -> None:
    project.file("a.txt", "x\n")
    context = context_for("search_files")
    context.cancel()
    said = project.tools["search_files"].function("x", context=context)
    assert said.startswith("nothing was found; it was stopped")


def test_what_is_found_is_bounded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.file("a.txt", f"{'x' * 1_000}\n" * 500)
    head, *lines = project.call("search_files", query="x").splitlines()
    assert head == (
        "200 lines in 1 file; it was stopped after 200, so there may be more: name a narrower path"
    )
    assert len(lines) == 200
    assert lines[0] == f"a.txt:1: {'x' * 300} … (700 characters more)"
    monkeypatch.setattr(searching, "_MOST_ENTRIES", 2)
    project.file("b.txt")
    project.file("c.txt")
    said = project.call("search_files", query="y")
    assert "it was stopped after 2 files and folders" in said


def test_what_could_not_be_searched_is_told(project: Project) -> None:
    project.file("a.bin", b"\0x")
    project.file("b.txt", "größe x".encode("latin-1"))
    project.file("c.txt", "x\n")
    assert project.call("search_files", query="x").splitlines() == [
        "1 line in 1 file; not searched: 2 files, no text in UTF-8 or too large",
        "c.txt:1: x",
    ]
    assert "binary" in project.refused("search_files", query="x", path="a.bin")


def test_what_is_too_deep_is_passed_over_and_told(project: Project) -> None:
    deep = "/".join(["d"] * 101)
    project.file(f"{deep}/a.txt", "x\n")
    project.file(f"{deep[:-2]}/b.txt", "x\n")
    head, found = project.call("search_files", query="x").splitlines()
    assert head == "1 line in 1 file; not searched: 1 folder, too deep or not to be opened"
    assert found == f"{deep[:-2]}/b.txt:1: x"
    last = project.call("list_files").splitlines()[-1]
    assert last == f"{deep}/ (not listed: it is too deep, or cannot be opened)"

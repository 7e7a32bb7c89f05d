"""The condition Under: a path is checked by where it leads, however it is written."""

import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from argstream.policy import Not, Policy, Rule, Undecided, Under
from tests.policy.reading import read


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Make an allowed directory `project`, its siblings, and links between them."""
    project = tmp_path / "project"
    for directory in (project / "sub" / "deep", tmp_path / "outside", tmp_path / "project-evil"):
        directory.mkdir(parents=True)
    for file in (project / "a.txt", project / "sub" / "b.txt", tmp_path / "outside" / "secret"):
        file.write_text("x")
    links = {
        "project/to-outside": "../outside",
        "project/to-secret": str(tmp_path / "outside" / "secret"),
        "project/to-nothing-outside": "../outside/new",
        "project/to-sub": "sub",
        "project/to-deep": "sub/deep",
        "project/chain": "to-outside",
        "project/round": "round",
        "project/one": "two",
        "project/two": "one",
        "project/to-root": "/",
        "outside/back": "../project/sub",
        "alias": "project",
    }
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    return tmp_path


INSIDE = [
    *("a.txt", "./a.txt", "sub/b.txt", "sub//b.txt", "sub/./b.txt", "sub/../a.txt", "new.txt"),
    *("new/directory/new.txt", "new/../a.txt", ".", "./", "sub/..", "to-sub/b.txt"),
    "to-sub/../a.txt",  # from the link and from its target
    *("to-sub/new.txt", ".hidden", "...hidden", "a b.txt", "-rf", "*", "日本語.txt"),
    "%2e%2e/%2e%2e/etc/passwd",  # literal: no tool that opens files decodes it
    *("..%2f..%2fetc%2fpasswd", "price$.txt", "{place}/project", "{place}/project/"),
    *("{place}/project/a.txt", "/{place}/project/a.txt", "{place}/./project/new"),
    *("{place}/outside/../project/a.txt", "{place}/alias/a.txt", "{place}/alias/new/a.txt"),
    "{place}/outside/back/b.txt",
]
OUTSIDE = [
    *("..", "../", "../outside/secret", "../project-evil/a.txt", "../project-evil"),
    *("sub/../../outside/secret", "./../outside/secret", ".//..//outside/secret"),
    *("sub/deep/../../../outside", "new/../../outside/secret"),
    "../" * 30 + "etc/passwd",
    *("a.txt/../../outside/secret", "/", "/etc/passwd", "//etc/passwd", "///etc/passwd"),
    *("/../etc/passwd", "{place}", "{place}/project/..", "{place}/project/../outside/secret"),
    *("{place}/project-evil/a.txt", "{place}/projectx", "to-outside", "to-outside/"),
    *("to-outside/secret", "to-outside/new-file", "to-outside/new/new-file", "to-secret"),
    "to-nothing-outside",  # writing to it creates a file outside
    *("chain/secret", "to-root/etc/passwd", "{place}/alias/../outside/secret"),
    *("{place}/alias/to-outside/secret", "sub/../to-outside/secret"),
]
UNCLEAR = [
    *("", " ", "~", "~/a.txt", "~root/a.txt", "~+/a.txt", "a\0.txt"),
    *("{place}/project/a.txt\0.png", "a.txt\n", "\n/etc/passwd", " /etc/passwd", "/etc/passwd "),
    *("\u00a0/etc/passwd", "a\r\nb", "a\x1bb", "a\x7fb", "..\\..\\etc\\passwd", "sub\\b.txt"),
    *("C:\\Windows", "C:/Windows", "c:a.txt", "\\\\server\\share", "file:///etc/passwd"),
    *("file:/etc/passwd", "FILE://localhost/etc/passwd", "https://example.com/a", "$HOME/a.txt"),
    *("sub/${{HOME}}", "$(pwd)/a", "a.txt.", "sub./b.txt", ".../a", "sub/.. /a", ".. /outside"),
    "sub /b.txt",
    "..\u2215outside" + "\uff0fx",  # a fullwidth slash
    "\uff0e\uff0e/outside",  # fullwidth dots
    "\u2025/outside",  # a two dot leader
    "a\u2100b",  # contains a slash when it is decomposed
    *("a" * 5000, "a/" * 3000, "n" * 300),  # longer than a name may be
    *("round", "round/a.txt", "one/a.txt", "a.txt/b", "{place}/outside/back/../a.txt"),
    "to-outside/../a.txt",
    "to-deep/../../a.txt",  # the system: sub/deep/../.., a tool that compares names: ..
    "../PROJECT/a.txt",  # it is unknown whether case matters unless it exists
    str(Path("/proc/self") / "root" / "etc" / "passwd"),
    *("/proc/self/cwd/a.txt", "/dev/fd/0", "\ud800"),
]


def answer(place: Path, path: str, condition: Any = None) -> bool | None:
    found = (condition or inside(place)).test(written(place, path))
    return None if isinstance(found, Undecided) else found


def written(place: Path, path: str) -> str:
    return path.replace("{{", "{").replace("}}", "}").replace("{place}", str(place))


def inside(place: Path) -> Under:
    return Under(place / "project", base=place / "project")


PATHS = [
    *((path, True) for path in INSIDE),
    *((path, False) for path in OUTSIDE),
    *((path, None) for path in UNCLEAR),
]


@pytest.mark.parametrize(("path", "expected"), PATHS)
def test_path_is_checked_by_where_it_leads(place: Path, path: str, expected: bool | None) -> None:
    assert answer(place, path) is expected
    # The negation is unclear, too: neither an allow rule nor a deny rule can be bypassed.
    assert answer(place, path, Not(inside(place))) is (None if expected is None else not expected)
    if expected is not True:
        allowing = Policy([Rule("allow", argument="path", when=inside(place))], default="deny")
        denying = Policy([Rule("deny", argument="path", when=Not(inside(place)))], default="allow")
        arguments = {"path": written(place, path), "content": "x"}
        for policy in (allowing, denying):
            assert policy.decide("write", arguments).action == "deny"
            if "\ud800" not in path:
                assert read(policy, json.dumps(arguments)).decision.action == "deny"


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        *(("", "project/a.txt", True), ("", "a.txt", False), ("", "alias/a.txt", True)),
        *(("project/sub", "b.txt", True), ("project/sub", "../../outside", False)),
        *(("outside", "back/b.txt", True), ("alias", "a.txt", True)),
        ("missing", "../project/a.txt", True),
    ],
)
def test_relative_path_starts_at_root(place: Path, base: str, path: str, expected: bool) -> None:
    rule = Rule("allow", argument="path", when=Under(place / "project"))
    decision = Policy([rule], root=place / base, default="deny").decide("tool", {"path": path})
    assert (decision.action == "allow") is expected
    assert answer(place, path, Under(place / "project", base=place / base)) is expected


def test_relative_path_without_a_root_is_inside_only_if_this_process_is(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool may run elsewhere, and open another file."""
    no_root = Undecided("it is relative, and the policy has no root")
    inside = Under(place / "project")
    monkeypatch.chdir("/")
    assert inside.test("etc/passwd") == no_root
    assert inside.test("a.txt") == no_root
    assert inside.test(str(place / "project" / "a.txt").lstrip("/")) is True  # from both
    assert inside.test(str(place / "project" / "a.txt")) is True
    monkeypatch.chdir(place / "project")
    assert inside.test("a.txt") is True
    assert inside.test("sub/../a.txt") is True
    assert inside.test("to-outside/secret") is False
    for folder in ("/", place, place / "project", place / "outside"):  # outside from everywhere
        monkeypatch.chdir(folder)
        assert inside.test("../" * 30 + "etc/passwd") is False
        assert inside.test("/etc/passwd") is False

    def gone() -> str:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "getcwd", gone)
    assert isinstance(inside.test("a.txt"), Undecided)
    assert answer(place, "a.txt") is True  # it has a base
    assert inside.test(str(place / "project" / "a.txt")) is True


def test_directory_may_be_a_link_or_missing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alias, new = place / "alias", place / "new"
    monkeypatch.setenv("HOME", str(place))
    for path, condition, expected in (
        ("a.txt", Under(alias, base=alias), True),
        ("{place}/project/a.txt", Under(alias), True),
        ("a.txt", Under(new, base=new), True),
        ("../outside", Under(new, base=new), False),
        ("{place}/a.txt", Under(place / "project" / "round"), None),
        ("{place}/project", Under("/"), True),
        ("../..", Under("/"), True),
        ("{place}/project/a.txt", Under("~/project"), True),  # home of the author of the policy
    ):
        assert answer(place, path, condition) is expected, (path, condition)


def test_one_of_several_directories_is_enough(place: Path) -> None:
    either = Under(place / "project" / "round", place / "outside", place / "project")
    assert answer(place, "{place}/project/a.txt", either) is True
    assert answer(place, "{place}/outside/secret", either) is True
    assert answer(place, "/etc/passwd", either) is None  # round leads nowhere
    assert answer(place, "/etc/passwd", Under(place / "outside", place / "project")) is False


def test_path_through_an_unreadable_directory_is_unclear(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstat = os.lstat

    def refusing(path: str) -> os.stat_result:
        if "/sub" in path:
            raise PermissionError(13, "Permission denied")
        return lstat(path)

    monkeypatch.setattr(os, "lstat", refusing)
    expected = Undecided("it cannot be resolved (permission denied)")
    assert inside(place).test("sub/b.txt") == expected


def test_existing_sibling_in_another_case_is_another_directory(place: Path) -> None:
    (place / "PROJECT").mkdir()
    assert answer(place, "../PROJECT/a.txt") is False


def test_same_directory_is_found_where_case_does_not_matter(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS and Windows: identified by its inode, not by its name."""
    stat, project = os.stat, str(place / "project")

    def folding(path: Path, **options: Any) -> os.stat_result:
        is_project = str(path).casefold() == project.casefold()
        return stat(project if is_project else path, **options)

    monkeypatch.setattr(os, "stat", folding)
    assert answer(place, "../PROJECT/new.txt") is True
    assert answer(place, "../OUTSIDE/new.txt") is False


def test_other_unicode_normal_form_is_unclear(place: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    assert answer(place, decomposed, Under(place / composed, base=place)) is None


def test_link_that_is_made_later_counts(place: Path) -> None:
    condition = inside(place)
    assert condition.test("later/secret") is True
    (place / "project" / "later").symlink_to("../outside")
    assert condition.test("later/secret") is False


ODD_ON_WINDOWS = [
    *("C:a.txt", "a.txt::$DATA", "a.txt:stream", "\\\\server\\share", "\\\\?\\C:\\a"),
    *("//server/share", "PROGRA~1/a.txt", "%USERPROFILE%\\a", "a.txt.", "..\\a.txt "),
    "file:///C:/a",
]


def test_odd_paths_on_windows_are_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = Under("/project", base="/project")
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        for path in ODD_ON_WINDOWS:
            assert isinstance(condition.test(path), Undecided), path
        for path in ("C:\\project\\a.txt", "C:/project/a.txt", "sub\\a.txt"):
            assert not isinstance(condition.test(path), Undecided), path

"""The directory rule: a path is judged by where it leads, however it is written."""

import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from argstream.policy import Not, Policy, Rule, Unclear, Under
from tests.policy.reading import read


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory `project` that may be used, its neighbours, and links between them."""
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
    "to-outside/secret",
    "to-outside/new-file",  # a new file below a symlinked parent
    "to-outside/new/new-file",
    "to-secret",
    "to-nothing-outside",  # writing to it makes a file outside
    *("chain/secret", "to-root/etc/passwd", "{place}/alias/../outside/secret"),
    *("{place}/alias/to-outside/secret", "sub/../to-outside/secret"),
]
UNTELLABLE = [
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
    "a\u2100b",  # which contains a slash when it is decomposed
    "a" * 5000,
    "a/" * 3000,
    "n" * 300,  # longer than a name may be
    "round",
    "round/a.txt",
    "one/a.txt",
    "to-deep/../../a.txt",  # the system: sub/deep/../.., a tool that only looks at names: ..
    "{place}/outside/back/../a.txt",
    "a.txt/b",
    "../PROJECT/a.txt",  # whether case counts is only known of what exists
    str(Path("/proc/self") / "root" / "etc" / "passwd"),
    "/proc/self/cwd/a.txt",
    "/dev/fd/0",
    "\ud800",
]


def judged(place: Path, path: str, condition: Any = None) -> bool | None:
    answer = (condition or inside(place)).test(written(place, path))
    return None if isinstance(answer, Unclear) else answer


def written(place: Path, path: str) -> str:
    return path.replace("{{", "{").replace("}}", "}").replace("{place}", str(place))


def inside(place: Path) -> Under:
    return Under(place / "project", base=place / "project")


@pytest.mark.parametrize("path", [*OUTSIDE, *UNTELLABLE])
def test_no_trick_gets_past_a_policy_either_way(place: Path, path: str) -> None:
    allowing = Policy([Rule("allow", argument="path", when=inside(place))], default="deny")
    denying = Policy([Rule("deny", argument="path", when=Not(inside(place)))], default="allow")
    arguments = {"path": written(place, path), "content": "x"}
    for policy in (allowing, denying):
        assert policy.decide("write", arguments).action == "deny"
        if "\ud800" not in path:
            assert read(policy, json.dumps(arguments)).decision.action == "deny"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *((path, True) for path in INSIDE),
        *((path, False) for path in OUTSIDE),
        *((path, None) for path in UNTELLABLE),
    ],
)
def test_a_path_is_judged_by_where_it_leads(place: Path, path: str, expected: bool | None) -> None:
    assert judged(place, path) is expected
    # The opposite cannot be told either: neither an allow rule nor a deny rule is got round.
    opposite = None if expected is None else not expected
    assert judged(place, path, Not(inside(place))) is opposite


def test_up_through_a_link_cannot_be_told_where_the_two_ways_part(place: Path) -> None:
    """The system goes up from where the link leads, many tools from where it stands."""
    assert judged(place, "to-outside/../a.txt") is None
    assert judged(place, "to-sub/../a.txt") is True  # both stay inside


def test_escapes_of_json_are_read_before_the_path_is(place: Path) -> None:
    policy = Policy([Rule("deny", argument="path", when=Not(Under(place / "project")))])
    assert read(policy, r'{"path": "\u002e\u002e\u002foutside\/secret"}').error is not None


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("{place}", "project/a.txt", True),
        ("{place}", "a.txt", False),
        ("{place}", "alias/a.txt", True),
        ("{place}/project/sub", "b.txt", True),
        ("{place}/project/sub", "../../outside", False),
        ("{place}/outside", "back/b.txt", True),
        ("{place}/alias", "a.txt", True),
        ("{place}/missing", "../project/a.txt", True),
    ],
)
def test_a_relative_path_begins_at_the_root(
    place: Path, base: str, path: str, expected: bool
) -> None:
    root = base.replace("{place}", str(place))
    rule = Rule("allow", argument="path", when=Under(place / "project"))
    decision = Policy([rule], root=root, default="deny").decide("tool", {"path": path})
    assert (decision.action == "allow") is expected
    assert judged(place, path, Under(place / "project", base=root)) is expected


NO_ROOT = Unclear("it is relative, and the policy has no root for it to begin at")


def test_without_a_root_a_relative_path_is_inside_only_if_this_process_is(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody said where the tool runs. From elsewhere, it would open another file."""
    inside = Under(place / "project")
    monkeypatch.chdir("/")
    assert inside.test("etc/passwd") == NO_ROOT
    assert inside.test("a.txt") == NO_ROOT
    assert inside.test(str(place / "project" / "a.txt").lstrip("/")) is True  # from both
    assert inside.test(str(place / "project" / "a.txt")) is True
    monkeypatch.chdir(place / "project")
    assert inside.test("a.txt") is True
    assert inside.test("sub/../a.txt") is True
    assert inside.test("to-outside/secret") is False


@pytest.mark.parametrize("where", ["/", "{place}", "{place}/project", "{place}/outside"])
def test_without_a_root_what_leads_out_from_everywhere_is_outside(
    place: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(where.replace("{place}", str(place)))
    assert judged(place, "../" * 30 + "etc/passwd", Under(place / "project")) is False
    assert judged(place, "/etc/passwd", Under(place / "project")) is False


def test_without_a_root_and_a_place_of_its_own_nothing_relative_can_be_told(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> str:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "getcwd", gone)
    assert judged(place, "a.txt", Under(place / "project")) is None
    assert judged(place, "a.txt") is True  # it has a base
    assert judged(place, "{place}/project/a.txt", Under(place / "project")) is True


def test_a_relative_directory_begins_at_the_root(place: Path) -> None:
    rule = Rule("allow", argument="path", when=Under("project/sub"))
    policy = Policy([rule], root=place, default="deny")
    assert policy.decide("tool", {"path": "project/sub/b.txt"}).action == "allow"
    assert policy.decide("tool", {"path": "project/a.txt"}).action == "deny"


def test_the_directory_may_be_a_link_or_not_exist_yet(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        ("{place}/project/a.txt", Under("~/project"), True),  # of who wrote the policy
    ):
        assert judged(place, path, condition) is expected, (path, condition)


def test_one_of_several_directories_is_enough(place: Path) -> None:
    either = Under(place / "project" / "round", place / "outside", place / "project")
    assert judged(place, "{place}/project/a.txt", either) is True
    assert judged(place, "{place}/outside/secret", either) is True
    assert judged(place, "/etc/passwd", either) is None  # who knows where round leads
    assert judged(place, "/etc/passwd", Under(place / "outside", place / "project")) is False


def test_a_directory_that_may_not_be_looked_at_bars_the_way(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstat = os.lstat

    def refusing(path: str) -> os.stat_result:
        if "/sub" in path:
            raise PermissionError(13, "Permission denied")
        return lstat(path)

    monkeypatch.setattr(os, "lstat", refusing)
    assert Under(place / "project", base=place / "project").test("sub/b.txt") == Unclear(
        "it cannot be looked up (permission denied)"
    )


def test_a_namesake_in_another_case_is_another_directory_if_both_exist(place: Path) -> None:
    (place / "PROJECT").mkdir()
    assert judged(place, "../PROJECT/a.txt") is False


def test_where_case_does_not_count_the_same_directory_is_found(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS and Windows: told by what the directory is, not by its name."""
    stat, project = os.stat, str(place / "project")

    def folding(path: Path, **options: Any) -> os.stat_result:
        is_project = str(path).casefold() == project.casefold()
        return stat(project if is_project else path, **options)

    monkeypatch.setattr(os, "stat", folding)
    assert judged(place, "../PROJECT/new.txt") is True
    assert judged(place, "../OUTSIDE/new.txt") is False


def test_a_letter_composed_in_another_way_may_be_the_same_name(place: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    assert judged(place, decomposed, Under(place / composed, base=place)) is None


def test_a_link_made_later_counts_from_then_on(place: Path) -> None:
    condition = Under(place / "project", base=place / "project")
    assert condition.test("later/secret") is True
    (place / "project" / "later").symlink_to("../outside")
    assert condition.test("later/secret") is False


@pytest.mark.parametrize(
    ("path", "is_odd"),
    [
        ("C:\\project\\a.txt", False),
        ("C:/project/a.txt", False),
        ("sub\\a.txt", False),
        ("C:a.txt", True),
        ("a.txt::$DATA", True),
        ("a.txt:stream", True),
        ("\\\\server\\share", True),
        ("\\\\?\\C:\\a", True),
        ("//server/share", True),
        ("PROGRA~1/a.txt", True),
        ("%USERPROFILE%\\a", True),
        ("a.txt.", True),
        ("..\\a.txt ", True),
        ("file:///C:/a", True),
    ],
)
def test_what_is_odd_on_windows(path: str, is_odd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = Under("/project", base="/project")
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        answer = inside.test(path)
    assert isinstance(answer, Unclear) is is_odd

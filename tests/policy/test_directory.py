"""The directory rule: a path is judged by where it leads, however it is written."""

import json
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argstream.policy import Not, Policy, Rule, Unclear, Under, _paths
from argstream.policy._paths import oddity
from tests.policy.reading import read


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory `work` that may be used, its neighbours, and links between them."""
    work = tmp_path / "work"
    for directory in (work / "sub" / "deep", tmp_path / "outside", tmp_path / "work-evil"):
        directory.mkdir(parents=True)
    for file in (work / "a.txt", work / "sub" / "b.txt", tmp_path / "outside" / "secret"):
        file.write_text("x")
    links = {
        "work/to-outside": "../outside",
        "work/to-secret": str(tmp_path / "outside" / "secret"),
        "work/to-nothing-outside": "../outside/new",
        "work/to-sub": "sub",
        "work/to-deep": "sub/deep",
        "work/chain": "to-outside",
        "work/round": "round",
        "work/one": "two",
        "work/two": "one",
        "work/to-root": "/",
        "outside/back": "../work/sub",
        "alias": "work",
    }
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    return tmp_path


INSIDE = [
    "a.txt",
    "./a.txt",
    "sub/b.txt",
    "sub//b.txt",
    "sub/./b.txt",
    "sub/../a.txt",
    "new.txt",
    "new/directory/new.txt",
    "new/../a.txt",
    ".",
    "./",
    "sub/..",
    "to-sub/b.txt",
    "to-sub/new.txt",
    ".hidden",
    "...hidden",
    "a b.txt",
    "-rf",
    "*",
    "日本語.txt",
    "%2e%2e/%2e%2e/etc/passwd",  # literal: no tool that opens files decodes it
    "..%2f..%2fetc%2fpasswd",
    "price$.txt",
    "{place}/work",
    "{place}/work/",
    "{place}/work/a.txt",
    "/{place}/work/a.txt",
    "{place}/./work/new",
    "{place}/outside/../work/a.txt",
    "{place}/alias/a.txt",
    "{place}/alias/new/a.txt",
    "{place}/outside/back/b.txt",
]
OUTSIDE = [
    "..",
    "../",
    "../outside/secret",
    "../work-evil/a.txt",
    "../work-evil",
    "sub/../../outside/secret",
    "./../outside/secret",
    ".//..//outside/secret",
    "sub/deep/../../../outside",
    "new/../../outside/secret",
    "../" * 30 + "etc/passwd",
    "a.txt/../../outside/secret",
    "/",
    "/etc/passwd",
    "//etc/passwd",
    "///etc/passwd",
    "/../etc/passwd",
    "{place}",
    "{place}/work/..",
    "{place}/work/../outside/secret",
    "{place}/work-evil/a.txt",
    "{place}/workx",
    "to-outside",
    "to-outside/",
    "to-outside/secret",
    "to-outside/new-file",  # a new file below a symlinked parent
    "to-outside/new/new-file",
    "to-secret",
    "to-nothing-outside",  # writing to it makes a file outside
    "chain/secret",
    "to-root/etc/passwd",
    "{place}/alias/../outside/secret",
    "{place}/alias/to-outside/secret",
    "sub/../to-outside/secret",
]
UNTELLABLE = [
    "",
    " ",
    "~",
    "~/a.txt",
    "~root/a.txt",
    "~+/a.txt",
    "a\0.txt",
    "{place}/work/a.txt\0.png",
    "a.txt\n",
    "\n/etc/passwd",
    " /etc/passwd",
    "/etc/passwd ",
    "\u00a0/etc/passwd",
    "a\r\nb",
    "a\x1bb",
    "a\x7fb",
    "..\\..\\etc\\passwd",
    "sub\\b.txt",
    "C:\\Windows",
    "C:/Windows",
    "c:a.txt",
    "\\\\server\\share",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "FILE://localhost/etc/passwd",
    "https://example.com/a",
    "$HOME/a.txt",
    "sub/${{HOME}}",
    "$(pwd)/a",
    "a.txt.",
    "sub./b.txt",
    ".../a",
    "sub/.. /a",
    ".. /outside",
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
    "../WORK/a.txt",  # whether case counts is only known of what exists
    "/proc/self/root/etc/passwd",
    "/proc/self/cwd/a.txt",
    "/dev/fd/0",
    "\ud800",
]


def judged(place: Path, path: str, condition: Any = None) -> bool | None:
    written = path.replace("{{", "{").replace("}}", "}").replace("{place}", str(place))
    answer = (condition or Under(place / "work", base=place / "work")).test(written)
    return None if isinstance(answer, Unclear) else answer


@pytest.mark.parametrize("path", INSIDE)
def test_a_path_that_leads_into_the_directory_is_under_it(place: Path, path: str) -> None:
    assert judged(place, path) is True


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leads_elsewhere_is_not(place: Path, path: str) -> None:
    assert judged(place, path) is False


@pytest.mark.parametrize("path", UNTELLABLE)
def test_what_tools_read_in_different_ways_cannot_be_told(place: Path, path: str) -> None:
    assert judged(place, path) is None
    # The opposite cannot be told either: neither an allow rule nor a deny rule is got round.
    assert judged(place, path, Not(Under(place / "work", base=place / "work"))) is None


def test_up_through_a_link_cannot_be_told_where_the_two_ways_part(place: Path) -> None:
    """The system goes up from where the link leads, many tools from where it stands."""
    assert judged(place, "to-deep/../../a.txt") is None
    assert judged(place, "to-outside/../a.txt") is None
    assert judged(place, "to-sub/../a.txt") is True  # both stay inside


@pytest.mark.parametrize("path", [*OUTSIDE, *UNTELLABLE])
def test_no_trick_gets_past_a_policy_either_way(place: Path, path: str) -> None:
    written = path.replace("{{", "{").replace("}}", "}").replace("{place}", str(place))
    inside = Under(place / "work", base=place / "work")
    allowing = Policy([Rule("allow", argument="path", when=inside)], default="deny")
    denying = Policy([Rule("deny", argument="path", when=Not(inside))], default="allow")
    for policy in (allowing, denying):
        assert policy.decide("write", {"path": written}).action == "deny"
        text = json.dumps({"path": written, "content": "x"})  # surrogates and all as escapes
        if "\ud800" not in written:
            assert read(policy, text).decision.action == "deny"


def test_escapes_of_json_are_read_before_the_path_is(place: Path) -> None:
    policy = Policy([Rule("deny", argument="path", when=Not(Under(place / "work")))])
    assert read(policy, r'{"path": "\u002e\u002e\u002foutside\/secret"}').error is not None


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("{place}", "work/a.txt", True),
        ("{place}", "a.txt", False),
        ("{place}", "alias/a.txt", True),
        ("{place}/work/sub", "b.txt", True),
        ("{place}/work/sub", "../../outside", False),
        ("{place}/outside", "back/b.txt", True),
        ("{place}/alias", "a.txt", True),
        ("{place}/missing", "../work/a.txt", True),
    ],
)
def test_a_relative_path_begins_at_the_root(
    place: Path, base: str, path: str, expected: bool
) -> None:
    root = base.replace("{place}", str(place))
    rule = Rule("allow", argument="path", when=Under(place / "work"))
    decision = Policy([rule], root=root, default="deny").decide("tool", {"path": path})
    assert (decision.action == "allow") is expected
    assert judged(place, path, Under(place / "work", base=root)) is expected


NO_ROOT = Unclear("it is relative, and the policy has no root for it to begin at")


def test_without_a_root_a_relative_path_is_inside_only_if_this_process_is(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody said where the tool runs. From elsewhere, it would open another file."""
    inside = Under(place / "work")
    monkeypatch.chdir("/")
    assert inside.test("etc/passwd") == NO_ROOT
    assert inside.test("a.txt") == NO_ROOT
    assert inside.test(str(place / "work" / "a.txt").lstrip("/")) is True  # from both
    assert inside.test(str(place / "work" / "a.txt")) is True
    monkeypatch.chdir(place / "work")
    assert inside.test("a.txt") is True
    assert inside.test("sub/../a.txt") is True
    assert inside.test("to-outside/secret") is False


@pytest.mark.parametrize("where", ["/", "{place}", "{place}/work", "{place}/outside"])
def test_without_a_root_what_leads_out_from_everywhere_is_outside(
    place: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(where.replace("{place}", str(place)))
    assert judged(place, "../" * 30 + "etc/passwd", Under(place / "work")) is False
    assert judged(place, "/etc/passwd", Under(place / "work")) is False


def test_without_a_root_and_a_place_of_its_own_nothing_relative_can_be_told(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> str:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "getcwd", gone)
    assert judged(place, "a.txt", Under(place / "work")) is None
    assert judged(place, "a.txt") is True  # it has a base
    assert judged(place, "{place}/work/a.txt", Under(place / "work")) is True


def test_a_relative_directory_begins_at_the_root(place: Path) -> None:
    policy = Policy(
        [Rule("allow", argument="path", when=Under("work/sub"))], root=place, default="deny"
    )
    assert policy.decide("tool", {"path": "work/sub/b.txt"}).action == "allow"
    assert policy.decide("tool", {"path": "work/a.txt"}).action == "deny"


def test_the_directory_may_be_a_link_or_not_exist_yet(place: Path) -> None:
    alias, new = place / "alias", place / "new"
    assert judged(place, "a.txt", Under(alias, base=alias)) is True
    assert judged(place, "{place}/work/a.txt", Under(alias)) is True
    assert judged(place, "a.txt", Under(new, base=new)) is True
    assert judged(place, "../outside", Under(new, base=new)) is False
    assert judged(place, "{place}/a.txt", Under(place / "work" / "round")) is None


def test_one_of_several_directories_is_enough(place: Path) -> None:
    either = Under(place / "work" / "round", place / "outside", place / "work")
    assert judged(place, "{place}/work/a.txt", either) is True
    assert judged(place, "{place}/outside/secret", either) is True
    assert judged(place, "/etc/passwd", either) is None  # who knows where round leads
    assert judged(place, "/etc/passwd", Under(place / "outside", place / "work")) is False


def test_everything_is_under_the_root_of_the_file_system(place: Path) -> None:
    assert judged(place, "{place}/work", Under("/")) is True
    assert judged(place, "../..", Under("/")) is True


def test_a_tilde_in_the_policy_is_the_home_of_who_wrote_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place))
    assert judged(place, "{place}/work/a.txt", Under("~/work")) is True


def test_a_directory_that_may_not_be_looked_at_bars_the_way(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstat = os.lstat

    def refusing(path: str) -> os.stat_result:
        if "/sub" in path:
            raise PermissionError(13, "Permission denied")
        return lstat(path)

    monkeypatch.setattr(os, "lstat", refusing)
    assert Under(place / "work", base=place / "work").test("sub/b.txt") == Unclear(
        "it cannot be looked up (permission denied)"
    )


def test_a_namesake_in_another_case_is_another_directory_if_both_exist(place: Path) -> None:
    (place / "WORK").mkdir()
    assert judged(place, "../WORK/a.txt") is False


def test_where_case_does_not_count_the_same_directory_is_found(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS and Windows: told by what the directory is, not by its name."""
    identity: Callable[[str], Any] = _paths._identity
    work = str(place / "work")

    def folding(path: str) -> Any:
        return identity(work if path.casefold() == work.casefold() else path)

    monkeypatch.setattr(_paths, "_identity", folding)
    assert judged(place, "../WORK/new.txt") is True
    assert judged(place, "../OUTSIDE/new.txt") is False


def test_a_letter_composed_in_another_way_may_be_the_same_name(place: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    assert judged(place, decomposed, Under(place / composed, base=place)) is None


def test_a_link_made_later_counts_from_then_on(place: Path) -> None:
    condition = Under(place / "work", base=place / "work")
    assert condition.test("later/secret") is True
    (place / "work" / "later").symlink_to("../outside")
    assert condition.test("later/secret") is False


@pytest.mark.parametrize(
    ("path", "is_odd"),
    [
        ("C:\\work\\a.txt", False),
        ("C:/work/a.txt", False),
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
def test_what_is_odd_on_windows(path: str, is_odd: bool) -> None:
    assert (oddity(path, windows=True) is not None) is is_odd

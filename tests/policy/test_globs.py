"""Globs and prefixes: their meaning, and other spellings of the same path."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.errors import UsageError
from argstream.policy import Condition, Glob, Not, Policy, Prefix, Rule, Undecided
from tests.growth import BOUND, growth

MEANINGS = [
    # pattern, texts that match, other texts
    ("*", ["", "a", ".env", "a\nb", "日本"], ["a/b", "/", "/a"]),
    ("*.env", [".env", "a.env"], ["a/.env", ".envx", ".ENV"]),
    ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
    ("**", ["", "a", "a/b", "/"], []),
    ("a/**", ["a/", "a/b", "a/b/c"], ["a", "ab", "b/a/c"]),
    ("**/a", ["a", "/a", "b/a", "b/c/a"], ["ba", "b/ca", "a/b"]),
    ("/**/a", ["/a", "/b/a", "/b/c/a"], ["a", "b/a"]),
    ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb", "a/b/c"]),
    ("**/*.py", ["a.py", ".py", "b/a.py"], ["a.pyc"]),
    ("git *", ["git -v", "git add b"], ["git", "agit add", "git add a/b"]),
    ("**/a/**/b*/**", ["a/b/c", "x/a/y/bz/c/d", "a/b/a/b/"], ["a/b", "b/a/c", "a/c/d"]),
    ("[!/]a", ["ba"], ["/a", "a"]),
    ("[a/]b", ["ab"], ["/b"]),
    ("[abc]", ["a", "c"], ["d", "", "ab"]),
    ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
    ("[!a-c]", ["d", "é"], ["a", "/", ""]),
    ("[^a]", ["b"], ["a"]),
    ("[a-]", ["a", "-"], ["b"]),
    ("[]]", ["]"], ["["]),
    ("[!]]", ["a"], ["]"]),
    ("[[]", ["["], ["]"]),
    ("[*]", ["*"], ["a"]),
    ("[\\]", ["\\"], ["a"]),
    ("[{]a[}]", ["{a}"], ["a"]),
    ("[.-0]", ["."], ["/"]),
    ("%2e%2e/*", ["%2e%2e/a"], ["a/a"]),
]


@pytest.mark.parametrize(("pattern", "matching", "others"), MEANINGS)
def test_glob_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    glob = Glob(pattern)
    assert [text for text in matching if glob.test(text) is not True] == []
    assert [text for text in others if glob.test(text) is not False] == []


def test_slash_in_a_tool_name_is_an_ordinary_character() -> None:
    for glob in ("*", "**", "server?tool", "[!a]*", "s**l"):
        assert Rule("deny", tool=glob).concerns("server/tool")
    assert not Rule("deny", tool="[!a]*").concerns("a/tool")


@pytest.mark.parametrize("glob", ["git **", "src**", "a/b**/c", "**.py", "***", "a/***", "[a]**"])
def test_two_stars_inside_a_segment_are_refused(glob: str) -> None:
    with pytest.raises(UsageError, match=r"has \*\* beside other characters\. Write \* for"):
        Glob(glob)


_STEPS = st.lists(st.sampled_from(["**", "**", "*", "a", "b"]), min_size=1, max_size=6)
_NAMES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6)


@given(_STEPS, _NAMES)
def test_two_stars_match_any_number_of_directories(steps: list[str], names: list[str]) -> None:
    expected = by_trying([*steps, "*"] if steps[-1] == "**" else steps, names)
    assert Glob("/".join(steps)).test("/".join(names)) is expected


def by_trying(steps: list[str], names: list[str]) -> bool:
    """The definition: slow, and without a loop."""
    if not steps:
        return not names
    if steps[0] == "**":
        return any(by_trying(steps[1:], names[n:]) for n in range(len(names) + 1))
    return bool(names) and steps[0] in ("*", names[0]) and by_trying(steps[1:], names[1:])


SECRETS = Glob("**/.env", "**/*.pem")

# A condition, and other spellings of what it matches. It must not answer no.
OTHER_SPELLINGS: list[tuple[Condition, list[str]]] = [
    (SECRETS, [
        *("config/.env/", "config/.env/.", "config/.env//", "config/.env/./", ".env/"),
        *("config\\.env", "config\\.env\\", ".\\.env", "config/.env ", "config/.env\n"),
        *("config/x/../.env/", "a.pem/"),
    ]),
    (Glob(".env"), ["./.env", ".//.env", ".\\.env", "a/../.env", ".env/"]),
    (Glob(".env", "*.pem"), [  # wherever the tool runs: it may go up and come down again
        *("../project/.env", "../project/key.pem", "..\\project\\.env", "./../project//.env/"),
        *("a/../../project/.env", "../../srv/project/.env", "../../project/.env", "../.env"),
        *("../" * 16 + "a/" * 16 + ".env", "../" * 17 + "a/" * 17 + ".env"),
    ]),
    (Glob(".env", "**/*.pem"), ["../project/.env", "a/../key.pem/"]),
    (Prefix("secret"), ["../project/secret/a", "../../a/b/secrets"]),
    (Glob("/etc/passwd"), ["/etc//passwd", "/etc/./passwd", "//etc/passwd", "/./etc/passwd"]),
    (Glob("/etc/passwd"), ["/x/../etc/passwd"]),
    (Glob("/etc/**"), ["//etc/passwd", "/./etc/passwd", "///etc/passwd", "/etc\\passwd"]),
    (Prefix("/etc/"), ["//etc/passwd", "/./etc/passwd", " /etc/passwd", "\\etc\\passwd"]),
    (Prefix("secret"), ["./secret/a", "x/../secret/a", ".\\secret"]),
    (Prefix("C:\\Windows\\"), ["C:/Windows/a", "C:\\\\Windows\\a", "C:\\.\\Windows\\a"]),
    (Glob("C:[\\]Windows[\\]*"), ["C:/Windows/a", "C:\\\\Windows\\a"]),
    (Glob("./secret/*"), ["secret/a", "secret//a"]),
    (Glob("a//b"), ["a/b", "a/./b"]),
    (Prefix("rm "), [" rm -rf /", "\trm -rf a"]),
    (Prefix("https://internal/"), ["https:/internal/a", "https:\\\\internal\\a"]),
    (Glob("https://host/*"), ["https://host//a", "https://host/./a"]),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "texts"), OTHER_SPELLINGS)
def test_other_spelling_bypasses_no_deny_rule(condition: Condition, texts: list[str]) -> None:
    denying = Policy([Rule("deny", argument="path", when=condition)], default="allow")
    allowing = Policy([Rule("allow", argument="path", when=Not(condition))], default="deny")
    for text in texts:
        assert isinstance(condition.test(text), Undecided), text
        for policy in (denying, allowing):
            assert policy.decide("tool", {"path": text}).action == "deny"


UP_IN_SRC = ["src/../../etc/passwd", "src\\..\\..\\etc", "src/link/../a"]  # links are not resolved


@pytest.mark.parametrize(
    ("condition", "texts"),
    [
        (Prefix("src"), UP_IN_SRC),
        (Glob("src/**"), ["src/../../etc/passwd"]),
        (Glob("src*/**", "**/*.py"), ["src/../../etc/passwd"]),
        (Glob("**"), ["../a"]),
        (Glob("*"), ["..", "..\\a", "a\\b"]),
        (Prefix("C:\\work\\"), ["C:\\work\\..\\..\\Windows", "C:\\work\\../x"]),
        (Prefix("/srv/"), ["/srv/../etc", "/srv/..", "/srv/..\\etc", "/srv/..\n"]),
        (Glob("src/*/*"), ["src//a"]),
        (Glob("src/*/a"), ["src/./a"]),
        (Glob("[!/]*/**"), [" /etc/passwd"]),
        (Prefix("//server/"), ["//server/share"]),  # or /server/share
    ],
)
def test_no_rule_allows_a_path_that_may_lead_out(condition: Condition, texts: list[str]) -> None:
    policy = Policy([Rule("allow", argument="path", when=condition)], default="deny")
    for text in texts:
        assert isinstance(condition.test(text), Undecided), text
        assert policy.decide("tool", {"path": text}).action == "deny"


UP = ["..", "../a", "a/../b", "/srv/..", "..\\a", " ../a", "../.."]
UP_AT_THE_END = ["..", "a/..", "a/../", "/a/b/../.", "../..", "a\\..", "b/.. "]
ABOUT_MORE_THAN_THE_NAME = ["**/a/.env", "**/.env/**", "**/a*/**", "/**/.env", "./**/.env"]


def test_path_that_goes_up_is_unclear() -> None:
    """It may lead to a matching file, from wherever the tool runs."""
    for condition in (Glob("/etc/**"), Prefix("/etc/"), Prefix("C:\\")):
        assert all(isinstance(condition.test(text), Undecided) for text in UP)
    for glob in ("**/.env", "**/*"):  # the last name is unknown
        assert all(isinstance(Glob(glob).test(text), Undecided) for text in UP_AT_THE_END)
    for glob in ABOUT_MORE_THAN_THE_NAME:
        for condition in (Glob(glob), Glob(glob, "**/.env")):
            assert isinstance(condition.test("../lib/util.py"), Undecided)


@pytest.mark.parametrize(
    ("condition", "expected", "texts"),
    [
        # If only the last name counts, nothing before it matters.
        (SECRETS, False, ["../lib/util.py", "src/../app.py", "..\\lib\\util.py", "a/.env/../b"]),
        (SECRETS, False, ["../" * 30 + "etc/passwd", "../.env/app.py"]),
        (SECRETS, None, ["../project/.env", "src/../key.pem"]),
        (Glob("**/**/.env"), False, ["../lib/util.py"]),
        (Glob("src/**", "**/*.py"), None, ["src/../a.py"]),
        # Down again, but not to the start.
        (Glob(".env", "*.pem"), False, ["../lib/util.py", "../lib/deep/key.pem", "../.env/a"]),
        (Prefix("secret"), False, ["../a/b/secret"]),
        # Ordinary paths, and directories with a slash.
        (SECRETS, False, ["src/app.py", "src/", "./src/app.py", "a\\b.txt"]),
        (Prefix("/srv/"), True, ["/srv/", "/srv/a/", "/srv//a", "/srv/..a"]),
        (Glob("src/**"), True, ["src/", "src/./", "src/a/"]),
        (Glob("**/a"), False, ["a..", "..a", "a/..."]),
        (Glob("."), True, ["."]),
        (Glob("**"), True, ["/"]),
        (Prefix("./"), True, ["./a", ".//a"]),
        (Glob("./src/*"), True, ["./src/a"]),
        (Prefix("C:\\work\\"), True, ["C:\\work\\a.txt"]),
        (Prefix("C:\\work\\"), False, ["D:\\work\\a.txt"]),
        (Glob("C:[\\]work[\\]*"), True, ["C:\\work\\a.txt"]),
        (Glob("[[\\]*"), None, ["\\a"]),  # a bracket or a backslash, which may be a slash
        (Glob("[[\\]*"), True, ["[a"]),
        (Prefix("//"), False, ["/etc"]),
        # URLs.
        (Prefix("https://a.example/"), True, ["https://a.example/a/", "https://a.example/a//b"]),
        (Prefix("https://example.com/"), False, ["https://example.org/a//b"]),
        (Prefix("https://"), False, ["http://a"]),
        (Glob("https://*.example.com/**"), True, ["https://a.example.com/b//c"]),
        (Glob("https://*.example.com/**"), False, ["https://example.com.evil/b"]),
        # Commands.
        (Prefix("rm "), False, ["ls ../../x", "ls a/../b", 'grep "a\\.b" c']),
        (Prefix("git diff"), True, ["git diff ..", "git diff a..b"]),
        (Prefix("grep "), True, ['grep "a\\.b" c']),
        (Glob("curl https://example.com/*"), True, ["curl https://example.com/a"]),
        (Glob("make *"), False, ["make ./a"]),
        # Names.
        (Prefix("feature/"), True, ["feature/a"]),
        (Glob("v1.*"), True, ["v1..2"]),
    ],
)
def test_answer_for_ordinary_texts(condition: Condition, expected: Any, texts: list[str]) -> None:
    for text in texts:
        answer = condition.test(text)
        assert (None if isinstance(answer, Undecided) else answer) is expected, text


def test_reason_names_the_other_spelling() -> None:
    policy = Policy([Rule("deny", argument="path", when=Glob("**/.env"))])
    assert policy.decide("tool", {"path": "config\\.env/"}).reason == (
        'it is unclear whether the argument path, "config\\\\.env/", matches the glob '
        '"**/.env": it may also be read as "config/.env"'
    )
    expected = Undecided("it may also be read as a path with another spelling")
    assert Prefix("C:\\a").test("C:/a") == expected


tidy_paths = st.lists(st.sampled_from(["a", "b", ".env", "..."]), min_size=1, max_size=4)
noise = st.lists(st.sampled_from(["/", "/./", "//", "\\", "/.//", "\\.\\"]), min_size=6, max_size=6)


@given(
    tidy_paths,
    noise,
    st.sampled_from(["", "/", "/.", "//", " "]),
    st.sampled_from(["", "./", " ", ".\\"]),
    st.sampled_from([Glob("**/.env"), Glob("a/*"), Glob("*", "a/b"), Prefix("a/"), Prefix("b")]),
)
def test_noise_in_a_path_never_inverts_the_answer(
    names: list[str], between: list[str], end: str, start: str, condition: Condition
) -> None:
    tidy = "/".join(names)
    noisy = start + "".join(map("".join, zip(names, between, strict=False)))
    noisy = noisy[: len(noisy) - len(between[len(names) - 1])] + end
    expected = {condition.test(tidy)}
    if end not in ("", " "):
        expected.add(condition.test(tidy + "/"))  # as a directory it may be meant
    answer = condition.test(noisy)
    assert isinstance(answer, Undecided) or answer in expected


@pytest.mark.timing
@pytest.mark.parametrize("piece", ["../", "./", "\\", "a/../", " ", "//"])
def test_globs_are_linear_in_any_spelling(piece: str) -> None:
    for glob in (Glob("*a/**"), Glob("a*/**/*b"), Glob("**/a")):
        assert growth(partial(repeated, glob, piece), 2_000) <= BOUND


def repeated(condition: Condition, piece: str, size: int) -> Callable[[], object]:
    """Test a long text, often enough for the clock; short enough for the cache."""
    text = piece * size
    return lambda: [condition.test(text) for _ in range(5)]


@pytest.mark.timing
def test_many_stars_and_going_up_and_down_are_linear() -> None:
    stars, glob = Glob("*a*a*a*a*a*b"), Glob("a/**/a/**/b")
    assert growth(lambda size: lambda: stars.test("a" * size), 10_000) <= BOUND
    assert growth(lambda size: lambda: glob.test("../" * 16 + "a/" * size), 5_000) <= BOUND
    assert growth(lambda size: lambda: glob.test("../" * size + "a/" * size), 5_000) <= BOUND

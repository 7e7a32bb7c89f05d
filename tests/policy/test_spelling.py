"""Prefixes and globs where a text may be a path: the same file has many names."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.policy import Condition, Glob, Not, Policy, Prefix, Rule, Unclear
from tests.growth import BOUND, growth

SECRETS = Glob("**/.env", "**/*.pem")

# A condition, and other names for what it holds of: it must not say no to them.
OTHER_NAMES: list[tuple[Condition, list[str]]] = [
    (
        SECRETS,
        [
            *("config/.env/", "config/.env/.", "config/.env//", "config/.env/./", ".env/"),
            *("config\\.env", "config\\.env\\", ".\\.env", "config/.env ", "config/.env\n"),
            *("config/x/../.env/", "a.pem/"),
        ],
    ),
    (Glob(".env"), ["./.env", ".//.env", ".\\.env", "a/../.env", ".env/"]),
    (
        Glob(".env", "*.pem"),  # wherever the tool runs: it may go up and come down again
        [
            *("../project/.env", "../project/key.pem", "..\\project\\.env", "./../project//.env/"),
            *("a/../../project/.env", "../../srv/project/.env", "../../project/.env", "../.env"),
            "../" * 16 + "a/" * 16 + ".env",
            "../" * 17 + "a/" * 17 + ".env",
        ],
    ),
    (Glob(".env", "**/*.pem"), ["../project/.env", "a/../key.pem/"]),
    (Prefix("secret"), ["../project/secret/a", "../../a/b/secrets"]),
    (
        Glob("/etc/passwd"),
        ["/etc//passwd", "/etc/./passwd", "//etc/passwd", "/./etc/passwd", "/x/../etc/passwd"],
    ),
    (Glob("/etc/**"), ["//etc/passwd", "/./etc/passwd", "///etc/passwd", "/etc\\passwd"]),
    (Prefix("/etc/"), ["//etc/passwd", "/./etc/passwd", " /etc/passwd", "\\etc\\passwd"]),
    (Prefix("secret"), ["./secret/a", "x/../secret/a", ".\\secret"]),
    (Prefix("C:\\Windows\\"), ["C:/Windows/a", "C:\\\\Windows\\a", "C:\\.\\Windows\\a"]),
    (Glob("C:[\\]Windows[\\]**"), ["C:/Windows/a", "C:\\\\Windows\\a"]),
    (Glob("./secret/*"), ["secret/a", "secret//a"]),
    (Glob("a//b"), ["a/b", "a/./b"]),
    (Prefix("rm "), [" rm -rf /", "\trm -rf a"]),
    (Prefix("https://internal/"), ["https:/internal/a", "https:\\\\internal\\a"]),
    (Glob("https://host/*"), ["https://host//a", "https://host/./a"]),
]


@pytest.mark.parametrize(
    ("condition", "text"),
    [(condition, text) for condition, texts in OTHER_NAMES for text in texts],
)
def test_another_name_for_it_gets_past_no_rule_that_denies(condition: Condition, text: str) -> None:
    assert isinstance(condition.test(text), Unclear)
    policy = Policy([Rule("deny", argument="path", when=condition)], default="allow")
    assert policy.decide("tool", {"path": text}).action == "deny"
    # Nor may the opposite be relied on.
    policy = Policy([Rule("allow", argument="path", when=Not(condition))], default="deny")
    assert policy.decide("tool", {"path": text}).action == "deny"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Prefix("src"), "src/../../etc/passwd"),
        (Prefix("src"), "src\\..\\..\\etc"),
        (Prefix("src"), "src/link/../a"),  # where a link leads is not looked at
        (Glob("src**"), "src/../../etc/passwd"),
        (Glob("src**", "**/*.py"), "src/../../etc/passwd"),
        (Glob("**"), "../a"),
        (Glob("*"), ".."),
        (Glob("*"), "..\\a"),
        (Glob("*"), "a\\b"),
        (Prefix("C:\\work\\"), "C:\\work\\..\\..\\Windows"),
        (Prefix("C:\\work\\"), "C:\\work\\../x"),
        (Prefix("/srv/"), "/srv/../etc"),
        (Prefix("/srv/"), "/srv/.."),
        (Prefix("/srv/"), "/srv/..\\etc"),
        (Prefix("/srv/"), "/srv/..\n"),
        (Glob("src/*/*"), "src//a"),
        (Glob("src/*/a"), "src/./a"),
        (Glob("[!/]**"), " /etc/passwd"),
        (Prefix("//server/"), "//server/share"),  # or /server/share
    ],
)
def test_what_may_lead_out_is_allowed_by_no_rule(condition: Condition, text: str) -> None:
    assert isinstance(condition.test(text), Unclear)
    policy = Policy([Rule("allow", argument="path", when=condition)], default="deny")
    assert policy.decide("tool", {"path": text}).action == "deny"


@pytest.mark.parametrize("text", ["..", "../a", "a/../b", "/srv/..", "..\\a", " ../a", "../.."])
def test_where_a_path_goes_up_a_pattern_of_paths_cannot_tell(text: str) -> None:
    """It may lead to what the pattern is about, from wherever the tool is."""
    for condition in (Glob("/etc/**"), Prefix("/etc/"), Prefix("C:\\")):
        assert isinstance(condition.test(text), Unclear)


@pytest.mark.parametrize("text", ["..", "a/..", "a/../", "/a/b/../.", "../..", "a\\..", "b/.. "])
def test_where_a_path_ends_upwards_its_last_name_is_not_to_be_seen(text: str) -> None:
    assert isinstance(Glob("**/.env").test(text), Unclear)
    assert isinstance(Glob("**/*").test(text), Unclear)


@pytest.mark.parametrize("glob", ["**/a/.env", "**/.env/**", "**/a**", "/**/.env", "./**/.env"])
def test_where_a_path_goes_up_more_than_its_last_name_is_not_known(glob: str) -> None:
    assert isinstance(Glob(glob).test("../lib/util.py"), Unclear)
    assert isinstance(Glob(glob, "**/.env").test("../lib/util.py"), Unclear)


@pytest.mark.parametrize(
    ("condition", "text", "expected"),
    [
        # Where only the last name counts, nothing before it matters.
        (SECRETS, "../lib/util.py", False),
        (SECRETS, "src/../app.py", False),
        (SECRETS, "..\\lib\\util.py", False),
        (SECRETS, "../" * 30 + "etc/passwd", False),
        (SECRETS, "../.env/app.py", False),
        (SECRETS, "a/.env/../b", False),
        (SECRETS, "../project/.env", None),
        (SECRETS, "src/../key.pem", None),
        (Glob("**/**/.env"), "../lib/util.py", False),
        (Glob("src**", "**/*.py"), "src/../a.py", None),
        # Down again, but not to where it began.
        (Glob(".env", "*.pem"), "../lib/util.py", False),
        (Glob(".env", "*.pem"), "../lib/deep/key.pem", False),
        (Glob(".env", "*.pem"), "../.env/a", False),
        (Prefix("secret"), "../a/b/secret", False),
        # Paths that are written as most are, and directories with their slash.
        (SECRETS, "src/app.py", False),
        (SECRETS, "src/", False),
        (SECRETS, "./src/app.py", False),
        (SECRETS, "a\\b.txt", False),
        (Prefix("/srv/"), "/srv/", True),
        (Prefix("/srv/"), "/srv/a/", True),
        (Prefix("/srv/"), "/srv//a", True),
        (Prefix("/srv/"), "/srv/..a", True),
        (Glob("src/**"), "src/", True),
        (Glob("src/**"), "src/./", True),
        (Glob("src/**"), "src/a/", True),
        (Glob("**/a"), "a..", False),
        (Glob("**/a"), "..a", False),
        (Glob("**/a"), "a/...", False),
        (Glob("."), ".", True),
        (Glob("**"), "/", True),
        (Prefix("./"), "./a", True),
        (Prefix("./"), ".//a", True),
        (Glob("./src/*"), "./src/a", True),
        (Prefix("C:\\work\\"), "C:\\work\\a.txt", True),
        (Prefix("C:\\work\\"), "D:\\work\\a.txt", False),
        (Glob("C:[\\]work[\\]*"), "C:\\work\\a.txt", True),
        (Glob("[[\\]*"), "\\a", None),  # a bracket or a backslash, which may be a slash
        (Glob("[[\\]*"), "[a", True),
        (Prefix("//"), "/etc", False),
        # URLs.
        (Prefix("https://example.com/"), "https://example.com/a/", True),
        (Prefix("https://example.com/"), "https://example.com/a//b", True),
        (Prefix("https://example.com/"), "https://example.org/a//b", False),
        (Prefix("https://"), "http://a", False),
        (Glob("https://*.example.com/**"), "https://a.example.com/b//c", True),
        (Glob("https://*.example.com/**"), "https://example.com.evil/b", False),
        # Commands.
        (Prefix("rm "), "ls ../../x", False),
        (Prefix("rm "), "ls a/../b", False),
        (Prefix("rm "), 'grep "a\\.b" c', False),
        (Prefix("git diff"), "git diff ..", True),
        (Prefix("git diff"), "git diff a..b", True),
        (Prefix("grep "), 'grep "a\\.b" c', True),
        (Glob("curl https://example.com/*"), "curl https://example.com/a", True),
        (Glob("make *"), "make ./a", False),
        # Names.
        (Prefix("feature/"), "feature/a", True),
        (Glob("v1.*"), "v1..2", True),
    ],
)
def test_what_is_not_in_doubt_is_answered(condition: Condition, text: str, expected: Any) -> None:
    answer = condition.test(text)
    assert (None if isinstance(answer, Unclear) else answer) is expected


def test_the_reason_says_how_else_it_may_be_read() -> None:
    policy = Policy([Rule("deny", argument="path", when=Glob("**/.env"))])
    assert policy.decide("tool", {"path": "config\\.env/"}).reason == (
        'of the argument path, "config\\\\.env/", it cannot be told whether it matches the glob '
        '"**/.env", since it may also be read as "config/.env"'
    )
    assert Prefix("C:\\a").test("C:/a") == Unclear(
        "it may also be read as a path that is written otherwise"
    )


tidy_paths = st.lists(st.sampled_from(["a", "b", ".env", "..."]), min_size=1, max_size=4)
noise = st.lists(st.sampled_from(["/", "/./", "//", "\\", "/.//", "\\.\\"]), min_size=6, max_size=6)


@given(
    tidy_paths,
    noise,
    st.sampled_from(["", "/", "/.", "//", " "]),
    st.sampled_from(["", "./", " ", ".\\"]),
    st.sampled_from([Glob("**/.env"), Glob("a/*"), Glob("*", "a/b"), Prefix("a/"), Prefix("b")]),
)
def test_no_noise_turns_a_yes_into_a_no_or_a_no_into_a_yes(
    names: list[str], between: list[str], end: str, start: str, condition: Condition
) -> None:
    tidy = "/".join(names)
    noisy = start + "".join(map("".join, zip(names, between, strict=False)))
    noisy = noisy[: len(noisy) - len(between[len(names) - 1])] + end
    expected = {condition.test(tidy)}
    if end not in ("", " "):
        expected.add(condition.test(tidy + "/"))  # as a directory it may be meant
    answer = condition.test(noisy)
    assert isinstance(answer, Unclear) or answer in expected


@pytest.mark.timing
@pytest.mark.parametrize("piece", ["../", "./", "\\", "a/../", " ", "//"])
def test_no_spelling_is_slow(piece: str) -> None:
    for glob in (Glob("*a/**"), Glob("a**b"), Glob("**/a")):
        assert growth(partial(asked_often, glob, piece), 5_000) <= BOUND


def asked_often(condition: Condition, piece: str, size: int) -> Callable[[], object]:
    """Ask about a long text, often enough for the clock; short enough for the cache."""
    text = piece * size
    return lambda: [condition.test(text) for _ in range(5)]


@pytest.mark.timing
def test_up_and_down_again_is_not_slow() -> None:
    glob = Glob("a**b")
    assert growth(lambda size: lambda: glob.test("../" * 16 + "a/" * size), 5_000) <= BOUND
    assert growth(lambda size: lambda: glob.test("../" * size + "a/" * size), 5_000) <= BOUND

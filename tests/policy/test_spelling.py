"""Prefixes and globs where a text may be a path: the same file has many names."""

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
            "config/.env/",
            "config/.env/.",
            "config/.env//",
            "config/.env/./",
            ".env/",
            "config\\.env",
            "config\\.env\\",
            ".\\.env",
            "config/.env ",
            "config/.env\n",
            "config/x/../.env/",
            "a.pem/",
        ],
    ),
    (Glob(".env"), ["./.env", ".//.env", ".\\.env", "a/../.env", ".env/"]),
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
        (Glob("**"), "../a"),
        (Glob("*"), ".."),
        (Glob("*"), "..\\a"),
        (Glob("*"), "a\\b"),
        (Prefix("C:\\work\\"), "C:\\work\\..\\..\\Windows"),
        (Prefix("C:\\work\\"), "C:\\work\\../x"),
        (Prefix("/work/"), "/work/../etc"),
        (Prefix("/work/"), "/work/.."),
        (Prefix("/work/"), "/work/..\\etc"),
        (Prefix("/work/"), "/work/..\n"),
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


@pytest.mark.parametrize("text", ["..", "../a", "a/../b", "/work/..", "..\\a", " ../a", "../.."])
def test_where_a_path_goes_up_a_pattern_of_paths_cannot_tell(text: str) -> None:
    """It may lead to what the pattern is about, from wherever the tool is."""
    for condition in (Glob("/etc/**"), Prefix("/etc/"), Prefix("C:\\")):
        assert isinstance(condition.test(text), Unclear)


@pytest.mark.parametrize(
    ("condition", "text", "expected"),
    [
        # Paths that are written as most are, and directories with their slash.
        (SECRETS, "src/app.py", False),
        (SECRETS, "src/", False),
        (SECRETS, "./src/app.py", False),
        (SECRETS, "a\\b.txt", False),
        (Prefix("/work/"), "/work/", True),
        (Prefix("/work/"), "/work/a/", True),
        (Prefix("/work/"), "/work//a", True),
        (Prefix("/work/"), "/work/..a", True),
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
    glob = Glob("*a/**")
    assert growth(lambda size: lambda: glob.test(piece * size), 20_000) <= BOUND

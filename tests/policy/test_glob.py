"""Globs: what the stars mean, and that no text makes them slow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.policy import Glob
from argstream.policy._paths import CompiledGlob
from tests.growth import BOUND, growth

MEANINGS = [
    # pattern, what it matches, what it does not
    ("a", ["a"], ["", "A", "aa", "/a"]),
    ("*", ["", "a", ".env", "a\nb", "日本"], ["a/b", "/", "/a"]),
    ("?", ["a", "é", "😀"], ["", "ab", "/"]),
    ("*.env", [".env", "a.env"], ["a/.env", ".envx", ".ENV"]),
    ("a/*", ["a/", "a/b"], ["a", "a/b/c"]),
    ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
    ("**", ["", "a", "a/b", "/"], []),
    ("a/**", ["a/", "a/b", "a/b/c"], ["a", "ab", "b/a/c"]),
    ("**/a", ["a", "/a", "b/a", "b/c/a"], ["ba", "b/ca", "a/b"]),
    ("/**/a", ["/a", "/b/a", "/b/c/a"], ["a", "b/a"]),
    ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb", "a/b/c"]),
    ("**/**/a", ["a", "b/a", "b/c/a"], ["ba"]),
    ("**/***/a", ["a", "b/a", "b/c/a"], ["ba"]),
    ("**/*.py", ["a.py", ".py", "b/a.py"], ["a.pyc"]),
    ("a**b", ["ab", "a/b", "axb"], ["a", "b", "abc"]),
    ("**a", ["a", "ba", "b/a"], ["ab"]),
    ("***", ["", "a/b"], []),
    ("git **", ["git -v", "git add a/b"], ["git", "agit add"]),
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
def test_what_a_glob_means(pattern: str, matching: list[str], others: list[str]) -> None:
    glob = Glob(pattern)
    assert [text for text in matching if glob.test(text) is not True] == []
    assert [text for text in others if glob.test(text) is not False] == []


def test_one_of_several_globs_is_enough() -> None:
    glob = Glob("*.pem", "*.key")
    assert (glob.test("a.key"), glob.test("a.txt")) == (True, False)


def test_in_the_name_of_a_tool_a_slash_is_nothing_special() -> None:
    assert CompiledGlob("*", paths=False).matches("server/tool")
    assert CompiledGlob("server?tool", paths=False).matches("server/tool")
    assert CompiledGlob("[!a]*", paths=False).matches("/a")


@given(
    st.lists(st.sampled_from(["*", "**", "**/", "?", "a", "b", "/", "[ab]", "[!a]"]), max_size=6),
    st.text("ab/", max_size=8),
)
def test_a_glob_agrees_with_trying_every_way(tokens: list[str], text: str) -> None:
    pattern = "".join(tokens)
    assert CompiledGlob(pattern, paths=True).matches(text) is by_trying(pattern, text, start=True)


def by_trying(pattern: str, text: str, *, start: bool) -> bool:
    """The definition, tried out: slow, and independent of the automaton."""
    if not pattern:
        return not text
    if pattern.startswith("**"):
        rest = pattern.lstrip("*")
        if start and rest.startswith("/"):
            after_slashes = [n + 1 for n, character in enumerate(text) if character == "/"]
            return any(
                by_trying(rest[1:], text[place:], start=True) for place in [0, *after_slashes]
            )
        return any(by_trying(rest, text[n:], start=False) for n in range(len(text) + 1))
    if pattern[0] == "*":
        run = text.split("/", 1)[0]
        return any(by_trying(pattern[1:], text[n:], start=False) for n in range(len(run) + 1))
    end = pattern.index("]") + 1 if pattern[0] == "[" else 1
    token, rest = pattern[:end], pattern[end:]
    if not text:
        return False
    fits = {
        "?": text[0] != "/",
        "[ab]": text[0] in "ab",
        "[!a]": text[0] not in "a/",
    }.get(token, text[0] == token)
    return fits and by_trying(rest, text[1:], start=token == "/")


@pytest.mark.timing
def test_stars_do_not_multiply() -> None:
    glob = Glob("**a*a*a*a*a*a**b")
    assert growth(lambda size: lambda: glob.test("a" * size), 20_000) <= BOUND

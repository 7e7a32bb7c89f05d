"""The page's files as text: what they import and load, and what no file of them may do."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from posixpath import normpath

import pytest

from argstream import server

STATIC = Path(server.__file__).with_name("static")
MADE = {"visible-table.js"}
"""What the server makes: it imports nothing."""
PUBLIC = {"argstream.js", "tool-call.js"}
"""What other pages import, as docs/server.md says."""
USES = Path(__file__).parents[1] / "page"
"""Tests may import what they test, though nothing else does."""

MODULES = {file.relative_to(STATIC).as_posix(): file.read_text() for file in STATIC.rglob("*.js")}
TEXTS = MODULES | {
    file.relative_to(STATIC).as_posix(): file.read_text()
    for kind in ("*.html", "*.css", "*.svg")
    for file in STATIC.rglob(kind)
}
_IMPORT = re.compile(r'^import\b(?:([^;"]*?)\bfrom\b)?\s*"(\.[^"]*)";', re.MULTILINE)
_LAZY_IMPORT = re.compile(r'\{([^{}]*)\} = await import\("(\.[^"]*)"\)')
_TYPE_IMPORT = re.compile(r'@import \{([^{}]*)\} from "(\.[^"]*)"')
_EXPORT = re.compile(
    r"^export (?:async )?(?:class|const|let|function\*?) (\w+)|^export \{([^}]*)\}", re.MULTILINE
)
_FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\s*\(|\bnew Function\b"
    r"|createContextualFragment|setHTMLUnsafe|DOMParser|\bsrcdoc\s*="
    r"|[\"'`]\s*javascript:|setTimeout\(\s*[\"'`]"
)


class Elements(HTMLParser):
    """Collects the elements of a document, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.found.append((tag, {name: value or "" for name, value in attrs}))


INDEX = Elements(TEXTS["index.html"]).found


def imports(name: str, pattern: re.Pattern[str] = _IMPORT) -> Iterator[tuple[set[str], str]]:
    """Give what a module imports: the names, and the module that they are of."""
    for names, path in pattern.findall(MODULES.get(name, "")):
        target = normpath(PurePosixPath(name).parent / path)
        yield set(re.findall(r"(\w+)(?: as \w+)?", names)), target


def reached(name: str) -> set[str]:
    """Give a module and all that it imports, and what that imports."""
    known: set[str] = set()
    waiting = [name]
    while waiting:
        if (next_one := waiting.pop()) not in known:
            known.add(next_one)
            waiting.extend(path for _, path in imports(next_one))
    return known


def loaded(tag: str, attribute: str, **others: str) -> list[str]:
    """Give the files that elements of the page load."""
    return [
        attributes[attribute].removeprefix("static/")
        for name, attributes in INDEX
        if name == tag and attribute in attributes and others.items() <= attributes.items()
    ]


def test_the_page_names_all_modules_that_it_begins_with() -> None:
    scripts = loaded("script", "src", type="module")
    preloaded = loaded("link", "href", rel="modulepreload")
    assert "page/main.js" in scripts
    assert sorted(preloaded) == preloaded
    assert sorted([*scripts, *preloaded]) == sorted(reached("page/main.js"))


def test_all_files_are_used() -> None:
    lazily = {path for name in MODULES for _, path in imports(name, _LAZY_IMPORT)}
    used = reached("page/main.js").union(*map(reached, lazily))
    assert used - MADE == set(MODULES)
    assert used >= MADE
    styles = loaded("link", "href", rel="stylesheet")
    assert sorted(styles) == sorted(name for name in TEXTS if name.endswith(".css"))


def test_every_exported_name_is_used() -> None:
    used = {
        (path, imported)
        for pattern in (_IMPORT, _LAZY_IMPORT, _TYPE_IMPORT)
        for name in MODULES
        for names, path in imports(name, pattern)
        for imported in names
    }
    tests = " ".join(file.read_text() for file in USES.rglob("*.*js"))
    exported = {
        (name, word)
        for name, text in MODULES.items()
        if name not in PUBLIC
        for one, several in _EXPORT.findall(text)
        for word in re.findall(r"\w+", one or several)
    }
    unused = {
        (name, word) for name, word in exported - used if not re.search(rf"\b{word}\b", tests)
    }
    assert exported
    assert unused == set()


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_nothing_can_turn_text_into_markup_or_code(name: str) -> None:
    assert _FORBIDDEN.findall(TEXTS[name]) == []


def test_the_page_has_no_code_and_no_style_in_its_markup() -> None:
    for tag, attributes in INDEX:
        assert tag != "style"
        assert tag != "script" or attributes["src"].startswith("static/")
        assert [name for name in attributes if name.startswith("on") or name == "style"] == []
        addresses = [attributes.get("src", ""), attributes.get("href", "")]
        assert all(re.fullmatch(r"(?:(?:static/|#).*)?", address) for address in addresses)

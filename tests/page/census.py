"""Counts the elements of a page, also inside of custom elements."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

from argstream.sanitise import visible_line
from tests.page.looking import browser_script, settle


@dataclass
class Census:
    kinds: Counter[str]  # elements by name and classes, such as ``xhtml:div.row``
    attributes: set[str]
    text: str  # all text nodes, joined, since each line may be an element
    values: list[str]  # of attributes and form fields
    suspects: list[str]  # attributes that could run code or load something
    pwned: Any


def take_census(page: Page) -> Census:
    """Count the elements when the page has settled."""
    settle(page)
    found = json.loads(
        page.evaluate(browser_script("count-elements"))
    )  # quicker than playwright's format
    kinds, attributes = Counter(found.pop("kinds")), set(found.pop("attributes"))
    return Census(kinds=kinds, attributes=attributes, **found)


def open_everything(page: Page) -> None:
    """Unfold thoughts, calls and results, and what appears with them."""
    while page.evaluate(browser_script("open-everything")):
        settle(page)


def hidden_characters(text: str) -> set[str]:
    """Return the characters that are invisible or act on others."""
    odd = {one for one in set(text) if not one.isascii() or not one.isprintable()} - {"\n", "\t"}
    return {one for one in odd if one != "⟦" and visible_line(one) != one}

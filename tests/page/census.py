"""Counts the elements of a page, also inside of custom elements."""

import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from playwright.sync_api import Page

from argstream import sanitise
from tests.page.looking import settle

_COUNT = """() => {
  const kinds = {}, attributes = new Set(), texts = [], values = [], suspects = [];
  const walk = (root) => {
    for (const node of root.childNodes) {
      if (node.nodeType === Node.TEXT_NODE) { texts.push(node.data); continue; }
      if (node.nodeType !== Node.ELEMENT_NODE) continue;
      const classes = [...node.classList].map((one) => `.${one}`).join("");
      const kind = `${node.namespaceURI.split("/").at(-1)}:${node.localName}${classes}`;
      kinds[kind] = (kinds[kind] ?? 0) + 1;
      for (const { name, value } of node.attributes) {
        attributes.add(name);
        values.push(value);
        // The page sets styles itself. They load nothing and contain no text.
        const isOdd = name === "style" ? /url|@|["'\\\\]/.test(value) : /^on/.test(name);
        if (isOdd) suspects.push(`${node.localName} ${name}=${value}`);
      }
      if ("value" in node && typeof node.value === "string") values.push(node.value);
      if (node.localName === "script" || node.localName === "style") continue;
      if (node.shadowRoot) walk(node.shadowRoot);
      walk(node);
    }
  };
  walk(document);
  const pwned = window.pwned ?? null;
  const text = texts.join("");
  return JSON.stringify({ kinds, attributes: [...attributes], text, values, suspects, pwned });
}"""

_OPEN = """() => {
  const found = (selector) => {
    const all = [];
    const walk = (root) => {
      all.push(...root.querySelectorAll(selector));
      for (const element of root.querySelectorAll("*")) {
        if (element.shadowRoot) walk(element.shadowRoot);
      }
    };
    walk(document);
    return all;
  };
  const closed = found("main details, tool-call").filter((one) => !one.open);
  for (const one of closed) one.open = true;
  // The buttons of a card replace each other, so each is clicked once. "Show more" is clicked until
  // there is no more.
  const pressed = (globalThis.pressed ??= new WeakSet());
  const waiting = found("button").filter((button) =>
    !button.hidden && !pressed.has(button) && /^Show/.test(button.textContent.trim()));
  for (const button of waiting) {
    if (button.closest(".strip")) pressed.add(button);
    button.click();
  }
  return closed.length + waiting.length;
}"""


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
    found = json.loads(page.evaluate(_COUNT))  # quicker than playwright's own format
    kinds, attributes = Counter(found.pop("kinds")), set(found.pop("attributes"))
    return Census(kinds=kinds, attributes=attributes, **found)


def open_everything(page: Page) -> None:
    """Unfold thoughts, calls and results, and what appears with them."""
    while page.evaluate(_OPEN):
        settle(page)


@cache
def _hidden_ranges() -> list[tuple[int, int]]:
    ranges = sanitise.table()["ranges"]
    return [(first, last) for first, last in ranges if not first <= ord("⟦") <= last]


def hidden_characters(text: str) -> set[str]:
    """Return the characters that are invisible or act on others."""
    odd = {one for one in set(text) if not one.isascii() or not one.isprintable()} - {"\n", "\t"}
    ranges = _hidden_ranges()
    return {one for one in odd if any(first <= ord(one) <= last for first, last in ranges)}

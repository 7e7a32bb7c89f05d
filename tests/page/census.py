"""What a page is made of, inside custom elements too: to tell whether words became markup."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from playwright.sync_api import Page

from argstream import sanitise
from tests.page.looking import settle

__all__ = ["Census", "hidden_characters", "open_everything", "take_census"]

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
        // Styles are set by the page itself: nothing in them is loaded, and there are no words.
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
  return { kinds, attributes: [...attributes], texts, values, suspects, pwned };
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
  // Those of a card take each other's place: each is pressed once. More is asked for until there is
  // no more.
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
    """How many elements of which kind there are, and all that can be read."""

    kinds: Counter[str]
    """By their names with their classes, such as ``xhtml:div.row``."""
    attributes: set[str]
    text: str
    """All text, one after the other: what is in lines may stand in elements of their own."""
    values: list[str]
    """Of attributes and form fields."""
    suspects: list[str]
    """Attributes that could do something."""
    pwned: Any


def take_census(page: Page) -> Census:
    """Count, when all is there."""
    settle(page)
    found = page.evaluate(_COUNT)
    return Census(
        Counter(found["kinds"]),
        set(found["attributes"]),
        "".join(found["texts"]),
        found["values"],
        found["suspects"],
        found["pwned"],
    )


def open_everything(page: Page) -> None:
    """Unfold thoughts, calls and results, and what comes to light with them."""
    while page.evaluate(_OPEN):
        settle(page)


@cache
def _hidden_ranges() -> list[tuple[int, int]]:
    ranges = sanitise.table()["ranges"]
    return [(first, last) for first, last in ranges if not first <= ord("⟦") <= last]


def hidden_characters(text: str) -> set[str]:
    """Give the characters of a text that nobody sees, or that act on others: there may be none."""
    odd = {one for one in set(text) if not one.isascii() or not one.isprintable()} - {"\n", "\t"}
    ranges = _hidden_ranges()
    return {one for one in odd if any(first <= ord(one) <= last for first, last in ranges)}

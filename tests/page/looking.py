"""What the tests of the page share: pictures that are kept, and async work beside the browser."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from playwright.sync_api import Page

__all__ = ["SEEN", "run_async", "screenshot", "settle"]

SEEN = Path(__file__).parent / "seen"
"""Where pictures and traces are kept, for people to look at. Git does not see them."""

Answer = TypeVar("Answer")

_SETTLE = """async () => {
  const count = (root) => {
    let sum = 0;
    for (const element of root.querySelectorAll("*")) {
      sum += element.shadowRoot ? 1 + count(element.shadowRoot) : 1;
    }
    return sum;
  };
  for (let before = -1, now = 0, same = 0; same < 4; before = now) {
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 40)));
    now = count(document);
    same = now === before ? same + 1 : 0;
  }
}"""


def settle(page: Page) -> None:
    """Wait until all is shown: what is large is written in slices, a frame after the other."""
    page.evaluate(_SETTLE)


def screenshot(page: Page, name: str) -> None:
    """Keep a picture of what is seen, as ``seen/<name>.png``."""
    SEEN.mkdir(exist_ok=True)
    page.screenshot(path=SEEN / f"{name}.png", animations="disabled", caret="hide")


def run_async(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run something async in a thread: the loop of the browser's driver has the main one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result(30)

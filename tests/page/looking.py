"""What the tests of the page share: pictures that are kept, and async work beside the browser."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from playwright.sync_api import Page

__all__ = ["SEEN", "run_async", "screenshot"]

SEEN = Path(__file__).parent / "seen"
"""Where pictures and traces are kept, for people to look at. Git does not see them."""

Answer = TypeVar("Answer")


def screenshot(page: Page, name: str) -> None:
    """Keep a picture of what is seen, as ``seen/<name>.png``."""
    SEEN.mkdir(exist_ok=True)
    page.screenshot(path=SEEN / f"{name}.png", animations="disabled", caret="hide")


def run_async(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run something async in a thread: the loop of the browser's driver has the main one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result(30)

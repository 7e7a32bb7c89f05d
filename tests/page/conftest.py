"""A browser for the tests of the page. Whatever it complains of fails the test.

playwright's sync API leaves an event loop running in the main thread for as long as it is used. So
the browser lives for one module and is gone before the next: other tests of the same process may
call ``asyncio.run``. Tests of the page itself cannot: ``tests.page.looking.run_async`` does it.
"""

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.support import program_is_missing

_PATIENCE = 10_000.0
_FLAGS = ("--headless", "--no-sandbox", "--disable-background-networking")
# The first is the same browser without windows, and takes half of the time.
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
_DESKTOP = {"width": 1280, "height": 800}
# What the policy of the page has refused is said in the console too, but not always as an error.
_TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""

# A test ends its server before its pages, or cuts them off: that is not theirs to answer for.
_GONE = (
    r"Failed to load resource: net::ERR_(CONNECTION|CONTENT_LENGTH|EMPTY|INCOMPLETE|NETWORK|SOCKET)"
)

expect.set_options(timeout=_PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these without coverage: of what they cover there are quicker tests in tests/server."""
    for item in items:
        if item.nodeid.startswith("tests/page/"):
            item.add_marker(pytest.mark.bulk)


class Browsing:
    """Opens fresh contexts, each as a person who was never here, and listens to their complaints.

    ``expect_faults`` takes patterns of what a test means to provoke; anything else fails it.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._expected: list[str] = []
        self._faults: list[str] = []

    def context(self, **options: Any) -> BrowserContext:
        """Open a context; options are those of playwright's ``new_context``."""
        context = self._browser.new_context(
            **{"viewport": _DESKTOP, "locale": "en-GB", "timezone_id": "UTC", **options}
        )
        context.set_default_timeout(_PATIENCE)
        context.add_init_script(_TELL_VIOLATIONS)
        context.on("console", self._hear)
        context.on("weberror", lambda error: self._faults.append(f"thrown: {error.error}"))
        self._contexts.append(context)
        return context

    def page(self, url: str = "", **options: Any) -> Page:
        """Open a page in a context of its own."""
        page = self.context(**options).new_page()
        if url:
            page.goto(url)
        return page

    def expect_faults(self, *patterns: str) -> None:
        """Say what the browser will complain of, as regular expressions."""
        self._expected += patterns

    def close(self) -> None:
        """End, and fail if there was a complaint that nobody expects."""
        for context in self._contexts:
            context.close()
        wrong = [
            fault
            for fault in self._faults
            if not any(re.search(pattern, fault) for pattern in (_GONE, *self._expected))
        ]
        assert not wrong, "the browser complains:\n" + "\n".join(wrong)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._faults.append(f"console: {message.text} ({message.location.get('url')})")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium: without what it needs for windows, if that is installed."""
    found = (shutil.which(name) for name in _PROGRAMS)
    program = next((path for path in found if path is not None), None)
    if program is None:
        program_is_missing("there is no chromium: make test-deps installs it")
    # What is set for the developer's own Node is none of the driver's business.
    environment = {key: value for key, value in os.environ.items() if key != "NODE_OPTIONS"}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=list(_FLAGS), env={**environment}
        )
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture
def browsing(chromium: Browser) -> Iterator[Browsing]:
    """Give a way to open contexts and pages; all are closed in the end."""
    opened = Browsing(chromium)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def context(browsing: Browsing) -> BrowserContext:
    """Give a fresh context, at the size of a desktop."""
    return browsing.context()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """Give an empty page in a fresh context."""
    return context.new_page()

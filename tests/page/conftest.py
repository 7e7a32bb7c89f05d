"""A browser for the tests of the page. Its errors fail the test.

While playwright's sync API is used, an event loop runs in the main thread. So the browser lives for
one module, and other tests of the same process may call ``asyncio.run``. Tests of the page call
``tests.page.looking.run_async`` instead.
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

_TIMEOUT = 30_000.0
_FLAGS = ["--headless", "--no-sandbox", "--disable-background-networking"]
# The first is the same browser without windows, and needs half of the time.
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
_DEFAULTS = {
    "viewport": {"width": 1280, "height": 800},
    "locale": "en-GB",
    "timezone_id": "UTC",
}
# A violation of the policy is not always logged as an error.
_REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""

# A test may stop its server before its pages are closed.
_GONE = (
    r"Failed to load resource: net::ERR_(CONNECTION|CONTENT_LENGTH|EMPTY|INCOMPLETE|NETWORK|SOCKET)"
)

expect.set_options(timeout=_TIMEOUT)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pause coverage: the tests of tests/server cover the same, and are quicker."""
    for item in items:
        if item.nodeid.startswith("tests/page/"):
            item.add_marker(pytest.mark.bulk)


class Browsing:
    """Opens contexts without any stored data, and collects the errors of their pages."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._expected = [_GONE]
        self.errors: list[str] = []

    def context(self, **options: Any) -> BrowserContext:
        """Open a context, with options of playwright's ``new_context``."""
        context = self._browser.new_context(**{**_DEFAULTS, **options})
        context.set_default_timeout(_TIMEOUT)
        context.add_init_script(_REPORT_VIOLATIONS)
        context.on("console", self._on_message)
        context.on("weberror", lambda error: self.errors.append(f"thrown: {error.error}"))
        self._contexts.append(context)
        return context

    def page(self, url: str = "", **options: Any) -> Page:
        """Open a page in a context of its own."""
        page = self.context(**options).new_page()
        if url:
            page.goto(url)
        return page

    def expect_errors(self, *patterns: str) -> None:
        """Allow errors that match one of these regular expressions."""
        self._expected += patterns

    def check(self) -> None:
        """Fail if there was an error that is not expected."""
        found, self.errors = self.errors, []
        wrong = [error for error in found if not any(re.search(p, error) for p in self._expected)]
        assert not wrong, "errors in the browser:\n" + "\n".join(wrong)

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self.check()

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"console: {message.text} ({message.location.get('url')})")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        program_is_missing("there is no chromium: make test-deps installs it")
    # The settings of the developer's own Node are not for the driver.
    environment = {key: value for key, value in os.environ.items() if key != "NODE_OPTIONS"}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=_FLAGS, env={**environment}
        )
        yield browser
        browser.close()


@pytest.fixture
def browsing(chromium: Browser) -> Iterator[Browsing]:
    opened = Browsing(chromium)
    yield opened
    opened.close()


@pytest.fixture
def context(browsing: Browsing) -> BrowserContext:
    return browsing.context()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()

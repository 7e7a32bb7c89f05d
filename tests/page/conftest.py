"""A browser for the tests of the page. Its errors fail the test.

While playwright's sync API is used, an event loop runs in the main thread. So the browser is closed
before tests of other folders, which may call ``asyncio.run``. Tests of the page call
``tests.page.looking.run_async`` instead.

Most tests share one page: a new one takes longer to load than most tests last.
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
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.page.looking import file_url, files_served
from tests.support import program_is_missing

_TIMEOUT = 30_000.0
_FLAGS = ["--headless", "--no-sandbox", "--disable-background-networking"]
# The first is the same browser without windows, and needs half of the time.
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
_VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
_DEFAULTS = {
    "viewport": _VIEWPORT,
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
    """Opens pages, and collects the errors of all of them."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._shared: Page | None = None
        self._expected = [_GONE]
        self.errors: list[str] = []

    def context(self, **options: Any) -> BrowserContext:
        """Open a context without stored data, with options of playwright's ``new_context``."""
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

    def shared_page(self) -> Page:
        """Return the page that tests share. Its browser cache has the files of the page."""
        if self._shared is None:
            self._shared = self.page()
        elif self._shared.is_closed():
            self._shared = self._shared.context.new_page()
        return self._shared

    def expect_errors(self, *patterns: str) -> None:
        """Allow errors that match one of these regular expressions."""
        self._expected += patterns

    def check(self) -> None:
        """Fail if there was an error that is not expected."""
        found, self.errors = self.errors, []
        wrong = [error for error in found if not any(re.search(p, error) for p in self._expected)]
        assert not wrong, "errors in the browser:\n" + "\n".join(wrong)

    def finish(self) -> None:
        """End a test: close what it has opened, reset the shared page, and check for errors."""
        for context in self._contexts:
            if self._shared is None or context is not self._shared.context:
                context.close()
        self._contexts = []
        if self._shared is not None:
            self._contexts = [self._shared.context]
            self._reset(self.shared_page())
        try:
            self.check()
        finally:
            self._expected = [_GONE]

    def _reset(self, page: Page) -> None:
        for other in page.context.pages:
            if other is not page:
                other.close()
        page.unroute_all()
        if page.url.startswith("http"):
            page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        page.goto(file_url("harness/blank.html"))
        page.context.clear_cookies()
        page.set_viewport_size(_VIEWPORT)
        page.emulate_media(reduced_motion="no-preference")
        page.mouse.move(0, 0)

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"console: {message.text} ({message.location.get('url')})")


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        program_is_missing("there is no chromium: make test-deps installs it")
    # The settings of the developer's own Node are not for the driver.
    environment = {key: value for key, value in os.environ.items() if key != "NODE_OPTIONS"}
    with files_served(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=_FLAGS, env={**environment}
        )
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def _browsing(chromium: Browser) -> Browsing:
    return Browsing(chromium)


@pytest.fixture
def browsing(_browsing: Browsing) -> Iterator[Browsing]:
    yield _browsing
    _browsing.finish()


@pytest.fixture
def page(browsing: Browsing) -> Page:
    return browsing.shared_page()

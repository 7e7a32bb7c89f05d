"""The browser of these tests: what it complains of is heard, and it leaves nothing behind."""

import pytest
from playwright.sync_api import Browser, Page

from tests.page.conftest import Browsing

_POLICY = "<meta http-equiv='content-security-policy' content=\"script-src 'none'\">"


@pytest.mark.parametrize(
    "provoke",
    [
        "console.error('this is wrong')",
        "setTimeout(() => { throw new Error('this is wrong'); })",
        "document.body.setAttribute('onclick', 'this.is.wrong')",
    ],
)
def test_a_complaint_of_the_browser_fails_a_test_that_does_not_expect_it(
    chromium: Browser, provoke: str
) -> None:
    browsing = Browsing(chromium)
    page = browsing.page(f"data:text/html,{_POLICY}<body>")
    page.evaluate(provoke)
    page.evaluate("new Promise((resolve) => setTimeout(resolve))")
    with pytest.raises(AssertionError, match="the browser complains"):
        browsing.close()


def test_what_is_expected_fails_nothing(page: Page, browsing: Browsing) -> None:
    browsing.expect_faults("meant to be")
    page.evaluate("console.error('this is meant to be')")

"""Errors in the browser fail a test unless it expects them."""

import pytest
from playwright.sync_api import Browser

from tests.page.conftest import Browsing

POLICY = "<meta http-equiv='content-security-policy' content=\"script-src 'none'\">"


@pytest.mark.parametrize(
    "provoke",
    [
        "console.error('this is wrong')",
        "setTimeout(() => { throw new Error('this is wrong'); })",
        "document.body.setAttribute('onclick', 'this.is.wrong')",
    ],
)
def test_error_in_the_browser_fails_a_test_that_does_not_expect_it(
    chromium: Browser, provoke: str
) -> None:
    for is_expected in (False, True):
        browsing = Browsing(chromium)
        page = browsing.page(f"data:text/html,{POLICY}<body>")
        page.evaluate(provoke)
        page.evaluate("new Promise((resolve) => setTimeout(resolve))")
        if is_expected:
            browsing.expect_errors("wrong", "policy", "Policy")
            browsing.close()
        else:
            with pytest.raises(AssertionError, match="errors in the browser"):
                browsing.close()

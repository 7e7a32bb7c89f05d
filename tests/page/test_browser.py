"""Errors in the browser fail a test unless it expects them."""

import pytest
from playwright.sync_api import Browser

from tests.page.conftest import Browsing

POLICY = "<meta http-equiv='content-security-policy' content=\"script-src 'none'\">"
WRONG = (
    "console.error('this is wrong')",
    "setTimeout(() => { throw new Error('this is wrong'); })",
    "document.body.setAttribute('onclick', 'this.is.wrong')",
)


def test_error_in_the_browser_fails_a_test_that_does_not_expect_it(chromium: Browser) -> None:
    browsing = Browsing(chromium)
    for provoke in WRONG:
        for expected in ([], ["wrong", "policy", "Policy"]):
            page = browsing.page(f"data:text/html,{POLICY}<body>")
            page.evaluate(provoke)
            page.evaluate("new Promise((resolve) => setTimeout(resolve))")
            browsing.expect_errors(*expected)
            if expected:
                browsing.finish()
            else:
                with pytest.raises(AssertionError, match="errors in the browser"):
                    browsing.finish()

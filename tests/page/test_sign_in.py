"""Signing in: by a token, or by the link of ``argstream serve``, whose token leaves the address."""

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.cli.test_serve import serve
from tests.page.conftest import Browsing
from tests.page.stage import on_stage
from tests.page.visitor import Visitor, requests_of

TOKEN = "a-token-of-good-length"

# Notes the address at each request of the page.
WATCH_ADDRESS = """
window.addresses = [];
const fetched = window.fetch;
window.fetch = (...asked) => { window.addresses.push(location.href); return fetched(...asked); };
"""


def check_no_token_left(page: Page, requests: list[str], token: str) -> None:
    assert token not in page.url
    assert requests
    assert not any(token in asked for asked in requests)
    stored = "document.cookie + JSON.stringify({...localStorage, ...sessionStorage})"
    assert token not in page.evaluate(stored)


def test_link_of_the_command_signs_in_and_is_removed(browsing: Browsing, tmp_path: Path) -> None:
    browsing.expect_errors("status of 401")  # the first request asks whether a token is needed
    page = browsing.page()
    requests = requests_of(page)
    with serve(tmp_path) as running:
        assert running.link.startswith(f"{running.url}/#token=")
        page.add_init_script(WATCH_ADDRESS)
        visitor = Visitor(page, running.link)
        expect(visitor.button("Sign out")).to_be_visible()
        expect(page.get_by_role("dialog")).to_be_hidden()
        assert page.url == f"{running.url}/#/"
        # It is removed before the first request.
        assert set(page.evaluate("window.addresses")) == {f"{running.url}/#/"}
        visitor.say("Hello")
        visitor.sees("This is a scripted demo")
        check_no_token_left(page, requests, running.token)
        page.go_back()
        assert running.token not in page.url
        page.reload()
        expect(visitor.button("Sign out")).to_be_visible()


def test_wrong_tokens_are_refused_and_the_right_one_works(page: Page, browsing: Browsing) -> None:
    browsing.expect_errors("status of 40[13]")
    requests = requests_of(page)
    with on_stage("You may.", token=TOKEN) as stage:
        visitor = Visitor(page, f"{stage.url}/#token=not-the-token-at-all")
        dialog, field = page.get_by_role("dialog"), page.get_by_label("Access token")
        alert = dialog.get_by_role("alert")
        expect(alert).to_have_text("The token in the link is wrong. Enter the access token.")
        check_no_token_left(page, requests, "not-the-token-at-all")
        field.fill("not the token at all")
        visitor.button("Sign in").click()
        expect(alert).not_to_contain_text("link")
        expect(alert).not_to_be_empty()
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_attribute("aria-describedby", alert.get_attribute("id") or "")
        expect(field).to_be_focused()
        field.fill(TOKEN)
        visitor.button("Sign in").click()
        expect(dialog).to_be_hidden()
        visitor.say("May I?")
        visitor.sees("You may.")
        page.reload()
        visitor.sees("You may.")
        check_no_token_left(page, requests, TOKEN)
        visitor.button("Sign out").click()
        expect(field).to_be_visible()
        expect(visitor.conversation).not_to_contain_text("You may.")


def test_link_opened_in_an_existing_tab_keeps_its_run_and_draft(
    page: Page, browsing: Browsing
) -> None:
    browsing.expect_errors("status of 401")
    requests = requests_of(page)
    with on_stage("You may.", token=TOKEN) as stage:
        run_id = stage.client.start("May I?")
        visitor = Visitor(page, f"{stage.url}/#/r/{run_id}")
        expect(page.get_by_label("Access token")).to_be_visible()
        page.evaluate(f"location.hash = '#token={TOKEN}'")
        visitor.sees("You may.")
        assert page.url == f"{stage.url}/#/r/{run_id}"
        check_no_token_left(page, requests, TOKEN)

        # Nothing changes for a signed-in user.
        visitor.message.fill("Not sent yet")
        page.evaluate("location.hash = '#token=another-token-altogether'")
        page.wait_for_url(f"{stage.url}/#/r/{run_id}")
        visitor.sees("You may.")
        expect(visitor.message).to_have_value("Not sent yet")


def test_server_without_a_token_ignores_the_link(page: Page) -> None:
    requests = requests_of(page)
    with on_stage("You may.") as stage:
        visitor = Visitor(page, f"{stage.url}/#token={TOKEN}")
        visitor.say("May I?")
        visitor.sees("You may.")
        check_no_token_left(page, requests, TOKEN)

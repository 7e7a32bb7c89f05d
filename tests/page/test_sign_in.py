"""The sign-in link of ``argstream serve``: it signs in, and the token leaves the address."""

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.cli.test_serve import serve
from tests.page.conftest import Browsing
from tests.page.stage import on_stage
from tests.page.visitor import Visitor

TOKEN = "a-token-of-good-length"
SEEN = Path(__file__).with_name("seen")

# Notes the address whenever a module of the page asks the server for something.
WATCH_ADDRESS = """
window.addresses = [];
const fetched = window.fetch;
window.fetch = (...asked) => { window.addresses.push(location.href); return fetched(...asked); };
"""


def no_token_left(visitor: Visitor, token: str) -> None:
    page = visitor.page
    assert token not in page.url
    assert not any(token in asked for asked in visitor.requested)
    stored = "document.cookie + JSON.stringify({...localStorage, ...sessionStorage})"
    assert token not in page.evaluate(stored)


def test_link_of_the_command_signs_in_and_disappears(page: Page, tmp_path: Path) -> None:
    with serve(tmp_path) as running:
        assert running.link.startswith(f"{running.url}/#token=")
        page.add_init_script(WATCH_ADDRESS)
        visitor = Visitor(page, running.link)
        expect(visitor.button("Sign out")).to_be_visible()
        expect(page.get_by_role("dialog")).to_be_hidden()
        assert page.url == f"{running.url}/#/"
        addresses = page.evaluate("window.addresses")
        assert addresses
        assert set(addresses) == {f"{running.url}/#/"}, "removed before the first request"
        visitor.say("Hello")
        visitor.sees("Hello! I am no model but a script")
        no_token_left(visitor, running.token)
        SEEN.mkdir(exist_ok=True)
        page.screenshot(path=SEEN / "sign-in-link.png")
        page.go_back()
        assert running.token not in page.url
        page.reload()
        expect(visitor.button("Sign out")).to_be_visible()


def test_wrong_link_shows_the_form_with_a_message(page: Page, browsing: Browsing) -> None:
    browsing.expect_faults("status of 401")
    with on_stage("You may.", token=TOKEN) as stage:
        visitor = Visitor(page, f"{stage.url}/#token=not-the-token-at-all")
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("alert")).to_have_text(
            "The token in the link is wrong. Enter the token of this server."
        )
        no_token_left(visitor, "not-the-token-at-all")
        SEEN.mkdir(exist_ok=True)
        page.screenshot(path=SEEN / "sign-in-wrong-link.png")
        page.get_by_label("Token").fill(TOKEN)
        visitor.button("Sign in").click()
        expect(dialog).to_be_hidden()
        visitor.say("May I?")
        visitor.sees("You may.")


def test_link_opened_in_a_tab_that_asks_for_the_token(page: Page) -> None:
    with on_stage("You may.", token=TOKEN) as stage:
        run_id = stage.client.start("May I?")
        visitor = Visitor(page, f"{stage.url}/#/r/{run_id}")
        expect(page.get_by_label("Token")).to_be_visible()
        page.evaluate(f"location.hash = '#token={TOKEN}'")
        visitor.sees("You may.")
        assert page.url == f"{stage.url}/#/r/{run_id}"
        no_token_left(visitor, TOKEN)


def test_link_opened_where_one_is_signed_in_changes_nothing(page: Page) -> None:
    with on_stage("You may.", token=TOKEN) as stage:
        run_id = stage.client.start("May I?")
        visitor = Visitor(page, f"{stage.url}/#token={TOKEN}")
        expect(visitor.button("Sign out")).to_be_visible()
        page.goto(f"{stage.url}/#/r/{run_id}")
        visitor.sees("You may.")
        visitor.message.fill("Not sent yet")
        page.evaluate("location.hash = '#token=another-token-altogether'")
        page.wait_for_url(f"{stage.url}/#/r/{run_id}")
        visitor.sees("You may.")
        expect(visitor.message).to_have_value("Not sent yet")


def test_server_without_a_token_ignores_the_link(page: Page) -> None:
    with on_stage("You may.") as stage:
        visitor = Visitor(page, f"{stage.url}/#token={TOKEN}")
        visitor.say("May I?")
        visitor.sees("You may.")
        no_token_left(visitor, TOKEN)

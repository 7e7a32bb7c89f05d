"""The page by keyboard, with a screen reader, with reduced motion, and on a phone."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from argstream.models import CallTool, Reply, Say
from tests.page.conftest import Browsing
from tests.page.looking import browser_script
from tests.page.stage import on_stage
from tests.page.visitor import Visitor
from tests.server.talking import eventually

HEAR = browser_script("hear")

# The name of the focused element, and whether it or a parent shows the focus.
FOCUS = browser_script("focus-indicator")

SHIFT = browser_script("watch-shifts")

MOVING = browser_script("count-animations")


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element of this name has the focus, which is visible all the way."""
    for _ in range(40):
        page.keyboard.press("Tab")
        focused, is_seen = page.evaluate(FOCUS)
        assert is_seen, focused
        if focused == name:
            return
    pytest.fail(f"Tab does not reach {name}")


def test_run_is_started_edited_and_approved_by_keyboard(page: Page) -> None:
    call = CallTool("send_mail", {"to": "ada", "subject": "Lunch"})
    with on_stage(call, "It is sent.") as stage:
        visitor = Visitor(page, stage.url)
        expect(visitor.message).to_be_focused()
        page.keyboard.type("Ask Ada")
        page.keyboard.press("Enter")
        expect(visitor.button("Approve")).to_be_visible()
        tab_to(page, "Edit")
        page.keyboard.press("Enter")
        expect(visitor.field("to")).to_be_focused()
        page.keyboard.press("Control+A")
        page.keyboard.type("bob")
        tab_to(page, "Approve with edits")
        expect(visitor.button("Approve with edits")).to_be_enabled()
        page.keyboard.press("Enter")
        visitor.sees("It is sent.")
        assert [done["to"] for _, done in stage.tools.done] == ["bob"]
        assert page.evaluate("document.activeElement !== document.body")


def test_announcements_are_few_complete_sentences(page: Page) -> None:
    story = " ".join(f"Word number {number}." for number in range(400))
    content = "".join(f"line {number}\n" for number in range(400))
    calls = [CallTool("write_file", {"path": f"{n}.txt", "content": content}) for n in range(3)]
    mail = CallTool("send_mail", {"to": "ada"})
    with on_stage(Reply(Say(story), *calls), mail, "It is done.") as stage:
        visitor = Visitor(page, stage.url)
        page.evaluate(HEAR)
        visitor.say("Do a lot")
        visitor.decides(visitor.button("Approve"))
        visitor.sees("It is done.")
        expect(page.get_by_role("status")).to_contain_text("Done.")
        heard = page.evaluate("window.heard")
        assert len(heard) <= 6
        assert any(
            "Needs approval: send_mail ada. Press Alt+A to review." in sentences
            for sentences in heard
        )
        for sentences in heard:
            assert re.fullmatch(r"(?:[A-Z_a-z][^.!?]*[.!?]\s?)+", sentences), sentences
            assert len(sentences) < 300
        live = page.locator("[aria-live], [role=status], [role=log], [role=alert], [role=timer]")
        speaking = [one.get_attribute("role") for one in live.all() if one.text_content()]
        assert speaking == ["status"]


TEXT = Say("A paragraph that goes on for a while, as they do. " * 20)
LINES = "".join(f"line {number} of a file that is long\n" for number in range(300))
WRITE = CallTool("write_file", {"path": "long.txt", "content": LINES})
SEARCH = CallTool("search", {"query": "herons"})
MAIL = CallTool("send_mail", {"to": "ada"})


@pytest.mark.parametrize(
    "turns",
    [(Reply(TEXT, WRITE), SEARCH, MAIL, TEXT), (Reply(TEXT, WRITE, SEARCH, MAIL), TEXT)],
    ids=["in turns", "at once"],
)
def test_layout_does_not_shift_during_a_long_run(page: Page, turns: tuple[Any, ...]) -> None:
    with on_stage(*turns, held=True, piece_size=64) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Do a lot")
        visitor.sees("Do a lot")
        page.evaluate(SHIFT)
        for _ in range(12):
            stage.model.let(24)
            page.evaluate("new Promise((resolve) => setTimeout(resolve, 60))")
        stage.model.let()
        expect(visitor.calls.nth(1)).to_have_attribute("state", "running")
        stage.tools.may_find.set()
        expect(visitor.button("Approve")).to_be_visible()
        expect(visitor.calls.nth(1)).to_have_attribute("state", "completed")
        [run] = stage.client.get("/api/runs").json()["runs"]
        stage.client.decide(run["run"], decision="approve")
        visitor.sees_states("completed", "completed", "completed")
        expect(visitor.button("Send")).to_be_visible()
        shifted: list[Any] = page.evaluate("window.shifted")
        assert sum(shift[0] for shift in shifted) <= 0.01, shifted


def test_reduced_motion_stops_all_animations(browsing: Browsing) -> None:
    with on_stage(SEARCH, "Found.") as stage:
        visitor = Visitor(browsing.page(stage.url, reduced_motion="reduce"))
        visitor.say("Search")
        visitor.sees_states("running")
        assert visitor.page.evaluate(MOVING) == 0
        usual = Visitor(browsing.page(visitor.page.url, reduced_motion="no-preference"))
        usual.sees_states("running")
        eventually(lambda: usual.page.evaluate(MOVING))
        stage.tools.may_find.set()
        usual.sees("Found.")


def test_theme_is_chosen_and_kept(page: Page) -> None:
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    with on_stage() as stage:
        visitor = Visitor(page, stage.url)
        seen = {}
        button = page.get_by_role("button", name=re.compile("Theme"))
        for _ in range(3):
            seen[button.get_attribute("aria-label")] = page.evaluate(paper)
            button.click()
        assert len(seen) == 3
        assert seen["Theme: dark"] != seen["Theme: light"] == seen["Theme: system"]
        button.click()
        button.click()
        page.reload()
        expect(visitor.message).to_be_visible()
        assert page.evaluate(paper) == seen["Theme: dark"]


def test_on_a_phone_the_list_is_in_a_dialog_and_nothing_overflows(browsing: Browsing) -> None:
    wide, phone = "x" * 300, {"width": 360, "height": 740}
    with on_stage(CallTool("write_file", {"path": wide, "content": wide}), wide) as stage:
        page = browsing.page(stage.url, viewport=phone, has_touch=True, is_mobile=True)
        visitor = Visitor(page)
        expect(visitor.sidebar).to_be_hidden()
        visitor.say("Write something wide")
        visitor.sees_states("completed")
        visitor.sees(wide)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert visitor.button("Retry").evaluate("(button) => button.offsetHeight") >= 44
        visitor.button("More actions").click()
        expect(page.get_by_role("menuitem", name="Model: scripted")).to_be_disabled()
        page.keyboard.press("Escape")
        visitor.button("Conversations").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("link", name="Write something wide")).to_be_visible()
        dialog.get_by_role("link", name="New chat").click()
        expect(dialog).to_be_hidden()
        expect(visitor.conversation).not_to_contain_text(wide)

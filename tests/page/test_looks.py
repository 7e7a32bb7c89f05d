"""The main scenes, in light, dark and on a phone: axe finds no problem in them.

Screenshots are kept in ``seen/``. Look at them after a change of the page.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from argstream.models import CallTool, Reply, Say, Think
from tests.cli.test_serve import serve
from tests.page.conftest import Browsing
from tests.page.looking import accessibility_problems, screenshot, settle
from tests.page.recorded import answered_run, keep_run, nested_run
from tests.page.stage import on_stage
from tests.page.visitor import Visitor

HAIKU = '''"""Haiku, counted."""

LINES = ["An old silent pond", "A frog jumps into the pond", "Splash! Silence again."]


def syllables(line: str) -> int:
    # A rough guess: groups of vowels.
    return len(re.findall(r"[aeiouy]+", line.lower()))


for line in LINES:
    print(f"{syllables(line)}  {line}")
'''
MAIL = {
    "to": "ada@example.org",
    "subject": "A haiku for you",
    "body": "Dear Ada,\n\nI have written a haiku.\nIt is about a frog.\n\nYours, Bob",
}
REPLIES = (
    Reply(
        Think("A haiku has three lines of five, seven and five syllables. A frog would be good."),
        Say("I write a small program that counts the syllables, and tell Ada about it."),
        CallTool("write_file", {"path": "haiku.py", "content": HAIKU}),
        CallTool("search", {"query": "haiku about frogs", "limit": 5}),
    ),
    Reply(Say("Now the mail."), CallTool("send_mail", MAIL)),
    "Everything is done: `haiku.py` is written, and Ada knows about it.",
)


class Looking:
    """Takes a screenshot of each scene in each look, and collects what axe finds."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.visitor = Visitor(page)
        self.problems: list[str] = []

    def look(self, scene: str) -> None:
        self.look_wide(scene)
        with self.phone():
            self.look_on_phone(scene)

    def look_wide(self, scene: str) -> None:
        settle(self.page)
        self._check(f"{scene}-light")
        self.page.emulate_media(color_scheme="dark")
        self._check(f"{scene}-dark", runOnly=["color-contrast"])
        self.page.emulate_media(color_scheme="light")

    def look_on_phone(self, scene: str) -> None:
        settle(self.page)
        self._check(f"{scene}-phone", rules={"color-contrast": {"enabled": False}})

    @contextmanager
    def phone(self) -> Iterator[None]:
        """Make the page small and touched, as playwright does for a new context."""
        before = self.page.viewport_size
        assert before is not None
        size: ViewportSize = {"width": 390, "height": 844}
        self.page.set_viewport_size(size)
        session = self.page.context.new_cdp_session(self.page)
        metrics = {**size, "deviceScaleFactor": 2, "mobile": True}
        session.send("Emulation.setDeviceMetricsOverride", metrics)
        session.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
        yield
        session.detach()
        self.page.set_viewport_size(before)

    def _check(self, name: str, **options: Any) -> None:
        screenshot(self.page, name)
        found = accessibility_problems(self.page, **options)
        self.problems += [f"{name}: {one}" for one in found]
        if self.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            self.problems.append(f"{name}: wider than the screen")


@pytest.fixture(scope="module")
def opened(chromium: Browser) -> Iterator[tuple[Page, Browsing]]:
    browsing = Browsing(chromium)
    yield browsing.page(bypass_csp=True), browsing
    browsing.finish()


@pytest.fixture
def looking(opened: tuple[Page, Browsing]) -> Iterator[Looking]:
    page, browsing = opened
    looking = Looking(page)
    yield looking
    page.goto("about:blank")  # the server of the next test may get the same port
    browsing.check()
    assert not looking.problems, "\n".join(looking.problems)


def test_run_from_its_start_to_its_replay(looking: Looking) -> None:
    with on_stage(*REPLIES, held=True) as stage:
        keep_run(stage.store, answered_run("old", "What is a haiku?", "A poem of three lines."))
        page, visitor = looking.page, looking.visitor
        page.goto(stage.url)
        expect(visitor.message).to_be_visible()
        looking.look("empty")
        visitor.say("Write a program about a haiku, and tell Ada.")
        stage.model.let(60)
        expect(visitor.calls).to_contain_text("syllables")
        looking.look("writing")
        stage.model.let()
        visitor.sees_states("completed", "running")
        looking.look("two-at-once")
        stage.tools.may_find.set()
        expect(visitor.button("Approve")).to_be_visible()
        looking.look("pending")
        visitor.button("Edit").click()
        visitor.field("body").fill(MAIL["body"].replace("a frog", "a heron") + "\nand Carol")
        expect(visitor.region("Changes")).to_contain_text("a heron")
        visitor.button("Approve with edits").scroll_into_view_if_needed()
        looking.look("editing")
        visitor.decides(visitor.button("Approve with edits"))
        visitor.sees("Everything is done")
        visitor.sees_states("completed", "completed", "completed")
        looking.look("done")
        visitor.button("Timeline").click()
        rows = page.get_by_role("row")
        rows.filter(has_text="haiku.py").first.hover()
        looking.look("timeline")
        rows.filter(has_text="send_mail").first.click()
        looking.look("inspected-call")
        page.get_by_role("tab", name="Events").click()
        rows.filter(has_text="approval_decided").click()
        looking.look("events")
        page.keyboard.press("Escape")
        visitor.button("Replay").click()
        visitor.button("Pause").click()
        position = page.get_by_role("slider", name="Position")
        position.focus()
        for _ in range(3):
            page.keyboard.press("PageUp")
        expect(visitor.region("Replay").locator("tool-call").first).to_be_visible()
        looking.look("replay")


def test_sub_agents_and_the_list(looking: Looking) -> None:
    with on_stage() as stage:
        for number in range(12):
            prompt = f"Question {number} about frogs, herons and ponds"
            events = answered_run(f"old{number}", prompt, "Yes")
            keep_run(stage.store, events, conversation=f"talk{number}")
        keep_run(stage.store, nested_run("nested"), conversation="nested")
        page, visitor = looking.page, looking.visitor
        page.goto(f"{stage.url}/#/r/nested")
        visitor.sees("It was reviewed.")
        for _ in range(4):
            visitor.calls.get_by_role("button", expanded=False).first.click()
        expect(visitor.calls).to_have_count(4)
        expect(visitor.calls.first).to_contain_text("I look at the lines.")
        deepest = visitor.page.locator("tool-call tool-call tool-call")
        expect(deepest).to_have_count(1)
        expect(deepest).to_contain_text("count")
        looking.look("sub-agents")
        with looking.phone():
            visitor.button("Conversations").click()
            expect(visitor.link("Question")).not_to_have_count(0)
            looking.look_on_phone("list")
            visitor.button("Close").click()
        visitor.link("Question 3").hover()
        page.get_by_role("button", name="Actions for Question 3").click()
        looking.look_wide("menu")
        page.get_by_role("menuitem", name="Delete").click()
        expect(visitor.button("Undo")).to_be_visible()
        looking.look("toast")
        page.get_by_role("button", name="Actions for Question 4").press("Enter")
        page.get_by_role("menuitem", name="Rename").click()
        looking.look_wide("rename")
        visitor.field("Title").press("Escape")
        visitor.button("Keyboard shortcuts").click()
        looking.look("shortcuts")
        visitor.button("Close").click()
        page.goto(f"{stage.url}/#/nowhere")
        visitor.sees("Conversation not found")
        looking.look("not-found")


def test_queue_and_lost_connection(looking: Looking) -> None:
    with on_stage(*REPLIES, held=True) as stage:
        page, visitor = looking.page, looking.visitor
        page.goto(stage.url)
        visitor.say("Write a program about a haiku, and tell Ada.")
        stage.model.let(60)
        expect(visitor.calls).to_contain_text("syllables")
        visitor.say("And then send it to Carol, who has asked for it in her mail of last week")
        visitor.message.fill("And")
        looking.look("queued")
        page.route("**/api/conversations?*", lambda route: route.abort("connectionfailed"))
        page.evaluate("window.dispatchEvent(new Event('online'))")
        expect(visitor.button("Retry now")).to_be_visible()
        looking.look("disconnected")
        page.unroute_all()


def test_sign_in_and_first_visit(
    looking: Looking, opened: tuple[Page, Browsing], tmp_path: Path
) -> None:
    opened[1].expect_errors("status of 401")
    page, visitor = looking.page, looking.visitor
    with serve(tmp_path) as running:
        page.goto(running.url)
        expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
        looking.look("sign-in")
        page.get_by_label("Access token").fill(running.token)
        visitor.button("Sign in").click()
        visitor.sees("Try argstream")
        looking.look("welcome")
        page.goto("about:blank")

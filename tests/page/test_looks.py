"""The main scenes, in light, dark and on a phone: axe finds no problem in them.

Screenshots are kept in ``seen/``. Look at them after a change of the page.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from argstream.models import CallTool, Reply, Say, Think
from tests.page.conftest import Browsing
from tests.page.looking import accessibility_problems, screenshot, settle
from tests.page.recorded import answered_run, keep_run, nested_run
from tests.page.stage import on_stage
from tests.page.visitor import Visitor

PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"color_scheme": "light", "has_touch": True, "is_mobile": True, **PHONE},
}

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
    """A visitor that takes a screenshot of each scene and collects what axe finds."""

    def __init__(self, browsing: Browsing, name: str) -> None:
        self.name = name
        self.page = browsing.page(bypass_csp=True, **LOOKS[name])
        self.visitor = Visitor(self.page)
        self.problems: list[str] = []

    def look(self, scene: str) -> None:
        settle(self.page)
        screenshot(self.page, f"{scene}-{self.name}")
        self.problems += [f"{scene}: {one}" for one in accessibility_problems(self.page)]
        if self.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            self.problems.append(f"{scene}: wider than the screen")


@pytest.fixture(params=list(LOOKS))
def looking(browsing: Browsing, request: pytest.FixtureRequest) -> Iterator[Looking]:
    looking = Looking(browsing, request.param)
    yield looking
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
        looking.look("editing")
        visitor.decides(visitor.button("Approve changes"))
        visitor.sees("Everything is done")
        visitor.sees_states("completed", "completed", "completed")
        looking.look("done")
        visitor.button("Waterfall").click()
        expect(visitor.region("Waterfall")).to_contain_text("haiku.py")
        visitor.region("Waterfall").scroll_into_view_if_needed()
        looking.look("waterfall")
        visitor.button("Waterfall").click()
        visitor.button("Replay").click()
        position = page.get_by_role("slider", name="Position")
        position.focus()
        for _ in range(3):
            page.keyboard.press("PageUp")
        expect(visitor.region("Replay").locator("tool-call").first).to_be_visible()
        looking.look("replay")


def test_sub_agents_and_the_list_of_runs(looking: Looking) -> None:
    with on_stage() as stage:
        for number in range(8):
            prompt = f"Question {number} about frogs, herons and ponds"
            events = answered_run(f"old{number}", prompt, "Yes")
            keep_run(stage.store, events, conversation=f"talk{number}")
        keep_run(stage.store, nested_run("nested"), conversation="nested")
        visitor = looking.visitor
        looking.page.goto(f"{stage.url}/#/r/nested")
        visitor.sees("It was reviewed.")
        for _ in range(4):
            visitor.calls.get_by_role("button", expanded=False).first.click()
        looking.look("sub-agents")
        if looking.name == "phone":
            visitor.button("Runs").click()
        expect(visitor.runs.get_by_role("link", name=re.compile("Question"))).not_to_have_count(0)
        looking.look("list")

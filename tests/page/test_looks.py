"""The main scenes, in light, dark and on a phone: pictures are kept, and axe finds nothing wrong.

The pictures are in ``seen/``: look at them after a change of the page.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from argstream.models import CallTool, Reply, Say, Think
from tests.page.conftest import Browsing
from tests.page.looking import screenshot, settle
from tests.page.runs_by_hand import old_run, run_with_sub_agents
from tests.page.stage import Stage, kept, on_stage
from tests.page.visitor import Visitor
from tests.support import program_is_missing

AXE = Path(__file__).parents[1] / "server/node/node_modules/axe-core/axe.min.js"
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {
        "color_scheme": "light",
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "has_touch": True,
        "is_mobile": True,
    },
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
    """A visitor whose every look is kept as a picture, and judged by axe.

    The policy of the page would forbid axe: it is not in force here.
    """

    def __init__(self, browsing: Browsing, name: str) -> None:
        self.name = name
        self.page = browsing.page(bypass_csp=True, **LOOKS[name])
        self.visitor = Visitor(self.page)
        self.wrong: list[str] = []

    def look(self, scene: str) -> None:
        """Keep a picture, and note what keeps people out: best practices too, not only WCAG."""
        settle(self.page)
        screenshot(self.page, f"{scene.replace(' ', '-')}-{self.name}")
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        self.wrong += [
            f"{scene}: {rule['id']} ({rule['impact']}): {node['target']} {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]
        if self.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            self.wrong.append(f"{scene}: it is wider than the screen")


@pytest.fixture(params=list(LOOKS))
def looking(browsing: Browsing, request: pytest.FixtureRequest) -> Iterator[Looking]:
    if not AXE.exists():
        program_is_missing("axe-core is not installed: make .venv/ready-node installs it")
    looking = Looking(browsing, request.param)
    yield looking
    assert not looking.wrong, "\n".join(looking.wrong)


def test_a_run_looks_well_from_its_beginning_to_its_end(looking: Looking) -> None:
    with on_stage(*REPLIES, held=True) as stage:
        kept(stage.store, "old", list(old_run("old", "What is a haiku?", "A poem of three lines.")))
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
        looking.look("two at once")

        stage.tools.may_find.set()
        expect(visitor.button("Approve")).to_be_visible()
        looking.look("asking")

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


def test_sub_agents_and_the_list_of_runs_look_well(looking: Looking) -> None:
    with on_stage() as stage:
        _fill(stage)
        page, visitor = looking.page, looking.visitor
        page.goto(f"{stage.url}/#/r/nested")
        visitor.sees("It was reviewed.")
        for _ in range(4):
            visitor.calls.get_by_role("button", expanded=False).first.click()
        looking.look("sub-agents")
        if looking.name == "phone":
            visitor.button("Runs").click()
        expect(visitor.runs.get_by_role("link", name=re.compile("Question"))).not_to_have_count(0)
        looking.look("list")


def _fill(stage: Stage) -> None:
    for number in range(8):
        run = list(
            old_run(f"old{number}", f"Question {number} about frogs, herons and ponds", "Yes")
        )
        kept(stage.store, f"old{number}", run, conversation=f"talk{number}")
    kept(stage.store, "nested", list(run_with_sub_agents("nested")), conversation="nested")

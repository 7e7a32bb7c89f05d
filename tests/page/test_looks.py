"""Each scene of the page at three widths, light and dark: axe finds no problem in it.

``make screenshots`` shows all scenes in all looks, and keeps the pictures in ``seen/``. Look at
them after a change of the page. The tests show each story in one of the looks.
"""

import json
import os
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

import httpx
import pytest
from playwright.sync_api import Page, expect

from argstream import events as ev
from argstream.models import CallTool, Reply, Say, Think
from tests.cli.test_serve import serve
from tests.page.conftest import Browsing
from tests.page.looking import accessibility_problems, file_url, screenshot, settle
from tests.page.proxy import proxied
from tests.page.recorded import answered_run, keep_run, nested_run
from tests.page.stage import on_stage
from tests.page.test_conversation import RUNS, change_runs, failed_run, run_with_calls
from tests.page.test_tool_call import STATES, Card
from tests.page.visitor import STAND_STILL, Visitor

PRIMES = files("argstream.cli").joinpath("texts", "primes.py.txt").read_text("utf-8")
BODY = "Dear Ada,\n\nI have written a haiku.\nIt is about a frog.\n\nYours, Bob"
MAIL = {"to": "ada@example.org", "subject": "A haiku for you", "body": BODY}
SEND = CallTool("send_mail", MAIL)
REPLIES = (
    Reply(
        Think("The sieve of Eratosthenes is short."),
        Say("I write a small program, and tell Ada about it."),
        CallTool("write_file", {"path": "primes.py", "content": PRIMES}),
        CallTool("search", {"query": "haiku about frogs", "limit": 5}),
    ),
    Reply(Say("Now the mail."), SEND),
    "Everything is done: `primes.py` is written, and Ada knows about it.",
)
ISSUES = [{"number": number, "title": "Frogs", "labels": ["bug"]} for number in (2, 3, 5)]
EDIT = {"path": "a.py", "old_string": "one\ntwo\n", "new_string": "one\nthree\n"}
RICH = Path(__file__).with_name("markdown").joinpath("rich.txt").read_text()


class Look(NamedTuple):
    width: int
    scheme: Literal["light", "dark"]

    def options(self) -> dict[str, Any]:
        height = {1440: 900, 768: 1024, 390: 844}[self.width]
        is_phone = self.width == 390
        return {
            "viewport": {"width": self.width, "height": height},
            "color_scheme": self.scheme,
            "has_touch": is_phone,
            "is_mobile": is_phone,
            "bypass_csp": True,
        }


LOOKS = [Look(width, scheme) for width in (1440, 768, 390) for scheme in ("light", "dark")]
Story = Callable[[Visitor, Browsing, Path], Iterator[str]]


def whole_run(visitor: Visitor, _browsing: Browsing, _folder: Path) -> Iterator[str]:
    page = visitor.page
    with on_stage(*REPLIES, held=True) as stage:
        keep_run(stage.store, answered_run("old", "What is a haiku?", "A poem of three lines."))
        page.goto(stage.url)
        visitor.sees("What should the agent do?")
        yield "empty"
        visitor.say("Write a program about primes, and tell Ada.")
        stage.model.let(60)
        expect(visitor.calls).to_contain_text("PER_LINE")
        yield "writing"
        stage.model.let()
        visitor.sees_states("completed", "running")
        yield "two-at-once"
        stage.tools.may_find.set()
        expect(visitor.button("Approve")).to_be_visible()
        visitor.button("Approve").evaluate("(button) => button.click()")
        expect(visitor.conversation).to_contain_text("Not yet")
        yield "early-click"
        visitor.button("More ways to approve").click()
        expect(page.get_by_role("menuitem", name="Approve once")).to_be_visible()
        yield "approve-menu"
        page.keyboard.press("Escape")
        visitor.button("Deny").click()
        expect(visitor.field("Tell the agent why (optional)")).to_be_focused()
        yield "deny"
        visitor.button("Cancel").click()
        visitor.button("Edit").click()
        visitor.field("body").fill(BODY.replace("a frog", "a heron") + "\nand Carol")
        expect(visitor.region("Changes")).to_contain_text("a heron")
        yield "editing"
        visitor.decides(visitor.button("Approve with edits"))
        visitor.sees("Everything is done")
        yield "done"
        visitor.opens_panel("Timeline")
        rows = page.get_by_role("row")
        rows.filter(has_text="primes.py").first.hover()
        yield "timeline"
        rows.filter(has_text="send_mail").first.click()
        yield "inspected-call"
        page.get_by_role("tab", name="Events").click()
        rows.first.focus()
        page.keyboard.press("End")
        rows.last.click()
        yield "events"
        page.keyboard.press("Escape")
        visitor.opens_panel("Replay")
        visitor.button("Pause").click()
        for _ in range(3):
            page.get_by_role("slider", name="Position").press("PageUp")
        expect(visitor.region("Replay").locator("tool-call").first).to_be_visible()
        yield "replay"


def stored_runs(visitor: Visitor, browsing: Browsing, _folder: Path) -> Iterator[str]:
    browsing.expect_errors("status of 404")
    page = visitor.page
    stopped: list[ev.Event] = [ev.RunStarted("stopped", "Count"), ev.TextDelta("one two", 0)]
    with on_stage() as stage:
        keep_run(stage.store, failed_run("failed"), conversation="failed")
        keep_run(stage.store, [*stopped, ev.RunStopped("", "stopped")], conversation="stopped")
        keep_run(stage.store, nested_run("nested"), conversation="nested")
        keep_run(stage.store, answered_run("rich", "Explain it", RICH), conversation="rich")
        run_with_calls(10, failed=2).keep(stage.store)
        for name, text in (
            ("failed", "Run failed"),
            ("stopped", "Stopped."),
            ("run_1", "12 tool calls"),
            ("rich", "The end."),
            ("nowhere", "Run not found"),
        ):
            page.goto(f"{stage.url}/#/r/{name}")
            visitor.sees(text)
            if name == "rich":
                expect(page.locator(".prompt")).to_be_in_viewport()  # its start
                prose = visitor.page.locator(".markdown p").first
                assert prose.evaluate("(p) => getComputedStyle(p).font").startswith("16px / 26px")
            yield {"run_1": "group", "rich": "markdown", "nowhere": "not-found"}.get(name, name)
        page.goto(f"{stage.url}/#/r/nested")
        visitor.sees("It was reviewed.")
        for _ in range(4):
            visitor.calls.get_by_role("button", expanded=False).first.click()
        expect(page.locator("tool-call tool-call tool-call")).to_contain_text("count")
        yield "sub-agents"


def approvals(visitor: Visitor, _browsing: Browsing, _folder: Path) -> Iterator[str]:
    calls = CallTool("write_file", {"path": "primes.py", "content": PRIMES * 3}), SEND, SEND
    with on_stage(Reply(Say("line\n\n" * 60), *calls)) as stage:
        visitor.page.goto(stage.url)
        visitor.say("Write to both")
        visitor.sees_states("completed", "pending", "pending")
        yield "pending"
        visitor.page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        expect(visitor.button("Review")).to_be_visible()
        yield "out-of-sight"
        visitor.button("Approve all").click()
        expect(visitor.button("Approve 2 calls")).to_be_enabled()
        yield "checklist"


def lists(visitor: Visitor, _browsing: Browsing, _folder: Path) -> Iterator[str]:
    page = visitor.page
    with on_stage() as stage:
        for number in range(12):
            prompt = f"Question {number} about frogs, herons and ponds"
            events = answered_run(f"old{number}", prompt, "Yes")
            keep_run(stage.store, events, conversation=f"talk{number}")
        page.route("**/api/**", lambda _: None)  # never answered
        page.goto(f"{stage.url}/#/r/old3")
        page.wait_for_timeout(400)  # a fast answer shows no skeleton
        yield "skeleton"
        page.unroute_all()
        page.reload()
        visitor.sees("Yes")
        if visitor.button("Conversations").is_visible():
            visitor.button("Conversations").click()
        expect(visitor.link("Question 3")).to_be_visible()
        yield "list"
        visitor.link("Question 4").hover()
        page.get_by_role("button", name="Actions for Question 4").click()
        yield "menu"
        page.get_by_role("menuitem", name="Delete").click()
        expect(visitor.button("Undo")).to_be_visible()
        yield "toast"
        page.get_by_role("button", name="Actions for Question 5").press("Enter")
        page.get_by_role("menuitem", name="Rename").click()
        yield "rename"
        visitor.field("Title").press("Escape")
        page.evaluate("document.getElementById('shortcuts').showModal()")
        yield "shortcuts"


def lost_connection(visitor: Visitor, _browsing: Browsing, _folder: Path) -> Iterator[str]:
    page = visitor.page
    with (
        on_stage(REPLIES[0], SEND, held=True) as stage,
        proxied(httpx.URL(stage.url).port or 0) as proxy,
    ):
        page.goto(proxy.url)
        visitor.say("Write a program about primes, and tell Ada.")
        stage.model.let(60)
        expect(visitor.calls).to_contain_text("PER_LINE")
        visitor.say("And then send it to Carol, who has asked for it in her mail of last week")
        visitor.message.fill("And")
        yield "queued"
        proxy.cut()
        expect(visitor.button("Retry now")).to_be_visible()
        yield "disconnected"
        said = {"is_driven": False}
        page.route(RUNS, lambda route: change_runs(route, lambda run: run.update(said)))
        proxy.mend()
        page.evaluate("document.getElementById('connection-now').click()")
        visitor.sees("Resuming after a server restart…")
        yield "resuming"
        page.unroute_all()
        stage.tools.may_find.set()
        stage.model.let()
        expect(visitor.button("Approve")).to_be_visible()
        proxy.cut()
        expect(visitor.button("Retry now")).to_be_visible()
        yield "stale-approval"


def first_visit(visitor: Visitor, browsing: Browsing, folder: Path) -> Iterator[str]:
    browsing.expect_errors("status of 401")
    page = visitor.page
    with serve(folder) as running:
        page.goto(running.url)
        expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
        yield "sign-in"
        page.get_by_label("Access token").fill(running.token)
        visitor.button("Sign in").click()
        visitor.sees("Try argstream")
        yield "welcome"
        page.get_by_role("button", name="Fix the tax in prices.py").click()
        visitor.sees("Edited.")
        yield "edited"


def cards(visitor: Visitor, _browsing: Browsing, _folder: Path) -> Iterator[str]:
    """Each state of a card, open and collapsed, and what it shows besides texts."""
    page = visitor.page
    page.goto(file_url("harness/tool-call.html"))
    page.wait_for_selector("html[data-ready]", state="attached")
    for call, *_ in STATES:
        Card(page, f"arguments: {{path: 'a/primes.py', content: 'one\\ntwo'}}, {call}")
        Card(page, call, open=False)
    for given in (EDIT, {"issues": ISSUES}):
        Card(page, f"state: 'completed', arguments: {json.dumps(given)}")
    Card(page, "state: 'running', output: 'x'").element.evaluate("(card) => { card.stale = true; }")
    Card.asking(page, request="rule: 'outside'").button("Deny").click()
    editing = Card.asking(page)
    editing.button("Edit").click()
    editing.field("to").fill("bob")
    editing.field("copies").fill("{")
    expect(editing.changes).to_contain_text("bob")
    Card.asking(page).button("Approve").evaluate(STAND_STILL)
    page.evaluate("answers.push(new Promise(() => {}))")
    visitor.button("Approve").last.click()
    yield "cards"


STORIES: list[Story] = [
    whole_run, stored_runs, approvals, lists, lost_connection, first_visit, cards,
]  # fmt: skip
IS_ALL = os.environ.get("ARGSTREAM_SCREENSHOTS") == "all"
CASES = [
    pytest.param(story, look, id=f"{story.__name__}-{look.width}-{look.scheme}")
    for number, story in enumerate(STORIES)
    for look in (LOOKS if IS_ALL else [LOOKS[(number + 2) % len(LOOKS)]])
]


@pytest.mark.parametrize(("story", "look"), CASES)
def test_scenes_are_accessible(
    story: Story, look: Look, browsing: Browsing, tmp_path: Path
) -> None:
    page: Page = browsing.page(**look.options())
    problems: list[str] = []
    for scene in story(Visitor(page), browsing, tmp_path):
        name = f"{scene}-{look.width}-{look.scheme}"
        settle(page)
        screenshot(page, name, full_page=scene == "cards")
        problems += [f"{name}: {one}" for one in accessibility_problems(page)]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            problems.append(f"{name}: wider than the screen")
    assert not problems, "\n".join(problems)

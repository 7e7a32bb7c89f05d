"""Parts of the page: text that comes in pieces, drafts, the list of runs, hidden tabs."""

import re
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Dialog, Page, expect

from argstream import events as ev
from argstream.models import CallTool, Reply, Say
from tests.page.conftest import Browsing
from tests.page.looking import assert_smooth, browser_script, traced
from tests.page.recorded import START, answered_run, keep_run
from tests.page.stage import on_stage
from tests.page.visitor import Visitor

# A run with much of one thing, shown twice: in steps without any time left, to see how much a step
# adds, and then on the screen.
BURDEN = browser_script("show-large-content")


@pytest.mark.timing
def test_large_content_of_any_kind_is_shown_in_slices(page: Page) -> None:
    def measure(name: str) -> float:
        with traced(page, f"burden-{name}") as tasks:
            shown = page.evaluate(BURDEN, name)
        assert shown["most"] < 8_100, name
        assert shown["isWhole"], name
        assert shown["calls"] == (60 if name == "calls" else 0)
        assert shown["skipped"] > 0 or name == "calls", name
        return tasks[3]  # the test itself has three: it makes the run, and looks at it in the end

    with on_stage() as stage:
        page.goto(stage.url)
        for name in ("fences", "paragraphs", "line", "code", "name", "texts", "calls"):
            assert_smooth(partial(measure, name))


def test_draft_survives_a_reload_and_belongs_to_its_conversation(page: Page) -> None:
    with on_stage("Once.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("First")
        visitor.sees("Once.")
        visitor.message.fill("half a thought")
        page.reload()
        visitor.sees("Once.")
        expect(visitor.message).to_have_value("half a thought")
        visitor.link("New chat").click()
        expect(visitor.message).to_have_value("")
        page.go_back()
        expect(visitor.message).to_have_value("half a thought")


def test_long_conversation_shows_its_newest_runs_first(page: Page) -> None:
    with on_stage() as stage:
        for n in range(13):
            events = answered_run(f"run{n}", f"Question {n}", f"Answer {n}.\n" * 5)
            keep_run(stage.store, events, conversation="long", begun=START + 10 * n)
        visitor = Visitor(page, f"{stage.url}/#/c/long")
        runs, earlier = page.get_by_role("article"), page.get_by_role("button", name="Show earlier")
        expect(runs).to_have_count(10)
        expect(runs.first).to_contain_text("Question 3")
        expect(runs.last).to_contain_text("Answer 12.")
        expect(runs.last).to_be_in_viewport()
        heading = visitor.conversation.get_by_role("heading", level=2).first
        expect(heading).to_have_text("You: Question 3")
        expect(page.get_by_role("heading", level=3, name="Answer")).to_have_count(10)

        # The text that is read stays in place, also at the very top.
        page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        third = "document.querySelector('[aria-label=\"Run: Question 3\"]')"
        before = page.evaluate(f"{third}.getBoundingClientRect().top")
        earlier.press("Enter")
        expect(runs).to_have_count(13)
        moved = before - page.evaluate(f"{third}.getBoundingClientRect().top")
        assert 0 <= moved < 80  # the button itself is gone
        assert page.evaluate("document.activeElement.ariaLabel") == "Run: Question 2"
        expect(runs.first).to_contain_text("Answer 0.")
        expect(earlier).to_have_count(0)


def test_shortcut_focuses_pending_calls_and_a_message_waits_for_them(page: Page) -> None:
    mails = [CallTool("send_mail", {"to": name}) for name in ("ada", "bob")]
    with on_stage(Reply(Say("Two mails."), *mails), "Sent.", "Carl, too.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write to both")
        visitor.sees_states("pending", "pending")
        expect(page).to_have_title("(2) Write to both – argstream")
        for number in (0, 1, 0):
            page.keyboard.press("Alt+a")
            assert visitor.calls.nth(number).evaluate("(call) => call.matches(':focus-within')")
        form = page.get_by_role("form")
        visitor.say("And to Carl")
        expect(form).to_contain_text("Will be sent next")
        for left in (2, 1):
            expect(visitor.button("Approve")).to_have_count(left)
            visitor.decides(visitor.button("Approve").first)
        visitor.sees("Sent.", "And to Carl", "Carl, too.")
        expect(form).not_to_contain_text("sent next")


def test_hidden_pending_call_is_found_and_its_unsent_edit_is_not_lost(page: Page) -> None:
    arguments = {"to": "ada"}
    request = ev.ApprovalRequested("mail", "send_mail", arguments, "digest", "it asks")
    events: list[ev.Event] = [
        ev.RunStarted("deep", "Have it sent"),
        ev.TurnStarted(1),
        ev.ToolCallStarted("outer", 0, "task"),
        ev.ToolArgsCompleted("outer", "task", {}),
        ev.ToolExecutionStarted("outer", "task", "key"),
        ev.ToolCallStarted("mail", 0, "send_mail", parent_id="outer"),
        ev.ToolArgsCompleted("mail", "send_mail", arguments),
        request,
        ev.RunPaused("deep", (request,)),
    ]
    with on_stage() as stage:
        keep_run(stage.store, events)
        visitor = Visitor(page, f"{stage.url}/#/r/deep")
        visitor.sees_states("running", "pending")
        visitor.pill("task").click()
        expect(visitor.button("Approve")).to_be_hidden()
        visitor.button("Review").click()
        expect(visitor.button("Approve")).to_be_visible()
        is_focused = "document.querySelector('tool-call tool-call').matches(':focus-within')"
        page.wait_for_function(is_focused)
        visitor.button("Replay").click()
        expect(visitor.region("Replay")).to_be_visible()
        page.keyboard.press("Alt+a")
        page.wait_for_function(is_focused)
        expect(visitor.region("Replay")).to_have_count(0)

        # The page asks before it discards an edit.
        visitor.button("Edit").click()
        visitor.field("to").fill("bob")
        here, questions = page.url, list[str]()

        def stay(dialog: Dialog) -> None:
            questions.append(dialog.message)
            dialog.dismiss()

        page.once("dialog", stay)
        visitor.link("New chat").click()
        while not questions:
            page.wait_for_timeout(20)  # playwright handles events only in calls like this
        expect(page).to_have_url(here)
        expect(visitor.field("to")).to_have_value("bob")
        with page.expect_event("dialog") as asked:
            page.close(run_before_unload=True)
        assert asked.value.type == "beforeunload"
        with page.expect_event("close"):
            asked.value.accept()


# The list of runs is read every 3 seconds.
READ_LIST_OFTEN = """() => {
  const later = window.setTimeout;
  window.setTimeout = (work, wait, ...more) => later(work, wait === 3000 ? 100 : wait, ...more);
}"""


def test_missing_and_deleted_runs_are_reported(page: Page, browsing: Browsing) -> None:
    browsing.expect_errors("status of 404")
    with on_stage("Once.", "Twice.") as stage:
        visitor, status = Visitor(page), page.get_by_role("status")
        places = {"#/r/nothing": "Run", "#/c/nothing": "Conversation", "#/nothing": "Conversation"}
        for path, kind in places.items():
            page.goto("about:blank")  # otherwise an announcement waits for the one before
            page.goto(f"{stage.url}/{path}")
            heading = page.get_by_role("heading", name=f"{kind} not found", level=2)
            expect(heading).to_be_focused()
            expect(page).to_have_title(f"{kind} not found – argstream")
            expect(status).to_contain_text(f"{kind} not found.")

        page.goto("about:blank")
        page.goto(f"{stage.url}/#/")
        page.evaluate(READ_LIST_OFTEN)
        visitor.say("Forget me")
        visitor.sees("Once.")
        [run] = stage.client.get("/api/runs").json()["runs"]
        stage.client.delete(f"/api/runs/{run['run']}").raise_for_status()
        visitor.sees("This conversation was deleted", "Once.")
        expect(status).to_contain_text("This conversation was deleted")


def test_long_list_scrolls_to_the_current_row_and_covers_nothing(page: Page) -> None:
    with on_stage() as stage:
        for n in range(60):
            events = answered_run(f"run{n}", f"Question {n} " * 5, "Answer.")
            keep_run(stage.store, events, conversation=f"{n}", begun=START + n)
        visitor = Visitor(page, f"{stage.url}/#/r/run20")
        current = visitor.sidebar.locator("[aria-current]")
        expect(current).to_contain_text("Question 20")
        expect(current).to_be_in_viewport(ratio=1)
        expect(visitor.link("New chat")).to_be_in_viewport(ratio=1)
        check_apart(page, "#new", "[aria-current]")
        page.get_by_role("button", name="Show more").press("Enter")
        first_new = visitor.sidebar.get_by_role("link", name=re.compile("^Question 9 "))
        expect(first_new).to_be_focused()

        page.set_viewport_size({"width": 320, "height": 256})
        visitor.button("Conversations").click()
        expect(current).to_be_in_viewport(ratio=1)
        row = ".entry:has([aria-current])"
        page.locator(row).hover()
        check_apart(page, f"{row} .entry-title", f"{row} .entry-more")  # it replaces the time
        visitor.button("Close").click()
        # On a small screen, most of it is for the conversation.
        page.wait_for_function("() => document.querySelector('#scroller').clientHeight > 256 * 0.6")


def check_apart(page: Page, *selectors: str) -> None:
    """Check that two elements overlap by no more than a pixel."""
    boxes: list[Any] = [page.locator(selector).bounding_box() for selector in selectors]
    assert any(
        one["x"] + one["width"] <= other["x"] + 1 or one["y"] + one["height"] <= other["y"] + 1
        for one, other in (boxes, boxes[::-1])
    ), boxes


def test_lost_connection_is_shown_until_it_is_back(page: Page) -> None:
    with on_stage(Say("one two three four"), held=True) as stage:
        visitor, form = Visitor(page, stage.url), page.get_by_role("form")
        page.evaluate(READ_LIST_OFTEN)
        visitor.say("Count")
        expect(form).to_contain_text("Working…")
        lists = re.compile("/api/conversations[?]")
        page.route(lists, lambda route: route.abort("connectionfailed"))
        expect(page.get_by_text("Disconnected. Re")).to_be_visible()
        expect(form).to_contain_text("Disconnected. The run may still be going on")
        page.unroute_all()
        expect(form).to_contain_text("Working…")
        expect(page.locator("#connection-words")).to_have_text("Reconnected.")
        expect(page.locator("#connection")).to_be_hidden()
        stage.model.let()
        visitor.sees("four")


TOKENS = browser_script("show-tokens")


def test_unknown_token_counts_are_left_out(page: Page) -> None:
    with on_stage() as stage:
        page.goto(stage.url)
        for usage, text, title in (
            ([7, 5], "12 tokens", "7 input tokens, 5 output tokens"),
            ([None, 5], "5 tokens", "5 output tokens"),
            ([7, None], "7 tokens", "7 input tokens"),
            ([None, None], "", ""),
        ):
            assert page.evaluate(TOKENS, usage) == [text, title]


# A text whose turn is repeated, after a crash or not.
LOST = browser_script("show-lost-text")


def test_lost_text_says_why_it_is_repeated(page: Page) -> None:
    with on_stage() as stage:
        page.goto(stage.url)
        assert "The server restarted here. Retried below." in page.evaluate(LOST, "crash")
        assert "The connection to the model broke here." in page.evaluate(LOST, "pause")
        assert page.evaluate(browser_script("end-calls")) == [True, False]  # the edit stays open


# A browser without windows cannot hide a tab. Only the timers of live-run.js are shortened, since
# connections have timeouts too.
HIDE = browser_script("hide-tab")


def test_hidden_tab_closes_its_stream_and_resumes_when_shown(page: Page) -> None:
    ask = CallTool("send_mail", {"to": "ada"})
    with on_stage(Reply(Say("A mail."), ask), "It is sent.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        page.evaluate(HIDE)
        visitor.say("Write to Ada")
        expect(visitor.button("Stop")).to_be_visible()
        with page.expect_event("requestfailed", lambda request: "/events" in request.url):
            page.evaluate("window.hide(true)")  # the stream is closed, and the list is polled
        stage.model.let()
        expect(page).to_have_title("(1) Write to Ada – argstream")
        expect(visitor.calls).to_have_count(0)
        page.evaluate("window.hide(false)")
        visitor.sees_states("pending")
        visitor.decides(visitor.button("Approve"))
        visitor.sees("It is sent.")

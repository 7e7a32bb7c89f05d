"""The sidebar, the header and the composer: conversations, their menus, the queue, shortcuts."""

import json
import time
from pathlib import Path

from playwright.sync_api import Page, Response, expect

from argstream import events as ev
from argstream.models import CallTool, Say
from tests.cli.test_serve import serve
from tests.page.conftest import Browsing
from tests.page.recorded import START, answered_run, keep_run
from tests.page.stage import Stage, on_stage
from tests.page.test_everybody import SHIFT, tab_to
from tests.page.test_talking import hold_requests
from tests.page.visitor import Visitor, requests_of


def keep_talk(stage: Stage, title: str, begun: float = START) -> None:
    keep_run(stage.store, answered_run(title, title, "Yes."), conversation=title, begun=begun)


def titles(stage: Stage) -> list[str]:
    listed = stage.client.get("/api/conversations").json()["conversations"]
    return [one["title"] for one in listed]


def test_first_visit_offers_examples_that_the_demo_model_follows(
    browsing: Browsing, tmp_path: Path
) -> None:
    browsing.expect_errors("status of 401")
    with serve(tmp_path) as running:
        visitor = Visitor(browsing.page(), running.link)
        visitor.sees("Demo model – no API key needed", "Try argstream")
        for example, answer in (
            ("Write primes.py", "It needs your approval"),
            ("Fix the tax in prices.py", "Edited."),
            ("Try something forbidden", "The policy blocked the call"),
        ):
            visitor.link("New chat").click()
            visitor.page.get_by_role("button", name=example).click()
            visitor.sees(answer)
            expect(visitor.link(example)).to_be_visible()
        expect(visitor.page.get_by_role("banner")).to_contain_text("Demo model")
    with on_stage() as stage:
        visitor = Visitor(browsing.page(stage.url))
        visitor.sees("What should the agent do?")
        expect(visitor.conversation.get_by_role("button")).to_have_count(0)
        tools = visitor.page.get_by_role("list", name="Tools").get_by_role("listitem")
        expect(tools).to_have_text(["write_file", "send_mail", "search"])


def test_first_load_asks_for_the_list_alone_and_then_only_for_changes(page: Page) -> None:
    requests, answers = requests_of(page), list[int]()

    def note(response: Response) -> None:
        if "/api/" in response.url:
            answers.append(response.status)

    with on_stage() as stage:
        page.on("response", note)
        Visitor(page, stage.url).sees("What should the agent do?")
        asked = {one.split("/api/")[1] for one in requests if "/api/" in one}
        assert asked == {"conversations?limit=50"}
        with page.expect_response("**/api/conversations?*"):
            page.evaluate("window.dispatchEvent(new Event('online'))")
        assert answers[:2] == [200, 304]
        keep_talk(stage, "From elsewhere")
        expect(Visitor(page).link("From elsewhere")).to_be_visible()


def test_conversation_is_renamed_deleted_and_restored_by_keyboard(page: Page) -> None:
    with on_stage() as stage:
        for number in range(3):
            keep_talk(stage, f"Question {number}", START + number)
        visitor = Visitor(page, f"{stage.url}/#/c/Question%201")
        visitor.sees("Question 1", "Yes.")
        actions = visitor.button("Actions for Question 1")
        visitor.link("Question 1").focus()
        tab_to(page, "Actions for Question 1")
        page.keyboard.press("Enter")
        expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("menu")).to_be_hidden()
        expect(actions).to_be_focused()

        for key, title in (("Escape", "Question 1"), ("Enter", "Frogs")):
            actions.press("Enter")
            page.get_by_role("menuitem", name="Rename").press("Enter")
            expect(visitor.field("Title")).to_be_focused()
            page.keyboard.type("Frogs")
            page.keyboard.press(key)
            expect(visitor.link(title)).to_be_focused()
        expect(page).to_have_title("Frogs – argstream")
        expect(page.get_by_role("heading", level=1)).to_have_text("Frogs")
        assert titles(stage) == ["Question 2", "Frogs", "Question 0"]

        visitor.button("Actions for Frogs").press("Enter")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")  # Delete
        expect(visitor.link("Frogs")).to_have_count(0)
        visitor.sees("What should the agent do?")
        expect(visitor.message).to_be_focused()
        expect(page.get_by_role("status")).to_contain_text("Conversation deleted.")
        assert titles(stage) == ["Question 2", "Question 0"]
        visitor.button("Undo").press("Enter")
        expect(visitor.link("Frogs")).to_be_visible()
        visitor.sees("Question 1", "Yes.")
        expect(visitor.button("Undo")).to_be_hidden()

        # The conversation that is open stays open.
        visitor.button("Actions for Question 2").press("Enter")
        page.get_by_role("menuitem", name="Delete").press("Enter")
        expect(visitor.link("Frogs")).to_be_focused()
        visitor.sees("Question 1", "Yes.")


def test_conversations_are_grouped_by_day_and_searched(page: Page) -> None:
    with on_stage() as stage:
        midnight = time.mktime((*time.gmtime()[:3], 0, 0, 0, 0, 0, 0)) - time.timezone + 1
        asking = ev.ApprovalRequested("mail", "send_mail", {}, "digest", "it asks")
        paused: list[ev.Event] = [ev.RunStarted("asks", "May I?"), ev.RunPaused("asks", (asking,))]
        keep_run(stage.store, paused, conversation="asks", begun=START)
        for title, begun in (("Now", midnight), ("Before", midnight - 60), ("Old", START)):
            keep_talk(stage, title, begun)
        visitor = Visitor(page, stage.url)
        groups = {"Needs approval": "May I?", "Today": "Now", "Yesterday": "Before"}
        for group, title in {**groups, "Earlier": "Old"}.items():
            row = visitor.sidebar.get_by_role("list", name=group).get_by_role("listitem")
            expect(row).to_have_count(1)
            expect(row).to_contain_text(title)
        search = page.get_by_role("searchbox", name="Search conversations")
        expect(search).to_be_hidden()
        for number in range(10):
            keep_talk(stage, f"Question {number}")
        expect(search).to_be_visible()
        search.fill("question 7")
        expect(visitor.sidebar.get_by_role("listitem")).to_have_count(1)
        search.fill("nothing")
        expect(visitor.sidebar).to_contain_text("No matches")
        search.fill("")
        expect(visitor.sidebar.get_by_role("listitem")).to_have_count(14)


def test_row_of_the_open_conversation_does_not_wait_for_the_list(page: Page) -> None:
    with on_stage(CallTool("send_mail", {"to": "ada"}), "It is sent.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write to Ada")
        expect(visitor.link("Write to Ada Running")).to_be_visible()
        held = hold_requests(page, "**/api/conversations?*")
        stage.model.let()
        pinned = visitor.sidebar.get_by_role("list", name="Needs approval")
        expect(pinned.get_by_role("listitem")).to_contain_text("Write to Ada")
        visitor.decides(visitor.button("Approve"))
        visitor.sees("It is sent.")
        expect(pinned).to_be_hidden()
        assert held


def test_message_sent_during_a_run_is_queued(page: Page) -> None:
    with on_stage(Say("one two three four"), "And five.", "And six.", held=True) as stage:
        visitor, form = Visitor(page, stage.url), page.get_by_role("form")
        visitor.say("Count")
        expect(visitor.button("Stop")).to_be_visible()
        expect(visitor.button("Send")).to_be_hidden()
        visitor.message.fill("Five")
        visitor.button("Queue message").click()
        visitor.say("please")
        expect(form).to_contain_text("Five")
        expect(form).to_contain_text("Will be sent next")
        expect(visitor.message).to_have_value("")
        page.reload()
        expect(form).to_contain_text("Will be sent next")
        visitor.button("Edit").click()
        expect(visitor.message).to_have_value("Five\n\nplease")
        expect(visitor.message).to_be_focused()
        visitor.button("Queue message").click()
        stage.model.let()
        visitor.sees("four", "please", "And five.")
        expect(form).not_to_contain_text("Five")
        assert len(stage.model.requests) == 2

    with on_stage(Say("one two"), "Never.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        held = hold_requests(page, "**/api/runs")
        with page.expect_request("**/api/runs"):
            visitor.say("Count")
        visitor.message.fill("More")  # is not lost when the conversation gets its ID
        held.pop().continue_()
        visitor.button("Queue message").click()
        expect(visitor.message).to_have_value("")
        visitor.button("Remove").click()
        expect(visitor.message).to_be_focused()
        stage.model.let()
        expect(visitor.button("Send")).to_be_visible()
        expect(visitor.conversation).not_to_contain_text("More")


def test_message_that_was_queued_is_not_lost_with_a_failed_run(page: Page) -> None:
    with on_stage(Say("one two"), "And more.", held=True) as stage:
        visitor, form = Visitor(page, stage.url), page.get_by_role("form")
        visitor.say("Count")
        expect(visitor.button("Stop")).to_be_visible()
        visitor.say("More")
        page.goto(f"{stage.url}/#/")  # it is not sent while the page shows another conversation
        expect(visitor.button("Stop")).to_be_hidden()
        stage.model.let()
        [talk] = stage.client.get("/api/conversations").json()["conversations"]
        stage.client.events(talk["run"])
        page.go_back()
        expect(form).to_contain_text("Not sent")
        visitor.button("Send now").click()
        visitor.sees("And more.")
        expect(form).not_to_contain_text("More")


def test_shortcuts_work_outside_of_fields(page: Page) -> None:
    with on_stage("Yes.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Is it so?")
        visitor.sees("Yes.")
        page.keyboard.type("?/")
        expect(visitor.message).to_have_value("?/")
        visitor.message.fill("")
        visitor.link("Is it so?").focus()
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
        expect(dialog).to_contain_text("Go to the next approval")
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        page.keyboard.press("/")
        expect(visitor.message).to_be_focused()
        page.keyboard.press("Control+k")
        visitor.sees("What should the agent do?")


def test_menu_of_the_header_copies_the_link_and_saves_the_events(browsing: Browsing) -> None:
    with on_stage() as stage:
        keep_talk(stage, "Frogs")
        page = browsing.page(f"{stage.url}/#/c/Frogs", permissions=["clipboard-read"])
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        visitor, more = Visitor(page), page.get_by_role("button", name="More actions")
        visitor.sees("Yes.")
        more.click()
        page.get_by_role("menuitem", name="Copy link").click()
        expect(page.get_by_role("status")).to_contain_text("Link copied.")
        assert page.evaluate("navigator.clipboard.readText()") == page.url
        more.click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name="Download JSON").click()
        saved = json.loads(download.value.path().read_text("utf-8"))
        assert saved["title"] == "Frogs"
        [run] = saved["runs"]
        assert run["events"][0]["event"]["type"] == "run_started"
        # A phone has no room for the buttons.
        page.set_viewport_size({"width": 390, "height": 844})
        expect(visitor.button("Replay")).to_be_hidden()
        more.click()
        page.get_by_role("menuitem", name="Replay").click()
        expect(visitor.region("Replay")).to_be_visible()


def test_drawer_keeps_the_focus_and_gives_it_back(page: Page) -> None:
    with on_stage() as stage:
        keep_talk(stage, "Frogs")
        page.set_viewport_size({"width": 900, "height": 700})
        visitor = Visitor(page, stage.url)
        visitor.button("Conversations").press("Enter")
        drawer = page.get_by_role("dialog", name="Conversations")
        for _ in range(12):
            page.keyboard.press("Tab")
            where = "document.activeElement.closest('dialog, main, form, .top')?.className ?? ''"
            assert page.evaluate(where) in ("side-dialog", "")  # "" is the browser itself
        visitor.button("Actions for Frogs").click()
        page.get_by_role("menuitem", name="Delete").click()
        expect(drawer.get_by_role("button", name="Undo")).to_be_visible()
        drawer.get_by_role("button", name="Undo").click()
        expect(visitor.link("Frogs")).to_be_visible()
        page.keyboard.press("Escape")
        expect(visitor.button("Conversations")).to_be_focused()


def test_loading_does_not_shift_the_layout(page: Page) -> None:
    with on_stage() as stage:
        for number in range(30):
            keep_talk(stage, f"Question {number}", START + number)
        page.goto("about:blank")
        page.add_init_script(f"({SHIFT})()")
        held = hold_requests(page, "**/api/conversations?*")
        visitor = Visitor(page, f"{stage.url}/#/c/Question%209")
        expect(page.locator("#list-loading")).to_be_visible()
        held[0].continue_()
        visitor.sees("Yes.")
        expect(visitor.link("Question 29")).to_be_visible()
        assert sum(shift[0] for shift in page.evaluate("window.shifted")) <= 0.01

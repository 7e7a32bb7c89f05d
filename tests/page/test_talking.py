"""Runs in the page: from the prompt to the answer, each way to end, and the list of runs."""

import re

from playwright.sync_api import Page, Route, expect

from argstream.models import CallTool, Reply, Say, Think
from argstream.server import Limits
from tests.page.conftest import Browsing
from tests.page.recorded import answered_run, keep_run
from tests.page.stage import on_stage
from tests.page.visitor import Visitor

HAIKU = "An old silent pond\nA frog jumps into the pond\nSplash! Silence again.\n"


def hold_requests(page: Page, pattern: str) -> list[Route]:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(pattern, hold)
    return held


def test_call_is_shown_before_its_arguments_which_grow(page: Page) -> None:
    call = CallTool("write_file", {"path": "haiku.txt", "content": HAIKU})
    with on_stage(call, "There it is.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write a haiku")
        visitor.sees("Write a haiku")
        expect(visitor.pill("write_file")).to_be_visible()
        shown = [([], "haiku.txt"), (["haiku.txt", "An old"], "frog"), (["A frog"], "Silence")]
        for pieces, (texts, not_yet) in zip((0, 6, 5), shown, strict=True):
            stage.model.let(pieces)  # of eight characters
            for text in texts:
                expect(visitor.calls).to_contain_text(text)
            expect(visitor.calls).not_to_contain_text(not_yet)
            visitor.sees_states("writing")
        assert not stage.tools.done

        stage.model.let()
        visitor.sees("There it is.")
        visitor.sees_states("completed")
        expect(visitor.pill("write_file")).to_have_attribute("aria-expanded", "false")
        visitor.opens(visitor.pill("write_file"))
        visitor.sees("Silence again.")
        assert stage.tools.done == [("write_file", {"path": "haiku.txt", "content": HAIKU})]
        expect(visitor.calls).to_contain_text(f"wrote {len(HAIKU)} characters to haiku.txt")
        expect(visitor.button("Send")).to_be_visible()
        expect(visitor.message).to_have_value("")


def test_message_sent_before_the_list_is_known_is_answered(page: Page) -> None:
    held = hold_requests(page, "**/api/conversations?*")
    with on_stage("Here I am.", "And again.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Are you there?")
        expect(page.get_by_role("form", name="Message the agent")).to_have_attribute(
            "aria-busy", ""
        )
        with page.expect_request(lambda request: request.method == "POST"):  # and not before
            held.pop().continue_()
        visitor.sees("Are you there?", "Here I am.")
        expect(visitor.message).to_have_value("")

        # In a conversation, too. Text that was typed and not sent is kept.
        page.reload()
        visitor.message.fill("Are you still")
        held.pop().continue_()
        visitor.sees("Here I am.")
        expect(visitor.message).to_have_value("Are you still")
        page.reload()
        expect(visitor.message).to_have_value("Are you still")
        visitor.say("Are you still there?")
        held.pop().continue_()
        visitor.sees("Here I am.", "Are you still there?", "And again.")


def test_concurrent_calls_are_rows_below_collapsed_thinking(page: Page) -> None:
    calls = CallTool("search", {"query": "herons"}), CallTool("search", {"query": "frogs"})
    with on_stage(Reply(Think("It is about a pond."), *calls), "Both were found.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Search for both")
        visitor.sees_states("running", "running")
        one, other = visitor.calls.evaluate_all(
            "(calls) => calls.map((call) => call.getBoundingClientRect().toJSON())"
        )
        assert (one["x"], one["width"]) == (other["x"], other["width"])
        assert one["y"] + one["height"] < other["y"]
        stage.tools.may_find.set()
        visitor.sees_states("completed", "completed")
        visitor.sees("Both were found.")
        for pill, found in zip(visitor.pill("search").all(), ("herons", "frogs"), strict=True):
            visitor.opens(pill)
            visitor.sees(f"found {found}")

        thought = visitor.conversation.get_by_text("It is about a pond.")
        expect(thought).to_be_hidden()
        visitor.conversation.locator("summary", has_text="Thought").click()
        expect(thought).to_be_visible()


def test_run_is_stopped_and_the_next_can_start(page: Page) -> None:
    with on_stage(Say("one two three four"), "Here again.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Count")
        stage.model.let(1)
        visitor.sees("one two")
        held = hold_requests(page, "**/stop")
        visitor.button("Stop").press("Enter")
        expect(visitor.button("Stop")).to_have_attribute("aria-disabled", "true")
        expect(visitor.button("Stop")).to_be_focused()
        held[0].continue_()
        expect(visitor.button("Send")).to_be_visible()
        expect(visitor.message).to_be_focused()
        visitor.sees("Stopped")
        [run] = stage.client.get("/api/runs").json()["runs"]
        assert run["status"] == "stopped"

        stage.model.let()
        visitor.say("Go on")
        visitor.sees("Here again.")
        expect(visitor.conversation).not_to_contain_text("three")


def test_refused_message_is_kept_and_one_with_lines_is_sent(page: Page, browsing: Browsing) -> None:
    browsing.expect_errors("status of 413")
    with on_stage("Here it is.", limits=Limits(max_prompt_chars=20)) as stage:
        visitor = Visitor(page, stage.url)
        long = "A message that is far too long"
        visitor.say(long)
        expect(page.get_by_role("form")).to_contain_text("20")
        expect(visitor.message).to_have_value(long)
        visitor.message.fill("line 1")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("line 2")
        page.keyboard.press("Enter")
        visitor.sees("Here it is.")
        expect(visitor.conversation).not_to_contain_text("far too long")
        [message] = stage.model.requests[0].messages
        assert [getattr(part, "text", "") for part in message.parts] == ["line 1\nline 2"]


def test_conversations_are_listed_opened_and_continued(page: Page) -> None:
    with on_stage("Something new.") as stage:
        for number in range(3):
            events = answered_run(f"old{number}", f"Question {number}", f"Answer {number}")
            keep_run(stage.store, events, conversation=f"talk{number}")
        visitor = Visitor(page, stage.url)
        expect(visitor.link("Question")).to_have_count(3)

        visitor.link("Question 1").click()
        visitor.sees("Question 1", "Answer 1")
        expect(visitor.conversation).not_to_contain_text("Answer 2")
        expect(page).to_have_url(re.compile("old1|talk1"))
        expect(visitor.sidebar.locator("[aria-current]")).to_contain_text("Question 1")
        page.go_back()
        expect(visitor.conversation).not_to_contain_text("Answer 1")
        page.go_forward()
        visitor.sees("Answer 1")

        visitor.say("And now?")
        visitor.sees("Something new.", "Answer 1")
        runs = stage.client.get("/api/runs?conversation=talk1").json()["runs"]
        assert [run["prompt"] for run in runs] == ["And now?", "Question 1"]
        expect(visitor.link("Question 1")).to_contain_text("now")
        expect(visitor.link("And now?")).to_have_count(0)

        visitor.link("New chat").click()
        expect(visitor.conversation).not_to_contain_text("Answer 1")
        expect(visitor.message).to_be_focused()

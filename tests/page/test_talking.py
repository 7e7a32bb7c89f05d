"""A run as a person sees it: from the prompt to the answer, and every way in which it can end."""

import pytest
from playwright.sync_api import Page, Route, expect

from argstream.errors import ProviderFailure
from argstream.models import CallTool, Reply, Say, Think
from argstream.server import Limits
from tests.page.conftest import Browsing
from tests.page.stage import on_stage
from tests.page.visitor import Visitor

HAIKU = "An old silent pond\nA frog jumps into the pond\nSplash! Silence again.\n"


def test_a_pill_is_there_before_the_arguments_and_they_grow_as_they_are_written(
    page: Page,
) -> None:
    call = CallTool("write_file", {"path": "haiku.txt", "content": HAIKU})
    with on_stage(call, "There it is.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write a haiku")
        visitor.sees("Write a haiku")
        visitor.sees_states("writing")
        expect(visitor.pill("write_file")).to_be_visible()
        expect(visitor.calls).not_to_contain_text("haiku.txt")

        stage.model.let(6)  # of eight characters
        expect(visitor.calls).to_contain_text("haiku.txt")
        expect(visitor.calls).to_contain_text("An old")
        expect(visitor.calls).not_to_contain_text("frog")
        visitor.sees_states("writing")

        stage.model.let(5)
        expect(visitor.calls).to_contain_text("A frog")
        expect(visitor.calls).not_to_contain_text("Silence")
        visitor.sees_states("writing")
        assert not stage.tools.done

        stage.model.let()
        visitor.sees("Silence again.", "There it is.")
        visitor.sees_states("completed")
        assert stage.tools.done == [("write_file", {"path": "haiku.txt", "content": HAIKU})]
        expect(visitor.calls).to_contain_text(f"wrote {len(HAIKU)} characters to haiku.txt")
        expect(visitor.button("Send")).to_be_visible()
        expect(visitor.message).to_have_value("")


def test_who_sends_before_the_page_has_opened_sees_the_answer(page: Page) -> None:
    """A slow connection: the page is there, and the server has not yet said whom it knows."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/session", hold)
    with on_stage("Here I am.", "And again.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Are you there?")
        expect(page.get_by_role("form", name="Write a message")).to_have_attribute("aria-busy", "")
        with page.expect_request(lambda request: request.method == "POST"):  # and not before
            held.pop().continue_()
        visitor.sees("Are you there?", "Here I am.")
        expect(visitor.message).to_have_value("")

        # In a conversation, too, and what was only typed stays where it was typed.
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


def test_two_calls_at_once_stand_side_by_side(page: Page) -> None:
    calls = CallTool("search", {"query": "herons"}), CallTool("search", {"query": "frogs"})
    with on_stage(Reply(*calls), "Both were found.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Search for both")
        visitor.sees_states("running", "running")
        one, other = visitor.calls.evaluate_all(
            "(calls) => calls.map((call) => call.getBoundingClientRect().toJSON())"
        )
        assert one["y"] == other["y"]
        assert one["x"] + one["width"] <= other["x"]

        stage.tools.may_find.set()
        visitor.sees_states("completed", "completed")
        visitor.sees("found herons", "found frogs", "Both were found.")


def test_thinking_is_folded_and_can_be_read(page: Page) -> None:
    with on_stage(Reply(Think("It is about a pond."), Say("A pond."))) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("What is it about?")
        visitor.sees("A pond.")
        thought = visitor.conversation.get_by_text("It is about a pond.")
        expect(thought).to_be_hidden()
        visitor.conversation.locator("summary", has_text="Thought").click()
        expect(thought).to_be_visible()


def test_a_run_is_stopped_and_the_next_can_begin(page: Page) -> None:
    with on_stage(Say("one two three four"), "Here again.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Count")
        stage.model.let(1)
        visitor.sees("one two")
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        page.route("**/stop", hold)  # its answer is late
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


def test_a_call_that_is_invalid_is_shown_as_refused_and_is_not_run(page: Page) -> None:
    wrong = CallTool("write_file", {"path": 7, "content": "x"})
    with on_stage(wrong, "I was wrong.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write a file")
        visitor.sees("I was wrong.")
        visitor.sees_states("invalid")
        visitor.opens(visitor.pill("write_file"))
        expect(visitor.calls).to_contain_text("path")
        assert not stage.tools.done


def test_a_call_that_is_cut_is_shown_as_refused_and_is_not_run(page: Page) -> None:
    cut = Reply(CallTool("write_file", '{"path": "a.txt", "content": "hel'), stop="max_tokens")
    with on_stage(cut, "It was too long.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write a file")
        visitor.sees_states("invalid")
        assert not stage.tools.done


def test_a_run_that_fails_says_why(page: Page) -> None:
    failure = ProviderFailure("overloaded", "The provider has no room today.")
    with on_stage(failure) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Hello")
        visitor.sees("Failed", "The provider has no room today.")
        expect(visitor.button("Send")).to_be_visible()


def test_a_message_that_the_server_refuses_is_not_lost(page: Page, browsing: Browsing) -> None:
    browsing.expect_faults("status of 413")
    with on_stage("Here it is.", limits=Limits(max_prompt_chars=20)) as stage:
        visitor = Visitor(page, stage.url)
        long = "A message that is far too long"
        visitor.say(long)
        expect(page.get_by_role("form")).to_contain_text("20")
        expect(visitor.message).to_have_value(long)
        visitor.say("A short one")
        visitor.sees("Here it is.")
        expect(visitor.conversation).not_to_contain_text("far too long")


@pytest.mark.parametrize("lines", [1, 3])
def test_a_message_may_have_lines(page: Page, lines: int) -> None:
    with on_stage("Yes.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.message.click()
        for number in range(lines):
            if number:
                page.keyboard.press("Shift+Enter")
            page.keyboard.type(f"line {number}")
        page.keyboard.press("Enter")
        visitor.sees("Yes.")
        [message] = stage.model.requests[0].messages
        [part] = message.parts
        assert getattr(part, "text", "") == "\n".join(f"line {number}" for number in range(lines))

"""Decisions in the page: approved calls run, denied ones do not, and the first decision counts."""

import re
from contextlib import suppress

from playwright.sync_api import Page, expect

from argstream.history import ResultPart
from argstream.models import CallTool, Reply
from tests.page.conftest import Browsing
from tests.page.stage import Stage, on_stage
from tests.page.visitor import Visitor
from tests.server.talking import eventually

MAIL = {"to": "ada@example.org", "subject": "Lunch", "body": "Today at one?\nAt the pond."}


def results(stage: Stage) -> list[str]:
    """Return the results that the model received, with their notes."""
    parts = (part for message in stage.model.requests[-1].messages for part in message.parts)
    return [f"{part.result} {part.note}" for part in parts if isinstance(part, ResultPart)]


def test_approval_in_one_tab_runs_the_call_and_shows_in_another(page: Page) -> None:
    with on_stage(CallTool("send_mail", MAIL), "It is sent.", held=True) as stage:
        here = Visitor(page, stage.url)
        here.say("Ask Ada for lunch")
        stage.model.let(4)
        here.sees("ada@example.org")
        there = Visitor(page.context.new_page(), page.url)
        there.sees("Ask Ada for lunch", "ada@example.org")
        there.sees_states("writing")
        stage.model.let()
        for visitor in (here, there):
            visitor.sees_states("pending")
            visitor.sees("ada@example.org", "Lunch", "Today at one?", "At the pond.")
            expect(visitor.button("Approve")).to_be_visible()
            expect(visitor.page).to_have_title(re.compile(r"^\(1\) "))
        there.decides(there.button("Approve"))
        for visitor in (here, there):
            visitor.sees_states("completed")
            visitor.sees("It is sent.")
            expect(visitor.page).not_to_have_title(re.compile(r"^\("))
        # Text is painted a frame later, and the duration comes with the list of runs.
        with suppress(AssertionError):
            eventually(lambda: here.text() == there.text(), 10)
        assert here.text() == there.text()
        assert stage.tools.done == [("send_mail", MAIL)]


def test_edit_is_validated_shown_as_a_diff_and_run(page: Page, browsing: Browsing) -> None:
    browsing.expect_errors("status of 422")
    with on_stage(CallTool("send_mail", MAIL), "It is sent.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Ask Ada for lunch")
        visitor.button("Edit").click()
        visitor.button("Edit as JSON").click()
        whole = visitor.field("Arguments as JSON")
        whole.fill('{"to": ')
        expect(whole).to_have_attribute("aria-invalid", "true")
        whole.fill('{"to": 7}')
        visitor.decides(visitor.button("Approve with edits"))
        expect(visitor.calls.get_by_role("alert")).to_contain_text("to")
        assert not stage.tools.done
        whole.fill('{"to": "ada@example.org", "body": "Today at one?\\nAt the pond."}')
        visitor.button("Edit as form").click()
        expect(visitor.field("to")).to_have_value("ada@example.org")
        visitor.field("body").fill("Today at two?\nAt the pond.")
        for text in ("Today at one?", "Today at two?"):
            expect(visitor.region("Changes")).to_contain_text(text)
        visitor.decides(visitor.button("Approve with edits"))
        visitor.sees("It is sent.")
        visitor.opens(visitor.pill("send_mail"))
        visitor.sees("Today at two?")
        edited = MAIL | {"subject": "", "body": "Today at two?\nAt the pond."}
        assert stage.tools.done == [("send_mail", edited)]
        assert "A person changed the arguments" in results(stage)[0]


def test_two_calls_are_decided_separately_and_the_model_gets_the_reason(page: Page) -> None:
    ada, bob = (CallTool("send_mail", {"to": to}) for to in ("ada", "bob"))
    with on_stage(Reply(ada, bob), "Done.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write to both")
        visitor.sees_states("pending", "pending")
        first, second = visitor.calls.nth(0), visitor.calls.nth(1)
        visitor.decides(second.get_by_role("button", name="Approve", exact=True))
        expect(first).to_have_attribute("state", "pending")
        deny = first.get_by_role("button", name="Deny", exact=True)
        deny.click()
        visitor.field("Tell the agent why (optional)").fill("She is on holiday")
        visitor.decides(deny)
        visitor.sees("Done.")
        visitor.sees_states("denied", "completed")
        visitor.opens(visitor.pill("send_mail").first)
        visitor.sees("She is on holiday")
        assert [done["to"] for _, done in stage.tools.done] == ["bob"]
        assert "She is on holiday" in results(stage)[0]

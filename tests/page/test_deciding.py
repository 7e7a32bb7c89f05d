"""A person decides: what is approved is what runs, what is denied does not, once for everybody."""

import re

from playwright.sync_api import BrowserContext, Page, Route, expect

from argstream.history import ResultPart
from argstream.models import CallTool, Reply
from tests.page.conftest import Browsing
from tests.page.stage import Stage, on_stage
from tests.page.visitor import Visitor
from tests.server.talking import eventually

MAIL = {"to": "ada@example.org", "subject": "Lunch", "body": "Today at one?\nAt the pond."}


def told_of(stage: Stage) -> str:
    """Give what the model was told of its call."""
    [part] = (
        part
        for message in stage.model.requests[-1].messages
        for part in message.parts
        if isinstance(part, ResultPart)
    )
    return f"{part.result} {part.note}"


def test_all_arguments_are_shown_and_what_is_approved_runs(page: Page) -> None:
    with on_stage(CallTool("send_mail", MAIL), "It is sent.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Ask Ada for lunch")
        visitor.sees_states("asking")
        visitor.sees("ada@example.org", "Lunch", "Today at one?", "At the pond.")
        expect(page).to_have_title(re.compile(r"^\(1\) "))
        visitor.decides(visitor.button("Approve"))
        visitor.sees("It is sent.")
        visitor.sees_states("completed")
        assert stage.tools.done == [("send_mail", MAIL)]
        expect(page).not_to_have_title(re.compile(r"^\("))


def test_what_was_edited_is_shown_as_a_diff_and_is_what_runs(page: Page) -> None:
    with on_stage(CallTool("send_mail", MAIL), "It is sent.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Ask Ada for lunch")
        visitor.button("Edit").click()
        expect(visitor.field("to")).to_have_value("ada@example.org")
        visitor.field("body").fill("Today at two?\nAt the pond.")
        changes = visitor.region("Changes")
        expect(changes).to_contain_text("Today at one?")
        expect(changes).to_contain_text("Today at two?")
        assert not stage.tools.done
        visitor.decides(visitor.button("Approve changes"))
        visitor.sees("It is sent.")
        assert stage.tools.done == [
            ("send_mail", MAIL | {"body": "Today at two?\nAt the pond."}),
        ]
        visitor.sees("Today at two?")
        assert "A person changed the arguments" in told_of(stage)


def test_an_edit_that_the_tool_does_not_take_is_refused_in_words_and_can_be_mended(
    page: Page, browsing: Browsing
) -> None:
    browsing.expect_faults("status of 422")
    with on_stage(CallTool("send_mail", MAIL), "It is sent.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Ask Ada for lunch")
        visitor.button("Edit").click()
        visitor.button("Edit as JSON").click()
        visitor.field("Arguments as JSON").fill('{"to": ')
        expect(visitor.field("Arguments as JSON")).to_have_attribute("aria-invalid", "true")
        visitor.field("Arguments as JSON").fill('{"to": 7}')
        visitor.decides(visitor.button("Approve changes"))
        expect(visitor.calls.get_by_role("alert")).to_contain_text("to")
        assert not stage.tools.done
        visitor.field("Arguments as JSON").fill('{"to": "bob"}')
        visitor.decides(visitor.button("Approve changes"))
        visitor.sees("It is sent.")
        assert stage.tools.done == [("send_mail", {"to": "bob", "subject": "", "body": ""})]


def test_a_denial_has_a_reason_which_the_model_is_told(page: Page) -> None:
    with on_stage(CallTool("send_mail", MAIL), "Then not.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Ask Ada for lunch")
        visitor.button("Deny").click()
        visitor.field("Reason").fill("She is on holiday")
        visitor.decides(visitor.button("Deny"))
        visitor.sees("Then not.", "She is on holiday")
        visitor.sees_states("denied")
        assert not stage.tools.done
        assert "She is on holiday" in told_of(stage)


def test_of_two_questions_each_is_decided_by_itself(page: Page) -> None:
    ada, bob = ({"to": to} for to in ("ada", "bob"))
    with on_stage(Reply(CallTool("send_mail", ada), CallTool("send_mail", bob)), "Done.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write to both")
        visitor.sees_states("asking", "asking")
        visitor.decides(visitor.calls.nth(1).get_by_role("button", name="Approve", exact=True))
        expect(visitor.calls.nth(0)).to_have_attribute("state", "asking")
        visitor.calls.nth(0).get_by_role("button", name="Deny", exact=True).click()
        visitor.decides(visitor.calls.nth(0).get_by_role("button", name="Deny", exact=True))
        visitor.sees("Done.")
        visitor.sees_states("denied", "completed")
        assert [done["to"] for _, done in stage.tools.done] == ["bob"]


def test_a_second_tab_shows_the_same_and_a_decision_in_one_shows_in_the_other(
    page: Page, context: BrowserContext
) -> None:
    with on_stage(CallTool("send_mail", MAIL), "It is sent.", held=True) as stage:
        here = Visitor(page, stage.url)
        here.say("Ask Ada for lunch")
        stage.model.let(4)
        here.sees("ada@example.org")
        there = Visitor(context.new_page(), page.url)
        there.sees("Ask Ada for lunch", "ada@example.org")
        there.sees_states("writing")
        stage.model.let()
        for visitor in (here, there):
            expect(visitor.button("Approve")).to_be_visible()
        there.decides(there.button("Approve"))
        for visitor in (here, there):
            visitor.sees_states("completed")
            visitor.sees("It is sent.")
        # Words are painted a frame later, and how long it took is told by the list of runs.
        eventually(lambda: here.text() == there.text())
        assert len(stage.tools.done) == 1


def test_who_decides_second_is_told_and_sees_what_was_decided(
    page: Page, browsing: Browsing
) -> None:
    browsing.expect_faults("status of 403")
    with on_stage(CallTool("send_mail", MAIL), "Then not.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Ask Ada for lunch")
        expect(visitor.button("Approve")).to_be_visible()
        [run] = stage.client.get("/api/runs").json()["runs"]
        # Somebody else is quicker, by a moment.
        page.route("**/decisions", lambda route: _decide_first(stage, run["run"], route))
        visitor.decides(visitor.button("Approve"))
        visitor.sees("Then not.")
        visitor.sees_states("denied")
        assert not stage.tools.done


def _decide_first(stage: Stage, run_id: str, route: Route) -> None:
    assert stage.client.decide(run_id, decision="deny", reason="too late").status_code == 202
    route.continue_()

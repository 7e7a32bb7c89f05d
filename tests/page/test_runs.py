"""The runs that there are: an old one is opened, replayed, and told by when each thing came."""

import re

from playwright.sync_api import Page, expect

from tests.page.runs_by_hand import old_run, run_with_sub_agents
from tests.page.stage import kept, on_stage
from tests.page.visitor import Visitor


def test_runs_are_listed_and_an_old_one_is_opened_and_left(page: Page) -> None:
    with on_stage("Something new.") as stage:
        for number in range(3):
            events = old_run(f"old{number}", f"Question {number}", f"Answer {number}")
            kept(stage.store, f"old{number}", list(events), conversation=f"talk{number}")
        visitor = Visitor(page, stage.url)
        links = visitor.runs.get_by_role("link", name="Question")
        expect(links).to_have_count(3)
        expect(links.filter(has_text="Question 1")).to_contain_text("Done")

        links.filter(has_text="Question 1").click()
        visitor.sees("Question 1", "Answer 1")
        expect(visitor.conversation).not_to_contain_text("Answer 2")
        expect(page).to_have_url(re.compile("old1|talk1"))
        expect(visitor.runs.locator("[aria-current]")).to_contain_text("Question 1")

        page.go_back()
        expect(visitor.conversation).not_to_contain_text("Answer 1")
        page.go_forward()
        visitor.sees("Answer 1")

        # What is said here goes on from it, and nobody else hears of it.
        visitor.say("And now?")
        visitor.sees("Something new.", "Answer 1")
        runs = stage.client.get("/api/runs?conversation=talk1").json()["runs"]
        assert [run["prompt"] for run in runs] == ["And now?", "Question 1"]
        expect(visitor.runs.get_by_role("link", name="And now?")).to_be_visible()

        visitor.runs.get_by_role("link", name="New conversation").click()
        expect(visitor.conversation).not_to_contain_text("Answer 1")
        expect(visitor.message).to_be_focused()


def test_what_sub_agents_say_and_call_stands_inside_their_calls(page: Page) -> None:
    with on_stage() as stage:
        kept(stage.store, "nested", list(run_with_sub_agents("nested")))
        visitor = Visitor(page, f"{stage.url}/#/r/nested")
        visitor.sees("It was reviewed.")
        expect(visitor.calls).to_have_count(4)
        outer = visitor.calls.first
        visitor.opens(visitor.pill("task").first)
        expect(outer).to_contain_text("Review the haiku")
        expect(outer.locator("tool-call").filter(has_text="read_file")).to_be_visible()
        expect(outer.get_by_text("I look at the lines.")).to_be_visible()
        deepest = page.locator("tool-call tool-call tool-call")
        expect(deepest).to_have_count(1)
        expect(deepest).to_contain_text("count")


def test_a_run_is_replayed_from_its_log(page: Page) -> None:
    with on_stage() as stage:
        kept(stage.store, "nested", list(run_with_sub_agents("nested")), apart=2.0)
        visitor = Visitor(page, f"{stage.url}/#/r/nested")
        visitor.sees("It was reviewed.")
        visitor.button("Replay").click()
        replay = visitor.region("Replay")
        visitor.button("Pause").click()
        page.get_by_role("slider", name="Position").focus()
        page.keyboard.press("Home")
        expect(replay).not_to_contain_text("I ask somebody.")
        page.keyboard.press("End")
        expect(replay).to_contain_text("It was reviewed.")
        expect(replay.locator("tool-call")).to_have_count(4)
        page.keyboard.press("Home")
        expect(replay.locator("tool-call")).to_have_count(0)
        page.get_by_role("combobox", name="Speed").select_option("20×")
        visitor.button("Play").click()
        expect(replay.locator("tool-call").first).to_have_attribute("state", "completed")
        expect(replay).to_contain_text("It was reviewed.")
        expect(replay.get_by_role("button", name="Approve")).to_have_count(0)
        visitor.button("Leave replay").click()
        expect(replay).to_have_count(0)
        visitor.sees("It was reviewed.")


def test_the_waterfall_says_when_each_argument_could_be_seen(page: Page) -> None:
    with on_stage() as stage:
        kept(stage.store, "nested", list(run_with_sub_agents("nested")))
        visitor = Visitor(page, f"{stage.url}/#/r/nested")
        visitor.sees("It was reviewed.")
        visitor.button("Waterfall").click()
        waterfall = visitor.region("Waterfall")
        for name in ("task", "prompt", "read_file", "path", "count", "line"):
            expect(waterfall.get_by_text(name, exact=True).first).to_be_visible()
        visitor.button("Waterfall").click()
        expect(waterfall).to_be_hidden()

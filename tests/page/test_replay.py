"""The replay of a run: at its own pace or faster, forward and back."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from argstream.models import CallTool, Reply
from tests.page.conftest import Browsing
from tests.page.looking import browser_script
from tests.page.recorded import START, RunScript
from tests.page.stage import Stage, on_stage
from tests.page.visitor import Visitor

PROGRAM = "print('An old silent pond')\n" * 10
# A replay by itself, with a client and a view of the test.
ALONE = browser_script("replay-alone")


def script(waited: float = 300.0) -> RunScript:
    """Return a run that writes a file after an approval, and then answers."""
    run = RunScript("Write a program")
    run.turn()
    run.now += 0.5
    call = run.write("write_file", {"path": "haiku.py", "content": PROGRAM}, 6.0)
    run.end_turn()
    run.approve(call, "write_file", after=waited)
    run.run(call, "write_file", 1.0)
    run.turn()
    run.say("It is written, and it prints a haiku.", 3.0)
    run.end_turn("end_turn")
    run.end()
    return run


def opened(page: Page, stage: Stage) -> tuple[Visitor, Locator]:
    script().keep(stage.store)
    visitor = Visitor(page, f"{stage.url}/#/r/run_1")
    visitor.sees("It is written")
    visitor.button("Replay").click()
    return visitor, visitor.region("Replay")


def expect_position(page: Page, text: str) -> None:
    slider = page.get_by_role("slider", name="Position")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(f"{text}$"))


def test_call_is_written_again_with_shortened_pauses(page: Page) -> None:
    with on_stage() as stage:
        visitor, replay = opened(page, stage)
        call, speed = replay.locator("tool-call"), page.get_by_role("combobox", name="Speed")
        expect(call).to_have_attribute("state", "writing")
        expect(replay).not_to_contain_text("It is written")
        visitor.button("Pause").click()
        expect_position(page, "of 0:12")
        speed.select_option("20×")
        visitor.button("Play").click()
        expect(replay).to_contain_text("It is written, and it prints a haiku.")
        expect_position(page, "0:12 of 0:12")
        expect(call).to_have_attribute("state", "completed")
        # At the end, Play starts again.
        speed.select_option("1×")
        visitor.button("Play").click()
        expect(call).to_have_attribute("state", "writing")
        expect(replay).not_to_contain_text("It is written")


def test_slider_moves_forward_and_back(page: Page) -> None:
    with on_stage() as stage:
        visitor, replay = opened(page, stage)
        visitor.button("Pause").click()
        call, slider = replay.locator("tool-call"), page.get_by_role("slider", name="Position")
        for seconds, state in (("7", "pending"), ("3", "writing"), ("9", "running")):
            slider.fill(seconds)
            expect(call).to_have_attribute("state", state)
            assert replay.get_by_role("button", name="Approve").count() == 0
        expect(visitor.button("Play")).to_be_visible()
        slider.focus()
        page.keyboard.press("End")
        expect(replay).to_contain_text("It is written, and it prints a haiku.")
        page.keyboard.press("Home")
        expect(call).to_have_count(0)
        expect_position(page, "0:00 of 0:12")
        visitor.button("Play").click()
        expect(call).to_have_attribute("state", "writing")


def test_replay_scrolls_along_and_all_else_is_inert(page: Page) -> None:
    with on_stage() as stage:
        page.set_viewport_size({"width": 1000, "height": 500})
        script().keep(stage.store)
        visitor = Visitor(page, f"{stage.url}/#/r/run_1")
        bar, replay = page.get_by_role("group", name="Run status"), visitor.region("Replay")
        expect(bar).to_contain_text("tokens")
        visitor.button("Replay").click()
        page.get_by_role("combobox", name="Speed").select_option("20×")
        expect(replay.get_by_text("It is written, and")).to_be_in_viewport()
        controls = page.get_by_role("group", name="Replay controls")
        expect(controls).to_be_in_viewport(ratio=1)
        assert controls.evaluate("(controls) => controls.offsetHeight") < 50  # one line
        assert page.evaluate("[composer.inert, message.matches(':disabled, [inert] *')]") == [
            True,
            True,
        ]
        assert bar.get_by_role("button").first.evaluate("(one) => one.matches('[inert] *')")
        visitor.button("Exit replay").click()
        assert not page.evaluate("composer.inert")
        expect(replay).to_have_count(0)
        visitor.sees("It is written")
        expect(visitor.button("Replay")).to_be_focused()


def test_unfinished_run_is_replayed_up_to_now(page: Page) -> None:
    call = CallTool("write_file", {"path": "a.py", "content": PROGRAM})
    with on_stage(Reply(call), "Done.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write it")
        stage.model.let(6)
        expect(visitor.calls).to_contain_text("a.py")
        visitor.button("Replay").click()
        replay = visitor.region("Replay")
        controls = page.get_by_role("group", name="Replay controls")
        expect(controls).to_contain_text("so far")
        page.set_viewport_size({"width": 390, "height": 844})
        assert controls.evaluate("(controls) => controls.offsetHeight") < 60  # one line
        expect(visitor.button("Play")).to_be_visible()
        expect(replay.locator("tool-call")).to_have_attribute("state", "writing")
        stage.model.let()
        page.keyboard.press("Escape")
        visitor.sees("Done.")


def start_alone(browsing: Browsing, stage: Stage, run: RunScript) -> Page:
    """Start a replay whose clock moves only by ``page.clock``."""
    page = browsing.page()  # of its own, since a clock stays installed
    page.clock.install(time=START)
    page.goto(stage.url)
    page.clock.pause_at(START + 100)
    page.evaluate("(frames) => { window.frames_ = frames; }", run.frames())
    page.evaluate(f"() => {{ ({ALONE})(frames_); }}")
    for _ in range(200):
        page.clock.run_for(1)
        if page.get_by_role("slider").is_visible():
            return page
    pytest.fail("the replay does not start")


def test_pace_is_that_of_the_run_times_the_speed(browsing: Browsing) -> None:
    with on_stage() as stage:
        run = script(waited=1.0)
        page = start_alone(browsing, stage, run)
        assert page.get_by_role("slider").get_attribute("max") != "1"

        def expect_shown(seconds: float, views: int = 1) -> None:
            due = sum(at <= seconds for at, _ in run.timed)
            # A frame of the screen takes a moment.
            assert page.evaluate("shown.at(-1)") == pytest.approx(due, abs=3)
            assert page.evaluate("views") == views

        for seconds in (1, 2, 3):
            page.clock.run_for(1000)
            expect_shown(seconds)
        page.get_by_role("combobox", name="Speed").select_option("5×")
        page.clock.run_for(1000)
        expect_shown(8)
        page.clock.run_for(2000)
        assert page.evaluate("shown.at(-1)") == len(run.timed)
        # Moving back starts again, in a new view.
        page.get_by_role("slider", name="Position").fill("2")
        page.clock.run_for(100)
        expect_shown(2, views=2)


@pytest.mark.parametrize("leave", ["replay.close()", "replay.stage.remove()"])
def test_replay_stops_when_it_is_left(browsing: Browsing, leave: str) -> None:
    with on_stage() as stage:
        page = start_alone(browsing, stage, script())
        page.clock.run_for(1000)
        page.evaluate(f"() => {{ {leave}; }}")
        shown: Any = page.evaluate("shown.length")
        page.clock.run_for(3000)
        assert page.evaluate("shown.length") == shown

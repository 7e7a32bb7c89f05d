"""The replay of a run: at its pace or faster, forward and back, and nothing of it stays behind."""

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from argstream.models import CallTool, Reply
from tests.page.recorded import RunScript
from tests.page.stage import Stage, on_stage
from tests.page.visitor import Visitor

PROGRAM = "print('An old silent pond')\n" * 10
# A replay of its own, whose client and whose view a test plays.
ALONE = """async (frames) => {
  const { Replay } = await import("/static/page/replay/replay.js");
  window.shown = [];
  window.views = 0;
  const client = {
    async run() { return { seq: frames.length }; },
    async *log() { yield* frames; },
  };
  const makeView = () => {
    window.views += 1;
    const element = document.createElement("div");
    return { element, update: (run) => window.shown.push(run.seq) };
  };
  window.left = 0;
  window.replay = new Replay({ client, runId: "run_1", makeView, onLeave: () => (left += 1) });
  document.querySelector("main").replaceChildren(replay.element);
  await replay.begin();
}"""


def script(waited: float = 300.0) -> RunScript:
    """A file is written after somebody was asked, and something is said."""
    run = RunScript("Write a program")
    run.turn()
    run.now += 0.5
    call = run.write("write_file", {"path": "haiku.py", "content": PROGRAM}, 6.0)
    run.end_turn()
    run.ask(call, "write_file")
    run.decide(call, "write_file", after=waited)
    run.run(call, "write_file", 1.0)
    run.turn()
    run.say("It is written, and it prints a haiku.", 3.0)
    run.end_turn("end_turn")
    run.end()
    return run


def opened(page: Page, stage: Stage) -> tuple[Visitor, Locator]:
    """Open the replay of a run."""
    script().keep(stage.store)
    visitor = Visitor(page, f"{stage.url}/#/r/run_1")
    visitor.sees("It is written")
    visitor.button("Replay").click()
    return visitor, visitor.region("Replay")


def slider(page: Page) -> Locator:
    return page.get_by_role("slider", name="Position")


def test_a_call_is_written_again_while_one_looks(page: Page) -> None:
    with on_stage() as stage:
        visitor, replay = opened(page, stage)
        call = replay.locator("tool-call")
        expect(call).to_have_attribute("state", "writing")
        expect(replay).not_to_contain_text("It is written")
        visitor.button("Pause").click()
        # Five minutes of waiting are two seconds, unless one wants them as they were.
        expect(slider(page)).to_have_attribute("aria-valuetext", re.compile("of 00:12$"))
        expect(replay).to_contain_text("Pauses shortened to 2 s (4 min 58 s less)")
        page.get_by_role("checkbox", name="Play pauses as they were").check()
        expect(slider(page)).to_have_attribute("aria-valuetext", re.compile("of 05:10$"))
        expect(replay.get_by_text("Pauses shortened")).to_be_hidden()
        page.get_by_role("checkbox", name="Play pauses as they were").uncheck()

        page.get_by_role("combobox", name="Speed").select_option("20×")
        visitor.button("Play").click()
        expect(replay).to_contain_text("It is written, and it prints a haiku.")
        expect(slider(page)).to_have_attribute("aria-valuetext", "00:12 of 00:12")
        expect(call).to_have_attribute("state", "completed")
        # Who plays what is over plays it again.
        page.get_by_role("combobox", name="Speed").select_option("0.5×")
        visitor.button("Play").click()
        expect(call).to_have_attribute("state", "writing")
        expect(replay).not_to_contain_text("It is written")


def test_one_goes_forward_and_back(page: Page) -> None:
    with on_stage() as stage:
        visitor, replay = opened(page, stage)
        visitor.button("Pause").click()
        call = replay.locator("tool-call")
        for seconds, state in (("7", "asking"), ("3", "writing"), ("9", "running")):
            slider(page).fill(seconds)
            expect(call).to_have_attribute("state", state)
            assert replay.get_by_role("button", name="Approve").count() == 0
        expect(visitor.button("Play")).to_be_visible()
        slider(page).focus()
        page.keyboard.press("End")
        expect(replay).to_contain_text("It is written, and it prints a haiku.")
        page.keyboard.press("Home")
        expect(call).to_have_count(0)
        expect(slider(page)).to_have_attribute("aria-valuetext", "00:00 of 00:12")


def test_what_is_played_is_in_sight_and_how_the_run_ended_is_not(page: Page) -> None:
    with on_stage() as stage:
        script().keep(stage.store)
        page.set_viewport_size({"width": 1000, "height": 500})
        visitor = Visitor(page, f"{stage.url}/#/r/run_1")
        visitor.sees("It is written")
        bar = page.get_by_role("group", name="This run")
        expect(bar).to_contain_text("Done")
        visitor.button("Waterfall").click()
        expect(visitor.region("Waterfall")).to_contain_text("write_file")
        visitor.button("Replay").click()
        replay = visitor.region("Replay")
        expect(bar).to_contain_text("Replay")
        expect(bar).not_to_contain_text("Done")
        assert (
            bar.locator("time").evaluate("(time) => getComputedStyle(time).visibility") == "hidden"
        )
        page.get_by_role("combobox", name="Speed").select_option("5×")
        expect(replay.get_by_text("It is written, and")).to_be_in_viewport()
        expect(visitor.button("Leave replay")).to_be_in_viewport()
        visitor.button("Leave replay").click()
        expect(bar).to_contain_text("Done")


def test_who_leaves_is_back_at_the_run(page: Page) -> None:
    with on_stage() as stage:
        visitor, replay = opened(page, stage)
        expect(replay.locator("tool-call")).to_have_count(1)
        visitor.button("Leave replay").click()
        expect(replay).to_have_count(0)
        visitor.sees("It is written")
        expect(visitor.button("Replay")).to_be_focused()


def test_a_run_that_goes_on_is_replayed_up_to_now(page: Page) -> None:
    call = CallTool("write_file", {"path": "a.py", "content": PROGRAM})
    with on_stage(Reply(call), "Done.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write it")
        stage.model.let(6)
        expect(visitor.calls).to_contain_text("a.py")
        visitor.button("Replay").click()
        replay = visitor.region("Replay")
        expect(replay).to_contain_text("The run goes on")
        expect(visitor.button("Play")).to_be_visible()
        expect(replay.locator("tool-call")).to_have_attribute("state", "writing")
        stage.model.let()
        visitor.button("Leave replay").click()
        visitor.sees("Done.")


def test_the_pace_is_that_of_the_run_and_nothing_is_left_out(page: Page) -> None:
    with on_stage() as stage:
        page.clock.install(time=1_700_000_000)
        page.goto(stage.url)
        page.clock.pause_at(1_700_000_100)
        frames = script(waited=1.0).frames()
        alone(page, frames)
        for seconds in (1, 2, 3):
            page.clock.run_for(1000)
            assert page.evaluate("shown.at(-1)") == due(frames, seconds)
        page.get_by_role("combobox", name="Speed").select_option("5×")
        page.clock.run_for(1000)
        assert page.evaluate("shown.at(-1)") == due(frames, 8)
        page.clock.run_for(2000)
        assert page.evaluate("shown.at(-1)") == len(frames)
        assert page.evaluate("views") == 1

        # Back: all of it is taken anew, in another view.
        slider(page).fill("2")
        page.clock.run_for(100)
        assert page.evaluate("shown.at(-1)") == due(frames, 2)
        assert page.evaluate("views") == 2


def test_nothing_goes_on_when_it_was_left(page: Page) -> None:
    with on_stage() as stage:
        page.clock.install(time=1_700_000_000)
        page.goto(stage.url)
        page.clock.pause_at(1_700_000_100)
        frames = script().frames()
        for leave in ("replay.close()", "replay.element.remove()"):
            alone(page, frames)
            page.clock.run_for(1000)
            page.evaluate(f"() => {{ {leave}; }}")
            shown = page.evaluate("shown.length")
            page.clock.run_for(3000)
            assert page.evaluate("shown.length") == shown


def alone(page: Page, frames: list[dict[str, Any]]) -> None:
    """Begin a replay, whose clock stands still."""
    page.evaluate("(given) => { window.given = given; }", frames)
    page.evaluate(f"() => {{ window.begun = ({ALONE})(given).then(() => (window.begun = true)); }}")
    for _ in range(200):
        page.clock.run_for(1)
        if page.evaluate("begun === true"):
            return
    raise AssertionError("it does not begin")


def due(frames: list[dict[str, Any]], seconds: float) -> Any:
    """Say which frame is the last that has come after so many seconds, give or take a moment."""
    began = frames[0]["time"]
    seqs = [frame["seq"] for frame in frames if frame["time"] - began <= seconds]
    return _Near(seqs[-1])


class _Near(int):
    """A number of which its neighbours are as good: a frame of the screen takes a moment."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and abs(int(self) - int(other)) <= 3

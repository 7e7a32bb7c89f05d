"""The waterfall of a run: as a table, as bars, and while the run goes on.

``test_timeline`` tests what it computes.
"""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from argstream.models import CallTool, Reply
from tests.page.conftest import Browsing
from tests.page.looking import file_url
from tests.page.recorded import RunScript
from tests.page.stage import Stage, on_stage
from tests.page.visitor import Visitor

PROGRAM = "print('An old silent pond')\n" * 20
HOSTILE = "<img src=x onerror=alert(1)>\u202e"
LOG = re.compile(r"/api/runs/[^/]+/log(\?|$)")
# A panel by itself, with a client of the test. `early` are live frames that come while it reads.
ALONE = """async ({ log, early = [], seq }) => {
  const { WaterfallPanel } = await import("/static/page/waterfall/panel.js");
  window.readings = 0;
  window.logged = log;
  const client = {
    async *log() {
      window.readings += 1;
      yield* window.logged;
      for (const frame of early) window.panel.take(frame);
    },
  };
  window.panel = new WaterfallPanel({ client, runId: "run_1" });
  document.body.replaceChildren(window.panel.element);
  await window.panel.open(seq);
}"""
# The beginning and the end of each bar of a row, in pixels, by its kind.
BARS = """(row) => Object.fromEntries([...row.querySelectorAll(".waterfall-bar")].map((bar) => {
  const { left, right } = bar.getBoundingClientRect();
  return [bar.className.match(/waterfall-(?!bar)(\\w+)/)[1], [left, right]];
}))"""


def script() -> RunScript:
    """Return a run that writes a file after a long wait for an approval, and then answers."""
    run = RunScript("Write a program")
    run.turn()
    run.think("It should print a haiku.", 0.5)
    arguments = {"path": "haiku.py", "content": PROGRAM, "tags": ["a", {"b": 1}]}
    call = run.write("write_file", arguments, 4.0)
    run.end_turn()
    run.approve(call, "write_file", after=600.0)
    run.run(call, "write_file", 0.5)
    run.turn()
    run.say("It is written.", 1.0)
    run.end_turn("end_turn")
    run.end()
    return run


def snapshot_frame(frame: dict[str, Any]) -> dict[str, Any]:
    return {"seq": frame["seq"], "time": frame["time"], "snapshot": {"blocks": []}}


def opened(page: Page, stage: Stage, run: RunScript | None = None) -> Locator:
    (run or script()).keep(stage.store)
    visitor = Visitor(page, f"{stage.url}/#/r/run_1")
    visitor.button("Waterfall").click()
    waterfall = visitor.region("Waterfall")
    expect(waterfall.get_by_role("row").nth(1)).to_be_visible()
    return waterfall


def row(waterfall: Locator, label: str) -> Locator:
    page = waterfall.page
    header = page.get_by_role("rowheader").filter(has=page.get_by_text(label, exact=True))
    return waterfall.get_by_role("row").filter(has=header)


def numbers(waterfall: Locator, label: str) -> list[str]:
    """Return the cells of a row: visible at, settled at, sooner."""
    return row(waterfall, label).get_by_role("cell").all_inner_texts()[:3]


def test_table_and_bars_show_when_each_argument_was_visible(page: Page) -> None:
    with on_stage() as stage:
        waterfall = opened(page, stage)
        expect(waterfall).to_contain_text(
            re.compile(r"The first argument was visible 3\.\d s before the last brace: 4\.0 s of")
        )
        heads = waterfall.get_by_role("columnheader")
        expect(heads).to_have_count(5)
        expect(heads.nth(1)).to_have_text("Visible at")
        table = waterfall.get_by_role("table", name=re.compile("When what of this run"))
        expect(table).to_be_visible()

        path, content = numbers(waterfall, "path"), numbers(waterfall, "content")
        assert [numbers(waterfall, "write_file")[0], path[0]] == ["0:00.50", "0:00.57"]
        assert path[2] == "3.9 s"
        assert path[1] < content[1] < "0:04.50"
        for label, text in (
            ("path", "haiku.py"),
            ("write_file", "waited 10 min 0 s for a person: approved, ran 0.5 s"),
            ("Thinking", "It should print a haiku."),
            ("Text", "It is written."),
        ):
            expect(row(waterfall, label)).to_contain_text(text)
        expect(waterfall).to_contain_text("10 min 0 s are left out")

        rows = [row(waterfall, label) for label in ("write_file", "path", "content")]
        bars, of_path, of_content = (one.evaluate(BARS) for one in rows)
        assert list(bars) == ["call", "waiting", "running"]
        assert list(of_path) == ["written", "readable"]
        (begin, end), waiting = bars["call"], bars["waiting"]
        assert begin < of_path["written"][0] < of_path["written"][1] < of_content["written"][0]
        # An early argument is readable until the call is complete.
        assert of_path["readable"] == pytest.approx([of_path["written"][1], end], abs=3)
        assert end <= waiting[0] + 1 < waiting[1] <= bars["running"][0] + 1
        # The ten minutes are cut out: they take less room than four seconds of writing.
        assert waiting[1] - waiting[0] < end - begin


def test_rows_are_reached_and_unfolded_by_keyboard(page: Page) -> None:
    with on_stage() as stage:
        waterfall = opened(page, stage)
        tags = row(waterfall, "tags")
        expect(row(waterfall, "[1]")).to_have_count(0)
        waterfall.get_by_role("row").nth(1).focus()
        while not tags.evaluate("(row) => row === document.activeElement"):
            page.keyboard.press("ArrowDown")
        expect(waterfall).to_contain_text(re.compile(r"write_file, tags: visible at \d\.\d{3} s"))
        page.keyboard.press("ArrowRight")
        expect(row(waterfall, "[1]")).to_be_visible()
        expect(tags).to_be_focused()
        expect(tags.get_by_role("button")).to_have_attribute("aria-expanded", "true")
        page.keyboard.press("ArrowLeft")
        expect(row(waterfall, "[1]")).to_have_count(0)

        # The rows are one tab stop, which remembers the row.
        page.keyboard.press("Tab")
        assert not waterfall.evaluate("(all) => all.contains(document.activeElement)")
        page.keyboard.press("Shift+Tab")
        expect(tags).to_be_focused()
        page.keyboard.press("End")
        expect(row(waterfall, "Text")).to_be_focused()


def test_many_calls_are_folded_and_shown_on_request(page: Page) -> None:
    run = RunScript()
    run.turn()
    for number in range(110):
        run.write(f"tool_{number}", {"number": number, HOSTILE: HOSTILE}, 0.1)
    run.end_turn()
    run.end()
    with on_stage() as stage:
        waterfall = opened(page, stage, run)
        expect(row(waterfall, "tool_99")).to_be_visible()
        expect(row(waterfall, "tool_100")).to_have_count(0)
        expect(row(waterfall, "number")).to_have_count(0)
        waterfall.get_by_role("button", name="Show 10 more").click()
        expect(row(waterfall, "tool_109")).to_be_visible()
        expect(waterfall.get_by_role("button", name="Show")).to_have_count(0)
        waterfall.get_by_role("button", name="tool_7", exact=True).click()
        expect(row(waterfall, "number")).to_have_count(1)
        expect(waterfall).to_contain_text('["<img src=x onerror=alert(1)>⟦RLO⟧"]')
        expect(waterfall.locator("img")).to_have_count(0)


def test_waterfall_follows_a_running_run(page: Page) -> None:
    call = CallTool("write_file", {"path": "a.py", "content": PROGRAM})
    with on_stage(Reply(call), "Done.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write it")
        expect(visitor.calls).to_have_count(1)
        visitor.button("Waterfall").click()
        waterfall = visitor.region("Waterfall")
        expect(waterfall).to_contain_text("No call of this run is whole yet.")
        expect(row(waterfall, "write_file")).to_contain_text("is being written")
        stage.model.let(5)
        expect(row(waterfall, "path")).to_contain_text("a.py")
        expect(row(waterfall, "content").get_by_role("cell").nth(1)).to_have_text("–")
        stage.model.let()
        expect(waterfall).to_contain_text("of silence were replaced")
        expect(row(waterfall, "Text")).to_contain_text("Done.")
        expect(row(waterfall, "content").get_by_role("cell").nth(1)).not_to_have_text("–")


@pytest.mark.parametrize(
    ("panel", "text"), [("Waterfall", "waited 10 min"), ("Replay", "write_file")]
)
def test_unreadable_log_can_be_tried_again(
    page: Page, browsing: Browsing, panel: str, text: str
) -> None:
    browsing.expect_errors("410")
    problem = {"type": "about:blank", "title": "Gone", "status": 410, "detail": f"gone {HOSTILE}"}
    kind, body = "application/problem+json", json.dumps(problem)
    with on_stage() as stage:
        script().keep(stage.store)
        page.route(LOG, lambda route: route.fulfill(status=410, content_type=kind, body=body))
        visitor = Visitor(page, f"{stage.url}/#/r/run_1")
        visitor.button(panel).click()
        region = visitor.region(panel)
        expect(region).to_contain_text("could not be read. Gone <img")
        page.unroute(LOG)
        region.get_by_role("button", name="Try again").click()
        expect(region).to_contain_text(text)
        expect(region.get_by_text("could not be read")).to_be_hidden()


def test_log_is_read_again_only_if_a_snapshot_is_newer(page: Page) -> None:
    frames = script().frames()
    page.goto(file_url("harness/blank.html"))
    page.evaluate(ALONE, {"log": frames[:6]})
    waterfall = page.get_by_role("region", name="Waterfall")
    expect(row(waterfall, "Turn 1")).to_be_visible()
    page.evaluate("(frames) => frames.forEach((frame) => panel.take(frame))", frames[:6])
    page.evaluate("(frame) => panel.take(frame)", snapshot_frame(frames[5]))
    assert page.evaluate("readings") == 1
    page.evaluate("(frames) => { logged = frames; }", frames)
    page.evaluate("(frame) => panel.take(frame)", snapshot_frame(frames[-1]))
    expect(row(waterfall, "Text")).to_contain_text("It is written.")
    assert page.evaluate("readings") == 2
    assert numbers(waterfall, "path")[2] == "3.9 s"
    page.evaluate("() => { panel.close(); panel.take(logged[0]); }")
    expect(waterfall).to_have_count(0)


@pytest.mark.parametrize(("logged", "is_early"), [(4, False), (4, True), (5, True)])
def test_text_of_a_frame_that_overlaps_the_log_is_shown_once(
    page: Page, logged: int, is_early: bool
) -> None:
    run, text = RunScript(), "one two three four five six"
    run.turn()
    run.say(text, 1.0)
    *frames, last = run.frames()
    assert last["seq"] == 5
    live = {**last, "event": {**last["event"], "text": text}}  # with the two before
    page.goto(file_url("harness/blank.html"))
    log = [*frames, last][:logged]
    page.evaluate(ALONE, {"log": log, "early": [live] if is_early else [], "seq": 2})
    page.evaluate("(frame) => panel.take(frame)", live)
    waterfall = page.get_by_role("region", name="Waterfall")
    expect(row(waterfall, "Text").get_by_role("rowheader")).to_have_text(f"Text{text}")

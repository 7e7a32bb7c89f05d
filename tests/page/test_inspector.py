"""The inspector of a run: its timeline, its calls and its events, also while the run is going on.

``test_timeline`` tests what the timeline computes.
"""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from argstream.models import CallTool, Reply
from tests.page.conftest import Browsing
from tests.page.looking import browser_script, file_url
from tests.page.recorded import RunScript
from tests.page.stage import Stage, on_stage
from tests.page.visitor import Visitor

PROGRAM = "print('An old silent pond')\n" * 20
HOSTILE = "<img src=x onerror=alert(1)>\u202e"
LOG = re.compile(r"/api/runs/[^/]+/log(\?|$)")
# A panel by itself, with a client of the test. `early` are live frames that come while it reads.
ALONE = browser_script("inspector-alone")
# The beginning and the end of each bar of a row, in pixels, by its kind.
BARS = """(row) => Object.fromEntries([...row.querySelectorAll(".timeline-bar")].map((bar) => {
  const { left, right } = bar.getBoundingClientRect();
  return [bar.className.match(/timeline-(?!bar)(\\w+)/)[1], [left, right]];
}))"""

# Pixels between the last bar of a row and its duration.
AFTER = """(row) => row.querySelector(".timeline-seconds").getBoundingClientRect().left -
  Math.max(...[...row.querySelectorAll(".timeline-bar")].map(
    (bar) => bar.getBoundingClientRect().right))"""


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


def inspector_of(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Inspector")


def opened(page: Page, stage: Stage, run: RunScript | None = None) -> Locator:
    (run or script()).keep(stage.store)
    visitor = Visitor(page, f"{stage.url}/#/r/run_1")
    expect(visitor.button("More actions")).to_be_visible()
    visitor.opens_panel("Timeline")
    page.mouse.move(0, 0)  # away from the rows, which would show a tooltip
    inspector = inspector_of(page)
    expect(inspector.get_by_role("row").nth(1)).to_be_visible()
    return inspector


def row(inspector: Locator, label: str) -> Locator:
    header = inspector.page.get_by_role("rowheader")
    name = inspector.page.get_by_text(label, exact=True)
    return inspector.get_by_role("row").filter(has=header.filter(has=name))


def tab(inspector: Locator, name: str) -> Locator:
    return inspector.get_by_role("tab", name=name)


def test_timeline_shows_when_each_argument_was_visible(page: Page) -> None:
    with on_stage() as stage:
        timeline = opened(page, stage)
        summary = timeline.get_by_role("list", name="Summary")
        chips = ["10 min 6 s", "1 call", "200/40 tokens", "first argument 3.9 s early"]
        assert summary.get_by_role("listitem").all_inner_texts() == chips
        expect(timeline).to_contain_text("‖ 10 min 0 s idle time hidden")
        for label, text in (
            ("path", "haiku.py"),
            ("write_file", "haiku.py"),
            ("write_file", "waited 10 min 0 s for approval: approved, ran 0.5 s"),
            ("Thinking", "It should print a haiku."),
            ("Text", "It is written."),
        ):
            expect(row(timeline, label)).to_contain_text(text)
        times = "First seen 0.574 s, Complete 0.648 s, Lead time 3.926 s"
        expect(row(timeline, "path")).to_contain_text(times)
        tooltip = timeline.locator(".timeline-tooltip")
        expect(tooltip).to_be_hidden()
        row(timeline, "path").hover()
        for text in ("First seen0.574 s", "Complete0.648 s", "Lead time3.926 s"):
            expect(tooltip).to_contain_text(text)
        assert {one.evaluate("(row) => row.offsetHeight") for one in rows_of(timeline)} == {24}

        rows = [row(timeline, label) for label in ("write_file", "path", "content")]
        bars, of_path, of_content = (one.evaluate(BARS) for one in rows)
        assert list(bars) == ["call", "waiting", "running"]
        assert list(of_path) == ["written", "readable"]
        (begin, end), waiting = bars["call"], bars["waiting"]
        assert begin < of_path["written"][0] < of_path["written"][1] < of_content["written"][0] + 3
        # An early argument is readable until the call is complete.
        assert of_path["readable"] == pytest.approx([of_path["written"][1], end], abs=3)
        assert end <= waiting[0] + 1 < waiting[1] <= bars["running"][0] + 1
        for label in ("write_file", "path", "Text"):
            after = row(timeline, label).evaluate(AFTER)
            assert after >= 0, f"the duration of {label} covers its last bar"
        # The ten minutes are cut out: they take less room than four seconds of writing.
        assert waiting[1] - waiting[0] < end - begin


def rows_of(inspector: Locator) -> list[Locator]:
    return inspector.get_by_role("row").all()


def test_panel_is_used_by_keyboard(page: Page) -> None:
    with on_stage() as stage:
        inspector = opened(page, stage)
        expect(tab(inspector, "Timeline")).to_be_focused()
        tags = row(inspector, "tags")
        expect(row(inspector, "[1]")).to_have_count(0)
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")  # the button that closes the panel is between
        while not tags.evaluate("(row) => row === document.activeElement"):
            page.keyboard.press("ArrowDown")
        expect(inspector.locator(".timeline-tooltip")).to_contain_text("tags")
        page.keyboard.press("ArrowRight")
        expect(row(inspector, "[1]")).to_be_visible()
        expect(tags).to_be_focused()
        expect(tags).to_have_attribute("aria-expanded", "true")
        page.keyboard.press("ArrowLeft")
        expect(row(inspector, "[1]")).to_have_count(0)
        page.keyboard.press("End")
        expect(row(inspector, "Text")).to_be_focused()
        # Rows are one tab stop, which remembers the row.
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
        expect(row(inspector, "Text")).to_be_focused()

        tab(inspector, "Timeline").focus()
        for key, name in (("ArrowRight", "Call"), ("End", "Events"), ("ArrowRight", "Timeline")):
            page.keyboard.press(key)
            expect(tab(inspector, name)).to_be_focused()
            expect(inspector.get_by_role("tabpanel", name=name)).to_be_visible()
        page.keyboard.press("Escape")
        expect(inspector).to_have_count(0)
        expect(page.get_by_role("button", name="Timeline", exact=True)).to_be_focused()


def test_click_on_a_bar_shows_the_call_and_its_card(page: Page) -> None:
    with on_stage() as stage:
        page.set_viewport_size({"width": 1280, "height": 400})
        inspector = opened(page, stage)
        card = page.get_by_role("region", name="Conversation").locator("tool-call")
        assert card.get_attribute("open") is None
        row(inspector, "content").click()
        expect(card).to_have_attribute("open", "")
        expect(card).to_be_in_viewport()
        call = inspector.get_by_role("tabpanel", name="Call")
        expect(call.get_by_role("heading", name="write_file haiku.py")).to_be_visible()
        for term, text in (
            ("Call ID", "call_0"),
            ("Lead time", "3.926 s"),
            ("Reason", "the policy asks"),
            ("Digest", "digest"),
            ("Decision", "approved"),
        ):
            expect(call.locator(f"dt:text-is('{term}') + dd")).to_have_text(text)
        inspected = call.locator("tool-call")
        expect(inspected).to_contain_text("print('An old silent pond')")
        expect(inspected).to_contain_text("done")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        call.get_by_text("Raw arguments").click()
        call.locator("details").get_by_role("button", name="Copy").click()
        expect(call.get_by_text("Copied")).to_be_visible()
        copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
        assert copied["content"] == PROGRAM


def test_drag_zooms_and_escape_resets(page: Page) -> None:
    with on_stage() as stage:
        timeline = opened(page, stage)
        whole = row(timeline, "content").evaluate(BARS)["written"]
        left, right = row(timeline, "write_file").evaluate(BARS)["call"]
        box = row(timeline, "content").bounding_box()
        assert box is not None
        page.mouse.move(left + 5, box["y"] + 12)
        page.mouse.down()
        page.mouse.move((left + right) / 2, box["y"] + 12, steps=4)
        page.mouse.up()
        expect(timeline.get_by_role("button", name="Reset zoom")).to_be_visible()
        assert row(timeline, "Text").locator(".timeline-bar").count() == 0
        zoomed = row(timeline, "content").evaluate(BARS)["written"]
        assert zoomed[1] - zoomed[0] > 1.2 * (whole[1] - whole[0])
        expect(tab(timeline, "Timeline")).to_have_attribute("aria-selected", "true")
        page.keyboard.press("Escape")
        assert row(timeline, "content").evaluate(BARS)["written"] == pytest.approx(whole, abs=1)
        expect(timeline).to_be_visible()


def test_only_rows_in_sight_are_in_the_page(page: Page) -> None:
    run = RunScript()
    run.turn()
    for number in range(400):
        run.write(f"tool_{number}", {"number": number, HOSTILE: HOSTILE}, 0.1)
    run.end_turn()
    run.end()
    with on_stage() as stage:
        inspector = opened(page, stage, run)
        expect(row(inspector, "tool_0")).to_be_visible()
        expect(row(inspector, "number")).to_have_count(0)
        for name, label, last in (
            ("Timeline", "tool_399", "401"),
            ("Events", "run_completed", "4004"),
        ):
            tab(inspector, name).click()
            rows = inspector.get_by_role("row")
            assert rows.count() < 100
            rows.first.focus()
            page.keyboard.press("End")
            end = row(inspector, label) if name == "Timeline" else rows.last
            expect(end).to_be_focused()
            expect(end).to_contain_text(label)
            expect(end).to_have_attribute("aria-rowindex", last)
            assert rows.count() < 100
        tab(inspector, "Timeline").click()
        row(inspector, "tool_399").click(position={"x": 18, "y": 12})
        expect(row(inspector, "number")).to_have_count(1)
        expect(inspector).to_contain_text('["<img src=x onerror=alert(1)>⟦RLO⟧"]')
        expect(inspector.locator("img")).to_have_count(0)


def test_events_are_filtered_by_call_and_expanded(page: Page) -> None:
    with on_stage() as stage:
        inspector = opened(page, stage)
        row(inspector, "write_file").click()
        tab(inspector, "Events").click()
        expect(inspector).to_contain_text("74 events")
        page.get_by_role("checkbox", name="Only write_file haiku.py").check()
        expect(inspector).to_contain_text("60 events")
        first = inspector.get_by_role("row").first
        expect(first).to_contain_text("tool_call_started")
        first.click()
        expect(first).to_have_attribute("aria-expanded", "true")
        expect(first).to_contain_text('"call_id": "call_0"')
        page.keyboard.press("ArrowLeft")


@pytest.mark.parametrize("width", [1440, 1100, 390])
def test_panel_is_beside_over_or_in_place_of_the_conversation(page: Page, width: int) -> None:
    with on_stage() as stage:
        page.set_viewport_size({"width": width, "height": 800})
        inspector = opened(page, stage)
        box, main = inspector.bounding_box(), page.locator("main").bounding_box()
        assert box is not None
        assert main is not None
        assert box["x"] + box["width"] == width
        is_beside = main["x"] + main["width"] <= box["x"]
        assert is_beside == (width == 1440)
        if width == 390:
            assert box["width"] == 390
            assert inspector.evaluate("(dialog) => dialog.matches(':modal')")
            return
        separator = inspector.get_by_role("separator")
        separator.focus()
        for key, most in (("ArrowLeft", 640), ("ArrowRight", 440)):
            for _ in range(20):
                page.keyboard.press(key)
            expect(separator).to_have_attribute("aria-valuenow", str(most))
            assert inspector.evaluate("(dialog) => dialog.offsetWidth") == most


def test_timeline_follows_a_running_run(page: Page) -> None:
    call = CallTool("write_file", {"path": "a.py", "content": PROGRAM})
    with on_stage(Reply(call), "Done.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write it")
        expect(visitor.calls).to_have_count(1)
        visitor.button("Timeline").click()
        timeline = inspector_of(page)
        expect(row(timeline, "write_file")).to_contain_text("writing")
        stage.model.let(5)
        expect(row(timeline, "path")).to_contain_text("a.py")
        expect(row(timeline, "content")).to_contain_text("Complete –")
        stage.model.let()
        expect(row(timeline, "Text")).to_contain_text("Done.")
        expect(row(timeline, "content")).not_to_contain_text("Complete –")


@pytest.mark.parametrize(
    ("panel", "problem", "text"),
    [
        ("Timeline", "Couldn't load the timeline: Gone <img", "waited 10 min"),
        ("Replay", "Couldn't load the recording: Gone <img", "0:"),
    ],
)
def test_unreadable_log_can_be_tried_again(
    page: Page, browsing: Browsing, panel: str, problem: str, text: str
) -> None:
    browsing.expect_errors("410")
    answer = {"type": "about:blank", "title": "Gone", "status": 410, "detail": f"gone {HOSTILE}"}
    kind, body = "application/problem+json", json.dumps(answer)
    with on_stage() as stage:
        script().keep(stage.store)
        page.route(LOG, lambda route: route.fulfill(status=410, content_type=kind, body=body))
        visitor = Visitor(page, f"{stage.url}/#/r/run_1")
        visitor.button(panel).click()
        controls = page.get_by_role("group", name="Replay controls")
        place = inspector_of(page) if panel == "Timeline" else controls
        expect(place).to_contain_text(problem)
        page.unroute(LOG)
        place.get_by_role("button", name="Retry").click()
        expect(place).to_contain_text(text)
        expect(place.get_by_text("Couldn't load")).to_be_hidden()


def test_log_is_read_again_only_if_a_snapshot_is_newer(page: Page) -> None:
    frames = script().frames()
    page.goto(file_url("harness/blank.html"))
    page.evaluate(ALONE, {"log": frames[:6]})
    inspector = inspector_of(page)
    expect(row(inspector, "Turn 1")).to_be_visible()
    page.evaluate("(frames) => frames.forEach((frame) => inspector.take(frame))", frames[:6])
    page.evaluate("(frame) => inspector.take(frame)", snapshot_frame(frames[5]))
    assert page.evaluate("readings") == 1
    page.evaluate("(frames) => { logged = frames; }", frames)
    page.evaluate("(frame) => inspector.take(frame)", snapshot_frame(frames[-1]))
    expect(row(inspector, "Text")).to_contain_text("It is written.")
    assert page.evaluate("readings") == 2
    expect(row(inspector, "path")).to_contain_text("Lead time 3.926 s")
    page.evaluate("() => { inspector.close(); inspector.take(logged[0]); }")
    expect(inspector).to_have_count(0)


def test_part_of_the_log_is_not_drawn(page: Page) -> None:
    page.goto(file_url("harness/blank.html"))
    page.evaluate("() => { ({ promise: held, resolve: release } = Promise.withResolvers()); }")
    page.evaluate(ALONE, {"log": script().frames()})
    inspector = inspector_of(page)
    tab(inspector, "Timeline").click()
    expect(inspector).to_have_attribute("aria-busy", "true")
    expect(inspector.get_by_role("row")).to_have_count(0)
    page.evaluate("release()")
    expect(row(inspector, "path")).to_be_visible()


@pytest.mark.parametrize(("logged", "is_early"), [(4, False), (4, True), (5, True)])
def test_frame_that_overlaps_the_log_is_shown_once(page: Page, logged: int, is_early: bool) -> None:
    run, text = RunScript(), "one two three four five six"
    run.turn()
    run.say(text, 1.0)
    *frames, last = run.frames()
    assert last["seq"] == 5
    live = {**last, "event": {**last["event"], "text": text}}  # with the two before
    page.goto(file_url("harness/blank.html"))
    log = [*frames, last][:logged]
    page.evaluate(ALONE, {"log": log, "early": [live] if is_early else [], "seq": 2})
    page.evaluate("(frame) => inspector.take(frame)", live)
    header = row(inspector_of(page), "Text").get_by_role("rowheader")
    expect(header).to_have_text(f"Text {text}")

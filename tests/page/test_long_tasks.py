"""The page stays smooth: no task of its main thread computes for more than 50 ms."""

import json

import pytest
from playwright.sync_api import Page, expect

from argstream.models import CallTool
from tests.page.looking import assert_smooth, traced
from tests.page.recorded import keep_run, large_run
from tests.page.stage import on_stage
from tests.page.visitor import Visitor

# Searching a large page is a long task itself, so these look at as little as they can.
IS_COLLAPSED = """async () => {
  const isCollapsed = (call) => call?.getAttribute("state") === "completed" && !call.open;
  const pause = () => new Promise((resolve) => setTimeout(resolve, 50));
  while (!isCollapsed(document.querySelector("tool-call"))) await pause();
}"""
IS_PAINTED = """async () => {
  const { shadowRoot } = document.querySelector("tool-call");
  const last = () => [...shadowRoot.querySelectorAll(".row")].at(-1)?.textContent ?? "";
  const more = () => shadowRoot.querySelector(".cut + .more");
  while (!more()) await new Promise((resolve) => setTimeout(resolve, 50));
  more().click();
  while (!last().endsWith("the end")) await new Promise((resolve) => setTimeout(resolve, 150));
}"""
# Rows that are out of sight are not in the document, but the last ones always are.
SHOWN = """() => {
  const { shadowRoot } = document.querySelector("tool-call");
  return [...shadowRoot.querySelectorAll(".chunk")].at(-1).textContent;
}"""

WATCH_FRAMES = """() => {
  window.frames = [];
  const tick = (last) => requestAnimationFrame((now) => { frames.push(now - last); tick(now); });
  tick(performance.now());
  return new Promise((resolve) => setTimeout(() => resolve(frames.splice(0)), 1000));
}"""
FRAME = 1000 / 60  # milliseconds

FUNCTION = '''def function_{0}(value: int) -> str:
    """Say what {0} is to the value."""
    return f'{{value}} and {0}' if value > {0} else str(value)  # {0}


'''
CONTENTS = {
    "code": "".join(FUNCTION.format(number) for number in range(800)),
    "line": " ".join(f"word{number}" for number in range(10_000)),
    "json": json.dumps([{"name": f"item {n}", "tags": ["a", n, None, True]} for n in range(2_000)]),
}
CONTENTS = {name: f"{content[:80_000]} the end" for name, content in CONTENTS.items()}

pytestmark = pytest.mark.timing


def longest(page: Page, tasks: list[float], content: str) -> float:
    shown = page.evaluate(SHOWN)
    assert shown
    assert content.endswith(shown)
    assert len(tasks) > 100, "the trace is empty"
    assert tasks[0] > 0
    return tasks[0]


@pytest.mark.parametrize("name", ["code", "json"])
def test_large_argument_at_200_deltas_a_second_makes_no_long_task(page: Page, name: str) -> None:
    call = CallTool("write_file", {"path": f"large.{name}", "content": CONTENTS[name]})

    def measure() -> float:
        with on_stage(call, "It is written.", delay=0.005, piece_size=400) as stage:
            visitor = Visitor(page, stage.url)
            expect(visitor.message).to_be_visible()
            with traced(page, name) as tasks:
                visitor.say("Write a large file")
                page.evaluate(IS_COLLAPSED)
                page.evaluate("document.querySelector('tool-call').open = true")
                page.evaluate(IS_PAINTED)
            return longest(page, tasks, CONTENTS[name])

    assert_smooth(measure)


def slow_frame(times: list[float]) -> float:
    """Return the 95th percentile."""
    assert len(times) > 10, "the page has drawn too few frames"
    return sorted(times)[int(0.95 * len(times))]


def test_frames_are_short_while_200_kb_are_written(page: Page) -> None:
    content = "".join(FUNCTION.format(number) for number in range(2_000))[:200_000]
    call = CallTool("write_file", {"path": "large.py", "content": content})

    def measure() -> float:
        with on_stage(call, "It is written.", delay=0.01, piece_size=200) as stage:
            visitor = Visitor(page, stage.url)
            expect(visitor.message).to_be_visible()
            idle = slow_frame(page.evaluate(WATCH_FRAMES))
            visitor.say("Write a large file")
            page.evaluate(IS_COLLAPSED)
            # On a busy machine, the frames of an idle page are late as well.
            return slow_frame(page.evaluate("frames")) / max(1.0, idle / FRAME)

    assert_smooth(measure, 34)


@pytest.mark.parametrize("name", ["code", "line"])
def test_opening_a_run_with_a_large_argument_makes_no_long_task(page: Page, name: str) -> None:
    def measure() -> float:
        with on_stage() as stage:
            keep_run(stage.store, large_run("large", CONTENTS[name]))
            visitor = Visitor(page, stage.url)
            expect(visitor.message).to_be_visible()
            with traced(page, f"opened-{name}") as tasks:
                page.goto(f"{stage.url}/#/r/large")
                page.evaluate(IS_COLLAPSED)
                page.evaluate("document.querySelector('tool-call').open = true")
                page.evaluate(IS_PAINTED)
            return longest(page, tasks, CONTENTS[name])

    assert_smooth(measure)

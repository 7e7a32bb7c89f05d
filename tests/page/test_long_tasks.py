"""The page stays smooth: no task of its main thread computes for more than 50 ms."""

import json

import pytest
from playwright.sync_api import Page, expect

from argstream import Agent
from argstream.models import CallTool, ScriptedModel
from argstream.runs import MemoryStore
from tests.page.looking import traced
from tests.page.recorded import keep_run, large_run
from tests.page.stage import Tools, on_stage
from tests.page.visitor import Visitor
from tests.server.talking import served

# Searching a large page is a long task itself, so these look at as little as they can.
IS_DONE = """async () => {
  const pause = () => new Promise((resolve) => setTimeout(resolve, 100));
  while (document.querySelector("tool-call")?.getAttribute("state") !== "completed") await pause();
}"""
IS_PAINTED = """async () => {
  const { shadowRoot } = document.querySelector("tool-call");
  let before = -1;
  for (let now = 0; now === 0 || now !== before;) {
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 300));
    now = shadowRoot.querySelectorAll(".row").length;
  }
}"""
SHOWN = """() => {
  const rows = document.querySelector("tool-call").shadowRoot.querySelectorAll(".row");
  return [...rows].map((row) => row.textContent).join("");
}"""

FUNCTION = '''def function_{0}(value: int) -> str:
    """Say what {0} is to the value."""
    return f'{{value}} and {0}' if value > {0} else str(value)  # {0}


'''
CONTENTS = {
    "code": "".join(FUNCTION.format(number) for number in range(2_000)),
    "line": " ".join(f"word{number}" for number in range(40_000)),
    "json": json.dumps([{"name": f"item {n}", "tags": ["a", n, None, True]} for n in range(4_000)]),
}
CONTENTS = {name: content[:200_000] for name, content in CONTENTS.items()}

pytestmark = pytest.mark.timing


def check(page: Page, tasks: list[float], content: str) -> None:
    assert page.evaluate(SHOWN) == content
    assert len(tasks) > 100, "the trace is empty"
    assert 0 < tasks[0] < 50, tasks[:8]


@pytest.mark.parametrize("name", CONTENTS)
def test_large_argument_at_200_deltas_a_second_makes_no_long_task(page: Page, name: str) -> None:
    call = CallTool("write_file", {"path": f"large.{name}", "content": CONTENTS[name]})
    model = ScriptedModel(call, "It is written.", delay=0.005, piece_size=400)
    with served(Agent(model, Tools().all(), store=MemoryStore())) as client:
        visitor = Visitor(page, str(client.http.base_url))
        expect(visitor.message).to_be_visible()
        with traced(page, name) as tasks:
            visitor.say("Write a large file")
            page.evaluate(IS_DONE)
            page.evaluate(IS_PAINTED)
        check(page, tasks, CONTENTS[name])


@pytest.mark.parametrize("name", ["code", "line"])
def test_opening_a_run_with_a_large_argument_makes_no_long_task(page: Page, name: str) -> None:
    with on_stage() as stage:
        keep_run(stage.store, large_run("large", CONTENTS[name]))
        visitor = Visitor(page, stage.url)
        expect(visitor.message).to_be_visible()
        with traced(page, f"opened-{name}") as tasks:
            page.goto(f"{stage.url}/#/r/large")
            page.evaluate(IS_DONE)
            page.evaluate("document.querySelector('tool-call').open = true")
            page.evaluate(IS_PAINTED)
        check(page, tasks, CONTENTS[name])

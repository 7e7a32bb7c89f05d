"""Helpers for the tests of the page: screenshots, traces, axe, files without a server, asyncio."""

import asyncio
import json
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, Route

from argstream import sanitise, server
from tests.support import program_is_missing

_HERE = Path(__file__).parent
_STATIC = Path(server.__file__).parent / "static"
_AXE = _HERE.parent / "server/node/node_modules/axe-core/axe.min.js"
SEEN = _HERE / "seen"  # screenshots and traces, ignored by Git

Answer = TypeVar("Answer")

# Large content is painted in slices, one per frame.
_SETTLE = """async () => {
  const count = (root) => {
    let sum = 0;
    for (const element of root.querySelectorAll("*")) {
      sum += element.shadowRoot ? 1 + count(element.shadowRoot) : 1;
    }
    return sum;
  };
  for (let before = -1, now = 0, same = 0; same < 4; before = now) {
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 40)));
    now = count(document);
    same = now === before ? same + 1 : 0;
  }
}"""


def settle(page: Page) -> None:
    """Wait until no more elements are added."""
    page.evaluate(_SETTLE)


def screenshot(page: Page, name: str) -> None:
    SEEN.mkdir(exist_ok=True)
    page.screenshot(path=SEEN / f"{name}.png", animations="disabled", caret="hide")


def run_async(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine in a thread: the browser's driver uses the loop of the main thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result(30)


def accessibility_problems(page: Page) -> list[str]:
    """Return what axe finds: violations of WCAG and of best practices.

    The content security policy would block axe, so the context needs ``bypass_csp``.
    """
    if not _AXE.exists():
        program_is_missing("axe-core is not installed: make .venv/ready-node installs it")
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


# Files without a server

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


def _serve(route: Route) -> None:
    folder, _, name = urlsplit(route.request.url).path[1:].partition("/")
    if folder == "favicon.ico":
        route.fulfill(status=204)
        return
    if name == "visible-table.js":
        body = f"export const table = {json.dumps(sanitise.table())};"
    else:
        body = ((_STATIC if folder == "static" else _HERE / folder) / name).read_text("utf-8")
    kind = f"{_TYPES[Path(name).suffix]}; charset=utf-8"
    route.fulfill(body=body, headers={"content-type": kind, "content-security-policy": _POLICY})


def open_file(context: BrowserContext, path: str) -> Page:
    """Open a file of ``tests/page`` under the policy of the real page."""
    context.route("http://page.test/**", _serve)
    page = context.new_page()
    page.goto(f"http://page.test/{path}")
    return page


# Traces

_CATEGORIES = ["toplevel", "blink.user_timing", "devtools.timeline"]
# A fixed amount of work, to know how slow the machine is at the moment.
_REFERENCE = """() => {
  performance.mark("begin");
  const box = document.body.appendChild(document.createElement("div"));
  box.style.contain = "strict"; // the rest of the page does not matter
  for (let at = 0; at < 1000; at += 1) {
    const line = document.createElement("p");
    line.textContent = `line ${at} of a text`;
    box.append(line);
  }
  box.getBoundingClientRect();
  box.remove();
}"""
_REFERENCE_TIME = 25.0  # milliseconds on an idle machine


@contextmanager
def traced(page: Page, name: str) -> Iterator[list[float]]:
    """Record how many milliseconds each task of the page's main thread takes, the longest first.

    A task is an event ``RunTask`` of Chromium's trace. What counts is ``tdur``, its CPU time, since
    on a busy machine most of the time on the clock is spent waiting. Two corrections make a single
    reading reliable. All times are divided by how much slower the reference task was than on an
    idle machine. Style and layout count with at most 5 ms and 50 µs per element, ten times the
    usual cost: now and then the browser takes 100 ms and more for a few hundred elements.

    The list is filled at the end. The trace is kept as ``seen/trace-….json`` for ui.perfetto.dev.
    """
    tasks: list[float] = []
    SEEN.mkdir(exist_ok=True)
    file = SEEN / f"trace-{name}.json"
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, path=file, categories=_CATEGORIES)
    try:
        page.evaluate(_REFERENCE)
        yield tasks
        page.evaluate("performance.mark('end')")
    finally:
        browser.stop_tracing()
    tasks += _task_times(json.loads(file.read_text())["traceEvents"])


def _task_times(events: list[dict[str, Any]]) -> list[float]:
    timings = [event for event in events if "blink.user_timing" in event["cat"]]
    begin, end = (next(e for e in timings if e["name"] == mark) for mark in ("begin", "end"))
    of_page = [
        event
        for event in events
        if event["ph"] == "X"
        and (event["pid"], event["tid"]) == (begin["pid"], begin["tid"])
        and event["ts"] + event["dur"] > begin["ts"]
        and event["ts"] <= end["ts"]
    ]
    names = ("RunTask", "ThreadControllerImpl::RunTask")
    reference, *tasks = (event for event in of_page if event["name"] in names)
    slowness: float = max(1.0, reference.get("tdur", 0) / 1000 / _REFERENCE_TIME)

    def time_of(event: dict[str, Any]) -> float:
        return float(event.get("tdur", 0)) / 1000 / slowness

    excess = []  # of style and layout, with the time at which they began
    for event in of_page:
        if event["name"] in ("UpdateLayoutTree", "Layout"):
            given = event.get("args", {})
            elements = given.get("elementCount") or given.get("beginData", {}).get("dirtyObjects")
            excess.append((event["ts"], max(0.0, time_of(event) - 5 - 0.05 * (elements or 0))))
    times = [
        time_of(task)
        - sum(more for at, more in excess if task["ts"] <= at < task["ts"] + task["dur"])
        for task in tasks
    ]
    return sorted(times, reverse=True)

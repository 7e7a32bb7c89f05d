"""Helpers for the tests of the page: screenshots, traces, axe, files of the tests, asyncio."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from playwright.sync_api import Page

from argstream import server
from tests.support import program_is_missing

_HERE = Path(__file__).parent
_STATIC = Path(server.__file__).parent / "static"
_AXE = _HERE.parent / "server/node/node_modules/axe-core/axe.min.js"
SEEN = _HERE / "seen"  # screenshots and traces, ignored by Git

Answer = TypeVar("Answer")


def browser_script(name: str) -> str:
    """Return a function of ``tests/page/scripts``, to be evaluated in the page."""
    return (_HERE / f"scripts/{name}.js").read_text("utf-8")


def settle(page: Page) -> None:
    """Wait until no more elements are added: large content is painted in slices, one per frame."""
    page.evaluate(browser_script("settle"))


def screenshot(page: Page, name: str, **options: Any) -> None:
    SEEN.mkdir(exist_ok=True)
    page.screenshot(path=SEEN / f"{name}.png", animations="disabled", caret="hide", **options)


def run_async(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine in a thread: the browser's driver uses the loop of the main thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result(30)


def accessibility_problems(page: Page, **options: Any) -> list[str]:
    """Return what axe finds: violations of WCAG and of best practices. Options are those of axe.

    The content security policy would block axe, so the context needs ``bypass_csp``.
    """
    if not _AXE.exists():
        program_is_missing("axe-core is not installed: make .venv/ready-node installs it")
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.read_text("utf-8"))
    run = "async (options) => (await axe.run(document, options)).violations"
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['failureSummary']}"
        for rule in page.evaluate(run, {"resultTypes": ["violations"], **options})
        for node in rule["nodes"]
    ]


# Files of the tests, under the policy of the real page

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        folder, _, name = self.path[1:].partition("/")
        if folder == "favicon.ico":
            body = b""
        else:
            body = ((_STATIC if folder == "static" else _HERE / folder) / name).read_bytes()
        kind = _TYPES.get(Path(name).suffix, "image/png")
        self.send_response(200)
        self.send_header("content-type", f"{kind}; charset=utf-8")
        self.send_header("content-length", f"{len(body)}")
        self.send_header("content-security-policy", _POLICY)
        self.send_header("cache-control", "max-age=3600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


_ports: list[int] = []  # of the running server


@contextmanager
def files_served() -> Iterator[None]:
    """Serve the files of ``tests/page`` and of the page. The browser caches them."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        _ports.append(server.server_port)
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield
        server.shutdown()
        _ports.remove(server.server_port)


def file_url(path: str) -> str:
    return f"http://127.0.0.1:{_ports[0]}/{path}"


# Traces

_CATEGORIES = ["toplevel", "blink.user_timing", "devtools.timeline"]
_LONG_TASK = 50.0  # milliseconds
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
        # A fixed amount of work, to know how slow the machine is at the moment.
        page.evaluate(browser_script("reference-task"))
        yield tasks
        page.evaluate("performance.mark('end')")
    finally:
        browser.stop_tracing()
    tasks += _task_times(json.loads(file.read_text())["traceEvents"])


def assert_smooth(measure: Callable[[], float], most: float = _LONG_TASK) -> None:
    """Check that the longest task that ``measure`` returns is below 50 ms.

    Other tests run at the same time. So the best of three attempts counts.
    """
    times: list[float] = []
    while not times or min(times) >= most:
        assert len(times) < 3, f"each attempt was too slow: {times} ms"
        times.append(measure())


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

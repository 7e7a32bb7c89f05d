"""docs/web.md: the building blocks in a plain page, and as an npm package in React and Vue."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Page, expect

from argstream import server
from argstream.models import CallTool, Reply, Say
from tests.documents import Document
from tests.page.conftest import Browsing
from tests.page.stage import Stage, on_stage
from tests.page.visitor import STAND_STILL
from tests.server.nodes import run_node_on

DOCUMENT = Document("docs/web.md")
STATIC = Path(server.__file__).with_name("static")
APP = {
    "index.html": '<div id="app"></div><script type="module" src="./main.js"></script>',
    "react.jsx": DOCUMENT.block('from "react"', language="jsx"),
    "vue.js": DOCUMENT.block('from "vue"', language="js"),
    "main.js": """
        import { createElement } from "react";
        import { createRoot } from "react-dom/client";
        import { createApp } from "vue";
        import { Answer as ReactAnswer } from "./react.jsx";
        import { Answer as VueAnswer } from "./vue.js";

        const props = { base: location.hash.slice(1), message: "Write to Ada" };
        const place = document.querySelector("#app");
        if (location.search === "?vue") createApp(VueAnswer, props).mount(place);
        else createRoot(place).render(createElement(ReactAnswer, props));
    """,
    "types.ts": DOCUMENT.block("type Call", language="ts")
    + """
        const isCall = (block: object): block is Call => "callId" in block;
        const names = (run: Run): string[] => run.blocks.filter(isCall).map((call) => call.name);
        const element = document.createElement("tool-call");
        element.addEventListener("decision", (event) => {
          event.respondWith(new Client({ token: "a" }).decide("run_1", event.decisions));
        });
        // @ts-expect-error: the types are checked
        names("run");
    """,
}
ANSWER = Reply(Say("I write to Ada."), CallTool("send_mail", {"to": "ada", "body": "Hello!"}))


@contextmanager
def files_of(folder: Path) -> Iterator[str]:
    """Serve a folder from another origin than the agent."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as served:
        Thread(target=served.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


def approve(page: Page, stage: Stage) -> None:
    """Approve the call that the page shows, and check that it has run."""
    expect(page.get_by_text("I write to Ada.")).to_be_visible()
    button = page.locator("tool-call").get_by_role("button", name="Approve", exact=True)
    button.evaluate(STAND_STILL)
    button.click()
    expect(page.locator('tool-call[state="completed"]')).to_be_visible()
    expect(page.get_by_text("Sent.")).to_be_visible()
    assert stage.tools.done == [("send_mail", {"to": "ada", "subject": "", "body": "Hello!"})]


def test_plain_page_of_another_origin_shows_a_call_and_decides(
    browsing: Browsing, tmp_path: Path
) -> None:
    (tmp_path / "index.html").write_text(DOCUMENT.block("Plain page", language="html"))
    with files_of(tmp_path) as origin, on_stage(ANSWER, "Sent.", origins=(origin,)) as stage:
        page = browsing.context().new_page()
        page.goto(f"{origin}/#{stage.url}/")
        approve(page, stage)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("tar") is None:
        pytest.fail("tar is missing: install it to unpack the npm package")
    folder = tmp_path_factory.mktemp("web")
    given = {"sources": APP, "files": str(STATIC), "folder": str(folder)}
    [answer] = run_node_on("web_app.mjs", given)
    assert {"argstream.js", "types/client.d.ts", "types/elements.d.ts"} <= set(answer["files"])
    return Path(answer["built"])


@pytest.mark.parametrize("framework", ["react", "vue"])
def test_package_in_an_app_that_vite_builds(
    browsing: Browsing, built: Path, framework: str
) -> None:
    with files_of(built) as origin, on_stage(ANSWER, "Sent.", origins=(origin,)) as stage:
        page = browsing.context().new_page()
        page.goto(f"{origin}/?{framework}#{stage.url}/")
        approve(page, stage)

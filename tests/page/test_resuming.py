"""Whatever ends a connection, a page goes on where it was: nothing is lost, nothing comes twice."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from argstream import Agent
from argstream.models import CallTool, Reply, Say
from argstream.runs import MemoryStore
from argstream.server import AgentServer, Serving
from tests.page.looking import settle
from tests.page.proxy import Proxy
from tests.page.stage import HeldModel, Tools, on_stage
from tests.page.visitor import Visitor
from tests.runs.redis_server import RedisServer
from tests.server.program import WORDS
from tests.server.talking import Client

ROOT = Path(__file__).parents[2]
NUMBERS = " ".join(f"number{number}." for number in range(60))
LINES = "".join(f"line{number};\n" for number in range(60))
STORY = Reply(Say(NUMBERS), CallTool("write_file", {"path": "lines.txt", "content": LINES}))


def nothing_is_lost_or_doubled(visitor: Visitor) -> None:
    """Check that all of the story is there, once and in order."""
    visitor.sees("All is said.")
    settle(visitor.page)
    text = visitor.text()
    assert re.findall(r"number(\d+)\.", text) == [str(number) for number in range(60)]
    assert re.findall(r"line(\d+);", text) == [str(number) for number in range(60)]
    visitor.sees_states("completed")


def resumed_after(visitor: Visitor) -> list[int]:
    """Give after which events the page has asked for more."""
    return [int(seq) for url in visitor.requested for seq in re.findall(r"[?&]after=(\d+)", url)]


def test_a_page_whose_connection_is_cut_midway_resumes_without_a_gap(page: Page) -> None:
    with (
        on_stage(STORY, "All is said.", held=True) as stage,
        Proxy(httpx.URL(stage.url).port or 0) as proxy,
    ):
        visitor = Visitor(page, proxy.url)
        visitor.say("Tell me all")
        stage.model.let(20)
        visitor.sees("number10.")

        proxy.cut()
        stage.model.let(20)  # what is written while nobody hears it
        expect(visitor.button("Try now")).to_be_visible()
        proxy.mend()
        # Pressed by script: it may come again by itself in this very moment, and hide the button.
        page.evaluate("document.getElementById('connection-now').click()")
        visitor.sees("number20.")
        expect(visitor.button("Try now")).to_be_hidden()

        stage.model.let(60)
        expect(visitor.calls).to_contain_text("line10;")
        proxy.cut()  # and now inside the arguments
        stage.model.let()
        expect(visitor.button("Try now")).to_be_visible()
        proxy.mend()
        nothing_is_lost_or_doubled(visitor)  # by itself, too
        first, *_, last = resumed_after(visitor)
        assert 0 < first < last


def test_a_server_that_is_started_anew_goes_on_and_so_does_the_page(
    page: Page, tmp_path: Path
) -> None:
    store = str(tmp_path / "runs.db")
    mail = CallTool("send_mail", {"to": "ada"})
    before, after, tools = HeldModel(Reply(Say(NUMBERS), mail)), HeldModel("It is sent."), Tools()
    before.let()
    after.let()
    with ExitStack() as stack:
        with Serving(AgentServer(Agent(before, tools.all(), store=store), token=None)) as serving:
            proxy = stack.enter_context(Proxy(serving.port))
            visitor = Visitor(page, proxy.url)
            visitor.say("Tell me all")
            expect(visitor.button("Approve")).to_be_visible()
        proxy.cut()
        expect(visitor.button("Try now")).to_be_visible()

        with Serving(AgentServer(Agent(after, tools.all(), store=store), token=None)) as again:
            proxy.mend(again.port)
            expect(visitor.button("Try now")).to_be_hidden()
            visitor.decides(visitor.button("Approve"))
            visitor.sees("It is sent.")
            visitor.sees_states("completed")
            assert tools.done == [("send_mail", {"to": "ada", "subject": "", "body": ""})]
            text = visitor.text()
            assert re.findall(r"number(\d+)\.", text) == [str(number) for number in range(60)]


def test_a_page_that_is_loaded_anew_midway_shows_all_and_goes_on(page: Page) -> None:
    with on_stage(STORY, "All is said.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Tell me all")
        stage.model.let(100)
        expect(visitor.calls).to_contain_text("line10;")
        page.reload()
        visitor.sees("Tell me all", "number0.")
        expect(visitor.calls).to_contain_text("line10;")
        visitor.sees_states("writing")
        stage.model.let()
        nothing_is_lost_or_doubled(visitor)

        page.reload()
        visitor.sees_states("completed")
        expect(visitor.pill("write_file")).to_have_attribute("aria-expanded", "false")
        visitor.opens(visitor.pill("write_file"))
        expect(visitor.calls).to_contain_text("line59;")
        nothing_is_lost_or_doubled(visitor)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Start two servers over one Redis, and give where they are.

    A lease lasts for a minute, so that neither takes over from the other on a busy machine.
    """
    effects = tmp_path / "effects"
    effects.touch()
    with RedisServer() as redis, ExitStack() as stack:
        command = [sys.executable, "-m", "tests.server.program", redis.url, str(effects), "60"]
        started = []
        for _ in range(2):
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            started.append(process)
        urls = []
        for process in started:
            assert process.stdout is not None
            urls.append(process.stdout.readline().strip())
        yield urls[0], urls[1]
        assert effects.read_text() == "ada\n"


def test_a_run_that_another_process_drives_is_followed_and_decided_over_redis(
    page: Page, processes: tuple[str, str]
) -> None:
    driving, followed = processes
    with httpx.Client(base_url=driving, timeout=20) as http:
        run_id = Client(http).start("Write to Ada")
        visitor = Visitor(page, f"{followed}/#/r/{run_id}")
        visitor.sees("Write to Ada", WORDS)
        visitor.decides(visitor.button("Approve"))
        visitor.sees(f"sent to ada {WORDS}")
        visitor.sees_states("completed")
        assert not any(driving in url for url in visitor.requested)
        assert Client(http).show(run_id)["status"] == "completed"


def test_a_store_that_is_shared_shows_runs_that_were_begun_elsewhere(page: Page) -> None:
    store = MemoryStore()
    with on_stage("Here.", store=store) as one, on_stage("There.", store=store) as other:
        visitor = Visitor(page, one.url)
        run_id = other.client.start("Begun elsewhere")
        other.client.until(run_id, "completed")
        page.reload()
        visitor.runs.get_by_role("link", name="Begun elsewhere").click()
        visitor.sees("There.")

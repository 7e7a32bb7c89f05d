"""A page resumes where its connection ended: nothing is lost, and nothing comes twice."""

import re
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from argstream import Agent
from argstream.models import CallTool, Reply, Say
from argstream.runs import MemoryStore
from argstream.server import AgentServer, Serving
from tests.page.looking import settle
from tests.page.proxy import proxied
from tests.page.stage import HeldModel, Tools, on_stage
from tests.page.visitor import Visitor, requests_of

NUMBERS = " ".join(f"number{number}." for number in range(60))
LINES = "".join(f"line{number};\n" for number in range(60))
STORY = Reply(Say(NUMBERS), CallTool("write_file", {"path": "lines.txt", "content": LINES}))
# Clicked by script: the page may reconnect at this moment, and hide the button.
RETRY_NOW = "document.getElementById('connection-now').click()"
ALL = [str(number) for number in range(60)]


def check_story(visitor: Visitor) -> None:
    """Check that all of the story is shown, once and in order."""
    visitor.sees("All is said.")
    visitor.opens(visitor.pill("write_file"))
    visitor.button("Show all 60 lines").click()
    settle(visitor.page)
    text = visitor.text()
    assert re.findall(r"number(\d+)\.", text) == ALL
    assert re.findall(r"line(\d+);", text) == ALL
    visitor.sees_states("completed")


def test_cut_connection_is_resumed_without_a_gap(page: Page) -> None:
    with (
        on_stage(STORY, "All is said.", held=True) as stage,
        proxied(httpx.URL(stage.url).port or 0) as proxy,
    ):
        requests = requests_of(page)
        visitor = Visitor(page, proxy.url)
        visitor.say("Tell me all")
        stage.model.let(20)
        visitor.sees("number10.")

        proxy.cut()
        stage.model.let(20)
        expect(visitor.button("Retry now")).to_be_visible()
        proxy.mend()
        page.evaluate(RETRY_NOW)
        visitor.sees("number20.")
        expect(visitor.button("Retry now")).to_be_hidden()

        stage.model.let(60)
        expect(visitor.calls).to_contain_text("line10;")
        proxy.cut()  # inside of the arguments
        stage.model.let()
        expect(visitor.button("Retry now")).to_be_visible()
        proxy.mend()
        check_story(visitor)  # without a click
        resumed = [int(seq) for url in requests for seq in re.findall(r"after=(\d+)", url)]
        assert 0 < resumed[0] < resumed[-1]


def test_page_resumes_after_a_restart_of_the_server(page: Page, tmp_path: Path) -> None:
    store, tools = str(tmp_path / "runs.db"), Tools()
    before = HeldModel(Reply(Say(NUMBERS), CallTool("send_mail", {"to": "ada"})))
    after = HeldModel("It is sent.")
    before.let()
    after.let()
    first = AgentServer(Agent(before, tools.all(), store=store), token=None)
    with Serving(first) as serving:
        visitor = Visitor(page, serving.url)
        visitor.say("Tell me all")
        expect(visitor.button("Approve")).to_be_visible()
    expect(visitor.button("Retry now")).to_be_visible()

    second = AgentServer(Agent(after, tools.all(), store=store), token=None)
    with Serving(second, port=serving.port):
        page.evaluate(RETRY_NOW)
        expect(visitor.button("Retry now")).to_be_hidden()
        visitor.decides(visitor.button("Approve"))
        visitor.sees("It is sent.")
        visitor.sees_states("completed")
        assert tools.done == [("send_mail", {"to": "ada", "subject": "", "body": ""})]
        assert re.findall(r"number(\d+)\.", visitor.text()) == ALL


def test_reloaded_page_shows_everything_and_resumes(page: Page) -> None:
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
        check_story(visitor)

        page.reload()
        visitor.sees_states("completed")
        expect(visitor.pill("write_file")).to_have_attribute("aria-expanded", "false")
        visitor.opens(visitor.pill("write_file"))
        check_story(visitor)


def test_run_of_another_server_is_listed_followed_and_decided(page: Page) -> None:
    store, mail = MemoryStore(), CallTool("send_mail", {"to": "ada"})
    replies = Reply(Say(NUMBERS), mail), "It is sent."
    with (
        on_stage("It is sent.", store=store) as here,
        on_stage(*replies, held=True, store=store) as there,
    ):
        visitor, requests = Visitor(page, here.url), requests_of(page)
        run_id = there.client.start("Begun elsewhere")
        page.reload()
        visitor.link("Begun elsewhere").click()
        there.model.let(20)
        visitor.sees("number10.")
        there.model.let()
        visitor.decides(visitor.button("Approve"))
        visitor.sees("It is sent.")
        visitor.sees_states("completed")
        assert re.findall(r"number(\d+)\.", visitor.text()) == ALL
        assert not any(there.url in url for url in requests)
        assert [done["to"] for _, done in here.tools.done + there.tools.done] == ["ada"]
        assert there.client.show(run_id)["status"] == "completed"

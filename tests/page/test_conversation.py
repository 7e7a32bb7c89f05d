"""A conversation: groups of calls, footers, retries, edits, approvals, and lost connections."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from playwright.sync_api import Page, Route, expect

from argstream import events as ev
from argstream.models import CallTool, Reply, Say, Think
from tests.page.conftest import Browsing
from tests.page.looking import browser_script
from tests.page.proxy import proxied
from tests.page.recorded import START, RunScript, answered_run, keep_run
from tests.page.stage import on_stage
from tests.page.visitor import Visitor, requests_of

FILES = [CallTool("write_file", {"path": f"part_{n}.py", "content": "x = 1\n"}) for n in range(5)]
MAILS = [CallTool("send_mail", {"to": name, "body": "line\n" * 40}) for name in ("ada", "bob")]
GROUP = re.compile("tool calls")


def run_with_calls(count: int, failed: int = 0) -> RunScript:
    run = RunScript("Read many files")
    run.turn()
    for number in range(count):
        call = run.write("read_file", {"path": f"src/file_{number}.py"}, 0.0)
        run.run(call, "read_file", 0.1)
    for _ in range(failed):
        call = run.write("read_file", {"path": "gone.py"}, 0.0)
        run.add(ev.ToolExecutionStarted(call, "read_file", "key"))
        run.add(ev.ToolCallFailed(call, "read_file", "not found"))
    run.end_turn()
    run.turn()
    run.say("All files are read.", 1.0)
    run.end_turn("end_turn")
    run.end()
    return run


def test_finished_calls_collapse_and_become_a_group_when_text_follows(page: Page) -> None:
    search = CallTool("search", {"query": "herons"})
    turns = search, Reply(*FILES), Reply(Say("Now the mail."), MAILS[0]), "All is done."
    with on_stage(*turns, held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Do it")
        stage.model.let(4)
        visitor.sees_states("running")
        expect(visitor.pill("search")).to_have_attribute("aria-expanded", "true")
        stage.tools.may_find.set()
        stage.model.let(4)
        # The next turn starts.
        expect(visitor.pill("search")).to_have_attribute("aria-expanded", "false")
        stage.model.let()
        group = visitor.conversation.get_by_role("button", name=GROUP)
        expect(group).to_contain_text("6 tool calls · 6 done")
        expect(visitor.pill("write_file")).to_have_count(0)
        expect(visitor.pill("send_mail")).to_be_visible()  # it is pending
        group.click()
        expect(group).to_have_attribute("aria-expanded", "true")
        expect(visitor.pill("write_file")).to_have_count(5)
        visitor.opens(visitor.pill("write_file").first)
        visitor.sees("part_0.py")
        visitor.decides(visitor.button("Approve"))
        visitor.sees("All is done.")
        expect(visitor.pill("send_mail")).to_have_attribute("aria-expanded", "false")


def test_pending_call_is_never_in_a_group_and_failed_ones_are_counted(page: Page) -> None:
    with on_stage() as stage:
        run_with_calls(10, failed=2).keep(stage.store)
        visitor = Visitor(page, f"{stage.url}/#/r/run_1")
        group = visitor.conversation.get_by_role("button", name=GROUP)
        expect(group).to_have_text(re.compile("12 tool calls · 10 done, 2 failed"))

        events: list[ev.Event] = [ev.RunStarted("many", "Ask in between"), ev.TurnStarted(1)]
        for number in range(9):
            call_id, arguments = f"call{number}", {"path": f"{number}.py"}
            events.append(ev.ToolCallStarted(call_id, number, "read_file"))
            events.append(ev.ToolArgsCompleted(call_id, "read_file", arguments))
            if number != 4:
                events.append(ev.ToolExecutionStarted(call_id, "read_file", "key"))
                events.append(ev.ToolCallCompleted(call_id, "read_file", arguments, "x"))
        request = ev.ApprovalRequested("call4", "read_file", {"path": "4.py"}, "digest", "it asks")
        events += [request, ev.TextDelta("I wait.", 9), ev.RunPaused("many", (request,))]
        keep_run(stage.store, events, conversation="many")
        page.goto(f"{stage.url}/#/r/many")
        expect(group).to_have_count(2)
        expect(group.first).to_have_text("4 tool calls · 4 done · 0.7 s")
        expect(visitor.pill("read_file")).to_have_count(1)
        expect(visitor.button("Approve")).to_be_visible()


NODES = browser_script("count-all-nodes")


def test_100_calls_stay_below_8000_nodes(page: Page) -> None:
    files = [
        CallTool("write_file", {"path": f"part_{n}.py", "content": "x = 1\n" * 5})
        for n in range(20)
    ]
    with on_stage(*[Reply(*files)] * 5, "All is done.", piece_size=4000) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write 100 files")
        visitor.sees("All is done.")
        group = visitor.conversation.get_by_role("button", name=GROUP)
        expect(group).to_contain_text("100 tool calls · 100 done")
        assert page.evaluate(NODES) < 8_000
        page.reload()
        expect(group).to_contain_text("100 tool calls · 100 done")
        group.click()
        expect(visitor.pill("write_file")).to_have_count(100)
        assert page.evaluate(NODES) < 8_000


CODE = "Use this:\n\n```python\ndef f(x: int) -> int:\n    return x\n```\n"


def test_page_stays_in_place_and_code_is_shown_line_by_line(page: Page) -> None:
    with on_stage() as stage:
        for number in range(8):
            events = answered_run(f"run{number}", f"Question {number}", CODE)
            keep_run(stage.store, events, begun=START + 100 * number)
        visitor = Visitor(page, f"{stage.url}/#/r/run2")
        visitor.sees("Question 7")
        visitor.button("Replay").first.click()
        expect(visitor.button("Exit replay")).to_be_visible()
        heights = "[document.documentElement.scrollTop, document.documentElement.scrollHeight]"
        assert page.evaluate(heights) == [0, page.evaluate("innerHeight")]
        code = visitor.conversation.get_by_role("group", name="Code python").first
        lines = [line for line in code.inner_text().splitlines() if line]
        assert lines == ["def f(x: int) -> int:", "    return x"]
        height = "(code) => code.querySelector('.row').getBoundingClientRect().height"
        assert code.evaluate(height) == 20


def test_footer_has_duration_tokens_and_the_answer_to_copy(browsing: Browsing) -> None:
    with on_stage() as stage:
        run = RunScript("Think first")
        run.turn()
        run.think("Let me think.", 3.0)
        run.say("The answer is **42**.", 9.0)
        run.end_turn("end_turn")
        run.end()
        run.keep(stage.store)
        keep_run(stage.store, answered_run("new", "Next", "Yes."), begun=START + 100, apart=0.1)
        page = browsing.page(permissions=["clipboard-read", "clipboard-write"])
        visitor = Visitor(page, f"{stage.url}/#/c/conversation")
        footers = page.get_by_role("group", name="Run status")
        expect(footers.first).to_contain_text("12 s")
        expect(footers.first).to_contain_text("120 tokens")
        expect(footers.first).to_have_css("opacity", "0")
        expect(footers.last).to_contain_text("0.3 s")
        expect(footers.last).to_have_css("opacity", "1")
        page.get_by_text("Think first").last.hover()
        expect(footers.first).to_have_css("opacity", "1")
        footers.first.get_by_role("button", name="Copy").click()
        expect(footers.first.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == "The answer is **42**."
        # Those of the newest run are in the header.
        expect(footers.get_by_role("button", name="Timeline")).to_have_count(1)
        expect(visitor.button("Timeline")).to_have_count(2)
        # Only the newest run can be replaced.
        expect(visitor.button("Retry")).to_have_count(1)
        expect(visitor.button("Edit message")).to_have_count(1)


def test_line_below_a_run_in_progress_says_what_it_does(page: Page) -> None:
    call = CallTool("write_file", {"path": "a.py", "content": "x = 1\n" * 40})
    with on_stage(
        Reply(Think("Let me see."), call), Reply(*MAILS[:1]), "Sent.", held=True
    ) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write it")
        line = page.get_by_role("group", name="Run status")
        stage.model.let(1)
        expect(line).to_contain_text(re.compile(r"Thinking · \d"))
        stage.model.let(20)
        expect(line).to_contain_text(re.compile(r"Writing write_file · \d+ lines · \d"))
        stage.model.let()
        expect(visitor.button("Approve")).to_be_visible()
        expect(line).to_be_hidden()  # the card in sight says enough
        page.set_viewport_size({"width": 1280, "height": 300})
        page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        expect(visitor.conversation).to_contain_text("Needs approval: send_mail ada")
        page.set_viewport_size({"width": 1280, "height": 800})
        visitor.decides(visitor.button("Approve"))
        expect(line).to_contain_text("tokens")
        expect(visitor.conversation.locator("summary")).to_contain_text("Thought")


RUNS = re.compile(r"/api/(runs|conversations)(\?|$)|/api/runs/[^/?]+$")


def change_runs(route: Route, change: Callable[[dict[str, Any]], None]) -> None:
    """Answer a request for a run, or for a list of runs or conversations, with other values."""
    response = route.fetch(headers={**route.request.headers, "if-none-match": ""})
    body = response.json()
    for run in body.get("runs") or body.get("conversations") or [body]:
        change(run)
    route.fulfill(response=response, json=body)


def failed_run(run_id: str) -> Iterator[ev.Event]:
    yield ev.RunStarted(run_id, "Try it")
    yield ev.TurnStarted(1)
    yield ev.TextDelta("I begin", 0)
    yield ev.RunFailed("overloaded", "The provider is overloaded: HTTP 529.", run_id)


def test_failed_run_is_retried_and_its_message_edited(browsing: Browsing) -> None:
    with on_stage("Second answer.", "Third answer.") as stage:
        keep_run(stage.store, failed_run("bad"), conversation="talk")
        page = browsing.page(permissions=["clipboard-read", "clipboard-write"])
        visitor = Visitor(page, f"{stage.url}/#/c/talk")
        visitor.sees("Run failed: The provider is overloaded: HTTP 529.")
        visitor.button("Copy details").click()
        expect(visitor.button("Copied")).to_be_visible()
        assert "overloaded: The provider is" in page.evaluate("navigator.clipboard.readText()")
        with page.expect_request(lambda request: request.method == "POST") as sent:
            visitor.button("Retry").click()
        visitor.sees("Second answer.")
        expected = {"message": "Try it", "conversation": "talk", "replaces": "bad"}
        assert sent.value.post_data_json == expected
        expect(visitor.conversation).not_to_contain_text("I begin")

        page.get_by_text("Second answer.").hover()
        visitor.button("Edit message").click()
        field = visitor.field("Edit message")
        expect(field).to_have_value("Try it")
        expect(field).to_be_focused()
        page.keyboard.press("Escape")
        expect(visitor.button("Edit message")).to_be_focused()
        page.keyboard.press("Enter")
        field.fill("Try it again")
        field.press("Enter")
        visitor.sees("Try it again", "Third answer.")
        expect(visitor.conversation).not_to_contain_text("Second answer.")

        # Each attempt is still there, also after a reload.
        for _ in range(2):
            visitor.button("Show earlier attempt").click()
            visitor.sees("Second answer.", "Third answer.")
            visitor.button("Show earlier attempt").click()
            visitor.sees("I begin", "Second answer.", "Third answer.")
            expect(visitor.button("Retry")).to_have_count(1)
            page.reload()
            visitor.sees("Third answer.")
            expect(visitor.conversation).not_to_contain_text("Second answer.")


def test_stopped_run_is_continued(page: Page) -> None:
    with on_stage(Say("one two three four"), "Here I go on.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Count")
        stage.model.let(1)
        visitor.sees("one two")
        visitor.button("Stop").click()
        visitor.sees("Stopped by you.")
        stage.model.let()
        visitor.button("Continue").click()
        visitor.sees("Here I go on.", "Stopped by you.")
        expect(visitor.button("Continue")).to_have_count(0)
        expect(visitor.button("Retry")).to_have_count(1)


def test_approvals_out_of_sight_are_reviewed_or_approved_in_one_request(page: Page) -> None:
    with on_stage(Reply(Say("line\n\n" * 60), *MAILS), "Both are sent.") as stage:
        visitor, requests = Visitor(page, stage.url), requests_of(page)
        visitor.say("Write to both")
        visitor.sees_states("pending", "pending")
        bar = page.get_by_role("group", name="Approvals")
        page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        expect(bar).to_contain_text("2 approvals needed")
        bar.get_by_role("button", name="Review").click()
        approval = visitor.calls.first.get_by_role("group", name="Approval", exact=True)
        expect(approval).to_be_focused()
        page.keyboard.press("Alt+a")
        expect(
            visitor.calls.nth(1).get_by_role("group", name="Approval", exact=True)
        ).to_be_focused()

        visitor.calls.first.evaluate("(call) => call.scrollIntoView({ block: 'start' })")
        expect(bar).to_be_visible()
        expect(visitor.button("Jump to latest")).to_be_hidden()  # it would cover the first one's
        page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        expect(visitor.button("Jump to latest")).to_be_visible()
        visitor.button("Approve all").click()
        page.get_by_role("dialog").get_by_role("button", name="Review").last.click()
        expect(visitor.calls.nth(1)).to_be_in_viewport()
        page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        # A card that is not painted whole cannot be approved.
        visitor.calls.nth(1).evaluate(
            """(call) => Object.defineProperty(
              call, "isReadyToApprove", { value: false, writable: true })"""
        )
        visitor.button("Approve all").click()
        dialog = page.get_by_role("dialog", name="Approve these calls?")
        boxes = dialog.get_by_role("checkbox")
        expect(dialog.get_by_role("checkbox", name="send_mail ada 40 lines")).to_be_checked()
        expect(
            dialog.get_by_role("checkbox", name="send_mail bob 40 lines Rendering…")
        ).to_be_disabled()
        visitor.calls.nth(1).evaluate("(call) => { call.isReadyToApprove = true; }")
        expect(boxes.nth(1)).to_be_checked()
        boxes.nth(1).uncheck()
        expect(visitor.button("Approve 1 call")).to_be_enabled()
        boxes.nth(1).check()
        visitor.button("Approve 2 calls").click()
        visitor.sees("Both are sent.")
        expect(dialog).to_be_hidden()
        expect(bar).to_be_hidden()
        assert len([one for one in requests if one.endswith("/decisions")]) == 1
        assert sorted(done["to"] for _, done in stage.tools.done) == ["ada", "bob"]


def test_clocks_stop_without_a_connection_and_while_no_process_drives_the_run(page: Page) -> None:
    search = CallTool("search", {"query": "herons"})
    with (
        on_stage(search, "Found.") as stage,
        proxied(httpx.URL(stage.url).port or 0) as proxy,
    ):
        visitor = Visitor(page, proxy.url)
        visitor.say("Search")
        visitor.sees_states("running")
        line = page.get_by_role("group", name="Run status")
        expect(line).to_contain_text(re.compile(r"Running search · \d"))
        is_stale = "document.querySelector('tool-call').stale === {}"
        proxy.cut()
        expect(line).to_contain_text("Disconnected")
        expect(page.get_by_role("banner")).not_to_contain_text("Running")
        page.wait_for_function(is_stale.format("true"))

        said = {"is_driven": False}
        page.route(RUNS, lambda route: change_runs(route, lambda run: run.update(said)))
        proxy.mend()
        page.evaluate("document.getElementById('connection-now').click()")
        expect(line).to_contain_text("Resuming after a server restart…")
        expect(page.get_by_role("banner")).to_contain_text("Running")
        page.wait_for_function(is_stale.format("true"))
        said["is_driven"] = True
        expect(line).to_contain_text("Running search")
        page.wait_for_function(is_stale.format("false"))
        stage.tools.may_find.set()
        visitor.sees("Found.")


def test_observed_run_cannot_be_retried(page: Page) -> None:
    with on_stage() as stage:
        events: list[ev.Event] = [
            ev.RunStarted("seen", "Watch it", mode="observed"),
            ev.TextDelta("I begin", 0),
        ]
        keep_run(stage.store, [*events, ev.RunStopped("enough", "seen")])
        visitor = Visitor(page, f"{stage.url}/#/r/seen")
        visitor.sees("I begin", "Stopped: Enough.")
        for name in ("Retry", "Continue", "Edit message"):
            expect(visitor.button(name)).to_have_count(0)

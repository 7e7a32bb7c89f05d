"""Parts of the page: text that comes in pieces, drafts, the list of runs, hidden tabs."""

import random
import re
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Dialog, Page, expect

from argstream import events as ev
from argstream.models import CallTool, Reply, Say
from tests.page.conftest import Browsing
from tests.page.looking import assert_smooth, traced
from tests.page.recorded import START, answered_run, keep_run
from tests.page.stage import on_stage
from tests.page.visitor import Visitor

# The blocks of a text: paragraphs, and code with its info string.
GROW = """async ([text, cuts]) => {
  const { WordsView } = await import(new URL("static/page/run/words-view.js", location.href).href);
  const view = new WordsView();
  for (const cut of [...cuts, text.length]) {
    while (!view.grow(text.slice(0, cut), () => false)); // a piece at a time
  }
  document.querySelector("#conversation").replaceChildren(view.element);
  return [...view.element.querySelectorAll(":scope > .volume > .chunk > *")].map((node) =>
    node.className === "held" ? ["held", node.textContent]
    : node.className === "fenced"
      ? ["code", node.querySelector(".fenced-name").textContent,
         node.querySelector("code").textContent]
      : ["text", node.textContent]);
}"""

FENCED = "See:\n\n```py\nx = 1\n\ny = 2\n```\n\nDone."
NO_NAME = f"```{'x' * 300}\nz"
TEXTS: list[tuple[str, list[list[str]]]] = [
    ("one\ntwo\n\nthree", [["text", "one\ntwo\n"], ["text", "three"]]),
    ("one\n\n\ntwo", [["text", "one\n"], ["text", "\n"], ["text", "two"]]),
    (FENCED, [["text", "See:\n"], ["code", "py", "x = 1\n\ny = 2\n"], ["text", "Done."]]),
    ("````\n```\nin\n````\nout", [["code", "", "```\nin\n"], ["text", "out"]]),
    ("```\nnot\nover", [["code", "", "not\nover"]]),
    ("`a` and ```b```\n``", [["text", "`a` and ```b```\n"], ["held", "``"]]),
    ("<b>bold</b> **not**", [["text", "<b>bold</b> **not**"]]),
    ("x\u202ey", [["text", "x⟦RLO⟧y"]]),
    ("```x\u202ey\nz", [["code", "x⟦RLO⟧y", "z"]]),
    (NO_NAME, [["text", NO_NAME]]),
]
LONG = ["word " * 6_000, "x" * 30_000, "😀" * 10_000, "a line of text\n" * 2_000]


def test_text_looks_the_same_however_it_is_cut(page: Page) -> None:
    with on_stage() as stage:
        page.goto(stage.url)
        for text, shown in TEXTS:
            pieces = sorted(random.Random(text).sample(range(len(text)), 3))
            for cuts in ([], list(range(len(text))), pieces):
                assert page.evaluate(GROW, [text, cuts]) == shown
        for text in LONG:
            whole = page.evaluate(GROW, [text, []])
            assert "".join(block[1] for block in whole) == text
            assert 2 < len(whole) < 20
            assert max(len(block[1]) for block in whole) <= 8_001
            # Providers and the server never cut a surrogate pair.
            assert page.evaluate(GROW, [text, list(range(0, len(text), 998))]) == whole
        page.evaluate(GROW, ["a\n\nz" + "\u0301" * 500, []])
        clip = "getComputedStyle(document.querySelector('.words p:last-child')).overflow"
        assert page.evaluate(clip) == "clip"


# A run with much of one thing, shown twice: in steps without any time left, to see how much a step
# adds, and then on the screen.
BURDEN = """async (name) => {
  const { RunView } = await import("/static/page/run/run-view.js");
  const { Run } = await import("/static/argstream.js");
  const { paint, afterPainting } = await import("/static/tool-call/painting.js");
  const run = new Run("burden");
  const words = (text, block = 0) => ({ type: "text_delta", text, block, parent_id: null });
  const call = (n) => ({
    type: "tool_call_started", call_id: `call ${n}`, index: n, name: "search", kind: "function",
    parent_id: null,
  });
  const events = {
    fences: [words("```\\n```\\n".repeat(2000))],
    paragraphs: [words("a\\n\\n".repeat(8000))],
    line: [words("word ".repeat(30000))],
    code: [words("```\\n" + "code line\\n".repeat(10000))],
    name: Array.from({ length: 600 }, () => words("```" + "x".repeat(400))),
    texts: Array.from({ length: 2000 }, (_, n) => words(`Text ${n}. `, n)),
    calls: Array.from({ length: 60 }, (_, n) => call(n)),
  }[name];
  events.forEach((event, n) => run.take({ seq: n + 1, time: 1, event, arguments: [] }));
  const slow = new RunView();
  let most = 0;
  for (let size = 0, looks = 0; looks < 50; looks += 1) {
    const isDone = slow.show(run, () => false);
    const now = slow.element.textContent.length + slow.element.querySelectorAll("*").length;
    most = Math.max(most, now - size);
    size = now;
    if (isDone) break;
  }
  const view = new RunView();
  document.querySelector("#conversation").replaceChildren(view.element);
  const scroller = document.querySelector("#scroller");
  await new Promise((resolve) => {
    paint((hasTime) => {
      afterPainting(() => (scroller.scrollTop = scroller.scrollHeight));
      const isDone = view.update(run, [], hasTime);
      if (isDone) resolve();
      return isDone;
    });
  });
  await new Promise((resolve) => setTimeout(resolve, 100));
  const text = run.blocks.map((block) => block.text ?? "").join("");
  const isWhole = name === "fences" || name === "paragraphs" || name === "code"
    || view.element.textContent === text;
  const skipped = view.element.querySelectorAll(".full").length;
  return { most, isWhole, skipped, calls: view.element.querySelectorAll("tool-call").length };
}"""


@pytest.mark.timing
def test_large_content_of_any_kind_is_shown_in_slices(page: Page) -> None:
    def measure(name: str) -> float:
        with traced(page, f"burden-{name}") as tasks:
            shown = page.evaluate(BURDEN, name)
        assert shown["most"] < 8_100, name
        assert shown["isWhole"], name
        assert shown["calls"] == (60 if name == "calls" else 0)
        assert shown["skipped"] > 0 or name == "calls", name
        return tasks[3]  # the test itself has three: it makes the run, and looks at it in the end

    with on_stage() as stage:
        page.goto(stage.url)
        for name in ("fences", "paragraphs", "line", "code", "name", "texts", "calls"):
            assert_smooth(partial(measure, name))


def test_draft_survives_a_reload_and_belongs_to_its_conversation(page: Page) -> None:
    with on_stage("Once.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("First")
        visitor.sees("Once.")
        visitor.message.fill("half a thought")
        page.reload()
        visitor.sees("Once.")
        expect(visitor.message).to_have_value("half a thought")
        visitor.link("New conversation").click()
        expect(visitor.message).to_have_value("")
        page.go_back()
        expect(visitor.message).to_have_value("half a thought")


def test_run_is_deleted_by_a_second_press_that_is_not_hasty(page: Page) -> None:
    with on_stage("Once.", "Twice.") as stage:
        visitor = Visitor(page, stage.url)
        for prompt, answer in (("Keep me", "Once."), ("Forget me", "Twice.")):
            visitor.say(prompt)
            visitor.sees(answer)
        expect(visitor.link("Forget me")).to_contain_text("Done")
        delete = visitor.runs.get_by_role("button", name="Delete: Forget me")
        sure = visitor.runs.get_by_role("button", name="Really delete: Forget me")

        delete.dblclick()
        expect(sure).to_be_visible()
        page.wait_for_timeout(600)
        page.keyboard.press("Escape")
        expect(delete).to_be_visible()
        delete.click()
        visitor.message.hover()
        expect(delete).to_be_visible()
        page.keyboard.down("Enter")
        page.wait_for_timeout(600)
        page.keyboard.down("Enter")  # the key repeats
        page.keyboard.up("Enter")
        expect(sure).to_be_visible()
        assert len(stage.client.get("/api/runs").json()["runs"]) == 2

        page.keyboard.press("Enter")
        expect(visitor.link("Forget me")).to_have_count(0)
        expect(visitor.link("Keep me")).to_be_focused()
        visitor.runs.get_by_role("button", name="Delete: Keep me").focus()
        page.keyboard.press("Enter")
        page.wait_for_timeout(600)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()
        expect(visitor.link("New conversation")).to_be_focused()
        assert stage.client.get("/api/runs").json()["runs"] == []


def test_long_conversation_shows_its_newest_runs_first(page: Page) -> None:
    with on_stage() as stage:
        for n in range(13):
            events = answered_run(f"run{n}", f"Question {n}", f"Answer {n}.\n" * 5)
            keep_run(stage.store, events, conversation="long", begun=START + 10 * n)
        page.goto(f"{stage.url}/#/c/long")
        runs, earlier = page.get_by_role("article"), page.get_by_role("button", name="Show earlier")
        expect(runs).to_have_count(10)
        expect(runs.first).to_contain_text("Question 3")
        expect(runs.last).to_contain_text("Answer 12.")
        expect(runs.last).to_be_in_viewport()
        expect(page.get_by_role("heading", level=2).first).to_have_text("You: Question 3")
        expect(page.get_by_role("heading", level=3, name="Answer")).to_have_count(10)

        # The text that is read stays in place, also at the very top.
        page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        third = "document.querySelector('[aria-label=\"Run: Question 3\"]')"
        before = page.evaluate(f"{third}.getBoundingClientRect().top")
        earlier.press("Enter")
        expect(runs).to_have_count(13)
        moved = before - page.evaluate(f"{third}.getBoundingClientRect().top")
        assert 0 <= moved < 80  # the button itself is gone
        assert page.evaluate("document.activeElement.ariaLabel") == "Run: Question 2"
        expect(runs.first).to_contain_text("Answer 0.")
        expect(earlier).to_have_count(0)


def test_shortcut_focuses_pending_calls_and_the_composer_waits_for_them(page: Page) -> None:
    mails = [CallTool("send_mail", {"to": name}) for name in ("ada", "bob")]
    with on_stage(Reply(Say("Two mails."), *mails), "Sent.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write to both")
        visitor.sees_states("pending", "pending")
        expect(page).to_have_title("(2) Write to both – argstream")
        for number in (0, 1, 0):
            page.keyboard.press("Alt+a")
            assert visitor.calls.nth(number).evaluate("(call) => call.matches(':focus-within')")
        form = page.get_by_role("form")
        visitor.say("And to Carl")
        expect(form).to_contain_text("A call waits for your decision")
        for left in (2, 1):
            expect(visitor.button("Approve")).to_have_count(left)
            visitor.decides(visitor.button("Approve").first)
        visitor.sees("Sent.")
        expect(form).not_to_contain_text("decision")
        expect(visitor.message).to_have_value("And to Carl")


def test_hidden_pending_call_is_found_and_its_unsent_edit_is_not_lost(page: Page) -> None:
    arguments = {"to": "ada"}
    request = ev.ApprovalRequested("mail", "send_mail", arguments, "digest", "it asks")
    events: list[ev.Event] = [
        ev.RunStarted("deep", "Have it sent"),
        ev.TurnStarted(1),
        ev.ToolCallStarted("outer", 0, "task"),
        ev.ToolArgsCompleted("outer", "task", {}),
        ev.ToolExecutionStarted("outer", "task", "key"),
        ev.ToolCallStarted("mail", 0, "send_mail", parent_id="outer"),
        ev.ToolArgsCompleted("mail", "send_mail", arguments),
        request,
        ev.RunPaused("deep", (request,)),
    ]
    with on_stage() as stage:
        keep_run(stage.store, events)
        visitor = Visitor(page, f"{stage.url}/#/r/deep")
        visitor.sees_states("running", "pending")
        visitor.pill("task").click()
        expect(visitor.button("Approve")).to_be_hidden()
        visitor.button("Go to it").click()
        expect(visitor.button("Approve")).to_be_visible()
        is_focused = "document.querySelector('tool-call tool-call').matches(':focus-within')"
        page.wait_for_function(is_focused)
        visitor.button("Replay").click()
        expect(visitor.region("Replay")).to_be_visible()
        page.keyboard.press("Alt+a")
        page.wait_for_function(is_focused)
        expect(visitor.region("Replay")).to_have_count(0)

        # The page asks before it discards an edit.
        visitor.button("Edit").click()
        visitor.field("to").fill("bob")
        here, questions = page.url, list[str]()

        def stay(dialog: Dialog) -> None:
            questions.append(dialog.message)
            dialog.dismiss()

        page.once("dialog", stay)
        visitor.link("New conversation").click()
        while not questions:
            page.wait_for_timeout(20)  # playwright handles events only in calls like this
        expect(page).to_have_url(here)
        expect(visitor.field("to")).to_have_value("bob")
        with page.expect_event("dialog") as asked:
            page.close(run_before_unload=True)
        assert asked.value.type == "beforeunload"
        with page.expect_event("close"):
            asked.value.accept()


# The list of runs is read every 3 seconds.
READ_LIST_OFTEN = """() => {
  const later = window.setTimeout;
  window.setTimeout = (work, wait, ...more) => later(work, wait === 3000 ? 100 : wait, ...more);
}"""


def test_missing_and_deleted_runs_are_reported(page: Page, browsing: Browsing) -> None:
    browsing.expect_errors("status of 404")
    with on_stage("Once.", "Twice.") as stage:
        visitor, status = Visitor(page), page.get_by_role("status")
        for kind, path in (("run", "#/r/nothing"), ("conversation", "#/c/nothing")):
            page.goto("about:blank")  # otherwise an announcement waits for the one before
            page.goto(f"{stage.url}/{path}")
            heading = page.get_by_role("heading", name=f"There is no such {kind}", level=2)
            expect(heading).to_be_focused()
            expect(page).to_have_title(f"There is no such {kind} – argstream")
            expect(status).to_contain_text(f"There is no such {kind}.")

        page.goto("about:blank")
        page.goto(f"{stage.url}/#/")
        page.evaluate(READ_LIST_OFTEN)
        visitor.say("Forget me")
        visitor.sees("Once.")
        [run] = stage.client.get("/api/runs").json()["runs"]
        stage.client.delete(f"/api/runs/{run['run']}").raise_for_status()
        visitor.sees("This run was deleted elsewhere", "Once.")
        expect(status).to_contain_text("This run was deleted elsewhere")


def test_long_list_scrolls_to_the_current_run_and_covers_nothing(page: Page) -> None:
    with on_stage() as stage:
        for n in range(60):
            events = answered_run(f"run{n}", f"Question {n} " * 5, "Answer.")
            keep_run(stage.store, events, conversation=f"{n}", begun=START + n)
        visitor = Visitor(page, f"{stage.url}/#/r/run20")
        current = visitor.runs.locator("[aria-current]")
        expect(current).to_contain_text("Question 20")
        expect(current).to_be_in_viewport(ratio=1)
        expect(visitor.link("New conversation")).to_be_in_viewport(ratio=1)
        check_apart(page, "#new", "[aria-current]")
        page.get_by_role("button", name="Show more").press("Enter")
        first_new = visitor.runs.get_by_role("link", name=re.compile("^Question 9 "))
        expect(first_new).to_be_focused()

        page.set_viewport_size({"width": 320, "height": 256})
        visitor.button("Runs").click()
        expect(current).to_be_in_viewport(ratio=1)
        row = ".row:has([aria-current])"
        page.locator(row).hover()
        for part in (".row-title", ".row-time"):
            check_apart(page, f"{row} {part}", f"{row} .row-delete")
        visitor.button("Close").click()
        # On a small screen, most of it is for the conversation.
        page.wait_for_function("document.querySelector('#scroller').clientHeight > 256 * 0.6")


def check_apart(page: Page, *selectors: str) -> None:
    """Check that two elements overlap by no more than a pixel."""
    boxes: list[Any] = [page.locator(selector).bounding_box() for selector in selectors]
    assert any(
        one["x"] + one["width"] <= other["x"] + 1 or one["y"] + one["height"] <= other["y"] + 1
        for one, other in (boxes, boxes[::-1])
    ), boxes


def test_lost_connection_is_shown_until_it_is_back(page: Page) -> None:
    with on_stage(Say("one two three four"), held=True) as stage:
        visitor, form = Visitor(page, stage.url), page.get_by_role("form")
        page.evaluate(READ_LIST_OFTEN)
        visitor.say("Count")
        expect(form).to_contain_text("The agent works")
        page.route(re.compile("/api/runs[?]"), lambda route: route.abort("connectionfailed"))
        expect(page.get_by_text("Connection lost.")).to_be_visible()
        expect(form).to_contain_text("It was working when the connection was")
        page.unroute_all()
        expect(form).to_contain_text("The agent works")
        stage.model.let()
        visitor.sees("four")


TOKENS = """async ([input_tokens, output_tokens]) => {
  const { RunBar } = await import(new URL("static/page/run/run-bar.js", location.href).href);
  const bar = new RunBar({ status: "completed", created: 0 });
  const usage = { input_tokens, output_tokens };
  bar.show({ status: "completed", usage, startedAt: 0, endedAt: 1, time: 1 });
  const tokens = bar.element.querySelector(".run-tokens");
  return [tokens.textContent, tokens.title];
}"""


def test_unknown_token_counts_are_left_out(page: Page) -> None:
    with on_stage() as stage:
        page.goto(stage.url)
        for usage, text, title in (
            ([7, 5], "12 tokens", "7 tokens read, 5 tokens written"),
            ([None, 5], "5 tokens", "5 tokens written"),
            ([7, None], "7 tokens", "7 tokens read"),
            ([None, None], "", ""),
        ):
            assert page.evaluate(TOKENS, usage) == [text, title]


# A browser without windows cannot hide a tab. Only the timers of live-run.js are shortened, since
# connections have timeouts too.
HIDE = """() => {
  const later = window.setTimeout;
  const isOfHidden = (wait) => wait === 30_000 || wait === 15_000;
  window.setTimeout = (work, wait, ...more) => later(work, isOfHidden(wait) ? 50 : wait, ...more);
  Object.defineProperty(document, "hidden", { configurable: true, get: () => window.isHidden });
  window.hide = (isHidden) => {
    window.isHidden = isHidden;
    document.dispatchEvent(new Event("visibilitychange"));
  };
  window.isHidden = false;
}"""


def test_hidden_tab_closes_its_stream_and_resumes_when_shown(page: Page) -> None:
    ask = CallTool("send_mail", {"to": "ada"})
    with on_stage(Reply(Say("A mail."), ask), "It is sent.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        page.evaluate(HIDE)
        visitor.say("Write to Ada")
        expect(visitor.button("Stop")).to_be_visible()
        with page.expect_response(lambda answer: "/api/runs/run_" in answer.url):
            page.evaluate("window.hide(true)")  # without a stream, it polls
        stage.model.let()
        expect(page).to_have_title("(1) Write to Ada – argstream")
        expect(visitor.calls).to_have_count(0)
        page.evaluate("window.hide(false)")
        visitor.sees_states("pending")
        visitor.decides(visitor.button("Approve"))
        visitor.sees("It is sent.")

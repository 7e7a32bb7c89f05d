"""The parts of the page by themselves: words that come in pieces, drafts, the list, hidden tabs."""

import random
import re

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from argstream.events import (
    ApprovalRequested,
    Event,
    RunPaused,
    RunStarted,
    ToolArgsCompleted,
    ToolCallStarted,
    ToolExecutionStarted,
    TurnStarted,
)
from argstream.models import CallTool, Reply, Say
from tests.page.conftest import Browsing
from tests.page.runs_by_hand import old_run
from tests.page.stage import kept, on_stage
from tests.page.test_long_tasks import traced
from tests.page.visitor import Visitor

# What somebody sees of a text: paragraphs, and code with the words at its head.
_GROW = """async ([text, cuts]) => {
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

_TEXTS: list[tuple[str, list[list[str]]]] = [
    ("one\ntwo\n\nthree", [["text", "one\ntwo\n"], ["text", "three"]]),
    ("one\n\n\ntwo", [["text", "one\n"], ["text", "\n"], ["text", "two"]]),
    (
        "See:\n\n```py\nx = 1\n\ny = 2\n```\n\nDone.",
        [["text", "See:\n"], ["code", "py", "x = 1\n\ny = 2\n"], ["text", "Done."]],
    ),
    ("````\n```\nin\n````\nout", [["code", "", "```\nin\n"], ["text", "out"]]),
    ("```\nnot\nover", [["code", "", "not\nover"]]),
    ("`a` and ```b```\n``", [["text", "`a` and ```b```\n"], ["held", "``"]]),
    ("<b>bold</b> **not**", [["text", "<b>bold</b> **not**"]]),
    ("x\u202ey", [["text", "x⟦RLO⟧y"]]),
    ("```x\u202ey\nz", [["code", "x⟦RLO⟧y", "z"]]),  # spelled once
    (f"```{'x' * 300}\nz", [["text", f"```{'x' * 300}\nz"]]),  # that is no name
]
_LONG = ["word " * 6_000, "x" * 30_000, "😀" * 10_000, "a line of text\n" * 2_000]


def test_words_look_alike_however_they_are_cut(page: Page) -> None:
    with on_stage("Nothing.") as stage:
        page.goto(stage.url)
        for text, shown in _TEXTS:
            chance = random.Random(text)
            assert page.evaluate(_GROW, [text, []]) == shown
            assert page.evaluate(_GROW, [text, list(range(len(text)))]) == shown
            pieces = sorted(chance.sample(range(len(text)), 3))
            assert page.evaluate(_GROW, [text, pieces]) == shown
        for text in _LONG:
            whole = page.evaluate(_GROW, [text, []])
            assert "".join(block[1] for block in whole) == text
            assert 2 < len(whole) < 20
            assert max(len(block[1]) for block in whole) <= 8_001
            # Not in the midst of a pair: as no provider does, and no server.
            assert page.evaluate(_GROW, [text, list(range(0, len(text), 998))]) == whole
        page.evaluate(_GROW, ["a\n\nz" + "\u0301" * 500, []])
        clip = "getComputedStyle(document.querySelector('.words p:last-child')).overflow"
        assert page.evaluate(clip) == "clip"


# A run of all that there can be much of: each look at it adds a little, in order, and then the
# same again under the eyes of the browser.
_BURDEN = """async (name) => {
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
    fences: [words("```\\n```\\n".repeat(20000))],
    paragraphs: [words("a\\n\\n".repeat(100000))],
    line: [words("word ".repeat(400000))],
    code: [words("```\\n" + "code line\\n".repeat(100000))],
    name: Array.from({ length: 2000 }, () => words("```" + "x".repeat(400))),
    texts: Array.from({ length: 5000 }, (_, n) => words(`Text ${n}. `, n)),
    calls: Array.from({ length: 200 }, (_, n) => call(n)),
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
@pytest.mark.parametrize("name", ["fences", "paragraphs", "line", "code", "name", "texts", "calls"])
def test_whatever_a_model_writes_much_of_is_shown_in_slices(
    chromium: Browser, page: Page, name: str
) -> None:
    with on_stage("Nothing.") as stage:
        page.goto(stage.url)
        with traced(chromium, page, f"burden-{name}") as tasks:
            shown = page.evaluate(_BURDEN, name)
        assert shown["most"] < 8_100
        assert shown["isWhole"]
        assert shown["calls"] == (200 if name == "calls" else 0)
        assert shown["skipped"] > 0 or name == "calls"
        # To make the run itself and to look at it in the end is the test's own long task.
        assert tasks[3] < 50, tasks[:6]


def test_what_is_typed_outlives_a_reload_and_belongs_to_its_conversation(page: Page) -> None:
    with on_stage("Once.", "Twice.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("First")
        visitor.sees("Once.")
        visitor.message.fill("half a thought")
        page.reload()
        visitor.sees("Once.")
        expect(visitor.message).to_have_value("half a thought")
        page.get_by_role("link", name="New conversation").click()
        expect(visitor.message).to_have_value("")
        page.go_back()
        expect(visitor.message).to_have_value("half a thought")


def test_a_run_is_deleted_by_a_second_press_and_not_by_haste(page: Page) -> None:
    with on_stage("Once.", "Twice.") as stage:
        visitor = Visitor(page, stage.url)
        for prompt, answer in (("Keep me", "Once."), ("Forget me", "Twice.")):
            visitor.say(prompt)
            visitor.sees(answer)
        expect(visitor.runs.get_by_role("link", name="Forget me")).to_contain_text("Done")
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
        expect(visitor.runs.get_by_role("link", name="Forget me")).to_have_count(0)
        expect(visitor.runs.get_by_role("link", name="Keep me")).to_be_focused()
        visitor.runs.get_by_role("button", name="Delete: Keep me").focus()
        page.keyboard.press("Enter")
        page.wait_for_timeout(600)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()
        expect(visitor.runs.get_by_role("link", name="New conversation")).to_be_focused()
        assert stage.client.get("/api/runs").json()["runs"] == []


def test_of_a_long_conversation_the_newest_runs_are_shown_and_the_others_on_request(
    page: Page,
) -> None:
    with on_stage() as stage:
        for number in range(13):
            events = list(old_run(f"run{number}", f"Question {number}", f"Answer {number}.\n" * 5))
            begun = 1_700_000_000.0 + 10 * number
            kept(stage.store, f"run{number}", events, conversation="long", begun=begun)
        page.goto(f"{stage.url}/#/c/long")
        runs = page.get_by_role("article")
        expect(runs).to_have_count(10)
        expect(runs.first).to_contain_text("Question 3")
        expect(runs.last).to_contain_text("Answer 12.")
        expect(runs.last).to_be_in_viewport()
        expect(page.get_by_role("heading", level=2).first).to_have_text("You: Question 3")
        expect(page.get_by_role("heading", level=3, name="Answer")).to_have_count(10)

        # What was read stays where it is, at the very top too.
        page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        top = (
            "document.querySelector('[aria-label=\"Run: Question 3\"]').getBoundingClientRect().top"
        )
        before = page.evaluate(top)
        page.get_by_role("button", name="Show earlier").press("Enter")
        expect(runs).to_have_count(13)
        assert 0 <= before - page.evaluate(top) < 80  # the button itself is gone
        assert page.evaluate("document.activeElement.ariaLabel") == "Run: Question 2"
        expect(runs.first).to_contain_text("Answer 0.")
        expect(page.get_by_role("button", name="Show earlier")).to_have_count(0)


def test_a_key_leads_to_the_call_that_asks(page: Page) -> None:
    mails = [CallTool("send_mail", {"to": name}) for name in ("ada", "bob")]
    with on_stage(Reply(Say("Two mails."), *mails), "Sent.") as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Write to both")
        visitor.sees_states("asking", "asking")
        expect(page).to_have_title("(2) Write to both – argstream")
        for number in (0, 1, 0):
            page.keyboard.press("Alt+a")
            assert visitor.calls.nth(number).evaluate("(call) => call.matches(':focus-within')")

        # Who sends something is told why that has to wait, as long as it is so.
        form = page.get_by_role("form")
        visitor.say("And to Carl")
        expect(form).to_contain_text("A call waits for your decision")
        for left in (2, 1):
            expect(visitor.button("Approve")).to_have_count(left)
            visitor.decides(visitor.button("Approve").first)
        visitor.sees("Sent.")
        expect(form).not_to_contain_text("decision")
        expect(visitor.message).to_have_value("And to Carl")


def test_a_call_that_asks_is_found_wherever_it_is_hidden(page: Page) -> None:
    with on_stage() as stage:
        arguments = {"to": "ada"}
        request = ApprovalRequested("mail", "send_mail", arguments, "digest", "it asks")
        events: list[Event] = [
            RunStarted("deep", "Have it sent"),
            TurnStarted(1),
            ToolCallStarted("outer", 0, "task"),
            ToolArgsCompleted("outer", "task", {}),
            ToolExecutionStarted("outer", "task", "key"),
            ToolCallStarted("mail", 0, "send_mail", parent_id="outer"),
            ToolArgsCompleted("mail", "send_mail", arguments),
            request,
            RunPaused("deep", (request,)),
        ]
        kept(stage.store, "deep", events)
        visitor = Visitor(page, f"{stage.url}/#/r/deep")
        visitor.sees_states("running", "asking")
        visitor.pill("task").click()
        expect(visitor.button("Approve")).to_be_hidden()
        visitor.button("Go to it").click()
        expect(visitor.button("Approve")).to_be_visible()
        is_there = "document.querySelector('tool-call tool-call').matches(':focus-within')"
        page.wait_for_function(is_there)
        visitor.button("Replay").click()
        expect(visitor.region("Replay")).to_be_visible()
        page.keyboard.press("Alt+a")
        page.wait_for_function(is_there)
        expect(visitor.region("Replay")).to_have_count(0)

        # An edit that is not sent is not lost without a word: neither inside of the page …
        visitor.button("Edit").click()
        visitor.field("to").fill("bob")
        here, questions = page.url, list[str]()

        def stay(dialog: Dialog) -> None:
            questions.append(dialog.message)
            dialog.dismiss()

        page.once("dialog", stay)
        page.get_by_role("link", name="New conversation").click()
        while not questions:
            page.wait_for_timeout(20)  # not asleep: the browser is heard only in calls like this
        expect(page).to_have_url(here)
        expect(visitor.field("to")).to_have_value("bob")

        # … nor with it.
        with page.expect_event("dialog") as asked:
            page.close(run_before_unload=True)
        assert asked.value.type == "beforeunload"
        asked.value.accept()


def test_what_is_not_there_is_said(page: Page, browsing: Browsing) -> None:
    browsing.expect_faults("status of 404")
    with on_stage("Once.", "Twice.") as stage:
        visitor = Visitor(page, f"{stage.url}/#/r/nothing")
        for kind, path in (("run", "#/r/nothing"), ("conversation", "#/c/nothing")):
            page.goto(f"{stage.url}/{path}")
            heading = page.get_by_role("heading", name=f"There is no such {kind}", level=2)
            expect(heading).to_be_focused()
            expect(page).to_have_title(f"There is no such {kind} – argstream")
            expect(page.get_by_role("status")).to_contain_text(f"There is no such {kind}.")

        page.goto(f"{stage.url}/#/")
        visitor.say("Forget me")
        visitor.sees("Once.")
        [run] = stage.client.get("/api/runs").json()["runs"]
        stage.client.http.delete(f"/api/runs/{run['run']}").raise_for_status()
        visitor.sees("This run was deleted elsewhere")
        expect(page.get_by_role("status")).to_contain_text("This run was deleted elsewhere")
        visitor.sees("Once.")


def test_a_list_that_is_long_shows_where_one_is_and_covers_nothing(browsing: Browsing) -> None:
    with on_stage() as stage:
        for number in range(60):
            events = list(old_run(f"run{number}", f"Question {number} " * 5, "Answer."))
            begun = 1_700_000_000.0 + number
            kept(stage.store, f"run{number}", events, conversation=f"{number}", begun=begun)
        page = browsing.page(f"{stage.url}/#/r/run20")
        visitor = Visitor(page)
        current = visitor.runs.locator("[aria-current]")
        new = visitor.runs.get_by_role("link", name="New conversation")
        expect(current).to_contain_text("Question 20")
        expect(current).to_be_in_viewport(ratio=1)
        expect(new).to_be_in_viewport(ratio=1)
        assert boxes_apart(page, "#new", "[aria-current]")
        page.get_by_role("button", name="Show more").press("Enter")
        first_new = visitor.runs.get_by_role("link", name=re.compile("^Question 9 "))
        expect(first_new).to_be_focused()

        page.set_viewport_size({"width": 320, "height": 256})
        visitor.button("Runs").click()
        expect(current).to_be_in_viewport(ratio=1)
        row = page.locator(".row:has([aria-current])")
        row.hover()
        for part in (".row-title", ".row-time"):
            assert boxes_apart(
                page, f".row:has([aria-current]) {part}", ".row:has([aria-current]) .row-delete"
            )
        visitor.button("Close").click()
        # At this size, what is read has the room.
        page.wait_for_function("document.querySelector('#scroller').clientHeight > 256 * 0.6")


def boxes_apart(page: Page, one: str, other: str) -> bool:
    """Say whether two elements do not overlap, but for a pixel."""
    one_box, other_box = page.locator(one).bounding_box(), page.locator(other).bounding_box()
    assert one_box is not None
    assert other_box is not None
    return any(
        first["x"] + first["width"] <= second["x"] + 1
        or first["y"] + first["height"] <= second["y"] + 1
        for first, second in ((one_box, other_box), (other_box, one_box))
    )


def test_what_is_not_known_of_a_run_is_not_said(page: Page) -> None:
    with on_stage(Say("one two three four"), held=True) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Count")
        expect(page.get_by_role("form")).to_contain_text("The agent works")
        page.route(re.compile("/api/runs[?]"), lambda route: route.abort("connectionfailed"))
        expect(page.get_by_text("Connection lost.")).to_be_visible()
        expect(page.get_by_role("form")).to_contain_text("It was working when the connection was")
        page.unroute_all()
        expect(page.get_by_role("form")).to_contain_text("The agent works")
        stage.model.let()
        visitor.sees("four")


_TOKENS = """async (usage) => {
  const { RunBar } = await import(new URL("static/page/run/run-bar.js", location.href).href);
  const bar = new RunBar({ status: "completed", created: 0 });
  bar.show({ status: "completed", usage, startedAt: 0, endedAt: 1, time: 1 });
  const tokens = bar.element.querySelector(".run-tokens");
  return [tokens.textContent, tokens.title];
}"""


@pytest.mark.parametrize(
    ("read", "written", "text", "title"),
    [
        (7, 5, "12 tokens", "7 tokens read, 5 tokens written"),
        (None, 5, "5 tokens", "5 tokens written"),
        (7, None, "7 tokens", "7 tokens read"),
        (None, None, "", ""),
    ],
)
def test_unknown_token_counts_are_left_out(
    page: Page, read: int | None, written: int | None, text: str, title: str
) -> None:
    with on_stage() as stage:
        page.goto(stage.url)
        usage = {"input_tokens": read, "output_tokens": written}
        assert page.evaluate(_TOKENS, usage) == [text, title]


# There is no other way to hide a tab of a browser without windows, or to let half a minute pass:
# the times of live-run.js, and no other, since a connection has its patience too.
_HIDE = """() => {
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


def test_a_hidden_tab_lets_go_of_its_stream_and_is_back_when_it_is_seen(page: Page) -> None:
    ask = CallTool("send_mail", {"to": "ada"})
    with on_stage(Reply(Say("A mail."), ask), "It is sent.", held=True) as stage:
        visitor = Visitor(page, stage.url)
        page.evaluate(_HIDE)
        visitor.say("Write to Ada")
        expect(visitor.button("Stop")).to_be_visible()
        with page.expect_response(lambda answer: "/api/runs/run_" in answer.url):
            page.evaluate("window.hide(true)")  # it asks now and then, since it has let go
        stage.model.let()
        expect(page).to_have_title("(1) Write to Ada – argstream")
        expect(visitor.calls).to_have_count(0)
        page.evaluate("window.hide(false)")
        visitor.sees_states("asking")
        visitor.decides(visitor.button("Approve"))
        visitor.sees("It is sent.")

"""``<tool-call>`` by itself, with calls made by hand: each state, and decisions."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.conftest import Browsing
from tests.page.looking import browser_script, file_url
from tests.page.visitor import STAND_STILL, expect_enabled
from tests.test_sanitise import WARNINGS

MAIL = {"to": "ada@example.org", "body": "Today at one?\nAt the pond.", "copies": 2}


@pytest.fixture
def page(browsing: Browsing) -> Page:
    return open_harness(browsing.shared_page())


def open_harness(page: Page) -> Page:
    page.goto(file_url("harness/tool-call.html"))
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


class Card:
    """A call on the page."""

    def __init__(self, page: Page, call: str, **options: Any) -> None:
        """Show a call. ``call`` has the fields that differ from the default, in JavaScript."""
        self.page = page
        self.at: int = page.evaluate(
            f"""(options) => {{
              const element = show({{{call}}}, options);
              return [...document.querySelectorAll('tool-call')].indexOf(element);
            }}""",
            options,
        )
        self.element: Locator = page.locator("tool-call").nth(self.at)
        self.head = self.element.locator(".head")
        self.strip = self.element.locator(".strip")
        self.changes = self.element.locator(".changes")
        self.second = self.element.locator(".second")
        self.alert = self.element.locator(".alert")
        expect(self.element).to_have_attribute("state", re.compile("."))

    @classmethod
    def asking(cls, page: Page, given: object = MAIL, request: str = "", **options: Any) -> "Card":
        call = f"state: 'pending', arguments: {json.dumps(given)}, request: {{{request}}}"
        return cls(page, call, **options)

    def button(self, name: str) -> Locator:
        return self.element.get_by_role("button", name=name, exact=True)

    def press(self, name: str) -> None:
        """Click a button as soon as it is enabled and stands still."""
        self.button(name).evaluate(STAND_STILL)
        self.button(name).click()

    def field(self, name: str) -> Locator:
        return self.element.get_by_role("textbox", name=name, exact=True)

    def becomes(self, changes: str) -> None:
        """Change fields of the call, in JavaScript."""
        self.page.evaluate(
            f"(at) => change(document.querySelectorAll('tool-call')[at], {{{changes}}})", self.at
        )


CLICK_AT_ONCE = """async ({ shadowRoot }) => {
  const approve = () => shadowRoot.querySelector("[data-does='approve']");
  while (!approve()) await new Promise(requestAnimationFrame);
  approve().click();
  return shadowRoot.querySelector(".strip").textContent;
}"""


def decisions(page: Page) -> Any:
    """Return the decisions so far, each as ``[call ID, decision]``."""
    return json.loads(
        page.evaluate(
            """JSON.stringify(decided.flatMap((one) => Object.entries(one)),
                 (_, value) => typeof value === 'bigint' ? `big ${value}` : value)"""
        )
    )


def answer(page: Page, script: str) -> None:
    """Set the answer to the next decision: a string refuses it, a promise is the answer."""
    page.evaluate(f"() => {{ answers.push({script}); }}")


REASON = "Tell the agent why (optional)"
HELD_ANSWER = "new Promise((_, reject) => { window.refuse = reject; })"
DENIED = "state: 'denied', decision: {decision: 'denied', reason: 'no'}"


AT_PATH = "error: {message: 'it ends', path: ['a', 0, 'b c']}"
MISSING = "error: {reason: 'schema', message: 'path is missing', path: ['path']}"
POLICY = "error: {reason: 'denied', message: 'rule 3: rm', path: ['path']}"
BLOCKED = f"state: 'invalid', verdict: 'rejected', outcome: 'failed', result: 'not run', {POLICY}"
EXPIRED = DENIED.replace("'denied', reason", "'expired', reason")
WITHDRAWN = DENIED.replace("'denied', reason", "'withdrawn', reason")
DONE = "state: 'completed', outcome: 'completed'"
LARGE = "12345678901234567890"
FAILED = "state: 'failed', outcome: 'failed', result: 'Error: 30 s\\nat x'"
INVALID = "state: 'invalid', verdict: "
WAITS = "Ready. Waiting for the other calls."
EDITED = "state: 'approved', decision: {decision: 'edited'}"
# The state, the label, the text of the open card, and the second line of the collapsed one.
STATES = [
    ("state: 'writing', verdict: null", "Writing…", "", ""),
    ("state: 'written'", "Ready", WAITS, ""),
    ("state: 'pending', request: {}", "Needs approval", "it writes outside of the folder", ""),
    (EDITED, "Approved", "Approved with your edits", ""),
    ("state: 'running', output: 'one\\ntwo\\n'", "Running", "two", "two"),
    (f"{DONE}, result: 'one\\n42 files'", "Done", "42 files", ""),
    (f"{DONE}, result: {LARGE}n", "Done", LARGE, ""),
    (DONE, "Done", "", ""),
    (FAILED, "Failed", "at x", "Error: 30 s"),
    (DENIED, "Denied by you", "no", "no"),
    (EXPIRED, "Approval expired", "no", ""),
    (WITHDRAWN, "No longer needed", "no", ""),
    (BLOCKED, "Blocked by policy", "rule 3: rm", "rule 3: rm in path"),
    (f"{INVALID}'rejected', {MISSING}", "Invalid arguments", "path is missing", ""),
    (f"{INVALID}'malformed', {AT_PATH}", "Invalid JSON", 'it ends in a[0]["b c"]', ""),
    (f"{INVALID}'aborted'", "Stopped", "Stopped", ""),
    (f"{INVALID}'truncated', {AT_PATH}", "Incomplete", "The model's reply ended early", ""),
    ("state: 'lost'", "Retried", "The model's reply was interrupted and retried.", ""),
]


def test_each_state_is_shown_in_words(page: Page) -> None:
    for call, state, text, second in STATES:
        card = Card(page, call)
        expect(card.element.get_by_text("not run")).to_have_count(0)  # the error says why
        expect(card.head).to_have_accessible_name(re.compile(rf"^write_file {state}"))
        label = f"write_file, {state[0].lower()}{state[1:]}"
        expect(card.element.get_by_role("group", name=label, exact=True)).to_be_visible()
        expect(card.element).to_contain_text(text)
        collapsed = Card(page, call, open=False)
        expect(collapsed.second).to_have_text(second)
        box = collapsed.element.bounding_box()
        assert box is not None
        assert box["height"] == (36 if second == "" else pytest.approx(60, abs=4))
        for one in (collapsed, card):
            one.element.evaluate("element => element.remove()")


def test_header_shows_the_primary_argument_size_and_duration(page: Page) -> None:
    done = "state: 'completed', executedAt: [100], outcome: 'completed'"
    for arguments, took, shown in (
        ("{n: 1, content: 'a\\nb\\n', path: 'src/a.py'}", 0.024, "src/a.py2 linesDone"),
        ("{limit: 3, query: 'primes'}", 0.1, "primesDone100 ms"),
        ("{pattern: 'x', command: 'ls -l\\nrm'}", 1.25, "ls -l2 linesDone1.3 s"),
        ("{n: 2, word: 'short\\u202e'}", 75, "short⟦RLO⟧Done1 min 15 s"),
    ):
        card = Card(page, f"{done}, arguments: {arguments}, endedAt: 100 + {took}", open=False)
        expect(card.head).to_have_text(f"write_file{shown}")


def test_counter_grows_and_is_not_part_of_the_name(page: Page) -> None:
    writing = "state: 'writing', verdict: null, arguments: {a: 'x'}, startedAt: 1"
    card = Card(page, writing, unfinished="a")
    expect(card.head).to_contain_text(re.compile(r"0\.[3-9] s"))
    card.becomes("arguments: {a: 'one\\ntwo\\nthree'}")
    expect(card.head).to_contain_text("3 lines")
    assert card.strip.bounding_box() is None  # it would move with each line
    expect(card.head).to_have_accessible_name("write_file Writing…")
    card.becomes("state: 'completed', executedAt: [100], endedAt: 161.2")
    expect(card.head).to_have_accessible_name("write_file 3 lines Done 1 min 01 s")
    # A call that started before the page saw it has run for at least that long.
    known = Card(page, "state: 'running', executedAt: [40], snapshotAt: 100")
    expect(known.head).to_contain_text("at least 1 min 0")


def test_stale_card_stops_its_clock_and_cannot_be_decided(page: Page) -> None:
    running = Card(page, "state: 'running', executedAt: [1]")
    expect(running.head).to_contain_text(re.compile(r"0\.[2-9] s"))
    asking, done = Card.asking(page), Card(page, "state: 'completed'")
    expect_enabled(asking.button("Approve"))
    page.evaluate("document.querySelectorAll('tool-call').forEach((one) => { one.stale = true; })")
    for card in (running, asking):
        expect(card.head).to_contain_text("Disconnected")
    expect(running.strip).to_have_text("Reconnecting…")
    expect(done.head).to_contain_text("Done")
    expect(asking.strip.locator("button:not([aria-disabled=true])")).to_have_count(0)
    expect(asking.strip).to_contain_text("You can decide when the connection is back.")
    time = running.element.locator(".time").text_content()
    page.wait_for_timeout(300)
    assert running.element.locator(".time").text_content() == time
    running.element.evaluate("element => element.removeAttribute('stale')")
    expect(running.head).to_contain_text("Running")
    asking.element.evaluate("element => element.removeAttribute('stale')")
    expect_enabled(asking.button("Approve"))
    expect(asking.strip).not_to_contain_text("Disconnected")


def test_card_opens_and_closes_by_keyboard(page: Page) -> None:
    card = Card(page, "state: 'written', arguments: {path: 'notes.txt'}", open=False)
    expect(card.element.locator(".value")).to_be_hidden()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(card.element.locator(".value")).to_be_visible()
    expect(card.head).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Space")
    expect(card.element).not_to_have_attribute("open", "")


def test_short_results_are_inline_and_others_have_tabs(page: Page) -> None:
    card = Card(page, "state: 'running', output: 'reading\\n'")
    expect(card.strip).to_contain_text("reading")
    tab = card.element.get_by_role("tab")
    tab.click()
    output = card.element.get_by_role("group", name=re.compile("^Output"))
    expect(output).to_contain_text("reading")
    card.becomes("output: 'reading\\nwriting\\n'")
    expect(output).to_contain_text("writing")
    result = "result: {sent: [1, 2], id: 12345678901234567890n, a: 'x'.repeat(400)}"
    card.becomes(f"state: 'completed', outcome: 'completed', {result}")
    expect(tab).to_have_text(["Result", "Output", "Raw"])
    tab.nth(1).press("ArrowLeft")
    expect(tab.nth(0)).to_be_focused()
    expect(card.element.locator(".panel .line").nth(0)).to_have_text("0 1")
    tab.nth(2).click()
    raw = card.element.get_by_role("group", name=re.compile("^Raw"))
    expect(raw).to_contain_text('"id": 12345678901234567890')
    short = Card(page, "state: 'completed', outcome: 'completed', result: 'a\\nb\\nc'")
    expect(short.strip).to_have_text("a\nb\nc")
    expect(short.element.get_by_role("tab")).to_have_count(0)
    failed = Card(page, "state: 'failed', outcome: 'failed', result: 'Error: one\\nTraceback two'")
    error = failed.element.get_by_role("group", name="Error, 2 lines")
    expect(error).to_contain_text("Traceback two")
    expect(failed.button("Copy")).to_be_visible()


def test_objects_in_an_array_are_a_table(page: Page) -> None:
    rows = "[{id: 1, title: 'one'}, {id: 2, title: 'two', labels: ['bug', 3]}]"
    card = Card(page, f"state: 'completed', arguments: {{rows: {rows}}}")
    table = card.element.get_by_role("table")
    expect(table.get_by_role("columnheader")).to_have_text(["id", "title", "labels"])
    expect(table.get_by_role("row")).to_have_text(["idtitlelabels", "1one", "2twobug, 3"])
    mixed = Card(page, "state: 'completed', arguments: {a: [{b: 1}, {c: {d: 2}}]}")
    expect(mixed.element.get_by_text("d", exact=True)).to_be_visible()
    expect(mixed.element.get_by_role("table")).to_have_count(0)


def test_finished_call_folds_what_is_deep_or_long(page: Page) -> None:
    given = "{a: {b: {c: {d: {e: 'deep'}}}}, many: Array.from({length: 800}, (_, at) => at)}"
    card = Card(page, f"state: 'completed', arguments: {given}")
    expect(card.element.get_by_text("deep")).to_have_count(0)
    card.button("1 field").click()
    expect(card.element.get_by_text("deep")).to_be_visible()
    lines = card.element.locator(".line")
    expect(lines).to_have_count(101)
    card.button("Show 500 more").click()
    expect(lines).to_have_count(601)
    card.button("Show 200 more").click()
    expect(lines).to_have_count(801)
    whole = Card.asking(page, {"a": {"b": {"c": {"d": {"e": "deep"}}}}, "many": [*range(800)]})
    expect(whole.element.get_by_text("deep")).to_be_visible()
    expect(whole.element.locator(".line")).to_have_count(801)


def test_edit_is_shown_as_changes_to_the_arguments_of_the_model(page: Page) -> None:
    edited = "{decision: 'edited', edited_arguments: {path: 'a.py', content: 'bob', copy: true}}"
    given = "arguments: {path: 'a.py', content: 'ada'}, request: {}, outcome: 'completed'"
    card = Card(page, f"state: 'completed', result: 'sent', {given}, decision: {edited}")
    card.element.get_by_role("tab", name="Your edits").click()
    expect(card.changes.locator(".removed")).to_have_text(re.compile("ada"))
    expect(card.changes.locator(".added")).to_have_text([re.compile("bob"), re.compile("true")])
    expect(card.changes.locator(".title")).to_have_text(["a.py", "copy · new"])


def test_diff_has_file_name_counts_and_word_marks(page: Page) -> None:
    old = "".join(f"line {number}\n" for number in range(30)) + "x = old + 1\nend\n"
    given = {"path": "src/db.py", "old_string": old, "new_string": old.replace("old", "new")}
    for state, rows in (("pending', request: {}, verdict: 'complete", 33), ("completed", 7)):
        card = Card(page, f"state: '{state}', name: 'edit_file', arguments: {json.dumps(given)}")
        expect(card.element.locator(".tools")).to_have_text("src/db.py+1 \u22121WrapCopyExpand")
        expect(card.head.locator(".size")).to_have_text("+1 \u22121")
        expect(card.element.locator(".line")).to_have_count(0)  # the title is the path
        expect(card.element.locator(".diff .row")).to_have_count(rows)
        expect(card.element.locator(".removed .marked")).to_have_text("old")
        expect(card.element.locator(".added .marked")).to_have_text("new")
        before = "row => getComputedStyle(row, '::before').content"  # its place is not known
        assert card.element.locator(".row.added").evaluate(before) == '"+" / "added: "'
        if state == "completed":
            expect(card.element.locator(".gap")).to_have_text("⋯ 27 unchanged lines")


def node_count(page: Page) -> int:
    count: int = page.evaluate(browser_script("count-nodes"))
    return count


def test_finished_calls_keep_few_nodes_in_the_document(page: Page) -> None:
    content = "'    value = compute(1, 2)\\n'.repeat(8083)"
    card = Card(page, f"state: 'completed', arguments: {{path: 'a.py', content: {content}}}")
    rows = card.element.locator(".row")
    expect(rows).to_have_count(12)
    card.button("Show all 8,083 lines").click()
    expect(card.element.locator(".rows > .volume")).to_have_count(3)
    page.wait_for_timeout(500)
    for _ in range(3):
        page.evaluate("scrollTo(0, 1e9)")
        page.wait_for_timeout(300)
    expect(rows.last).to_be_in_viewport()
    assert rows.count() <= 1500
    assert node_count(page) <= 20_000
    card.element.evaluate("element => element.remove()")
    for _ in range(100):
        Card(page, "state: 'completed', arguments: {path: 'a.py', content: 'x\\ny'}", open=False)
    assert node_count(page) <= 8_000


def test_code_can_be_copied_and_wrapped(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    card = Card(page, "state: 'completed', arguments: {path: 'a.py', content: 'a\\u202e\\nb'}")
    card.button("Copy").click()
    expect(card.button("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "a\u202e\nb"
    expect(card.button("Wrap")).not_to_have_css("background-color", "rgba(0, 0, 0, 0)")
    card.button("Wrap").click()
    expect(card.button("Wrap")).to_have_attribute("aria-pressed", "false")
    expect(card.button("Wrap")).to_have_css("background-color", "rgba(0, 0, 0, 0)")
    expect(card.element.locator(".row").first).to_have_css("white-space", "pre")
    card.button("Expand").click()
    assert card.element.locator(".block").evaluate("block => block.offsetWidth") > 1200
    page.keyboard.press("Escape")
    expect(card.button("Expand")).to_have_attribute("aria-pressed", "false")
    expect(card.element.locator(".row").first).to_be_visible()


def test_content_of_a_sub_agent_is_inside_and_its_calls_are_counted(page: Page) -> None:
    card = Card(page, "state: 'running', name: 'ask_researcher'")
    page.evaluate(
        """() => {
          const outer = document.querySelector('tool-call');
          const row = document.createElement('div');
          outer.append('I look first.', row);
          show({state: 'completed', name: 'list_files'}, {open: false, into: row});
          const inner = show({state: 'running', name: 'ask_another'}, {into: row});
          show({state: 'running', name: 'read_file'}, {open: false, into: inner});
        }"""
    )
    head = card.head.first
    expect(head).to_contain_text("2 calls")
    expect(page.get_by_text("I look first.")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("read_file Running"))).to_be_visible()
    page.evaluate(
        "change(document.querySelectorAll('tool-call')[3], {state: 'pending', request: null})"
    )
    expect(head).to_contain_text("2 calls, 1 pending")
    head.click()
    expect(page.get_by_role("button", name=re.compile("list_files"))).to_have_count(0)


def test_mixed_scripts_are_flagged_beside_the_buttons(page: Page) -> None:
    """The page and the terminal use the same rules."""
    found = page.evaluate(
        """async (values) => {
          const { warningsAbout } = await import("/static/dom.js");
          return values.map((value) => warningsAbout(value));
        }""",
        [value for value, _ in WARNINGS],
    )
    assert found == [expected for _, expected in WARNINGS]
    card = Card.asking(page, request=r"arguments: {to: '\u0430da@example.org'}, digest: 'd'")
    expect(card.strip).to_contain_text("Mixed scripts: “\u0430da” has Cyrillic \u0430 (U+0430)")


def test_approval_is_for_the_request_that_is_shown(page: Page) -> None:
    card = Card.asking(page, request="reason: 'it costs money', digest: 'd1'")
    expect(card.strip).to_contain_text("it costs money")
    for text in ("ada@example.org", "Today at one?", "At the pond."):
        expect(card.element.get_by_text(text).last).to_be_visible()
    card.press("Approve")
    assert decisions(page) == [["call-1", {"decision": "approve", "digest": "d1"}]]
    other = Card.asking(page, request="arguments: {to: 'eve@example.org'}")
    exact = other.element.get_by_label("Exact arguments for approval")
    expect(exact).to_contain_text("eve@example.org")


def test_reason_of_a_request_is_escaped_once(page: Page) -> None:
    card = Card.asking(page, request=r"reason: 'it is \u202elarge'")
    expect(card.strip).to_contain_text("it is ⟦RLO⟧large")


def test_approval_can_hold_for_a_rule_or_the_conversation(page: Page) -> None:
    for words in (
        "Approve once",
        "Always allow write_file in this conversation",
        "Always allow calls matching “outside”",
    ):
        card = Card.asking(page, request="digest: 'd', rule: 'outside'")
        card.button("More ways to approve").click()
        expect(card.element.get_by_role("menuitem").first).to_be_focused()
        item = card.element.get_by_role("menuitem", name=words)
        item.evaluate(STAND_STILL)
        item.click()
        expect(item).to_be_hidden()
        card.element.evaluate("element => element.remove()")
    holds = [decision.get("always") for _, decision in decisions(page)]
    assert holds == [None, "conversation", "rule"]
    card = Card.asking(page)
    card.button("More ways to approve").press("Enter")
    expect(card.element.get_by_role("menuitem")).to_have_count(2)
    expect(card.element.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(card.element.get_by_role("menuitem").nth(1)).to_be_focused()
    page.keyboard.press("a")
    page.keyboard.press("Escape")
    expect(card.element.get_by_role("menuitem")).to_have_count(0)
    assert len(decisions(page)) == 3


def test_keys_decide_while_the_focus_is_in_the_card(page: Page) -> None:
    page.keyboard.press("a")
    card = Card.asking(page, request="digest: 'd'")
    expect_enabled(card.button("Approve"))
    expect(card.element.get_by_text("A approve · E edit")).to_be_hidden()
    page.keyboard.press("a")  # the focus is elsewhere
    card.element.evaluate("element => element.focus()")
    expect(card.element.get_by_role("group", name="Approval", exact=True)).to_be_focused()
    expect(card.element.get_by_text("A approve · E edit")).to_be_visible()
    page.keyboard.press("d")
    expect(card.field(REASON)).to_be_focused()
    page.keyboard.type("ade")
    page.keyboard.press("Escape")
    expect(card.button("Deny")).to_be_focused()
    page.keyboard.press("e")
    expect(card.field("to")).to_be_focused()
    page.keyboard.press("Escape")
    expect(card.button("Edit")).to_be_focused()
    page.keyboard.press("Control+a")
    assert decisions(page) == []
    expect_enabled(card.button("Approve"))
    page.keyboard.press("a")
    assert decisions(page) == [["call-1", {"decision": "approve", "digest": "d"}]]


def test_page_can_approve_calls_that_are_ready(page: Page) -> None:
    card = Card(page, "state: 'writing', verdict: null")
    approve = "element => [element.isReadyToApprove, element.approve()]"
    assert card.element.evaluate(approve) == [False, False]
    card.becomes("state: 'pending', request: {reason: '', digest: 'd', arguments: {}}")
    page.wait_for_function("() => document.querySelector('tool-call').isReadyToApprove")
    assert card.element.evaluate(approve) == [True, True]
    assert card.element.evaluate("element => element.isReadyToApprove") is False
    assert decisions(page) == [["call-1", {"decision": "approve", "digest": "d"}]]


def test_card_is_busy_until_the_decision_is_answered(page: Page) -> None:
    card = Card.asking(page)
    answer(page, HELD_ANSWER)
    card.press("Approve")
    expect(card.strip).to_have_attribute("aria-busy", "true")
    expect(card.head).to_contain_text("Approving…")
    for name in ("Approve", "Edit", "Deny"):
        expect(card.button(name)).to_be_disabled()
    page.keyboard.press("Enter")  # the focus is still on the button
    page.evaluate("refuse(new Error('it was decided\\u202e'))")
    expect(card.alert).to_have_text("it was decided⟦RLO⟧")
    expect(card.button("Approve")).to_be_focused()
    card.press("Approve")
    expect(card.alert).to_have_text("")
    assert len(decisions(page)) == 2
    card.becomes("state: 'running', decision: {decision: 'approved', reason: ''}")
    expect(card.head).to_contain_text("Running")
    expect(card.head).to_be_focused()


def test_approval_request_does_not_take_the_focus(page: Page) -> None:
    page.evaluate("document.querySelector('main').append(document.createElement('textarea'))")
    page.locator("main > textarea").focus()
    card = Card(page, "state: 'writing', verdict: null")
    card.becomes("state: 'pending', request: {reason: '', digest: 'd', arguments: {}}")
    expect(card.button("Approve")).to_be_visible()
    expect(page.locator("main > textarea")).to_be_focused()


def test_denial_offers_a_reason_and_needs_none(page: Page) -> None:
    card = Card.asking(page, request="digest: 'd'")
    card.button("Deny").click()
    reason = card.field(REASON)
    expect(reason).to_be_focused()
    reason.press("Escape")
    expect(card.button("Deny")).to_be_focused()
    expect(reason).to_have_count(0)
    expect(card.strip).to_contain_text("it writes outside of the folder")
    card.button("Deny").click()
    reason.fill("not on a Friday")
    reason.press("Enter")
    card.becomes(DENIED)
    expect(card.head).to_be_focused()

    other = Card.asking(page, request="digest: 'e'")
    other.button("Deny").click()
    other.button("Cancel").click()
    expect(other.button("Deny")).to_be_focused()
    other.button("Deny").click()
    other.button("Deny").click()
    assert decisions(page) == [
        ["call-1", {"decision": "deny", "digest": "d", "reason": "not on a Friday"}],
        ["call-2", {"decision": "deny", "digest": "e"}],
    ]


def test_time_left_to_decide_is_shown(page: Page) -> None:
    soon = Card.asking(page, request="expires_at: Date.now() / 1000 + 95")
    expect(soon.strip).to_contain_text(re.compile(r"Expires in 1:[123]\d"))
    over = Card.asking(page, request="expires_at: 5")
    expect(over.strip).to_contain_text("Expired")
    # The server's clock is years behind: only the difference of its times counts.
    skewed = Card(page, "state: 'pending', requestedAt: 100, request: {expires_at: 130}")
    expect(skewed.strip).to_contain_text(re.compile(r"Expires in 0:(30|[12]\d)"))


def test_decision_is_impossible_in_a_replay_or_without_a_listener(page: Page) -> None:
    replayed = Card.asking(page, readonly=True)
    expect(replayed.strip).to_contain_text("it writes outside of the folder")
    expect(replayed.button("Approve")).to_have_count(0)
    page.evaluate(
        """() => {
          const old = document.querySelector('tool-call');
          const fresh = document.createElement('tool-call');
          old.replaceWith(Object.assign(fresh, { call: old.call, open: true }));
        }"""
    )
    replayed.press("Approve")
    expect(replayed.alert).to_have_text("This page can't send decisions.")


NOT_STILL = "The button just moved. Click again to confirm."


def centre(locator: Locator) -> tuple[float, float]:
    box = locator.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def press_at(page: Page, locator: Locator, count: int = 1) -> None:
    """Click at once, whatever is there."""
    page.mouse.click(*centre(locator), click_count=count)


def test_double_click_on_cancel_approves_nothing(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})  # Approve is where Cancel was
    card = Card.asking(page)
    for first in ("Deny", "Edit"):
        card.button(first).click()
        box = card.button("Cancel").bounding_box()
        assert box is not None
        if first == "Deny":  # side by side
            assert centre(card.button("Deny"))[1] == centre(card.button("Cancel"))[1]
        for share in (0.1, 0.5, 0.9):
            page.mouse.dblclick(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
            assert decisions(page) == []
            if card.button("Cancel").count():
                card.button("Cancel").click()
            card.button(first).click()
        card.button("Cancel").click()
    page.mouse.dblclick(*centre(card.button("Deny")))
    assert decisions(page) == []


def test_approve_is_enabled_only_after_a_moment(page: Page) -> None:
    early = page.evaluate(browser_script("approve-early"))
    assert early["seen"] == ["true", None]
    assert early["decided"] == 0
    assert 390 < early["took"] < 3000
    assert early["isEqual"]
    card = Card.asking(page)
    expect_enabled(card.button("Approve"))
    # A page that becomes visible starts the wait again.
    become_visible = "document.dispatchEvent(new Event('visibilitychange'))"
    disabled = f"button => {{ {become_visible}; return button.ariaDisabled; }}"
    assert card.element.locator(".decisive.main").evaluate(disabled) == "true"
    expect_enabled(card.button("Approve"))
    card.head.click()
    expect(card.element.locator(".decisive.main")).to_have_attribute("aria-disabled", "true")
    card.head.click()
    card.button("Approve").focus()
    expect_enabled(card.button("Approve"))
    page.keyboard.press("Enter")
    assert [call for call, _ in decisions(page)] == ["call-2"]


def test_click_on_a_button_that_just_moved_is_ignored(page: Page) -> None:
    card = Card.asking(page)
    approve = card.button("Approve")
    expect_enabled(approve)
    page.evaluate(
        """() => {
          const spacer = document.createElement('div');
          document.body.prepend(spacer);
          window.moving = setInterval(() => {
            spacer.style.height = `${spacer.offsetHeight + 1}px`;
          }, 30);
        }"""
    )
    page.wait_for_timeout(200)
    press_at(page, approve)
    expect(card.element.locator(".moved")).to_have_text(NOT_STILL)
    assert decisions(page) == []
    # The keyboard is not affected.
    approve.focus()
    page.keyboard.press("Enter")
    assert len(decisions(page)) == 1
    denied = Card.asking(page)
    denied.button("Deny").evaluate("button => button.click()")
    expect_enabled(denied.button("Deny"))
    press_at(page, denied.button("Deny"))
    expect(denied.strip).to_contain_text(NOT_STILL)
    denied.field(REASON).press("Enter")
    assert len(decisions(page)) == 2
    page.evaluate("clearInterval(moving)")
    other = Card.asking(page)
    expect_enabled(other.button("Approve"))
    page.wait_for_timeout(600)
    press_at(page, other.button("Approve"), count=2)  # of which one counts
    expect(other.strip).to_have_attribute("aria-busy", "true")
    assert len(decisions(page)) == 3


def test_approve_is_disabled_until_all_arguments_are_shown(page: Page) -> None:
    result = page.evaluate(browser_script("approve-before-all-is-shown"))
    assert result["decided"] == 0
    assert len(result["early"]) > 5
    assert all(one == ["true", None] for one in result["early"])
    if len(result["early"]) > 20:  # the progress is shown after half a second
        assert any(re.search(r"Rendering… \d+ %", words) for words in result["words"])
    card = page.locator("tool-call")
    approve = card.get_by_role("button", name="Approve", exact=True)
    expect_enabled(approve)
    approve.evaluate(STAND_STILL)
    approve.click()
    assert len(decisions(page)) == 1


def test_pending_arguments_are_shown_whole_above_a_sticky_footer(page: Page) -> None:
    lines = "\\n".join(f"line {number}" for number in range(90))
    given = "{path: 'a.txt', content: '%s', more: {}}"
    card = Card(
        page, f"state: 'writing', verdict: null, arguments: {given % lines}", unfinished="content"
    )
    code = card.element.locator(".code")
    expect(card.element.get_by_text("line 89")).to_be_visible()
    expect(card.strip).to_have_text("Writing content… 90 lines")
    overflow = "element => element.scrollHeight - element.clientHeight"
    assert code.evaluate(overflow) > 300
    page.wait_for_function(  # it follows its end
        "element => element.shadowRoot.querySelector('.code').scrollTop > 300",
        arg=card.element.element_handle(),
    )
    request = f"request: {{reason: 'why', digest: 'd', arguments: {given % lines}}}"
    card.becomes(f"state: 'pending', verdict: 'complete', arguments: {given % lines}, {request}")
    expect_enabled(card.button("Approve"))
    assert code.evaluate(overflow) < 2
    expect(card.strip).to_contain_text("90 lines · scroll to see all")
    page.evaluate("scrollTo(0, 500)")
    expect(card.button("Approve")).to_be_in_viewport(ratio=1)
    card.button("Edit").click()
    expect(card.strip).not_to_contain_text("scroll")
    short = Card.asking(page)
    expect_enabled(short.button("Approve"))
    expect(short.strip).not_to_contain_text("scroll")


def test_early_click_is_answered(page: Page) -> None:
    card = Card.asking(page)
    told = card.element.evaluate(CLICK_AT_ONCE)
    assert "Not yet: review the call, then click again." in told
    assert decisions(page) == []
    card.press("Approve")
    assert len(decisions(page)) == 1


def test_edit_keeps_all_other_arguments_exactly(page: Page) -> None:
    card = Card(
        page,
        """state: 'pending', request: {digest: 'd'}, arguments: JSON.parse(
          '{"to": "ada\\u202e\\\\r\\\\n", "id": 0, ' +
          '"__proto__": {"a": [1.5, null]}, "note": "\\u27e6ESC\\u27e7"}',
          (key, value) => key === 'id' ? 12345678901234567890n : value)""",
    )
    card.button("Edit").click()
    expect(card.field("to")).to_be_focused()
    expect(card.field("to")).to_have_value("ada⟦RLO⟧⟦CR⟧\n")
    expect(card.field("id")).to_have_value("12345678901234567890")
    expect(card.field("note")).to_have_value("⟦U+27E6⟧ESC⟧")
    expect(card.button("Approve with edits")).to_be_disabled()
    expect(card.button("Approve with edits")).to_have_accessible_description("No changes yet")
    card.button("Approve with edits").click(force=True)
    expect(card.strip).to_contain_text("No changes to approve. Edit a field or cancel.")
    card.field("id").fill("12345678901234567891")
    expect(card.changes.locator(".removed")).to_contain_text("12345678901234567890")
    expect(card.changes.locator(".added")).to_contain_text("12345678901234567891")
    card.press("Approve with edits")
    [(_, decision)] = decisions(page)
    assert decision == {
        "decision": "approve",
        "digest": "d",
        "arguments": {
            "to": "ada\u202e\r\n",
            "id": "big 12345678901234567891",
            "__proto__": {"a": [1.5, None]},
            "note": "⟦ESC⟧",
        },
    }


def test_invalid_json_is_reported_at_its_field(page: Page) -> None:
    card = Card.asking(page)
    card.button("Edit").click()
    card.field("copies").fill("{")
    expect(card.field("copies")).to_have_attribute("aria-invalid", "true")
    expect(card.field("copies")).to_have_accessible_description(re.compile("^Invalid JSON: "))
    expect(card.button("Approve with edits")).to_be_disabled()
    expect(card.changes).to_have_text("Fields with errors are not compared.")
    card.button("Edit as JSON").click()
    expect(card.field("copies")).to_be_focused()
    card.field("copies").fill("3")
    expect(card.button("Approve with edits")).to_be_enabled()
    expect(card.field("copies")).not_to_have_attribute("aria-invalid", "true")


def test_all_arguments_can_be_edited_as_json(page: Page) -> None:
    card = Card.asking(page)
    card.button("Edit").click()
    changes = card.element.get_by_role("region", name="Changes", exact=True)
    expect(changes).to_be_hidden()
    card.field("to").fill("bob")
    expect(changes).to_be_visible()
    card.button("Edit as JSON").click()
    whole = card.field("Arguments as JSON")
    expect(whole).to_be_focused()
    assert json.loads(whole.input_value()) == MAIL | {"to": "bob"}
    whole.fill("[]")
    expect(whole).to_have_accessible_description("Must be a JSON object: { … }")
    whole.fill('{"to": "eve", "when": "now"}')
    for words in ("body · removed", "copies · removed", "when · new"):
        expect(card.changes).to_contain_text(words)
    card.button("Edit as form").click()
    expect(card.field("when")).to_have_value("now")
    card.press("Approve with edits")
    [(_, decision)] = decisions(page)
    assert decision["arguments"] == {"to": "eve", "when": "now"}


def test_call_without_fields_is_edited_as_json(page: Page) -> None:
    card = Card.asking(page, {})
    card.button("Edit").click()
    whole = card.field("Arguments as JSON")
    expect(whole).to_be_focused()
    unsent = "element => element.hasUnsentEdit"
    assert card.element.evaluate(unsent) is False
    whole.fill('{"to": {"a": 1, "b": [{"c": "}"}, {"c": 2}], "\\u0061": 2}}')
    expect(whole).to_have_accessible_description('Duplicate key: "a"')
    expect(whole).to_have_attribute("aria-invalid", "true")
    expect(card.changes).to_have_text("Fields with errors are not compared.")
    assert card.element.evaluate(unsent) is True
    for text, wrong in (
        ('{"a": "x", "b": {"a": "\\"a\\": 1"}, "c": ["a", "a"]}', ""),
        ('{"a\\u202e": 1, "a\\u202e": 2}', 'Duplicate key: "a⟦RLO⟧"'),
        ('{"a": [[], {}, {"b": {}, "b": []}]}', 'Duplicate key: "b"'),
        ('{"__proto__": 1, "constructor": 2}', ""),
    ):
        whole.fill(text)
        expect(whole).to_have_accessible_description(wrong)
    card.press("Approve with edits")
    assert [one["arguments"] for _, one in decisions(page)] == [{"__proto__": 1, "constructor": 2}]
    assert card.element.evaluate(unsent) is False
    many = Card.asking(page, {f"key {number}": number for number in range(101)})
    many.button("Edit").click()
    expect(many.field("Arguments as JSON")).to_be_focused()
    many.field("Arguments as JSON").fill("{}")
    expect(many.changes).to_contain_text("and 1 argument more")


def test_cancelled_edit_changes_nothing(page: Page) -> None:
    card = Card.asking(page)
    card.button("Edit").click()
    card.field("to").fill("bob")
    card.field("to").press("Escape")  # keeps the text
    expect(card.field("to")).to_have_value("bob")
    expect(card.changes).to_contain_text("bob")
    card.button("Cancel").click()
    expect(card.button("Edit")).to_be_focused()
    expect(card.element.get_by_text("ada@example.org").last).to_be_visible()
    card.button("Edit").click()
    card.field("to").press("Escape")
    expect(card.button("Edit")).to_be_focused()
    assert decisions(page) == []


def test_refused_edit_is_kept(page: Page) -> None:
    card = Card.asking(page)
    answer(page, "'to: must be an address'")
    card.button("Edit").click()
    card.field("to").fill("x")
    card.press("Approve with edits")
    expect(card.alert).to_have_text("to: must be an address")
    expect(card.field("to")).to_have_value("x")
    card.field("to").fill("bob@example.org")
    card.press("Approve with edits")
    card.becomes("state: 'running', decision: {decision: 'edited', reason: ''}")
    expect(card.field("to")).to_have_count(0)
    expect(card.head).to_be_focused()
    assert [one["arguments"]["to"] for _, one in decisions(page)] == ["x", "bob@example.org"]


@pytest.mark.parametrize("is_sent", [False, True])
def test_edit_can_be_read_after_a_decision_elsewhere(page: Page, is_sent: bool) -> None:
    card = Card.asking(page)
    answer(page, HELD_ANSWER)
    card.button("Edit").click()
    card.field("body").fill("A long letter")
    if is_sent:
        card.press("Approve with edits")
    card.becomes(DENIED)
    expect(card.element).to_have_attribute("state", "denied")
    if is_sent:
        page.evaluate("refuse(new Error('it was decided already'))")
    words = "Already decided: denied by you. Your edits were not sent."
    expect(card.element).to_contain_text(words)
    expect(card.field("body")).to_have_value("A long letter")
    expect(card.field("body")).not_to_be_editable()
    expect(card.button("Approve with edits")).to_have_count(0)
    card.button("Dismiss").click()
    expect(card.field("body")).to_have_count(0)
    expect(card.head).to_be_focused()


def test_edit_of_a_large_text_shows_only_changes_and_sends_all(page: Page) -> None:
    lines = "\n".join(f"line {number} of a large text" for number in range(8000))
    card = Card.asking(page, {"text": lines})
    card.button("Edit").click()
    card.field("text").evaluate("field => field.setSelectionRange(100, 100)")
    card.field("text").press_sequentially("hello", delay=30)
    expect(card.changes.locator(".added")).to_contain_text("hello")
    expect(card.changes).to_contain_text("unchanged lines")
    card.press("Approve with edits")
    assert len(decisions(page)[0][1]["arguments"]["text"]) == len(lines) + 5


def test_removed_element_stands_still_and_continues_when_it_is_back(page: Page) -> None:
    gone, still, back = page.evaluate(browser_script("remove-and-put-back"))
    assert gone == still != back


def test_properties_set_before_the_definition_are_used(page: Page) -> None:
    page.goto(file_url("harness/early.html"))
    expect(page.get_by_role("button", name=re.compile("early Ready"))).to_be_visible()
    expect(page.locator("tool-call")).to_have_attribute("open", "")


def test_texts_slots_and_parts_are_for_the_embedding_page(page: Page) -> None:
    card = Card.asking(page)
    card.element.evaluate("element => { element.labels = { approve: 'Oui', pending: 'À voir' }; }")
    expect(card.button("Oui")).to_be_visible()
    expect(card.head).to_contain_text("À voir")
    card.element.evaluate("element => element.setAttribute('labels', '{\"approve\": \"Ja\"}')")
    expect(card.button("Ja")).to_be_visible()
    for part in ("header", "code", "approval"):
        expect(card.element.locator(f"[part={part}]").first).to_be_visible()
    done = Card(
        page, "state: 'completed', arguments: {to: 'ada'}, outcome: 'completed', result: 'Sent'"
    )
    for one in (card, done):
        one.element.evaluate("""element => {
            for (const [slot, text] of [["arguments", "A mail to Ada"], ["result", "It is sent"]]) {
              const own = Object.assign(document.createElement("p"), { slot });
              element.append(own);
              own.append(text);
            }
        }""")
        expect(one.element.get_by_text("A mail to Ada")).to_be_visible()
    expect(done.element.locator(".value")).to_be_hidden()
    expect(done.element.get_by_text("It is sent")).to_be_visible()
    expect(done.strip).to_be_hidden()  # it had the result
    expect(card.element.get_by_text("It is sent")).to_be_hidden()
    expect(card.element.get_by_text("ada@example.org").last).to_be_visible()  # what is approved
    toggled = "element => new Promise((resolve) => element.addEventListener('toggle', resolve))"
    done.element.evaluate(f"element => {{ window.toggled = ({toggled})(element); }}")
    done.head.click()
    page.evaluate("async () => { await window.toggled; }")
    done.element.evaluate("element => { element.readonly = true; }")
    expect(done.element).to_have_attribute("readonly", "")

"""A user of the page. Finds things by their accessible names, as a screen reader does."""

import re
from contextlib import suppress

from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.page.looking import browser_script

# Inside of custom elements too, which the browser's own innerText leaves out.
_READ = browser_script("read-conversation")

# A click on a button that decides is ignored if the button moved less than 0.3 s before.
STAND_STILL = browser_script("stand-still")

_HAS_TEXTS = f"""(texts) => {{
  const element = document.querySelector("#conversation");
  const read = element === null ? "" : ({_READ})(element);
  return texts.every((text) => read.includes(text));
}}"""
_HAS_STATES = """(states) => {
  const found = (root) => [...root.querySelectorAll("tool-call")].flatMap((call) =>
    [call.getAttribute("state"), ...found(call.shadowRoot)]);
  return found(document).join() === states.join();
}"""


def wait_soon(page: Page, condition: str, arg: object) -> None:
    """Wait some seconds for a condition, and look at each frame.

    Playwright's own assertions look again after 0.1, 0.35, 0.85 and 1.85 seconds. They follow.
    """
    with suppress(PlaywrightTimeoutError):
        page.wait_for_function(condition, arg=arg, timeout=4_000)


def expect_enabled(button: Locator) -> None:
    button.evaluate(
        """async (button) => {
          const end = performance.now() + 10_000;
          while (button.ariaDisabled && performance.now() < end) {
            await new Promise(requestAnimationFrame);
          }
        }"""
    )
    expect(button).to_be_enabled()


def requests_of(page: Page) -> list[str]:
    """Return a list to which the requests of a page are added, such as ``GET http://…``."""
    requested: list[str] = []
    page.on("request", lambda request: requested.append(f"{request.method} {request.url}"))
    return requested


class Visitor:
    def __init__(self, page: Page, url: str = "") -> None:
        self.page = page
        self.message = page.get_by_role("textbox", name="Message")
        self.conversation = page.get_by_role("region", name="Conversation")
        self.calls = page.locator("tool-call")  # those of sub-agents too
        self.sidebar = page.get_by_role("navigation", name="Conversations")
        if url:
            page.goto(url)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Locator:
        """Return a link in the sidebar."""
        return self.sidebar.get_by_role("link", name=name)

    def field(self, name: str) -> Locator:
        return self.page.get_by_role("textbox", name=name, exact=True)

    def pill(self, name: str) -> Locator:
        """Return the head of a call, a button that opens it."""
        return self.calls.get_by_role("button", name=re.compile(rf"\b{re.escape(name)}\b"))

    def opens_panel(self, name: str) -> None:
        """Open the timeline or the replay of the newest run."""
        if self.button(name).is_visible():
            self.button(name).click()
        else:  # on a phone
            self.button("More actions").click()
            self.page.get_by_role("menuitem", name=name).click()

    def region(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name)

    def say(self, prompt: str) -> None:
        self.message.fill(prompt)
        self.message.press("Enter")

    def decides(self, button: Locator) -> None:
        """Click a button that decides, as soon as a click on it counts."""
        button.scroll_into_view_if_needed()
        button.evaluate(STAND_STILL)
        button.click()

    def sees(self, *texts: str) -> None:
        """Wait until the conversation contains these texts."""
        wait_soon(self.page, _HAS_TEXTS, texts)
        for text in texts:
            expect(self.conversation).to_contain_text(text)

    def sees_states(self, *states: str) -> None:
        """Wait until the calls are in these states, in order."""
        wait_soon(self.page, _HAS_STATES, states)
        for number, state in enumerate(states):
            expect(self.calls.nth(number)).to_have_attribute("state", state)
        expect(self.calls).to_have_count(len(states))

    def opens(self, pill: Locator) -> None:
        if pill.get_attribute("aria-expanded") != "true":
            pill.click()
        expect(pill).to_have_attribute("aria-expanded", "true")

    def text(self) -> str:
        """Return the text of the conversation."""
        read: str = self.conversation.evaluate(_READ)
        return read

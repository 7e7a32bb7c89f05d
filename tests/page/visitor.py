"""A user of the page. Finds things by their accessible names, as a screen reader does."""

import re

from playwright.sync_api import Locator, Page, expect

# Inside of custom elements too, which the browser's own innerText leaves out.
_READ = """(element) => {
  const texts = [];
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) texts.push(node.data);
    if (node.shadowRoot) walk(node.shadowRoot);
    for (const child of node.childNodes) walk(child);
  };
  walk(element);
  return texts.join(" ");
}"""

# A click on a button that decides is ignored if the button moved less than 0.3 s before.
_STAND_STILL = """(button) => new Promise((resolve) => {
  let last = "", since = 0;
  const look = (now) => {
    const { x, y, width, height } = button.getBoundingClientRect();
    const place = [x, y, width, height].join();
    if (place !== last) { last = place; since = now; }
    if (now - since > 400) resolve(); else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


class Visitor:
    def __init__(self, page: Page, url: str = "") -> None:
        self.page = page
        self.requested: list[str] = []
        page.on("request", lambda request: self.requested.append(f"{request.method} {request.url}"))
        self.message = page.get_by_role("textbox", name="Message")
        self.conversation = page.get_by_role("region", name="Conversation")
        self.calls = page.locator("tool-call")  # those of sub-agents too
        self.runs = page.get_by_role("navigation", name="Runs")
        if url:
            page.goto(url)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Locator:
        """Return a link in the list of runs."""
        return self.runs.get_by_role("link", name=name)

    def field(self, name: str) -> Locator:
        return self.page.get_by_role("textbox", name=name, exact=True)

    def pill(self, name: str) -> Locator:
        """Return the head of a call, a button that opens it."""
        return self.calls.get_by_role("button", name=re.compile(rf"\b{re.escape(name)}\b"))

    def region(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name)

    def say(self, prompt: str) -> None:
        self.message.fill(prompt)
        self.message.press("Enter")

    def decides(self, button: Locator) -> None:
        """Click a button that decides, as soon as a click on it counts."""
        button.scroll_into_view_if_needed()
        button.evaluate(_STAND_STILL)
        button.click()

    def sees(self, *texts: str) -> None:
        """Wait until the conversation contains these texts."""
        for text in texts:
            expect(self.conversation).to_contain_text(text)

    def sees_states(self, *states: str) -> None:
        """Wait until the calls are in these states, in order."""
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

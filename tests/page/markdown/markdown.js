// Helpers for test_markdown.py: render texts, whole and in pieces.

import { MarkdownView } from "../static/markdown.js";

const main = document.querySelector("#main");

function grown(texts, hasTime) {
  const view = new MarkdownView();
  for (const text of texts) while (!view.grow(text, hasTime));
  return view.element;
}

/** Return the markup of an element without the chunks, which depend on how the text came. */
function markupOf(element) {
  const copy = element.cloneNode(true);
  for (const box of copy.querySelectorAll(".chunk, .volume")) box.replaceWith(...box.childNodes);
  return copy.innerHTML;
}

/** Return a rendering as the HTML that a CommonMark renderer writes. */
function htmlOf(node, isTight = false) {
  if (node instanceof Text) {
    const marks = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
    return node.data.replace(/[&<>"]/g, (mark) => marks[mark]);
  }
  const tag = /^h\d/.test(node.localName) ? `h${node.className.at(-1)}` : node.localName;
  const inner = [...node.childNodes]
    .map((child) => htmlOf(child, tag === "li" && !("loose" in node.parentNode.dataset))).join("");
  const wrapped = (more = "", name = tag) => `<${name}${more}>${inner}</${name}>\n`;
  switch (tag) {
    case "div": return node.className === "fenced-head" ? "" : inner;
    case "span": return node.className === "target" ? "" : inner;
    case "br": case "hr": return `<${tag} />\n`;
    case "p": return isTight ? `${inner}\n` : wrapped();
    case "a": return `<a href="${node.getAttribute("href")}">${inner}</a>`;
    case "ol": return wrapped(node.start === 1 ? "" : ` start="${node.start}"`);
    case "pre": return `<pre><code>${inner}</code></pre>\n`;
    case "td": case "th":
      return wrapped({ right: ' style="text-align:right"', centered: ' style="text-align:center"' }[
        node.className] ?? "");
    case "em": case "strong": case "code": return `<${tag}>${inner}</${tag}>`;
    case "del": return `<s>${inner}</s>`;
    default: return wrapped();
  }
}

Object.assign(window, {
  MarkdownView,

  /** Render texts, each one whole. */
  rendered: (texts) => texts.map((text) => htmlOf(grown([text]))),

  /** Return the prefixes whose rendering differs when the text grows from cut to cut. */
  differences(text, cuts, hasTime = undefined) {
    const view = new MarkdownView();
    const wrong = [];
    for (const cut of [...cuts, text.length]) {
      const prefix = text.slice(0, cut);
      while (!view.grow(prefix, hasTime));
      const [is, expected] = [markupOf(view.element), markupOf(grown([prefix]))];
      if (is !== expected) wrong.push({ prefix, is, expected });
    }
    return wrong.slice(0, 3);
  },

  /** Return the mean milliseconds of a delta of 40 characters: near the start and at the end. */
  costs(text) {
    const view = new MarkdownView();
    main.replaceChildren(view.element);
    const mean = (from) => {
      view.grow(text.slice(0, from));
      const times = [];
      for (let end = from + 40; end <= from + 8000; end += 40) {
        const prefix = text.slice(0, end);
        const begun = performance.now();
        view.grow(prefix);
        times.push(performance.now() - begun);
      }
      times.sort((a, b) => a - b).length -= 20; // the slowest were interrupted
      return times.reduce((sum, time) => sum + time, 0) / times.length;
    };
    return [mean(8000), mean(text.length - 8000)];
  },

  /** Show a text on the page. */
  show(text) {
    main.replaceChildren(grown([text]));
  },
});
window.isReady = true;

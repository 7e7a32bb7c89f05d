// How the element looks: one constructed stylesheet for all of its instances. It lives in their
// shadow roots only, so a page that copies the element in gets no rule of it. Colours and fonts
// are custom properties, `--argstream-…`; a page that sets none gets the same, light and dark.

import { viewsStyle } from "./views-style.js";

const css = `
:host {
  --ink: var(--argstream-ink, light-dark(#1c2128, #e6e9ee));
  --soft: var(--argstream-soft, light-dark(#57606a, #9aa4b0));
  --paper: var(--argstream-paper, light-dark(#ffffff, #0f1216));
  --raised: var(--argstream-raised, light-dark(#f6f7f9, #171b21));
  --line: var(--argstream-line, light-dark(#d9dde3, #2d333b));
  --accent: var(--argstream-accent, light-dark(#0b62d6, #6cb0ff));
  --good: var(--argstream-good, light-dark(#17722f, #56c271));
  --warn: var(--argstream-warn, light-dark(#8a5a00, #e0a93b));
  --bad: var(--argstream-bad, light-dark(#b3261e, #ff8078));
  --code: var(--argstream-code-font, ui-monospace, monospace);
  --state: var(--soft);
  /* The borders of what is typed into or pressed must be seen at 3:1. */
  --edge: color-mix(in srgb, var(--soft) 80%, var(--paper));
  display: inline-block;
  vertical-align: top;
  max-width: 100%;
  min-width: 0;
  color: var(--ink);
  font: 0.875rem/1.45 var(--argstream-font, system-ui, sans-serif);
  text-align: start;
}
:host([open]) { display: block; flex: 1 1 24rem; min-width: min(24rem, 100%); }
:host([hidden]) { display: none; }
:host([state="writing"]), :host([state="running"]), :host([state="approved"]) {
  --state: var(--accent);
}
:host([state="completed"]) { --state: var(--good); }
:host([state="pending"]) { --state: var(--warn); }
:host([state="failed"]), :host([state="invalid"]) { --state: var(--bad); }
*, *::before, *::after { box-sizing: border-box; }
[hidden] { display: none !important; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }

/* The pill, and the card that it becomes. */
.call {
  max-width: 100%;
  contain: paint;
  border: 1px solid var(--line);
  border-radius: 1rem;
  background: var(--raised);
}
:host([open]) .call { border-radius: 0.625rem; background: var(--paper); }
:host([state="pending"]) .call {
  border-color: color-mix(in srgb, var(--warn) 55%, var(--line));
}
.head {
  display: flex;
  align-items: center;
  gap: 0.5rem;
  width: 100%;
  min-height: 1.875rem;
  padding: 0.1875rem 0.75rem 0.1875rem 0.625rem;
  border: 0;
  border-radius: 1rem;
  background: none;
  color: inherit;
  font: inherit;
  text-align: start;
  cursor: pointer;
}
:host([open]) .head { min-height: 2.25rem; border-radius: 0.5625rem; }
.head:hover { background: color-mix(in srgb, var(--ink) 4%, transparent); }
.head:focus-visible { outline-offset: -2px; }
.dot {
  flex: none;
  display: grid;
  place-items: center;
  width: 0.75rem;
  height: 1rem;
  color: var(--state);
  font-weight: 700;
  line-height: 1;
}
.dot:empty::before {
  content: "";
  width: 0.5rem;
  height: 0.5rem;
  border-radius: 50%;
  background: currentColor;
}
:host([state="writing"]) .dot::before, :host([state="running"]) .dot::before {
  animation: pulse 1.4s ease-in-out infinite;
}
@keyframes pulse {
  50% { opacity: 0.35; transform: scale(0.7); }
}
.name {
  flex: 0 1 auto;
  min-width: 0;
  overflow: hidden;
  font-weight: 600;
  text-overflow: ellipsis;
  white-space: nowrap;
  unicode-bidi: isolate;
}
:host([open]) .name { white-space: normal; overflow-wrap: anywhere; }
.state { flex: none; color: var(--state); }
.size, .time { color: var(--soft); font-variant-numeric: tabular-nums; white-space: nowrap; }
/* What is left of the line is for the size: the name is not cut as long as there is any. */
.size { flex: 1 1 0; min-width: 0; overflow: hidden; text-align: end; text-overflow: ellipsis; }
.time { flex: none; }
:host(:not([open])) .size:empty, .time:empty { display: none; }
.mark {
  flex: none;
  width: 0.4375rem;
  height: 0.4375rem;
  margin: 0 0.125rem;
  border: solid var(--soft);
  border-width: 0 1.5px 1.5px 0;
  transform: translateX(-0.125rem) rotate(-45deg);
}
:host([open]) .mark { transform: translateY(-0.125rem) rotate(45deg); }
:host([state="lost"]) .head { color: var(--soft); }
:host([state="lost"]) .given { filter: grayscale(1) opacity(0.85); }
:host([state="lost"]) .name { text-decoration: line-through; }

/* Marks that pile up stay where they are, whatever shows the words of somebody. */
.said:not(:has(input)), .alert, .wrong, .hint, .notice, .told > span, .heading, .field label {
  overflow: clip;
}

/* What is inside. */
.body { container-type: inline-size; }
.given { padding: 0 0.75rem 0.5rem; }
.inner {
  margin: 0 0.75rem 0.625rem;
  padding-inline-start: 0.75rem;
  border-inline-start: 2px solid var(--line);
}
.panel { padding: 0 0.75rem 0.625rem; }
.panel:empty { display: none; }
/* The strip: for a call that goes on, as high from the beginning as it will be with its buttons. It
   is not seen before there is something to say: below a text that grows, it would always move. */
.strip {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 0.375rem 0.75rem;
  min-height: 2.25rem;
  padding: 0.4375rem 0.75rem;
  border-top: 1px solid var(--line);
}
.said {
  flex: 1 1 12rem;
  min-width: 0;
  color: var(--soft);
  overflow-wrap: anywhere;
  unicode-bidi: isolate;
}
.live .strip { min-height: 2.875rem; }
:host([state="writing"]) .strip { visibility: hidden; }
.said:has(input) { display: flex; align-items: center; gap: 0.5rem; }
.said b { color: var(--state); font-weight: 600; }
.said.one {
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}
.said code { color: var(--ink); font: 0.8125rem var(--code); }
.left { font-variant-numeric: tabular-nums; white-space: nowrap; }
.moved b { color: var(--warn); }
.buttons { display: flex; flex-wrap: wrap; align-items: center; gap: 0.375rem; }
.buttons:empty { display: none; }
.alert { flex: 1 0 100%; color: var(--bad); overflow-wrap: anywhere; }
/* Not hidden: what is said in a part that was there before is read out. */
.alert:empty { position: absolute; }
button.act, select, textarea, input {
  border: 1px solid var(--edge);
  border-radius: 0.375rem;
  background: var(--paper);
  color: inherit;
  font: inherit;
}
button.act {
  min-height: 1.875rem;
  padding: 0.125rem 0.75rem;
  border-color: var(--line);
  background: var(--raised);
  cursor: pointer;
}
button.act:hover { border-color: var(--edge); }
button.main { border-color: transparent; background: var(--accent); color: var(--paper); }
button.main:hover { border-color: transparent; filter: brightness(1.08); }
button.no { color: var(--bad); }
button.plain {
  margin-inline: -0.375rem;
  padding-inline: 0.375rem;
  border-color: transparent;
  background: none;
  color: var(--accent);
}
button.plain:not([hidden]) ~ button.plain { margin-inline-start: 0.25rem; }
button.plain:hover { border-color: transparent; text-decoration: underline; }
button.act[aria-disabled="true"] { opacity: 0.55; cursor: default; filter: none; }
button.act.soon { opacity: 0.8; }
select {
  field-sizing: content;
  max-width: min(100%, 18rem);
  min-height: 1.875rem;
  padding: 0.125rem 0.25rem;
  border-color: transparent;
  background: transparent;
  color: var(--soft);
  text-overflow: ellipsis;
}
select option { background: var(--paper); color: var(--ink); }
select:hover { border-color: var(--line); }
input { flex: 1 1 12rem; min-width: 0; min-height: 1.875rem; padding: 0.125rem 0.5rem; }
.strip label { color: var(--soft); }
.strip[aria-busy="true"] .said::after { content: " · sent"; }

/* The editor. */
.editor { display: grid; gap: 0.5rem; padding: 0.125rem 0.75rem 0.625rem; }
.editor > .plain { justify-self: start; }
.fields { display: grid; gap: 0.625rem; }
.told { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem; color: var(--warn); }
.told:empty { display: none; }
.field { display: grid; gap: 0.1875rem; }
.field label {
  color: var(--soft);
  font: 0.8125rem/1.4 var(--code);
  overflow-wrap: anywhere;
  unicode-bidi: isolate;
}
textarea {
  display: block;
  width: 100%;
  padding: 0.3125rem 0.5rem;
  font: 0.8125rem/1.5 var(--code);
  resize: vertical;
  overflow-wrap: anywhere;
  tab-size: 4;
}
textarea[rows="1"] { resize: none; }
textarea[aria-invalid="true"] { border-color: var(--bad); }
textarea[readonly] { background: var(--raised); }
.hint { color: var(--soft); font-size: 0.8125rem; overflow-wrap: anywhere; }
.wrong { color: var(--bad); font-size: 0.8125rem; overflow-wrap: anywhere; }
.wrong:empty, .hint:empty { display: none; }
.changes { display: grid; gap: 0.5rem; min-height: 1.5rem; }
.changes > * { min-width: 0; }
.heading { color: var(--soft); font: 0.8125rem/1.4 var(--code); overflow-wrap: anywhere; }
.diff .gap { color: var(--soft); font-family: system-ui, sans-serif; }
.notice { margin: 0 0 0.25rem; color: var(--warn); }

@container (width < 30rem) {
  .live .strip { min-height: 4.875rem; align-content: center; }
  .said, .said.one { flex-basis: 100%; }
  button.act:not(.plain) { padding-inline: 0.625rem; }
}
@media (pointer: coarse) {
  .head { border-radius: 1.375rem; }
  .head, :host([open]) .head { min-height: 2.75rem; }
  .call { border-radius: 1.4375rem; }
  button.act, select, input { min-height: 2.75rem; }
  .live .strip { min-height: 3.75rem; }
  @container (width < 30rem) { .live .strip { min-height: 5.75rem; } }
}
@media (prefers-reduced-motion: reduce) {
  .dot::before { animation: none !important; }
}
@media (forced-colors: active) {
  .dot:empty::before { background: CanvasText; forced-color-adjust: none; }
  button.main { border-color: ButtonText; }
  button.act[aria-disabled="true"] { border-color: GrayText; color: GrayText; opacity: 1; }
  textarea[aria-invalid="true"] { outline: 2px dashed CanvasText; }
}
`;

export const sheet = new CSSStyleSheet();
sheet.replaceSync(viewsStyle + css);

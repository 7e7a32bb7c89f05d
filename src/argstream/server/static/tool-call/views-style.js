// How arguments, code and diffs look, as part of the style sheet of <tool-call>, whose colours they
// have.

export const viewsStyle = `
.scroll {
  overflow: auto;
  overscroll-behavior: auto;
  scrollbar-width: thin;
  scrollbar-color: var(--line) transparent;
}
.scroll:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }

/* Where there is more, above or below, the edge has a shadow. It stays where it is, and what covers
   it at both ends is scrolled with the text; beside a scroll bar there is nothing to cover it. */
.scroll {
  --surface: var(--paper);
  --shade: light-dark(rgb(28 33 40 / 0.24), rgb(0 0 0 / 0.8));
  background:
    linear-gradient(var(--surface) 40%, transparent) top / 100% 2rem no-repeat local,
    linear-gradient(transparent, var(--surface) 60%) bottom / 100% 2rem no-repeat local,
    linear-gradient(var(--shade), transparent) 0 0 / calc(100% - 1rem) 0.75rem no-repeat scroll,
    linear-gradient(transparent, var(--shade)) 0 100% / calc(100% - 1rem) 0.75rem no-repeat scroll,
    var(--surface);
}

.arguments { max-height: min(75vh, 44rem); font-size: 0.875rem; line-height: 1.5; }
.code, .diff {
  max-height: min(50vh, 26rem);
  --surface: var(--raised);
  border: 1px solid var(--line);
  border-radius: 6px;
  padding-block: 0.4rem;
  font: 0.8125rem/1.5 ui-monospace, monospace;
  font-variant-ligatures: none;
  tab-size: 4;
}

/* What is out of sight is not laid out. All contain their counters from the beginning: a browser
   goes through the whole page whenever another one begins to. */
.volume, .chunk { contain: style; }
.full:is(.volume, .chunk) { content-visibility: auto; }

/* Whatever is in a row stays in it: marks that pile up, and letters that run from the right. */
.row {
  box-sizing: border-box;
  position: relative;
  min-height: 1.5em;
  padding-inline: 0.75rem;
  overflow: clip;
  direction: ltr;
  unicode-bidi: isolate;
  white-space: pre-wrap;
  overflow-wrap: anywhere;
}
.row::before { position: absolute; inset-block: 0; left: 0; user-select: none; }
.row.continued::before { content: "↪" / ""; color: var(--soft); }
.numbered .row { padding-left: calc(max(3, var(--digits, 3)) * 1ch + 2rem); }
.numbered .row::before {
  content: attr(data-number) / "";
  width: calc(max(3, var(--digits, 3)) * 1ch + 0.9rem);
  text-align: right;
  color: var(--soft);
}
.numbered .row.continued::before { content: "↪" / ""; }
:is(.code:not(.numbered), .diff) .row.continued::before { left: 0.1rem; font-size: 0.75em; }

.diff .row { padding-left: 2rem; }
.diff .row:is(.added, .removed):not(.continued)::before { left: 0.75rem; }
/* The shadow at an edge is seen through them. */
.diff .added { background: light-dark(rgb(46 188 84 / 0.13), rgb(46 160 67 / 0.2)); }
.diff .removed { background: light-dark(rgb(240 90 75 / 0.12), rgb(240 83 75 / 0.22)); }
.diff .added:not(.continued)::before { content: "+" / "added: "; color: var(--good); }
.diff .removed:not(.continued)::before { content: "−" / "removed: "; color: var(--bad); }
.diff .pending, .diff .pending > * { color: var(--soft); }
.diff .remark { color: var(--soft); font-style: italic; }

.writing :is(.row.open, .value.open)::after,
.writing .list.open::after {
  content: "" / "";
  display: inline-block;
  width: 0.5em;
  height: 1.05em;
  margin-left: 1px;
  vertical-align: text-bottom;
  background: var(--accent);
  border-radius: 1px;
  animation: caret 1.1s steps(2, jump-none) infinite;
}
@keyframes caret { from { opacity: 1; } to { opacity: 0.25; } }
@media (prefers-reduced-motion: reduce) {
  .writing :is(.row, .value, .list)::after { animation: none; }
}

.list.indented {
  margin-left: 0.35rem;
  padding-left: 0.9rem;
  border-left: 1px solid var(--line);
}
.item { padding-block: 0.1rem; }
.item.block { padding-block: 0.25rem 0.4rem; }
.key {
  overflow: clip;
  color: var(--soft);
  font: 0.8125rem/1.6 ui-monospace, monospace;
  overflow-wrap: anywhere;
  direction: ltr;
  unicode-bidi: isolate;
}
.line > .key { display: inline-block; max-width: 100%; }
.from-right { unicode-bidi: isolate; }
.line > .key::after { content: ":"; }
.block > .key { padding-bottom: 0.2rem; }
.key .items { margin-left: 0.75em; font-family: system-ui, sans-serif; font-size: 0.75rem; }
.line { overflow: clip; }
.value {
  font: 0.8125rem/1.6 ui-monospace, monospace;
  direction: ltr;
  unicode-bidi: isolate;
  white-space: pre-wrap;
  overflow-wrap: anywhere;
}
.value.string::before { content: "“"; color: var(--soft); }
.value.string:not(.open)::after { content: "”"; color: var(--soft); }
.value:is(.number, .boolean, .null) { color: light-dark(#0550ae, #79c0ff); }
.value:is(.object, .array) { color: var(--soft); }

.t-keyword, .t-heading { color: light-dark(#a0307a, #f08bc5); }
.t-heading, .t-strong { font-weight: 600; }
.t-string { color: light-dark(#0a5c36, #8fd6a4); }
.t-number { color: light-dark(#0550ae, #79c0ff); }
.t-comment { color: light-dark(#5c6670, #98a2ae); font-style: italic; }
.t-name { color: light-dark(#7a3e00, #f0b36b); }
.t-added { color: var(--good); }
.t-removed { color: var(--bad); }

@media (forced-colors: active) {
  .diff .added { border-left: 3px solid LinkText; }
  .diff .removed { border-left: 3px solid GrayText; }
  .writing :is(.row.open, .value.open)::after { background: CanvasText; }
}
`;

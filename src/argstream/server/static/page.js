import { Client, ConnectionLost, ServerProblem, toJson } from "./argstream.js";
import { Conversation } from "./conversation.js";
import {
  ago, attachMenu, editTitle, exactly, icon, isRunOver, keep, kept, make, oneLine, part,
  problemWords, setChildren, setText, statusWords, visible, visibleLine,
} from "./dom.js";
/** @import { RunSection } from "./conversation.js" */
/** @import { MenuItem } from "./dom.js" */
/** @import { Connection, ConversationInfo, ConversationList, RunStatus } from "./types.js" */
/** @typedef {(sentence: string) => void} Say announce a sentence to screen readers */

// The entry of the page: it connects the sidebar, the header, the conversation and the composer.
// The fragment of the address names what is shown. So a reload, a link and "back" find it again.

/**
 * What an address names. `unknown` is an address that the page does not have.
 *
 * @typedef {{ kind: "new" | "conversation" | "run" | "unknown", id: string }} Route
 */

/** Milliseconds until a server that does not answer is asked again, unless the network is back. */
const RETRY = 3000;
const LISTED = 50; // conversations that are listed at first, and with each press on "Show more"
const MOST_LISTED = 1000;
const INTERVAL = 3000; // milliseconds between two reads of the list …
const HIDDEN_INTERVAL = 15_000; // … and in a hidden tab
const SOON = 150; // milliseconds that the list waits for further changes before it is read again
const DEMO_MODEL = "script"; // the model of `argstream serve` that needs no API key
const IS_MAC = /^Mac|^iP/.test(navigator.platform);
const WRONG_LINK = "The token in the link is wrong. Enter the access token.";
const DISCARD = "You have unsaved changes to this call. Discard them?";

class Page {
  constructor() {
    document.addEventListener("keydown", (event) => this.#pressed(event));
    window.addEventListener("hashchange", (event) => this.#moved(event));
    window.addEventListener("popstate", () => this.#render());
    window.addEventListener("beforeunload", (event) => {
      if (this.#conversation.hasUnsentEdit) event.preventDefault(); // the browser asks the user
    });
    part("skip", HTMLAnchorElement).addEventListener("click", (event) => {
      event.preventDefault(); // the fragment is the address
      this.#composer.focus();
    });
    this.#signOut.addEventListener("click", async () => {
      await this.#client.signOut();
      location.reload();
    });
    const show = () => this.#shortcuts.showModal();
    part("shortcuts-open", HTMLElement).addEventListener("click", show);
    part("shortcuts-close", HTMLElement).addEventListener("click", () => this.#shortcuts.close());
    if (IS_MAC) part("shortcut-new", HTMLElement).textContent = "⌘K";
    const route = routeOf(location.hash);
    this.#composer.moveTo(route.kind === "conversation" ? route.id : "");
  }

  #client = new Client();
  /** The token of a sign-in link, removed from the address before the first request. */
  #token = takeToken("#/");
  #signOut = part("sign-out", HTMLButtonElement);
  #say = makeAnnouncer();
  #drawer = makeDrawer();
  #toast = makeToast(this.#say);
  #shortcuts = part("shortcuts", HTMLDialogElement);
  /** What the server runs. @type {Pick<ConversationList, "model" | "tools">} */
  #server = { model: "", tools: [] };
  /** Settled when the page shows what its address names. */
  #opening = Promise.resolve();

  #isLost = false;
  #takeConnection = makeConnectionBar(this.#say, (isLost) => {
    this.#isLost = isLost;
    this.#conversation.setConnected(!isLost);
    if (!isLost) this.#sidebar.refreshSoon(); // the processes of the runs may be gone
    this.#render();
  });

  #conversation = new Conversation({
    client: this.#client,
    say: this.#say,
    onState: () => {
      this.#render();
      if (this.#sidebar.isBehind) this.#sidebar.refreshSoon();
    },
    onConnection: this.#takeConnection,
    makeWelcome: () => welcome(this.#server, (message) => this.#composer.submit(message)),
    onAgain: () => this.#go(),
  });

  #composer = new Composer({
    onSend: (message) => this.#send(message),
    onStop: async () => {
      await this.#conversation.stop();
      await this.#sidebar.refresh();
    },
    say: this.#say,
  });

  #sidebar = new Sidebar({
    client: this.#client,
    onList: (list, isAll) => this.#listed(list, isAll),
    onProblem: (problem) => {
      const retryIn = INTERVAL / 1000;
      if (problem instanceof ConnectionLost) {
        this.#takeConnection({ state: "waiting", retryIn });
      } else if (isSignInNeeded(problem) && this.#token === "") this.#signIn.ask();
    },
    onRename: (id, title) => this.#rename(id, title),
    onDelete: (id) => this.#delete(id),
  });

  #header = makeHeader({
    onTimeline: () => this.#conversation.section?.toggleTimeline(),
    onReplay: () => this.#conversation.section?.toggleReplay(),
    actions: () => this.#actions(),
  });

  #signIn = makeSignIn(this.#client, () => {
    this.#conversation.close(); // a reply may have been refused
    this.open();
  });

  /** Load the list of conversations, then what the address names. */
  open() {
    return (this.#opening = this.#load());
  }

  async #load() {
    if (routeOf(location.hash).kind !== "new") this.#conversation.close(); // "Loading…"
    let problem = await this.#sidebar.refresh();
    while (problem instanceof ConnectionLost) {
      await new Promise((resolve) => {
        window.addEventListener("online", resolve, { once: true });
        setTimeout(resolve, RETRY);
      });
      problem = await this.#sidebar.refresh();
    }
    if (isSignInNeeded(problem)) {
      const token = this.#token;
      this.#token = "";
      if (token !== "") await this.#signIn.use(token, WRONG_LINK);
      return;
    }
    await this.#go();
  }

  /** Show what the address names. */
  async #go() {
    const route = routeOf(location.hash);
    this.#drawer.close();
    if (route.kind === "new") {
      this.#conversation.showNew();
      // On a phone, a keyboard would cover the page.
      if (matchMedia("(pointer: fine)").matches) this.#composer.focus();
    } else if (route.kind === "unknown") {
      this.#conversation.showMissing();
    } else if (route.kind === "conversation") {
      await this.#conversation.showConversation(route.id);
    } else {
      await this.#conversation.showRun(route.id);
    }
    this.#composer.moveTo(this.#conversation.id);
    this.#render();
  }

  /** @param {HashChangeEvent} event */
  #moved(event) {
    const token = takeToken(event.oldURL);
    if (token !== "") {
      // A sign-in link was opened in a tab that shows the page already.
      if (this.#signIn.dialog.open) this.#signIn.use(token, WRONG_LINK);
      return;
    }
    // An edit that was not sent is lost if the page shows another address.
    const isKept = this.#conversation.hasUnsentEdit
      && !this.#conversation.has(routeOf(location.hash)) && !confirm(DISCARD);
    if (!isKept) this.#go();
    else {
      history.replaceState(null, "", event.oldURL);
      this.#render();
    }
  }

  /** @param {string} message */
  async #send(message) {
    await Promise.allSettled([this.#opening]); // what it shows would replace the answer
    const isShown = await this.#conversation.send(message);
    if (isShown) {
      this.#composer.began(this.#conversation.id);
      const link = conversationLink(this.#conversation.id);
      if (location.hash !== link) history.pushState(null, "", link);
      this.#render();
    }
    this.#sidebar.refresh();
  }

  /** @param {ConversationList} list
   * @param {boolean} isAll whether there are no further conversations */
  #listed(list, isAll) {
    const { conversations } = list;
    this.#takeConnection({ state: "open", retryIn: null });
    this.#server = list;
    this.#signOut.hidden = !list.signed_in;
    this.#drawer.showPending(conversations.filter((one) => isPending(one)).length);
    const { id } = this.#conversation;
    const info = conversations.find((one) => one.conversation === id);
    if (info !== undefined || isAll) {
      // A problem is left to the next list.
      this.#conversation.notice(info ?? null).catch(() => {});
    }
    this.#render();
  }

  /** Show the state of the open conversation wherever it is shown. */
  #render() {
    const { id, section, isRunning, pendingCount: pending } = this.#conversation;
    const run = section?.runId ?? "";
    const status = /** @type {RunStatus} */ (section?.status ?? "");
    const shown = pending > 0 ? "paused" : isRunning ? "running" : status;
    const title = visibleLine(this.#sidebar.titleOf(id) || this.#conversation.title) || "New chat";
    document.title = `${pending > 0 ? `(${pending}) ` : ""}${title} – argstream`;
    const isLost = this.#isLost;
    const state = isLost && shown === "running" ? "disconnected" : shown;
    this.#header.show({ title, model: this.#server.model, status: state, section });
    document.body.classList.toggle("is-disconnected", isLost);
    this.#sidebar.showOpen({ id, run, status: shown, pending });
    this.#composer.show({ run, status, isRunning, pending, isLost });
  }

  /** @returns {MenuItem[]} the items of the menu in the header */
  #actions() {
    const { id } = this.#conversation;
    const copyLink = async () => {
      await navigator.clipboard.writeText(location.href);
      this.#toast("Link copied");
    };
    const copy = { label: "Copy link", act: () => this.#try("copy the link", copyLink) };
    if (id === "") return [copy]; // a run without a conversation
    return [
      copy,
      { label: "Download JSON", act: () => this.#try("download", () => this.#download(id)) },
      { label: "Rename", act: () => this.#header.rename((title) => this.#rename(id, title)) },
      { label: "Delete", act: () => this.#delete(id), isDanger: true },
    ];
  }

  /** Offer the runs of a conversation and their events as a file. @param {string} id */
  async #download(id) {
    const infos = await this.#client.runs({ conversation: id, limit: MOST_LISTED });
    const runs = [];
    for (const { run, prompt, status } of infos.toReversed()) {
      const events = [];
      for await (const frame of this.#client.log(run)) events.push(frame);
      runs.push({ run, prompt, status, events });
    }
    const text = toJson({ conversation: id, title: this.#sidebar.titleOf(id), runs }, 2);
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    make("a", { href: url, download: `${id}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  }

  /** @param {string} id @param {string} title */
  async #rename(id, title) {
    await this.#try("rename", () => this.#client.renameConversation(id, title));
    await this.#sidebar.refresh();
  }

  /** Do something, or say that it failed.
   * @param {string} name @param {() => Promise<void>} act
   * @returns {Promise<boolean>} whether it succeeded */
  async #try(name, act) {
    try {
      await act();
      return true;
    } catch (problem) {
      this.#toast(`Couldn't ${name}. ${problemWords(problem)}`);
      return false;
    }
  }

  /** Delete a conversation. For some seconds, the user can undo that. @param {string} id */
  async #delete(id) {
    const isOpen = this.#conversation.id === id;
    if (isOpen && this.#conversation.hasUnsentEdit && !confirm(DISCARD)) return;
    if (!(await this.#try("delete", () => this.#client.deleteConversation(id)))) return;
    if (isOpen) {
      history.pushState(null, "", "#/");
      this.#go();
    }
    const undo = async () => {
      if (!(await this.#try("restore", () => this.#client.restoreConversation(id)))) return;
      this.#say("Conversation restored.");
      await this.#sidebar.refresh();
      if (isOpen) location.hash = conversationLink(id);
    };
    this.#toast("Conversation deleted", { label: "Undo", act: undo });
    await this.#sidebar.refresh();
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    if (event.defaultPrevented || event.isComposing) return;
    const { key, code, altKey, ctrlKey, metaKey } = event;
    if (altKey && !ctrlKey && !metaKey && code === "KeyA") {
      // By the place of the key: with Alt, some keyboards write another letter.
      this.#drawer.close();
      if (!this.#conversation.goToPending()) this.#say("No approvals pending.");
    } else if ((IS_MAC ? metaKey : ctrlKey) && !altKey && key.toLowerCase() === "k") {
      part("new", HTMLAnchorElement).click();
    } else if (ctrlKey || metaKey || altKey || isForOthers(event)) {
      return;
    } else if (key === "/") this.#composer.focus();
    else if (key === "?") this.#shortcuts.showModal();
    else return;
    event.preventDefault();
  }
}

/** Return what the fragment of an address names. @param {string} hash @returns {Route} */
function routeOf(hash) {
  if (["", "#", "#/"].includes(hash)) return { kind: "new", id: "" };
  const [, kind, coded] = /^#\/([cr])\/([^/]+)$/.exec(hash) ?? [];
  if (coded === undefined) return { kind: "unknown", id: "" };
  try {
    return { kind: kind === "c" ? "conversation" : "run", id: decodeURIComponent(coded) };
  } catch {
    return { kind: "unknown", id: "" };
  }
}

/** @param {string} id */
function conversationLink(id) {
  return `#/c/${encodeURIComponent(id)}`;
}

/** Remove the token of a sign-in link (`#token=…`) from the address and the history.
 * @param {string} replacement the address to show instead
 * @returns {string} the token, or "" */
function takeToken(replacement) {
  const [, token] = /^#token=(.*)$/.exec(location.hash) ?? [];
  if (token === undefined) return "";
  history.replaceState(null, "", replacement);
  return token;
}

/** @param {unknown} problem */
function isSignInNeeded(problem) {
  return problem instanceof ServerProblem && problem.type.endsWith("token-needed");
}

/** Return whether a key is not for the page. @param {KeyboardEvent} event */
function isForOthers(event) {
  const [target] = event.composedPath();
  const isWriting = target instanceof HTMLElement && target.matches("input, textarea, select");
  return isWriting || document.querySelector("dialog:modal") !== null;
}

/** Return what a new conversation shows. The examples are sent when they are pressed.
 * @param {Pick<ConversationList, "model" | "tools">} server
 * @param {(message: string) => void} onExample */
function welcome({ model, tools }, onExample) {
  const template = part(model === DEMO_MODEL ? "welcome-demo" : "welcome", HTMLTemplateElement);
  const content = /** @type {DocumentFragment} */ (template.content.cloneNode(true));
  for (const card of content.querySelectorAll("button")) {
    card.addEventListener("click", () => onExample(card.value));
  }
  const chips = tools.map((name) => make("li", { class: "chip" }, visibleLine(name)));
  content.querySelector(".tools")?.append(...chips);
  return content;
}

// The sidebar

/**
 * The state of the conversation that the page shows.
 *
 * @typedef {{ id: string, run: string, status: RunStatus, pending: number }} Open
 */

/**
 * @typedef {{ onRename: (id: string, title: string) => void,
 *   onDelete: (id: string) => void }} RowOptions
 */

const GROUPS = /** @type {const} */ (["Needs approval", "Today", "Yesterday", "Earlier"]);
const SEARCHABLE = 10; // conversations from which on there is a search field

/** The list of conversations. It is read every few seconds while the page is visible, or less often
 * while it is hidden and a run is in progress. */
class Sidebar {
  /**
   * @param {{ client: Client, onList: (list: ConversationList, isAll: boolean) => void,
   *   onProblem: (problem: unknown) => void } & RowOptions} options
   */
  constructor(options) {
    this.#options = options;
    for (const { element } of this.#groups.values()) this.#element.append(element);
    this.#more.addEventListener("click", () => {
      this.#limit += LISTED;
      this.refresh();
    });
    this.#search.addEventListener("input", () => {
      this.#show();
      if (this.#isAll || this.#limit === MOST_LISTED) return;
      this.#limit = MOST_LISTED;
      this.refresh();
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.#poll();
    });
    window.addEventListener("online", () => this.#poll());
  }

  #options;
  #element = part("list", HTMLElement);
  #loading = part("list-loading", HTMLElement);
  #note = part("list-note", HTMLElement);
  #more = part("list-more", HTMLElement);
  #search = part("search", HTMLInputElement);
  #groups = new Map(GROUPS.map((name) => [name, makeGroup(name)]));
  /** @type {Map<string, Row>} */ #rows = new Map();
  /** @type {ConversationInfo[]} */ #infos = [];
  #limit = LISTED;
  #isAll = false;
  /** @type {Open} */ #open = { id: "", run: "", status: "completed", pending: 0 };
  /** Counts the reads: only the newest one counts. */
  #reads = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;

  /** Return the title of a conversation, or "" if it is not listed. @param {string} id */
  titleOf(id) {
    return this.#infos.find((info) => info.conversation === id)?.title ?? "";
  }

  /** Whether the list has another state of the open conversation than the page. */
  get isBehind() {
    const { id, run, status } = this.#open;
    const info = this.#infos.find((one) => one.conversation === id);
    return run !== "" && (info?.run !== run || info.status !== status);
  }

  /** @param {Open} open */
  showOpen(open) {
    const before = this.#open;
    this.#open = open;
    this.#show();
    if (open.id !== before.id) {
      this.#rows.get(open.id)?.element.scrollIntoView({ block: "nearest" });
    }
  }

  /** Read the list in a moment: further changes may follow. */
  refreshSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#poll(), SOON);
  }

  #poll() {
    clearTimeout(this.#timer);
    const { run, status } = this.#open;
    if (!document.hidden || (run !== "" && !isRunOver(status))) this.refresh();
  }

  /** Read the list now, and from then on every few seconds.
   * @returns {Promise<unknown>} the problem, or null */
  async refresh() {
    clearTimeout(this.#timer);
    const read = ++this.#reads;
    const limit = this.#limit;
    let failure = null;
    try {
      const list = await this.#options.client.conversations({ limit });
      if (read !== this.#reads) return null;
      this.#infos = list.conversations;
      this.#isAll = list.conversations.length < limit;
      this.#loading.remove();
      this.#show();
      this.#options.onList(list, this.#isAll);
    } catch (problem) {
      if (read !== this.#reads) return problem;
      this.#options.onProblem(problem);
      if (isSignInNeeded(problem)) return problem; // it is read again after the sign-in
      if (!(problem instanceof ConnectionLost)) this.#tell(problemWords(problem));
      failure = problem;
    }
    this.#timer = setTimeout(() => this.#poll(), document.hidden ? HIDDEN_INTERVAL : INTERVAL);
    return failure;
  }

  /** @param {string} words to show in place of rows, or "" */
  #tell(words) {
    this.#loading.remove();
    setText(this.#note, visibleLine(words));
  }

  #show() {
    const links = this.#links();
    const focused = document.activeElement;
    const at = links.findIndex((link) => link.closest("li")?.contains(focused));
    const query = this.#search.value.trim().toLowerCase();
    const found = this.#infos.filter(({ title }) => title.toLowerCase().includes(query));
    this.#place(found);
    this.#search.hidden = this.#infos.length < SEARCHABLE && query === "";
    const empty = this.#infos.length === 0 ? "No conversations yet" : "No matches";
    if (!this.#loading.isConnected) this.#tell(found.length === 0 ? empty : "");
    const hadMore = focused === this.#more;
    this.#more.hidden = this.#isAll || this.#limit >= MOST_LISTED || query !== "";
    // A row that was moved has lost the focus, one that was removed gives it to the next one.
    if (at >= 0 && focused instanceof HTMLElement && document.activeElement !== focused) {
      if (focused.isConnected) focused.focus();
      else (this.#links()[at] ?? this.#links().at(-1) ?? part("new", HTMLElement)).focus();
    } else if (hadMore && this.#more.hidden) this.#links()[links.length]?.focus();
  }

  /** Put the rows of these conversations, and no others, into their groups.
   * @param {readonly ConversationInfo[]} infos */
  #place(infos) {
    const shown = infos.map((listed) => {
      const id = listed.conversation;
      const isOpen = id === this.#open.id;
      // The list is a few seconds behind the open conversation.
      const info = isOpen && this.#open.run !== "" ? { ...listed, ...this.#open } : listed;
      const row = this.#rows.get(id) ?? makeRow(id, this.#options);
      row.show(info, isOpen);
      return { id, row, group: groupOf(info) };
    });
    this.#rows = new Map(shown.map(({ id, row }) => [id, row]));
    const groups = Map.groupBy(shown, ({ group }) => group);
    for (const [name, { element, list, count }] of this.#groups) {
      const rows = groups.get(name) ?? [];
      setChildren(list, rows.map(({ row }) => row.element));
      element.hidden = rows.length === 0;
      setText(count, name === "Needs approval" ? `${rows.length}` : "");
    }
  }

  /** @returns {HTMLElement[]} the links of the rows, in order */
  #links() {
    return [...this.#element.querySelectorAll("a")];
  }
}

/** @param {string} name */
function makeGroup(name) {
  const id = `group-${name.toLowerCase().replace(" ", "-")}`;
  const count = make("span", { class: "count" });
  const list = make("ul", { "aria-labelledby": id });
  const heading = make("h2", { id }, name, count);
  const element = make("div", { class: "list-group", hidden: true }, heading, list);
  return { element, list, count };
}

/** @param {{ pending: number, status: string }} info */
function isPending({ pending, status }) {
  return pending > 0 || status === "paused";
}

/** @param {ConversationInfo} info */
function groupOf(info) {
  if (isPending(info)) return "Needs approval";
  const midnight = new Date().setHours(0, 0, 0, 0);
  const time = info.updated * 1000;
  if (time >= midnight) return "Today";
  return time >= new Date(midnight - 1).setHours(0, 0, 0, 0) ? "Yesterday" : "Earlier";
}

/** @typedef {ReturnType<typeof makeRow>} Row */

/** Make the row of a conversation: a link, and a menu with its actions.
 * @param {string} id @param {RowOptions} options */
function makeRow(id, { onRename, onDelete }) {
  const picture = make("span", { class: "entry-icon" });
  const words = make("span", { class: "entry-title", dir: "auto" });
  const state = make("span", { class: "unseen" });
  const time = make("time", { class: "entry-time" });
  const about = { class: "entry-link", href: conversationLink(id) };
  const link = make("a", about, picture, words, state, time);
  const button = make("button", { class: "icon-button entry-more", type: "button" }, icon("more"));
  /** @param {string} title */
  const save = (title) => onRename(id, title);
  const menu = attachMenu(button, () => [
    { label: "Rename", act: () => editTitle(link, words.textContent ?? "", link, save) },
    { label: "Delete", act: () => onDelete(id), isDanger: true },
  ]);
  const element = make("li", { class: "entry" }, link, button, menu);
  /** Only changes are written. @param {ConversationInfo} info @param {boolean} isCurrent */
  const show = (info, isCurrent) => {
    setText(words, visibleLine(oneLine(info.title)) || "(empty message)");
    button.ariaLabel = `Actions for ${words.textContent}`;
    setText(time, ago(info.updated));
    time.title = exactly(info.updated);
    link.ariaCurrent = isCurrent ? "page" : null;
    const status = isPending(info) ? "paused" : info.status;
    if (status === element.dataset.status) return;
    element.dataset.status = status;
    const hasIcon = ["running", "paused", "failed"].includes(status);
    picture.replaceChildren(...(hasIcon ? [icon(status)] : []));
    state.textContent = hasIcon ? ` ${statusWords(status)} ` : " ";
  };
  return { element, show };
}

/** Place the sidebar: beside the conversation, or in a dialog where that is too narrow. */
function makeDrawer() {
  const dialog = part("side-dialog", HTMLDialogElement);
  const side = part("side", HTMLElement);
  const button = part("side-open", HTMLElement);
  const badge = part("side-pending", HTMLElement);
  const narrow = matchMedia("(max-width: 63.99rem)");
  const close = () => dialog.close();
  const place = () => {
    close();
    (narrow.matches ? dialog : part("side-place", HTMLElement)).append(side);
  };
  place();
  narrow.addEventListener("change", place);
  button.addEventListener("click", () => {
    dialog.showModal();
    side.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  });
  dialog.addEventListener("click", (event) => {
    // The backdrop belongs to the dialog. A link leads to what is behind it.
    const target = /** @type {Element} */ (event.target);
    if (target === dialog || target.closest("a, #side-close") !== null) close();
  });
  /** @param {number} count of conversations that need approval */
  const showPending = (count) => {
    const words = count === 1 ? "1 approval needed" : `${count} approvals needed`;
    button.ariaLabel = count === 0 ? "Conversations" : `Conversations, ${words}`;
    setText(badge, count === 0 ? "" : `${count}`);
  };
  return { close, showPending };
}

// The header and the composer

/** The line above the conversation: its title, the model, the status of its newest run, buttons.
 * @param {{ onTimeline: () => void, onReplay: () => void, actions: () => MenuItem[] }} options */
function makeHeader({ onTimeline, onReplay, actions }) {
  const heading = part("title", HTMLElement);
  const chip = part("model", HTMLElement);
  const word = part("status", HTMLElement);
  const timeline = part("timeline", HTMLElement);
  const replay = part("replay", HTMLElement);
  const more = part("top-more", HTMLButtonElement);
  timeline.addEventListener("click", onTimeline);
  replay.addEventListener("click", onReplay);
  const menu = attachMenu(more, () => {
    if (timeline.offsetParent !== null) return actions();
    const panels = [
      { label: "Timeline", act: onTimeline },
      { label: "Replay", act: onReplay },
    ];
    return [...panels, ...actions(), { label: `Model: ${chip.textContent}` }]; // as on a phone
  });
  more.after(menu);
  /** @param {{ title: string, model: string, status: string,
   *   section: RunSection | undefined }} shown */
  const show = ({ title, model, status, section }) => {
    setText(heading, title);
    heading.title = title;
    setText(chip, model === DEMO_MODEL ? "Demo model" : visibleLine(model));
    setText(word, statusWords(status));
    word.dataset.status = status;
    part("top-buttons", HTMLElement).hidden = section === undefined;
    timeline.ariaExpanded = String(Boolean(section?.inspector));
    replay.ariaExpanded = String(Boolean(section?.replay));
  };
  /** Let the user change the title. @param {(title: string) => void} save */
  const rename = (save) => editTitle(heading, heading.textContent ?? "", more, save);
  return { show, rename };
}

/**
 * What the composer has to know of the open conversation: its newest run, how many calls need
 * approval, and whether the connection is lost.
 *
 * @typedef {{ run: string, status: string, isRunning: boolean, pending: number,
 *   isLost: boolean }} ComposerState
 */

const HINT = "Enter to send · Shift+Enter for a new line";

/** The field for messages. What is typed survives a refusal and a reload. A message that is sent
 * while a run is in progress waits in a queue until the run is over. */
class Composer {
  /** `onSend` rejects if the message is not accepted.
   * @param {{ onSend: (message: string) => Promise<void>, onStop: () => Promise<void>, say: Say }}
   * options */
  constructor(options) {
    this.#options = options;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#field.addEventListener("keydown", (event) => {
      const { key, shiftKey, altKey, ctrlKey, metaKey, isComposing } = event;
      if (key !== "Enter" || shiftKey || altKey || ctrlKey || metaKey || isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    this.#field.addEventListener("input", () => this.#typed());
    this.#stop.addEventListener("click", () => this.#end());
    part("queue-send", HTMLElement).addEventListener("click", () => this.#sendNext());
    part("queue-remove", HTMLElement).addEventListener("click", () => this.#setQueued(""));
    part("queue-edit", HTMLElement).addEventListener("click", () => {
      this.#field.value = joined(this.#queued, this.#field.value);
      this.#typed();
      this.#setQueued("");
    });
  }

  #options;
  #form = part("composer", HTMLFormElement);
  #field = part("message", HTMLTextAreaElement);
  #send = part("send", HTMLButtonElement);
  #stop = part("stop", HTMLButtonElement);
  #problem = part("composer-problem", HTMLElement);
  #chip = part("queue", HTMLElement);
  #hint = part("hint", HTMLElement);
  #isBusy = false;
  /** @type {ComposerState} */
  #state = { run: "", status: "", isRunning: false, pending: 0, isLost: false };
  /** The conversation; "" is a new one, null none. @type {string | null} */
  #conversation = null;
  /** What is sent when the run is over. */
  #queued = "";

  /** Show the draft and the queue of a conversation.
   * @param {string} conversation "" is a new one */
  moveTo(conversation) {
    if (this.#conversation === conversation) return;
    this.#conversation = conversation;
    this.#field.value = kept("sessionStorage", this.#key("draft"));
    this.#queued = kept("sessionStorage", this.#key("queue"));
    this.#showProblem("");
    this.#showQueue();
    this.#grow();
  }

  /** The first message was sent: a new conversation has its ID. @param {string} conversation */
  began(conversation) {
    this.#conversation = conversation;
  }

  /** Send a message that the user has chosen. @param {string} message */
  submit(message) {
    this.#field.value = message;
    this.#typed();
    this.focus();
    this.#submit();
  }

  focus() {
    this.#field.focus();
  }

  /** @param {ComposerState} state */
  show(state) {
    const before = this.#state;
    this.#state = state;
    if (!state.isRunning) this.#stop.ariaDisabled = "false";
    setText(this.#hint, hintWords(state));
    this.#hint.classList.toggle("is-keys", this.#hint.textContent === HINT);
    this.#showButtons();
    if (before.isRunning === state.isRunning) return;
    this.#showQueue();
    // A failed run is retried first, by the user. The messages have a button then.
    if (before.run === state.run && !state.isRunning && state.status !== "failed") this.#sendNext();
  }

  /** @param {string} name */
  #key(name) {
    return `argstream.${name}.${this.#conversation ?? ""}`;
  }

  /** While a run is in progress, Stop takes the place of Send, unless something is typed. */
  #showButtons() {
    const { isRunning } = this.#state;
    const canSend = !isRunning || this.#field.value.trim() !== "";
    const gone = [...(canSend ? [] : [this.#send]), ...(isRunning ? [] : [this.#stop])];
    const hadFocus = gone.some((button) => document.activeElement === button);
    this.#send.hidden = !canSend;
    this.#send.ariaLabel = isRunning ? "Queue message" : "Send";
    this.#stop.hidden = !isRunning;
    if (hadFocus) this.focus(); // it would be lost with the button
  }

  #typed() {
    keep("sessionStorage", this.#key("draft"), this.#field.value);
    this.#showProblem("");
    this.#showButtons();
    this.#grow();
  }

  /** Fit the field to its text, where the browser does not do that by itself. */
  #grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.#field.style.setProperty("height", "auto");
    this.#field.style.setProperty("height", `${this.#field.scrollHeight}px`);
  }

  async #submit() {
    const message = this.#field.value;
    if (message.trim() === "" || this.#isBusy) return;
    if (this.#state.isRunning) {
      this.#field.value = "";
      this.#typed();
      this.#setQueued(joined(this.#queued, message));
      this.#options.say("Message queued.");
      return;
    }
    if (!(await this.#deliver("draft", message))) return;
    if (this.#field.value === message) this.#field.value = ""; // or the user has typed on
    this.#typed();
  }

  async #sendNext() {
    const key = this.#key("queue");
    if (this.#queued === "" || this.#isBusy) return;
    const isSent = await this.#deliver("queue", this.#queued);
    if (isSent && key === this.#key("queue")) this.#setQueued("");
  }

  /** @param {string} name where it is kept @param {string} message
   * @returns {Promise<boolean>} whether it was accepted */
  async #deliver(name, message) {
    const key = this.#key(name); // the page may show another conversation when it is sent
    this.#setBusy(true);
    try {
      await this.#options.onSend(message);
      keep("sessionStorage", key, "");
      this.#showProblem("");
      return true;
    } catch (problem) {
      this.#showProblem(problemWords(problem));
      return false;
    } finally {
      this.#setBusy(false);
    }
  }

  async #end() {
    if (this.#stop.ariaDisabled === "true") return;
    this.#stop.ariaDisabled = "true"; // disabled, it would lose the focus
    try {
      await this.#options.onStop();
    } catch (problem) {
      this.#stop.ariaDisabled = "false";
      this.#showProblem(problemWords(problem));
    }
  }

  /** @param {boolean} isBusy */
  #setBusy(isBusy) {
    this.#isBusy = isBusy;
    this.#form.toggleAttribute("aria-busy", isBusy);
    this.#send.ariaDisabled = String(isBusy);
  }

  /** @param {string} message "" is none */
  #setQueued(message) {
    this.#queued = message;
    keep("sessionStorage", this.#key("queue"), message);
    this.#showQueue();
  }

  #showQueue() {
    const { isRunning } = this.#state;
    part("queue-words", HTMLElement).textContent = visible(this.#queued);
    part("queue-state", HTMLElement).textContent = isRunning ? "Will be sent next" : "Not sent";
    part("queue-send", HTMLElement).hidden = isRunning;
    const hadFocus = this.#chip.contains(document.activeElement);
    this.#chip.hidden = this.#queued === "";
    if (hadFocus) this.focus(); // it may be lost with the button
  }

  /** @param {string} words "" is none */
  #showProblem(words) {
    this.#problem.textContent = visible(words);
    if (words !== "") this.#options.say(visible(words));
  }
}

/** @param {string[]} messages */
function joined(...messages) {
  return messages.filter((message) => message !== "").join("\n\n");
}

/** @param {ComposerState} state */
function hintWords({ isRunning, pending, isLost }) {
  if (!isRunning) return HINT;
  if (isLost) return "Disconnected. The run may still be going on the server.";
  return `${pending > 0 ? "" : "Working… "}You can type your next message.`;
}

// What the page says, and what it asks

/** The only live region of the page: short, whole sentences for screen readers. Those that come
 * within two seconds are read together, each of them once.
 * @returns {Say} */
function makeAnnouncer() {
  const region = part("announcer", HTMLElement);
  const waiting = new Set();
  let last = -Infinity;
  return (sentence) => {
    const isTelling = waiting.size > 0;
    waiting.add(sentence);
    if (isTelling) return;
    // Never at once: sentences that belong together often come in the same moment.
    setTimeout(() => {
      last = performance.now();
      region.textContent = [...waiting].join(" ");
      waiting.clear();
    }, Math.max(100, last + PAUSE - performance.now()));
  };
}

const PAUSE = 2000; // milliseconds between two announcements
const SHOWN = 10_000; // milliseconds that a message is shown

/** A message at the bottom of the page, with at most one action. @param {Say} say */
function makeToast(say) {
  const element = part("toast", HTMLElement);
  const button = part("toast-act", HTMLElement);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const hideLater = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      // The user may be about to press the button.
      if (element.matches(":hover, :focus-within")) hideLater();
      else element.hidden = true;
    }, SHOWN);
  };
  /** @param {string} words @param {{ label: string, act: () => void }} [action] */
  return (words, action) => {
    const shown = visibleLine(words);
    part("toast-words", HTMLElement).textContent = shown;
    button.hidden = action === undefined;
    button.textContent = action?.label ?? "";
    button.onclick = () => {
      part("new", HTMLElement).focus(); // it would be lost with the button
      element.hidden = true;
      action?.act();
    };
    // Behind an open dialog nothing can be pressed.
    (document.querySelector("dialog:modal") ?? part("main", HTMLElement)).append(element);
    element.hidden = false;
    say(shown.endsWith(".") ? shown : `${shown}.`);
    hideLater();
  };
}

const SHORT_BREAK = 700; // milliseconds; shorter breaks are not shown
const BACK = 2000; // milliseconds that "Reconnected." is shown

/** Makes the bar that shows a lost connection and the time of the next attempt. Its button retries
 * at once.
 * @param {Say} say @param {(isLost: boolean) => void} onChange it is lost or back
 * @returns {(connection: Pick<Connection, "state" | "retryIn">) => void} updates the bar */
function makeConnectionBar(say, onChange) {
  const element = part("connection", HTMLElement);
  const words = part("connection-words", HTMLElement);
  const button = part("connection-now", HTMLElement);
  /** When the server is tried again; null if it can be reached. @type {number | null} */
  let retryAt = null;
  let since = 0;
  let wasLost = false;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let ticking;
  const show = () => {
    const now = performance.now();
    const isLost = retryAt !== null;
    if (isLost && now - since < SHORT_BREAK) return;
    if (isLost !== wasLost) {
      wasLost = isLost;
      since = now;
      element.hidden = false;
      element.classList.toggle("is-back", !isLost);
      button.hidden = !isLost;
      say(isLost ? "Disconnected." : "Reconnected.");
      onChange(isLost);
    }
    const seconds = Math.ceil(((retryAt ?? now) - now) / 1000);
    const about = seconds > 0 ? `Retrying in ${seconds} s…` : "Reconnecting…";
    setText(words, isLost ? `Disconnected. ${about}` : "Reconnected.");
    if (isLost || (!element.hidden && now - since < BACK)) return;
    element.hidden = true;
    clearInterval(ticking);
    ticking = undefined;
  };
  button.addEventListener("click", () => {
    words.textContent = "Disconnected. Reconnecting…";
    window.dispatchEvent(new Event("online")); // all that wait for the server try now
  });
  return ({ state, retryIn }) => {
    const now = performance.now();
    if (state === "open") {
      retryAt = null;
    } else if (state === "waiting") {
      if (retryAt === null) since = now;
      // Several parts of the page retry; show the earliest attempt.
      const [at, next] = [now + (retryIn ?? 0) * 1000, retryAt ?? 0];
      retryAt = next > now ? Math.min(next, at) : at;
      ticking ??= setInterval(show, 250);
    }
    if (wasLost) show();
  };
}

/** The sign-in form. The browser keeps the token in a cookie that scripts cannot read.
 * @param {Client} client @param {() => void} onSignedIn */
function makeSignIn(client, onSignedIn) {
  const dialog = part("sign-in", HTMLDialogElement);
  const field = part("token", HTMLInputElement);
  const ask = () => {
    if (!dialog.open) dialog.showModal();
  };
  /** @param {string} words "" is none */
  const showProblem = (words) => {
    part("sign-in-problem", HTMLElement).textContent = visible(words);
    field.ariaInvalid = String(words !== "");
  };
  /** Sign in. If that fails, ask for another token.
   * @param {string} token @param {string} [wrong] what to say if it is wrong */
  const use = async (token, wrong) => {
    showProblem("");
    try {
      await client.signIn(token);
    } catch (problem) {
      ask();
      const isWrong = problem instanceof ServerProblem && problem.status === 401;
      showProblem((isWrong && wrong) || problemWords(problem));
      field.select();
      return;
    }
    field.value = "";
    dialog.close();
    onSignedIn();
  };
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  field.addEventListener("input", () => showProblem(""));
  part("sign-in-form", HTMLElement).addEventListener("submit", (event) => {
    event.preventDefault();
    use(field.value);
  });
  return { dialog, ask, use };
}

// The theme: light, dark, or that of the system. It is kept in this browser.

const THEME = "argstream.theme";
const THEMES = ["system", "light", "dark"];

function offerThemes() {
  const button = part("theme", HTMLElement);
  const picture = button.querySelector("use");
  let theme = kept("localStorage", THEME);
  /** @param {string} chosen */
  const choose = (chosen) => {
    theme = THEMES.includes(chosen) ? chosen : "system";
    document.documentElement.dataset.theme = theme;
    button.ariaLabel = `Theme: ${theme}`;
    button.title = `Theme: ${theme}`;
    picture?.setAttribute("href", `#icon-${theme}`);
  };
  choose(theme);
  button.addEventListener("click", () => {
    choose(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system");
    keep("localStorage", THEME, theme);
  });
}

offerThemes(); // before the first paint
await new Page().open();

/**
 * The page: its parts, and who tells whom what.
 */

import { Client, ConnectionLost, ServerProblem } from "../argstream.js";
import { visibleLine } from "../tool-call/visible.js";
import { Announcer } from "./announcer.js";
import { Composer } from "./composer.js";
import { ConnectionBar } from "./connection-bar.js";
import { Conversation } from "./conversation.js";
import { part } from "./parts.js";
import { conversationLink, routeOf } from "./routes.js";
import { Scrolling } from "./scrolling.js";
import { RunsList } from "./side/runs-list.js";
import { Side } from "./side/side.js";
import { removeTokenFromAddress, takeToken } from "./sign-in-link.js";
import { SignIn } from "./sign-in.js";
import { offerThemes } from "./theme.js";

/** Seconds after which a server that does not answer is asked again. */
const RETRY = 3;

const client = new Client();
const announcer = new Announcer();
const say = announcer.say.bind(announcer);
const side = new Side();

const connection = new ConnectionBar(say, showState);

const conversation = new Conversation({
  client,
  scrolling: new Scrolling(),
  say,
  onState: showState,
  onConnection: (section, state) => connection.take(section, state),
  onExample: (message) => composer.fill(message),
  onAgain: go,
});

/** Settled when the page shows what its address names. */
let opening = Promise.resolve();

const composer = new Composer({
  onSend: async (message) => {
    await Promise.allSettled([opening]); // or what it opens would take the place of the answer
    await send(message);
  },
  onStop: async () => {
    await conversation.stop();
    await list.refresh();
  },
  onNext: goToAsking,
  say,
});

const list = new RunsList({
  client,
  onRuns: (infos, isAll) => {
    connection.take("list", { state: "open", retryIn: null });
    conversation.notice(infos, isAll);
    side.showAsking(infos.filter((info) => info.pending.length > 0).length);
  },
  onForgotten: (runId) => {
    const route = routeOf(location.hash);
    conversation.forget(runId);
    if (conversation.id === "" || (route.kind === "run" && route.id === runId)) {
      replaceRoute(conversation.id === "" ? "#/" : conversationLink(conversation.id));
    }
    say("The run is deleted.");
  },
  onProblem: (problem, retryIn) => {
    if (problem instanceof ConnectionLost) connection.take("list", { state: "waiting", retryIn });
    if (problem instanceof ServerProblem && problem.type.endsWith("token-needed")) signIn.ask();
  },
});

const signIn = new SignIn({
  client,
  onSignedIn: () => {
    conversation.close(); // what was refused is asked for again
    opening = begin();
  },
});

/** @param {string} message */
async function send(message) {
  const isShown = await conversation.send(message);
  if (isShown) {
    composer.moveTo(conversation.id);
    const link = conversationLink(conversation.id);
    if (location.hash !== link) history.pushState(null, "", link);
    markCurrent();
  }
  list.refresh();
}

/** @param {string} url of this page, or only its fragment */
function replaceRoute(url) {
  history.replaceState(null, "", url);
  markCurrent();
}

/** Show what the address names. */
async function go() {
  const route = routeOf(location.hash);
  side.close();
  if (route.kind === "new") {
    conversation.showNew();
    if (matchMedia("(pointer: fine)").matches) composer.focus(); // or a keyboard would cover all
  } else if (route.kind === "conversation") {
    await conversation.showConversation(route.id);
  } else {
    await conversation.showRun(route.id);
  }
  composer.moveTo(conversation.id);
  markCurrent();
}

/** Whether one may go where the address leads: what somebody has typed must not get lost. */
function mayLeave() {
  if (!conversation.hasUnsentEdit || conversation.has(routeOf(location.hash))) return true;
  return confirm("You changed what a call would run with, and did not send it. Leave it anyway?");
}

function markCurrent() {
  const route = routeOf(location.hash);
  list.setCurrent(route.kind === "run" ? route.id : conversation.newest);
}

function showState() {
  const { isRunning, asking, title } = conversation;
  composer.show({ isRunning, asking, isLost: connection.isLost });
  const words = visibleLine(title) || "New conversation";
  list.refreshSoon();
  document.title = `${asking > 0 ? `(${asking}) ` : ""}${words} – argstream`;
  side.showTitle(words);
}

function goToAsking() {
  if (!conversation.goToAsking()) say("No call asks for approval.");
}

document.addEventListener("keydown", (event) => {
  // By the key's place: with Alt, some keyboards write another letter.
  if (event.altKey && !event.ctrlKey && !event.metaKey && event.code === "KeyA") {
    event.preventDefault();
    goToAsking();
  }
});

window.addEventListener("beforeunload", (event) => {
  if (conversation.hasUnsentEdit) event.preventDefault(); // the browser asks
});

part("skip", HTMLAnchorElement).addEventListener("click", (event) => {
  event.preventDefault(); // the fragment is where one is
  composer.focus();
});

const signOut = part("sign-out", HTMLButtonElement);
signOut.addEventListener("click", async () => {
  await client.signOut();
  location.reload();
});

/** Show what the address names. If the server needs a token, use that of the link or ask for it. */
async function begin() {
  const session = await askedUntilAnswered();
  signOut.hidden = session.signed_in !== true;
  const token = takeToken();
  if (!session.needs_token) await Promise.all([go(), list.refresh()]);
  else if (token !== "") await signIn.useLink(token);
  else signIn.ask();
}

/** Ask the server whether it wants a token, until it can be reached. */
async function askedUntilAnswered() {
  for (;;) {
    try {
      const session = await client.session();
      connection.take("page", { state: "open", retryIn: null });
      return session;
    } catch (problem) {
      if (!(problem instanceof ConnectionLost)) throw problem;
      connection.take("page", { state: "waiting", retryIn: RETRY });
      await new Promise((resolve) => setTimeout(resolve, RETRY * 1000));
    }
  }
}

offerThemes();
window.addEventListener("hashchange", (event) => {
  // A sign-in link was opened in a tab that shows the page already.
  if (removeTokenFromAddress(event.oldURL)) {
    const token = takeToken();
    if (signIn.isAsking) signIn.useLink(token);
  } else if (mayLeave()) go();
  else replaceRoute(event.oldURL);
});
window.addEventListener("popstate", markCurrent);
const first = routeOf(location.hash);
composer.moveTo(first.kind === "conversation" ? first.id : "");
opening = begin();
await opening;

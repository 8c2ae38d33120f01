// The live page: follows the service's stream, and shows the view that the address names.

import { html, render } from "./libraries/lit-html/lit-html.js";
import { ask, follow, hasToken, setToken } from "./api.js";
import { verdict } from "./format.js";
import JobView from "./job.js";
import JobsView from "./jobs.js";
import OverviewView, { alertsOf } from "./overview.js";
import ServersView from "./servers.js";
import UserView from "./user.js";
import WhatIfView from "./what-if.js";

const VIEWS = { "": OverviewView, jobs: JobsView, job: JobView, user: UserView, servers: ServersView, "what-if": WhatIfView };
const VIEW_OF_ONE = { jobs: "job", users: "user" }; // for typed addresses such as #/jobs/4
const NAV = [["", "Overview"], ["jobs", "Jobs"], ["servers", "Servers"], ["what-if", "What if?"]];
const RELOAD_SECONDS = 5; // shortest time between reloads of a view after events
const RETRY_SECONDS = 3; // until the next connection

const element = (id) => document.getElementById(id);
const page = {
  overview: null,
  who: { role: "", subject: "" },
  go(path, query = {}) {
    const given = Object.entries(query).filter(([, value]) => value !== "");
    location.hash = `#${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
  },
  reload: () => load(),
  async act(action) {
    try {
      await action();
      notify("");
    } catch (fault) {
      notify(`The change was refused: ${fault.message}.`);
    }
    await load();
  },
};
let view = null, stop = new AbortController(), loadedAt = 0, timer = 0, isLost = false, shownPath = null;

function notify(text) {
  element("notice").textContent = text;
}

class MissingView {
  title = "No such view";

  async load() {}

  show() {
    return html`<h1>There is no such view</h1><p><a href="#/">Overview</a></p>`;
  }
}

// The path of the address, its decoded parts, and its query; no parts if they cannot be decoded.
function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  let parts = [];
  try {
    parts = path.split("/").map(decodeURIComponent);
  } catch {
    // a typed address may have a wrong escape
  }
  return { path, parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

// Show the view of the address.
function open() {
  const { path, parts: [name, ...rest], query } = address();
  const previous = view, isSame = path === shownPath;
  const kind = (rest[0] && VIEW_OF_ONE[name]) || (name ?? "?");
  view = new (Object.hasOwn(VIEWS, kind) ? VIEWS[kind] : MissingView)(rest, query);
  shownPath = path;
  notify("");
  document.title = `${view.title} - fairlead on ${location.host}`;
  if (isSame) view.found = previous.found; // keep the rows, and the focus in them, until new rows come
  draw();
  if (!isSame) {
    element("view").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  load();
}

// Load the view's figures again, at most every few seconds.
function loadSoon() {
  timer ||= setTimeout(load, Math.max(0, loadedAt + 1000 * RELOAD_SECONDS - Date.now()));
}

// Load and draw the view's figures, unless another view is opened meanwhile.
async function load() {
  const loading = view;
  let hasFailed = false;
  clearTimeout(timer);
  timer = 0;
  loadedAt = Date.now();
  try {
    await loading.load(page);
  } catch (fault) {
    if (fault.wantsToken) return askForToken(fault);
    hasFailed = true;
    if (loading === view) notify(fault.status ? `${fault.message}.` : "This view could not be loaded: the service does not answer.");
  }
  if (!hasFailed && element("notice").textContent.startsWith("This view could not")) notify("");
  if (loading !== view) return;
  draw();
  if (view.isGrowing && !stop.signal.aborted) loadSoon();
}

function draw() {
  const { parts: [name] } = address();
  render(NAV.map(([path, text]) => html`<a href=${`#/${path}`} aria-current=${path === name ? "page" : "false"}>${text}</a>`), element("nav"));
  const { overview } = page;
  if (overview && !isLost) {
    const [text, kind] = verdict(overview);
    tell(text, kind);
    element("alerts").hidden = !overview.alerts.length;
    render(alertsOf(overview.alerts), element("alert-list"));
  }
  render(view.show(page), element("view"));
}

// Show a text in the first line of the page.
function tell(text, kind = "") {
  const line = element("verdict");
  line.className = `opening ${kind}`;
  if (line.firstElementChild.textContent !== text) line.firstElementChild.textContent = text;
}

function askForToken(fault) {
  stop.abort();
  page.overview = null;
  element("sign-in").hidden = false;
  element("contents").hidden = true;
  tell(hasToken() ? `This token is refused: ${fault.message}.` : "Who are you? Enter your token.", hasToken() ? "fails" : "");
}

// Follow the service's stream; connect again after a failure.
async function connect() {
  stop.abort();
  stop = new AbortController();
  const { signal } = stop;
  while (!signal.aborted) {
    try {
      page.who = await ask("/v1/whoami");
      element("sign-in").hidden = true;
      element("contents").hidden = false;
      element("who").textContent = page.who.subject || page.who.role;
      element("sign-out").hidden = !hasToken();
      if (view) load();
      else open();
      await follow("/v1/live", receive, signal);
    } catch (fault) {
      if (signal.aborted) return;
      if (fault.wantsToken) return askForToken(fault);
      isLost = true;
      tell(fault.status ? `The service answers: ${fault.message}.` : "The service does not answer; the figures below are old.", "fails");
    }
    await new Promise((resolve) => setTimeout(resolve, 1000 * RETRY_SECONDS));
  }
}

function receive(overview) {
  if (overview.fault) return tell(`The service answers: ${overview.fault}.`, "fails");
  isLost = false;
  page.overview = overview;
  draw();
  loadSoon();
}

element("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(event.target.token.value.trim());
  event.target.reset();
  connect();
});
element("sign-out").addEventListener("click", () => {
  setToken("");
  location.reload();
});
document.addEventListener("visibilitychange", () => (document.hidden ? stop.abort() : connect()));
element("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address must go on naming a view
  element("view").focus();
});
window.addEventListener("hashchange", open);
element("host").textContent = location.host;
connect();

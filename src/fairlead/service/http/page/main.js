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
const OF_ONE = { jobs: "job", users: "user" }; // of addresses such as #/jobs/4, which are typed
const NAV = [["", "Overview"], ["jobs", "Jobs"], ["servers", "Servers"], ["what-if", "What if?"]];
const RELOAD_SECONDS = 5; // between questions of a view while events come
const RETRY_SECONDS = 3;

const at = (id) => document.getElementById(id);
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
      notify(`That was refused: ${fault.message}.`);
    }
    await load();
  },
};
let view = null, stop = new AbortController(), loaded = 0, timer = 0, isLost = false, shownPath = null;

function notify(text) {
  at("notice").textContent = text;
}

class MissingView {
  title = "No such view";

  async load() {}

  show() {
    return html`<h1>There is no such view</h1><p><a href="#/">Overview</a></p>`;
  }
}

// The path of the address, its parts, and its query; no parts if they are no text.
function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  let parts = [];
  try {
    parts = path.split("/").map(decodeURIComponent);
  } catch {
    // a wrong escape, as somebody typed the address
  }
  return { path, parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

function open() {
  const { path, parts: [name, ...rest], query } = address();
  const before = view, isSame = path === shownPath;
  const asked = (rest[0] && OF_ONE[name]) || (name ?? "?");
  view = new (Object.hasOwn(VIEWS, asked) ? VIEWS[asked] : MissingView)(rest, query);
  shownPath = path;
  notify("");
  document.title = `${view.title} - fairlead on ${location.host}`;
  if (isSame) view.found = before.found; // rows stay, and with them the focus, until others come
  draw();
  if (!isSame) {
    at("view").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  load();
}

// Ask for the view's figures again, at most every few seconds.
function loadSoon() {
  timer ||= setTimeout(load, Math.max(0, loaded + 1000 * RELOAD_SECONDS - Date.now()));
}

async function load() {
  const asked = view;
  let hasFailed = false;
  clearTimeout(timer);
  timer = 0;
  loaded = Date.now();
  try {
    await asked.load(page);
    hasFailed = false;
  } catch (fault) {
    if (fault.wantsToken) return letIn(fault);
    hasFailed = true;
    if (asked === view) notify(fault.status ? `${fault.message}.` : "This view could not be loaded: the service does not answer.");
  }
  if (!hasFailed && at("notice").textContent.startsWith("This view could not")) notify("");
  if (asked !== view) return;
  draw();
  if (view.isGrowing && !stop.signal.aborted) loadSoon();
}

function draw() {
  const { parts: [name] } = address();
  render(NAV.map(([path, text]) => html`<a href=${`#/${path}`} aria-current=${path === name ? "page" : "false"}>${text}</a>`), at("nav"));
  const { overview } = page;
  if (overview && !isLost) {
    const [text, kind] = verdict(overview);
    say(text, kind);
    at("alerts").hidden = !overview.alerts.length;
    render(alertsOf(overview.alerts), at("alert-list"));
  }
  render(view.show(page), at("view"));
}

function say(text, kind = "") {
  const line = at("verdict");
  line.className = `opening ${kind}`;
  if (line.firstElementChild.textContent !== text) line.firstElementChild.textContent = text;
}

function letIn(fault) {
  stop.abort();
  page.overview = null;
  at("let-in").hidden = false;
  at("seen").hidden = true;
  say(hasToken() ? `This token is not let in: ${fault.message}.` : "Who are you? Enter your token.", hasToken() ? "fails" : "");
}

async function connect() {
  stop.abort();
  stop = new AbortController();
  const { signal } = stop;
  while (!signal.aborted) {
    try {
      page.who = await ask("/v1/whoami");
      at("let-in").hidden = true;
      at("seen").hidden = false;
      at("who").textContent = page.who.subject || page.who.role;
      at("sign-out").hidden = !hasToken();
      if (view) load();
      else open();
      await follow("/v1/live", hear, signal);
    } catch (fault) {
      if (signal.aborted) return;
      if (fault.wantsToken) return letIn(fault);
      isLost = true;
      say(fault.status ? `The service answers: ${fault.message}.` : "The service does not answer; what is below is old.", "fails");
    }
    await new Promise((resolve) => setTimeout(resolve, 1000 * RETRY_SECONDS));
  }
}

function hear(overview) {
  if (overview.fault) return say(`The service answers: ${overview.fault}.`, "fails");
  isLost = false;
  page.overview = overview;
  draw();
  loadSoon();
}

at("let-in").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(event.target.token.value.trim());
  event.target.reset();
  connect();
});
at("sign-out").addEventListener("click", () => {
  setToken("");
  location.reload();
});
document.addEventListener("visibilitychange", () => (document.hidden ? stop.abort() : connect()));
at("skip").addEventListener("click", (event) => {
  event.preventDefault(); // an address names a view
  at("view").focus();
});
window.addEventListener("hashchange", open);
at("place").textContent = location.host;
connect();

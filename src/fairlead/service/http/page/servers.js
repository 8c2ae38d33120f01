// Single servers, with the tasks on each, and a button to drain it.

import { html } from "./libraries/lit-html/lit-html.js";
import { ask, change } from "./api.js";
import { amounts, count, duration, unit } from "./format.js";
import { confirm, jobLink, pager, used, userLink } from "./parts.js";

const LIMIT = 20;
const DEVICES = 64; // GPUs drawn for a server, at most
const STATES = ["", "ready", "drained", "unreachable", "lost"];

export default class ServersView {
  title = "Servers";
  found = null;

  constructor(_, query) {
    this.query = { text: "", state: "", offset: "0" };
    for (const name of Object.keys(this.query)) this.query[name] = query[name] ?? this.query[name];
    if (!STATES.includes(this.query.state)) this.query.state = "";
  }

  async load() {
    this.found = await ask("/v1/servers/search", { ...this.query, limit: LIMIT });
  }

  show(page) {
    const set = (values) => page.go("/servers", { ...this.query, offset: "0", ...values });
    const search = (event) => {
      event.preventDefault();
      set(Object.fromEntries(new FormData(event.currentTarget)));
    };
    return html`<h1>Servers</h1>
      <form class="filters" @submit=${search} role="search">
        <label>State <select name="state" @change=${(event) => event.target.form.requestSubmit()}>
          ${STATES.map((state) => html`<option value=${state} ?selected=${this.query.state === state}>${state || "any"}</option>`)}</select></label>
        <label>Text in its name <input name="text" type="search" .value=${this.query.text}></label><button>Search</button></form>
      ${this.found ? html`${pager(Number(this.query.offset), LIMIT, this.found.found, (offset) => set({ offset: String(offset) }))}
        ${this.found.servers.map((server) => this.server(server, page))}` : ""}`;
  }

  server(server, page) {
    const resources = Object.keys(server.capacity).filter((r) => server.capacity[r]);
    const labels = Object.entries(server.labels).map(([key, value]) => `${key}=${value}`).join(", ");
    return html`<article class="server"><h2>${server.name} <small class=${server.state === "ready" ? "" : "bad"}>${server.state}</small></h2>
      ${labels ? html`<p class="small">${labels}</p>` : ""}
      <div class="amounts">${resources.map((r) => html`<div><span class="small">${unit(r)}</span>${r === "gpu" ? devices(server) : ""}${used(server.used[r] || 0, server.capacity[r])}</div>`)}</div>
      ${this.tasks(server)}
      ${page.who.role === "admin" ? this.actions(server, page) : ""}</article>`;
  }

  tasks(server) {
    if (!server.running.length) return html`<p class="small">Nothing runs on it.</p>`;
    const now = Date.now() / 1000;
    return html`<details><summary>${count(server.tasks)} running ${server.tasks === 1 ? "task" : "tasks"}</summary><ul class="tasks">${server.running.map((task) => html`<li>
      ${task.job ? html`job ${jobLink(task.job)}${task.name ? ` ${task.name}` : ""} of ` : ""}${userLink(task.user)}: ${amounts(task.demand)}, for ${duration(now - task.since)}</li>`)}
      ${server.tasks > server.running.length ? html`<li>${count(server.tasks - server.running.length)} more</li>` : ""}</ul></details>`;
  }

  actions(server, { act }) {
    const drained = server.state === "drained";
    const question = drained ? `Start tasks on ${server.name} again?` : `Drain ${server.name}? Its tasks continue, and no more start.`;
    const name = drained ? "Undrain" : "Drain";
    const press = async () => {
      if (await confirm(question, name)) await act(() => change("POST", `/v1/servers/${encodeURIComponent(server.name)}/${name.toLowerCase()}`));
    };
    return html`<p class="actions"><button @click=${press} aria-label=${`${name} ${server.name}`}>${name}</button></p>`;
  }
}

// A box for each GPU, with the users of the tasks that hold it or parts of it.
function devices(server) {
  const all = Array.from({ length: Math.min(server.capacity.gpu, DEVICES) }, () => []);
  for (const task of server.running)
    for (const number of task.devices) all[number]?.push({ user: task.user, part: Math.min(task.demand.gpu, 1) });
  return html`<ul class="devices" aria-label="GPUs">${all.map((holders) => html`<li class=${kind(holders)} title=${held(holders)}>${initials(holders)}<span class="hidden">${held(holders)}</span></li>`)}</ul>`;
}

function kind(holders) {
  const taken = holders.reduce((sum, { part }) => sum + part, 0);
  return taken > 0.99 ? "taken" : taken ? "part" : "";
}

function held(holders) {
  if (!holders.length) return "free";
  return `held by ${holders.map(({ user, part }) => (part < 1 ? `${user} (${Number(part.toPrecision(3))})` : user)).join(", ")}`;
}

function initials(holders) {
  const users = [...new Set(holders.map(({ user }) => user))];
  return users.length > 1 ? users.length : users.map((user) => user.slice(0, 2));
}

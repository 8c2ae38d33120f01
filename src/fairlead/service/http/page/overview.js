// The first view: shares, figures over time, and groups of servers.

import { html } from "./libraries/lit-html/lit-html.js";
import { ask } from "./api.js";
import { chart } from "./charts.js";
import { amount, amounts, count, difference, moment, percent, unit } from "./format.js";
import { bar, table, tiles, used, userLink } from "./parts.js";

const PERIODS = [["day", 86400], ["week", 7 * 86400]];
const OVER_TIME_SECONDS = 60; // between requests for figures over time
const ALERTS = 3; // shown at once
const SERVER_STATES = ["ready", "drained", "unreachable", "lost"];

export default class OverviewView {
  title = "Overview";
  period = 86400;
  overTime = null;
  askedAt = 0;

  async load() {
    if (Date.now() - this.askedAt < 1000 * OVER_TIME_SECONDS) return;
    const seconds = this.period;
    const [cluster, shares] = await Promise.all([ask("/v1/cluster/over-time", { seconds }), ask("/v1/shares/over-time", { seconds })]);
    this.overTime = { cluster, shares };
    this.askedAt = Date.now();
  }

  show({ overview, reload }) {
    if (!overview) return html`<h1>Overview</h1>`;
    const { held, after, stopping } = overview.reasons, withheld = held + after + stopping;
    return html`<h1>Overview</h1>
      ${tiles([["running tasks", count(overview.running)], ["waiting tasks", count(overview.waiting - withheld)],
        ...(withheld ? [["held, or after other jobs", count(withheld)]] : []),
        ["ready servers", `${count(overview.servers.ready || 0)} / ${count(SERVER_STATES.reduce((sum, s) => sum + (overview.servers[s] || 0), 0))}`],
        ...Object.keys(overview.capacity).filter((r) => overview.capacity[r]).map((r) => [unit(r), `${amount(overview.used[r])} / ${amount(overview.capacity[r])}`]),
        ["policy", overview.policy]])}
      ${this.shares(overview)}
      <section><h2>Over time</h2>
        <div class="tabs" role="group" aria-label="Period">${PERIODS.map(([name, seconds]) => html`<button aria-pressed=${String(this.period === seconds)}
          @click=${() => { this.period = seconds; this.askedAt = 0; reload(); }}>last ${name}</button>`)}</div>
        ${this.overTime ? this.charts() : ""}</section>
      ${this.servers(overview)}`;
  }

  shares(overview) {
    const scale = Math.max(...overview.users.map((u) => Math.max(u.held, u.fair)), 1e-9);
    const columns = [{ text: "user" }, { text: "held and fair share (line)", kind: "bars" }, { text: "holds", kind: "num" }, { text: "fair", kind: "num" },
      { text: "difference", kind: "num" }, { text: "waiting", kind: "num" }, { text: "running", kind: "num" }];
    const rows = overview.users.map((u) => html`<tr><th scope="row">${userLink(u.name)}</th>
      <td class="bars">${bar(u.held / scale, u.fair / scale, `${percent(u.held)} of ${percent(u.fair)}`)}</td>
      <td class="num">${percent(u.held)}</td><td class="num">${percent(u.fair)}</td>
      <td class=${u.is_short ? "num bad" : "num"}>${difference(u.held, u.fair)}</td>
      <td class="num">${count(u.waiting)}</td><td class="num">${count(u.running)}</td></tr>`);
    const proof = overview.proof_holds === null ? "" : overview.proof_holds ? " Its proof holds." : " Its proof DOES NOT HOLD.";
    const more = overview.active_users - overview.users.length;
    return html`<section><h2>Shares</h2>
      <p>A share is the largest fraction of any resource that a user holds; free amounts on drained servers do not count. The fair shares follow from the waiting and running tasks and the users' weights, by ${overview.mechanism}.${proof}
      ${overview.unmet_quotas}${more > 0 ? ` ${count(more)} more users are not listed.` : ""}</p>
      ${overview.users.length ? table("Shares of users", columns, rows) : ""}</section>`;
  }

  charts() {
    const { cluster, shares } = this.overTime;
    const resources = ["cpu", "memory", "gpu"].filter((r) => cluster.capacity[r]?.some((n) => n));
    const part = (r) => cluster.used[r].map((n, k) => (n == null || !cluster.capacity[r][k] ? null : n / cluster.capacity[r][k]));
    const utilisation = resources.map((r, k) => ({ label: unit(r), values: part(r), colour: `--series-${k + 1}` }));
    const tasks = ["waiting", "running"].map((name, k) => ({ label: name, values: cluster[name], colour: `--series-${k + 1}` }));
    const top = Math.max(...shares.users.flatMap((u) => [...u.held, ...u.fair].map((n) => n || 0)), 1e-9) * 1.05;
    return html`<div class="charts">
      ${chart("Used fraction of each resource", { times: cluster.times, series: utilisation, format: percent, top: 1 })}
      ${chart("Tasks", { times: cluster.times, series: tasks, format: (n) => count(Math.round(n)) })}</div>
      <h3>Shares of the largest users</h3>
      <div class="charts small-ones">${shares.users.map((u) => sharesChart(u, shares.times, top))}</div>`;
  }

  servers(overview) {
    const resources = ["cpu", "memory", "gpu"].filter((r) => overview.groups.some((group) => group.capacity[r]));
    const columns = [{ text: "each server" }, { text: "labels" }, { text: "servers", kind: "num" }, { text: "state" },
      ...resources.map((r) => ({ text: unit(r) })), { text: "tasks", kind: "num" }];
    const rows = overview.groups.map((group) => html`<tr><th scope="row">${amounts(group.capacity)}</th>
      <td>${Object.entries(group.labels).map(([key, value]) => `${key}=${value}`).join(", ")}</td><td class="num">${count(group.servers)}</td>
      <td class=${group.states.ready === group.servers ? "" : "bad"}>${Object.entries(group.states).map(([state, n]) => `${count(n)} ${state}`).join(", ")}</td>
      ${resources.map((r) => html`<td class="bars">${used(group.used[r] || 0, (group.capacity[r] || 0) * group.servers)}</td>`)}
      <td class="num">${count(group.tasks)}</td></tr>`);
    return html`<section><h2>Servers</h2><p>Servers with the same capacity and labels are one row${overview.more_groups ? `; ${count(overview.more_groups)} more groups are not listed` : ""}. <a href="#/servers">Each server and its tasks</a>.</p>
      ${overview.groups.length ? table("Groups of servers", columns, rows) : ""}</section>`;
  }
}

export const sharesChart = (user, times, top = null) => chart(user.user, {
  times, top, format: percent,
  series: [{ label: "holds", values: user.held, colour: "--series-1" }, { label: "fair", values: user.fair, colour: "--ink", dash: true }],
});

const alertList = (alerts) => html`<ul>${alerts.map((alert) => html`<li>${alert.text} <span class="small">since ${moment(alert.since)}</span> ${alertLink(alert)}</li>`)}</ul>`;

export const alertsOf = (alerts) => html`${alertList(alerts.slice(0, ALERTS))}
  ${alerts.length > ALERTS ? html`<details><summary>${count(alerts.length - ALERTS)} more</summary>${alertList(alerts.slice(ALERTS))}</details>` : ""}`;

function alertLink({ kind, about }) {
  if (kind === "never-runs") return html`<a href=${`#/job/${about}`}>Job ${about}</a>`;
  if (kind === "owed") return userLink(about);
  if (kind === "failing-server") return html`<a href=${`#/servers?text=${encodeURIComponent(about)}`}>${about}</a>`;
  return "";
}

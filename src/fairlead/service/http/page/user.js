// One user: its share and fair share, also over time, and its jobs.

import { html } from "./libraries/lit-html/lit-html.js";
import { ask, change } from "./api.js";
import { amount, count, difference, percent } from "./format.js";
import { sharesChart } from "./overview.js";
import { confirm, jobColumns, jobRow, table, tiles } from "./parts.js";
import { quoted } from "./what-if.js";

const WEEK = 7 * 86400;
const JOBS = 20;

export default class UserView {
  user = null;
  jobs = null;

  constructor([name]) {
    this.name = name;
    this.title = `User ${name}`;
  }

  async load({ who }) {
    const isOwn = who.role === "admin" || who.subject === this.name;
    const [user, overTime, hours, jobs] = await Promise.all([
      ask(`/v1/users/${encodeURIComponent(this.name)}`),
      ask("/v1/shares/over-time", { seconds: WEEK, user: this.name }),
      ask("/v1/shares/over", { seconds: WEEK }),
      isOwn ? ask("/v1/jobs/search", { user: this.name, limit: JOBS }) : null,
    ]);
    Object.assign(this, { user, overTime, hours, jobs });
  }

  show(page) {
    const { user } = this;
    if (!user) return html`<h1>User ${this.name}</h1>`;
    const kind = user.is_short ? "fails" : "holds";
    const words = user.is_short ? `${user.name} holds less than its fair share` : `${user.name} is owed nothing now`;
    return html`<h1>User ${user.name}</h1>
      <p class=${`opening ${kind}`}><span>${words}: ${percent(user.held)} of the cluster, where ${percent(user.fair)} is fair (${difference(user.held, user.fair)}).</span></p>
      ${tiles([["running tasks", count(user.running)], ["waiting tasks", count(user.pending)], ["weight", amount(user.weight)], ...(user.queue ? [["queue", user.queue]] : [])])}
      ${page.who.role === "admin" ? html`<p class="actions"><button @click=${() => this.setWeight(page)}>Change the weight</button>
        <a href=${`#/what-if?weights=${encodeURIComponent(`${quoted(user.name)}=${2 * user.weight}`)}`}>What if its weight were ${amount(2 * user.weight)}?</a></p>` : ""}
      <section><h2>The last week</h2>${this.owed()}${sharesChart(this.overTime.users[0], this.overTime.times)}</section>
      ${this.jobs ? html`<section><h2>Jobs</h2><p>The newest waiting or running ones; <a href=${`#/jobs?user=${encodeURIComponent(user.name)}`}>all ${count(this.jobs.found)}</a>, and <a href=${`#/jobs?state=ended&user=${encodeURIComponent(user.name)}`}>ended ones</a>.</p>
        ${table("Jobs of the user", jobColumns, this.jobs.jobs.map(jobRow))}</section>` : ""}`;
  }

  owed() {
    const row = this.hours.users.find((one) => one.user === this.name);
    if (!row) return html`<p>No sample shows a share of this user.</p>`;
    const more = row.owed > 0 ? `${amount(row.owed)} h less than its fair share` : `${amount(-row.owed)} h more than its fair share`;
    return html`<p>It held ${amount(row.held)} h of the whole cluster, by its dominant resource: ${more}.</p>`;
  }

  async setWeight({ act }) {
    const values = await confirm(`Change the weight of ${this.name}?`, "Change",
      [{ label: "Weight ", name: "weight", value: this.user.weight, type: "number", min: 0, step: "any" }]);
    if (values) await act(() => change("PUT", `/v1/users/${encodeURIComponent(this.name)}`, { weight: Number(values.weight) }));
  }
}

// The list of jobs: filtered, sorted and paged by the service.

import { html } from "./libraries/lit-html/lit-html.js";
import { ask } from "./api.js";
import { jobColumns, jobRow, pager, table } from "./parts.js";

const LIMIT = 50;
const STATES = [["live", "waiting or running"], ["pending", "waiting"], ["running", "running"], ["held", "held"], ["ended", "ended"],
  ["finished", "finished"], ["failed", "failed"], ["cancelled", "cancelled"]];

export default class JobsView {
  title = "Jobs";
  found = null;

  constructor(_, query) {
    this.query = { state: "live", user: "", text: "", sort: "id", descending: "true", offset: "0" };
    for (const name of Object.keys(this.query)) this.query[name] = query[name] ?? this.query[name];
    if (!STATES.some(([state]) => state === this.query.state)) this.query.state = "live";
  }

  async load({ who }) {
    if (who.role === "user") this.query.user = "";
    this.found = await ask("/v1/jobs/search", { ...this.query, limit: LIMIT });
  }

  show({ go, who }) {
    const change = (values) => go("/jobs", { ...this.query, offset: "0", ...values });
    const sorted = {
      sort: this.query.sort,
      descending: this.query.descending === "true",
      by: (sort) => change({ sort, descending: String(sort !== this.query.sort ? sort === "id" : this.query.descending !== "true") }),
    };
    const search = (event) => {
      event.preventDefault();
      change(Object.fromEntries(new FormData(event.currentTarget)));
    };
    return html`<h1>${who.role === "user" ? "Your jobs" : "Jobs"}</h1>
      <form class="filters" @submit=${search} role="search">
        <label>State <select name="state" @change=${(event) => event.target.form.requestSubmit()}>
          ${STATES.map(([value, text]) => html`<option value=${value} ?selected=${this.query.state === value}>${text}</option>`)}</select></label>
        ${who.role === "user" ? "" : html`<label>User <input name="user" .value=${this.query.user}></label>`}
        <label>Text in name or user, or an id <input name="text" type="search" .value=${this.query.text}></label>
        <button>Search</button></form>
      ${this.found ? html`${pager(Number(this.query.offset), LIMIT, this.found.found, (offset) => change({ offset: String(offset) }))}
        ${table("Jobs", jobColumns, this.found.jobs.map(jobRow), sorted)}` : ""}`;
  }
}

// One job: why it waits, when it starts, its attempts and its output.

import { html } from "./libraries/lit-html/lit-html.js";
import { ask, change, Refused } from "./api.js";
import { amounts, count, counted, duration, moment, start } from "./format.js";
import { confirm, table, userLink } from "./parts.js";

const TAIL_BYTES = 16384;
const LIVE = ["pending", "running", "held"];

export default class JobView {
  job = null;
  task = 0;
  stream = "stdout";
  output = null;

  constructor([id]) {
    this.id = id || "";
    this.title = `Job ${this.id}`;
  }

  async load() {
    if (!/^[1-9][0-9]{0,17}$/.test(this.id)) throw new Refused(404, `there is no job ${this.id}`);
    const path = `/v1/jobs/${encodeURIComponent(this.id)}`;
    const [job, why, when, attempts] = await Promise.all([ask(path), ask(`${path}/explain`), ask(`${path}/when`), ask(`${path}/attempts`)]);
    Object.assign(this, { job, why, when, attempts: attempts.attempts });
    this.output = this.attempts.length ? await this.tail(path) : null;
  }

  // Whether its output may grow without an event of the stream.
  get isGrowing() {
    return this.job?.running > 0;
  }

  // The last part of the task's output, or the reason why there is none.
  async tail(path) {
    try {
      const which = { index: this.task, stream: this.stream };
      const { size } = await ask(`${path}/logs`, { ...which, offset: 0 });
      const piece = await ask(`${path}/logs`, { ...which, offset: Math.max(0, size - TAIL_BYTES) });
      const bytes = Uint8Array.from(atob(piece.data), (letter) => letter.charCodeAt(0));
      return { text: new TextDecoder().decode(bytes), from: piece.offset, size };
    } catch (fault) {
      return { fault: fault.message };
    }
  }

  show(page) {
    const { job, why } = this;
    if (!job) return html`<h1>Job ${this.id}</h1>`;
    return html`<h1>Job ${job.id}${job.name ? `: ${job.name}` : ""}</h1>
      <p class="lead">${sentence(job)} ${start(this.when)}</p>
      ${this.actions(page)}
      ${LIVE.includes(job.state) ? html`<section><h2>Why?</h2><pre>${why.text || `${why.reason}.`}</pre></section>` : ""}
      <section><h2>Request</h2><dl class="facts">
        ${facts(job).map(([what, value]) => html`<div><dt>${what}</dt><dd>${value}</dd></div>`)}</dl></section>
      ${this.attemptsTable()}
      ${this.output ? this.outputTail(page) : ""}`;
  }

  actions({ act }) {
    if (!LIVE.includes(this.job.state) || this.job.reason === "cancelled") return "";
    const path = `/v1/jobs/${this.id}`;
    const askAndAct = async (question, label, action) => {
      if (await confirm(question, label)) await act(() => change("POST", `${path}/${action}`));
    };
    return html`<p class="actions">
      ${this.job.held
        ? html`<button @click=${() => askAndAct(`Release job ${this.id}?`, "Release", "release")}>Release</button>`
        : html`<button @click=${() => askAndAct(`Hold job ${this.id}? Its waiting tasks do not start.`, "Hold", "hold")}>Hold</button>`}
      <button class="grave" @click=${() => askAndAct(`Cancel job ${this.id}? Its running tasks are stopped.`, "Cancel the job", "cancel")}>Cancel</button></p>`;
  }

  attemptsTable() {
    if (!this.attempts.length) return "";
    const columns = [{ text: "task", kind: "num" }, { text: "attempt", kind: "num" }, { text: "server" }, { text: "started" }, { text: "lasted", kind: "num" }, { text: "status" }];
    const rows = this.attempts.map((one) => html`<tr><th scope="row" class="num">${one.task}</th><td class="num">${one.attempt}</td>
      <td><a href=${`#/servers?text=${encodeURIComponent(one.server)}`}>${one.server}</a></td><td>${moment(one.started)}</td>
      <td class="num">${duration((one.ended ?? Date.now() / 1000) - one.started)}</td>
      <td class=${one.status ? "bad" : ""}>${one.ended === null ? one.reason || "running" : one.status === null ? one.reason || "lost" : `${one.status}${one.reason ? ` (${one.reason})` : ""}`}</td></tr>`);
    return html`<section><h2>Attempts</h2><p class="small">Running attempts, then the latest ended ones; at most 100 of each.</p>${table("Attempts of tasks", columns, rows)}</section>`;
  }

  outputTail({ reload }) {
    const set = (values) => { Object.assign(this, values); reload(); };
    const { text, fault, from, size } = this.output;
    return html`<section><h2>Output</h2>
      <form class="filters" @submit=${(event) => event.preventDefault()}>
        ${this.job.tasks > 1 ? html`<label>Task <input type="number" min="0" max=${this.job.tasks - 1} value=${this.task} @change=${(event) => set({ task: Number(event.target.value) })}></label>` : ""}
        <label>Stream <select @change=${(event) => set({ stream: event.target.value })}><option value="stdout">output</option><option value="stderr">errors</option></select></label></form>
      ${fault ? html`<p>${fault}.</p>` : html`<p class="small">${from ? `The last part of ${count(size)} bytes.` : `${count(size)} bytes.`}</p>
        <output-tail class="output" tabindex="0" role="region" aria-label="Output of the task" .text=${text}></output-tail>`}</section>`;
  }
}

// Text that stays scrolled to its end, unless the reader scrolled up.
class OutputTail extends HTMLElement {
  set text(value) {
    if (value === this.textContent) return;
    const isAtEnd = this.scrollHeight - this.scrollTop - this.clientHeight < 5;
    this.textContent = value;
    if (isAtEnd) requestAnimationFrame(() => { this.scrollTop = this.scrollHeight; });
  }
}
customElements.define("output-tail", OutputTail);

function sentence(job) {
  const isLive = LIVE.includes(job.state);
  if (isLive && job.reason === "cancelled") return `It was cancelled: ${counted(job.running, "task")} of it ${job.running === 1 ? "is" : "are"} being stopped.`;
  const ended = job.ended ? ` It ended at ${moment(job.ended)}.` : "";
  const status = job.exit_status ? ` Its exit status is ${job.exit_status}.` : "";
  const reason = job.reason && job.reason !== job.state ? ` Reason: ${job.reason}.` : "";
  const waiting = job.tasks - job.running - job.ended_tasks;
  const live = `${count(waiting)} of its tasks wait, ${count(job.running)} run, ${count(job.ended_tasks)} have ended`;
  const tasks = job.tasks > 1 ? ` ${isLive ? live : `${count(job.ended_tasks)} of its ${count(job.tasks)} tasks ended${job.state === "cancelled" ? " or were stopped" : ""}`}.` : "";
  const held = job.held && job.state === "running" ? ", and held: no more of its tasks start" : "";
  return `It is ${job.state}${held}.${tasks}${status}${reason}${ended}`;
}

function facts(job) {
  const where = Array.isArray(job.where) ? job.where.join(" or ") : Object.entries(job.where || {}).map(([key, value]) => `${key}=${value}`).join(", ");
  return [
    ["user", userLink(job.user)],
    ["command", html`<code>${(job.command || []).join(" ")}</code>`],
    ["tasks", `${count(job.tasks)}${job.gang ? ", which start together" : ""}`],
    ["each task", amounts(job.demand)],
    ["where", where || "anywhere"],
    ["time limit", job.time_limit === null ? "none" : duration(job.time_limit)],
    ["priority", String(job.priority)],
    ["after", job.after.join(", ") || "no other job"],
    ["submitted", moment(job.submitted)],
  ];
}

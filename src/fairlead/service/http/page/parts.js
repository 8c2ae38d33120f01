// Parts that several views show.

import { html, nothing } from "./libraries/lit-html/lit-html.js";
import { amount, amounts, count, moment } from "./format.js";

export const jobLink = (id) => html`<a href=${`#/job/${id}`}>${id}</a>`;
export const userLink = (name) => html`<a href=${`#/user/${encodeURIComponent(name)}`}>${name}</a>`;

// A bar over a fraction of its width, with a line at another fraction.
export const bar = (fraction, line = null, title = "") => html`<div class="bar" title=${title}>
  <span style=${`width: ${100 * Math.min(1, fraction)}%`}></span>
  ${line === null ? nothing : html`<i style=${`left: calc(${100 * Math.min(1, line)}% - 1px)`}></i>`}</div>`;

export const used = (amountUsed, capacity) =>
  capacity ? html`${bar(amountUsed / capacity)}<small>${amount(amountUsed)} of ${amount(capacity)}</small>` : nothing;

export const tiles = (rows) => html`<dl class="tiles">${rows.map(
  ([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>`;

// A table that scrolls. Columns are {text, kind (a CSS class), sort (a field)}; `sorted` is the present order:
// {sort, descending, by (a function that sorts by a field)}.
export function table(about, columns, rows, sorted = null) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${about}><table>
    <thead><tr>${columns.map((column) => heading(column, sorted))}</tr></thead><tbody>${rows}</tbody></table></div>`;
}

function heading({ text, kind = "", sort = null }, sorted) {
  if (!sorted || !sort) return html`<th scope="col" class=${kind}>${text}</th>`;
  const order = sorted.sort !== sort ? "none" : sorted.descending ? "descending" : "ascending";
  return html`<th scope="col" class=${kind} aria-sort=${order}><button @click=${() => sorted.by(sort)}>${text}</button></th>`;
}

export const jobColumns = [
  { text: "job", sort: "id" }, { text: "user", sort: "user" }, { text: "name", sort: "name" },
  { text: "state", sort: "state" }, { text: "tasks", kind: "num", sort: "tasks" },
  { text: "running", kind: "num", sort: "running" }, { text: "each task" },
  { text: "submitted", sort: "submitted" },
];

export const jobRow = (job) => html`<tr>
  <th scope="row">${jobLink(job.id)}</th><td>${userLink(job.user)}</td><td>${job.name || ""}</td>
  <td class=${job.state === "failed" ? "bad" : ""}>${job.state}${job.held && job.state !== "held" ? ", held" : ""}</td><td class="num">${count(job.tasks)}</td>
  <td class="num">${count(job.running)}</td><td>${amounts(job.demand)}</td><td>${moment(job.submitted)}</td></tr>`;

export function pager(offset, limit, found, go) {
  const last = Math.min(offset + limit, found);
  const shown = offset < found ? `${count(offset + 1)} to ${count(last)} of ${count(found)}` : found ? `none here, ${count(found)} in all` : "none";
  return html`<nav class="pager" aria-label="Pages">
    <button ?disabled=${offset <= 0} @click=${() => go(Math.max(0, Math.min(offset, found) - limit))}>Earlier</button>
    <span aria-live="polite">${shown}</span>
    <button ?disabled=${last >= found} @click=${() => go(offset + limit)}>Later</button></nav>`;
}

// Ask before a change; resolve to the entered values, or to null if the user answers no.
export function confirm(question, action, fields = []) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("h2").textContent = question;
  dialog.querySelector("[value=yes]").textContent = action;
  dialog.querySelector(".fields").replaceChildren(...fields.map(({ label, name, value, ...more }) => {
    const outer = document.createElement("label"), input = document.createElement("input");
    Object.assign(input, { name, value, required: true }, more);
    outer.append(label, input);
    return outer;
  }));
  dialog.returnValue = "";
  dialog.showModal();
  dialog.querySelector(fields.length ? ".fields input" : "[value=no]").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const values = Object.fromEntries(new FormData(dialog.querySelector("form")));
      resolve(dialog.returnValue === "yes" ? values : null);
    }, { once: true });
  });
}

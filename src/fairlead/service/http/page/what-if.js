// Shares under another policy, weights, servers or quotas; nothing is changed.

import { html } from "./libraries/lit-html/lit-html.js";
import { change } from "./api.js";
import { count, counted, percent } from "./format.js";
import { table, userLink } from "./parts.js";

const FIELDS = [
  ["policy", "Policy", "ps-dsf/best-fit"],
  ["weights", "Weights", "ana=2, bo=0.5"],
  ["like", "More servers like these", "node3=8"],
  ["drained", "Servers to drain", "node1, node2"],
  ["removed", "Servers to remove", "node4"],
  ["quotas", "Quotas", "bo=gpu:4"],
];
// Inputs whose names differ from the API's fields: an input named remove would hide the form's method.
const INPUT_OF_FIELD = { drain: "drained", remove: "removed" };
// Words between commas; a word with a comma has double quotes around it.
const words = (text) => (text.match(/(?:"[^"]*"|[^,"])+/g) || []).map((word) => word.replaceAll('"', "").trim()).filter(Boolean);
export const quoted = (name) => (name.includes(",") ? `"${name}"` : name);

function pairs(text, label, read) {
  return Object.fromEntries(words(text).map((word) => {
    const at = word.lastIndexOf("=");
    if (at < 1 || at === word.length - 1) throw new Error(`${label}: write NAME=VALUE, not ${word}`);
    return [word.slice(0, at), read(word.slice(at + 1))];
  }));
}

// A comma within one quota, as in ana=gpu:4,cpu:16: a RESOURCE:AMOUNT without = follows it.
const NEXT_RESOURCE = /,(?=[^,=]*:[^,=]*(?:,|$))/g;
const resources = (text) => Object.fromEntries(text.split(";").map((part) => {
  const [name, value] = part.split(":");
  if (!value?.trim() || Number.isNaN(Number(value))) throw new Error(`Quotas: write NAME=RESOURCE:AMOUNT, not ${text}`);
  return [name.trim(), Number(value)];
}));

export default class WhatIfView {
  title = "What if?";
  answer = null;
  fault = "";

  constructor(_, query) {
    this.values = query;
  }

  async load() {
    if (this.answer || !Object.values(this.values).some(Boolean)) return;
    try {
      const text = (name) => this.values[name] || "";
      this.answer = await change("POST", "/v1/what-if", {
        ...(text("policy") ? { policy: text("policy") } : {}),
        weights: pairs(text("weights"), "Weights", Number),
        like: pairs(text("like"), "More servers", Number),
        drain: words(text("drained")),
        remove: words(text("removed")),
        quotas: pairs(text("quotas").replace(NEXT_RESOURCE, ";"), "Quotas", resources),
      });
      this.fault = "";
    } catch (fault) {
      if (fault.wantsToken) throw fault;
      const [place, ...rest] = fault.message.split(": ");
      const [first, ...inner] = place.split(".");
      const field = FIELDS.find(([name]) => name === (INPUT_OF_FIELD[first] ?? first));
      this.fault = field && rest.length ? `${[field[1], ...inner].join(", ")}: ${rest.join(": ")}` : fault.message;
    }
  }

  show({ go, reload }) {
    const ask = (event) => {
      event.preventDefault();
      const given = Object.fromEntries(new FormData(event.currentTarget));
      if (Object.values(given).some(Boolean)) return go("/what-if", given);
      Object.assign(this, { values: {}, answer: null, fault: "Give a change, such as a weight or a server" });
      reload();
    };
    return html`<h1>What if?</h1>
      <p>The live state under another policy, weights, servers or quotas. Nothing is changed.</p>
      <form class="fields" @submit=${ask}>${FIELDS.map(([name, label, example]) => html`<label>${label} <input name=${name} placeholder=${example} value=${this.values[name] || ""}></label>`)}
        <button>Try</button></form>
      <div aria-live="polite">${this.fault ? html`<p class="bad">${this.fault}.</p>` : this.answer ? this.result() : ""}</div>`;
  }

  result() {
    const { users, starts, stops, stays, is_cut: isCut, unmet_quotas: unmet } = this.answer;
    const changed = users.filter((u) => Math.abs(u.held_after - u.held) + Math.abs(u.fair_after - u.fair) > 1e-9 || u.starts || u.stops);
    const columns = [{ text: "user" }, { text: "holds", kind: "num" }, { text: "would hold", kind: "num" }, { text: "fair", kind: "num" }, { text: "would be fair", kind: "num" },
      { text: "tasks that start", kind: "num" }, { text: "tasks that stop", kind: "num" }];
    const rows = changed.map((u) => html`<tr><th scope="row">${userLink(u.name)}</th><td class="num">${percent(u.held)}</td><td class="num">${percent(u.held_after)}</td>
      <td class="num">${percent(u.fair)}</td><td class=${u.fair_after < u.fair ? "num bad" : "num"}>${percent(u.fair_after)}</td><td class="num">${count(u.starts)}</td><td class="num">${count(u.stops)}</td></tr>`);
    return html`<p class="opening"><span>${counted(starts, "task")} would start now${isCut ? ", or more" : ""}, and ${counted(stops, "task")} would stop.${changed.length ? "" : " No user gains or loses."}</span></p>
      ${unmet ? html`<p class="bad">Not all quotas could be met: ${unmet}.</p>` : ""}
      ${stays ? html`<p>${counted(stays, "task")} would go on running on the drained servers, and shares include ${stays === 1 ? "it" : "them"}. To see the loss of a server, remove it instead.</p>` : ""}
      ${changed.length ? table("Users before and after", columns, rows) : ""}`;
  }
}

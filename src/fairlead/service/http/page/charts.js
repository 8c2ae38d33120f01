// Charts of figures over time, by uPlot; each has its figures as a table, too.

import { html } from "./libraries/lit-html/lit-html.js";
import { moment } from "./format.js";

const HEIGHT = 170;
const LEAST_SECONDS = 300; // shortest time axis
const ROWS = 24; // largest number of rows in a table of figures
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A plot of `figures`: {times, series, format, top}. It follows its width and the colour scheme.
class TimeChart extends HTMLElement {
  #figures = null;
  #plot = null;
  #observer = new ResizeObserver(() => this.#plot?.setSize({ width: this.clientWidth, height: HEIGHT }));
  #scheme = matchMedia("(prefers-color-scheme: dark)");
  #redraw = () => this.#draw();

  set figures(value) {
    const previous = this.#figures;
    this.#figures = value;
    const alike = previous && previous.series.map((s) => s.label).join("\n") === value.series.map((s) => s.label).join("\n");
    if (this.#plot && alike && previous.top === value.top) this.#plot.setData(this.#data());
    else if (this.isConnected) this.#draw();
  }

  connectedCallback() {
    this.#observer.observe(this);
    this.#scheme.addEventListener("change", this.#redraw);
    if (this.#figures) this.#draw();
  }

  disconnectedCallback() {
    this.#observer.disconnect();
    this.#scheme.removeEventListener("change", this.#redraw);
    this.#plot?.destroy();
    this.#plot = null;
  }

  #data() {
    return [this.#figures.times, ...this.#figures.series.map((one) => one.values)];
  }

  // The first and last time of the axis; around a single time, uPlot would show years.
  #span() {
    const { times } = this.#figures;
    return [Math.min(times[0], times.at(-1) - LEAST_SECONDS), times.at(-1)];
  }

  #draw() {
    this.#plot?.destroy();
    const { series, top } = this.#figures;
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false } };
    const format = (plot, values) => values.map((value) => this.#figures.format(value));
    const options = {
      width: this.clientWidth || 300,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, points: { show: false } },
      scales: { x: { range: () => this.#span() }, y: { range: (plot, least, most) => [0, top ?? Math.max(most * 1.05, 1e-9)] } },
      axes: [axis, { ...axis, size: 62, values: format }],
      series: [{}, ...series.map((one) => ({
        label: one.label,
        stroke: colour(one.colour),
        width: 2,
        dash: one.dash ? [6, 4] : undefined,
        points: { show: this.#figures.times.length < 3 },
      }))],
      hooks: { setCursor: [(plot) => this.#read(plot.cursor.idx)] },
    };
    this.#plot = new globalThis.uPlot(options, this.#data(), this);
  }

  // Send the figures at the pointer, which `chart` shows below the plot.
  #read(at) {
    const { times, series, format } = this.#figures;
    const texts = series.filter((one) => at != null && one.values[at] != null).map((one) => `${one.label} ${format(one.values[at])}`);
    this.dispatchEvent(new CustomEvent("reading", { detail: at == null ? "" : `${moment(times[at])}: ${texts.join(", ")}` }));
  }
}
customElements.define("time-chart", TimeChart);

// A chart of series over time, and a table of its figures. Each of `series` is {label, values,
// colour, dash}; values are null where unknown.
export function chart(about, { times, series, format, top = null }) {
  if (!times.length) return html`<p class="small">${about}: the first figures come a minute after the service has started.</p>`;
  const read = (event) => { event.target.nextElementSibling.textContent = event.detail; };
  return html`<figure>
    <figcaption>${about}</figcaption>
    ${series.length > 1 ? html`<ul class="legend">${series.map((one) => html`<li><span class="line" style=${`border-color: var(${one.colour}); border-top-style: ${one.dash ? "dashed" : "solid"}`}></span>${one.label}</li>`)}</ul>` : ""}
    <time-chart role="img" aria-label=${summary(about, times, series, format)} .figures=${{ times, series, format, top }} @reading=${read}></time-chart>
    <p class="reading small" aria-hidden="true"></p>
    <details><summary>Figures</summary><div class="scroll tall" tabindex="0" role="region" aria-label=${`Figures: ${about}`}><table>
      <thead><tr><th scope="col">time</th>${series.map((one) => html`<th scope="col" class="num">${one.label}</th>`)}</tr></thead>
      <tbody>${rows(times).map((k) => html`<tr><th scope="row">${moment(times[k])}</th>${series.map((one) => html`<td class="num">${one.values[k] == null ? "" : format(one.values[k])}</td>`)}</tr>`)}</tbody>
    </table></div></details>
  </figure>`;
}

// The indices of at most ROWS times, in equal steps up to the last one.
function rows(times) {
  const step = Math.ceil(times.length / ROWS);
  return times.map((_, k) => k).filter((k) => (times.length - 1 - k) % step === 0);
}

function summary(about, times, series, format) {
  const last = series.map((one) => {
    const values = one.values.filter((value) => value != null);
    return values.length ? `${one.label} now ${format(values.at(-1))}, at most ${format(Math.max(...values))}` : "";
  });
  return `${about}, since ${moment(times[0])}: ${last.filter(Boolean).join("; ")}`;
}

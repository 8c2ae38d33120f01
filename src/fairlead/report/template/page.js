"use strict";
(() => {
  // Pictures and long tables are in the page in compressed form.
  const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

  // Five digits of base 85 stand for four bytes.
  function bytesOf(text) {
    const value = new Uint8Array(128);
    [...DIGITS].forEach((digit, k) => { value[digit.charCodeAt(0)] = k; });
    const bytes = new Uint8Array((text.length / 5) * 4);
    const words = new DataView(bytes.buffer);
    for (let k = 0; k < text.length; k += 5) {
      let word = 0;
      for (let i = k; i < k + 5; i += 1) word = word * 85 + value[text.charCodeAt(i)];
      words.setUint32((k / 5) * 4, word);
    }
    return bytes;
  }

  async function unpacked(name) {
    const packed = document.getElementById(name);
    const stream = new Blob([bytesOf(packed.textContent).slice(0, Number(packed.dataset.bytes))]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  let figures = {};
  let places = [];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const hidden = new Set();

  // Plotly takes colours as values, so the page's light or dark ones are filled in when drawing.
  function themed(figure) {
    const data = structuredClone(figure.data);
    for (const trace of data) {
      if (hidden.has(trace.legendgroup)) trace.visible = false;
      if (trace.marker && trace.marker.color === "themed") trace.marker.color = colour("--ink");
      if (trace.line && trace.line.color === "themed") trace.line.color = colour("--ink");
      if (trace.mode === "text") trace.textfont = { color: colour("--ink") };
      if (trace.type === "bar" && trace.orientation === "h") trace.marker.line = { color: colour("--card"), width: 1 };
      if (trace.mode === "markers" && !trace.marker.line) trace.marker.line = { color: colour("--card"), width: 1 };
    }
    const axis = { gridcolor: colour("--grid"), linecolor: colour("--rule"), zerolinecolor: colour("--rule"), fixedrange: true };
    const layout = structuredClone(figure.layout);
    layout.xaxis = { ...axis, ...layout.xaxis };
    layout.yaxis = { ...axis, ...layout.yaxis };
    return {
      data,
      layout: {
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        margin: { l: 10, r: 30, t: 6, b: 26, pad: 6 },
        font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: colour("--ink") },
        hoverlabel: { align: "left", bgcolor: colour("--card"), bordercolor: colour("--faint"), font: { color: colour("--ink") } },
        ...layout,
      },
    };
  }

  // A drawn picture keeps its width until it is purged.
  function drawAnew(place) {
    if (place.dataset.drawn) Plotly.purge(place);
    draw(place);
  }

  function draw(place) {
    const figure = themed(figures[place.dataset.figure]);
    Plotly.react(place, figure.data, figure.layout, { displayModeBar: false, responsive: true });
    place.dataset.drawn = "yes";
  }

  // Pictures are drawn when they come near the screen: a page may hold hundreds.
  async function showPictures() {
    places = [...document.querySelectorAll(".plot")];
    if (!places.length) return;
    const script = document.createElement("script");
    script.textContent = await unpacked("charts");
    document.head.append(script);
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        watcher.unobserve(entry.target);
        draw(entry.target);
      }
    }, { rootMargin: "600px" });
    for (const place of places) watcher.observe(place);
    const again = () => places.filter((p) => p.dataset.drawn && p.offsetParent).forEach(draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    // Paper is narrower than most screens and has no tabs: all is drawn again for it.
    addEventListener("beforeprint", () => {
      document.documentElement.classList.add("on-paper");
      places.forEach(drawAnew);
    });
    addEventListener("afterprint", () => {
      document.documentElement.classList.remove("on-paper");
      for (const place of places) {
        Plotly.purge(place);
        delete place.dataset.drawn;
        watcher.observe(place);
      }
    });
  }

  async function fillIn() {
    if (!document.getElementById("contents")) return;
    const contents = JSON.parse(await unpacked("contents"));
    figures = contents.figures;
    for (const [place, html] of Object.entries(contents.kept)) {
      document.getElementById(place).insertAdjacentHTML("beforeend", html);
    }
  }

  function failed() {
    for (const place of document.querySelectorAll(".plot")) {
      place.textContent = "This browser cannot unpack pictures and long tables; --json has all.";
    }
  }

  function listen() {
    // A legend hides and shows its traces in every picture.
    const toggles = [...document.querySelectorAll("[data-toggles]")];
    for (const toggle of toggles) {
      toggle.addEventListener("click", () => {
        const key = toggle.dataset.toggles;
        if (!hidden.delete(key)) hidden.add(key);
        for (const other of toggles) {
          if (other.dataset.toggles === key) other.setAttribute("aria-pressed", String(!hidden.has(key)));
        }
        places.filter((place) => place.dataset.drawn).forEach(draw);
      });
    }

    for (const list of document.querySelectorAll("[role=tablist]")) {
      const tabs = [...list.querySelectorAll("[role=tab]")];
      const select = (tab) => {
        for (const other of tabs) {
          const chosen = other === tab;
          other.setAttribute("aria-selected", String(chosen));
          other.tabIndex = chosen ? 0 : -1;
          document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
        }
      };
      tabs.forEach((tab, k) => {
        tab.addEventListener("click", () => select(tab));
        tab.addEventListener("keydown", (event) => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (!step) return;
          const next = tabs[(k + step + tabs.length) % tabs.length];
          select(next);
          next.focus();
        });
      });
      select(tabs[0]);
    }

    function sortable(table) {
      const headings = [...table.tHead.rows[0].cells];
      const value = (row, column) => {
        const cell = row.cells[column];
        return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value.replace("inf", "Infinity"));
      };
      const order = new Intl.Collator(undefined, { numeric: true });
      headings.forEach((heading, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = heading.textContent;
        heading.replaceChildren(button);
        button.addEventListener("click", () => {
          const numeric = heading.classList.contains("num");
          const before = heading.getAttribute("aria-sort");
          const down = before ? before === "ascending" : numeric;
          headings.forEach((other) => other.removeAttribute("aria-sort"));
          heading.setAttribute("aria-sort", down ? "descending" : "ascending");
          const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
          rows.sort(([a], [b]) => (down ? -1 : 1) * (numeric ? a - b : order.compare(a, b)));
          table.tBodies[0].append(...rows.map(([, row]) => row));
        });
      });
    }
    document.querySelectorAll("table.sortable").forEach(sortable);

    for (const input of document.querySelectorAll("[data-filters]")) {
      const table = document.getElementById(input.dataset.filters);
      input.addEventListener("input", () => {
        const wanted = input.value.trim().toLowerCase();
        for (const row of table.tBodies[0].rows) {
          row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
        }
      });
    }
  }

  fillIn().catch(failed).then(listen).then(showPictures).catch(failed);
})();

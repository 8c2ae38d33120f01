"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const hidden = new Set();

  // Plotly takes colours as values, so the page's light or dark ones are filled in when drawing.
  function themed(figure) {
    const data = structuredClone(figure.data);
    for (const trace of data) {
      if (hidden.has(trace.legendgroup)) trace.visible = false;
      if (trace.marker && trace.marker.color === "themed") trace.marker.color = colour("--ink");
      if (trace.line && trace.line.color === "themed") trace.line.color = colour("--ink");
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

  function draw(place) {
    const figure = themed(figures[place.dataset.figure]);
    Plotly.react(place, figure.data, figure.layout, { displayModeBar: false, responsive: true });
    place.dataset.drawn = "yes";
  }

  // Pictures are drawn when they come near the screen: a page may hold hundreds.
  const places = [...document.querySelectorAll(".plot")];
  for (const place of places) place.style.minHeight = `${figures[place.dataset.figure].layout.height}px`;
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "600px" });
  for (const place of places) watcher.observe(place);
  addEventListener("beforeprint", () => places.filter((p) => p.offsetParent).forEach(draw));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    places.filter((place) => place.dataset.drawn).forEach(draw);
  });

  // A legend of the page hides and shows what it names, in every picture.
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

  const tabs = [...document.querySelectorAll("[role=tab]")];
  function select(tab) {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
  }
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
  if (tabs.length) select(tabs[0]);

  function sortable(table) {
    const headings = [...table.tHead.rows[0].cells];
    const value = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
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
})();

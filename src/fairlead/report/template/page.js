"use strict";
(() => {
  // The later rows of long tables are in the page in compressed form.
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

  async function insertRows() {
    if (!document.getElementById("contents")) return;
    for (const [id, html] of Object.entries(JSON.parse(await unpacked("contents")))) {
      document.getElementById(id).insertAdjacentHTML("beforeend", html);
    }
  }

  function listen() {
    // A legend hides and shows its traces in every picture.
    const toggles = [...document.querySelectorAll("[data-toggles]")];
    const drawn = [...document.querySelectorAll("[data-key]")];
    for (const toggle of toggles) {
      toggle.addEventListener("click", () => {
        const key = toggle.dataset.toggles;
        const isShown = toggle.getAttribute("aria-pressed") === "false";
        for (const other of toggles) {
          if (other.dataset.toggles === key) other.setAttribute("aria-pressed", String(isShown));
        }
        for (const trace of drawn) {
          if (trace.dataset.key === key) trace.style.display = isShown ? "" : "none";
        }
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
  }

  function listenToTables() {
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

  listen();
  // A browser that cannot decompress the later rows shows only the first ones.
  insertRows().finally(listenToTables);
})();

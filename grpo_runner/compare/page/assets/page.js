"use strict";
(() => {
  const said = document.getElementById("said");

  // --- tables: a click or Enter on a heading sorts by it, once more turns the order; what is missing stays last

  const keyOf = (row, place) => {
    const cell = row.cells[place];
    return "key" in cell.dataset ? Number(cell.dataset.key) : null;
  };
  const textOf = (row, place) => row.cells[place].textContent.trim();
  const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  function sort(table, place, up) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const numbers = rows.some((row) => keyOf(row, place) !== null);
    const missing = (row) => (numbers ? keyOf(row, place) === null : ["", "-"].includes(textOf(row, place)));
    const order = (a, b) =>
      numbers ? keyOf(a, place) - keyOf(b, place) : words.compare(textOf(a, place), textOf(b, place));
    rows.sort((a, b) => missing(a) - missing(b) || (missing(a) ? 0 : up ? order(a, b) : order(b, a)));
    body.append(...rows);
  }

  for (const table of document.querySelectorAll("table[data-sort]")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      head.querySelector("button").addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        sort(table, place, up);
        said.textContent = `sorted by ${head.textContent}, ${up ? "ascending" : "descending"}`;
      });
    });
  }

  // --- what scrolls can be reached and scrolled by keyboard

  function reach() {
    for (const box of document.querySelectorAll(".wide, .plot, pre")) {
      if (box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }
  addEventListener("resize", reach);
  for (const one of document.querySelectorAll("details")) one.addEventListener("toggle", reach);
  reach();

  // --- figures: those in sight at once, the others when there is time, so that all are there for print

  const data = document.getElementById("figures-data");
  if (!data || !window.vegaEmbed) return;
  const { specs, light, dark } = JSON.parse(data.textContent);
  const night = matchMedia("(prefers-color-scheme: dark)");
  const plots = [...document.querySelectorAll(".plot")];

  async function draw(plot) {
    const theme = night.matches ? "dark" : "light";
    if (plot.dataset.theme === theme) return;
    plot.dataset.theme = theme;
    try {
      await vegaEmbed(plot, structuredClone(specs[plot.dataset.figure]), {
        renderer: "svg",
        mode: "vega-lite",
        config: theme === "dark" ? dark : light,
        tooltip: { theme },
        actions: { export: true, source: false, compiled: false, editor: false },
        downloadFileName: plot.dataset.figure,
      });
      plot.classList.add("drawn");
    } catch (error) {
      plot.textContent = `This figure could not be drawn: ${error.message}`;
      console.error(error);
    }
    reach();
  }

  async function rest() {
    for (const plot of plots) {
      await new Promise((go) => (window.requestIdleCallback ? requestIdleCallback(go, { timeout: 500 }) : setTimeout(go)));
      await draw(plot);
    }
    document.documentElement.dataset.drawn = night.matches ? "dark" : "light";
  }

  const watch = new IntersectionObserver((seen) => {
    for (const one of seen) if (one.isIntersecting) draw(one.target);
  });
  for (const plot of plots) watch.observe(plot);
  night.addEventListener("change", rest);
  rest();
})();

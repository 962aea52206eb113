// Enhancements: copy buttons, protection against double submission, local times, charts.
// Every page works without this script.
(() => {
  "use strict";
  document.documentElement.classList.add("js");

  // --- Copy -----------------------------------------------------------------------------------
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    if (!source) return;
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Press Ctrl+C";
    }
    const status = document.getElementById("status");
    if (status) status.textContent = button.textContent;
    setTimeout(() => { button.textContent = label; }, 2000);
  });

  // --- Send each form once --------------------------------------------------------------------
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || event.defaultPrevented) return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "yes";
    for (const button of form.querySelectorAll("button:not([type=button])")) {
      button.setAttribute("aria-disabled", "true");
    }
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) {
      delete form.dataset.sent;
      for (const button of form.querySelectorAll("[aria-disabled]")) button.removeAttribute("aria-disabled");
    }
  });

  // --- Replace the URL of a page that answers a POST, so that reload and back do not send the form again
  addEventListener("DOMContentLoaded", () => {
    const { historyUrl } = document.body.dataset;
    if (historyUrl) history.replaceState(null, "", historyUrl);
  });

  // --- Close the tables below charts, which are open for browsers without scripts ---------------
  addEventListener("DOMContentLoaded", () => {
    for (const details of document.querySelectorAll("details[data-closed]")) details.open = false;
  });

  // --- On narrow screens, scroll the navigation to the current page ----------------------------
  addEventListener("DOMContentLoaded", () => {
    const link = document.querySelector(".nav [aria-current]");
    if (link) link.parentElement.scrollLeft = link.offsetLeft - (link.parentElement.clientWidth - link.offsetWidth) / 2;
  });

  // --- Close the account switcher on Escape and on a click outside -----------------------------
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = document.querySelector(".switcher[open]");
    if (open) { open.open = false; open.querySelector("summary").focus(); }
  });
  document.addEventListener("click", (event) => {
    const open = document.querySelector(".switcher[open]");
    if (open && !open.contains(event.target)) open.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const panel = event.target.closest?.(".switcher-panel");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!panel || !step) return;
    event.preventDefault();
    const stops = [panel.querySelector("input[type=search]"), ...panel.querySelectorAll("a")];
    stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length].focus();
  });
  document.addEventListener("toggle", (event) => {
    if (event.target.matches?.(".switcher") && event.target.open) event.target.querySelector("input[type=search]")?.focus();
  }, true);

  // --- Drawer: a dialog that opens when its content arrives, and closes on a click outside --------
  document.addEventListener("htmx:after:swap", () => {
    const drawer = document.querySelector("dialog.drawer");
    if (drawer && drawer.childElementCount && !drawer.open) drawer.showModal();
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches("dialog.drawer")) event.target.close();
  });
  document.addEventListener("close", (event) => {
    if (event.target.matches("dialog.drawer")) event.target.replaceChildren();
  }, true);

  // --- Times: show the reader's local time next to important UTC times, and in the tooltip of others
  const localTime = new Intl.DateTimeFormat("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });
  const localDateTime = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  function showLocalTimes() {
    for (const element of document.querySelectorAll("time[datetime]:not([data-shown])")) {
      const instant = new Date(element.dateTime);
      if (Number.isNaN(instant.getTime()) || instant.getTimezoneOffset() === 0) continue;
      element.dataset.shown = "";
      if ("local" in element.dataset) {
        const local = document.createElement("span");
        local.className = "local";
        local.textContent = ` ${localTime.format(instant)} local time`;
        element.append(local);
      } else {
        element.title = `${element.title || element.textContent}; ${localDateTime.format(instant)} local time`;
      }
    }
  }
  addEventListener("DOMContentLoaded", showLocalTimes);
  document.addEventListener("htmx:after:swap", showLocalTimes);

  // --- Charts, drawn from the table below them ------------------------------------------------
  // The first column of the table holds days, each further column one series.
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

  const shortDay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  const fullDay = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
  const dayLabel = (stamp) => (stamp % 86400 === 0 ? shortDay.format(new Date(stamp * 1000)) : "");

  function readTable(table) {
    const names = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent.trim());
    const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent));
    rows.sort((a, b) => (a[0] < b[0] ? -1 : 1));
    const days = rows.map((row) => Date.parse(row[0]) / 1000);
    const series = names.map((_, index) => rows.map((row) => (row[index + 1] === "" ? null : Number(row[index + 1]))));
    return { names, days, series };
  }

  function drawChart(element) {
    const table = document.getElementById(element.dataset.table);
    if (!table || typeof uPlot === "undefined") { element.dataset.failed = ""; return; }
    const { names, days, series } = readTable(table);
    if (days.length === 0) { element.dataset.failed = ""; return; }
    const percent = element.dataset.unit === "percent";
    const bars = element.dataset.kind === "bars";
    const width = Math.max(220, element.clientWidth);
    const drawn = bars ? stack(series) : series;
    const axis = { stroke: color("--text-soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const formatTick = (value) => (value == null ? "" : percent ? `${exact.format(value)} %` : compact.format(value));
    // While the pointer is elsewhere, the legend shows the newest day.
    const showNewest = (u) => { if (u.legend.idx == null) u.setLegend({ idx: days.length - 1 }, false); };
    element.replaceChildren();
    new uPlot({
      width,
      height: 240,
      cursor: { y: false, points: { size: 7 } },
      legend: { show: true, live: true },
      hooks: { ready: [showNewest], setLegend: [showNewest] },
      tzDate: (stamp) => uPlot.tzDate(new Date(stamp * 1000), "UTC"),
      scales: { x: { time: true, range: (u, low, high) => (bars ? [low - 43200, high + 43200] : [low, high]) }, y: { range: (u, low, high) => [0, Math.max(high * 1.08, 1e-9)] } },
      axes: [{ ...axis, values: (u, ticks) => ticks.map(dayLabel), space: 64 }, { ...axis, size: 56, values: (u, ticks) => ticks.map(formatTick) }],
      series: [
        { label: "Day", value: (u, stamp) => (stamp == null ? "" : fullDay.format(new Date(stamp * 1000))) },
        ...names.map((name, index) => ({
          label: name,
          stroke: color(`--chart-${(index % 4) + 1}`),
          fill: bars ? color(`--chart-${(index % 4) + 1}`) : undefined,
          width: bars ? 0 : 2,
          points: { show: !bars && days.length < 40, size: 5 },
          paths: bars ? uPlot.paths.bars({ size: [0.72, 40] }) : undefined,
          spanGaps: true,
          value: (u, value, seriesIndex, at) => (at == null ? "" : percent ? formatTick(series[index][at]) || "–" : exact.format(series[index][at] ?? 0)),
        })),
      ],
    }, [days, ...drawn], element);
  }

  // Return cumulative series, tallest first: each bar is drawn over the one before and leaves its own part visible.
  function stack(series) {
    const stacked = series.map((values) => values.slice());
    for (let index = stacked.length - 2; index >= 0; index -= 1) {
      for (let at = 0; at < stacked[index].length; at += 1) stacked[index][at] = (stacked[index][at] ?? 0) + (stacked[index + 1][at] ?? 0);
    }
    return stacked;
  }

  function drawAll() { for (const element of document.querySelectorAll(".chart[data-table]")) drawChart(element); }
  addEventListener("DOMContentLoaded", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let lastWidth = innerWidth;
  let redrawTimer = 0;
  addEventListener("resize", () => {
    if (innerWidth === lastWidth) return;
    lastWidth = innerWidth;
    clearTimeout(redrawTimer);
    redrawTimer = setTimeout(drawAll, 150);
  });
})();

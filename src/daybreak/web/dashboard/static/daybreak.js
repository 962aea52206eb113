// What the pages do beyond HTML: copying, guarding against a second click, drawing charts.
// Every page works without this file; it only adds.
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

  // --- A form is sent once --------------------------------------------------------------------
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

  // --- The answer to a form is no place to come back to: its address becomes one that is ----------
  addEventListener("DOMContentLoaded", () => {
    const once = document.querySelector("[data-leave]");
    if (once) history.replaceState(null, "", once.dataset.leave);
  });

  // --- On a phone the tab of this page may lie beside the screen -------------------------------
  addEventListener("DOMContentLoaded", () => {
    const tab = document.querySelector(".nav [aria-current]");
    if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;
  });

  // --- Menus close by Escape and by a click beside them ------------------------------------------
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = document.querySelector(".switcher[open]");
    if (open) { open.open = false; open.querySelector("summary").focus(); }
  });
  document.addEventListener("click", (event) => {
    const open = document.querySelector(".switcher[open]");
    if (open && !open.contains(event.target)) open.open = false;
  });
  document.addEventListener("toggle", (event) => {
    if (event.target.matches?.(".switcher") && event.target.open) event.target.querySelector("input[type=search]")?.focus();
  }, true);

  // --- Times: pages say UTC; the reader's own time stands beside the important ones, and on the others shows on pointing
  const ownTime = new Intl.DateTimeFormat("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });
  const ownDay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  addEventListener("DOMContentLoaded", () => {
    for (const place of document.querySelectorAll("time[datetime]")) {
      const instant = new Date(place.dateTime);
      if (Number.isNaN(instant.getTime()) || instant.getTimezoneOffset() === 0) continue;
      if ("local" in place.dataset) {
        const own = document.createElement("span");
        own.className = "local";
        own.textContent = ` ${ownTime.format(instant)} your time`;
        place.append(own);
      } else {
        place.title = `${place.title || place.textContent}; ${ownDay.format(instant)} your time`;
      }
    }
  });

  // --- Charts: drawn from the table beside them ------------------------------------------------
  // The table is the truth: its first column holds days, each further column one series.
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

  const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  const wholeDay = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
  const dayName = (stamp) => (stamp % 86400 === 0 ? dayFormat.format(new Date(stamp * 1000)) : "");

  function read(table) {
    const names = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent.trim());
    const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent));
    rows.sort((a, b) => (a[0] < b[0] ? -1 : 1));
    const days = rows.map((row) => Date.parse(row[0]) / 1000);
    const series = names.map((_, index) => rows.map((row) => (row[index + 1] === "" ? null : Number(row[index + 1]))));
    return { names, days, series };
  }

  function draw(place) {
    const table = document.getElementById(place.dataset.table);
    if (!table || typeof uPlot === "undefined") { place.dataset.failed = ""; return; }
    const { names, days, series } = read(table);
    if (days.length === 0) { place.dataset.failed = ""; return; }
    const percent = place.dataset.unit === "percent";
    const bars = place.dataset.kind === "bars";
    const width = Math.max(220, place.clientWidth);
    const shown = bars ? stack(series) : series;
    const axis = { stroke: color("--ink-soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const show = (value) => (value == null ? "" : percent ? `${exact.format(value)} %` : short.format(value));
    // Nothing pointed at: the newest day is told, not a row of names without numbers.
    const rest = (u) => { if (u.legend.idx == null) u.setLegend({ idx: days.length - 1 }, false); };
    place.replaceChildren();
    new uPlot({
      width,
      height: 240,
      cursor: { y: false, points: { size: 7 } },
      legend: { show: true, live: true },
      hooks: { ready: [rest], setLegend: [rest] },
      tzDate: (stamp) => uPlot.tzDate(new Date(stamp * 1000), "UTC"),
      scales: { x: { time: true, range: (u, low, high) => (bars ? [low - 43200, high + 43200] : [low, high]) }, y: { range: (u, low, high) => [0, Math.max(high * 1.08, 1e-9)] } },
      axes: [{ ...axis, values: (u, ticks) => ticks.map(dayName), space: 64 }, { ...axis, size: 56, values: (u, ticks) => ticks.map(show) }],
      series: [
        { label: "Day", value: (u, stamp) => (stamp == null ? "" : wholeDay.format(new Date(stamp * 1000))) },
        ...names.map((name, index) => ({
          label: name,
          stroke: color(`--chart-${(index % 4) + 1}`),
          fill: bars ? color(`--chart-${(index % 4) + 1}`) : undefined,
          width: bars ? 0 : 2,
          points: { show: !bars && days.length < 40, size: 5 },
          paths: bars ? uPlot.paths.bars({ size: [0.72, 40] }) : undefined,
          spanGaps: true,
          value: (u, value, seriesIndex, at) => (at == null ? "" : percent ? show(series[index][at]) || "–" : exact.format(series[index][at] ?? 0)),
        })),
      ],
    }, [days, ...shown], place);
  }

  // Series are drawn tallest first, so each bar shows its own part on top of the ones after it.
  function stack(series) {
    const sums = series.map((values) => values.slice());
    for (let index = sums.length - 2; index >= 0; index -= 1) {
      for (let at = 0; at < sums[index].length; at += 1) sums[index][at] = (sums[index][at] ?? 0) + (sums[index + 1][at] ?? 0);
    }
    return sums;
  }

  function drawAll() { for (const place of document.querySelectorAll(".chart[data-table]")) draw(place); }
  addEventListener("DOMContentLoaded", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let before = innerWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === before) return;
    before = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 150);
  });
})();

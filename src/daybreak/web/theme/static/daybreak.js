// Enhancements: copy buttons, protection against double submission, local times, values of charts.
// Every page works without this script. It is deferred, so that the page is complete when it runs.
(() => {
  "use strict";
  document.documentElement.classList.add("js");

  // --- Copy -----------------------------------------------------------------------------------
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy) ?? button.closest("figure")?.querySelector("code");
    if (!source) return;
    // A second click finds the answer to the first one.
    button.dataset.label ??= button.textContent;
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
    setTimeout(() => { button.textContent = button.dataset.label; }, 2000);
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
  const { account, historyUrl } = document.body.dataset;
  if (historyUrl) history.replaceState(null, "", historyUrl);

  // --- Close the tables below charts, which are open for browsers without scripts ---------------
  for (const details of document.querySelectorAll("details[data-closed]")) details.open = false;

  // --- Scroll the navigation to the current page ------------------------------------------------
  document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // --- Close the account switcher on Escape, and when a click or the focus leaves it ------------
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = document.querySelector(".switcher[open]");
    if (open) { open.open = false; open.querySelector("summary").focus(); }
  });
  for (const type of ["click", "focusin"]) {
    document.addEventListener(type, (event) => {
      const open = document.querySelector(".switcher[open]");
      if (open && !open.contains(event.target)) open.open = false;
    });
  }
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

  // --- Times: show the reader's local time next to important UTC times, and in the tooltip of others
  const localTime = new Intl.DateTimeFormat("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });
  const localDateTime = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  function showLocalTimes() {
    // Times are in the zone that the user has chosen.
    if ("zoned" in document.body.dataset) return;
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
  showLocalTimes();
  document.addEventListener("partial", showLocalTimes);

  // --- Charts: show the values of the bar under the pointer, or of the one that the arrow keys select ------
  // The rows of the table below a chart are its bars.
  function showBucket(chart, index) {
    const { rows } = document.getElementById(chart.dataset.table).tBodies[0];
    const shown = index == null ? null : [...rows].find((row) => row.dataset.bucket == index);
    for (const element of chart.querySelectorAll(".legend-bucket, [data-cell]")) {
      element.dataset.total ??= element.textContent;
      element.textContent = shown ? shown.cells[element.dataset.cell ?? 0].textContent : element.dataset.total;
    }
    const cursor = chart.querySelector(".chart-cursor");
    cursor.setAttribute("width", shown ? 1000 / rows.length : 0);
    cursor.setAttribute("x", shown ? (1000 / rows.length) * index : 0);
    chart.dataset.index = index ?? "";
  }
  function followPointer(event) {
    const chart = event.target.closest?.(".chart[data-table]");
    for (const other of document.querySelectorAll(".chart[data-index]:not([data-index=''])")) {
      if (other !== chart && other !== document.activeElement) showBucket(other, null);
    }
    if (!chart) return;
    const box = chart.querySelector(".chart-values").getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    showBucket(chart, share < 0 || share >= 1 ? null : Math.floor(share * chart.dataset.buckets));
  }
  // A tap sends no pointermove.
  for (const type of ["pointermove", "pointerdown"]) document.addEventListener(type, followPointer);
  document.addEventListener("keydown", (event) => {
    const chart = event.target;
    if (!chart.matches?.(".chart[data-table]")) return;
    const last = chart.dataset.buckets - 1;
    const now = chart.dataset.index ? Number(chart.dataset.index) : null;
    const next = { ArrowLeft: now == null ? last : Math.max(0, now - 1), ArrowRight: now == null ? 0 : Math.min(last, now + 1), Home: 0, End: last, Escape: null }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    showBucket(chart, next);
    document.getElementById("status").textContent = chart.querySelector(".legend").textContent.replace(/\s+/g, " ").trim();
  });
  document.addEventListener("focusout", (event) => {
    if (event.target.matches?.(".chart[data-index]")) showBucket(event.target, null);
  });

  // --- What the browser keeps until signing out, unless it blocks storage: the account for the examples of the
  // documentation, and, in this tab, the email between sign-in and "Forgot password"
  try {
    if (account) localStorage.setItem("daybreak-account", account);
    else if (document.querySelector(".standalone")) localStorage.removeItem("daybreak-account");
    const email = document.querySelector(".standalone input[type=email][name=email]");
    if (email) {
      email.value ||= sessionStorage.getItem("daybreak-email") ?? "";
      email.addEventListener("input", () => sessionStorage.setItem("daybreak-email", email.value));
      if (email.value) document.querySelector(".standalone input[type=password]")?.focus();
    }
  } catch { /* no storage */ }
})();

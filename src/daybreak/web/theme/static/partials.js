// Parts of pages that are loaded without the page: polling, search results, and the drawer.
// Links and forms work without this script. The server answers 204 if a part is unchanged, 205 if the page must be
// loaded again, and names another page in `Daybreak-Location`, for example sign-in.
const TIMEOUT_MS = 20_000;
const DRAWER = "drawer";

// Return whether leaving the page would close what the user has opened, or lose what was typed or is shown once.
let hasTyped = false;
document.addEventListener("input", (event) => { hasTyped ||= event.target.form?.method === "post"; });
const isInUse = () => hasTyped || document.querySelector("dialog[open], .switcher[open], .secret") !== null;

// Return the response to a request for a part, or null if the page is left or the part is unchanged.
async function request(url, { signal, isPoll }) {
  const headers = { "Daybreak-Page": location.pathname + location.search };
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const response = await fetch(url, { headers, signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
  const elsewhere = response.headers.get("Daybreak-Location");
  if (elsewhere || response.status === 205) {
    // A poll does not leave a page that is in use.
    if (isPoll && isInUse()) return null;
    if (elsewhere) location.assign(elsewhere);
    else location.reload();
  } else if (!response.ok) {
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    throw Object.assign(new Error(), { text: page.querySelector(".lead")?.textContent });
  } else if (response.status !== 204) return response;
  return null;
}

async function load(element, url, options) {
  const response = await request(url, options);
  const html = await response?.text();
  if (!html) return;
  const named = response.headers.get("Daybreak-Target");
  const target = named ? document.getElementById(named) : element;
  if (target.dataset.swap === "outer") target.outerHTML = html;
  else target.innerHTML = html;
  document.dispatchEvent(new Event("partial"));
}

// --- Polling: an element with `data-poll` is loaded `data-seconds` after the last answer while the page is visible --
async function keepLoading(element) {
  await new Promise((resolve) => { setTimeout(resolve, Number(element.dataset.seconds) * 1000); });
  if (!element.isConnected) return;
  if (!document.hidden) await load(element, element.dataset.poll, { isPoll: true }).catch(() => {});
  keepLoading(element);
}
function poll() {
  for (const element of document.querySelectorAll("[data-poll]:not([data-polled])")) {
    element.dataset.polled = "";
    keepLoading(element);
  }
}

// --- A page with `data-reloads` waits for figures, and is loaded again after a second ----------------------------
if ("reloads" in document.body.dataset) {
  const timer = setInterval(() => {
    if (isInUse()) return;
    clearInterval(timer);
    location.reload();
  }, 1000);
}

// --- Search: an input with `data-results` shows the answer of its form in that element ----------------------------
let pending = new AbortController();
function showResults(input) {
  pending.abort();
  pending = new AbortController();
  const { signal } = pending;
  const query = new URLSearchParams(new FormData(input.form));
  const results = document.getElementById(input.dataset.results);
  setTimeout(() => {
    if (!signal.aborted) load(results, `${input.form.action}?${query}`, { signal }).catch((error) => {
      if (!signal.aborted) results.textContent = error.text ?? "The server can't be reached.";
    });
  }, 200);
}
document.addEventListener("input", (event) => {
  if (event.target.dataset.results) showResults(event.target);
});
document.addEventListener("toggle", (event) => {
  const input = event.target.open ? event.target.querySelector("[data-results]") : null;
  if (input && !document.getElementById(input.dataset.results).childElementCount) showResults(input);
}, true);

// --- Drawer: a link with `data-drawer` opens its page there. The URL names the link, to return to it --------------
const drawer = document.getElementById(DRAWER);
function nameInUrl(id) {
  const url = new URL(location.href);
  url.searchParams.delete(DRAWER);
  if (id) url.searchParams.set(DRAWER, id);
  history.replaceState(null, "", url);
}
function fill(template, title) {
  drawer.replaceChildren(document.getElementById(template).content.cloneNode(true));
  drawer.querySelector("h2").textContent = title;
}
async function open(link) {
  const { signal } = (pending = new AbortController());
  fill("drawer-loading", link.dataset.drawer);
  if (!drawer.open) drawer.showModal();
  nameInUrl(link.id);
  try {
    await load(drawer, link.href, { signal });
  } catch (error) {
    if (signal.aborted) return;
    fill("drawer-failed", link.dataset.drawer);
    if (error.text) drawer.querySelector(".lead").textContent = error.text;
    drawer.querySelector("[data-retry]").addEventListener("click", () => open(link));
  }
  drawer.querySelector("h2").focus();
}
if (drawer) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-drawer]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      open(link);
    } else if (event.target === drawer) drawer.close();
  });
  drawer.addEventListener("close", () => {
    pending.abort();
    drawer.replaceChildren();
    nameInUrl("");
  });
  const named = new URLSearchParams(location.search).get(DRAWER);
  const link = named ? document.getElementById(named) : null;
  if (link?.dataset.drawer) open(link);
}
document.addEventListener("partial", poll);
poll();

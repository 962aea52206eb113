// Command palette: Ctrl+K or Command+K searches actions, accounts, pages and files. Pinned and recent entries come first.
//
// Pages are the links of the navigation. Actions, accounts and files come from `data-url` of the dialog as JSON. Pins and recent
// entries are in the storage of the browser, which signing out clears.

const dialog = document.getElementById("palette");
const input = dialog.querySelector("input");
const list = dialog.querySelector("ul");
const MAXIMUM_RECENT = 6;
const IS_APPLE = /^(Mac|iP)/.test(navigator.platform);
let items = [];
let fetched = [];
let isIncomplete = false;
let active = 0;
let lastQuery = 0;
let moved = false;

const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
const stored = (name) => { try { return JSON.parse(localStorage.getItem(`daybreak-${name}`)) ?? []; } catch { return []; } };
// The link "Files" and the entry of the current account have the same URL.
// The URL of an account ends with the section of the page.
const keyOf = (item) => `${item.kind} ${item.kind === "Account" ? item.url.split("/dashboard/").pop().split("/")[0] : item.url}`;
const store = (name, keys) => { try { localStorage.setItem(`daybreak-${name}`, JSON.stringify(keys)); } catch { /* no storage */ } };

function pages() {
  return [...document.querySelectorAll(".nav a")].map((link) => ({ kind: "Page", label: link.textContent.trim(), detail: "", url: link.getAttribute("href") }));
}

// Return what the server finds, or null if it can't be reached or the session has ended.
async function remote(query) {
  if (!dialog.dataset.url) return [];
  try {
    const response = await fetch(`${dialog.dataset.url}&q=${encodeURIComponent(query)}`, { headers: { Accept: "application/json" } });
    return response.ok ? (await response.json()).items : null;
  } catch {
    return null;
  }
}

function ranked(found) {
  const [pinned, recent] = [stored("pinned"), stored("recent")];
  const rank = (item) => (pinned.includes(keyOf(item)) ? 0 : recent.includes(keyOf(item)) ? 1 + recent.indexOf(keyOf(item)) / 100 : 2);
  return found.map((item) => ({ ...item, pinned: pinned.includes(keyOf(item)) })).sort((a, b) => rank(a) - rank(b));
}

// Entries that are known already are shown immediately: Enter after fast typing must not open an older entry.
async function search() {
  const number = ++lastQuery;
  moved = false;
  const words = folded(input.value).split(/\s+/).filter(Boolean);
  const matches = (item) => words.every((word) => folded(`${item.label} ${item.detail} ${item.kind}`).includes(word));
  const local = pages().filter(matches);
  show([...local, ...fetched.filter(matches)], "");
  const found = await remote(input.value);
  if (number !== lastQuery) return;
  fetched = found ?? [];
  isIncomplete = found === null;
  show([...local, ...fetched], moved && items[active] ? keyOf(items[active]) : "");
}

function show(found, activeKey) {
  items = ranked(found);
  active = Math.max(0, items.findIndex((item) => keyOf(item) === activeKey));
  draw();
}

function draw() {
  list.replaceChildren(...items.map((item, index) => {
    const option = document.createElement("li");
    option.id = `palette-${index}`;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", String(index === active));
    option.dataset.index = index;
    for (const [name, text] of [["kind", item.pinned ? `${item.kind}, pinned` : item.kind], ["label", item.label], ["detail", item.detail]]) {
      const part = document.createElement("span");
      part.className = name;
      part.dir = "auto";
      part.textContent = text;
      option.append(part);
    }
    return option;
  }));
  if (isIncomplete || items.length === 0) {
    const note = document.createElement("li");
    note.className = "soft";
    note.textContent = isIncomplete ? "Accounts and files can't be loaded. Reload the page." : "No match.";
    list.append(note);
  }
  input.setAttribute("aria-activedescendant", items.length ? `palette-${active}` : "");
  list.children[active]?.scrollIntoView({ block: "nearest" });
}

function go(item) {
  store("recent", [keyOf(item), ...stored("recent").filter((key) => key !== keyOf(item))].slice(0, MAXIMUM_RECENT));
  location.assign(item.url);
}

function togglePin(item) {
  const [key, pinned] = [keyOf(item), stored("pinned")];
  store("pinned", pinned.includes(key) ? pinned.filter((each) => each !== key) : [...pinned, key]);
  show(items, key);
}

function open() {
  input.value = "";
  dialog.showModal();
  search();
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (dialog.open) dialog.close(); else open();
  }
});
for (const button of document.querySelectorAll("[data-palette]")) button.addEventListener("click", open);
for (const key of IS_APPLE ? document.querySelectorAll("[data-palette] kbd, .palette kbd") : []) {
  key.textContent = key.textContent.replace("Ctrl", "⌘").replace("Alt", "⌥");
}
input.addEventListener("input", search);
input.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && items.length) {
    event.preventDefault();
    active = (active + step + items.length) % items.length;
    moved = true;
    draw();
  } else if (event.key === "Enter" && items[active]) {
    event.preventDefault();
    go(items[active]);
  } else if (event.altKey && event.code === "KeyP" && items[active]) {
    event.preventDefault();
    togglePin(items[active]);
  }
});
list.addEventListener("click", (event) => {
  const option = event.target.closest("[data-index]");
  if (option) go(items[Number(option.dataset.index)]);
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

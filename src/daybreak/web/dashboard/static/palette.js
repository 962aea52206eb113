// Command palette: Ctrl+K or Command+K searches accounts, pages and files. Pinned and recent entries come first.
//
// Pages are the links of the navigation. Accounts and files come from `data-url` of the dialog as JSON. Pins and recent
// entries are in the storage of the browser, which signing out clears.

const dialog = document.getElementById("palette");
const input = dialog.querySelector("input");
const list = dialog.querySelector("ul");
const MAXIMUM_RECENT = 6;
let items = [];
let active = 0;
let lastQuery = 0;

const stored = (name) => { try { return JSON.parse(localStorage.getItem(`daybreak-${name}`)) ?? []; } catch { return []; } };
const store = (name, urls) => { try { localStorage.setItem(`daybreak-${name}`, JSON.stringify(urls)); } catch { /* no storage */ } };

function pages() {
  return [...document.querySelectorAll(".nav a")].map((link) => ({ kind: "Page", label: link.textContent.trim(), detail: "", url: link.getAttribute("href") }));
}

async function remote(query) {
  if (!dialog.dataset.url) return [];
  try {
    const response = await fetch(`${dialog.dataset.url}?q=${encodeURIComponent(query)}`, { headers: { Accept: "application/json" } });
    return response.ok ? (await response.json()).items : [];
  } catch {
    return [];
  }
}

function ranked(found) {
  const [pinned, recent] = [stored("pinned"), stored("recent")];
  const rank = (item) => (pinned.includes(item.url) ? 0 : recent.includes(item.url) ? 1 + recent.indexOf(item.url) / 100 : 2);
  return found.map((item) => ({ ...item, pinned: pinned.includes(item.url) })).sort((a, b) => rank(a) - rank(b));
}

async function search() {
  const number = ++lastQuery;
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (item) => words.every((word) => `${item.label} ${item.detail} ${item.kind}`.toLowerCase().includes(word));
  const found = [...pages().filter(matches), ...(await remote(input.value))];
  if (number !== lastQuery) return;
  items = ranked(found);
  active = 0;
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
  if (items.length === 0) {
    const none = document.createElement("li");
    none.className = "soft";
    none.textContent = "No match.";
    list.append(none);
  }
  input.setAttribute("aria-activedescendant", items.length ? `palette-${active}` : "");
  list.children[active]?.scrollIntoView({ block: "nearest" });
}

function go(item) {
  store("recent", [item.url, ...stored("recent").filter((url) => url !== item.url)].slice(0, MAXIMUM_RECENT));
  location.assign(item.url);
}

function togglePin(item) {
  const pinned = stored("pinned");
  store("pinned", pinned.includes(item.url) ? pinned.filter((url) => url !== item.url) : [...pinned, item.url]);
  const kept = item.url;
  items = ranked(items);
  active = items.findIndex((each) => each.url === kept);
  draw();
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
input.addEventListener("input", search);
input.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && items.length) {
    event.preventDefault();
    active = (active + step + items.length) % items.length;
    draw();
  } else if (event.key === "Enter" && items[active]) {
    event.preventDefault();
    go(items[active]);
  } else if (event.altKey && event.key.toLowerCase() === "p" && items[active]) {
    event.preventDefault();
    togglePin(items[active]);
  }
});
list.addEventListener("click", (event) => {
  const option = event.target.closest("[data-index]");
  if (option) go(items[Number(option.dataset.index)]);
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

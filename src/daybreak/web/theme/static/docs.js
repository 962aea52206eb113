// Documentation pages: search in the contents, and the reader's own account in the examples.
(() => {
  "use strict";
  const example = document.body.dataset.exampleAccount;
  // The dashboard keeps the account of the last page in this browser until the user signs out.
  const account = localStorage.getItem("daybreak-account");
  if (account) {
    for (const code of document.querySelectorAll(".docs-panel code")) {
      const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(example, account);
    }
  }

  document.querySelector("[data-docs-search]").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const contents of document.querySelectorAll("nav[aria-label=Contents]")) {
      let found = 0;
      for (const link of contents.querySelectorAll("a")) {
        const text = link.textContent.toLowerCase();
        link.hidden = words.length ? !words.every((word) => text.includes(word)) : "found" in link.dataset;
        if (!link.hidden) found += 1;
      }
      contents.querySelector(".docs-nothing").hidden = found > 0;
    }
  });
})();

"use strict";
// Find units by typing a part of their names. Without this script the list is the same, to open by hand.
for (const list of document.querySelectorAll("[data-find]")) {
  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").replace(/[^\p{L}\p{N}]+/gu, " ").toLowerCase().trim();
  const units = Array.from(list.querySelectorAll("details"), (own) => {
    const title = own.firstElementChild.textContent;
    const end = title.lastIndexOf(": ");
    return { own, name: plain(end < 0 ? title : title.slice(0, end)), isLeaf: !own.querySelector("details") };
  });
  const opened = new Set();
  const label = document.createElement("label");
  const input = document.createElement("input");
  const said = document.createElement("output");
  label.className = "find";
  input.type = "search";
  input.autocomplete = "off";
  label.append(`Find ${list.dataset.find}:`, input, said);
  list.before(label);
  const open = (own) => { if (!own.open) { own.open = true; opened.add(own); } };
  input.addEventListener("input", () => {
    const words = plain(input.value).split(" ").filter(Boolean);
    const isAsked = words.length > 0;
    for (const own of opened) own.open = false;
    opened.clear();
    const seen = new Set();
    const found = [];
    for (const { own, name, isLeaf } of units) {
      const above = own.parentElement.closest("details");
      const isWithin = above !== null && above.dataset.found === "yes";
      const isFound = isAsked && (isWithin || words.every((word) => name.includes(word)));
      own.dataset.found = isFound ? "yes" : "no";
      if (isFound && isLeaf) found.push(own);
      if (isFound) for (let up = own; up; up = up.parentElement.closest("details")) seen.add(up);
    }
    for (const { own } of units) own.hidden = isAsked && !seen.has(own);
    if (found.length <= 200) for (const own of seen) if (!found.includes(own)) open(own);
    if (found.length === 1) open(found[0]);
    said.textContent = !isAsked ? "" : found.length ? `${found.length.toLocaleString("en")} found` : "none has this in its name";
  });
}

"use strict";
// Live parts of the workbench's pages. All pages can be read without it; choosing and asking need it.
const byId = (id) => document.getElementById(id);

// Requests: one way out, and one place where a lost connection shows.
async function ask(address, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    byId("lost").hidden = false;
    throw new Error("lost");
  }
  byId("lost").hidden = true;
  const reply = await answer.json().catch(() => ({ error: "The workbench refused this." }));
  if (!answer.ok) throw new Error(reply.error || "The workbench refused this.");
  return reply;
}
const put = (place, html) => { place.innerHTML = html; };
function putAround(place, html) { // whoever is in the middle of it stays where they are
  const active = place.contains(document.activeElement) ? document.activeElement : null;
  const typed = active && active.tagName === "INPUT" ? active.value : null;
  put(place, html);
  const again = active && active.id && byId(active.id);
  if (!again) return;
  again.focus();
  if (typed !== null) again.value = typed;
}

function choosing(root) {
  const data = root.dataset;
  const stops = JSON.parse(data.stops);
  const storageKey = `choose ${data.file} ${data.digest}`;
  let changes = JSON.parse(sessionStorage.getItem(storageKey) || "[]");
  let isAsking = false, isStale = false, number = 0, last = null;
  const before = {};
  const grid = byId("grid"); // none where there are several tables of the same records
  const request = (more) => ({ file: data.file, digest: data.digest, changes, down: data.down || null, across: data.across || null, ...more });

  async function refresh() {
    if (isAsking) { isStale = true; return; }
    isAsking = true;
    isStale = false;
    const ticket = ++number;
    const start = performance.now();
    const waiting = setTimeout(() => root.classList.add("is-busy"), 120);
    sessionStorage.setItem(storageKey, JSON.stringify(changes));
    try {
      const reply = await ask("choose/panel", request({}));
      show(reply, performance.now() - start);
    } catch (error) {
      if (error.message !== "lost") put(byId("panel"), `<div class="warning" role="alert"></div>`), byId("panel").firstChild.textContent = error.message;
      byId("undo").disabled = !changes.length;
    }
    clearTimeout(waiting);
    root.classList.remove("is-busy");
    isAsking = false;
    if (isStale) { refresh(); return; }
    settle(ticket);
  }

  function show(reply, took) {
    put(byId("panel"), reply.html);
    byId("panel").setAttribute("aria-busy", "false");
    byId("undo").disabled = !changes.length;
    if (!reply.ok) { byId("save").disabled = true; for (const name of ["noise", "error", "cost"]) byId(`tile-${name}`).textContent = "—"; root.dataset.shown = String(number); return; }
    byId("save").disabled = reply.digest === data.digest;
    for (const name of ["noise", "error"]) {
      const isSettled = last && last.is_bound && last.digest === reply.digest; // the same choice, better known
      if (!isSettled) byId(`was-${name}`).textContent = before[name] && before[name] !== reply[name] ? `was ${before[name]}` : "";
    }
    const most = reply.is_bound ? "≤ " : "";
    byId("tile-noise").textContent = most + reply.noise;
    byId("tile-error").textContent = reply.error ? most + reply.error : data.tree ? "…" : reply.method === "measured" ? "no table" : "by draws";
    for (const [level, share] of Object.entries(reply.shares || {})) { const place = root.querySelector(`[data-share="${CSS.escape(level)}"]`); if (place) place.textContent = share; }
    for (const place of root.querySelectorAll("[data-level]")) if (place !== document.activeElement) place.value = reply.weights[place.dataset.level];
    root.dataset.bound = String(reply.is_bound);
    byId("tile-cost").textContent = reply.cost;
    byId("took").textContent = `in ${Math.round(took)} ms`;
    last = reply;
    if (!reply.is_bound) for (const name of ["noise", "error"]) before[name] = reply[name];
    byId("text").textContent = reply.text;
    if (!byId("invariants").contains(document.activeElement)) put(byId("invariants"), reply.invariants);
    if (reply.tables) putAround(byId("tables"), reply.tables);
    for (const place of grid ? grid.querySelectorAll("[data-key]") : []) {
      const state = reply.grid[place.dataset.key];
      place.classList.toggle("is-exact", state.exact && !state.known);
      place.classList.toggle("is-known", state.known);
      place.querySelector(".value").textContent = state.text ? state.text : state.known ? "given away" : state.exact ? "exact" : state.error ? `± ${state.error}` : "";
    }
    byId("noise").value = reply.noise_family;
    if (byId("method")) byId("method").value = reply.method;
    root.dataset.method = reply.method;
    byId("currency").value = reply.currency;
    if (document.activeElement !== byId("amount")) byId("amount").value = reply.amount || "";
    const positions = stops[reply.currency];
    byId("slider").max = positions.length - 1;
    if (document.activeElement !== byId("slider")) byId("slider").value = nearest(positions, reply.amount);
    byId("slider").setAttribute("aria-valuetext", `${reply.currency} ${reply.amount}`);
    root.dataset.shown = String(number);
    root.dataset.took = String(took);
  }
  const nearest = (positions, amount) => positions.reduce((best, stop, place) => Math.abs(stop - amount) < Math.abs(positions[best] - amount) ? place : best, 0);

  // Noise that is bounded at first gets its own figure as soon as that is proven.
  async function settle(ticket) {
    await new Promise((done) => setTimeout(done, 200)); // a slider that moves asks again before any proof is begun
    if (ticket !== number) return;
    try {
      if (last && last.is_bound) {
        const reply = await ask("choose/panel", request({ is_whole: true }));
        if (ticket !== number) return;
        show(reply, Number(root.dataset.took));
      }
    } catch { return; }
    later(ticket);
  }

  // What takes longer arrives afterwards, row by row, and stops as soon as something else is chosen.
  async function later(ticket) {
    if (data.tree || !grid) { byLevel(ticket); return; }
    const body = byId("costs");
    body.dataset.done = "no";
    const fresh = [];
    try {
      const sampler = await ask("choose/sampler", request({}));
      if (ticket !== number) return;
      put(byId("sampler"), sampler.html);
      for (let place = 0; ticket === number; place++) {
        const reply = await ask("choose/cost", request({ number: place }));
        if (ticket !== number) return;
        if (reply.is_over) break;
        fresh.push(reply.row);
        put(body, "");
        for (const row of fresh) body.append(costRow(row));
      }
      if (ticket !== number) return;
      body.dataset.done = "yes";
      const sums = await ask("choose/areas", request({}));
      if (ticket !== number) return;
      byId("areas").hidden = !sums.html;
      put(byId("areas-body"), sums.html);
    } catch { /* it is asked again with the next change */ }
  }
  async function byLevel(ticket) {
    try {
      const reply = await ask("choose/levels", request({}));
      if (ticket !== number) return;
      if (!reply.html) return; // chosen otherwise in another tab
      put(byId("levels"), reply.html);
      byId("tile-error").textContent = reply.error || "by draws";
      byId("levels").dataset.shown = String(ticket);
    } catch { /* it is asked again with the next change */ }
  }
  function costRow(row) {
    const line = document.createElement("tr");
    const name = document.createElement("th");
    name.scope = "row";
    name.textContent = row.text;
    line.append(name);
    for (const text of [row.noise, row.error, row.than]) {
      const cell = document.createElement("td");
      cell.className = "number";
      cell.textContent = text;
      line.append(cell);
    }
    return line;
  }
  function change(entry) { changes = [...changes, entry]; refresh(); }

  // Picking in the grid.
  function gridPicker() {
    const rows = new Set(), columns = new Set();
    let picked = null; // {margin: name}, {total: "all"}, or rows and columns
    const labels = { rows: [...grid.querySelectorAll("tbody th button")].map((b) => b.textContent.trim()), columns: [...grid.querySelectorAll("thead [data-column]")].map((b) => b.textContent.trim()) };
    function draw() {
      const isAll = picked && picked.total;
      for (const button of grid.querySelectorAll("button")) {
        const { row, column, margin, total } = button.dataset;
        let isPicked = false;
        if (margin !== undefined) isPicked = Boolean(picked && picked.margin === margin);
        else if (total) isPicked = Boolean(isAll);
        else if (row !== undefined && column !== undefined) isPicked = !picked && (rows.size || columns.size) && (!rows.size || rows.has(+row)) && (!columns.size || columns.has(+column));
        else isPicked = !picked && (row !== undefined ? rows.has(+row) : columns.has(+column));
        button.setAttribute("aria-pressed", isPicked ? "true" : "false");
      }
      const entry = picking();
      byId("exact").disabled = !entry;
      byId("selection").textContent = entry ? `Picked: ${inWords(entry)}` : "Nothing is picked.";
    }
    function picking() {
      if (picked) return picked.margin ? { margin: [picked.margin] } : { total: "all" };
      const where = {};
      const chip = [...document.querySelectorAll(".chip.is-on")][0];
      if (rows.size) where[data.down] = [...rows].sort((a, b) => a - b).map((n) => labels.rows[n]);
      if (columns.size) where[data.across] = [...columns].sort((a, b) => a - b).map((n) => labels.columns[n]);
      if (chip) where[chip.dataset.groupOf] = [chip.dataset.group];
      return Object.keys(where).length ? { total: where } : null;
    }
    const inWords = (entry) => entry.margin ? `every number by ${entry.margin[0]}` : entry.total === "all" ? "the total" : `the sum of ${Object.entries(entry.total).map(([name, labels]) => `${name}: ${labels.join(", ")}`).join("; ")}`;
    const toggle = (set, value) => { if (!set.delete(value)) set.add(value); };
    function clear() { rows.clear(); columns.clear(); picked = null; for (const chip of document.querySelectorAll(".chip")) chip.classList.remove("is-on"); }
    grid.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const { row, column, margin, total } = button.dataset;
      const was = button.getAttribute("aria-pressed") === "true";
      if (margin !== undefined || total) { clear(); if (!was) picked = total ? { total: "all" } : { margin }; }
      else {
        picked = null;
        for (const chip of document.querySelectorAll(".chip")) chip.classList.remove("is-on");
        if (row !== undefined && column !== undefined) {
          if (!event.shiftKey) { const only = rows.size === 1 && columns.size === 1 && was; rows.clear(); columns.clear(); if (!only) { rows.add(+row); columns.add(+column); } }
          else { rows.add(+row); columns.add(+column); }
        } else if (row !== undefined) toggle(rows, +row); else toggle(columns, +column);
      }
      draw();
    });
    for (const chip of document.querySelectorAll(".chip")) chip.addEventListener("click", () => {
      const was = chip.classList.contains("is-on");
      clear();
      if (!was) {
        chip.classList.add("is-on");
        const members = JSON.parse(chip.dataset.labels);
        const [set, names] = chip.dataset.groupOf === data.down ? [rows, labels.rows] : [columns, labels.columns];
        if ([data.down, data.across].includes(chip.dataset.groupOf)) for (const label of members) set.add(names.indexOf(label));
      }
      draw();
    });
    grid.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      const cell = event.target.closest("th, td");
      if (!move || !cell) return;
      event.preventDefault();
      let line = cell.parentElement.rowIndex, place = cell.cellIndex;
      for (;;) {
        line += move[0];
        place += move[1];
        const next = grid.rows[line] && grid.rows[line].cells[place];
        if (!next) return;
        const button = next.querySelector("button");
        if (button) { button.focus(); return; }
      }
    });
    draw();
    return { entry: picking, clear: () => { clear(); draw(); } };
  }

  // Picking dimensions: for a further table, or for a margin that is exact in all of them.
  function dimensionPicker() {
    const chips = [...byId("dimensions").querySelectorAll("button")];
    const names = () => chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.dimension);
    function draw() {
      const all = names();
      byId("selection").textContent = all.length ? `Picked: ${all.join(" x ")}${all.length === chips.length ? ", all dimensions together" : ""}` : "Nothing is picked.";
      byId("table-name").placeholder = all.join(" by ") || "by its dimensions";
      byId("publish").disabled = byId("measure").disabled = !all.length;
      byId("exact").textContent = all.length ? "Make this margin exact" : "Make the total exact";
    }
    function clear() { for (const chip of chips) chip.setAttribute("aria-pressed", "false"); draw(); }
    byId("dimensions").addEventListener("click", (event) => {
      const chip = event.target.closest("button");
      if (!chip) return;
      chip.setAttribute("aria-pressed", chip.getAttribute("aria-pressed") === "true" ? "false" : "true");
      draw();
    });
    byId("add-table").addEventListener("submit", (event) => {
      event.preventDefault();
      const margin = names();
      if (!margin.length) return;
      const name = byId("table-name").value.trim() || margin.join(" by ");
      byId("table-name").value = "";
      clear();
      change({ add_table: { name, margin } });
    });
    byId("add-measured").addEventListener("submit", (event) => {
      event.preventDefault();
      const margin = names(), portion = byId("measured-portion").value.trim();
      if (!margin.length) return;
      clear();
      change({ add_measured: margin.length === chips.length ? { portion } : { margin, portion } });
    });
    const keyOf = (place) => { const { table, measured } = place.closest("li").dataset; return table === undefined ? +measured : table; };
    byId("tables").addEventListener("click", (event) => {
      const button = event.target.closest(".remove-table");
      if (!button) return;
      const key = keyOf(button);
      change(typeof key === "number" ? { remove_measured: key } : { remove_table: key });
    });
    byId("tables").addEventListener("change", (event) => {
      const field = event.target;
      if (field.id === "share-by") change({ share_by: field.value });
      else if (field.id === "protects") change({ protects: field.value });
      else if (field.classList.contains("portion")) change({ portion: field.value.trim(), table: keyOf(field) });
    });
    draw();
    return { entry: () => (names().length ? { margin: names() } : { total: "all" }), clear };
  }
  const picker = grid ? gridPicker() : dimensionPicker();
  byId("make").addEventListener("submit", (event) => {
    event.preventDefault();
    const entry = picker.entry();
    if (!entry) return;
    const mandate = byId("mandate").value.trim();
    if (mandate) entry.mandate = mandate;
    if (byId("at")) entry.at = byId("at").value;
    byId("mandate").value = "";
    picker.clear();
    change({ add: entry });
  });
  byId("invariants").addEventListener("click", (event) => {
    const button = event.target.closest(".remove");
    if (!button) return;
    const place = +button.closest("li").dataset.place;
    button.blur();
    change({ remove: place });
  });
  byId("invariants").addEventListener("change", (event) => {
    if (event.target.classList.contains("mandate")) change({ mandate: event.target.value.trim(), of: +event.target.closest("li").dataset.place });
  });

  // The budget.
  const budgetOf = (currency, amount) => currency === "rho" ? { rho: amount } : currency === "epsilon" ? { epsilon: amount } : { epsilon: amount, delta: data.delta };
  function spend(amount) {
    const entry = { budget: budgetOf(byId("currency").value, amount) };
    const before = changes[changes.length - 1];
    if (before && before.budget) changes = changes.slice(0, -1); // a slider that moves is one change
    change(entry);
  }
  if (byId("shares")) byId("shares").addEventListener("change", () => {
    const shares = Object.fromEntries([...root.querySelectorAll("[data-level]")].map((input) => [input.dataset.level, input.value.trim()]));
    const before = changes[changes.length - 1];
    if (before && before.shares) changes = changes.slice(0, -1);
    change({ shares });
  });
  if (byId("shares")) byId("shares").addEventListener("submit", (event) => event.preventDefault());
  byId("slider").addEventListener("input", () => { const amount = stops[byId("currency").value][+byId("slider").value]; byId("amount").value = amount; spend(amount); });
  byId("amount").addEventListener("change", () => spend(byId("amount").value.trim()));
  byId("currency").addEventListener("change", () => { const positions = stops[byId("currency").value]; byId("slider").max = positions.length - 1; spend(positions[Math.floor(positions.length / 2)]); });
  byId("noise").addEventListener("change", () => {
    const name = byId("noise").value;
    const isGaussian = name === "discrete_gaussian";
    if (isGaussian && byId("currency").value === "epsilon") { byId("currency").value = "rho"; changes = [...changes, { noise: name }]; spend("0.5"); }
    else change({ noise: name });
  });
  if (byId("method")) byId("method").addEventListener("change", () => change({ method: byId("method").value }));
  byId("budget").addEventListener("submit", (event) => event.preventDefault());
  byId("undo").addEventListener("click", () => { changes = changes.slice(0, -1); refresh(); });
  byId("save").addEventListener("click", async () => {
    try {
      await ask("choose/save", request({}));
      sessionStorage.removeItem(storageKey);
      location.reload();
    } catch (error) { if (error.message !== "lost") byId("saved").textContent = error.message; }
  });
  byId("again").addEventListener("click", refresh);
  refresh();
}

// A job that takes a while: how far it is, then where to go.
async function following(root) {
  const bar = root.querySelector("progress");
  const output = root.querySelector("output");
  for (;;) {
    let job;
    try { job = await ask(`job/${root.dataset.job}`); } catch { await new Promise((done) => setTimeout(done, 1000)); continue; }
    output.textContent = job.error || (job.of ? `${job.step}: ${job.done} of ${job.of}` : job.step);
    if (job.of) { bar.max = job.of; bar.value = job.done; }
    if (job.is_over && job.error) { bar.hidden = true; root.classList.add("warning"); return; }
    if (job.is_over) { location.replace(job.result); return; }
    await new Promise((done) => setTimeout(done, 250));
  }
}

function asking(root) {
  const completions = JSON.parse(root.dataset.completions);
  const input = byId("query"), list = byId("options");
  let place = -1;
  const tail = () => /[^&|,/({})<>!\s][^&|,/({})<>!]*$/.exec(input.value.slice(0, input.selectionStart))?.[0] ?? "";
  function close() { list.hidden = true; place = -1; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); }
  function open() {
    const typed = tail().toLowerCase();
    const matches = typed ? completions.filter((word) => word.toLowerCase().includes(typed) && word.toLowerCase() !== typed).slice(0, 12) : [];
    if (!matches.length) { close(); return; }
    list.replaceChildren(...matches.map((word, number) => { const item = document.createElement("li"); item.role = "option"; item.id = `option-${number}`; item.textContent = word; item.setAttribute("aria-selected", "false"); return item; }));
    list.hidden = false;
    place = -1;
    input.setAttribute("aria-expanded", "true");
  }
  function take(word) {
    const at = input.selectionStart;
    const start = at - tail().length;
    input.value = input.value.slice(0, start) + word + input.value.slice(at);
    input.setSelectionRange(start + word.length, start + word.length);
    close();
  }
  input.addEventListener("input", open);
  input.addEventListener("blur", () => setTimeout(close, 150));
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const all = [...list.children];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      place = (place + (event.key === "ArrowDown" ? 1 : -1) + all.length) % all.length;
      all.forEach((item, number) => item.setAttribute("aria-selected", number === place ? "true" : "false"));
      input.setAttribute("aria-activedescendant", all[place].id);
      all[place].scrollIntoView({ block: "nearest" });
    } else if ((event.key === "Enter" || event.key === "Tab") && place >= 0) { event.preventDefault(); take(all[place].textContent); }
    else if (event.key === "Escape") close();
  });
  list.addEventListener("mousedown", (event) => { const item = event.target.closest("li"); if (item) { event.preventDefault(); take(item.textContent); } });
  for (const select of root.querySelectorAll("select[data-dimension]")) select.addEventListener("change", () => {
    const parts = [...root.querySelectorAll("select[data-dimension]")].filter((select) => select.value).map((select) => select.value);
    input.value = parts.join(" & ") || "all";
  });
  // Of a measured release: the same question under a prior as well, which takes longer.
  let asked = null;
  byId("answers").addEventListener("click", async (event) => {
    const button = event.target.closest("[data-prior]");
    if (!button || !asked) return;
    const body = { ...asked, prior: button.dataset.prior };
    const place = byId("answers"), status = place.querySelector("[data-prior-status]");
    button.disabled = true;
    place.setAttribute("aria-busy", "true");
    status.textContent = "Drawing from what the measurements leave possible…";
    try {
      put(place, (await ask("ask/answer", body)).html);
    } catch (error) {
      button.disabled = false;
      status.textContent = error.message === "lost" ? "" : error.message;
    }
    place.setAttribute("aria-busy", "false");
  });
  if (byId("compare")) byId("compare").addEventListener("click", () => { input.value = `difference(${byId("first").value}, ${byId("second").value})`; byId("area").value = ""; byId("question").requestSubmit(); });
  byId("question").addEventListener("submit", async (event) => {
    event.preventDefault();
    close();
    const body = { bundle: root.dataset.bundle, query: input.value, level: byId("level").value, area: byId("area") ? byId("area").value : "", units: byId("units") ? byId("units").value : "" };
    const place = byId("answers");
    place.setAttribute("aria-busy", "true");
    byId("go").disabled = true;
    place.textContent = root.dataset.measured ? "Reading the measurements…" : "Drawing from what the bundle leaves possible…";
    try {
      if (byId("area") && !body.area && !root.dataset.measured) { const early = await ask("ask/at-once", body); if (early.html) put(place, early.html); }
      put(place, (await ask("ask/answer", body)).html);
      place.dataset.whole = body.query;
      asked = body;
    } catch (error) {
      place.replaceChildren();
      if (error.message !== "lost") { const box = document.createElement("div"); box.className = "warning"; box.setAttribute("role", "alert"); box.textContent = error.message; place.append(box); }
    }
    byId("go").disabled = false;
    place.setAttribute("aria-busy", "false");
    history.replaceState(null, "", `ask?bundle=${encodeURIComponent(root.dataset.bundle)}&query=${encodeURIComponent(input.value)}`);
  });
}
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "Copied"; } catch { button.textContent = "Select it and copy"; }
});

function dropping(root) {
  const input = root.querySelector("input[type=file]");
  root.addEventListener("dragover", (event) => event.preventDefault());
  root.addEventListener("drop", (event) => { event.preventDefault(); input.files = event.dataTransfer.files; root.submit(); });
}

if (byId("choose")) choosing(byId("choose"));
if (byId("ask")) asking(byId("ask"));
for (const job of document.querySelectorAll("[data-job]")) following(job);
for (const form of document.querySelectorAll("[data-drop]")) dropping(form);
if (!byId("choose")) byId("again").addEventListener("click", () => location.reload());

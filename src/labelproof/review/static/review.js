"use strict";
// The review page. State lives on the server; this keeps the labels in view and what is typed.

const PAGE = 48; // labels in the grid
const AHEAD = 20; // labels fetched at once, one by one
const BATCH = 20; // decisions after which the rest is judged again
const state = { fresh: 0, judging: false, stale: false, run: null, view: "one", queue: [], at: 0, ended: false, page: [], target: null };
let work = Promise.resolve(); // actions run one after another, so that fast typing loses nothing

// --- talking to the server

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The review server does not answer. Start labelproof review again; your decisions are saved.");
  }
  const type = answer.headers.get("Content-Type") || "";
  const content = type.includes("json") ? await answer.json() : { error: await answer.text() };
  if (!answer.ok) throw new Error(content.error || `The server answered with status ${answer.status}.`);
  return content;
}

// rows stand in one of two orders: by suspicion, or by what a check is expected to gain
const order = () => $("filter").elements.order.value;
const at = (row) => row.at[order()];
const ORDERS = {
  gain: "First where the model's best guess is most likely wrong: best if unchecked labels take the suggestion.",
  suspicion: "First where the given label is least likely right: best if unchecked labels stay as given.",
};

function filterValues() {
  const values = new URLSearchParams();
  for (const [name, value] of new FormData($("filter"))) {
    if (name === "least" || name === "most") values.set(name, String(Number(value || 0) / 100));
    else if (value) values.set(name, value);
  }
  return values;
}

function rowsAddress(more) {
  const values = filterValues();
  for (const [name, value] of Object.entries(more)) values.set(name, String(value));
  return `api/rows?${values}`;
}

function doing(action) {
  work = work.then(action).then(() => complain(""), (error) => complain(error.message));
  return work;
}

function complain(text) {
  $("error").textContent = text;
  $("error").hidden = !text;
}

function say(text) { $("said").textContent = text; }

// --- one by one

function showOne() {
  const row = state.queue[state.at];
  $("done").hidden = Boolean(row) || state.view !== "one";
  $("one").hidden = !row || state.view !== "one";
  if (!row) return;
  const title = verdict(row);
  title.id = "card-title";
  $("card").replaceChildren(...content(state.run, row, 480), called(row));
  $("verdict").replaceChildren(title, details(row), element("p", "state", standing(row)));
  $("likeliest").replaceChildren(...bars(row));
  $("likeliest").hidden = !row.likeliest.length;
  $("note-text").value = row.decision ? row.decision.note : "";
  for (const button of document.querySelectorAll("#actions button")) {
    button.classList.toggle("main", button.dataset.act === likely(row));
  }
  $("keep-name").textContent = row.given;
  $("accept-name").textContent = row.suggested;
  document.querySelector('#actions [data-act="accept"]').disabled = row.suggested === row.given;
  $("back").disabled = state.at === 0;
  $("where").textContent = `${row.suspect ? "Suspect" : "Label"} ${row.rank[order()].toLocaleString("en")} of ${row.of.toLocaleString("en")}`;
  showSimilar(row);
  for (const next of state.queue.slice(state.at + 1, state.at + 4)) {
    if (state.run.kind === "images" && !state.run.note) new Image().src = `picture/${next.index}/480`;
  }
}

// Not part of the row: it is fetched after the label is on the screen, and only for that one.
async function showSimilar(row) {
  $("similar").hidden = true;
  let found = { rows: [] };
  try { found = await ask(`api/similar/${row.index}`); } catch { return; }
  if (state.queue[state.at] !== row || !found.rows.length) return;
  $("near").replaceChildren(...found.rows.map((one) => neighbour(state.run, one)));
  $("near").classList.toggle("texts", state.run.kind !== "images" || Boolean(state.run.note));
  $("similar").hidden = false;
}

async function fetchQueue(start) {
  const known = new Set(state.queue.map((row) => row.index));
  let fresh = [];
  state.ended = false;
  while (!fresh.length && !state.ended) {
    const found = await ask(rowsAddress({ start, limit: AHEAD }));
    fresh = found.rows.filter((row) => !known.has(row.index));
    state.ended = found.rows.length < AHEAD;
    if (found.rows.length) start = at(found.rows.at(-1)) + 1;
  }
  state.queue.push(...fresh);
}

// After a batch of decisions the rest is judged again, in the background; the labels that come next
// are then fetched anew. Only in the order of gain: the list by suspicion stays as it is.
function judgeSoon(count) {
  state.fresh += count;
  const form = $("filter").elements;
  if (state.fresh < BATCH || state.judging || order() !== "gain" || form.status.value !== "open") return;
  state.fresh = 0;
  state.judging = true;
  ask("api/judge", {}).then((answer) => {
    state.stale = true;
    progress(answer.progress);
  }, () => {}).finally(() => { state.judging = false; });
}

async function move(by) {
  if (by > 0 && state.stale && state.view === "one") {
    state.stale = false;
    state.queue = state.queue.slice(0, state.at + 1);
    await fetchQueue(0);
  }
  const to = Math.max(0, state.at + by);
  if (to >= state.queue.length && !state.ended && state.queue.length) {
    await fetchQueue(Math.max(...state.queue.map(at)) + 1);
  }
  state.at = Math.min(to, state.queue.length);
  showOne();
}

// --- active filters, visible when the panel is closed

function showChips() {
  const form = $("filter").elements;
  const chips = [];
  const chip = (text, clear) => {
    const button = element("button", "chip", `${text} ×`);
    button.type = "button";
    button.setAttribute("aria-label", `Remove the filter ${text}`);
    button.addEventListener("click", () => { clear(); doing(restart); });
    chips.push(button);
  };
  if (form.scope.value === "all") chip("all labels", () => { form.scope.value = "suspects"; });
  if (form.status.value !== "open") chip(form.status.selectedOptions[0].textContent, () => { form.status.value = "open"; });
  for (const name of ["given", "suggested"]) {
    if (form[name].value) chip(`${name}: ${form[name].value}`, () => { form[name].value = ""; });
  }
  if (Number(form.least.value) > 0 || Number(form.most.value) < 100) {
    chip(`confidence ${form.least.value || 0}–${form.most.value || 100}%`, () => { form.least.value = 0; form.most.value = 100; });
  }
  $("chips").replaceChildren(...chips);
  $("chips").hidden = !chips.length;
  $("filter-name").textContent = chips.length ? `Filter (${chips.length})` : "Filter";
}

async function restart() {
  showChips();
  $("order-why").textContent = ORDERS[order()];
  state.stale = false;
  state.queue = [];
  state.at = 0;
  await fetchQueue(0);
  showOne();
  if (state.view === "grid") await showPage({ start: 0 });
}

// --- the grid

async function showPage(where) {
  const found = await ask(rowsAddress({ ...where, limit: PAGE }));
  if (!found.rows.length && where.before !== undefined) return;
  state.page = found.rows;
  $("grid-count").textContent = labels(found.total);
  showByClass(found);
  $("cards").replaceChildren(...state.page.map((row) => card(state.run, row)));
  $("cards").classList.toggle("texts", state.run.kind !== "images");
  $("done").hidden = state.page.length > 0 || state.view !== "grid";
  $("grid").hidden = state.view !== "grid" || !state.page.length;
  const first = $("cards").firstElementChild;
  if (first) first.tabIndex = 0;
}

// --- all labels of a filter at once, on all pages

function showByClass(found) {
  const form = $("filter").elements;
  const chosen = $("by-class-label").value;
  const options = [new Option("as suggested", "accept:"), new Option("right as given", "keep:")];
  for (const name of state.run.classes) options.push(new Option(name, `change:${name}`));
  $("by-class-label").replaceChildren(...options);
  const usual = form.suggested.value ? `change:${form.suggested.value}` : "accept:";
  $("by-class-label").value = state.byFilter === String(filterValues()) ? chosen : usual;
  state.byFilter = String(filterValues());
  state.counts = { accept: found.changed, keep: found.open, change: found.open };
  $("by-class").hidden = !found.open;
  countByClass();
}

function byClass() {
  const [act, ...rest] = $("by-class-label").value.split(":");
  return { act, label: rest.join(":") || null, count: state.counts[act] };
}

function countByClass() {
  const { act, count } = byClass();
  $("by-class-count").textContent = count.toLocaleString("en");
  const some = act === "accept" && count < state.counts.keep;
  $("by-class-kind").textContent = some ? " with a clear suggestion" : "";
}

function askByClass(event) {
  event.preventDefault();
  const { act, label, count } = byClass();
  if (!count) return;
  const ends = { accept: "as suggested", keep: "as given", change: `to ${label}` };
  $("sure-title").textContent = `${act === "keep" ? "Keep" : "Change"} ${labels(count)} ${ends[act]}?`;
  $("sure").showModal();
}

function decideByClass() {
  $("sure").close();
  return doing(async () => {
    const wish = byClass();
    const answer = await ask("api/decide-all", { ...wish, filter: Object.fromEntries(filterValues()) });
    progress(answer.progress);
    await restart();
    say(`${labels(answer.count)} decided.`);
  });
}

function focusCard(item) {
  if (!item) return;
  for (const other of $("cards").children) other.tabIndex = -1;
  item.tabIndex = 0;
  item.focus();
}

function focusedCard() {
  return document.activeElement && document.activeElement.closest("#cards > li");
}

// --- deciding

function current() {
  if (state.view === "one") return state.queue[state.at];
  const item = focusedCard();
  return item && state.page.find((row) => row.index === Number(item.dataset.index));
}

function wish(row, act, label) {
  const note = state.view === "one" && row === state.queue[state.at] ? $("note-text").value.trim() : "";
  if (act === "skip" || act === "remove") return { index: row.index, decision: act, note };
  const name = act === "keep" ? row.given : act === "accept" ? row.suggested : label;
  const kind = name === row.given ? "keep" : name === row.suggested ? "accept" : "change";
  return { index: row.index, decision: kind, label: name, note };
}

function take(answer) {
  const fresh = new Map(answer.rows.map((row) => [row.index, row]));
  const swap = (row) => fresh.get(row.index) || row;
  state.queue = state.queue.map(swap);
  state.page = state.page.map(swap);
  for (const item of [...$("cards").children]) {
    const row = fresh.get(Number(item.dataset.index));
    if (!row) continue;
    const focused = item.contains(document.activeElement);
    const made = card(state.run, row);
    made.tabIndex = item.tabIndex;
    item.replaceWith(made);
    if (focused) focusCard(made);
  }
  progress(answer.progress);
}

function progress(counts) {
  $("progress").max = Math.max(1, counts.suspects);
  $("progress").value = counts.decided;
  const skipped = counts.skipped ? `, ${counts.skipped.toLocaleString("en")} skipped` : "";
  $("count").textContent = `${counts.decided.toLocaleString("en")} of ${counts.suspects.toLocaleString("en")} decided${skipped}`;
}

function decide(act, label, index) {
  return doing(async () => {
    const row = index === undefined ? current() : [...state.queue, ...state.page].find((one) => one.index === index);
    if (!row || (act === "accept" && row.suggested === row.given)) return;
    const answer = await ask("api/decide", { decisions: [wish(row, act, label)] });
    take(answer);
    judgeSoon(1);
    say(`${row.id} ${standing(answer.rows[0])}.`);
    if (state.view === "one") {
      if (state.queue[state.at] && state.queue[state.at].index === row.index) await move(1);
      $("card").focus({ preventScroll: true });
    } else {
      const item = focusedCard();
      if (item) focusCard(item.nextElementSibling);
    }
  });
}

function decideAll(act) {
  return doing(async () => {
    const open = state.page.filter((row) => !row.decision && !(act === "accept" && (row.suggested === row.given || row.unclear)));
    if (!open.length) return;
    take(await ask("api/decide", { decisions: open.map((row) => wish(row, act)) }));
    say(`${labels(open.length)} ${act === "keep" ? "kept" : "changed as suggested"}.`);
  });
}

function undo() {
  return doing(async () => {
    const answer = await ask("api/undo", {});
    if (!answer.rows.length) { say("Nothing to undo."); return; }
    take(answer);
    const row = answer.rows[0];
    const at = state.queue.findIndex((one) => one.index === row.index);
    if (at >= 0) state.at = at;
    else state.queue.splice(state.at, 0, row);
    showOne();
    say(answer.count === 1 ? `Undone: ${row.id}.` : `Undone: ${answer.count} labels.`);
    if (answer.count > answer.rows.length) await restart();
  });
}

function choose(index) {
  const row = index === undefined ? current() : [...state.queue, ...state.page].find((one) => one.index === index);
  if (!row) return;
  state.target = row.index;
  $("find").value = "";
  listClasses("");
  $("choose").showModal();
  $("find").focus();
}

function listClasses(text) {
  const wanted = text.trim().toLowerCase();
  const names = state.run.classes.filter((name) => name.toLowerCase().includes(wanted));
  $("classes").replaceChildren(...names.slice(0, 200).map((name) => {
    const item = element("li");
    const button = element("button", "", name);
    button.type = "button";
    button.addEventListener("click", () => pick(name));
    item.append(button);
    return item;
  }));
}

function pick(name) {
  $("choose").close();
  decide("change", name, state.target);
}

// --- fitting again

async function showAgain() {
  const status = await ask("api/again");
  const texts = {
    idle: "",
    running: `Running: epoch ${status.epoch} of ${status.epochs ?? "?"}, into ${status.folder}`,
    done: `Done: ${status.folder}. To review its suspects: labelproof review ${status.folder}`,
    failed: "The fit failed:",
  };
  if (status.command) $("command").textContent = status.command;
  $("again-state").textContent = texts[status.state];
  $("again-said").textContent = status.said || "";
  $("again-said").hidden = !status.said;
  $("again-progress").hidden = status.state !== "running";
  $("again-progress").max = status.epochs || 1;
  $("again-progress").value = status.epoch || 0;
  $("start").disabled = status.state === "running";
  if (status.state === "running" && $("again").open) setTimeout(() => doing(showAgain), 1000);
}

// --- keys and buttons

function digitClass(key) {
  if (!/^[0-9]$/.test(key)) return undefined;
  const names = state.run.classes;
  if (names.every((name) => /^[0-9]$/.test(name))) return names.includes(key) ? key : undefined;
  return names.length <= 10 ? names[key === "0" ? 9 : Number(key) - 1] : undefined;
}

const KEYS = {
  k: () => decide("keep"), a: () => decide("accept"), c: () => choose(), s: () => decide("skip"),
  x: () => decide("remove"), n: () => { if (state.view === "one") $("note-text").focus(); },
  u: undo, g: () => setView(state.view === "one" ? "grid" : "one"), "?": () => $("keys").showModal(),
  ArrowRight: () => arrow(1), ArrowLeft: () => arrow(-1), ArrowDown: () => arrow(columns()), ArrowUp: () => arrow(-columns()),
};

function columns() {
  return getComputedStyle($("cards")).gridTemplateColumns.split(" ").length;
}

function arrow(by) {
  if (state.view === "one") { if (Math.abs(by) === 1) doing(() => move(by)); return; }
  const items = [...$("cards").children];
  const at = items.indexOf(focusedCard());
  focusCard(items[at < 0 ? 0 : Math.min(Math.max(at + by, 0), items.length - 1)]);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, select, textarea") || event.isComposing) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (state.view === "one" && (key === "ArrowUp" || key === "ArrowDown")) return;
  const name = digitClass(event.key);
  const action = KEYS[key] || (name !== undefined ? () => decide("change", name) : undefined);
  if (!action) return;
  event.preventDefault();
  action();
}

function setView(view) {
  state.view = view;
  $("view-one").setAttribute("aria-pressed", String(view === "one"));
  $("view-grid").setAttribute("aria-pressed", String(view === "grid"));
  $("grid").hidden = view !== "grid";
  showOne();
  if (view === "grid") {
    const row = state.queue[state.at];
    doing(() => showPage({ start: row ? at(row) : 0 })).then(() => focusCard($("cards").firstElementChild));
  }
}

function onAct(event) {
  const button = event.target.closest("[data-act]");
  if (!button) return;
  const item = button.closest("#cards > li");
  const index = item ? Number(item.dataset.index) : undefined;
  if (button.dataset.act === "choose") choose(index);
  else if (button.dataset.act === "class") decide("change", button.dataset.label);
  else decide(button.dataset.act, undefined, index);
}

function connect() {
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onAct);
  $("view-one").addEventListener("click", () => setView("one"));
  $("view-grid").addEventListener("click", () => setView("grid"));
  $("undo").addEventListener("click", undo);
  $("back").addEventListener("click", () => doing(() => move(-1)));
  $("forth").addEventListener("click", () => doing(() => move(1)));
  $("page-back").addEventListener("click", () => doing(() => showPage({ before: state.page.length ? at(state.page[0]) : 0 })));
  $("page-forth").addEventListener("click", () => doing(() => showPage({ start: state.page.length ? at(state.page.at(-1)) + 1 : 0 })));
  $("by-class").addEventListener("submit", askByClass);
  $("by-class-label").addEventListener("change", countByClass);
  $("sure-yes").addEventListener("click", decideByClass);
  $("all-accept").addEventListener("click", () => decideAll("accept"));
  $("all-keep").addEventListener("click", () => decideAll("keep"));
  $("filter").addEventListener("change", () => doing(restart));
  $("filter").elements.order.addEventListener("change", () => doing(restart)); // stands outside the form
  $("judge").addEventListener("click", () => doing(async () => { await ask("api/judge", {}); await restart(); }));
  $("filter").addEventListener("submit", (event) => event.preventDefault());
  $("note-text").addEventListener("keydown", (event) => {
    if (event.key === "Escape" || event.key === "Enter") { event.preventDefault(); $("card").focus({ preventScroll: true }); }
  });
  $("note-text").addEventListener("change", () => doing(async () => {
    const row = state.queue[state.at]; // a note on what is decided already is saved at once
    if (!row || !row.decision || row.decision.note === $("note-text").value.trim()) return;
    take(await ask("api/decide", { decisions: [{ index: row.index, decision: row.decision.kind, label: row.decision.label, note: $("note-text").value.trim() }] }));
    say("Note saved.");
  }));
  $("find").addEventListener("input", () => listClasses($("find").value));
  $("find").addEventListener("keydown", (event) => {
    const first = $("classes").querySelector("button");
    if (event.key === "Enter" && first) { event.preventDefault(); pick(first.textContent); }
  });
  $("again-open").addEventListener("click", () => { $("again").showModal(); doing(showAgain); });
  $("start").addEventListener("click", () => doing(async () => { await ask("api/again", {}); await showAgain(); }));
  $("copy").addEventListener("click", () => navigator.clipboard.writeText($("command").textContent));
  $("keys-open").addEventListener("click", () => $("keys").showModal());
  for (const button of document.querySelectorAll("dialog .close")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  for (const panel of document.querySelectorAll("details")) {
    document.addEventListener("click", (event) => { if (!panel.contains(event.target)) panel.open = false; });
    panel.addEventListener("keydown", (event) => { if (event.key === "Escape") { panel.open = false; panel.firstElementChild.focus(); } });
  }
}

async function begin() {
  state.run = await ask("api/run");
  $("run").textContent = state.run.folder;
  $("note").textContent = state.run.note || "";
  $("note").hidden = !state.run.note;
  $("command").textContent = state.run.command;
  $("export-own").href = `export/${state.run.export.slice(1)}`;
  $("key-digits").hidden = digitClass("1") === undefined;
  for (const name of ["given", "suggested"]) {
    for (const one of state.run.classes) $("filter").elements[name].append(new Option(one, one));
  }
  progress(state.run.progress);
  await restart();
}

connect();
doing(begin);

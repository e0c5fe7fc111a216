"use strict";
// How the review page draws a label: its picture or text, the verdict, a card of the grid.

const $ = (id) => document.getElementById(id);

function element(kind, style, text) {
  const made = document.createElement(kind);
  if (style) made.className = style;
  if (text !== undefined) made.textContent = text;
  return made;
}

const labels = (count) => `${count.toLocaleString("en")} ${count === 1 ? "label" : "labels"}`;

function called(row) {
  const made = element("p", "id", /^[0-9]+$/.test(row.id) ? `row ${row.id}` : "");
  if (!made.textContent) row.id.split(/(?<=\/)/).forEach((part) => made.append(part, element("wbr"))); // may break there
  return made;
}

const percent = (value) => value > 0.995 ? ">99%" : value < 0.005 ? "<1%" : `${Math.round(100 * value)}%`;

function picture(row, edge) {
  const image = element("img");
  image.alt = `${row.id}, labelled ${row.given}`;
  image.decoding = "async";
  image.addEventListener("load", () => {
    if (Math.max(image.naturalWidth, image.naturalHeight) <= 64) image.classList.add("coarse");
  });
  image.addEventListener("error", () => image.replaceWith(element("p", "missing quiet", "The picture cannot be shown.")));
  image.src = `picture/${row.index}/${edge}`;
  return image;
}

function content(run, row, edge) {
  const parts = [];
  if (run.kind === "images" && !run.note) parts.push(picture(row, edge));
  if (row.cells) parts.push(cells(edge > 160 ? row.cells : row.cells.slice(0, 6)));
  else if (row.text) parts.push(element("p", "words", row.text));
  if (row.votes) parts.push(element("p", "votes", (edge > 160 ? "Who said what, and how likely it is right: " : "") + said(row.votes, edge > 160 ? 8 : 3)));
  if (row.ask && edge > 160) parts.push(element("p", "votes", `If in doubt, ask ${row.ask.who}: ${row.ask.why}.`));
  return parts;
}

// "cat (96%): Ann, Ben; dog (3%): Cleo"; beyond so many people of one opinion, their number.
// A label without a probability was judged again since the run, and comes last.
function said(votes, most) {
  const opinions = new Map();
  for (const [who, label, right] of votes) {
    if (!opinions.has(label)) opinions.set(label, { right, people: [] });
    opinions.get(label).people.push(who);
  }
  const names = (people) => people.length > most ? `${people.length} people` : people.join(", ");
  const sorted = [...opinions].sort(([, a], [, b]) => (b.right ?? -1) - (a.right ?? -1));
  const named = ([label, { right }]) => right === null ? label : `${label} (${percent(right)})`;
  return sorted.map((opinion) => `${named(opinion)}: ${names(opinion[1].people)}`).join("; ");
}

function cells(pairs) {
  const table = element("table", "cells");
  const body = element("tbody");
  for (const [name, value] of pairs) {
    const line = element("tr");
    const head = element("th", "", name);
    head.scope = "row";
    line.append(head, element("td", value ? "" : "quiet", value || "missing"));
    body.append(line);
  }
  table.append(body);
  return table;
}

// What a careful person would most likely do: the button for it stands out, if any does.
function likely(row) {
  if (row.unclear && row.p_clean < 0.5) return "";
  if (row.suggested !== row.given && row.p_suggested >= 0.5) return "accept";
  return row.p_clean >= 0.5 ? "keep" : "";
}

function bars(row) {
  return row.likeliest.map(([name, sure]) => {
    const button = element("button", "bar-choice");
    button.type = "button";
    button.dataset.act = "class";
    button.dataset.label = name;
    const given = name === row.given ? " (given)" : "";
    button.append(element("span", "name", name + given), element("span", "number", percent(sure)));
    const meter = element("meter");
    meter.min = 0; meter.max = 1; meter.value = sure;
    meter.setAttribute("aria-hidden", "true");
    button.append(meter);
    button.setAttribute("aria-label", `${name}, ${percent(sure)}: choose this class`);
    return button;
  });
}

function neighbour(run, row) {
  const item = element("li");
  item.append(...content(run, row, 160), element("p", "change", row.given), called(row));
  return item;
}

function verdict(row) {
  const line = element("p", "change");
  line.append(element("span", "hidden-text", "given "), element("span", "given", row.given));
  if (row.unclear) {
    const open = element("span", "", " → ?");
    open.setAttribute("aria-hidden", "true");
    line.append(open);
  } else if (row.suggested !== row.given) {
    const arrow = element("span", "", " → ");
    arrow.setAttribute("aria-hidden", "true");
    line.append(arrow, element("span", "hidden-text", ", suggested "), element("span", "suggested", row.suggested));
  }
  return line;
}

function standing(row) {
  if (!row.decision) return "";
  if (row.decision.kind === "skip") return "skipped";
  if (row.decision.kind === "remove") return "removed";
  return row.decision.kind === "keep" ? `kept ${row.decision.label}` : `changed to ${row.decision.label}`;
}

function details(row) {
  const unclear = row.unclear ? ` (${row.unclear})` : "";
  return element("p", "sure", `Chance that the given label is right: ${percent(row.p_clean)}${unclear}`);
}

function card(run, row) {
  const item = element("li");
  item.tabIndex = -1;
  item.dataset.index = row.index;
  if (row.decision) item.dataset.state = row.decision.kind;
  const buttons = element("div", "row");
  for (const [act, sign, name] of [["keep", "Keep", "Keep"], ["accept", "Accept", "Accept"], ["choose", "Other…", "Choose another class"], ["skip", "Skip", "Skip"]]) {
    const button = element("button", act === likely(row) ? "main" : "", sign);
    button.type = "button";
    button.dataset.act = act;
    button.disabled = act === "accept" && (row.suggested === row.given || Boolean(row.unclear));
    button.title = name;
    button.setAttribute("aria-label", `${name}: ${row.id}`);
    buttons.append(button);
  }
  item.append(...content(run, row, 160), verdict(row), element("p", "sure", row.unclear ? row.unclear : row.suggested === row.given ? `right: ${percent(row.p_clean)}` : `${percent(row.p_suggested)} sure`),
    called(row), element("p", "state", standing(row)), buttons);
  return item;
}

"use strict";
// The list of nodes (filter, order, keys), the panel of a node, and the window of the timeline.
// Texts of the model reach the page as text nodes only.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const format = Charts.number;

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// The list of nodes ------------------------------------------------------------------------------

const table = byId("nodes");
const rows = [...table.tBodies[0].rows];
const buttonOf = (row) => row.querySelector(".node");
const numberOf = (row) => Number(row.id.slice(1));
const shownRows = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
let current = rows[0];

function settle(row) {
  if (current) buttonOf(current).tabIndex = -1;
  current = row;
  if (row) buttonOf(row).tabIndex = 0;
}

function applyFilter() {
  const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const place = document.querySelector("input[name=place]:checked").value;
  const parts = byId("parts").checked;
  let count = 0;
  for (const row of rows) {
    const node = data.nodes[numberOf(row)];
    const text = `${node.name} ${node.op} ${node.where}`.toLowerCase();
    const isThere = place === "all" || (node.where === "host") === (place === "host");
    row.hidden = !(isThere && (parts || node.partOf < 0) && words.every((word) => text.includes(word)));
    if (!row.hidden) count++;
  }
  byId("shown").textContent = `${format.format(count)} of ${format.format(rows.length)} nodes`;
  byId("nothing").hidden = count > 0;
  lanesFollow();
  if (!current || current.hidden) settle(shownRows()[0]);
}

const KEYS = {
  order: (row) => numberOf(row),
  name: (row) => data.nodes[numberOf(row)].name,
  macs: (row) => data.nodes[numberOf(row)].macsNumber,
  cycles: (row) => (data.nodes[numberOf(row)].cost || { cycles: -1 }).cycles,
  waits: (row) => (data.nodes[numberOf(row)].cost || { waits: -1 }).waits,
};
let order = { key: "order", down: false };

function sortBy(key) {
  const down = key === order.key ? !order.down : key !== "order" && key !== "name";
  order = { key, down };
  const sign = down ? -1 : 1, value = KEYS[key];
  const sorted = [...rows].sort((a, b) => {
    const left = value(a), right = value(b);
    return sign * (left < right ? -1 : left > right ? 1 : 0) || numberOf(a) - numberOf(b);
  });
  table.tBodies[0].append(...sorted);
  for (const button of table.tHead.querySelectorAll("button")) {
    const header = button.closest("th");
    if (button.dataset.sort === key) header.setAttribute("aria-sort", down ? "descending" : "ascending");
    else header.removeAttribute("aria-sort");
  }
  lanesFollow();
}

// Lanes lead from row to row, so they are shown only where every row is in its place.
function lanesFollow() {
  const whole = order.key === "order" && !order.down && rows.every((row) => !row.hidden);
  table.classList.toggle("sorted", !whole);
}

table.tHead.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) sortBy(button.dataset.sort);
});
table.tBodies[0].addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row) { settle(row); buttonOf(row).focus({ preventScroll: true }); openPanel(numberOf(row)); }
});
table.tBodies[0].addEventListener("focusin", (event) => settle(event.target.closest("tr")));
table.tBodies[0].addEventListener("keydown", (event) => {
  const shown = shownRows(), at = shown.indexOf(event.target.closest("tr"));
  const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1, PageDown: at + 12, PageUp: at - 12 };
  if (!(event.key in steps)) return;
  event.preventDefault();
  const row = shown[Math.max(0, Math.min(shown.length - 1, steps[event.key]))];
  settle(row);
  buttonOf(row).focus();
});
document.querySelector("form.tools").addEventListener("submit", (event) => {
  event.preventDefault();
  const first = shownRows()[0];
  if (first) buttonOf(first).focus();
});
document.querySelector("form.tools").addEventListener("input", applyFilter);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    byId("find").focus();
  } else if (event.key === "Escape" && !byId("panel").hidden) {
    closePanel();
  }
});

// The panel --------------------------------------------------------------------------------------

let opened = null, openedFrom = null;

function openPanel(number) {
  if (byId("panel").hidden) openedFrom = document.activeElement;
  if (opened !== null) byId(`n${opened}`).classList.remove("open");
  opened = number;
  byId(`n${number}`).classList.add("open");
  byId("panel-title").textContent = data.nodes[number].name;
  byId("panel-body").replaceChildren(...panelParts(data.nodes[number]));
  byId("panel").hidden = false;
  byId("panel").scrollTop = 0;
  byId("panel").focus();
}

function closePanel() {
  byId("panel").hidden = true;
  byId(`n${opened}`).classList.remove("open");
  opened = null;
  if (openedFrom && openedFrom.isConnected) openedFrom.focus();
}

function nodeLink(number) {
  const link = element("button", { type: "button", className: "link", textContent: data.nodes[number].name });
  link.addEventListener("click", () => openPanel(number));
  return link;
}

function facts(pairs) {
  const list = element("dl");
  for (const [name, ...what] of pairs) list.append(element("dt", { textContent: name }), element("dd", {}, ...what));
  return list;
}

function joined(numbers) {
  return numbers.flatMap((number, i) => (i ? [", ", nodeLink(number)] : [nodeLink(number)]));
}

function panelParts(node) {
  const number = data.nodes.indexOf(node);
  const readers = data.nodes.flatMap((other, i) => (other.reads.includes(number) ? [i] : []));
  const pairs = [["operator", node.op], ["runs on", node.where === "host" ? "the host" : node.where]];
  if (node.partOf >= 0) pairs.push(["part of", nodeLink(node.partOf)]);
  if (node.result) pairs.push(["result", node.result]);
  if (node.reads.length) pairs.push(["reads", ...joined(node.reads)]);
  if (readers.length) pairs.push(["read by", ...joined(readers)]);
  if (node.macs) pairs.push(["products", `${node.macs} multiply-accumulates`]);
  for (const line of node.quantisation) pairs.push(["numbers", line]);
  const parts = [facts(pairs)];
  if (node.where === "host") parts.push(whyOnHost(node));
  else if (node.reason && node.partOf < 0) parts.push(element("p", { textContent: node.reason }));
  parts.push(...costParts(node), ...errorParts(node), ...scheduleParts(node), ...irParts(node));
  return parts;
}

function whyOnHost(node) {
  const box = element("div", { className: "why" }, element("strong", { textContent: "Why on the host: " }), node.reason || "no reason was recorded", ".");
  if (node.wayOut) box.append(element("br"), element("strong", { textContent: "Way out: " }), node.wayOut);
  return box;
}

function costParts(node) {
  if (!node.cost) {
    if (node.where === "host" || node.partOf >= 0) return [];
    return [element("p", { className: "hint", textContent: "It has no instructions of its own: a kernel that it shares with a neighbour computes it, and the cycles are counted there." })];
  }
  const cost = node.cost, ratio = cost.bound ? ` (${(cost.cycles / cost.bound).toFixed(2)} times that)` : "";
  const bytes = Object.entries(cost.bytes).map(([name, amount]) => `${name} ${format.format(amount)}`).join(", ");
  const parts = [element("h3", { textContent: "Cycles" }), facts([
    ["cycles", `${format.format(cost.cycles)}, ${(100 * cost.cycles / data.cycles).toFixed(1)} % of all`],
    ["waiting", `${format.format(cost.waits)} of them`],
    ["lower bound", cost.bound ? `${format.format(cost.bound)}, by ${cost.boundBy}${ratio}` : "none"],
    ["instructions", format.format(cost.instructions)],
    ["DRAM bytes", bytes || "none"],
  ]), moduleTable(cost)];
  const show = element("button", { type: "button", className: "link", textContent: "Show it in the timeline" });
  show.addEventListener("click", () => { closePanel(); Timeline.showNode(data.nodes.indexOf(node)); });
  parts.push(show);
  return parts;
}

function moduleTable(cost) {
  const causes = data.causes.filter((cause) => data.modules.some((module) => (cost.modules[module] || {})[cause]));
  const made = element("table", { className: "plain" });
  const head = element("tr", {}, element("th", { scope: "col", textContent: "cycles by cause" }));
  for (const module of data.modules) head.append(element("th", { scope: "col", className: "number", textContent: module }));
  made.append(element("thead", {}, head));
  const body = element("tbody");
  for (const cause of causes) {
    const line = element("tr", {}, element("th", { scope: "row", textContent: cause }));
    for (const module of data.modules) {
      const cycles = (cost.modules[module] || {})[cause];
      line.append(element("td", { className: "number", textContent: cycles ? format.format(cycles) : "" }));
    }
    body.append(line);
  }
  made.append(body);
  return made;
}

function errorParts(node) {
  if (!node.error) return [];
  const text = (value) => (value === null ? "exact" : `${value.toFixed(1)} dB`);
  return [element("h3", { textContent: "Accuracy" }), facts([
    ["in the network", `${text(node.error.total)} signal to quantisation noise`],
    ["the layer alone", text(node.error.own)],
  ])];
}

function scheduleParts(node) {
  if (!node.choices.length) return [];
  const parts = [element("h3", { textContent: "Schedule" })];
  if (node.estimate !== null) parts.push(element("p", { textContent: `${format.format(node.estimate)} cycles were expected.` }));
  parts.push(element("ul", {}, ...node.choices.map((line) => element("li", { textContent: line }))));
  return parts;
}

function irParts(node) {
  const title = element("h3", { textContent: "IR" });
  if (!data.hasIr) {
    return [title, element("p", { className: "hint" }, "The package keeps none: compile with ", element("code", { textContent: "vta-compile --keep-ir" }), ".")];
  }
  if (!node.levels.length) return [title, element("p", { className: "hint", textContent: "No level names this node." })];
  return [title, ...node.levels.map(([level, text, shown, total]) => {
    const more = total > shown ? `, ${format.format(shown)} of them here` : "";
    const lines = total === 1 ? "1 line" : `${format.format(total)} lines`;
    const made = element("details", {}, element("summary", {}, level, element("span", { className: "quiet", textContent: ` – ${lines}${more}` })));
    made.append(element("pre", { tabIndex: 0, textContent: data.texts[text] + (total > shown ? "\n…" : "") }));
    return made;
  })];
}

byId("close").addEventListener("click", closePanel);
for (const link of document.querySelectorAll("[data-node]")) {
  link.addEventListener("click", () => openPanel(Number(link.dataset.node)));
}

// The timeline -----------------------------------------------------------------------------------

const Timeline = (() => {
  const spans = { ...data.spans };
  let sum = 0;
  spans.start = data.spans.start.map((difference) => (sum += difference));
  spans.end = spans.start.map((start, i) => start + spans.length[i]);
  let window = [0, data.cycles];

  function show(from, to) {
    const least = Math.min(200, data.cycles), length = Math.max(least, Math.min(to - from, data.cycles));
    const start = Math.max(0, Math.min(from, data.cycles - length));
    window = [start, start + length];
    byId("window-text").textContent = `cycles ${format.format(Math.round(window[0]))} to ${format.format(Math.round(window[1]))}`
      + (spans.least ? `; what is shorter than ${format.format(spans.least)} cycles is left out` : "");
    Charts.draw("timeline", Charts.timelineSpec(data, spans, window), openPanel);
  }

  function showNode(number) {
    let from = Infinity, to = 0;
    for (let i = 0; i < spans.start.length; i++) {
      if (spans.node[i] !== number || !data.tracks[spans.module[i]].computes) continue;
      from = Math.min(from, spans.start[i]);
      to = Math.max(to, spans.end[i]);
    }
    if (from > to) return;
    const margin = 0.04 * (to - from);
    show(from - margin, to + margin);
    byId("window").value = `node ${number}`;
    byId("time").scrollIntoView();
    byId("timeline").focus({ preventScroll: true });
  }

  const move = (share) => { const by = share * (window[1] - window[0]); show(window[0] + by, window[1] + by); };
  const scale = (factor) => {
    const middle = (window[0] + window[1]) / 2, half = (factor * (window[1] - window[0])) / 2;
    show(middle - half, middle + half);
  };

  function begin() {
    const choice = byId("window");
    choice.append(element("option", { value: "all", textContent: "the whole run" }));
    if (data.launches.length > 1) {
      choice.append(element("optgroup", { label: "launches" }, ...data.launches.map((launch, i) =>
        element("option", { value: `launch ${i}`, textContent: `launch ${i}: ${launch.function}` }))));
    }
    const timed = data.nodes.flatMap((node, i) => (node.cost && node.cost.cycles ? [i] : []));
    choice.append(element("optgroup", { label: "layers" }, ...timed.map((i) =>
      element("option", { value: `node ${i}`, textContent: data.nodes[i].name }))));
    choice.addEventListener("change", () => {
      const [what, number] = choice.value.split(" ");
      if (what === "all") show(0, data.cycles);
      else if (what === "launch") { const { start, cycles } = data.launches[number]; show(start, start + cycles); }
      else showNode(Number(number));
      choice.focus({ preventScroll: true });
    });
    byId("earlier").addEventListener("click", () => move(-0.5));
    byId("later").addEventListener("click", () => move(0.5));
    byId("closer").addEventListener("click", () => scale(0.5));
    byId("wider").addEventListener("click", () => scale(2));
    const keys = { ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25), "+": () => scale(0.5), "=": () => scale(0.5), "-": () => scale(2), Home: () => show(0, data.cycles) };
    byId("timeline").addEventListener("keydown", (event) => {
      if (event.key in keys && !event.ctrlKey && !event.metaKey) { event.preventDefault(); keys[event.key](); }
    });
    show(0, data.cycles);
  }

  return { begin, showNode };
})();

function drawPlots() {
  if (data.launches.length) {
    Timeline.begin();
    Charts.draw("scratchpads", Charts.memorySpec(data, "scratchpads", "occupied, %", { inp: "activations", wgt: "weights", acc: "accumulators", gb: "global buffer" }, { type: "line", strokeWidth: 1.5 }, "d"));
    Charts.draw("dram", Charts.memorySpec(data, "dram", "bytes in DRAM", { input: "inputs", scratch: "between layers", output: "outputs" }, { type: "area", opacity: 0.7 }, "~s"));
    if (data.roofline) Charts.draw("roofs", Charts.rooflineSpec(data), openPanel);
  }
  Charts.draw("errors", Charts.accuracySpec(data), openPanel);
}

applyFilter();
settle(rows[0]);
drawPlots();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPlots);

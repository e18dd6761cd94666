"use strict";
// The plots, each a Vega-Lite specification of the page's data. They are drawn again when the
// colours of the page change.

const Charts = (() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = new Intl.NumberFormat("en");
  const drawn = new Map();

  function config() {
    const text = colour("--text"), quiet = colour("--quiet"), line = colour("--line");
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: "transparent", font, view: { stroke: null },
      axis: { labelColor: quiet, titleColor: quiet, gridColor: line, domainColor: quiet,
        tickColor: quiet, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" },
      legend: { labelColor: text, titleColor: quiet, labelFontSize: 12, orient: "top", title: null },
      text: { color: text },
    };
  }

  async function draw(id, spec, onNode) {
    const place = document.getElementById(id);
    if (!place || !spec) return;
    drawn.set(id, () => draw(id, spec, onNode));
    const whole = { $schema: "", width: "container", autosize: { type: "fit-x", contains: "padding" }, ...spec, config: config() };
    const { view } = await vegaEmbed(place, whole, { mode: "vega-lite", actions: false, renderer: "svg" });
    if (onNode) {
      view.addEventListener("click", (event, item) => {
        const datum = item && item.datum && (item.datum.datum || item.datum);
        if (datum && datum.node >= 0) onNode(datum.node);
      });
    }
  }

  const redraw = () => { for (const again of drawn.values()) again(); };
  const cycleAxis = (window) => ({ field: "x", type: "quantitative", title: "cycle",
    scale: { domain: window, nice: false }, axis: { format: ",d", tickCount: 8, grid: false, labelOverlap: true } });

  // Timeline ------------------------------------------------------------------------------------

  const BUCKETS = 480, EXACT = 1500, BAND = 0.86;

  function exactRows(spans, picked) {
    return picked.map((i) => ({ module: spans.module[i], x: spans.start[i], x2: spans.end[i],
      kind: spans.kind[i], node: spans.node[i], low: 0, high: 1 }));
  }

  // Where there are more spans than pixels: the share of each kind in equal parts of the window.
  function sharedRows(spans, picked, [from, to]) {
    const step = (to - from) / BUCKETS, shares = new Map();
    for (const i of picked) {
      const first = Math.max(0, Math.floor((spans.start[i] - from) / step));
      const last = Math.min(BUCKETS - 1, Math.floor((spans.end[i] - 1e-9 - from) / step));
      for (let b = first; b <= last; b++) {
        const low = from + b * step;
        const covered = Math.min(spans.end[i], low + step) - Math.max(spans.start[i], low);
        const key = spans.module[i] * BUCKETS + b;
        if (!shares.has(key)) shares.set(key, new Map());
        const kinds = shares.get(key);
        kinds.set(spans.kind[i], (kinds.get(spans.kind[i]) || 0) + covered);
      }
    }
    const rows = [];
    for (const [key, kinds] of [...shares].sort((a, b) => a[0] - b[0])) {
      const module = Math.floor(key / BUCKETS), low = from + (key % BUCKETS) * step;
      let height = 0;
      for (const [kind, covered] of [...kinds].sort((a, b) => a[0] - b[0])) {
        const share = covered / step, last = rows[rows.length - 1];
        if (share > 0.999 && last && last.module === module && last.kind === kind && last.high > 0.999 && Math.abs(last.x2 - low) < step / 2) {
          last.x2 = low + step;
        } else {
          rows.push({ module, x: low, x2: low + step, kind, node: -1, low: height, high: height + share });
        }
        height += share;
      }
    }
    return rows;
  }

  // The nodes at which the compute module of each core works, one after the other.
  function layerRows(spans, picked, data, [from, to]) {
    const rows = [];
    for (const i of picked) {
      const { computes, core } = data.tracks[spans.module[i]];
      if (!computes || spans.node[i] < 0) continue;
      const last = rows[rows.length - 1];
      if (last && last.node === spans.node[i] && last.core === core) last.x2 = spans.end[i];
      else rows.push({ x: spans.start[i], x2: spans.end[i], node: spans.node[i], core });
    }
    const least = (to - from) / 1000;
    return rows.filter((row) => row.x2 - row.x > least).map((row, place) => ({ ...row, shade: place % 2 ? 0.16 : 0.34,
      layer: data.nodes[row.node].name, cycles: number.format(row.x2 - row.x),
      middle: (Math.max(row.x, from) + Math.min(row.x2, to)) / 2,
      label: shortened(data.nodes[row.node].name, (row.x2 - row.x) / (to - from)) }));
  }

  // A name in the part of the width of the plot that it has; its end says most.
  function shortened(name, share) {
    const room = Math.floor((share * document.getElementById("timeline").clientWidth - 8) / 6.4);
    return name.length <= room ? name : room < 9 ? "" : "…" + name.slice(1 - room);
  }

  function timelineSpec(data, spans, window) {
    const [from, to] = window;
    const picked = [];
    for (let i = 0; i < spans.start.length; i++) if (spans.end[i] > from && spans.start[i] < to) picked.push(i);
    const exact = picked.length <= EXACT;
    const rows = exact ? exactRows(spans, picked) : sharedRows(spans, picked, window);
    const top = data.tracks.length, cores = 1 + Math.max(...data.tracks.map((track) => track.core));
    for (const row of rows) {
      const base = top - 1 - row.module;
      row.y = base + BAND * row.low; row.y2 = base + BAND * row.high;
      row.x = Math.max(row.x, from); row.x2 = Math.min(row.x2, to);
      row.name = data.kinds[row.kind][1];
      row.layer = row.node < 0 ? "" : data.nodes[row.node].name;
      row.cycles = number.format(Math.round(row.x2 - row.x));
      row.share = Math.round(100 * (row.high - row.low)) + " %";
    }
    const used = [...new Set(rows.map((row) => row.kind))].sort((a, b) => a - b);
    const layers = layerRows(spans, picked, data, window);
    for (const row of layers) {
      row.x = Math.max(row.x, from); row.x2 = Math.min(row.x2, to);
      row.y = top + cores - 1 - row.core; row.y2 = row.y + 0.8; row.yMiddle = row.y + 0.4;
    }
    const names = data.tracks.map((track) => track.name).reverse();
    for (let core = cores - 1; core >= 0; core--) names.push(cores > 1 ? `${core} layer` : "layer");
    const scale = { domain: [0, top + cores], nice: false };
    const y = () => ({ field: "y", type: "quantitative", title: null, scale,
      axis: { values: names.map((_, i) => i + BAND / 2), grid: false, ticks: false, domain: false, labelOverlap: false,
        labelExpr: `[${names.map((name) => `'${name}'`).join()}][floor(datum.value)]` } });
    const tips = exact
      ? [["name", "does"], ["layer", "layer"], ["cycles", "cycles"]]
      : [["name", "does"], ["share", "of the time"]];
    return {
      height: Math.max(190, 17 * names.length),
      description: `What load, compute and store do from cycle ${number.format(Math.round(from))} to ${number.format(Math.round(to))}.`,
      layer: [
        { data: { values: rows }, mark: { type: "rect", aria: false, clip: true },
          encoding: { x: cycleAxis(window), x2: { field: "x2" }, y: y(), y2: { field: "y2" },
            color: { field: "name", type: "nominal", scale: { domain: used.map((k) => data.kinds[k][1]), range: used.map((k) => data.kinds[k][0]) } },
            tooltip: tips.map(([field, title]) => ({ field, title })) } },
        { data: { values: layers }, mark: { type: "rect", aria: false, clip: true, cursor: "pointer" },
          encoding: { x: cycleAxis(window), x2: { field: "x2" }, y: y(), y2: { field: "y2" },
            opacity: { field: "shade", type: "quantitative", scale: null },
            fill: { value: colour("--accelerator") },
            tooltip: [{ field: "layer" }, { field: "cycles" }] } },
        { data: { values: layers }, mark: { type: "text", aria: false, clip: true, fontSize: 10.5, baseline: "middle" },
          encoding: { x: { ...cycleAxis(window), field: "middle" }, y: { ...y(), field: "yMiddle" }, text: { field: "label" } } },
        ...launchRules(data, window),
      ],
    };
  }

  function launchRules(data, [from, to]) {
    const starts = data.launches.map((launch) => launch.start).filter((x) => x > from && x < to);
    if (!starts.length) return [];
    return [{ data: { values: starts.map((x) => ({ x })) },
      mark: { type: "rule", strokeDash: [4, 3], color: colour("--quiet"), aria: false },
      encoding: { x: { field: "x", type: "quantitative" } } }];
  }

  // Memory --------------------------------------------------------------------------------------

  const MEMORIES = ["#4c8fd6", "#4aa564", "#e58a2b", "#8e6bbf"];

  function memoryRows(data, group) {
    const rows = [];
    for (const launch of data.memory) {
      for (const [memory, amounts] of Object.entries(launch[group])) {
        const step = launch.cycles / amounts.length;
        amounts.forEach((amount, i) => rows.push({ x: launch.start + i * step, amount, memory }));
        rows.push({ x: launch.start + launch.cycles, amount: amounts[amounts.length - 1], memory });
      }
    }
    return rows;
  }

  function memorySpec(data, group, title, names, mark, format) {
    const values = memoryRows(data, group);
    if (!values.length) return null;
    const used = Object.keys(names).filter((name) => values.some((row) => row.memory === name));
    const colours = Object.fromEntries(Object.keys(names).map((name, i) => [name, MEMORIES[i]]));
    for (const row of values) row.memory = names[row.memory];
    const window = [0, data.cycles];
    return {
      height: 170, description: `${title} over the cycles of the run.`,
      layer: [{
        data: { values }, mark: { ...mark, interpolate: "step-after", aria: false },
        encoding: { x: cycleAxis(window),
          y: { field: "amount", type: "quantitative", title, stack: mark.type === "area" ? "zero" : null, scale: format === "d" ? { domain: [0, 100] } : {}, axis: { format, tickCount: 5 } },
          color: { field: "memory", type: "nominal", sort: used.map((name) => names[name]), scale: { domain: used.map((name) => names[name]), range: used.map((name) => colours[name]) } },
          order: { field: "memory" } },
      }, ...launchRules(data, window)],
    };
  }

  // Roofline and accuracy -----------------------------------------------------------------------

  function rooflineSpec(data) {
    const { peak, bandwidth, dots } = data.roofline;
    const values = dots.map((dot) => ({ ...dot, name: data.nodes[dot.node].name, text: number.format(dot.cycles) }));
    const named = [];
    for (const dot of [...values].sort((a, b) => b.cycles - a.cycles)) {
      const apart = (a, b) => Math.abs(Math.log2(a.rate / b.rate)) > 0.35 || Math.abs(Math.log2(a.intensity / b.intensity)) > 2.2;
      if (named.length < 8 && named.every((other) => apart(dot, other))) named.push(dot);
    }
    const knee = bandwidth ? peak / bandwidth : 1;
    const low = Math.min(knee, ...values.map((dot) => dot.intensity)) / 2;
    const high = Math.max(knee, ...values.map((dot) => dot.intensity)) * 3;
    const roof = [low, knee, high].map((x) => ({ x, y: bandwidth ? Math.min(peak, x * bandwidth) : peak }));
    const log = (field, title, domain) => ({ field, type: "quantitative", title, scale: { type: "log", base: 2, domain, nice: false }, axis: { format: "~g", tickCount: 8 } });
    const x = (field) => log(field, "products per byte read", [low, high]);
    const bottom = Math.min(...values.map((dot) => dot.rate), roof[0].y) / 1.5;
    const y = (field) => log(field, "products per cycle", [bottom, peak * 1.8]);
    return {
      height: 340, description: `Roofline: ${values.length} nodes below ${peak} products per cycle${bandwidth ? ` and ${bandwidth} bytes per cycle` : ""}.`,
      layer: [
        { data: { values: roof }, mark: { type: "line", color: colour("--quiet"), strokeWidth: 2, aria: false }, encoding: { x: x("x"), y: y("y") } },
        { data: { values: [{ x: high, y: peak }] }, mark: { type: "text", align: "right", dy: -8, aria: false, text: `${peak} products per cycle` }, encoding: { x: x("x"), y: y("y") } },
        { data: { values }, mark: { type: "circle", opacity: 0.75, color: colour("--accelerator"), stroke: colour("--card"), cursor: "pointer" },
          encoding: { x: x("intensity"), y: y("rate"), size: { field: "cycles", type: "quantitative", scale: { range: [40, 500], zero: true }, legend: null },
            description: { field: "name" },
            tooltip: [{ field: "name", title: "node" }, { field: "rate", title: "products per cycle", format: ".1f" }, { field: "intensity", title: "products per byte", format: ".1f" }, { field: "text", title: "cycles" }] } },
        { data: { values: named }, mark: { type: "text", dx: 12, align: "left", fontSize: 11, aria: false }, encoding: { x: x("intensity"), y: y("rate"), text: { field: "name" } } },
      ],
    };
  }

  function accuracySpec(data) {
    const values = [];
    data.nodes.forEach((node, index) => {
      if (!node.error) return;
      for (const [kind, title] of [["total", "in the network"], ["own", "the layer alone"]]) {
        if (node.error[kind] !== null) values.push({ node: index, name: node.name, x: index, snr: node.error[kind], kind: title });
      }
    });
    if (!values.length) return null;
    return {
      height: 260, description: "Signal to quantisation noise of each layer in dB, in the order of the network. More is better.",
      data: { values },
      layer: [
        { mark: { type: "line", opacity: 0.35, aria: false } },
        { mark: { type: "circle", size: 60, opacity: 0.9, cursor: "pointer" }, encoding: {
          description: { field: "name" },
          tooltip: [{ field: "name", title: "layer" }, { field: "kind", title: "measured" }, { field: "snr", title: "dB", format: ".1f" }] } },
      ],
      encoding: {
        x: { field: "x", type: "quantitative", title: "layer, in the order of the network", scale: { nice: false, padding: 12 }, axis: { tickMinStep: 1, format: "d", grid: false } },
        y: { field: "snr", type: "quantitative", title: "signal to noise, dB", scale: { zero: true } },
        color: { field: "kind", type: "nominal", scale: { range: [colour("--accelerator"), colour("--wait")] } },
      },
    };
  }

  return { draw, redraw, timelineSpec, memorySpec, rooflineSpec, accuracySpec, number };
})();

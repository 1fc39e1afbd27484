// The report's charts, legend and sortable tables. Text from runs only ever becomes textContent: it is never parsed.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MARGIN = { left: 58, right: 14, top: 8, bottom: 34 };
  const HEIGHT = 250;
  const data = JSON.parse(document.getElementById("data").textContent);
  const state = { hidden: new Set(), single: false };
  const charts = [];

  function node(name, attributes, parent, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  function element(name, parent, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    if (parent) parent.append(made);
    return made;
  }

  const trim = (text) => (text.includes(".") ? text.replace(/\.?0+(e|$)/, "$1") : text);
  function number(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return trim(value.toExponential(3)).replace("e+", "e");
    return trim(value.toPrecision(4)).replace(/e\+?(-?\d+)$/, "e$1");
  }
  const steps = (value) => Math.round(value).toLocaleString("en");
  function short(value) {
    if (Math.abs(value) >= 1e6) return trim((value / 1e6).toFixed(2)) + "M";
    return Math.abs(value) >= 1e3 ? trim((value / 1e3).toFixed(1)) + "k" : number(value);
  }

  function ticks(low, high, wanted) {
    const rough = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) found.push(k * step);
    return found;
  }

  // A path with gaps where a value is null; returning backwards along `low` makes it an area.
  function line(xs, ys, x, y) {
    let path = "";
    let pen = "M";
    xs.forEach((step, i) => {
      if (ys[i] === null) { pen = "M"; return; }
      path += `${pen}${x(step).toFixed(1)},${y(ys[i]).toFixed(1)}`;
      pen = "L";
    });
    return path;
  }
  function area(xs, low, high, x, y) {
    let path = "";
    let start = 0;
    for (let i = 0; i <= xs.length; i++) {
      if (i < xs.length && low[i] !== null) continue;
      if (i > start) {
        const part = xs.slice(start, i);
        const back = part.map((step, k) => `${x(step).toFixed(1)},${y(low[start + k]).toFixed(1)}`).reverse();
        path += line(part, high.slice(start, i), x, y) + "L" + back.join("L") + "Z";
      }
      start = i + 1;
    }
    return path;
  }

  class Chart {
    constructor(host, panel, metric, label, zoom) {
      Object.assign(this, { panel, metric, label, zoom, cursor: null });
      this.figure = element("figure", host, undefined, "chart");
      element("figcaption", this.figure, label);
      this.svg = node("svg", { height: HEIGHT, role: "img", tabindex: 0 }, this.figure);
      this.svg.setAttribute("aria-label", `${label} over environment steps, ${panel.title}. Arrow keys read the values.`);
      this.tip = element("div", this.figure, undefined, "tip");
      this.tip.setAttribute("role", "status");
      this.tip.hidden = true;
      this.svg.addEventListener("pointermove", (event) => this.moved(event));
      this.svg.addEventListener("pointerleave", () => this.point(null));
      this.svg.addEventListener("pointerdown", (event) => this.pressed(event));
      this.svg.addEventListener("pointerup", (event) => this.released(event));
      this.svg.addEventListener("dblclick", () => this.zoom.set(null));
      this.svg.addEventListener("keydown", (event) => this.key(event));
      this.svg.addEventListener("blur", () => this.point(null));
    }

    visible() {
      return this.panel.curves.filter((c) => !state.hidden.has(c.group) && c.metrics[this.metric]);
    }

    range() {
      const every = this.panel.curves.flatMap((c) => [c.steps[0], c.steps[c.steps.length - 1]]);
      const [low, high] = this.zoom.range || [Math.min(0, ...every), Math.max(...every)];
      return [low, high > low ? high : low + 1];
    }

    heights(from, to) {
      let low = Infinity;
      let high = -Infinity;
      const take = (value) => { if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); } };
      for (const curve of this.visible()) {
        const m = curve.metrics[this.metric];
        curve.steps.forEach((step, i) => {
          if (step < from || step > to) return;
          take(m.centre[i]);
          if (m.low) { take(m.low[i]); take(m.high[i]); }
        });
      }
      if (this.metric === "cost_mean") this.panel.limits.forEach(take);
      if (low > high) return [0, 1];
      const room = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
      return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
    }

    draw() {
      const width = Math.max(260, this.figure.clientWidth);
      const [from, to] = this.range();
      const [low, high] = this.heights(from, to);
      const inner = { w: width - MARGIN.left - MARGIN.right, h: HEIGHT - MARGIN.top - MARGIN.bottom };
      this.x = (step) => MARGIN.left + ((step - from) / (to - from)) * inner.w;
      this.y = (value) => MARGIN.top + (1 - (value - low) / (high - low)) * inner.h;
      this.back = (px) => from + ((px - MARGIN.left) / inner.w) * (to - from);
      this.width = width;
      this.svg.replaceChildren();
      this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      this.axes(from, to, low, high, width);
      const id = `clip${charts.indexOf(this)}`;
      const clip = node("clipPath", { id }, this.svg);
      node("rect", { x: MARGIN.left, y: MARGIN.top, width: inner.w, height: inner.h }, clip);
      const plot = node("g", { "clip-path": `url(#${id})` }, this.svg);
      this.visible().forEach((curve) => this.curve(plot, curve));
      if (this.metric === "cost_mean") this.panel.limits.forEach((limit) => this.limit(limit, width));
      this.mark = node("g", {}, this.svg);
    }

    axes(from, to, low, high, width) {
      const bottom = HEIGHT - MARGIN.bottom;
      for (const value of ticks(low, high, 5)) {
        node("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: this.y(value), y2: this.y(value) }, this.svg);
        node("text", { x: MARGIN.left - 7, y: this.y(value) + 4, "text-anchor": "end" }, this.svg, number(value));
      }
      for (const step of ticks(from, to, Math.max(2, Math.floor(width / 110)))) {
        node("line", { class: "axis", x1: this.x(step), x2: this.x(step), y1: bottom, y2: bottom + 4 }, this.svg);
        node("text", { x: this.x(step), y: bottom + 17, "text-anchor": "middle" }, this.svg, short(step));
      }
      node("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }, this.svg);
      node("text", { x: width - MARGIN.right, y: HEIGHT - 3, "text-anchor": "end" }, this.svg, "environment steps");
    }

    curve(plot, curve) {
      const group = data.groups[curve.group];
      const m = curve.metrics[this.metric];
      const shared = { "data-group": curve.group, fill: "none", stroke: group.colour };
      if (m.low) node("path", { "data-group": curve.group, class: "band", d: area(curve.steps, m.low, m.high, this.x, this.y), fill: group.colour, opacity: 0.16 }, plot);
      if (state.single) m.single.forEach((run) => node("path", { ...shared, class: "single", d: line(curve.steps, run, this.x, this.y), "stroke-width": 0.8, opacity: 0.6 }, plot));
      node("path", { ...shared, class: "centre", d: line(curve.steps, m.centre, this.x, this.y), "stroke-width": 1.8, "stroke-dasharray": group.dashes, "stroke-linejoin": "round" }, plot);
    }

    limit(value, width) {
      const y = this.y(value);
      if (y < MARGIN.top || y > HEIGHT - MARGIN.bottom) return;
      node("line", { class: "limit", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }, this.svg);
      node("text", { class: "limit-name", x: width - MARGIN.right, y: y - 5, "text-anchor": "end" }, this.svg, `limit ${number(value)}`);
    }

    where(event) {
      const box = this.svg.getBoundingClientRect();
      return ((event.clientX - box.left) / box.width) * this.width;
    }

    moved(event) {
      const px = this.where(event);
      if (this.from !== undefined) return this.select(px);
      return this.point(this.back(px));
    }

    pressed(event) {
      if (event.button === 0 && event.pointerType === "mouse") this.from = this.where(event);
    }

    released(event) {
      const [start, end] = [this.from, this.where(event)];
      this.from = undefined;
      if (start === undefined || Math.abs(end - start) < 8) return;
      const whole = this.range();
      const ends = [start, end].map((px) => Math.min(whole[1], Math.max(whole[0], this.back(px)))).sort((a, b) => a - b);
      if (ends[1] > ends[0]) this.zoom.set(ends);
    }

    select(px) {
      this.tip.hidden = true;
      this.mark.replaceChildren();
      const box = { y: MARGIN.top, height: HEIGHT - MARGIN.top - MARGIN.bottom };
      node("rect", { class: "selection", x: Math.min(px, this.from), width: Math.abs(px - this.from), ...box }, this.mark);
    }

    key(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") { this.point(null); this.zoom.set(null); }
      const first = this.visible()[0];
      if (step === undefined || !first) return;
      event.preventDefault();
      const [from, to] = this.range();
      const inside = first.steps.filter((s) => s >= from && s <= to);
      const here = this.cursor === null ? (step > 0 ? -1 : inside.length) : nearest(inside, this.cursor);
      this.point(inside[Math.min(inside.length - 1, Math.max(0, here + step))]);
    }

    point(step) {
      this.mark.replaceChildren();
      this.cursor = step;
      const [from, to] = this.range();
      const found = step === null || step < from || step > to ? [] : this.values(step);
      this.tip.hidden = found.length === 0;
      if (found.length === 0) return;
      const at = this.x(found[0].step);
      node("line", { class: "cursor", x1: at, x2: at, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }, this.mark);
      this.tip.replaceChildren();
      const banded = found.some((value) => value.band);
      element("div", this.tip, `${steps(found[0].step)} steps${banded ? ", mean [min, max]" : ""}`);
      const table = element("table", this.tip);
      for (const value of found.slice(0, 12)) this.row(table, value);
      if (found.length > 12) element("div", this.tip, `and ${found.length - 12} more`);
      const left = at > this.width / 2;
      this.tip.style.left = left ? "auto" : `${at + 14}px`;
      this.tip.style.right = left ? `${this.width - at + 14}px` : "auto";
      this.tip.style.top = "1.6rem";
    }

    values(step) {
      const found = [];
      for (const curve of this.visible()) {
        const i = nearest(curve.steps, step);
        const m = curve.metrics[this.metric];
        const reached = step <= curve.steps[curve.steps.length - 1] + 1e-9 || i < curve.steps.length - 1;
        if (m.centre[i] === null || !reached) continue;
        const band = m.low ? [m.low[i], m.high[i]] : null;
        const missing = m.single.filter((run) => run[i] === null).length;
        const few = missing ? `${m.single.length - missing} of ${m.single.length} runs` : "";
        found.push({ group: curve.group, step: curve.steps[i], centre: m.centre[i], band, few });
      }
      return found.sort((a, b) => b.centre - a.centre);
    }

    row(table, { group, centre, band, few }) {
      const row = element("tr", table);
      const name = element("td", row);
      element("i", name).style.background = data.groups[group].colour;
      name.append(data.groups[group].label);
      element("td", row, number(centre));
      element("td", row, [band ? `[${number(band[0])}, ${number(band[1])}]` : "", few].join(" "));
    }
  }

  function nearest(values, wanted) {
    let low = 0;
    let high = values.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted) low = middle; else high = middle;
    }
    return high > low && Math.abs(values[high] - wanted) < Math.abs(values[low] - wanted) ? high : low;
  }

  function drawAll() { charts.forEach((chart) => chart.draw()); }

  function panels() {
    const host = document.getElementById("panels");
    for (const panel of data.panels) {
      element("h3", host, panel.title);
      const reset = element("button", host, "Show all steps");
      reset.hidden = true;
      const own = [];
      const zoom = { range: null, set(range) { zoom.range = range; reset.hidden = range === null; own.forEach((c) => c.draw()); } };
      reset.addEventListener("click", () => zoom.set(null));
      const grid = element("div", host, undefined, "charts");
      for (const [metric, label] of data.metrics) {
        if (!panel.curves.some((curve) => curve.metrics[metric])) continue;
        const chart = new Chart(grid, panel, metric, label, zoom);
        own.push(chart);
        charts.push(chart);
      }
    }
  }

  function legend() {
    const host = document.getElementById("legend");
    const buttons = data.groups.map((group, index) => {
      const button = element("button", host);
      const swatch = node("svg", { width: 28, height: 10, "aria-hidden": "true" }, button);
      node("line", { x1: 1, x2: 27, y1: 5, y2: 5, stroke: group.colour, "stroke-width": 3, "stroke-dasharray": group.dashes }, swatch);
      element("span", button, group.label);
      button.addEventListener("click", (event) => { choose(index, event.shiftKey); show(); });
      return button;
    });
    function choose(index, alone) {
      const only = state.hidden.size === data.groups.length - 1 && !state.hidden.has(index);
      if (alone) state.hidden = new Set(only ? [] : [...data.groups.keys()].filter((other) => other !== index));
      else if (!state.hidden.delete(index)) state.hidden.add(index);
    }
    function show() {
      buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(!state.hidden.has(index))));
      drawAll();
    }
    if (data.panels.some((panel) => panel.curves.some((curve) => curve.runs.length > 1))) {
      const label = element("label", host);
      const box = element("input", label);
      box.type = "checkbox";
      label.append(" single runs");
      box.addEventListener("change", () => { state.single = box.checked; drawAll(); });
    }
    show();
  }

  // Numbers before texts before nothing, whichever way: a cell's data-value is its number where it has one.
  function compare(a, b, direction) {
    if (a.kind !== b.kind) return a.kind - b.kind;
    if (a.kind === 0) return direction * (a.value - b.value);
    return direction * a.value.localeCompare(b.value, "en", { numeric: true });
  }
  function cellKey(cell) {
    const raw = cell.dataset.value;
    if (raw !== undefined && raw !== "") return { kind: 0, value: Number(raw) };
    const text = cell.textContent.trim();
    return text === "" || text === "–" ? { kind: 2, value: "" } : { kind: 1, value: text };
  }
  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: cellKey(row.cells[column]) }));
      rows.sort((a, b) => compare(a.key, b.key, direction));
      table.tBodies[0].append(...rows.map(({ row }) => row));
    }));
  }

  panels();
  legend();
  document.querySelectorAll("table.sortable").forEach(sortable);
  new ResizeObserver(drawAll).observe(document.getElementById("panels"));
})();

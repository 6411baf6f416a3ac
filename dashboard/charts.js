// Lines over the last five minutes, drawn by uPlot, of a ring of numbers that never grows.
/* global uPlot */

import { make, say } from "./parts.js";

const POINTS = 300;
const FIRST_SPAN = 60; // seconds that are shown before there are as many
const charts = new Set();

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function axes(format) {
  const line = { stroke: colour("line"), width: 1 };
  const text = { stroke: colour("muted"), font: "12px system-ui, sans-serif" };
  return [
    { ...text, grid: { show: false }, ticks: { ...line, size: 4 }, size: 28, space: 80,
      values: (u, at) => at.map((s) => new Date(s * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" })),
      incrs: [15, 30, 60, 120, 300] },
    { ...text, grid: line, ticks: { show: false }, size: 52, splits: undefined,
      values: (u, at) => at.map((n) => (n === null ? "" : format(n))) },
  ];
}

/*
 * A chart in `parent` of `series`, each {name, label, dash, fill}, whose colour is the style's variable of its name. `add(at_ms,
 * values)` says what a second had, the newest or one before; null is a gap.
 */
export class Chart {
  constructor(parent, legend, series, format) {
    this.parent = parent;
    this.series = series;
    this.format = format;
    this.data = [new Array(POINTS), ...series.map(() => new Array(POINTS).fill(null))];
    this.plot = null;
    this.first = 0;
    this.values = series.map((one) => {
      const value = make("b", {}, "–");
      legend.append(make("li", { "data-series": one.name, class: one.dash ? "dashed" : "" }, make("i"), one.label, " ", value));
      return value;
    });
    charts.add(this);
    new ResizeObserver(() => this.resize()).observe(parent);
  }

  add(atMs, values) {
    const at = Math.round(atMs / 1000);
    const [times] = this.data;
    if (this.first === 0 || at < this.first) this.first = at;
    if (times[POINTS - 1] === undefined) for (let i = 0; i < POINTS; i++) times[i] = at - POINTS + i;
    const last = times[POINTS - 1];
    const steps = Math.min(POINTS, Math.max(0, at - last));
    for (let s = 0; s < steps; s++) {
      times.shift();
      times.push(at - steps + s + 1);
      this.data.slice(1).forEach((column) => {
        column.shift();
        column.push(null);
      });
    }
    const place = POINTS - 1 - Math.max(0, times[POINTS - 1] - at);
    if (place < 0) return;
    values.forEach((value, i) => {
      this.data[i + 1][place] = value;
      if (steps === 2) this.data[i + 1][place - 1] = value; // a clock that ticks a little late: no gap
    });
    if (this.plot) this.plot.setData(this.data);
    else this.draw();
    this.show(this.plot ? this.plot.cursor.idx : null);
  }

  draw() {
    const width = this.parent.clientWidth;
    if (width === 0 || this.data[0][0] === undefined) return;
    if (this.plot) this.plot.destroy();
    this.plot = new uPlot({
      width,
      height: this.parent.clientHeight,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { time: true, range: (u, min, max) => [Math.max(min, Math.min(this.first, max - FIRST_SPAN)), max] }, y: { range: (u, min, max) => [0, max > 0 ? max * 1.12 : 1] } },
      axes: axes(this.format),
      series: [{}, ...this.series.map((one) => ({
        label: one.label,
        stroke: colour(one.name),
        fill: one.fill ? `${colour(one.name)}22` : undefined,
        width: 2,
        dash: one.dash,
        points: { show: false },
        spanGaps: false,
      }))],
      hooks: { setCursor: [(u) => this.show(u.cursor.idx)] },
    }, this.data, this.parent);
  }

  // What is under the pointer, or now.
  show(index) {
    const at = index === null || index === undefined ? POINTS - 1 : index;
    this.values.forEach((node, i) => {
      const value = this.data[i + 1][at];
      say(node, value === null ? "–" : this.format(value));
    });
  }

  resize() {
    if (!this.plot) this.draw();
    else if (this.parent.clientWidth > 0) this.plot.setSize({ width: this.parent.clientWidth, height: this.parent.clientHeight });
  }
}

export function redrawCharts() {
  for (const chart of charts) chart.draw();
}

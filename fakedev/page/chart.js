// Line charts by uPlot (uPlot.iife.min.js): wall clock and simulated time, gaps for missing values, limits as lines,
// marks of what happened. Charts with the same time span share crosshair, zoom and marks.
import { make, put } from "./dom.js";
import { brief, duration, moment } from "./format.js";
import { colour, onTheme } from "./theme.js";
import { dayText, wallText } from "./walltime.js";

const STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400];
const FONT = "11px system-ui, 'DejaVu Sans', sans-serif";
/** Pixels of a drag that is a zoom, and from the crosshair to a mark whose text is shown. */
const [DRAGGED, NEAR] = [8, 6];
/** The texts below the axis of a time: simulated seconds, seconds of performance.now(), or a time that has passed. */
const AXES = {
  simulated: (time) => `${wallText(time)}\n${moment(time)}`,
  real: (time) => dayText((performance.timeOrigin / 1000) + time),
  elapsed: (time) => moment(time),
};

export class Chart {
  /**
   * @param series names with the colours of colours.css: [["usage", "series-1"], ...]
   * @param unit follows each value; least and most fix the axis, or are null; the axis covers at least span.
   * @param time a TimeSpan; null shows all points. axis: one of AXES.
   */
  constructor(title, series, { unit = "", least = 0, most = null, height = 130, span = 0, time = null, axis = "simulated" } = {}) {
    Object.assign(this, { title, series, unit, least, most, span, time, axis });
    this.height = height + (axis === "simulated" ? 14 : 0);
    this.all = [[], ...series.map(() => [])];
    this.lines = [];
    this.pointed = null;
    time?.charts.add(this);
    this.readings = series.map(([name, tint]) => {
      const swatch = make("span", { class: "swatch" });
      swatch.dataset.tint = tint;
      return make("span", {}, series.length > 1 ? swatch : "", series.length > 1 ? `${name} ` : "", make("span"));
    });
    this.place = make("div", { class: "plot" });
    this.place.style.height = `${this.height}px`;
    this.element = make(
      "figure",
      { class: "chart" },
      make("figcaption", {}, make("b", {}, title), (this.when = make("span")), ...this.readings),
      this.place,
    );
    this.place.addEventListener("wheel", (event) => this._wheel(event), { passive: false });
    new ResizeObserver(() => {
      this.plot?.setSize({ width: this.place.clientWidth, height: this.height });
      this.draw();
    }).observe(this.place);
    this.forget = onTheme(() => this.plot?.redraw());
  }

  /** Show points: rising times in seconds, and for each series a value or null at each time.
   * Of the only series also, as two more rows, the lowest and the highest value around each time.
   */
  show(times, ...values) {
    this.all = [times, ...values.map((row) => row.map((value) => value ?? null))];
    this.draw();
  }

  /** Show lines at some values: [name, value, colour]; the axis always covers the first one. */
  limits(lines) {
    this.lines = lines.filter(([, value]) => Number.isFinite(value));
  }

  draw() {
    if (!this.place.clientWidth) return;
    const end = this.all[0].at(-1) ?? 0;
    if (this.time) this.time.end = Math.max(this.time.end, end);
    if (this.plot && this.plot.series.length !== this.all.length) this.plot = this.plot.destroy();
    if (this.plot) this.plot.setData(this.all);
    else this._make();
    this._read();
  }

  /** The chart is not used any more. */
  remove() {
    this.time?.charts.delete(this);
    this.forget();
    this.plot?.destroy();
    this.plot = null;
  }

  _make() {
    const soft = () => colour("soft");
    const grid = { stroke: () => colour("grid"), width: 1 };
    const axis = { stroke: soft, font: FONT, grid, ticks: { show: false } };
    const text = AXES[this.axis];
    this.plot = new globalThis.uPlot(
      {
        width: this.place.clientWidth,
        height: this.height,
        padding: [8, 34, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          points: { size: 7 },
          drag: { x: Boolean(this.time), y: false, setScale: false },
          bind: { dblclick: () => () => this.time?.zoom(null) },
          ...(this.time ? { sync: { key: this.time.key, setSeries: false, scales: ["x", null] } } : {}),
        },
        scales: { x: { time: false, range: () => this._times() }, y: { range: () => this._range().slice(0, 2) } },
        axes: [
          { ...axis, size: this.axis === "simulated" ? 36 : 20, gap: 6, space: 84, incrs: STEPS, values: (_, splits) => splits.map(text) },
          { ...axis, size: 62, gap: 4, splits: () => this._splits(), values: (_, splits) => splits.map((value, place) => this._label(value, place === splits.length - 1)) },
        ],
        series: [
          {},
          ...this.series.map(([label, tint]) => ({
            label,
            stroke: () => colour(tint),
            width: 1.75,
            points: { show: false, size: 4, fill: () => colour(tint), filter: (plot, row) => alone(plot.data[row]) },
          })),
          ...this.all.slice(1 + this.series.length).map(() => ({ width: 0, points: { show: false } })),
        ],
        bands: this.all.length > 1 + this.series.length ? [{ series: [3, 2], fill: () => `${colour(this.series[0][1])}40` }] : [],
        hooks: {
          setCursor: [(plot) => this._point(plot.cursor.left)],
          setSelect: [(plot) => this._zoom(plot)],
          draw: [(plot) => this._marks(plot.ctx, plot)],
        },
      },
      this.all,
      this.place,
    );
    this.canvas = this.place.querySelector("canvas");
    this.canvas.setAttribute("role", "img");
  }

  /** The times that are shown. */
  _times() {
    const times = this.all[0];
    const [first, end] = [times[0] ?? 0, this.time?.range ? this.time.end : (times.at(-1) ?? 0)];
    return this.time ? this.time.window(first, end) : [Math.min(first, end - 10), end];
  }

  /** The lowest and highest value of the axis, and its step. */
  _range() {
    let [low, high] = [this.least, this.most];
    const [first, end] = this._times();
    const [times, ...rows] = this.all;
    const all = rows.flatMap((row) => row.filter((value, place) => value !== null && times[place] >= first && times[place] <= end));
    if (this.lines.length && all.length) all.push(this.lines[0][1]);
    if (low === null) low = all.length ? all.reduce((one, other) => Math.min(one, other)) : 0;
    if (high === null) high = all.length ? all.reduce((one, other) => Math.max(one, other)) : 1;
    if (high - low < this.span) [low, high] = [(low + high - this.span) / 2, (low + high + this.span) / 2];
    if (high - low < 1e-9) high = low + 1;
    const step = nice((high - low) / 3);
    if (this.least === null) low = Math.floor(low / step) * step;
    if (this.most === null) high = Math.ceil(high / step - 1e-9) * step;
    return [low, high, step];
  }

  _splits() {
    const [low, high, step] = this._range();
    return Array.from({ length: Math.floor((high - low) / step + 1.001) }, (_, place) => low + place * step);
  }

  _label(value, isLast) {
    return axisNumber(value) + (isLast ? this.unit : "");
  }

  /** Draw the limits, and marks of what happened. */
  _marks(paper, plot) {
    const { left, top, width, height } = plot.bbox;
    const [first, end] = [plot.scales.x.min, plot.scales.x.max];
    paper.save();
    paper.beginPath();
    paper.rect(left, top, width, height);
    paper.clip();
    paper.lineWidth = devicePixelRatio;
    paper.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
    this.lines.forEach(([name, value, tint], place) => {
      const y = Math.round(plot.valToPos(value, "y", true));
      stroke(paper, colour(tint), [6, 3], left, y, left + width, y);
      paper.fillStyle = colour(tint);
      paper.textAlign = "left";
      // Lines that are near each other have their names beside each other, and what is high up has it below.
      const below = y - top < 12 * devicePixelRatio ? 11 : -3;
      paper.fillText(`${name} ${brief(value)}${this.unit}`, left + 4 + (place * width) / this.lines.length, y + below * devicePixelRatio);
    });
    for (const { seconds, tint } of this.time?.marks ?? []) {
      if (seconds < first || seconds > end || this.axis !== "simulated") continue;
      const x = Math.round(plot.valToPos(seconds, "x", true));
      stroke(paper, colour(tint), [2, 3], x, top, x, top + height);
    }
    paper.restore();
  }

  _read() {
    const times = this.all[0];
    const place = this.pointed === null ? times.length - 1 : nearest(times, this.pointed);
    const end = times.at(-1) ?? 0;
    put(this.when, this.pointed === null || place < 0 ? "" : this._whenText(times[place], end));
    const told = [];
    this.readings.forEach((reading, row) => {
      const value = this.all[row + 1]?.[place] ?? null;
      const [low, high] = this.all.slice(1 + this.series.length).map((each) => each[place]);
      const text = value === null ? "–" : `${brief(value)}${low < high ? ` (${brief(low)} to ${brief(high)})` : ""}${this.unit}`;
      put(reading.lastChild, text);
      if (reading.firstChild.style) reading.firstChild.style.background = colour(this.series[row][1]);
      told.push(`${this.series[row][0]} ${text}`);
    });
    const past = times.length ? duration(end - times[0]) : "0 s";
    const limits = this.lines.map(([name, value]) => `, ${name} ${brief(value)}${this.unit}`).join("");
    this.canvas?.setAttribute("aria-label", `${this.title}: ${told.join(", ")}${limits}, over the last ${past}`);
  }

  /** The time of a point in words, after a mark that is near. */
  _whenText(time, end) {
    const far = (Math.abs(this.plot.posToVal(NEAR, "x") - this.plot.posToVal(0, "x")));
    const mark = this.axis === "simulated" && this.time?.marks.find(({ seconds }) => Math.abs(seconds - this.pointed) <= far);
    const at = AXES[this.axis](time).split("\n").filter(Boolean).join(", ");
    const ago = end - time < 0.05 ? "now" : `${duration(end - time)} ago`;
    return `${mark ? `${mark.text} · ` : ""}${at} · ${ago}`;
  }

  /** The crosshair is at a place, of this chart or of one that shares it; below 0: it has left. */
  _point(left) {
    this.pointed = left >= 0 ? this.plot.posToVal(left, "x") : null;
    this._read();
  }

  _zoom(plot) {
    const { left, width } = plot.select;
    if (!width) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (width >= DRAGGED) this.time.zoom([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
  }

  /** The wheel zooms with Ctrl and pans with Shift; without them it scrolls the page. */
  _wheel(event) {
    if (!this.time || !this.plot || !(event.ctrlKey || event.shiftKey)) return;
    event.preventDefault();
    const way = Math.sign(event.deltaY || event.deltaX);
    if (event.ctrlKey) this.time.scale(way > 0 ? 1.25 : 0.8, this.pointed);
    else this.time.pan(way * 0.2);
  }
}

function stroke(paper, tint, dash, ...[x, y, toX, toY]) {
  paper.strokeStyle = tint;
  paper.setLineDash(dash.map((each) => each * devicePixelRatio));
  paper.beginPath();
  paper.moveTo(x, y);
  paper.lineTo(toX, toY);
  paper.stroke();
}

/** The points between two gaps, which no line shows. */
function alone(row) {
  const found = [];
  for (let place = 0; place < row.length; place++)
    if (row[place] !== null && (row[place - 1] ?? null) === null && (row[place + 1] ?? null) === null) found.push(place);
  return found;
}

/** The point nearest to a time; -1 for none. */
function nearest(times, time) {
  let [best, least] = [-1, Infinity];
  times.forEach((each, place) => {
    const far = Math.abs(each - time);
    if (far < least) [best, least] = [place, far];
  });
  return best;
}

/** The next round number from the value up: 1, 2 or 5 times a power of ten. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((each) => each * power >= value - 1e-12) * power;
}

function axisNumber(value) {
  if (Math.abs(value) >= 1e6) return `${brief(value / 1e6)}M`;
  if (Math.abs(value) >= 10000) return `${brief(value / 1000)}k`;
  return brief(Math.round(value * 1e6) / 1e6);
}

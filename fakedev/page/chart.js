// Line charts on a canvas: a time axis in seconds before now, one axis of values, gaps for missing values.
// Charts with the same time span show the same time under the pointer.
import { make, put } from "./dom.js";
import { brief, duration } from "./format.js";
import { colour, onTheme } from "./theme.js";

const LEFT = 46;
const BELOW = 18;
const ABOVE = 6;

export class Chart {
  /**
   * @param series names with the colours of colours.css: [["usage", "series-1"], ...]
   * @param unit follows each value; least and most fix the axis, or are null; the axis covers at least span.
   * @param time a TimeSpan; null shows all points.
   */
  constructor(title, series, { unit = "", least = 0, most = null, height = 130, span = 0, time = null } = {}) {
    this.series = series;
    this.unit = unit;
    this.least = least;
    this.most = most;
    this.height = height;
    this.span = span;
    this.times = [];
    this.values = series.map(() => []);
    this.time = time;
    time?.charts.add(this);
    this.title = title;
    this.readings = series.map(([name, tint]) => {
      const swatch = make("span", { class: "swatch" });
      swatch.dataset.tint = tint;
      return make("span", {}, series.length > 1 ? swatch : "", series.length > 1 ? `${name} ` : "", make("span"));
    });
    this.canvas = make("canvas", { role: "img", "aria-label": title });
    this.canvas.style.height = `${height}px`;
    this.element = make(
      "figure",
      { class: "chart" },
      make("figcaption", {}, make("b", {}, title), (this.when = make("span")), ...this.readings),
      this.canvas,
    );
    this.pointed = null;
    this.canvas.addEventListener("pointermove", (event) => this._point(event.offsetX));
    this.canvas.addEventListener("pointerleave", () => this._point(null));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    onTheme(() => this.draw());
  }

  /** Show points: rising times in seconds, and for each series a value or null at each time. */
  show(times, ...values) {
    this.all = [times, values];
    this.draw();
  }

  /** Choose the points within the time span, and one before it. */
  _choose() {
    const [times, values] = this.all ?? [[], this.series.map(() => [])];
    const end = times.at(-1) ?? 0;
    const least = this.time ? end - this.time.seconds : -Infinity;
    let first = 0;
    while (first < times.length - 1 && times[first + 1] <= least) first++;
    this.times = first ? times.slice(first) : times;
    this.values = first ? values.map((row) => row.slice(first)) : values;
    return [Math.max(this.times[0] ?? 0, least), end];
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    const ratio = devicePixelRatio || 1;
    const paper = this.canvas.getContext("2d");
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    paper.scale(ratio, ratio);
    const [first, end] = this._choose();
    const [low, high, step] = this._range();
    const begin = Math.min(first, end - 10);
    const across = (time) => LEFT + ((time - begin) / (end - begin)) * (width - LEFT - 4);
    const up = (value) => this.height - BELOW - ((value - low) / (high - low)) * (this.height - BELOW - ABOVE);
    this._timeAt = (x) => begin + ((x - LEFT) / (width - LEFT - 4)) * (end - begin);
    this._axes(paper, width, { low, high, step, begin, end, across, up });
    paper.save();
    paper.beginPath();
    paper.rect(LEFT, 0, width - LEFT, this.height);
    paper.clip();
    this.series.forEach(([, tint], row) => this._line(paper, this.values[row] ?? [], colour(tint), across, up));
    paper.restore();
    this._read(paper, across, up);
  }

  _range() {
    let [low, high] = [this.least, this.most];
    const all = this.values.flat().filter((value) => value !== null && value !== undefined);
    if (low === null) low = all.length ? Math.min(...all) : 0;
    if (high === null) high = all.length ? Math.max(...all) : 1;
    if (high - low < this.span) [low, high] = [(low + high - this.span) / 2, (low + high + this.span) / 2];
    if (high - low < 1e-9) high = low + 1;
    const step = nice((high - low) / 3);
    if (this.least === null) low = Math.floor(low / step) * step;
    if (this.most === null) high = Math.ceil(high / step - 1e-9) * step;
    return [low, high, step];
  }

  _axes(paper, width, { low, high, step, begin, end, across, up }) {
    paper.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    paper.strokeStyle = colour("grid");
    paper.fillStyle = colour("soft");
    paper.lineWidth = 1;
    paper.textAlign = "right";
    for (let value = low; value <= high + step / 1e3; value += step) {
      const y = Math.round(up(value)) + 0.5;
      paper.beginPath();
      paper.moveTo(LEFT, y);
      paper.lineTo(width, y);
      paper.stroke();
      const unit = value + step > high + step / 1e3 ? this.unit.trim() : "";
      const text = axisNumber(value);
      paper.fillText(text.length + unit.length <= 5 ? text + unit : text, LEFT - 6, y + 4);
    }
    const between = nice((end - begin) / Math.max(2, width / 130), true);
    for (let back = 0; end - back >= begin; back += between) {
      paper.textAlign = back ? "center" : "right";
      const text = back ? `−${duration(back).replace(" min 0 s", " min").replace(" h 0 min", " h")}` : "now";
      if (across(end - back) > LEFT + 12) paper.fillText(text, across(end - back), this.height - 4);
    }
  }

  _line(paper, values, tint, across, up) {
    paper.strokeStyle = tint;
    paper.lineWidth = 1.75;
    paper.lineJoin = "round";
    paper.beginPath();
    let begun = false;
    for (let place = 0; place < values.length; place++) {
      const value = values[place];
      if (isNothing(value)) begun = false;
      else if (isNothing(values[place - 1]) && isNothing(values[place + 1])) {
        // A value between two gaps is a dot.
        paper.fillStyle = tint;
        paper.fillRect(across(this.times[place]) - 1.5, up(value) - 1.5, 3, 3);
      } else {
        paper[begun ? "lineTo" : "moveTo"](across(this.times[place]), up(value));
        begun = true;
      }
    }
    paper.stroke();
  }

  _read(paper, across, up) {
    const pointed = this.time ? this.time.pointed : this.pointed;
    const place = pointed === null ? this.times.length - 1 : this._nearest(pointed);
    const told = [];
    const end = this.times.at(-1) ?? 0;
    put(this.when, pointed === null || place < 0 ? "" : agoText(end - this.times[place]));
    if (pointed !== null && place >= 0) {
      paper.strokeStyle = colour("soft");
      paper.lineWidth = 1;
      paper.beginPath();
      paper.moveTo(across(this.times[place]), 0);
      paper.lineTo(across(this.times[place]), this.height - BELOW);
      paper.stroke();
    }
    this.readings.forEach((reading, row) => {
      const value = this.values[row]?.[place] ?? null;
      const text = value === null ? "–" : `${brief(value)}${this.unit}`;
      put(reading.lastChild, text);
      if (reading.firstChild.style) reading.firstChild.style.background = colour(this.series[row][1]);
      told.push(`${this.series[row][0]} ${text}`);
      if (pointed !== null && value !== null) {
        paper.fillStyle = colour(this.series[row][1]);
        paper.beginPath();
        paper.arc(across(this.times[place]), up(value), 3.5, 0, 7);
        paper.fill();
      }
    });
    const past = this.times.length ? duration(end - this.times[0]) : "0 s";
    this.canvas.setAttribute("aria-label", `${this.title}: ${told.join(", ")}, over the last ${past}`);
  }

  /** The point nearest to a time; -1 for none. */
  _nearest(time) {
    let [best, least] = [-1, Infinity];
    this.times.forEach((each, place) => {
      const far = Math.abs(each - time);
      if (far < least) [best, least] = [place, far];
    });
    return best;
  }

  /** The pointer is at a place of the chart, or has left. */
  _point(x) {
    const time = x === null || !this._timeAt ? null : this._timeAt(x);
    if (this.time) this.time.point(time);
    else {
      this.pointed = time;
      this.draw();
    }
  }
}

function agoText(seconds) {
  return seconds < 0.05 ? "now" : `${duration(seconds)} ago`;
}

function isNothing(value) {
  return value === null || value === undefined;
}

/** The next round number from the value up: 1, 2 or 5 times a power of ten; for seconds, steps of a clock. */
function nice(value, isTime = false) {
  if (isTime)
    return (
      [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400].find(
        (each) => each >= value,
      ) ?? 864000
    );
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((each) => each * power >= value - 1e-12) * power;
}

function axisNumber(value) {
  if (Math.abs(value) >= 1e6) return `${brief(value / 1e6)}M`;
  if (Math.abs(value) >= 10000) return `${brief(value / 1000)}k`;
  return brief(Math.round(value * 1e6) / 1e6);
}

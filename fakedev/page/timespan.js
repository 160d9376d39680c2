// The span of time that some charts show, with what happened in it: shared, so that the charts can be compared.
import { make } from "./dom.js";

const SPANS = [
  [60, "1 min"],
  [300, "5 min"],
  [900, "15 min"],
  [3600, "1 h"],
  [21600, "6 h"],
  [86400, "24 h"],
];
const KEY = "fakedev-span";
/** The shortest span that a zoom shows. */
const LEAST = 10;
let count = 0;

export class TimeSpan {
  /** @param most how much of the past the service keeps; changed: called when more of it may be needed. */
  constructor(most = 3600, changed = () => null) {
    this.most = most;
    this.seconds = Math.min(most, Number(localStorage.getItem(KEY)) || 300);
    this.range = null; // [from, to] after a zoom; null: the last seconds
    this.end = 0;
    this.charts = new Set();
    this.marks = [];
    this._changed = changed;
    this.key = `span-${++count}`;
    const spans = SPANS.filter(([seconds]) => seconds <= most);
    this.inputs = spans.map(([seconds]) =>
      make("input", { type: "radio", name: this.key, value: String(seconds), checked: seconds === this.seconds, onchange: () => this.choose(seconds) }),
    );
    const button = (text, what, onclick) => make("button", { type: "button", class: "small", "aria-label": what, title: what, onclick }, text);
    this.now = button("Now", "Follow the present", () => this.zoom(null));
    this.now.hidden = true;
    this.element = make(
      "div",
      { class: "row span" },
      make("fieldset", { class: "choice", "aria-label": "Time shown" }, ...spans.map(([, text], place) => make("label", {}, this.inputs[place], make("span", {}, text)))),
      button("−", "Zoom out", () => this.scale(2)),
      button("+", "Zoom in", () => this.scale(0.5)),
      button("◀", "Earlier", () => this.pan(-0.5)),
      button("▶", "Later", () => this.pan(0.5)),
      this.now,
    );
  }

  /** Show the last seconds. */
  choose(seconds) {
    this.seconds = seconds;
    localStorage.setItem(KEY, String(seconds));
    for (const input of this.inputs) input.checked = Number(input.value) === seconds;
    this.zoom(null);
  }

  /** The times that a chart shows, which has points from first to end. */
  window(first, end) {
    if (this.range) return this.range;
    return [Math.min(Math.max(first, end - this.seconds), end - LEAST), end];
  }

  /** How many of the last seconds the charts need. */
  get needed() {
    return Math.ceil(Math.min(this.most, this.range ? Math.max(this.seconds, this.end - this.range[0]) : this.seconds));
  }

  /** Show a span of time; null follows the present. */
  zoom(range) {
    this.range = range;
    this.now.hidden = !range;
    this.draw();
    this._changed();
  }

  /** Show a longer or a shorter time around a point, by default the middle. */
  scale(factor, at = null) {
    const [from, to] = this._present();
    const span = Math.min(this.most, Math.max(LEAST, (to - from) * factor));
    const centre = at ?? (this.range ? (from + to) / 2 : to);
    const share = (centre - from) / (to - from);
    this._go(centre - share * span, span);
  }

  /** Show an earlier or later time, by a share of what is shown. */
  pan(share) {
    const [from, to] = this._present();
    this._go(from + share * (to - from), to - from);
  }

  draw() {
    for (const chart of this.charts) chart.draw();
  }

  _present() {
    return this.range ?? [this.end - Math.min(this.seconds, this.most), this.end];
  }

  _go(from, span) {
    const first = Math.max(from, this.end - this.most);
    this.zoom(first + span >= this.end && span === this.seconds ? null : [first, first + span]);
  }
}

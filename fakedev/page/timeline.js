// The timeline of a scenario: a row of bars for each entry that lasts, a row of marks for each kind of what happens at
// once, and the line of now. The table of occurrences has the same as text.
import { draw, make, put } from "./dom.js";
import { duration, moment, number } from "./format.js";

const LASTING = new Set(["run", "fault"]);
const MOST_ROWS = 40;
const AXIS = 26;
const NARROW = 560;
const LABELS = 190;
/** Pixels of a character of a label, at most. */
const CHARACTER = 7.2;
const EDGE = 8;
/** The height of a row, of its bars, and of the bars of what is over. */
const [ROW, BAR, THIN] = [26, 14, 6];
const LEAST_BAR = 3;
const LEAST_TICK = 70;
const STEPS = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000, 31536000];
const STATES = [
  ["waiting", "waiting: dashed frame, empty mark"],
  ["active", "active: full bar"],
  ["done", "done: thin bar, full mark"],
  ["refused", "refused: cross"],
];

export class Timeline {
  constructor() {
    this.value = null;
    this.seconds = 0;
    this.active = [];
    this.heading = draw("title", { id: "timeline-title" });
    this.explained = draw("desc", { id: "timeline-explained" });
    this.content = draw("g");
    this.now = draw("g", { class: "now" }, draw("path", { d: `M-5,${AXIS - 9} h10 l-5,7 Z` }), (this.line = draw("line", { y1: AXIS - 9 })));
    this.drawing = draw(
      "svg",
      { class: "timeline", role: "img", "aria-labelledby": "timeline-title", "aria-describedby": "timeline-explained" },
      this.heading,
      this.explained,
      this.content,
      this.now,
    );
    this.more = make("p", { class: "note" });
    const legend = STATES.map(([state, text]) => make("span", {}, sign(state), text));
    this.element = make("div", {}, this.drawing, make("div", { class: "legend" }, ...legend, make("span", {}, sign("now"), "now")), this.more);
    new ResizeObserver(() => this.element.clientWidth !== this.width && this._arrange()).observe(this.element);
    this.reset();
  }

  /** Nothing is known. */
  reset() {
    this.value = null;
    this.active = [];
    this.content.replaceChildren();
    this.drawing.style.display = "none";
    put(this.more, "");
  }

  /** Show the answer of /api/v1/scenario. */
  show(value) {
    this.value = value;
    this.seconds = value.seconds;
    this._arrange();
  }

  /** A new tick: the line of now moves, and what goes on grows. */
  frame(seconds) {
    this.seconds = seconds;
    if (!this.value || !this.width) return;
    const x = this._x(seconds);
    this.now.setAttribute("transform", `translate(${round(x)},0)`);
    for (const [bar, rest, begin, end] of this.active) this._grow(bar, rest, begin, end, x);
  }

  _x(seconds) {
    const share = Math.min(Math.max(seconds / this.value["span-seconds"], 0), 1);
    return this.left + share * (this.width - this.left - EDGE);
  }

  /** Draw everything. */
  _arrange() {
    this.width = this.element.clientWidth;
    if (!this.value || !this.width) return;
    const isNarrow = this.width < NARROW;
    // On a narrow screen a label is above its bars.
    this.left = isNarrow ? EDGE : LABELS;
    const above = isNarrow ? 16 : 0;
    const every = rowsOf(this.value.occurrences);
    const rows = every.slice(0, MOST_ROWS);
    const height = AXIS + rows.length * (ROW + above) + EDGE;
    const characters = Math.floor((isNarrow ? this.width - 2 * EDGE : LABELS - EDGE) / CHARACTER);
    this.active = [];
    this.drawing.style.display = "";
    for (const [name, text] of Object.entries({ width: this.width, height, viewBox: `0 0 ${this.width} ${height}` }))
      this.drawing.setAttribute(name, text);
    this.line.setAttribute("y2", height);
    this.content.replaceChildren(
      ...this._axis(height),
      ...rows.map((row, place) => {
        const top = AXIS + place * (ROW + above);
        const label = draw("text", { x: isNarrow ? EDGE : 0, y: top + (isNarrow ? 12 : ROW / 2 + 4) }, cut(row.label, characters), draw("title", {}, row.label));
        const middle = top + above + ROW / 2;
        const line = draw("line", { class: "row", x1: this.left, x2: this.width - EDGE, y1: middle, y2: middle });
        return draw("g", {}, line, label, ...row.occurrences.flatMap((each) => this._shape(each, middle)));
      }),
    );
    this._explain(every.length - rows.length);
    this.frame(this.seconds);
  }

  _axis(height) {
    const span = this.value["span-seconds"];
    const most = Math.max(1, Math.floor((this.width - this.left) / LEAST_TICK));
    const step = STEPS.find((each) => span / each <= most) ?? span;
    const ticks = [];
    for (let at = 0; at <= span; at += step) {
      const x = round(this._x(at));
      // The last text ends where the drawing ends.
      const anchor = x > this.width - LEAST_TICK / 2 ? "end" : at ? "middle" : "start";
      ticks.push(draw("line", { class: "tick", x1: x, x2: x, y1: AXIS - 4, y2: height }));
      ticks.push(draw("text", { class: "time", x, y: 11, "text-anchor": anchor }, duration(at).replace(/ 0 (s|min|h)$/, "")));
    }
    return ticks;
  }

  /** The shapes of an occurrence in a row, with their words for the pointer. */
  _shape(each, y) {
    const { state, seconds, number: place } = each;
    const x = this._x(seconds);
    const known = { class: state, "data-number": place };
    const words = draw("title", {}, wordsOf(each));
    if (state === "refused") return [draw("path", { ...known, d: `M${round(x - 5)},${y - 5} l10,10 m0,-10 l-10,10` }, words)];
    if (!LASTING.has(each.kind)) return [draw("path", { ...known, d: `M${round(x)},${y - 6} l6,6 l-6,6 l-6,-6 Z` }, words)];
    const end = this._x(each["ends-seconds"] ?? this.value["span-seconds"]);
    const height = state === "done" ? THIN : BAR;
    const bar = draw("rect", { ...known, x: round(x), y: y - height / 2, width: wide(end - x), height, rx: 2 }, words);
    if (state !== "active") return [bar];
    const rest = draw("rect", { class: "rest", y: y - BAR / 2, height: BAR, rx: 2 });
    this.active.push([bar, rest, x, each["ends-seconds"] === null ? this.width - EDGE : end]);
    return [rest, bar];
  }

  /** What goes on: full up to now, then a frame up to its end. */
  _grow(bar, rest, begin, end, now) {
    bar.setAttribute("width", wide(now - begin));
    rest.setAttribute("x", round(now));
    rest.setAttribute("width", round(Math.max(0, end - now)));
  }

  /** The drawing in words. */
  _explain(moreRows) {
    const { name, occurrences, total, "span-seconds": span } = this.value;
    const going = occurrences.filter(({ state }) => state === "active");
    const names = going.slice(0, 5).map(labelOf);
    const more = going.length - names.length;
    put(this.heading, `Timeline of the scenario ${name}, ${moment(span)} long`);
    put(
      this.explained,
      `${going.length ? `Going on: ${names.join("; ")}${more ? ` and ${number(more)} more` : ""}.` : "Nothing goes on."} The table of occurrences has everything as text.`,
    );
    const left = [];
    if (moreRows > 0) left.push(`${number(moreRows)} more rows`);
    if (occurrences.length < total) left.push(`${number(total - occurrences.length)} occurrences long before or after now`);
    put(this.more, left.length ? `Not in the drawing, but in the table: ${left.join(", ")}.` : "");
  }
}

/** The rows: entries that last in the order of the file, then a row for each kind of what happens at once. */
function rowsOf(occurrences) {
  const [entries, kinds] = [new Map(), new Map()];
  for (const each of occurrences) {
    if (each["is-end"]) continue; // the end of its bar
    const [rows, key, label] = LASTING.has(each.kind) ? [entries, each.entry, labelOf(each)] : [kinds, each.kind, each.kind];
    if (!rows.has(key)) rows.set(key, { label, occurrences: [] });
    rows.get(key).occurrences.push(each);
  }
  const inOrder = [...entries].sort(([one], [other]) => one - other);
  return [...inOrder, ...kinds].map(([, row]) => row);
}

function labelOf({ name, words }) {
  return name || words;
}

function wordsOf({ name, words, state, seconds, "ends-seconds": end, problem }) {
  const until = end === null || end === undefined ? "" : ` to ${moment(end)}`;
  return `${name ? `${name}: ` : ""}${words}, ${moment(seconds)}${until}, ${state}${problem ? `: ${problem}` : ""}`;
}

/** A sign of the legend. */
function sign(state) {
  const shape = {
    waiting: ["rect", { x: 1, y: 1, width: 14, height: 10, rx: 2 }],
    active: ["rect", { x: 1, y: 1, width: 14, height: 10, rx: 2 }],
    done: ["rect", { x: 1, y: 4, width: 14, height: 4, rx: 2 }],
    refused: ["path", { d: "M3,1 l10,10 m0,-10 l-10,10" }],
    now: ["line", { x1: 8, x2: 8, y1: 0, y2: 12 }],
  }[state];
  const drawn = draw(shape[0], { class: state, ...shape[1] });
  return draw("svg", { class: "timeline sign", width: 16, height: 12, "aria-hidden": "true" }, state === "now" ? draw("g", { class: "now" }, drawn) : drawn);
}

function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

function wide(pixels) {
  return round(Math.max(LEAST_BAR, pixels));
}

function round(pixels) {
  return Math.round(10 * pixels) / 10;
}

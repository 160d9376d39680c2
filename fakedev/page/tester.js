// Tester: the load on the queues, its control, timeline and results.
import { curlButton } from "./actions.js";
import { attempt, change } from "./ask.js";
import { Chart } from "./chart.js";
import { Collection } from "./collection.js";
import { card, make, put } from "./dom.js";
import { brief, duration, number } from "./format.js";
import { Polling } from "./polling.js";
import { Table } from "./table.js";
import { Tiles } from "./tiles.js";
import { TimeSpan } from "./timespan.js";

const RECENT_SECONDS = 10;
const RESET = ["POST", "/api/v1/tester", { reset: true }];
const MOST_RATE = 100000;
const PARTS = ["total", "wait", "run", "communication", "late"];
const POINTS = ["mean", "p50", "p90", "p99", "max"];

export class TesterTab {
  /** Without plans there is nothing to show. */
  isOffered({ frame }) {
    return Boolean(frame?.load);
  }

  constructor() {
    this.plan = "";
    this.nothing = make("p", { class: "note" }, "Loading…");
    this.choice = make("select", { "aria-label": "Plan", onchange: () => this._choose(this.choice.value) });
    this.control = make("input", { type: "number", min: "0", step: "any", required: true });
    this.slider = make("input", {
      type: "range",
      min: "0",
      "aria-label": "Load",
      oninput: () => (this.control.value = this.slider.value),
      onchange: () => this._set(),
    });
    this.label = make("span", {}, "Load");
    this.form = make(
      "form",
      { class: "row", onsubmit: (event) => (event.preventDefault(), this._set()) },
      make("label", {}, this.label, this.control),
      this.slider,
      make("button", { class: "main" }, "Set"),
      curlButton("set the load", () => this._request()),
      make("button", { type: "button", onclick: () => this._reset() }, "Reset the statistics"),
      curlButton("reset the statistics", () => RESET),
    );
    this.what = make("p", { class: "note" });
    this.tiles = new Tiles(["Rate now", "p50 since the reset", "p99 since the reset", "Outstanding", "Successes", "Failures"]);
    // Both show the time since the last reset, with one pointer.
    const time = new TimeSpan();
    time.seconds = Infinity;
    this.rate = new Chart(
      "Requests per second, over 10 s",
      [
        ["successes", "series-1"],
        ["failures", "series-2"],
      ],
      { unit: " /s", time, axis: "elapsed" },
    );
    this.times = new Chart(
      "Time of the requests of each step, from the intended start",
      [
        ["p50", "series-3"],
        ["p99", "series-4"],
      ],
      { unit: " s", time, axis: "elapsed" },
    );
    this.nodes = answersBy("node", "Node");
    this.devices = answersBy("device", "Device");
    this.pods = answersBy("pod", "Pod");
    this.lists = [this.nodes, this.devices, this.pods];
    this.search = this.nodes.search;
    this.parts = new Table(
      "Times",
      [
        { title: "Part", text: (row) => row.part },
        ...POINTS.map((point) => ({ title: point, number: true, text: (row) => duration(row[point]) })),
      ],
      (row) => row.part,
      "",
    );
    this.errors = new Table(
      "Errors",
      [
        { title: "Error", text: (row) => row.text },
        { title: "Count", number: true, text: (row) => number(row.count) },
      ],
      (row) => row.text,
      "No errors.",
    );
    const link = (type, text) =>
      make("a", { href: `/tester/stats?type=${type}`, target: "_blank", rel: "noopener" }, text);
    const report = make(
      "span",
      { class: "note" },
      "Report: ",
      link("html", "page"),
      ", ",
      link("json", "JSON"),
      ", ",
      link("plain", "text"),
    );
    this.all = make(
      "div",
      { class: "tab" },
      card("Load", [this.choice, report], this.what, this.form),
      this.tiles.element,
      make("div", { class: "charts" }, card("Rate", [], this.rate.element), card("Times", [], this.times.element)),
      card("Times of answered requests, since the reset", [], this.parts.element),
      make(
        "div",
        { class: "charts" },
        card("Nodes", [this.nodes.search], this.nodes.element),
        card("Devices", [this.devices.search], this.devices.element),
      ),
      make(
        "div",
        { class: "charts" },
        card("Pods", [this.pods.search], this.pods.element),
        card("Errors", [], this.errors.element),
      ),
    );
    this.element = make("div", {}, this.nothing, this.all);
    this.all.hidden = true;
    this.plans = new Polling("/api/v1/tester?limit=0", (value, error) => this._plans(value?.plans, error));
    this.polling = new Polling("", (value, error) => this._show(value, error));
    this.course = new Polling("", (value) => value && this._draw(value)); // the other one shows errors
  }

  /** The stream began, or began again: there may be other plans. */
  outline() {
    this.isKnown = false;
    this.plan = "";
    this._say("Loading…");
  }

  /** A frame arrived: it tells whether there is any load to ask for. */
  frame({ frame }) {
    if (!this.isKnown) {
      if (!frame.load) this._plans([]);
      else this.plans.ask();
    }
    if (this.plan) this._ask();
  }

  /** Ask for everything about the plan, at once or when it is time. */
  _ask(now = false) {
    for (const each of [this.polling, this.course, ...this.lists]) each.ask(now);
  }

  /** Show a text in place of the load; nothing: show the load. */
  _say(text) {
    put(this.nothing, text);
    this.nothing.hidden = !text;
    this.all.hidden = Boolean(text);
  }

  _plans(plans, error) {
    if (error) {
      this._say(`The load cannot be shown: ${error.message}`); // asked again
      return;
    }
    this.isKnown = true;
    this._say(plans.length ? "" : "There is no load: the configuration has no tester:.");
    this.choice.hidden = plans.length < 2;
    this.choice.replaceChildren(...plans.map(({ plan }) => make("option", { value: plan }, plan)));
    if (plans.length) this._choose(plans.some(({ plan }) => plan === this.plan) ? this.plan : plans[0].plan);
    else this.plan = "";
  }

  _choose(plan) {
    if (plan !== this.plan) this._forget();
    this.plan = plan;
    this.choice.value = plan;
    this.described = null;
    const path = `/api/v1/tester/${encodeURIComponent(plan)}`;
    this.polling.path = `${path}?limit=0`; // its nodes, devices and pods are lists
    this.course.path = `${path}/timeline`;
    for (const list of this.lists) list.folder = path;
    this._ask(true);
  }

  /** Nothing is known of another plan. */
  _forget() {
    this.tiles.reset();
    for (const table of [this.parts, this.errors, ...this.lists]) table.reset();
    for (const chart of [this.rate, this.times]) chart.show([], []);
    put(this.what, "Loading…");
    this.form.hidden = true;
  }

  _show(value, error) {
    if (error) {
      put(this.what, `Cannot be loaded: ${error.message}`);
      return;
    }
    this.form.hidden = false;
    const { statistics: found } = value;
    const isOpen = value.model === "open";
    const set = isOpen ? value.rate : value.parallel;
    if (this.described !== `${value.plan} ${set}` && document.activeElement !== this.control) {
      this.described = `${value.plan} ${set}`;
      put(this.label, isOpen ? "Requests per second" : "Requests in parallel");
      this.control.max = isOpen ? MOST_RATE : value["most-parallel"];
      this.control.step = isOpen ? "any" : "1";
      this.slider.max = Math.min(
        isOpen ? MOST_RATE : value["most-parallel"],
        Math.max(isOpen ? 4 : 32, Math.ceil(4 * (set ?? 0))),
      );
      this.slider.step = isOpen ? "0.01" : "1";
      this.control.value = this.slider.value = set === null ? "" : brief(set).replaceAll(",", "");
    }
    this.isOpen = isOpen;
    put(
      this.what,
      `Plan ${value.plan} puts ${value.arguments.join(" ") || "requests"} into queue ${value.queue}; ` +
        (isOpen
          ? "requests arrive at a rate, whether or not earlier ones have ended."
          : "this many at the same time; the next one starts when one has ended."),
    );
    this.tiles.set("Rate now", brief(found["rate-now"]), "/s");
    // Without an answer no time is known.
    const isKnown = found.successes + found.failures.total > 0;
    for (const point of ["p50", "p99"])
      this.tiles.set(`${point} since the reset`, ...(isKnown ? seconds(found.times.total[point]) : ["–"]));
    this.tiles.set("Outstanding", number(found.outstanding));
    this.tiles.set("Successes", number(found.successes));
    this.tiles.set("Failures", number(found.failures.total), "", found.failures.total > 0);
    this.parts.show(PARTS.map((part) => ({ part, ...(isKnown ? found.times[part] : {}) })));
    this.errors.show(found.errors);
  }

  _draw({ rows, "step-seconds": step }) {
    const column = (place) => rows.map((row) => row[place]);
    const perSecond = (place) =>
      rows.map((_, row) => {
        const recent = rows.slice(Math.max(0, row + 1 - Math.max(1, Math.round(RECENT_SECONDS / step))), row + 1);
        return recent.reduce((sum, each) => sum + each[place], 0) / (recent.length * step);
      });
    // The last step has not ended: its counts are still low.
    const whole = rows.length > 1 ? rows.length - 1 : rows.length;
    const cut = (values) => values.slice(0, whole);
    this.rate.show(cut(column(0)), cut(perSecond(2)), cut(perSecond(3)));
    this.times.show(cut(column(0)), cut(column(5)), cut(column(6)));
  }

  _request() {
    const body = { plan: this.plan, [this.isOpen ? "rate" : "parallel"]: Number(this.control.value) };
    return ["POST", "/api/v1/tester", body];
  }

  async _set() {
    const done = (set) =>
      this.isOpen ? `${brief(set.rate)} requests per second` : `${set.parallel} requests in parallel`;
    await attempt(() => change(...this._request()), done);
    this.described = null;
    this.control.blur();
    this.polling.ask(true);
  }

  async _reset() {
    await attempt(() => change(...RESET), "The statistics are reset");
    this._ask(true);
  }
}

/** The list of those that answered. */
function answersBy(what, title) {
  return new Collection(
    `${what}s`,
    `${title}s`,
    [
      { title, sort: what, text: (row) => row[what] || "(not named)" },
      { title: "Answers", sort: "answers", number: true, text: (row) => number(row.answers) },
      { title: "Failures", sort: "failures", number: true, text: (row) => number(row.failures) },
      { title: "Run p50", sort: "run-p50", number: true, text: (row) => duration(row.run.p50) },
      { title: "p99", sort: "run-p99", number: true, text: (row) => duration(row.run.p99) },
      { title: "Last error", sort: "last-error", text: (row) => row["last-error"] },
    ],
    (row) => row[what],
    "No answers yet.",
  );
}

function seconds(value) {
  return value >= 1 || value === 0 ? [brief(value), "s"] : [brief(1000 * value), "ms"];
}

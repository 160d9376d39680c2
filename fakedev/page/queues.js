// Queues: jobs, rates and workers; a chart for each queue.
import { get, noPast } from "./ask.js";
import { Chart } from "./chart.js";
import { Collection } from "./collection.js";
import { card, make } from "./dom.js";
import { brief, duration, number } from "./format.js";
import { Series } from "./series.js";
import { TimeSpan } from "./timespan.js";

const MOST_CHARTS = 12;

export class QueuesTab {
  constructor() {
    this.charts = new Map();
    this.past = new Map();
    this.time = new TimeSpan(3600, () => this._recallAll());
    this.list = new Collection(
      "queues",
      "Queues",
      [
        { title: "Queue", sort: "queue", text: (row) => row.queue },
        { title: "State", sort: "state", brief: true, text: (row) => row.state },
        { title: "What holds it up", text: (row) => row.diagnosis },
        { title: "Waiting", sort: "waiting", number: true, text: (row) => number(row.waiting) },
        { title: "Running", sort: "running", number: true, text: (row) => number(row.running) },
        { title: "Oldest", sort: "oldest-seconds", number: true, text: (row) => duration(row["oldest-seconds"]) },
        { title: "Workers idle", sort: "workers-idle", number: true, text: (row) => number(row["workers-idle"]) },
        { title: "busy", sort: "workers-busy", number: true, text: (row) => number(row["workers-busy"]) },
        { title: "In /s", sort: "arrivals-per-second", number: true, text: (row) => brief(row["arrivals-per-second"]) },
        { title: "Out /s", sort: "services-per-second", number: true, text: (row) => brief(row["services-per-second"]) },
        { title: "Put", sort: "put", number: true, text: (row) => number(row.put) },
        { title: "Success", sort: "success", number: true, text: (row) => number(row.success) },
        { title: "Failure", sort: "failure", number: true, text: (row) => number(row.failure) },
        { title: "Timeout", sort: "timeout", number: true, text: (row) => number(row.timeout) },
        { title: "Lost", sort: "lost", number: true, text: (row) => number(row.lost) },
        { title: "Buried", sort: "buried", number: true, text: (row) => number(row.buried) },
      ],
      (row) => row.queue,
      "There are no queues: the configuration has no queues:.",
    );
    this.search = this.list.search;
    this.place = make("div", { class: "charts" });
    this.element = make(
      "div",
      { class: "tab" },
      card("Queues", [this.search], this.list.element),
      make("div", { class: "row" }, this.time.element),
      this.place,
    );
  }

  /** Without queues there is nothing to show. */
  isOffered({ frame }) {
    return Boolean(frame?.queues);
  }

  /** The stream began, or began again: there may be other queues. */
  outline() {
    this.past.clear();
    this.list.reset();
  }

  /** Ask for the past of all queues with charts, as far as the charts show it. */
  _recallAll() {
    for (const name of this.charts.keys()) this._recall(name).catch(noPast);
  }

  async _recall(name) {
    const found = await get(`/api/v1/queues/${encodeURIComponent(name)}/history?seconds=${this.time.needed}`);
    const now = performance.now() / 1000;
    const past = new Series(6);
    found["seconds-ago"].forEach((ago, place) =>
      past.add(
        now - ago,
        found.waiting[place],
        found.running[place],
        found["workers-idle"][place] + found["workers-busy"][place],
        found["arrivals-per-second"][place],
        found["services-per-second"][place],
      ),
    );
    this.past.set(name, past);
  }

  /** A frame arrived; also called when the tab is hidden. */
  always({ frame }) {
    const now = performance.now() / 1000;
    for (const [name, waiting, running, idle, busy, arrivals, services] of frame.queues ?? []) {
      if (!this.past.has(name)) {
        this.past.set(name, new Series(6));
        if (this.past.size <= MOST_CHARTS) this._recall(name).catch(noPast);
      }
      this.past.get(name).add(now, waiting, running, idle + busy, arrivals, services);
    }
  }

  frame({ frame }) {
    this.list.ask();
    const names = (frame.queues ?? []).slice(0, MOST_CHARTS).map(([name]) => name);
    for (const name of this.charts.keys()) if (!names.includes(name)) this._remove(name);
    for (const name of names) {
      if (!this.charts.has(name)) this._add(name);
      const { depth, rates } = this.charts.get(name);
      const { times, rows } = this.past.get(name);
      depth.show(times, rows[0], rows[1], rows[2]);
      rates.show(times, rows[3], rows[4]);
    }
  }

  shown() {
    this.list.ask(true);
  }

  _add(name) {
    const { time } = this;
    const depth = new Chart(
      "Jobs and workers",
      [
        ["waiting", "series-2"],
        ["running", "series-1"],
        ["workers", "series-3"],
      ],
      { time, axis: "real" },
    );
    const rates = new Chart(
      "Jobs per second",
      [
        ["in", "series-2"],
        ["out", "series-1"],
      ],
      { unit: " /s", time, axis: "real" },
    );
    const element = card(`Queue ${name}`, [], make("div", { class: "stack" }, depth.element, rates.element));
    this.charts.set(name, { depth, rates, element });
    this.place.append(element);
  }

  /** A queue is gone: the fleet is another. */
  _remove(name) {
    const { depth, rates, element } = this.charts.get(name);
    for (const chart of [depth, rates]) chart.remove();
    element.remove();
    this.charts.delete(name);
  }
}

// Queues: jobs, rates and workers; a chart for each queue.
import { get } from "./ask.js";
import { Chart } from "./chart.js";
import { card, make } from "./dom.js";
import { brief, duration, number } from "./format.js";
import { Polling } from "./polling.js";
import { Series } from "./series.js";
import { Table } from "./table.js";
import { TimeSpan } from "./timespan.js";

const MOST_CHARTS = 12;

export class QueuesTab {
  constructor() {
    this.charts = new Map();
    this.past = new Map();
    this.time = new TimeSpan(() => this._recallAll());
    this.table = new Table(
      "Queues",
      [
        { title: "Queue", text: (row) => row.queue },
        { title: "State", brief: true, text: (row) => row.state },
        { title: "Waiting", number: true, text: (row) => number(row.waiting) },
        { title: "Running", number: true, text: (row) => number(row.running) },
        { title: "Oldest", number: true, text: (row) => duration(row["oldest-seconds"]) },
        { title: "Workers idle", number: true, text: (row) => number(row["workers-idle"]) },
        { title: "busy", number: true, text: (row) => number(row["workers-busy"]) },
        { title: "In /s", number: true, text: (row) => brief(row["arrivals-per-second"]) },
        { title: "Out /s", number: true, text: (row) => brief(row["services-per-second"]) },
        { title: "Put", number: true, text: (row) => number(row.put) },
        { title: "Success", number: true, text: (row) => number(row.success) },
        { title: "Failure", number: true, text: (row) => number(row.failure + row.timeout) },
        { title: "Lost", number: true, text: (row) => number(row.lost) },
        { title: "Buried", number: true, text: (row) => number(row.buried) },
      ],
      (row) => row.queue,
      "There are no queues: the configuration has no queues:.",
    );
    this.place = make("div", { class: "charts" });
    this.element = make(
      "div",
      { class: "tab" },
      card("Queues", [], this.table.element),
      make("div", { class: "row" }, this.time.element),
      this.place,
    );
    this.polling = new Polling("/api/v1/queues?limit=100", (value) => value && this.table.show(value.queues));
  }

  outline() {
    this.past.clear();
  }

  /** Ask for the past of all queues with charts, as far as the charts show it. */
  _recallAll() {
    for (const name of this.charts.keys()) this._recall(name).catch(() => null); // asked again with the next stream
  }

  async _recall(name) {
    const found = await get(`/api/v1/queues/${encodeURIComponent(name)}/history?seconds=${this.time.seconds}`);
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
        if (this.past.size <= MOST_CHARTS) this._recall(name).catch(() => null); // asked again with the next stream
      }
      this.past.get(name).add(now, waiting, running, idle + busy, arrivals, services);
    }
  }

  frame({ frame }) {
    this.polling.ask();
    for (const [name] of (frame.queues ?? []).slice(0, MOST_CHARTS)) {
      if (!this.charts.has(name)) this._add(name);
      const { depth, rates } = this.charts.get(name);
      const { times, rows } = this.past.get(name);
      depth.show(times, rows[0], rows[1], rows[2]);
      rates.show(times, rows[3], rows[4]);
    }
  }

  shown() {
    this.polling.ask(true);
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
      { time },
    );
    const rates = new Chart(
      "Jobs per second",
      [
        ["in", "series-2"],
        ["out", "series-1"],
      ],
      { unit: " /s", time },
    );
    this.charts.set(name, { depth, rates });
    this.place.append(card(`Queue ${name}`, [], make("div", { class: "stack" }, depth.element, rates.element)));
  }
}

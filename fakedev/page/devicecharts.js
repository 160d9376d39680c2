// Charts of one device, or of several over each other: the last hour, and the day before it with its extremes.
import { get, noPast } from "./ask.js";
import { Chart } from "./chart.js";
import { make, put } from "./dom.js";
import { Polling } from "./polling.js";
import { Series } from "./series.js";
import { noteWalls } from "./walltime.js";

const CHARTS = [
  ["usage_ratio", "Usage", "series-1", 100, { unit: " %", most: 100 }],
  ["power_watts", "Power", "series-4", 1, { unit: " W" }],
  ["temperature_celsius", "Temperature", "series-2", 1, { unit: " °C", least: null, span: 10 }],
  ["core_frequency_mhz", "Core clock", "series-3", 1, { unit: " MHz" }],
  ["memory_used_bytes", "Memory in use", "series-1", 2 ** -30, { unit: " GiB" }],
];
/** Devices over each other: as many as there are colours. */
export const MOST_DEVICES = 8;
/** The newest seconds, asked for again and again. */
const NEWEST = 10;

export class DeviceCharts {
  /** @param time the TimeSpan of the charts. */
  constructor(time) {
    this.time = time;
    this.names = [];
    this.charts = [];
    this.place = make("div", { class: "stack" });
    this.note = make("p", { class: "note" });
    this.element = make("div", { class: "stack" }, this.place, this.note);
    this.polling = new Polling("", (found) => found && (this._add(found), this._draw()));
  }

  /** Show devices; without names nothing. */
  of(names) {
    if (String(names) === String(this.names)) return;
    const isSame = names.length === 1 && this.names.length === 1;
    this.names = names;
    if (!isSame) this._make();
    this.past = new Series(this.charts.length * names.length * 3);
    this._draw();
    this.polling.path = this._path(NEWEST);
    this.recall();
  }

  /** A new tick arrived. */
  frame() {
    if (this.names.length) this.polling.ask();
  }

  /** Ask for the past, as far as the charts show it. */
  recall() {
    if (this.names.length) this._recall(this.names).catch(noPast);
  }

  /** Show the limits of the only device. */
  limits(limits) {
    for (const { name, factor, chart } of this.charts)
      chart.limits((limits[name] ?? []).map(([line, most]) => [line, most * factor, line === "limit" ? "warn" : "bad"]));
  }

  _make() {
    for (const { chart } of this.charts) chart.remove();
    const { names, time } = this;
    this.charts = CHARTS.slice(0, names.length && CHARTS.length).map(([name, title, tint, factor, options]) => {
      const series = names.length > 1 ? names.map((device, place) => [device, `series-${place + 1}`]) : [[title, tint]];
      return { name, factor, chart: new Chart(title, series, { height: names.length > 1 ? 140 : 100, time, ...options }) };
    });
    this.place.replaceChildren(...this.charts.map(({ chart }) => chart.element));
  }

  _path(seconds) {
    return `/api/v1/history?devices=${encodeURIComponent(this.names.join(","))}&seconds=${seconds}`;
  }

  async _recall(names) {
    const found = await get(this._path(this.time.needed));
    if (names !== this.names) return;
    noteWalls(found);
    put(this.note, thinning(found, this.time));
    const newer = this.past;
    this.past = new Series(newer.rows.length);
    this._add(found);
    newer.times.forEach((time, place) => this.past.add(time, ...newer.rows.map((row) => row[place])));
    this._draw();
  }

  /** Add what is newer: of each device and quantity the value, the lowest and the highest. */
  _add({ seconds, quantities, lowest, highest }) {
    const rows = this.names.flatMap((device) =>
      this.charts.flatMap(({ name, factor }) => {
        const values = quantities[device]?.[name] ?? [];
        return [values, lowest?.[device][name] ?? [], highest?.[device][name] ?? []].map(
          (row) => (place) => scaled(place < row.length ? row[place] : values[place], factor),
        );
      }),
    );
    seconds.forEach((time, place) => this.past.add(time, ...rows.map((value) => value(place))));
  }

  _draw() {
    const { charts, names, past } = this;
    charts.forEach(({ chart }, row) => {
      const at = (device) => 3 * (device * charts.length + row);
      const values = names.map((_, device) => past.rows[at(device)]);
      chart.element.hidden = past.times.length > 0 && values.every((each) => each.every((value) => value === null));
      chart.show(past.times, ...values, ...(names.length === 1 ? past.rows.slice(at(0) + 1, at(0) + 3) : []));
    });
  }
}

/** How what is older than an hour is shown, in words. */
export function thinning({ lowest, "point-seconds": seconds }, { needed }) {
  if (needed <= 3600) return "";
  if (!seconds) return "The fleet is so large that fakedev keeps no day of each device.";
  return lowest ? `Older values are thinned: a line of means of ${seconds / 60} min, in a shade from the lowest to the highest.` : "";
}

function scaled(value, factor) {
  return value === null || value === undefined ? null : value * factor;
}

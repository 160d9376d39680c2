// One device: its parts, the reasons for its values, charts of the last minutes, its links, and all values.
import { get, noPast } from "./ask.js";
import { Chart } from "./chart.js";
import { card, make, put } from "./dom.js";
import { quantity, words } from "./format.js";
import { Connections } from "./links.js";
import { list, pairs } from "./lists.js";
import { PartsList } from "./parts.js";
import { Polling } from "./polling.js";
import { HEALTH_WORDS } from "./scales.js";
import { Series } from "./series.js";

const FACTS = ["uuid", "product_name", "pci_address", "serial", "pod", "namespace", "container"];
const CHARTS = [
  ["usage_ratio", "Usage", "series-1", 100, { unit: " %", most: 100 }],
  ["power_watts", "Power", "series-4", 1, { unit: " W" }],
  ["temperature_celsius", "Temperature", "series-2", 1, { unit: " °C", least: null, span: 10 }],
  ["core_frequency_mhz", "Core clock", "series-3", 1, { unit: " MHz" }],
  ["memory_used_bytes", "Memory in use", "series-1", 2 ** -30, { unit: " GiB" }],
];

export class DevicePanel {
  /** @param time the TimeSpan of its charts. */
  constructor(app, time) {
    this.app = app;
    this.time = time;
    this.name = "";
    this.title = make("h2");
    this.type = make("p", { class: "note" });
    this.why = make("ul", { class: "why" });
    this.reasons = make("details", { open: true }, make("summary", {}, "Why it is so"), this.why);
    this.charts = CHARTS.map(([name, title, tint, factor, options]) => ({
      name,
      factor,
      chart: new Chart(title, [[title, tint]], { height: 100, time, ...options }),
    }));
    this.parts = new PartsList(app);
    this.connections = new Connections();
    this.facts = make("dl", { class: "facts" });
    this.values = make("dl", { class: "facts" });
    const close = make(
      "button",
      { type: "button", class: "small", "aria-label": "Close the device", onclick: () => app.go("fleet", "") },
      "Close",
    );
    const work = make(
      "button",
      { type: "button", class: "small main", onclick: () => app.give("workloads", this.name) },
      "Put work on it",
    );
    const fault = make(
      "button",
      { type: "button", class: "small", onclick: () => app.give("faults", this.name) },
      "Inject a fault",
    );
    this.actions = make("div", { class: "row" }, work, fault);
    this.element = card(
      "",
      [close],
      this.type,
      this.actions,
      this.parts.element,
      this.reasons,
      make(
        "div",
        { class: "stack" },
        ...this.charts.map(({ chart }) => chart.element),
        this.connections.element,
        make("details", {}, make("summary", {}, "What it is"), this.facts),
        make("details", {}, make("summary", {}, "All values"), this.values),
      ),
    );
    this.element.querySelector("h2").replaceWith(this.title);
    this.element.hidden = true;
    this.past = new Series(CHARTS.length);
    this.polling = new Polling("", (value, error) => this._show(value, error));
  }

  /** Show a device; an empty name closes it. */
  open(name) {
    this.element.hidden = !name;
    if (name !== this.name) this._forget();
    if (!name) {
      this.name = "";
      return;
    }
    this.name = name;
    put(this.title, name);
    this.past.clear();
    this._draw();
    this.polling.path = address(name);
    this.recall();
    this.polling.ask(true);
  }

  /** Nothing is known of another device. */
  _forget() {
    this.parts.of("");
    put(this.type, "Loading…");
    this.reasons.hidden = true;
    this.connections.element.hidden = true;
    for (const place of [this.facts, this.values]) list(place, []);
  }

  /** A new tick arrived. */
  frame() {
    if (!this.name) return;
    this.polling.ask();
    this.parts.frame();
  }

  /** Ask for the past of the open device, as far as the charts show it. */
  recall() {
    if (this.name) this._recall(this.name).catch(noPast);
  }

  async _recall(name) {
    const { seconds, quantities } = await get(`${address(name)}/history?seconds=${this.time.needed}`);
    if (name !== this.name) return;
    const newer = this.past;
    this.past = new Series(CHARTS.length);
    seconds.forEach((time, place) =>
      this.past.add(time, ...CHARTS.map(([key, , , factor]) => scaled(quantities[key]?.[place], factor))),
    );
    newer.times.forEach(
      (time, place) => time > (seconds.at(-1) ?? 0) && this.past.add(time, ...newer.rows.map((row) => row[place])),
    );
    this._draw();
  }

  _show(value, error) {
    if (error) {
      put(this.type, `Cannot be loaded: ${error.message}`);
      return;
    }
    const { quantities, facts, health, explained = [], limits = {} } = value;
    if (value.device !== this.name) return;
    const matter = health && health !== "well" ? `, ${HEALTH_WORDS[health]}` : "";
    put(this.type, `${value.type}${facts.pod ? `, used by ${facts.pod}` : ""}${matter}`);
    const frame = this.app.live.frame;
    if (frame) this.past.add(frame.seconds, ...CHARTS.map(([key, , , factor]) => scaled(quantities[key], factor)));
    for (const { name, factor, chart } of this.charts)
      chart.limits((limits[name] ?? []).map(([line, most]) => [line, most * factor, line === "limit" ? "warn" : "bad"]));
    this._draw();
    this.reasons.hidden = explained.length === 0;
    pairs(
      this.why,
      explained.map(({ metric, value: shown, text }) => [`${words(metric)} ${quantity(metric, shown)}`, text]),
    );
    this.parts.of(address(value.device), value.parts);
    this.connections.element.hidden = false;
    this.connections.show(value);
    list(
      this.facts,
      FACTS.filter((name) => facts[name]).map((name) => [words(name), facts[name]]),
    );
    list(
      this.values,
      Object.entries(quantities).map(([name, shown]) => [words(name), quantity(name, shown)]),
    );
  }

  _draw() {
    this.charts.forEach(({ chart }, row) => {
      const values = this.past.rows[row];
      chart.element.hidden = values.length > 0 && values.every((value) => value === null);
      chart.show(this.past.times, values);
    });
  }
}

function address(name) {
  const cut = name.lastIndexOf("/");
  return `/api/v1/devices/${encodeURIComponent(name.slice(0, cut))}/${name.slice(cut + 1)}`;
}

function scaled(value, factor) {
  return value === null || value === undefined ? null : value * factor;
}

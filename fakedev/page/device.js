// One device: its parts, the reasons for its values, charts of the last minutes, its links, and all values.
import { DeviceCharts } from "./devicecharts.js";
import { card, make, put } from "./dom.js";
import { quantity, words } from "./format.js";
import { Connections } from "./links.js";
import { list, pairs } from "./lists.js";
import { PartsList } from "./parts.js";
import { Polling } from "./polling.js";
import { HEALTH_WORDS } from "./scales.js";

const FACTS = ["uuid", "product_name", "pci_address", "serial", "pod", "namespace", "container"];
export class DevicePanel {
  /** @param time the TimeSpan of its charts. */
  constructor(app, time) {
    this.app = app;
    this.name = "";
    this.title = make("h2");
    this.type = make("p", { class: "note" });
    this.why = make("ul", { class: "why" });
    this.reasons = make("details", { open: true }, make("summary", {}, "Why it is so"), this.why);
    this.charts = new DeviceCharts(time);
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
        this.charts.element,
        this.connections.element,
        make("details", {}, make("summary", {}, "What it is"), this.facts),
        make("details", {}, make("summary", {}, "All values"), this.values),
      ),
    );
    this.element.querySelector("h2").replaceWith(this.title);
    this.element.hidden = true;
    this.polling = new Polling("", (value, error) => this._show(value, error));
  }

  /** Show a device; an empty name closes it. */
  open(name) {
    this.element.hidden = !name;
    if (name !== this.name) this._forget();
    this.charts.of(name ? [name] : []);
    if (!name) {
      this.name = "";
      return;
    }
    this.name = name;
    put(this.title, name);
    this.polling.path = address(name);
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
    this.charts.frame();
    this.parts.frame();
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
    this.charts.limits(limits);
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
}

function address(name) {
  const cut = name.lastIndexOf("/");
  return `/api/v1/devices/${encodeURIComponent(name.slice(0, cut))}/${name.slice(cut + 1)}`;
}

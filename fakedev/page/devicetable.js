// The table of devices: sorted and searched by the service, and chosen for work, faults, and to clear their faults.
import { attempt, change, get, say } from "./ask.js";
import { Collection } from "./collection.js";
import { MOST_DEVICES } from "./devicecharts.js";
import { make, put } from "./dom.js";
import { number, quantity } from "./format.js";
import { HEALTH_WORDS } from "./scales.js";

export class DeviceTable {
  constructor(app) {
    this.app = app;
    this.live = app.live;
    this.chosen = new Set();
    const value = (name, title) => ({ title, sort: name, number: true, text: ({ quantities }) => quantity(name, quantities[name]) });
    this.list = new Collection(
      "devices",
      "Devices",
      [
        { title: "", element: ({ device }) => this._box(device) },
        { title: "Device", sort: "device", element: ({ device }) => make("a", { href: `#fleet/${device}` }, device) },
        { title: "Model", sort: "type", text: (row) => row.type },
        { title: "Condition", text: (row) => this._health(row.device) },
        value("usage_ratio", "Usage"),
        value("memory_used_bytes", "Memory"),
        value("power_watts", "Power"),
        value("temperature_celsius", "Temperature"),
        { title: "Clock", number: true, text: ({ quantities }) => quantity("core_frequency_mhz", quantities.core_frequency_mhz) },
        { title: "Pod", text: ({ facts }) => facts.pod ?? "" },
      ],
      (row) => row.device,
      "There are no devices.",
    );
    this.count = make("span", { class: "note", role: "status" });
    const button = (text, onclick, style = "") => make("button", { type: "button", class: `small ${style}`.trim(), onclick }, text);
    this.actions = [
      button("Put work on them", () => this._give("workloads"), "main"),
      button("Inject a fault", () => this._give("faults")),
      button("Clear their faults", () => this._clear()),
      button("Choose none", () => this._none()),
    ];
    this.compare = button("Compare in charts", () => app.go("fleet", [...this.chosen].join(",")));
    const page = make("button", { type: "button", class: "small", onclick: () => this._page() }, "Choose this page");
    this.element = make("div", { class: "stack" }, make("div", { class: "row" }, this.list.search, page, this.count, this.compare, ...this.actions), this.list.element);
    this._show();
  }

  /** Another fleet. */
  reset() {
    this._none();
    this.list.reset();
  }

  frame() {
    this.list.ask();
  }

  _box(device) {
    const box = make("input", { type: "checkbox", "aria-label": `Choose ${device}`, checked: this.chosen.has(device) });
    box.addEventListener("change", () => {
      this.chosen[box.checked ? "add" : "delete"](device);
      this._show();
    });
    return box;
  }

  _boxes() {
    return [...this.list.table.rows].map(([device, line]) => [device, line.querySelector("input")]);
  }

  _page() {
    for (const [device, box] of this._boxes()) {
      box.checked = true;
      this.chosen.add(device);
    }
    this._show();
  }

  _none() {
    this.choose([]);
  }

  /** Choose some devices, and no others. */
  choose(names) {
    this.chosen = new Set(names);
    for (const [device, box] of this._boxes()) box.checked = this.chosen.has(device);
    this._show();
  }

  _show() {
    put(this.count, this.chosen.size ? `${number(this.chosen.size)} chosen` : "");
    for (const each of [...this.actions, this.compare]) each.disabled = !this.chosen.size;
    const isTooMany = this.chosen.size > MOST_DEVICES;
    if (isTooMany) this.compare.disabled = true;
    this.compare.title = isTooMany ? `One chart shows at most ${MOST_DEVICES} devices` : "";
  }

  _health(device) {
    const { outline, frame } = this.live;
    const place = this.live.place(device);
    return place < 0 || !frame ? "" : HEALTH_WORDS[outline.health[frame.health[place]]];
  }

  _give(tab) {
    this.app.give(tab, [...this.chosen].join(", "));
  }

  async _clear() {
    const words = encodeURIComponent([...this.chosen].join(","));
    const found = await attempt(() => get(`/api/v1/faults?devices=${words}`));
    if (!found) return;
    for (const { id } of found.faults) await attempt(() => change("DELETE", `/api/v1/faults/${encodeURIComponent(id)}`));
    say(found.faults.length ? `${found.faults.map(({ id, kind }) => `${kind} (${id})`).join(", ")}: cleared` : "They have no faults");
  }
}

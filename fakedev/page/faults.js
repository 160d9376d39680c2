// Faults: inject and clear them; the journal shows their effects.
import { confirmed, curlButton, rowAction } from "./actions.js";
import { attempt, change, get } from "./ask.js";
import { Collection } from "./collection.js";
import { card, field, make, put, select } from "./dom.js";
import { duration, moment, number } from "./format.js";
import { HEALTH_WORDS } from "./scales.js";
import { Table } from "./table.js";
import { dayText } from "./walltime.js";

const MOST_TROUBLED = 50;
const OF_WORKLOADS = ["start", "stop", "drop", "ended"];
const OF_FAULTS = ["fault", "clear", "began", "struck", "eased", "over"];
/** What boards and workloads do all the time. */
const USUAL = [...OF_WORKLOADS, "throttled_power"].map((kind) => `-${kind}`);
const CLEAR_ALL = ["DELETE", "/api/v1/faults"];
const OF_DEVICES = ["throttled_thermal", "throttled_power", "throttled_hardware", "hung", "lost", "xid"];
const NOT_VALUES = new Set([
  "id",
  "state",
  "kind",
  "devices",
  "node",
  "start",
  "duration",
  "every",
  "probability",
  "metric",
  "device-count",
  "active-devices",
  "since-seconds",
  "remaining-seconds",
]);

export class FaultsTab {
  constructor(app) {
    this.app = app;
    this.kinds = new Map();
    this.kind = select("kind", [], "");
    this.kind.addEventListener("change", () => this._choose());
    this.summary = make("p", { class: "note" });
    this.takes = make("div", { class: "takes" });
    const input = (name, attributes = {}) => make("input", { name, autocomplete: "off", ...attributes });
    this.form = make(
      "form",
      { class: "fields", onsubmit: (event) => (event.preventDefault(), this._inject()) },
      field("Kind", this.kind),
      field("Devices", input("devices", { required: true, placeholder: "dgx-0/3, dgx-[0-3]/*, all" })),
      field("For (empty: until cleared)", input("duration", { placeholder: "10m" })),
      field("Repeat every", input("every", { placeholder: "30s" })),
      field("Probability", input("probability", { type: "number", min: "0", max: "1", step: "any", placeholder: "1" })),
      this.takes,
      make(
        "div",
        { class: "row" },
        make("button", { class: "main" }, "Inject"),
        curlButton("inject the fault", () => this._request()),
      ),
    );
    // Without the kinds there is nothing to send.
    this._enable(false);
    this.list = new Collection(
      "faults",
      "Faults",
      [
        { title: "Id", sort: "id", text: (row) => row.id, brief: true },
        { title: "Kind", sort: "kind", text: (row) => row.kind, brief: true },
        { title: "With", text: (row) => valuesOf(row) },
        {
          title: "Devices",
          text: (row) => `${row.devices.slice(0, 4).join(", ")}${row.node ? ` on ${row.node}` : ""}`,
        },
        {
          title: "On",
          sort: "active-devices",
          number: true,
          text: (row) => `${number(row["active-devices"])} of ${number(row["device-count"])}`,
        },
        { title: "State", sort: "state", text: (row) => row.state, brief: true },
        {
          title: "Left",
          sort: "remaining-seconds",
          number: true,
          text: (row) => (row["remaining-seconds"] === null ? "until cleared" : duration(row["remaining-seconds"])),
        },
        {
          title: "",
          element: (row) =>
            rowAction(
              "Clear",
              `Clear ${row.kind} (${row.id})`,
              ["DELETE", `/api/v1/faults/${encodeURIComponent(row.id)}`],
              `${row.kind} is cleared`,
              () => this.shown(),
            ),
        },
      ],
      (row) => row.id,
      "No faults are injected.",
    );
    this.troubled = new Table(
      "Devices in trouble",
      [
        { title: "Device", element: (row) => make("a", { href: `#fleet/${row.device}` }, row.device) },
        { title: "Condition", text: (row) => HEALTH_WORDS[row.health] },
        {
          title: "",
          element: ({ device }) =>
            rowAction(
              "Reset",
              `Reset ${device}`,
              ["POST", "/api/v1/faults", { kind: "reset", devices: [device] }],
              `${device} is reset`,
              () => this.shown(),
            ),
        },
      ],
      (row) => row.device,
      "No device is in trouble.",
    );
    this.moreTroubled = make("p", { class: "note" });
    this.journal = new Collection(
      "journal",
      "Journal",
      [
        { title: "Tick", sort: "tick", number: true, text: (row) => number(row.tick) },
        { title: "At", brief: true, text: (row) => dayText(Date.parse(row.at) / 1000) },
        { title: "What", sort: "kind", text: (row) => row.kind, brief: true },
        { title: "Where", sort: "scope", text: (row) => row.scope },
        { title: "Text", sort: "text", text: (row) => row.text },
        { title: "Cause", sort: "cause", text: (row) => row.cause, brief: true },
      ],
      null,
      "Nothing has happened yet.",
    );
    this.past = new Collection(
      "past-faults",
      "Past faults",
      [
        { title: "Id", sort: "id", text: (row) => row.id, brief: true },
        { title: "Kind", sort: "kind", text: (row) => row.kind, brief: true },
        { title: "Affected", sort: "affected", text: (row) => row.affected },
        { title: "From", sort: "since-seconds", number: true, text: (row) => moment(row["since-seconds"]) },
        { title: "To", sort: "ended-tick", number: true, text: (row) => moment(row["ended-seconds"]) },
        { title: "Over at", brief: true, text: (row) => dayText(Date.parse(row["ended-at"]) / 1000) },
      ],
      (row) => row.id,
      "No fault is over yet.",
    );
    this.search = this.list.search;
    this.entries = select(
      "entries",
      [
        [USUAL.join(), "All but work and the power limit"],
        [OF_FAULTS.join(), "Faults"],
        [OF_DEVICES.join(), "Devices"],
        [OF_WORKLOADS.join(), "Workloads"],
        ["", "All"],
      ],
      "",
    );
    this.entries.selectedIndex = 0;
    this.entries.addEventListener("change", () => this._tellOf());
    this._tellOf();
    const all = make(
      "span",
      { class: "actions" },
      make("button", { type: "button", class: "small", onclick: () => this._clearAll() }, "Clear all"),
      curlButton("clear all faults", () => CLEAR_ALL),
    );
    this.element = make(
      "div",
      { class: "tab" },
      card("Inject a fault", [], this.summary, this.form),
      card("Faults", [this.search, all], this.list.element),
      card(
        "Devices in trouble",
        [make("span", { class: "note" }, "errors stay after their fault, until a reset")],
        this.troubled.element,
        this.moreTroubled,
      ),
      card("Past faults", [this.past.search], this.past.element),
      card(
        "Journal",
        [
          this.journal.search,
          make("label", { class: "check" }, "Of", this.entries),
          make("span", { class: "note" }, "newest first"),
        ],
        this.journal.element,
      ),
    );
  }

  /** The stream began, or began again: the fleet may be another. */
  async outline() {
    for (const each of [this.list, this.past, this.journal, this.troubled]) each.reset();
    put(this.moreTroubled, "");
    try {
      this._offer((await get("/api/v1/fault-kinds")).kinds);
    } catch (error) {
      put(this.summary, `The kinds of faults cannot be loaded: ${error.message}`);
    }
  }

  _offer(kinds) {
    const chosen = this.kind.value || "inlet";
    this.kinds = new Map(kinds.map((kind) => [kind.kind, kind]));
    this.kind.replaceChildren(
      ...kinds.map(({ kind }) => make("option", { value: kind, selected: kind === chosen }, kind)),
    );
    this._enable(true);
    this._choose();
  }

  _enable(isOn) {
    for (const button of this.form.querySelectorAll("button")) button.disabled = !isOn;
  }

  frame(live) {
    this._showTroubled(live);
    this.list.ask();
    this.past.ask();
    this.journal.ask();
  }

  shown() {
    this.list.ask(true);
    this.past.ask(true);
    this.journal.ask(true);
  }

  /** Put the name of a device into the form. */
  give(what) {
    if (typeof what === "string") this.form.elements.devices.value = what;
    else this._fill(what.words);
    this.kind.focus();
  }

  /** Fill the form from words as `fakedev fault` takes them: KIND NAME=VALUE ... */
  _fill(words) {
    const [kind, ...pairs] = words.split(" ");
    if (!this.kinds.has(kind)) return;
    this.kind.value = kind;
    this._choose();
    const { elements } = this.form;
    for (const [name, value] of pairs.map((pair) => pair.split("="))) {
      const input = elements[`value-${name}`] ?? elements[name];
      if (input) input.value = value;
    }
  }

  _showTroubled({ frame, outline }) {
    const least = outline.health.indexOf("heat");
    const found = [];
    let more = 0;
    frame.health.forEach((health, place) => {
      if (health < least) return;
      if (found.length < MOST_TROUBLED) found.push({ device: this.app.live.name(place), health: outline.health[health] });
      else more++;
    });
    this.troubled.show(found);
    put(this.moreTroubled, more ? `and ${number(more)} more; the tile "In trouble" of the fleet shows all on the map` : "");
  }

  _choose() {
    const kind = this.kinds.get(this.kind.value);
    if (!kind) return;
    put(this.summary, `${kind.kind}: ${kind.summary}. Over: ${kind.recovery}.`);
    const fields = kind.takes.map((each) =>
      field(
        `${each.name}: ${each.summary}`,
        make("input", {
          name: `value-${each.name}`,
          type: "number",
          min: each.low,
          max: each.high,
          step: each.whole ? "1" : "any",
          required: each.default === null,
          placeholder: each.default === null ? "" : String(each.default),
        }),
      ),
    );
    if (kind["takes-metric"])
      fields.push(field("Only the metric", make("input", { name: "metric", placeholder: "all" })));
    this.takes.replaceChildren(...fields);
  }

  _tellOf() {
    this.journal.query = this.entries.value ? `&kind=${this.entries.value}` : "";
  }

  _request() {
    const { elements } = this.form;
    const body = { kind: this.kind.value, devices: elements.devices.value.split(/[\s,]+/).filter(Boolean) };
    for (const name of ["duration", "every", "metric"])
      if (elements[name]?.value.trim()) body[name] = elements[name].value.trim();
    if (elements.probability.value) body.probability = Number(elements.probability.value);
    for (const { name } of this.kinds.get(this.kind.value).takes)
      if (elements[`value-${name}`].value) body[name] = Number(elements[`value-${name}`].value);
    return ["POST", "/api/v1/faults", body];
  }

  async _inject() {
    await attempt(
      () => change(...this._request()),
      (made) => `${made.kind} is injected as ${made.id}`,
    );
    this.shown();
  }

  async _clearAll() {
    if (!(await confirmed("Clear all faults, also those that the configuration injected?", "Clear all faults"))) return;
    await attempt(
      () => change(...CLEAR_ALL),
      ({ cleared }) => `${cleared.length} cleared`,
    );
    this.shown();
  }
}

function valuesOf(row) {
  const shown = Object.entries(row).filter(([name, value]) => !NOT_VALUES.has(name) && value !== null);
  for (const name of ["metric", "every", "probability"]) if (row[name] !== undefined) shown.push([name, row[name]]);
  return shown.map(([name, value]) => `${name} ${value}`).join(", ");
}

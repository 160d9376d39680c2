// The parts of a device, instances or tiles: health and user of each, and the reasons for the values of opened parts.
import { make, put } from "./dom.js";
import { number, quantity, words } from "./format.js";
import { list, pairs } from "./lists.js";
import { Polling } from "./polling.js";
import { HEALTH_WORDS } from "./scales.js";
import { Bar } from "./tiles.js";

const FACTS = ["part_uuid", "mig_profile", "mig_id", "pod", "namespace", "container"];

export class PartsList {
  constructor(app) {
    this.app = app;
    this.rows = new Map();
    this.title = make("summary");
    this.rowsElement = make("ul", { class: "parts" });
    this.element = make("details", { open: true, ontoggle: () => this.frame(true) }, this.title, this.rowsElement);
    this.element.hidden = true;
    this.polling = new Polling("", (value, error) => this._answer(value, error));
  }

  /** Show the parts of a device, by their names. */
  of(address, names = []) {
    this.element.hidden = names.length === 0;
    const path = names.length ? `${address}/parts` : "";
    if (path === this.polling.path) return;
    this.polling.path = path;
    this._show([]);
    put(this.title, "Parts");
    this.frame(true);
  }

  /** A new tick arrived: ask for the parts while they are visible. */
  frame(now = false) {
    if (!this.polling.path || !this.element.open) return;
    this.polling.ask(now);
    for (const row of this.rows.values()) row.frame();
  }

  _answer(value, error) {
    if (error) put(this.title, `Parts: cannot be loaded: ${error.message}`);
    else this._show(value.parts);
  }

  _show(parts) {
    const names = new Set(parts.map(({ part }) => part));
    for (const [name, row] of this.rows)
      if (!names.has(name)) {
        row.element.remove();
        this.rows.delete(name);
      }
    if (parts.length) put(this.title, titleOf(parts));
    parts.forEach((part, place) => {
      if (!this.rows.has(part.part)) this.rows.set(part.part, new PartRow(this.app, part.part));
      const row = this.rows.get(part.part);
      row.show(part);
      if (this.rowsElement.children[place] !== row.element)
        this.rowsElement.insertBefore(row.element, this.rowsElement.children[place] ?? null);
    });
  }
}

class PartRow {
  constructor(app, name) {
    this.name = make("b", {}, name);
    this.kind = make("span", { class: "note" });
    this.health = make("span", { class: "state" });
    this.load = new Bar("Load");
    this.memory = new Bar("Memory");
    this.users = make("p", { class: "note" });
    this.why = make("ul", { class: "why" });
    this.facts = make("dl", { class: "facts" });
    const give = (tab, text) =>
      make(
        "button",
        { type: "button", class: "small", "aria-label": `${text}: ${name}`, onclick: () => app.give(tab, name) },
        text,
      );
    this.more = make(
      "details",
      { ontoggle: () => this.frame(true) },
      make("summary", {}, "More", make("span", { class: "unseen" }, ` of ${name}`)),
      make(
        "div",
        { class: "stack" },
        this.why,
        this.facts,
        make("div", { class: "row" }, give("workloads", "Put work on it"), give("faults", "Inject a fault")),
      ),
    );
    this.element = make(
      "li",
      {},
      make("div", { class: "part" }, this.name, this.kind, this.health),
      this.load.element,
      this.memory.element,
      this.users,
      this.more,
    );
    const cut = name.lastIndexOf("/");
    const [node, index] = split(name.slice(0, cut));
    this.polling = new Polling(
      `/api/v1/devices/${encodeURIComponent(node)}/${index}/${name.slice(cut + 1)}`,
      (value, error) => this._explain(value, error),
    );
  }

  /** Show the values of all parts. */
  show({ facts, quantities, health, workloads, "more-workloads": others = 0 }) {
    put(this.kind, facts.mig_profile ? `${facts.mig_profile}, id ${facts.mig_id}` : "tile");
    put(this.health, health === "error" ? `XID ${number(quantities.xid)}` : HEALTH_WORDS[health]);
    this.health.dataset.health = health;
    const { usage_ratio: usage, memory_used_bytes: used, memory_total_bytes: total } = quantities;
    this.load.show(usage, quantity("usage_ratio", usage));
    this.memory.show(used / total, `${quantity("_bytes", used)} of ${quantity("_bytes", total)}`);
    const own = facts.mig_profile ? [] : ["core_frequency_mhz", "power_watts", "temperature_celsius"];
    const named = workloads.map(({ id, name }) => `${id} ${name}`);
    put(
      this.users,
      [
        ...own.filter((name) => name in quantities).map((name) => quantity(name, quantities[name])),
        facts.pod ? `pod ${facts.pod}` : "no pod",
        named.length ? `work: ${named.join(", ")}${others ? ` and ${others} more` : ""}` : "no work",
      ].join(" · "),
    );
  }

  /** Ask for the details of opened parts. */
  frame(now = false) {
    if (this.more.open) this.polling.ask(now);
  }

  _explain(value, error) {
    if (error) {
      pairs(this.why, [["Cannot be loaded", error.message]]);
      return;
    }
    const { explained, facts } = value;
    pairs(
      this.why,
      explained.map(({ metric, value, text }) => [`${words(metric)} ${quantity(metric, value)}`, text]),
    );
    list(
      this.facts,
      FACTS.filter((name) => facts[name]).map((name) => [words(name), facts[name]]),
    );
  }
}

function titleOf(parts) {
  const isDivided = Boolean(parts[0].facts.mig_profile);
  const used = parts.filter(({ workloads }) => workloads.length).length;
  return `${parts.length} ${isDivided ? "instances (MIG)" : "tiles"}, ${used} at work`;
}

function split(name) {
  const cut = name.lastIndexOf("/");
  return [name.slice(0, cut), name.slice(cut + 1)];
}

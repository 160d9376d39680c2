// Why: paste a PromQL expression, or name a device, pod, workload, queue, page: why it is as it is, and what changes it.
import { get, Refused } from "./ask.js";
import { card, field, make, put } from "./dom.js";
import { Table } from "./table.js";

export class WhyTab {
  constructor(app) {
    this.app = app;
    this.input = make("textarea", {
      name: "of",
      required: true,
      rows: "2",
      onkeydown: (event) => event.key === "Enter" && !event.shiftKey && (event.preventDefault(), this._ask()),
      autocomplete: "off",
      spellcheck: "false",
      placeholder: 'DCGM_FI_DEV_GPU_TEMP{gpu="3"} > 90, dgx-0/3, a pod, a workload, a queue, /metrics',
    });
    this.search = this.input;
    this.form = make(
      "form",
      { class: "stack", onsubmit: (event) => (event.preventDefault(), this._ask()) },
      field("A query, an alert rule, a metric, or the name of anything", this.input, "", true),
      make("div", { class: "row" }, make("button", { class: "main" }, "Why?")),
    );
    this.title = make("p", { class: "note", role: "status" });
    this.lines = make("ul", { class: "why" });
    this.selectors = new Table(
      "Metrics of the query",
      [
        { title: "Metric", text: (row) => row.metric },
        { title: "Series", number: true, text: (row) => row.series },
        { title: "That match", number: true, text: (row) => row.matching },
      ],
      (row) => row.metric,
      "",
    );
    this.faults = make("div", { class: "row" });
    this.change = make("div", { class: "stack" }, make("h3", {}, "Make it fire"), make("p", { class: "note" }, "Each fills the form of a fault: choose the devices, then inject it."), this.faults);
    this.charts = make("button", { type: "button", class: "small", onclick: () => this.app.go("fleet", this.app.firings.at(-1).device) }, "Show when it fired in the charts");
    this.selectors.element.hidden = this.change.hidden = this.charts.hidden = true;
    this.element = make(
      "div",
      { class: "tab" },
      card("Why is it so?", [], this.form, this.title, this.selectors.element, this.lines, this.charts, this.change),
    );
  }

  /** Ask what an address names: #why/TEXT. */
  open(text) {
    if (!text || text === this.asked) return;
    this.input.value = text;
    this._ask();
  }

  async _ask() {
    const text = (this.asked = this.input.value.trim());
    put(this.title, "Loading…");
    this.app.place(`why/${encodeURIComponent(text)}`);
    let found = { lines: [], kind: "" };
    try {
      found = await get(`/api/v1/why?of=${encodeURIComponent(text)}`);
      if (text !== this.asked) return;
      put(this.title, found.kind === "query" ? "" : `${found.kind} ${found.name}`);
    } catch (error) {
      put(this.title, error instanceof Refused ? error.message : "no connection");
    }
    this.lines.replaceChildren(...found.lines.map((line) => make("li", {}, line)));
    this.selectors.element.hidden = !found.selectors;
    if (found.selectors) this.selectors.show(found.selectors);
    this.app.firings = found.marks ?? [];
    this.charts.hidden = !this.app.firings.length;
    const faults = found["faults-for"] ?? [];
    this.change.hidden = !faults.length;
    this.faults.replaceChildren(
      ...faults.map((words) => make("button", { type: "button", class: "small", onclick: () => this.app.give("faults", { words }) }, words)),
    );
  }
}

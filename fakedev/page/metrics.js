// Metrics: the identities of the fleet, the pages, and the configuration for Prometheus.
import { copy } from "./actions.js";
import { Collection } from "./collection.js";
import { card, make } from "./dom.js";
import { duration, number } from "./format.js";
import { Polling } from "./polling.js";
import { Table } from "./table.js";

export class MetricsTab {
  constructor() {
    this.identities = new Table(
      "Identities",
      [
        { title: "Identity", text: (row) => row.identity },
        { title: "Families", number: true, text: (row) => number(row.families.length) },
        { title: "Not simulated yet", text: (row) => row.absent.join(", ") || "–" },
        { title: "At times only", text: (row) => row.conditional.join(", ") || "–" },
        { title: "Content-Type", text: (row) => row["content-type"] },
      ],
      (row) => row.identity,
      "",
    );
    this.exporters = new Table(
      "Exporter addresses",
      [
        { title: "Address", text: (row) => row.address },
        { title: "Path", text: (row) => row.path, brief: true },
        { title: "Pool", text: (row) => row.pool ?? "all" },
        { title: "Identity", text: (row) => row.identity },
        { title: "Holds", text: (row) => (row["hold-seconds"] ? duration(row["hold-seconds"]) : "–") },
        { title: "Tick shown", number: true, text: (row) => number(row.tick) },
        { title: "Age", number: true, text: (row) => duration(row["age-seconds"]) },
      ],
      (row) => `${row.address} ${row.path} ${row.pool}`,
      "No address shows metrics.",
    );
    this.ages = new Polling("/api/v1/exporters", (value, error) => (error ? this.exporters.fail(error) : this.exporters.show(value.exporters)));
    this.targets = new Collection(
      "nodes",
      "Targets",
      [
        { title: "Node", sort: "node", text: (row) => row.node },
        { title: "Pool", sort: "pool", text: (row) => row.pool },
        { title: "Devices", sort: "devices", number: true, text: (row) => number(row.devices) },
        { title: "Model", sort: "device-type", text: (row) => row["device-type"] },
        { title: "Identity", sort: "identity", text: (row) => row.identity },
        { title: "Page", element: (row) => make("a", { href: row.metrics }, row.metrics) },
      ],
      (row) => row.node,
      "There are no nodes.",
    );
    this.search = this.targets.search;
    this.scrape = make("pre", { tabindex: "0", "aria-label": "Scrape configuration" }, scrapeConfiguration());
    const button = make("button", { type: "button", class: "small", onclick: () => copy(this.scrape.textContent) }, "Copy");
    const pages = [
      ["/metrics", "the whole fleet"],
      ["/workloads/metrics", "our own series of workloads"],
      ["/queues/metrics", "work queues"],
      ["/-/metrics", "fakedev itself"],
      ["/sd", "service discovery"],
      ["/health", "health"],
    ];
    this.polling = new Polling("/api/v1/identities", (value, error) => this._show(value, error));
    this.pages = new Map(
      pages.map(([path, text]) => [path, make("li", {}, make("a", { href: path }, path), ` ${text}`)]),
    );
    this.element = make(
      "div",
      { class: "tab" },
      card(
        "For prometheus.yml",
        [button],
        make("p", { class: "note" }, "A target for each node, found by service discovery."),
        this.scrape,
      ),
      card(
        "Identities",
        [],
        make("p", { class: "note" }, "The exporters that the pages imitate."),
        this.identities.element,
      ),
      card(
        "Pages",
        [],
        make("ul", {}, ...this.pages.values()),
      ),
      card("Exporter addresses", [], make("p", { class: "note" }, "What each page shows now, and how old that is."), this.exporters.element),
      card("Targets", [this.search], this.targets.element),
    );
  }

  /** The stream began, or began again: the fleet may be another. */
  outline() {
    this.isKnown = false;
    this.identities.reset();
    this.exporters.reset();
    this.targets.reset();
  }

  frame({ frame }) {
    this.pages.get("/queues/metrics").hidden = !frame.queues;
    if (!this.isKnown) this.polling.ask();
    this.targets.ask();
    this.ages.ask();
  }

  shown() {
    this.targets.ask(true);
  }

  _show(value, error) {
    this.isKnown = !error; // else asked again
    if (error) this.identities.fail(error);
    else this.identities.show(value.identities);
  }
}

function scrapeConfiguration() {
  return `scrape_configs:\n  - job_name: gpus\n    scrape_interval: 15s\n    http_sd_configs:\n      - url: ${location.origin}/sd\n`;
}

// Metrics: the identities of the fleet, the pages, and the configuration for Prometheus.
import { get, say } from "./ask.js";
import { card, make, put } from "./dom.js";
import { number } from "./format.js";
import { Table } from "./table.js";

const MOST_TARGETS = 100;

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
    this.targets = new Table(
      "Targets",
      [
        { title: "Instance", text: (row) => row.labels.instance },
        { title: "Pool", text: (row) => row.labels.pool },
        {
          title: "Page",
          element: (row) => make("a", { href: row.labels.__metrics_path__ }, row.labels.__metrics_path__),
        },
      ],
      (row) => row.labels.instance,
      "",
    );
    this.more = make("p", { class: "note" });
    this.scrape = make("pre", { tabindex: "0", "aria-label": "Scrape configuration" }, scrapeConfiguration());
    const copy = make("button", { type: "button", class: "small", onclick: () => this._copy() }, "Copy");
    const pages = [
      ["/metrics", "the whole fleet"],
      ["/workloads/metrics", "our own series of workloads"],
      ["/queues/metrics", "work queues, where there are some"],
      ["/-/metrics", "fakedev itself"],
      ["/sd", "service discovery"],
      ["/health", "health"],
    ];
    this.element = make(
      "div",
      { class: "tab" },
      card(
        "For prometheus.yml",
        [copy],
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
        make("ul", {}, ...pages.map(([path, text]) => make("li", {}, make("a", { href: path }, path), ` ${text}`))),
      ),
      card("Targets", [], this.targets.element, this.more),
    );
  }

  outline() {
    this.isKnown = false;
  }

  frame() {
    if (!this.isKnown) this._ask().catch(() => (this.isKnown = false));
  }

  async _ask() {
    this.isKnown = true;
    const [{ identities }, targets] = await Promise.all([get("/api/v1/identities"), get("/sd")]);
    this.identities.show(identities);
    this.targets.show(targets.slice(0, MOST_TARGETS));
    put(this.more, targets.length > MOST_TARGETS ? `The first ${MOST_TARGETS} of ${number(targets.length)}.` : "");
  }

  async _copy() {
    try {
      await navigator.clipboard.writeText(this.scrape.textContent);
      say("Copied");
    } catch {
      // Only secure pages may write to the clipboard; other pages select the text.
      getSelection().selectAllChildren(this.scrape);
      say("Selected: copy it with Ctrl-C");
    }
  }
}

function scrapeConfiguration() {
  return `scrape_configs:\n  - job_name: gpus\n    scrape_interval: 15s\n    http_sd_configs:\n      - url: ${location.origin}/sd\n`;
}

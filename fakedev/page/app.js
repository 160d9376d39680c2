// The page: its tabs, the stream behind them, and the place in it (#tab or #fleet/DEVICE).
import "./theme.js";
import { Clock } from "./clock.js";
import { make, put } from "./dom.js";
import { FaultsTab } from "./faults.js";
import { FleetTab } from "./fleet.js";
import { Keys } from "./keys.js";
import { Live } from "./live.js";
import { MetricsTab } from "./metrics.js";
import { QueuesTab } from "./queues.js";
import { ScenarioTab } from "./scenario.js";
import { TesterTab } from "./tester.js";
import { WhyTab } from "./why.js";
import { WorkloadsTab } from "./workloads.js";

/** The tabs, each with the documents of what it shows. */
const TABS = [
  ["fleet", "Fleet", FleetTab, "devices", "simulation", "topology"],
  ["workloads", "Workloads", WorkloadsTab, "workloads", "protocol-workload.txt"],
  ["faults", "Faults", FaultsTab, "faults"],
  ["queues", "Queues", QueuesTab, "work-queue"],
  ["tester", "Tester", TesterTab, "tester"],
  ["metrics", "Metrics", MetricsTab, "identities", "workloads"],
  ["scenario", "Scenario", ScenarioTab, "scenarios"],
  ["why", "Why", WhyTab, "faults", "alert-rules"],
];

/** Active faults that are named above every tab. */
const MOST_FAULTS = 3;
const STATES = {
  connecting: "loading",
  live: "live",
  stale: "no answer",
  lost: "no connection, trying again",
  resting: "paused while hidden",
};

class App {
  constructor() {
    this.live = new Live();
    this.clock = new Clock(this.live);
    document.querySelector(".now").prepend(this.clock.element);
    /** When the rule that was pasted last fired, for the charts. */
    this.firings = [];
    this.tabs = new Map();
    this.buttons = new Map();
    const [list, main] = [document.getElementById("tabs"), document.getElementById("main")];
    for (const [name, title, Tab] of TABS) {
      const tab = new Tab(this);
      const button = make(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${name}`,
          "aria-controls": `panel-${name}`,
          onclick: () => this.go(name, ""),
          onkeydown: (event) => this._turn(event, name),
        },
        title,
      );
      for (const [key, value] of Object.entries({
        role: "tabpanel",
        id: `panel-${name}`,
        "aria-labelledby": `tab-${name}`,
      }))
        tab.element.setAttribute(key, value);
      this.tabs.set(name, tab);
      this.buttons.set(name, button);
      list.append(button);
      main.append(tab.element);
    }
    new Keys(
      () => this._offered().map((name, place) => [this.buttons.get(name).textContent, String(place + 1), () => this.go(name, "")]),
      () => this.tabs.get(this.shown).search,
      () => this.go(this.shown, ""),
    );
    // What scrolls into view stops below the header, which stays.
    const header = document.querySelector(".bar");
    new ResizeObserver(() =>
      document.documentElement.style.setProperty("--bar", `${header.offsetHeight + 8}px`),
    ).observe(header);
    this.live.on("outline", () => this._outline());
    this.live.on("frame", () => this._frame());
    this.live.on("state", () => this._state());
    addEventListener("hashchange", () => this._place());
    this._place();
    this._state();
    setInterval(() => this.live.state === "stale" && this._state(), 1000);
    this.live.start();
  }

  /** Go to a tab.
   * @param what the name of a device there, or nothing.
   */
  go(tab, what) {
    location.hash = what ? `${tab}/${what}` : tab;
  }

  /** Go to a tab and put something into its form. */
  give(tab, what) {
    this.go(tab, "");
    this._place();
    this.tabs.get(tab).give(what);
  }

  /** Show another address without going there. */
  place(where) {
    history.replaceState(null, "", `#${where}`);
  }

  _place() {
    const [path, query] = location.hash.slice(1).split("?");
    const [wanted, ...rest] = decoded(path).split("/");
    this.shown = this.tabs.has(wanted) ? wanted : "fleet";
    for (const [name, tab] of this.tabs) {
      const isShown = name === this.shown;
      tab.element.hidden = !isShown;
      this.buttons.get(name).setAttribute("aria-selected", String(isShown));
      this.buttons.get(name).tabIndex = isShown ? 0 : -1;
    }
    this._offer();
    this._document();
    const tab = this.tabs.get(this.shown);
    if (query) tab.restore?.(new URLSearchParams(query));
    tab.open?.(rest.join("/"));
    tab.shown?.();
    if (this.live.frame) tab.frame?.(this.live);
  }

  /** Links to the documents of the open tab, and to that of the page itself. */
  _document() {
    const [, , , ...named] = TABS.find(([name]) => name === this.shown);
    const links = [...named, "web-page"].map((name) => (name.includes(".") ? name : `${name}.md`));
    const place = document.getElementById("documents");
    place.replaceChildren("Documents of this tab: ", ...links.flatMap((name) => [make("a", { href: `/page/doc/${name}` }, name), " "]));
  }

  _turn(event, name) {
    const names = this._offered();
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = names[(names.indexOf(name) + step + names.length) % names.length];
    this.buttons.get(next).focus();
    this.go(next, "");
  }

  /** Some tabs are offered only where there is something for them, or when an address names them. */
  _offer() {
    for (const [name, tab] of this.tabs)
      this.buttons.get(name).hidden = name !== this.shown && !(tab.isOffered?.(this.live) ?? true);
  }

  /** The names of the tabs that can be seen. */
  _offered() {
    return [...this.tabs.keys()].filter((name) => !this.buttons.get(name).hidden);
  }

  _outline() {
    put(document.getElementById("version"), `fakedev ${this.live.outline.version}; none of these devices exist.`);
    for (const tab of this.tabs.values()) tab.outline?.(this.live);
  }

  _frame() {
    const { frame } = this.live;
    this.clock.frame(frame);
    this._offer();
    const trouble = document.getElementById("trouble");
    trouble.hidden = !frame.trouble;
    put(trouble, frame.trouble ? `The simulation has a problem: ${frame.trouble}` : "");
    this._showFaults(frame);
    for (const [name, tab] of this.tabs) {
      tab.always?.(this.live);
      if (name === this.shown) tab.frame?.(this.live);
    }
  }

  /** What makes the numbers unusual: active faults of every scope, a clock that stands. */
  _showFaults(frame) {
    const strip = document.getElementById("active");
    const named = frame.faults.slice(0, MOST_FAULTS).map(([id, kind, scope, where]) => `${id} ${kind} on ${scope === "page" ? "the page of " : ""}${where}`);
    const count = frame["fault-count"];
    const more = count > named.length ? ` and ${count - named.length} more` : "";
    const faults = count ? `${count === 1 ? "A fault is" : `${count} faults are`} active: ${named.join("; ")}${more}` : "";
    const paused = frame.speed || frame.advance ? "" : "The clock is paused";
    strip.hidden = !faults && !paused;
    put(strip.firstElementChild, [paused, faults].filter(Boolean).join(". "));
  }

  _state() {
    const link = document.getElementById("link");
    link.dataset.state = this.live.state;
    const { state } = this.live;
    // An old value is shown with its age.
    const age = state === "stale" ? Math.round((performance.now() - this.live.frameTime) / 1000) : 0;
    put(link, age ? `no answer for ${age} s` : STATES[state]);
    document.body.classList.toggle("stale", ["lost", "stale"].includes(this.live.state));
    document.body.classList.toggle("loading", !this.live.frame);
  }
}

/** A part of an address as text; empty when it is malformed. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

new App();

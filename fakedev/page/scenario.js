// Scenario: how far it is, its timeline, and its occurrences; only where a service plays one.
import { Collection } from "./collection.js";
import { card, make, put } from "./dom.js";
import { duration, moment, number } from "./format.js";
import { Polling } from "./polling.js";
import { Timeline } from "./timeline.js";

const PATH = "/api/v1/scenario";

export class ScenarioTab {
  constructor(app) {
    this.live = app.live;
    this.nothing = make("p", { class: "note" }, "Loading…");
    this.title = make("h2");
    this.state = make("span", { class: "note", role: "status" });
    this.bar = make("progress", { value: "0", "aria-label": "How far the scenario is" });
    this.far = make("p");
    this.next = make("p", { class: "note" });
    this.timeline = new Timeline();
    this.failed = make("p", { class: "note", hidden: true });
    this.list = new Collection(
      "occurrences",
      "Occurrences",
      [
        { title: "Time", sort: "seconds", brief: true, text: (row) => moment(row.seconds) },
        { title: "What", sort: "words", text: (row) => (row.name && !row["is-end"] ? `${row.name}: ${row.words}` : row.words) },
        { title: "Devices", element: (row) => make("span", {}, ...this._devices(row)) },
        { title: "Until", brief: true, text: untilOf },
        { title: "State", sort: "state", brief: true, text: (row) => row.state, state: (row) => row.state },
        { title: "Problem", text: (row) => row.problem ?? "" },
      ],
      (row) => row.number,
      "Nothing happens in this scenario.",
    );
    this.list.folder = PATH;
    this.search = this.list.search;
    this.all = make(
      "div",
      { class: "tab" },
      make("section", { class: "card" }, make("header", {}, this.title, this.state), this.far, this.bar, this.next),
      card("Timeline", [], this.timeline.element, this.failed),
      card("Occurrences", [this.search], this.list.element),
    );
    this.all.hidden = true;
    this.element = make("div", {}, this.nothing, this.all);
    this.polling = new Polling(PATH, (value, error) => this._show(value, error));
  }

  /** Whether there is anything to show. */
  isOffered({ frame }) {
    return Boolean(frame?.scenario);
  }

  /** The stream began, or began again: another scenario may be played. */
  outline() {
    this.changes = -1;
    put(this.nothing, "Loading…");
    this.nothing.hidden = false;
    this.all.hidden = true;
    this.timeline.reset();
    this.list.reset();
  }

  frame({ frame }) {
    const { scenario, seconds } = frame;
    this.all.hidden = !scenario;
    this.nothing.hidden = Boolean(scenario);
    if (!scenario) {
      put(this.nothing, "No scenario is played: start the service with --scenario FILE.");
      return;
    }
    const { name, "span-seconds": span, "is-over": isOver, played, total, next } = scenario;
    put(this.title, `Scenario ${name}`);
    put(this.state, isOver ? "over" : frame.advance ? "advances" : frame.speed ? "runs" : "paused");
    this.bar.max = span;
    this.bar.value = Math.min(seconds, span);
    const reached = Math.floor(Math.min(seconds, span));
    const share = Math.floor((100 * reached) / span);
    put(this.far, `${moment(reached)} of ${moment(span)} (${share} %); ${number(played)} of ${number(total)} played`);
    put(this.next, isOver ? "The simulation goes on." : next ? `Next ${inTime(next[0] - seconds)}, at ${moment(next[0])}: ${next[1]}` : "Nothing more is to come.");
    this.timeline.frame(seconds);
    // The timeline is the same until an occurrence changes its state.
    if (this.changes !== scenario.changes) this.polling.ask();
    this.list.ask();
  }

  shown() {
    if (!this.isOffered(this.live)) return;
    this.polling.ask(true);
    this.list.ask(true);
  }

  _show(value, error) {
    this.failed.hidden = !error;
    if (error) {
      put(this.failed, `Cannot be loaded: ${error.message}`);
      this.timeline.reset();
      this.changes = -1; // asked again
    } else {
      this.changes = value.changes;
      this.timeline.show(value);
    }
  }

  /** Devices as links to their charts, where a word names just one. */
  _devices({ devices, node, "more-devices": more }) {
    const words = devices.flatMap((word, place) => {
      const name = node && !word.includes("/") ? `${node}/${word}` : word;
      const device = name.split("/", 2).join("/");
      const isOne = this.live.outline && this.live.place(device) >= 0;
      return [place ? ", " : "", isOne ? make("a", { href: `#fleet/${name}` }, name) : name];
    });
    return more ? [...words, ` and ${number(more)} more`] : words;
  }
}

function inTime(seconds) {
  return seconds > 0 ? `in ${duration(seconds)}` : "with the next tick";
}

/** When what an occurrence starts ends, or ended. */
function untilOf(row) {
  if (row["is-end"] || !["run", "fault"].includes(row.kind) || row.state === "refused") return "–";
  return row["ends-seconds"] === null ? "open" : moment(row["ends-seconds"]);
}

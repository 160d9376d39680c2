// The simulated clock in the header: pause, speed, and advances with their progress.
import { curlButton } from "./actions.js";
import { attempt, change } from "./ask.js";
import { field, make, put } from "./dom.js";
import { duration, number } from "./format.js";

const PATH = "/api/v1/clock";
const SPEEDS = [0.1, 0.5, 1, 2, 10, 60, 100];
const ADVANCES = [["5 min", "5m"], ["1 h", "1h"], ["1 day", "1d"]];
const PACES = { 0: "paused", 1: "at the speed of real time" };
const STOP = ["PATCH", PATH, { advance: null }];

export class Clock {
  constructor(live) {
    this.live = live;
    this.before = 1; // the speed before a pause
    this.time = make("span", { class: "time" });
    this.pace = make("span");
    this.button = make(
      "button",
      { type: "button", id: "clock", class: "quiet", title: "Simulated time: pause, speed, advance", "aria-haspopup": "dialog", onclick: () => this.dialog.showModal() },
      make("span", { class: "unseen" }, "Clock: "),
      this.time,
      this.pace,
    );
    this.button.hidden = true;
    this.switch = this._switch("quiet");
    this.element = make("span", { class: "clock" }, this.switch, this.button);
    this.dialog = this._dialog();
    document.body.append(this.dialog);
  }

  /** A new frame. */
  frame({ tick, seconds, speed, advance }) {
    if (speed) this.before = speed;
    this.button.hidden = this.switch.hidden = false;
    const done = advance && (100 * (tick - advance[0])) / (advance[1] - advance[0]);
    put(this.time, `${duration(seconds)} `);
    put(this.pace, advance ? `→ ${number(Math.floor(done))} %` : speed ? `${speed}×` : "paused");
    const text = speed ? "Pause" : "Continue";
    put(this.bigSwitch, text);
    this.switch.dataset.sign = speed ? "pause" : "play"; // drawn: not every font has these signs
    for (const button of [this.switch, this.bigSwitch]) button.title = `${text} the clock`;
    this.switch.setAttribute("aria-label", `${text} the clock`);
    put(this.now, `Tick ${number(tick)}: ${duration(seconds)} of simulated time, ${PACES[speed] ?? `at ${speed} times the speed of real time`}.`);
    for (const [value, button] of this.speeds) button.setAttribute("aria-pressed", String(value === speed));
    this.progress.hidden = !advance;
    this.start.hidden = Boolean(advance);
    if (!advance) return;
    this.bar.value = done;
    const left = (advance[1] - tick) * this.live.outline["tick-seconds"];
    put(this.reached, `${number(Math.floor(done))} % of the way to tick ${number(advance[1])}; ${duration(left)} of simulated time left`);
  }

  _switch(style) {
    return make("button", { type: "button", class: style, hidden: true, onclick: () => this._change(this._pauseRequest()) });
  }

  _pauseRequest() {
    return ["PATCH", PATH, { speed: this.live.frame?.speed === 0 ? this.before : 0 }];
  }

  _speedRequest() {
    return ["PATCH", PATH, { speed: Number(this.speed.value) }];
  }

  _advanceRequest() {
    const text = this.far.value.trim();
    return ["POST", PATH, { advance: /^\d+(\.\d+)?$/.test(text) ? Number(text) : text }];
  }

  _change(request, done) {
    return attempt(() => change(...request), done);
  }

  _setSpeed() {
    this._change(this._speedRequest(), ({ speed }) => (speed ? `The clock runs at ${speed}×` : "The clock is paused"));
  }

  _advance() {
    // The answer comes at the end of the advance, which ends when this page is closed.
    this._change(this._advanceRequest(), ({ tick }) => `The clock is at tick ${number(tick)}`);
  }

  _dialog() {
    this.now = make("p", { class: "note" });
    this.bigSwitch = this._switch("main");
    this.bigSwitch.hidden = false;
    this.speed = make("input", { type: "number", min: "0", step: "any", value: "1", required: true });
    this.speeds = SPEEDS.map((value) => [
      value,
      make("button", { type: "button", class: "small", "aria-label": `Speed ${value}`, onclick: () => ((this.speed.value = value), this._setSpeed()) }, `${value}×`),
    ]);
    this.far = make("input", { autocomplete: "off", required: true, value: "10m", size: "8" });
    this.bar = make("progress", { max: "100", value: "0", "aria-label": "Progress of the advance" });
    this.reached = make("span", { class: "note" });
    this.progress = make(
      "div",
      { class: "stack" },
      this.bar,
      this.reached,
      make("div", { class: "row" }, make("button", { type: "button", class: "danger", onclick: () => this._change(STOP) }, "Stop the advance"), curlButton("stop the advance", () => STOP)),
    );
    this.progress.hidden = true;
    this.start = make(
      "div",
      { class: "stack" },
      make(
        "div",
        { class: "row" },
        ...ADVANCES.map(([text, value]) =>
          make("button", { type: "button", class: "small", "aria-label": `Advance by ${text}`, onclick: () => ((this.far.value = value), this._advance()) }, text),
        ),
      ),
      make(
        "form",
        { class: "row", onsubmit: (event) => (event.preventDefault(), this._advance()) },
        field("Time, as 90s, 15m, 2h", this.far),
        make("button", { class: "main" }, "Advance"),
        curlButton("advance the clock", () => this._advanceRequest()),
      ),
    );
    return make(
      "dialog",
      { "aria-labelledby": "clock-title", class: "stack clock-dialog" },
      make("h2", { id: "clock-title" }, "Simulated clock"),
      this.now,
      make("div", { class: "row" }, this.bigSwitch, curlButton("pause or continue the clock", () => this._pauseRequest())),
      make("h3", {}, "Speed"),
      make("div", { class: "row" }, ...this.speeds.map(([, button]) => button)),
      make(
        "form",
        { class: "row", onsubmit: (event) => (event.preventDefault(), this._setSpeed()) },
        field("Times real time", this.speed),
        make("button", { class: "main" }, "Set"),
        curlButton("set the speed", () => this._speedRequest()),
      ),
      make("h3", {}, "Advance"),
      this.progress,
      this.start,
      make("form", { method: "dialog" }, make("button", {}, "Close")),
    );
  }
}

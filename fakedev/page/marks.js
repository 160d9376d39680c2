// What happened, as marks of charts: faults, work, reloads, from the journal; and when a rule fired, from the tab Why.
import { Polling } from "./polling.js";

/** Kinds of entries, and the colours of their marks. */
const TINTS = {
  fault: "bad",
  began: "bad",
  struck: "bad",
  xid: "bad",
  lost: "bad",
  hung: "bad",
  throttled_thermal: "warn",
  throttled_hardware: "warn",
  fires: "warn",
  clear: "good",
  over: "good",
  start: "series-3",
  stop: "series-3",
  ended: "series-3",
  reload: "soft",
  reset: "soft",
  nodes: "soft",
  clock: "soft",
};
const MOST = 200;
const WAIT = 3000;

export class Marks {
  /** @param time the TimeSpan that gets the marks. */
  constructor(app, time) {
    this.app = app;
    this.time = time;
    this.next = 0;
    this.polling = new Polling("", (value) => value && this._show(value));
    this.of("");
  }

  /** Only what concerns a device, and what concerns all; an empty name: everything. */
  of(device) {
    this.device = device;
    this.polling.path = `/api/v1/journal?limit=${MOST}&kind=${Object.keys(TINTS).filter((kind) => kind !== "fires").join(",")}${device ? `&devices=${encodeURIComponent(device)}` : ""}`;
    this.next = 0;
  }

  /** A new tick arrived. */
  frame() {
    if (performance.now() < this.next) return;
    this.next = performance.now() + WAIT;
    this.polling.ask();
  }

  _show({ journal }) {
    const devices = this.device.split(",");
    const ruled = this.app.firings.filter(({ device }) => !this.device || devices.includes(device));
    this.time.marks = [...ruled.map((mark) => ({ scope: mark.device, ...mark })), ...journal].map(
      ({ seconds, kind, scope, text }) => ({ seconds, tint: TINTS[kind], text: `${scope}: ${text}` }),
    );
  }
}

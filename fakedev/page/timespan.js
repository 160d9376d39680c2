// The span of time that some charts show, and the time that the pointer is at: shared, so that they can be compared.
import { make } from "./dom.js";

const SPANS = [
  [60, "1 min"],
  [300, "5 min"],
  [900, "15 min"],
  [3600, "1 h"],
];
const KEY = "fakedev-span";
let count = 0;

export class TimeSpan {
  /** @param changed called with the chosen seconds: more of the past may be needed. */
  constructor(changed = () => null) {
    this.seconds = Number(localStorage.getItem(KEY)) || 300;
    this.pointed = null;
    this.charts = new Set();
    const name = `span-${++count}`;
    this.element = make(
      "fieldset",
      { class: "choice", "aria-label": "Time shown" },
      ...SPANS.map(([seconds, text]) =>
        make(
          "label",
          {},
          make("input", {
            type: "radio",
            name,
            value: String(seconds),
            checked: seconds === this.seconds,
            onchange: () => {
              this.seconds = seconds;
              localStorage.setItem(KEY, String(seconds));
              this.draw();
              changed(seconds);
            },
          }),
          make("span", {}, text),
        ),
      ),
    );
  }

  /** The pointer is at a time in one of the charts; null when it has left. */
  point(time) {
    this.pointed = time;
    this.draw();
  }

  draw() {
    for (const chart of this.charts) chart.draw();
  }
}

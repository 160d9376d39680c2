// Figures: a row of tiles, and bars.
import { make, put } from "./dom.js";

const UNKNOWN = "–";

export class Tiles {
  /** @param filters for some names: [help, called when the tile is pressed]. */
  constructor(names, filters = {}) {
    this.values = new Map();
    this.buttons = new Map();
    this.element = make("dl", { class: "tiles" });
    for (const name of names) {
      const [value, unit] = [make("span", {}, UNKNOWN), make("small")];
      this.values.set(name, [value, unit]);
      const [help, onclick] = filters[name] ?? [];
      const title = help
        ? make("button", { type: "button", class: "filter", "aria-pressed": "false", title: help, onclick }, name)
        : name;
      if (help) this.buttons.set(name, title);
      const term = make("dt", {}, title);
      this.element.append(make("div", { class: help ? "tile pressed-by" : "tile" }, term, make("dd", {}, value, unit)));
    }
  }

  /** Show whether the filter of a tile is on. */
  press(name, isOn) {
    this.buttons.get(name).setAttribute("aria-pressed", String(isOn));
  }

  /** Forget all figures. */
  reset() {
    for (const name of this.values.keys()) this.set(name, UNKNOWN);
  }

  /** Set a figure. */
  set(name, text, unit = "", isBad = false) {
    const [value, after] = this.values.get(name);
    put(value, text);
    put(after, unit);
    value.parentElement.classList.toggle("bad", isBad);
  }
}

/** A share as a bar between its name and its value. */
export class Bar {
  constructor(name) {
    this.fill = make("span");
    this.value = make("span", { class: "value" });
    this.element = make(
      "span",
      { class: "bar-of" },
      make("span", { class: "note" }, name),
      make("span", { class: "track", "aria-hidden": "true" }, this.fill),
      this.value,
    );
  }

  /** @param share from 0 to 1; nothing for one that is not known. */
  show(share, text) {
    this.fill.style.width = `${100 * Math.min(1, Math.max(0, share || 0))}%`;
    put(this.value, text);
  }
}

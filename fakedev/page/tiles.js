// A row of figures.
import { make, put } from "./dom.js";

export class Tiles {
  constructor(names) {
    this.values = new Map();
    this.element = make("dl", { class: "tiles" });
    for (const name of names) {
      const [value, unit] = [make("span"), make("small")];
      this.values.set(name, [value, unit]);
      this.element.append(make("div", { class: "tile" }, make("dt", {}, name), make("dd", {}, value, unit)));
    }
  }

  /** Set a figure. */
  set(name, text, unit = "", isBad = false) {
    const [value, after] = this.values.get(name);
    put(value, text);
    put(after, unit);
    value.parentElement.classList.toggle("bad", isBad);
  }
}

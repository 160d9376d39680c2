// Repeats a request while its answer is visible: one request at a time, and not too often.
import { get } from "./ask.js";

const LEAST_MILLISECONDS = 900;
// Of the time, an answer that takes long is being made for at most a tenth.
const REST = 10;

export class Polling {
  /** @param show called with the answer, or with null and the error; a lost connection is shown by the header alone. */
  constructor(path, show) {
    this.path = path;
    this._show = show;
    this._asking = false;
    this._next = -Infinity;
  }

  /** Ask, unless a request is under way or was just answered. */
  async ask(now = false) {
    if (this._asking || (!now && performance.now() < this._next)) return;
    this._asking = true;
    const path = this.path;
    const begun = performance.now();
    try {
      const value = await get(path);
      if (path === this.path) this._show(value);
    } catch (error) {
      if (path === this.path && !(error instanceof TypeError)) this._show(null, error);
    } finally {
      this._asking = false;
      const ended = performance.now();
      this._next = ended + Math.max(LEAST_MILLISECONDS, REST * (ended - begun));
      if (path !== this.path && this.path) this.ask(true);
    }
  }
}

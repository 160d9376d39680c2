// Repeats a request while its answer is visible: one request at a time, and not too often.
import { get } from "./ask.js";

const LEAST_MILLISECONDS = 900;

export class Polling {
  constructor(path, show) {
    this.path = path;
    this._show = show;
    this._asking = false;
    this._last = -Infinity;
  }

  /** Ask, unless a request is under way or was just answered. */
  async ask(now = false) {
    if (this._asking || (!now && performance.now() - this._last < LEAST_MILLISECONDS)) return;
    this._asking = true;
    const path = this.path;
    try {
      const value = await get(path);
      if (path === this.path) this._show(value);
    } catch (error) {
      if (!(error instanceof TypeError)) this._show(null, error);
    } finally {
      this._asking = false;
      this._last = performance.now();
    }
  }
}

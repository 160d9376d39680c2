// The live stream: keeps the newest frame, calls back, and reconnects when the server is back.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 5000;
// The service sends a frame at least every second: after three without one, what is shown is old.
const STALE_WAIT = 3000;
// A browser has six connections to a server for all its tabs: hidden tabs close theirs.
const UNSEEN_WAIT = 30000;

export class Live {
  constructor() {
    this.outline = null; // who there is
    this.frame = null; // how they are
    this.state = "connecting"; // live, stale, lost or resting
    this._told = { outline: [], frame: [], state: [] };
    this._wait = FIRST_WAIT;
    this._source = null;
    this._retry = null;
    this._silence = null;
    document.addEventListener("visibilitychange", () => this._seen());
  }

  /** Call back on "outline", "frame" or "state". */
  on(what, tell) {
    this._told[what].push(tell);
  }

  start() {
    this._retry = null;
    const source = (this._source = new EventSource("/api/v1/stream"));
    source.addEventListener("fleet", (event) => {
      this._wait = FIRST_WAIT;
      this.outline = JSON.parse(event.data);
      this.outline.first = firsts(this.outline);
      this.frame = null;
      this._tell("outline");
    });
    source.addEventListener("tick", (event) => {
      this.frame = JSON.parse(event.data);
      this.frameTime = performance.now();
      clearTimeout(this._silence);
      this._silence = setTimeout(() => this._be("stale"), STALE_WAIT);
      this._be("live");
      this._tell("frame");
    });
    source.addEventListener("error", () => {
      this._stop();
      this._be("lost");
      this._retry = setTimeout(() => this.start(), this._wait);
      this._wait = Math.min(2 * this._wait, LONGEST_WAIT);
    });
  }

  /** The number of devices. */
  get count() {
    const last = this.outline.nodes.length - 1;
    return last < 0 ? 0 : this.outline.first[last] + this.pool(last)[2];
  }

  /** The name of a device by its index in the arrays. */
  name(place) {
    const node = this.nodeOf(place);
    return `${this.outline.nodes[node][0]}/${place - this.outline.first[node]}`;
  }

  /** The index of a device by its name; -1 for none. */
  place(name) {
    const cut = name.lastIndexOf("/");
    const node = this.outline?.nodes.findIndex((each) => each[0] === name.slice(0, cut)) ?? -1;
    const index = Number(name.slice(cut + 1));
    if (cut < 1 || node < 0 || !/^\d+$/.test(name.slice(cut + 1))) return -1;
    return index < this.outline.pools[this.outline.nodes[node][1]][2] ? this.outline.first[node] + index : -1;
  }

  /** The index of the node of a device. */
  nodeOf(place) {
    let low = 0;
    let high = this.outline.first.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.outline.first[middle] <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The indices of the devices of a node. */
  devicesOf(node) {
    return Array.from({ length: this.pool(node)[2] }, (_, index) => this.outline.first[node] + index);
  }

  /** The pool of a node: name, type, devices, power limit, memory. */
  pool(node) {
    return this.outline.pools[this.outline.nodes[node][1]];
  }

  /** The page became visible or hidden. */
  _seen() {
    clearTimeout(this._pause);
    if (document.hidden) this._pause = setTimeout(() => this._rest(), UNSEEN_WAIT);
    else if (!this._source && !this._retry) this.start();
  }

  _rest() {
    clearTimeout(this._retry);
    this._retry = null;
    this._stop();
    this._be("resting");
  }

  _stop() {
    clearTimeout(this._silence);
    this._source?.close();
    this._source = null;
  }

  _be(state) {
    if (this.state === state) return;
    this.state = state;
    this._tell("state");
  }

  _tell(what) {
    for (const tell of this._told[what]) tell(this);
  }
}

function firsts(outline) {
  let next = 0;
  return outline.nodes.map(([, pool]) => {
    const first = next;
    next += outline.pools[pool][2];
    return first;
  });
}

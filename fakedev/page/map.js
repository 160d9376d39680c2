// The map: a cell for each device, nodes side by side, pools apart. Only cells with a new colour are drawn again.
import { make, put } from "./dom.js";
import { number } from "./format.js";
import { colours, steps, stepsOf } from "./scales.js";
import { colour, onTheme, theme } from "./theme.js";

const LARGEST = 96;
const WITH_NUMBERS = 40;
const SMALLEST = 6;
const CUT_AT_FOOT = 12;
const DIMMED = 0.12;
const POOL_TITLE = 20;
const POOL_ROOM = 8;
/** Room at the left for the first node of each row, where cells are too small for titles of nodes. */
const ROW_TITLES = 76;
const ZOOMS = [1, 1.5, 2, 3, 4, 6];
/** Browsers draw no canvas that is higher. */
const HIGHEST = 16000;
/** Where cells are that are not shown. */
const AWAY = -1000;
/** Added to the step of a dimmed cell: more than there are steps. */
const DIM = 64;
/** No step: what is to be drawn again. */
const UNKNOWN = 255;
const NUMBER_UNITS = { usage: " %", temperature: " °C", power: " W" };

export class FleetMap {
  /** @param choose called with the index of a device that was clicked, or chosen by Enter. */
  constructor(live, choose) {
    this.live = live;
    this.choose = choose;
    this.scale = "usage";
    /** 1 for each device that is clear, 0 for those that are dimmed, by index; null: all are clear. */
    this.mask = null;
    /** Whether a node is left out, by its index; null: none is. */
    this.hides = null;
    this.zoom = 0;
    this.chosen = -1;
    this.pointed = -1;
    this.canvas = make("canvas", {
      tabindex: "0",
      role: "application",
      "aria-roledescription": "map of devices",
      "aria-label": "Map of all devices. Arrow keys move from device to device, Enter shows its charts.",
    });
    this.tip = make("div", { class: "tip", hidden: true });
    this.spoken = make("div", { class: "unseen", "aria-live": "polite" });
    this.element = make("div", { class: "map" }, this.canvas, this.tip, this.spoken);
    this.paper = this.canvas.getContext("2d");
    // What the canvas shows: the step of each cell, the steps of its pieces, and the number in it.
    this.drawn = this.drawnPieces = this.drawnNumbers = null;
    this.canvas.addEventListener("pointermove", (event) => this._point(this._at(event)));
    this.canvas.addEventListener("pointerleave", () => this._point(-1));
    this.canvas.addEventListener("blur", () => this._point(-1));
    this.canvas.addEventListener("click", (event) => {
      const place = this._at(event);
      if (place >= 0) this.choose(place);
    });
    this.canvas.addEventListener("keydown", (event) => this._key(event));
    new ResizeObserver(() => this.arrange()).observe(this.element);
    onTheme(() => this.redraw());
  }

  /** Colour by another quantity. */
  show(scale) {
    this.scale = scale;
    this.redraw();
  }

  /** Larger or smaller cells. */
  zoomBy(step) {
    this.zoom = Math.max(0, Math.min(ZOOMS.length - 1, this.zoom + step));
    this.arrange();
  }

  /** Mark a device; -1 for none. */
  mark(place) {
    this._clear(this.chosen);
    this.chosen = place;
    this.draw();
  }

  /** Place every cell: with the largest cells that fit on about one screen. */
  arrange() {
    const { outline } = this.live;
    const width = this.element.clientWidth;
    if (!outline || !width) return;
    const height = Math.max(260, 0.55 * innerHeight);
    let cell = LARGEST;
    while (cell > SMALLEST && this._flow(cell, width) > height) cell -= cell > 16 ? 2 : 1;
    const widest = Math.max(...outline.pools.map((pool) => columnsOf(pool[2])));
    cell = Math.min(Math.floor(cell * ZOOMS[this.zoom]), LARGEST, Math.floor((width - 2 * POOL_ROOM) / widest));
    const ratio = devicePixelRatio || 1;
    while (cell > SMALLEST && this._flow(cell, width) * ratio > HIGHEST) cell -= 1;
    this.cells = new Int32Array(2 * this.live.count);
    let next = 0;
    this.firstPieces = outline.divided?.map((pieces) => (next += pieces) - pieces);
    const needed = this._flow(cell, width, this.cells, (this.labels = []), (this.boxes = []));
    this.cell = cell;
    this.element.classList.toggle("zoomed", this.zoom > 0);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(needed * ratio);
    this.canvas.style.height = `${needed}px`;
    this.paper.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.redraw();
  }

  /** Draw all cells. */
  redraw() {
    this.drawn = this.drawnPieces = this.drawnNumbers = null;
    if (this.cells && this.live.frame) {
      this.paper.clearRect(0, 0, this.canvas.width, this.canvas.height);
      this._label();
      this.draw();
    }
  }

  /** Draw the changed cells. */
  draw() {
    const { live, cells, paper } = this;
    if (!cells || !live.frame) return;
    const wanted = steps(this.scale, live);
    const palette = colours(this.scale, theme(), live.outline.health);
    const byStep = new Map();
    // A dimmed cell is another step than a clear one of the same colour.
    const { mask } = this;
    if (mask) for (let place = 0; place < wanted.length; place++) if (!mask[place]) wanted[place] += DIM;
    // Numbers change where colours do not.
    const numbers = this.cell >= WITH_NUMBERS ? live.frame[this.scale] : null;
    const old = numbers && this.drawnNumbers;
    for (let place = 0; place < wanted.length; place++) {
      const isSame = this.drawn && this.drawn[place] === wanted[place];
      if (isSame && (!old || old[place] === numbers[place])) continue;
      if (!byStep.has(wanted[place])) byStep.set(wanted[place], []);
      byStep.get(wanted[place]).push(place);
    }
    const side = this._side();
    for (const [step, places] of byStep) {
      paper.fillStyle = palette[step % DIM] ?? palette.at(-1);
      for (const place of places) {
        if (step >= DIM) {
          paper.clearRect(cells[2 * place], cells[2 * place + 1], side, side);
          paper.globalAlpha = DIMMED;
        }
        paper.fillRect(cells[2 * place], cells[2 * place + 1], side, side);
        paper.globalAlpha = 1;
      }
    }
    const changed = [...byStep.values()].flat();
    this._cut(changed, side);
    this._strips(side, palette, changed);
    this.drawn = wanted;
    this.drawnNumbers = numbers;
    if (numbers)
      for (const place of changed)
        if (wanted[place] < DIM) this._write(place, palette[wanted[place]] ?? palette.at(-1), side);
    for (const place of [this.chosen, this.pointed]) this._frame(place, side);
    if (this.pointed >= 0) this._say();
  }

  /** Mark divided devices: the bottom of a cell in as many pieces, or a cut corner of a small cell. */
  _cut(places, side) {
    const { divided } = this.live.outline;
    if (!divided) return;
    const { cells, paper } = this;
    const [line, foot] = [side > 40 ? 2 : 1, Math.max(2, Math.round(side / 7))];
    paper.fillStyle = colour("card");
    for (const place of places) {
      const pieces = divided[place];
      if (!pieces) continue;
      const [x, y] = [cells[2 * place], cells[2 * place + 1]];
      if (side < CUT_AT_FOOT) {
        paper.fillRect(x + side - foot, y + side - foot, foot, foot);
        continue;
      }
      paper.fillRect(x, y + side - foot - line, side, line);
      if (side < 4 * pieces) continue;
      for (let piece = 1; piece < pieces; piece++)
        paper.fillRect(x + Math.round((piece * side) / pieces), y + side - foot, line, foot);
    }
  }

  /** Colour the pieces of divided devices, where they are large enough, by their own values. */
  _strips(side, palette, changed) {
    const { live, cells, paper } = this;
    const { divided } = live.outline;
    const values = { usage: "instance-usage", health: "instance-health" }[this.scale];
    if (!divided || !live.frame[values] || side < CUT_AT_FOOT) return;
    for (const place of changed) this._forgetPieces(place);
    const [line, foot] = [side > 40 ? 2 : 1, Math.max(2, Math.round(side / 7))];
    const found = stepsOf(this.scale, live.frame[values]);
    const old = this.drawnPieces;
    this.drawnPieces = found.slice();
    divided.forEach((pieces, place) => {
      const first = this.firstPieces[place];
      if (!pieces || side < 4 * pieces || (this.mask && !this.mask[place])) return;
      const [x, y] = [cells[2 * place], cells[2 * place + 1] + side - foot];
      for (let piece = 0; piece < pieces; piece++) {
        if (old && old[first + piece] === found[first + piece]) continue;
        const from = Math.round((piece * side) / pieces) + (piece ? line : 0);
        paper.fillStyle = palette[found[first + piece]] ?? palette.at(-1);
        paper.fillRect(x + from, y, Math.round(((piece + 1) * side) / pieces) - from, foot);
      }
    });
  }

  /** The pieces of a cell are drawn again. */
  _forgetPieces(place) {
    const first = this.firstPieces[place];
    this.drawnPieces?.fill(UNKNOWN, first, first + this.live.outline.divided[place]);
  }

  _frame(place, side) {
    if (place < 0 || 2 * place >= this.cells.length) return;
    this.paper.strokeStyle = colour("ink");
    this.paper.lineWidth = 2;
    this.paper.strokeRect(this.cells[2 * place], this.cells[2 * place + 1], side, side);
    this.drawn[place] = UNKNOWN;
  }

  /** Remove the frame around a cell; the next frame draws the cell again. */
  _clear(place) {
    if (place < 0 || !this.drawn || 2 * place >= this.cells.length) return;
    const side = this._side() + 2;
    this.paper.clearRect(this.cells[2 * place] - 1, this.cells[2 * place + 1] - 1, side, side);
    this.drawn[place] = UNKNOWN;
  }

  _side() {
    return this.cell - (this.cell > 20 ? 3 : this.cell > 9 ? 2 : 1);
  }

  /** Write the number of a device into its cell. */
  _write(place, tint, side) {
    const { paper, cells, live } = this;
    const value = live.frame[this.scale][place];
    const text =
      this.scale === "health" ? live.outline.health[value] : value < 0 ? "–" : `${value}${NUMBER_UNITS[this.scale]}`;
    paper.fillStyle = isDark(tint) ? "#ffffff" : "#10161d";
    paper.font = `600 ${side > 60 ? 15 : 12}px system-ui, 'DejaVu Sans', sans-serif`;
    paper.textAlign = "center";
    paper.fillText(text, cells[2 * place] + side / 2, cells[2 * place + 1] + side / 2 + 5, side - 4);
    paper.textAlign = "left";
  }

  _label() {
    this.paper.fillStyle = colour("soft");
    this.paper.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    for (const [text, x, y, room] of this.labels) this.paper.fillText(cut(this.paper, text, room), x, y);
    this.paper.strokeStyle = colour("line");
    this.paper.lineWidth = 1;
    for (const [text, top, width, height] of this.boxes) {
      this.paper.strokeRect(0.5, top + 0.5, width - 1, height - 1);
      this.paper.font = "600 12px system-ui, 'DejaVu Sans', sans-serif";
      this.paper.fillText(cut(this.paper, text, width - 2 * POOL_ROOM), POOL_ROOM, top + 15);
    }
  }

  /** Lay the nodes out in rows, pool by pool; returns the height. Fills in cells, labels and boxes when they are given. */
  _flow(cell, width, cells, labels, boxes) {
    const { outline } = this.live;
    const title = cell >= 14 ? 17 : 0;
    const gap = cell >= 20 ? 14 : cell >= 12 ? 8 : 4;
    const hasBoxes = outline.pools.length > 1;
    const [left, right] = [hasBoxes ? POOL_ROOM : 0, width - (hasBoxes ? POOL_ROOM : 0)];
    const begin = left + (title ? 0 : ROW_TITLES);
    let [x, y, tallest, top, pool] = [begin, 0, 0, 0, -1];
    const endPool = () => {
      if (pool < 0 || !hasBoxes) return;
      y += tallest + POOL_ROOM;
      boxes?.push([titleOf(outline, pool), top, width, y - top]);
      y += gap;
    };
    outline.nodes.forEach(([name, ofPool], node) => {
      if (this.hides?.(node)) {
        for (let index = 0; cells && index < this.live.pool(node)[2]; index++) cells[2 * (outline.first[node] + index)] = AWAY;
        return;
      }
      const devices = this.live.pool(node)[2];
      const columns = columnsOf(devices);
      const [wide, tall] = [columns * cell, Math.ceil(devices / columns) * cell + title];
      if (ofPool !== pool) {
        endPool();
        if (hasBoxes) [x, tallest, top, y] = [begin, 0, y, y + POOL_TITLE];
        pool = ofPool;
      }
      if (x > begin && x + wide > right) [x, y, tallest] = [begin, y + tallest + gap, 0];
      if (cells) {
        if (title) labels.push([name, x, y + 12, wide]);
        else if (x === begin) labels.push([name, left, y + 10, ROW_TITLES - 6]);
        for (let index = 0; index < devices; index++) {
          const place = outline.first[node] + index;
          cells[2 * place] = x + (index % columns) * cell;
          cells[2 * place + 1] = y + title + Math.floor(index / columns) * cell;
        }
      }
      x += wide + gap;
      tallest = Math.max(tallest, tall);
    });
    endPool();
    return Math.max(1, hasBoxes ? y - gap + 1 : y + tallest);
  }

  _at(event) {
    const { cells, cell } = this;
    if (!cells) return -1;
    for (let place = 0; place < cells.length / 2; place++) {
      const [right, down] = [event.offsetX - cells[2 * place], event.offsetY - cells[2 * place + 1]];
      if (right >= 0 && right < cell && down >= 0 && down < cell) return place;
    }
    return -1;
  }

  _point(place) {
    if (place === this.pointed) return;
    this._clear(this.pointed);
    this.pointed = place;
    this.tip.hidden = place < 0;
    this.canvas.style.cursor = place < 0 ? "" : "pointer";
    this.draw();
  }

  _say() {
    const { live, pointed } = this;
    const { usage, temperature, power, health } = live.frame;
    const shown = (value, unit) => (value < 0 ? "–" : `${value}${unit}`);
    put(
      this.tip,
      `${live.name(pointed)}  ${shown(usage[pointed], " %")}  ${shown(temperature[pointed], " °C")}  ` +
        `${shown(power[pointed], " W")}${health[pointed] ? `  ${live.outline.health[health[pointed]]}` : ""}` +
        (live.outline.divided?.[pointed] ? `  in ${live.outline.divided[pointed]} instances` : ""),
    );
    const left = Math.min(this.cells[2 * pointed], this.element.clientWidth - this.tip.offsetWidth);
    const top = this.cells[2 * pointed + 1] - this.tip.offsetHeight - 4;
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${top < 0 ? this.cells[2 * pointed + 1] + this.cell + 2 : top}px`;
  }

  _key(event) {
    if (!this.cells) return;
    const from = this.pointed >= 0 ? this.pointed : Math.max(0, this.chosen);
    const moves = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: this._below(from, 1),
      ArrowUp: this._below(from, -1),
      Home: -from,
      End: this.cells.length / 2 - 1 - from,
    };
    if (event.key === "Enter" || event.key === " ") this.choose(from);
    else if (event.key in moves) {
      this._point(Math.max(0, Math.min(this.cells.length / 2 - 1, from + moves[event.key])));
      put(this.spoken, this.tip.textContent);
    } else return;
    event.preventDefault();
  }

  /** The distance in the arrays to the cell below (or above): the nearest in the next line of cells. */
  _below(from, direction) {
    const { cells } = this;
    const [x, y] = [cells[2 * from], cells[2 * from + 1]];
    let [best, least] = [from, Infinity];
    for (let place = 0; place < cells.length / 2; place++) {
      const down = (cells[2 * place + 1] - y) * direction;
      if (down <= 0) continue;
      const far = down * 1000 + Math.abs(cells[2 * place] - x);
      if (far < least) [best, least] = [place, far];
    }
    return best - from;
  }
}

function isDark(tint) {
  const parts = tint.startsWith("#")
    ? [1, 3, 5].map((at) => parseInt(tint.slice(at, at + 2), 16))
    : tint.match(/\d+/g).map(Number);
  return 0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2] < 140;
}

function columnsOf(devices) {
  if (devices <= 4) return devices;
  return devices <= 16 ? Math.ceil(devices / 2) : Math.ceil(Math.sqrt(devices));
}

function titleOf(outline, pool) {
  const [name, type, devices] = outline.pools[pool];
  const nodes = outline.nodes.filter(([, ofPool]) => ofPool === pool).length;
  return `${name}: ${number(nodes)} node${nodes === 1 ? "" : "s"} of ${devices} ${type}`;
}

function cut(paper, text, room) {
  if (paper.measureText(text).width <= room) return text;
  while (text.length > 1 && paper.measureText(`${text}…`).width > room) text = text.slice(0, -1);
  return `${text}…`;
}

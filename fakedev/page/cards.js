// Cards of a small fleet: a card for each device with what matters, and a line of its last minutes.
import { get, noPast } from "./ask.js";
import { make, put } from "./dom.js";
import { number } from "./format.js";
import { HEALTH_SHORT, HEALTH_WORDS } from "./scales.js";
import { colour, onTheme } from "./theme.js";
import { Bar } from "./tiles.js";

/** Fleets of at most this size have cards: the stream has their values. */
export const MOST_CARDS = 64;
const POINTS = 90;

export class Cards {
  /** @param choose called with the index of a device. */
  constructor(live, choose) {
    this.live = live;
    this.choose = choose;
    this.cards = [];
    this.element = make("div", { class: "cards" });
    onTheme(() => this.cards.forEach((card) => card.line.draw()));
  }

  /** The fleet may have changed. */
  arrange() {
    const { live } = this;
    const count = live.count <= MOST_CARDS ? live.count : 0;
    this.cards = Array.from({ length: count }, (_, place) => new DeviceCard(live, place, () => this.choose(place)));
    this.element.replaceChildren(...this.cards.map(({ element }) => element));
    this.element.hidden = count === 0;
    if (count) this._recall(this.cards).catch(noPast);
  }

  /** Fill the lines from the past. */
  async _recall(cards) {
    const { nodes, "tick-seconds": tick } = this.live.outline;
    const devices = encodeURIComponent(nodes.map(([name]) => `${name}/*`).join(","));
    const seconds = Math.ceil((POINTS - 1) * tick);
    const { ticks, quantities } = await get(`/api/v1/history?devices=${devices}&quantity=usage_ratio&seconds=${seconds}`);
    for (const { place, line } of cards) line.fill(ticks.at(-1), quantities[this.live.name(place)]?.usage_ratio ?? []);
  }

  /** A new tick arrived.
   * @param chosen 1 for each device that is to be seen, 0 for the others; null: all are.
   */
  draw(chosen) {
    if (!this.live.frame.work) return;
    this.cards.forEach((card, place) => {
      card.element.hidden = chosen !== null && !chosen[place];
      card.show(this.live.frame);
    });
  }

  /** Mark a device; -1 for none. */
  mark(chosen) {
    this.cards.forEach(({ element }, place) => element.setAttribute("aria-pressed", String(place === chosen)));
  }
}

class DeviceCard {
  constructor(live, place, choose) {
    this.live = live;
    this.place = place;
    const [, type, , limit, memory] = live.pool(live.nodeOf(place));
    this.limit = limit;
    this.memoryTotal = memory === null ? null : memory / 2 ** 20;
    this.health = make("span", { class: "state" });
    this.usage = new Bar("Usage");
    this.memory = new Bar("Memory");
    this.power = new Bar("Power");
    this.facts = make("span");
    this.work = make("span", { class: "work" });
    this.line = new Sparkline();
    this.element = make(
      "button",
      { type: "button", class: "device", "aria-pressed": "false", onclick: choose },
      make("span", { class: "part" }, make("b", {}, live.name(place)), make("span", { class: "note" }, type), this.health),
      this.usage.element,
      this.memory.element,
      this.power.element,
      make("span", { class: "part note" }, this.facts, this.work),
      this.line.element,
    );
  }

  show(frame) {
    const at = (name) => (frame[name][this.place] < 0 ? null : frame[name][this.place]);
    const condition = this.live.outline.health[frame.health[this.place]];
    put(this.health, HEALTH_SHORT[condition]);
    this.health.dataset.health = condition;
    this.health.title = [HEALTH_WORDS[condition], ...frame.held[this.place]].join(", ");
    const [usage, memory, power] = [at("usage"), at("memory"), at("power")];
    this.usage.show(usage / 100, known(usage, "%"));
    this.memory.show(memory / this.memoryTotal, known(gib(memory), "GiB", gib(this.memoryTotal)));
    const limit = at("limit") ?? this.limit;
    this.power.show(power / limit, known(power, "W", limit));
    const facts = [known(at("temperature"), "°C"), known(at("clock"), "MHz")];
    put(this.facts, facts.join(" · "));
    const [count, ...names] = frame.work[this.place];
    const more = count - names.length;
    put(this.work, [...names, ...(more ? [`${number(more)} ${names.length ? "more" : "workloads"}`] : [])].join(", ") || (usage === null ? "–" : "idle"));
    this.line.add(frame.tick, usage);
  }
}

function gib(mebibytes) {
  return mebibytes === null ? null : Math.round(mebibytes / 102.4) / 10;
}

/** A value with its unit, and the highest one where that is known. */
function known(value, unit, most = null) {
  if (value === null) return `– ${unit}`;
  return `${number(value, value % 1 ? 1 : 0)}${most === null ? "" : ` of ${number(most)}`} ${unit}`;
}

/** The last values of a share as a filled line. */
class Sparkline {
  constructor() {
    this.values = [];
    this.tick = -1;
    this.element = make("canvas", { class: "spark", "aria-hidden": "true" });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Show the values up to a tick: shares from 0 to 1. */
  fill(tick, values) {
    this.values = values.slice(-POINTS).map((value) => value === null ? null : 100 * value);
    this.tick = tick;
    this.draw();
  }

  add(tick, value) {
    if (tick <= this.tick) return;
    this.tick = tick;
    this.values.push(value);
    if (this.values.length > POINTS) this.values.shift();
    this.draw();
  }

  draw() {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    if (!width) return;
    const ratio = devicePixelRatio || 1;
    this.element.width = Math.round(width * ratio);
    this.element.height = Math.round(height * ratio);
    const paper = this.element.getContext("2d");
    paper.scale(ratio, ratio);
    paper.fillStyle = paper.strokeStyle = colour("series-1");
    const step = width / (POINTS - 1);
    const begin = width - step * (this.values.length - 1);
    paper.beginPath();
    this.values.forEach((value, place) => {
      const y = height - 1 - ((value ?? 0) / 100) * (height - 2);
      paper[place ? "lineTo" : "moveTo"](begin + place * step, y);
    });
    paper.lineWidth = 1.25;
    paper.stroke();
    paper.lineTo(width, height);
    paper.lineTo(begin, height);
    paper.globalAlpha = 0.15;
    paper.fill();
    paper.globalAlpha = 1;
  }
}

// Fleet: figures, the map, the charts of the fleet or of one device.
import { copy } from "./actions.js";
import { get, noPast, Refused } from "./ask.js";
import { Cards, MOST_CARDS } from "./cards.js";
import { Chart } from "./chart.js";
import { DevicePanel } from "./device.js";
import { DeviceCharts, MOST_DEVICES, thinning } from "./devicecharts.js";
import { DeviceTable } from "./devicetable.js";
import { card, make, put } from "./dom.js";
import { number, watts } from "./format.js";
import { FleetMap } from "./map.js";
import { Marks } from "./marks.js";
import { RackView } from "./racks.js";
import { colours, HEALTH_WORDS, SCALES } from "./scales.js";
import { Series } from "./series.js";
import { onTheme, theme } from "./theme.js";
import { Tiles } from "./tiles.js";
import { TimeSpan } from "./timespan.js";
import { noteWall, noteWalls } from "./walltime.js";

/** The service keeps a day. */
const DAY = 86400;
/** The quantities of the fleet, and what they are multiplied with. */
const SUMMED = [["usage_ratio", 100], ["power_watts", 0.001], ["temperature_celsius", 1]];
const VIEWS = ["Cards", "Map", "Table", "Racks"];
const KEEPS = "Choose a device to see its own charts, or several in the table.";

export class FleetTab {
  constructor(app) {
    this.live = app.live;
    this.app = app;
    const choose = (place) => app.go("fleet", app.live.name(place));
    this.tiles = new Tiles(["Devices", "Mean usage", "Power", "Hottest", "Workloads", "In trouble"], {
      Devices: ["Show all devices", () => this._filter("", false)],
      Workloads: ["Show the workloads", () => app.go("workloads", "")],
      "In trouble": ["Show only the devices in trouble", () => this._filter(this.find.value, !this.isTroubled)],
    });
    this.isTroubled = false;
    this.map = new FleetMap(app.live, choose);
    this.racks = new RackView(app.live, choose);
    this.list = new DeviceTable(app);
    this.cards = new Cards(app.live, choose);
    this.legend = make("div", { class: "legend" });
    this.find = make("input", {
      type: "search",
      placeholder: "Node, device, model, pod",
      "aria-label": "Search for nodes, devices, pools, models, pods",
      size: "22",
      oninput: () => this._filter(this.find.value, this.isTroubled),
      onkeydown: (event) => event.key === "Enter" && this._go(),
    });
    this.search = this.find;
    this.found = make("span", { class: "note", role: "status" });
    this.byPod = new Set();
    this.choice = this._choice();
    this.zoom = make(
      "span",
      { class: "actions" },
      make("button", { type: "button", class: "small", "aria-label": "Smaller cells", onclick: () => this.map.zoomBy(-1) }, "−"),
      make("button", { type: "button", class: "small", "aria-label": "Larger cells", onclick: () => this.map.zoomBy(1) }, "+"),
    );
    const time = (this.time = new TimeSpan(DAY, () => {
      this._recall().catch(noPast);
      this.device.charts.recall();
      this.several.recall();
    }));
    this.marks = new Marks(app, time);
    this.device = new DevicePanel(app, time);
    this.usage = new Chart("Mean usage", [["usage", "series-1"]], { unit: " %", most: 100, time });
    this.power = new Chart("Power of all", [["power", "series-4"]], { unit: " kW", time });
    const heat = { unit: " °C", least: null, span: 10, time };
    this.heat = new Chart("Hottest device", [["temperature", "series-2"]], heat);
    this.past = new Series(9);
    this.several = new DeviceCharts(time);
    const close = make("button", { type: "button", class: "small", onclick: () => app.go("fleet", "") }, "Close");
    this.comparison = card("Devices compared", [close], this.several.element);
    this.comparison.hidden = true;
    this.overview = card(
      "Fleet",
      [],
      make(
        "div",
        { class: "stack" },
        this.usage.element,
        this.power.element,
        this.heat.element,
        (this.kept = make("p", { class: "note" }, KEEPS)),
      ),
    );
    this.aside = make("aside", { "aria-label": "Charts" }, time.element, this.overview, this.device.element, this.comparison);
    this.element = make(
      "div",
      { class: "tab" },
      this.tiles.element,
      make(
        "div",
        { class: "split" },
        card(
          "Devices",
          [this.found, this.find, this._view(), this.choice, this.zoom, this._link()],
          this.cards.element,
          this.list.element,
          this.map.element,
          this.racks.element,
          this.legend,
        ),
        this.aside,
      ),
    );
    onTheme(() => this._explain());
  }

  /** The stream began, or began again: the fleet may have changed. */
  outline() {
    this.tiles.reset();
    this.past.clear();
    this.time.end = 0;
    this._draw();
    this._match();
    this.cards.arrange();
    this.list.reset();
    this._look();
    this.map.arrange();
    this.racks.arrange();
    this._explain();
    this.open(this.wanted ?? "");
    this._recall().catch(noPast);
  }

  frame({ frame }) {
    const [usage, power, heat] = frame.fleet;
    const nodes = this.live.outline.nodes.length;
    this.tiles.set("Devices", number(frame.usage.length), nodes ? `on ${number(nodes)} node${nodes > 1 ? "s" : ""}` : "no node");
    this.tiles.set("Mean usage", number(usage === null ? null : 100 * usage, 1), "%");
    this.tiles.set("Power", ...watts(power));
    this.tiles.set("Hottest", number(heat, 1), "°C");
    this.tiles.set("Workloads", number(frame.workloads));
    const least = this._leastTrouble();
    const troubled = frame.health.reduce((sum, each) => sum + (each >= least), 0);
    const first = troubled ? this.live.name(frame.health.findIndex((each) => each >= least)) : "";
    this.tiles.set("In trouble", number(troubled), first && `${first}${troubled > 1 ? " …" : ""}`, troubled > 0);
    this._show();
    if (this.map.scale === "health") this._count();
    this._draw();
    this.racks.draw();
    this.racks.ask();
    this.device.frame();
    this.several.frame();
    this.marks.frame();
    if (this.wish) this._fulfil();
    if (!this.list.element.hidden) this.list.frame();
  }

  /** A new tick arrived; also called when the tab is hidden. */
  always({ frame }) {
    noteWall(frame.seconds, frame["due-seconds"]);
    const [usage, power, heat] = frame.fleet;
    const values = [scaled(usage, 100), scaled(power, 0.001), heat];
    this.past.add(frame.seconds, ...values, ...values, ...values);
  }

  /** Show devices, by their names or those of parts or links; the fleet when there are none. */
  open(names) {
    this.wanted = names;
    if (!this.live.outline) return;
    const found = names.split(",", MOST_DEVICES).map(deviceOf).filter((name) => this.live.place(name) >= 0);
    const only = found.length === 1 ? found[0] : "";
    const place = only ? this.live.place(only) : -1;
    this.map.mark(place);
    this.cards.mark(place);
    this.overview.hidden = found.length > 0;
    if (this.marks.device !== found.join(",")) this.marks.of(found.join(","));
    this.device.open(only);
    this.comparison.hidden = found.length < 2;
    this.several.of(found.length > 1 ? found : []);
    if (found.length > 1) this.list.choose(found);
    if (found.length && matchMedia("(max-width: 1100px)").matches) this.aside.scrollIntoView({ block: "start" });
  }

  _draw() {
    [this.usage, this.power, this.heat].forEach((chart, row) =>
      chart.show(this.past.times, ...[0, 3, 6].map((of) => this.past.rows[row + of])),
    );
  }

  async _recall() {
    const found = await get(`/api/v1/history?seconds=${this.time.needed}`);
    const { seconds, quantities, lowest = quantities, highest = quantities } = found;
    noteWalls(found);
    put(this.kept, thinning(found, this.time) || KEEPS);
    this.past.clear();
    seconds.forEach((time, place) => {
      const at = (rows, name, factor) => scaled(place < rows[name].length ? rows[name][place] : quantities[name][place], factor);
      const values = [quantities, lowest, highest].flatMap((rows) => SUMMED.map(([name, factor]) => at(rows, name, factor)));
      this.past.add(time, ...values);
    });
    this._draw();
  }

  _choice() {
    return make(
      "fieldset",
      { class: "choice", "aria-label": "Colour by" },
      ...Object.entries(SCALES).map(([name, { title }]) =>
        make(
          "label",
          {},
          make("input", {
            type: "radio",
            name: "scale",
            value: name,
            checked: name === "usage",
            onchange: () => this._colour(name),
          }),
          make("span", {}, title),
        ),
      ),
    );
  }

  /** Colour by another quantity. */
  _colour(name) {
    this.map.show(name);
    this.racks.show(name);
    this._explain();
  }

  /** A button that copies a link to what is shown. */
  _link() {
    const onclick = () => copy(`${location.origin}/#fleet${this.wanted ? `/${this.wanted}` : ""}?${this._state()}`);
    return make("button", { type: "button", class: "small", title: "Copy a link that shows the same", onclick }, "Link");
  }

  /** What is shown, for a link. */
  _state() {
    const { time, list } = this;
    const [from, to] = time.range ?? [];
    const state = {
      view: this.chosenView,
      rack: this.chosenView === "Racks" ? this.racks.name : "",
      find: this.find.value,
      troubled: this.isTroubled ? 1 : "",
      colour: this.map.scale === "usage" ? "" : this.map.scale,
      span: time.seconds,
      from,
      to,
      sort: list.list.sort,
      search: list.list.search.value,
    };
    return new URLSearchParams(Object.entries(state).filter(([, value]) => value));
  }

  /** Show what a link says; once the fleet is known. */
  restore(state) {
    this.wish = state;
    if (this.live.frame) this._fulfil();
  }

  _fulfil() {
    const { wish, time } = this;
    this.wish = null;
    const text = (name) => wish.get(name) ?? "";
    if (VIEWS.includes(text("view"))) this.chosenView = text("view");
    if (text("colour") in SCALES) {
      this._colour(text("colour"));
      this.choice.querySelector(`[value="${text("colour")}"]`).checked = true;
    }
    if (this.live.outline.racks?.includes(text("rack"))) this.racks.pick(text("rack"));
    if (Number(text("span"))) time.choose(Number(text("span")));
    const [from, to] = [Number(text("from")), Number(text("to"))];
    if (to > from) time.zoom([from, to]);
    this.list.list.order(text("search"), text("sort"));
    this._look();
    this._filter(text("find"), text("troubled") === "1");
  }

  /** Cards, the map, a table or racks. */
  _view() {
    this.views = VIEWS.map((title) =>
      make(
        "label",
        {},
        make("input", { type: "radio", name: "view", value: title, onchange: () => ((this.chosenView = title), this._look()) }),
        make("span", {}, title),
      ),
    );
    return (this.viewChoice = make("fieldset", { class: "choice", "aria-label": "Show" }, ...this.views));
  }

  /** Show what was chosen; a small fleet has cards until the user chooses. */
  _look() {
    const isSmall = this.live.count <= MOST_CARDS;
    const hasRacks = Boolean(this.live.outline?.racks);
    const usual = isSmall ? "Cards" : "Map";
    const view = { Map: "Map", Table: "Table", Racks: hasRacks && "Racks" }[this.chosenView] || usual;
    this.views[0].hidden = !isSmall;
    this.views[3].hidden = !hasRacks;
    this.views[VIEWS.indexOf(view)].firstChild.checked = true;
    this.cards.element.hidden = view !== "Cards";
    this.list.element.hidden = view !== "Table";
    this.racks.element.hidden = view !== "Racks";
    for (const each of [this.legend, this.choice]) each.hidden = view !== "Map" && view !== "Racks";
    for (const each of [this.map.element, this.zoom]) each.hidden = view !== "Map";
    if (view === "Table") this.list.list.ask(true);
    if (view === "Map") this.map.arrange();
    if (view === "Racks") this.racks.ask(true);
    if (view === "Racks") this.racks.draw();
  }

  /** Show only the devices that a text and the health choose. */
  _filter(text, isTroubled) {
    this.find.value = text;
    this.isTroubled = isTroubled;
    this.tiles.press("In trouble", isTroubled);
    this.tiles.press("Devices", !text && !isTroubled);
    this._askPods(text.trim());
    this._choose();
  }

  /** Show what was chosen: the map leaves out nodes that a text does not find. */
  _choose() {
    if (!this.live.frame) return;
    this._match();
    const { matches } = this;
    this.map.hides = matches && ((node) => !this.live.devicesOf(node).some((place) => matches[place]));
    this.map.mask = this._chosen();
    this.map.arrange();
    this._show();
  }

  /** Find the devices of the text: 1 for each that it finds, by its index; null without a text. */
  _match() {
    const text = this.find.value.trim().toLowerCase();
    const { live, byPod } = this;
    this.matches = null;
    if (!text || !live.outline) return;
    this.matches = new Uint8Array(live.count);
    live.outline.nodes.forEach(([name, pool], node) => {
      const [poolName, type] = live.outline.pools[pool];
      const isNode = [name, poolName, type].some((each) => each.toLowerCase().includes(text));
      live.devicesOf(node).forEach((place, index) => {
        const device = `${name}/${index}`;
        this.matches[place] = isNode || device.toLowerCase().includes(text) || byPod.has(device) ? 1 : 0;
      });
    });
  }

  /** The first of the conditions that are trouble: a board at its power limit works as designed. */
  _leastTrouble() {
    return this.live.outline.health.indexOf("heat");
  }

  /** 1 for each device that is chosen, by its index; null: all are. */
  _chosen() {
    if (!this.isTroubled) return this.matches;
    const { health } = this.live.frame;
    const chosen = this.matches?.slice() ?? new Uint8Array(health.length).fill(1);
    const least = this._leastTrouble();
    for (let place = 0; place < health.length; place++) if (health[place] < least) chosen[place] = 0;
    return chosen;
  }

  /** Draw the devices that are chosen. */
  _show() {
    const chosen = this._chosen();
    this.cards.draw(chosen);
    this.map.mask = chosen;
    if (!this.map.drawn) this.map.redraw();
    else this.map.draw();
    const found = chosen?.reduce((sum, each) => sum + each, 0);
    put(this.found, chosen ? `${number(found)} of ${number(this.live.count)}${this.podsFail ?? ""}` : "");
  }

  /** Find the devices of pods: the stream does not carry their names. */
  async _askPods(text) {
    this.byPod = new Set();
    this.podsFail = "";
    if (text.length < 2) return;
    try {
      const { devices } = await get(`/api/v1/find?text=${encodeURIComponent(text)}`);
      if (text !== this.find.value.trim()) return;
      this.byPod = new Set(devices);
      this._choose();
    } catch (error) {
      // The search by names of nodes goes on without pods.
      this.podsFail = `, without pods: ${error instanceof Refused ? error.message : "no connection"}`;
      if (this.live.frame) this._show();
    }
  }

  /** Open the device that was searched for, or the first that was found. */
  _go() {
    const name = this.find.value.trim();
    if (!name || !this.live.frame) return;
    let place = this.live.place(deviceOf(name));
    for (let each = 0; place < 0 && each < this.live.count; each++) if (this.map.mask?.[each]) place = each;
    this.find.setCustomValidity(place >= 0 ? "" : `Nothing is named ${name}`);
    if (place >= 0) this.app.go("fleet", this.live.place(deviceOf(name)) >= 0 ? name : this.live.name(place));
    else this.find.reportValidity();
  }

  _explain() {
    if (!this.live.outline) return;
    const { low, high, unit } = SCALES[this.map.scale];
    const palette = colours(this.map.scale, theme(), this.live.outline.health);
    this.counts = [];
    if (this.map.scale === "health") {
      this.legend.replaceChildren(
        ...this.live.outline.health.map((name, place) => {
          this.counts.push(make("b"));
          return make("span", {}, swatch(palette[place]), `${HEALTH_WORDS[name]} `, this.counts[place]);
        }),
        ...this._divided(),
      );
      this._count();
      return;
    }
    const ramp = make("canvas", { width: String(palette.length - 1), height: "1", "aria-hidden": "true" });
    ramp.style.width = "180px";
    ramp.style.height = "11px";
    const paper = ramp.getContext("2d");
    palette.slice(0, -1).forEach((tint, place) => {
      paper.fillStyle = tint;
      paper.fillRect(place, 0, 1, 1);
    });
    this.legend.replaceChildren(
      make("span", {}, String(low)),
      ramp,
      make("span", {}, `${high} ${unit}`),
      ...this._divided(),
    );
  }

  /** The legend of the cut cells of the map. */
  _divided() {
    const divided = this.live.outline.divided?.filter((pieces) => pieces > 0).length;
    if (!divided) return [];
    return [make("span", {}, make("span", { class: "swatch cut" }), `divided (MIG): ${number(divided)}`)];
  }

  _count() {
    if (!this.live.frame) return;
    const found = this.live.outline.health.map(() => 0);
    for (const each of this.live.frame.health) found[each]++;
    this.counts.forEach((place, number) => put(place, found[number]));
  }
}

/** The device in a name such as dgx-0/3/1 or dgx-0/3/link/5. */
function deviceOf(name) {
  return name.split("/", 2).join("/");
}

function swatch(tint) {
  const element = make("span", { class: "swatch" });
  element.style.background = tint;
  return element;
}

function scaled(value, factor) {
  return value === null ? null : value * factor;
}

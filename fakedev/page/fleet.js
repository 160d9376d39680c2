// Fleet: figures, the map, the charts of the fleet or of one device.
import { get } from "./ask.js";
import { Chart } from "./chart.js";
import { DevicePanel } from "./device.js";
import { card, make, put } from "./dom.js";
import { number, watts } from "./format.js";
import { FleetMap } from "./map.js";
import { colours, HEALTH_WORDS, SCALES } from "./scales.js";
import { Series } from "./series.js";
import { onTheme, theme } from "./theme.js";
import { Tiles } from "./tiles.js";

export class FleetTab {
  constructor(app) {
    this.live = app.live;
    this.app = app;
    this.tiles = new Tiles(["Devices", "Mean usage", "Power", "Hottest", "Workloads", "In trouble"]);
    this.map = new FleetMap(app.live, (place) => app.go("fleet", app.live.name(place)));
    this.legend = make("div", { class: "legend" });
    this.find = make("input", {
      type: "search",
      placeholder: "Device, as dgx-0/3",
      "aria-label": "Go to a device",
      size: "16",
      onchange: () => this._find(),
    });
    this.search = this.find;
    this.device = new DevicePanel(app);
    this.usage = new Chart("Mean usage", [["usage", "series-1"]], { unit: " %", most: 100 });
    this.power = new Chart("Power of all", [["power", "series-4"]], { unit: " kW" });
    this.heat = new Chart("Hottest device", [["temperature", "series-2"]], { unit: " °C", least: null, span: 10 });
    this.past = new Series(3);
    this.overview = card(
      "The last minutes",
      [],
      make(
        "div",
        { class: "stack" },
        this.usage.element,
        this.power.element,
        this.heat.element,
        make("p", { class: "note" }, "Choose a device on the map to see its own."),
      ),
    );
    this.aside = make("aside", { "aria-label": "Charts" }, this.overview, this.device.element);
    this.element = make(
      "div",
      { class: "tab" },
      this.tiles.element,
      make(
        "div",
        { class: "split" },
        card("Map of the fleet", [this.find, this._choice()], this.map.element, this.legend),
        this.aside,
      ),
    );
    onTheme(() => this._explain());
  }

  /** The stream began, or began again: the fleet may have changed. */
  outline() {
    this.map.arrange();
    this._explain();
    this.open(this.wanted ?? "");
    return this._recall();
  }

  frame({ frame }) {
    const [usage, power, heat] = frame.fleet;
    this.tiles.set(
      "Devices",
      number(frame.usage.length),
      this.live.outline.nodes.length > 1 ? `on ${number(this.live.outline.nodes.length)} nodes` : "on 1 node",
    );
    this.tiles.set("Mean usage", number(usage === null ? null : 100 * usage, 1), "%");
    this.tiles.set("Power", ...watts(power));
    this.tiles.set("Hottest", number(heat, 1), "°C");
    this.tiles.set("Workloads", number(frame.workloads));
    // A board at its power limit works as designed.
    const least = this.live.outline.health.indexOf("heat");
    const troubled = frame.health.reduce((sum, each) => sum + (each >= least), 0);
    this.tiles.set("In trouble", number(troubled), "", troubled > 0);
    if (!this.map.drawn) this.map.redraw();
    else this.map.draw();
    if (this.map.scale === "health") this._count();
    this._draw();
    this.device.frame();
  }

  /** A new tick arrived; also called when the tab is hidden. */
  always({ frame }) {
    const [usage, power, heat] = frame.fleet;
    this.past.add(frame.seconds, scaled(usage, 100), scaled(power, 0.001), heat);
  }

  /** Show a device, by its name or that of a part or link; the fleet when the name is empty. */
  open(name) {
    this.wanted = deviceOf(name);
    if (!this.live.outline) return;
    const place = name ? this.live.place(this.wanted) : -1;
    this.map.mark(place);
    this.overview.hidden = place >= 0;
    this.device.open(place >= 0 ? this.wanted : "");
    if (place >= 0 && matchMedia("(max-width: 960px)").matches) this.aside.scrollIntoView({ block: "start" });
  }

  _draw() {
    const [usage, power, heat] = this.past.rows;
    this.usage.show(this.past.times, usage);
    this.power.show(this.past.times, power);
    this.heat.show(this.past.times, heat);
  }

  async _recall() {
    const { seconds, quantities } = await get("/api/v1/history");
    this.past.clear();
    seconds.forEach((time, place) =>
      this.past.add(
        time,
        scaled(quantities.usage_ratio[place], 100),
        scaled(quantities.power_watts[place], 0.001),
        quantities.temperature_celsius[place],
      ),
    );
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
            onchange: () => (this.map.show(name), this._explain()),
          }),
          make("span", {}, title),
        ),
      ),
    );
  }

  _find() {
    const name = this.find.value.trim();
    if (!name) return;
    const isThere = this.live.place(deviceOf(name)) >= 0;
    this.find.setCustomValidity(isThere ? "" : `There is no device ${name}`);
    if (isThere) this.app.go("fleet", name);
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
    return [make("span", {}, make("span", { class: "swatch cut" }), `divided (MIG) ${number(divided)}`)];
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

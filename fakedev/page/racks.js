// Racks: one rack as it stands, tray by tray, with its links, heat and the health of its fabric.
import { make, put } from "./dom.js";
import { number, quantity } from "./format.js";
import { Polling } from "./polling.js";
import { colours, SCALES, steps } from "./scales.js";
import { theme } from "./theme.js";
import { Bar } from "./tiles.js";

const UNITS = { usage: " %", temperature: " °C", power: " W" };
/** Of an IMEX daemon that is ready. */
const READY = 5;
const MOST_RACKS = 500;

export class RackView {
  /** @param choose called with the index of a device. */
  constructor(live, choose) {
    this.live = live;
    this.choose = choose;
    this.scale = "usage";
    this.name = "";
    this.rack = null;
    this.chooser = make("div", { class: "rack-names", role: "group", "aria-label": "Racks" });
    this.power = new Bar("Power");
    this.coolant = make("span");
    this.fabric = make("span");
    this.problem = make("p", { class: "note", role: "status" });
    this.slots = make("div", { class: "slots" });
    const facts = make("div", { class: "rack-facts" }, this.power.element, this.coolant, this.fabric);
    this.element = make("div", { class: "racks", hidden: true }, this.chooser, facts, this.problem, this.slots);
    this.list = new Polling(`/api/v1/racks?limit=${MOST_RACKS}`, (found) => found && this._choices(found.racks));
    this.detail = new Polling("", (rack, error) => {
      put(this.problem, error ? error.message : "");
      if (rack) this._show(rack);
    });
  }

  /** The fleet may have changed. */
  arrange() {
    const { racks = [] } = this.live.outline;
    this.rack = null;
    this.pick(racks.includes(this.name) ? this.name : (racks[0] ?? ""));
  }

  /** Show another rack. */
  pick(name) {
    this.name = name;
    this.detail.path = name && `/api/v1/racks/${encodeURIComponent(name)}`;
    for (const each of this.chooser.children) each.setAttribute("aria-pressed", String(each.dataset.rack === name));
    this.ask(true);
  }

  /** Colour by another quantity. */
  show(scale) {
    this.scale = scale;
    this.draw();
  }

  /** Ask for what the stream does not carry. */
  ask(now = false) {
    if (this.element.hidden || !this.name) return;
    this.detail.ask(now);
    this.list.ask(now);
  }

  _choices(racks) {
    const names = racks.map(({ rack }) => rack).join("\n");
    if (names !== this.shownNames) {
      this.shownNames = names;
      this.chooser.replaceChildren(
        ...racks.map(({ rack }) =>
          make(
            "button",
            { type: "button", class: "small", "data-rack": rack, "aria-pressed": String(rack === this.name), onclick: () => this.pick(rack) },
            make("b", {}, rack),
            " ",
            make("span"),
          ),
        ),
      );
    }
    racks.forEach((rack, place) => {
      const button = this.chooser.children[place];
      put(button.lastChild, kilowatts(rack["power-watts"]));
      button.dataset.fabric = rack.unhealthy ? "unhealthy" : rack.limited ? "limited" : "healthy";
      button.title = fabricOf(rack);
    });
  }

  _show(rack) {
    const layout = JSON.stringify([rack.rack, rack.trays.map(({ node, devices, cpus }) => [node, devices.length, cpus.length])]);
    if (layout !== this.layout) {
      this.layout = layout;
      this.trays = rack.trays.map((tray) => new Tray(tray, this));
      this.switchTrays = rack["switch-trays"].map((tray) => new SwitchTray(tray));
      this.slots.replaceChildren(...[...this.trays, ...this.switchTrays].map(({ element }) => element));
    }
    this.rack = rack;
    const { "power-watts": watts, "power-limit-watts": limit, "flow-litres-per-minute": flow } = rack;
    this.power.show(limit ? watts / limit : 0, limit ? `${kilowatts(watts)} of ${kilowatts(limit)}` : kilowatts(watts));
    const heat = `${number(rack["supply-celsius"], 1)} → ${number(rack["return-celsius"], 1)} °C`;
    put(this.coolant, flow === null ? `Air ${heat}` : `Coolant ${heat}, ${number(flow, 0)} l/min`);
    put(this.fabric, fabricOf(rack));
    this.fabric.classList.toggle("bad", rack.unhealthy > 0 || rack.limited > 0);
    this.trays.forEach((tray, place) => tray.show(rack.trays[place]));
    this.switchTrays.forEach((tray, place) => tray.show(rack["switch-trays"][place]));
    this.draw();
  }

  /** A new tick arrived: colour the boards. */
  draw() {
    if (this.element.hidden || !this.rack || !this.live.frame) return;
    const palette = colours(this.scale, theme(), this.live.outline.health);
    const found = steps(this.scale, this.live);
    for (const tray of this.trays) tray.draw(found, palette);
  }
}

class Tray {
  constructor({ slot, tray, node, cpus, devices }, view) {
    this.view = view;
    this.places = devices.map(({ device }) => view.live.place(device));
    this.boards = devices.map(({ device }, index) => {
      const [value, links] = [make("b"), make("span", { class: "board-links" })];
      const onclick = () => view.choose(this.places[index]);
      return { value, links, device, element: make("button", { type: "button", class: "board", onclick }, value, links) };
    });
    this.cpus = cpus.map(() => make("span", { class: "grace" }));
    this.state = make("span", { class: "tray-state" });
    this.element = make(
      "div",
      { class: "slot" },
      make("span", { class: "slot-number", title: `slot ${slot}, tray ${tray}` }, String(slot)),
      make("span", { class: "slot-name" }, node, this.state),
      make("span", { class: "graces" }, ...this.cpus),
      ...this.boards.map(({ element }) => element),
    );
  }

  show({ cpus, devices, leak, "imex-daemon-status": imex }) {
    cpus.forEach((cpu, place) => {
      const [usage, heat] = [100 * cpu["cpu-usage-ratio"], cpu["cpu-temperature-celsius"]];
      put(this.cpus[place], `${number(heat, 0)}°`);
      this.cpus[place].style.setProperty("--share", `${usage}%`);
      this.cpus[place].title =
        `CPU ${place}: ${number(usage, 1)} % used, ${number(cpu["cpu-power-watts"], 0)} W, ${number(heat, 1)} °C; ` +
        `its module ${number(cpu["module-power-watts"], 0)} W`;
    });
    devices.forEach(({ fabric, clique, links, "links-up": up, "raw-ber": errors }, place) => {
      const { element, links: bar } = this.boards[place];
      element.dataset.fabric = fabric ?? "";
      bar.hidden = up === null || !links;
      bar.style.setProperty("--share", `${links ? (100 * up) / links : 0}%`);
      this.boards[place].about =
        (bar.hidden ? "" : `, ${number(up)} of ${links} links up`) +
        (fabric ? `, fabric ${fabric}, clique ${clique}` : "") +
        (errors === null ? "" : `, bit errors ${errors.toExponential(1)}`);
    });
    const isReady = imex === READY;
    put(this.state, [leak ? "leak" : "", isReady ? "" : "IMEX not ready"].filter(Boolean).join(", "));
  }

  draw(found, palette) {
    const { scale, live } = this.view;
    this.places.forEach((place, index) => {
      const { element, value, device, about = "" } = this.boards[index];
      const shown = live.frame[scale][place];
      const text =
        scale === "health" ? live.outline.health[shown] : shown < 0 ? "–" : `${shown}${UNITS[scale]}`;
      put(value, text);
      element.style.setProperty("--tint", palette[found[place]] ?? palette.at(-1));
      const label = `${device}: ${SCALES[scale].title.toLowerCase()} ${text}${about}`;
      if (element.title !== label) {
        element.title = label;
        element.setAttribute("aria-label", label);
      }
    });
  }
}

class SwitchTray {
  constructor({ slot, tray, switches }) {
    this.switches = switches.map(() => ({ element: make("span", { class: "switch" }, make("span"), make("small")) }));
    this.element = make(
      "div",
      { class: "slot" },
      make("span", { class: "slot-number" }, String(slot)),
      make("span", { class: "slot-name" }, `switch tray ${tray}`),
      ...this.switches.map(({ element }) => element),
    );
  }

  show({ switches }) {
    switches.forEach(({ switch: at, links, "links-up": up, "tx-bytes-per-second": sent }, place) => {
      const { element } = this.switches[place];
      put(element.firstChild, up === links ? `${links} links` : `${up} of ${links} links`);
      put(element.lastChild, quantity("_bytes_per_second", sent));
      element.classList.toggle("bad", up < links);
      element.title = `switch ${at}: ${up} of ${links} links up, sends ${quantity("_bytes_per_second", sent)}`;
    });
  }
}

function kilowatts(watts) {
  return `${number(watts / 1000, 1)} kW`;
}

function fabricOf({ healthy, limited, unhealthy }) {
  if (healthy === null) return "";
  const parts = [[healthy, "healthy"], [limited, "limited"], [unhealthy, "unhealthy"]];
  return `Fabric: ${parts.filter(([count]) => count).map(([count, word]) => `${count} ${word}`).join(", ")}`;
}

// The connections of a device: PCIe, NUMA, and its links to other boards with their traffic.
import { make, put } from "./dom.js";
import { number, quantity } from "./format.js";
import { list } from "./lists.js";
import { Table } from "./table.js";

const STATES = { active: "up", error: "down", off: "off" };
const NAMES = [
  [/^NVIDIA/, "NVLink"],
  [/^Intel/, "Xe Link"],
  [/^AMD/, "xGMI"],
];

export class Connections {
  constructor() {
    this.facts = make("dl", { class: "facts" });
    this.title = make("b");
    this.lamps = make("div", { class: "lamps", "aria-hidden": "true" });
    this.table = new Table(
      "Links",
      [
        { title: "Link", number: true, text: ({ link }) => numberOf(link) },
        { title: "To", text: ({ to }) => endOf(to), brief: true },
        { title: "State", text: stateOf, brief: true },
        { title: "Sends", number: true, text: (row) => quantity("_bytes_per_second", row["tx-bytes-per-second"]) },
        { title: "Receives", number: true, text: (row) => quantity("_bytes_per_second", row["rx-bytes-per-second"]) },
      ],
      ({ link }) => link,
      "No links are listed.",
    );
    this.links = make(
      "div",
      { class: "links" },
      this.title,
      this.lamps,
      make("details", {}, make("summary", {}, "Each link"), this.table.element),
    );
    this.element = make("details", { open: true }, make("summary", {}, "Connections"), this.facts, this.links);
  }

  /** Show the connections of a device. */
  show({ facts, quantities, links = [] }) {
    list(this.facts, entriesOf(facts, quantities));
    this.links.hidden = links.length === 0;
    if (!links.length) return;
    const up = links.filter(({ state }) => state === "active").length;
    const name = NAMES.find(([vendor]) => vendor.test(facts.vendor ?? ""))?.[1] ?? "Links";
    const all = up === links.length ? `all ${up} up` : `${up} of ${links.length} up`;
    put(this.title, `${name}: ${all}`);
    this.title.classList.toggle("bad", up < links.length);
    while (this.lamps.children.length > links.length) this.lamps.lastChild.remove();
    while (this.lamps.children.length < links.length) this.lamps.append(make("span"));
    links.forEach(({ link, state }, place) => {
      this.lamps.children[place].dataset.state = state;
      this.lamps.children[place].title = `${numberOf(link)} ${STATES[state]}`;
    });
    this.table.show(links);
  }
}

function entriesOf(facts, quantities) {
  const rate = (name) => quantity("_bytes_per_second", quantities[name]);
  const entries = [];
  if (facts.pci_address) entries.push(["PCI address", facts.pci_address]);
  if ("pcie_link_width" in quantities)
    entries.push([
      "PCIe",
      `generation ${speedOf(quantities, "pcie_link_generation")}, x${speedOf(quantities, "pcie_link_width")}`,
    ]);
  if ("pcie_tx_bytes_per_second" in quantities)
    entries.push(["over PCIe", `sends ${rate("pcie_tx_bytes_per_second")}, receives ${rate("pcie_rx_bytes_per_second")}`]);
  if (quantities.pcie_replays) entries.push(["PCIe replays", number(quantities.pcie_replays)]);
  if (facts.numa_node)
    entries.push(["NUMA node", facts.cpu_affinity ? `${facts.numa_node}, CPUs ${facts.cpu_affinity}` : facts.numa_node]);
  if ("fabric_tx_bytes_per_second" in quantities)
    entries.push([
      "over all links",
      `sends ${rate("fabric_tx_bytes_per_second")}, receives ${rate("fabric_rx_bytes_per_second")}`,
    ]);
  if (quantities.link_errors)
    entries.push(["link errors", `${number(quantities.link_errors)}, recovered ${number(quantities.link_recoveries)} times`]);
  return entries;
}

/** The speed of a PCIe link, and its highest speed where that is more. */
function speedOf(quantities, name) {
  const [now, most] = [quantities[name], quantities[`${name}_max`] ?? quantities[name]];
  return now === most ? number(now) : `${number(now)} (of ${number(most)})`;
}

function stateOf({ state, errors }) {
  return errors ? `${STATES[state]}, ${number(errors)} error${errors === 1 ? "" : "s"}` : STATES[state];
}

function numberOf(link) {
  return link.slice(link.lastIndexOf("/") + 1);
}

/** The other end of a link in the same node: "switch 1, port 5", "device 2, link 0". */
function endOf(to) {
  if (!to) return "out of the node";
  const [, kind, at, , number] = to.match(/\/(switch\/)?(\d+)\/(port|link)\/(\d+)$/);
  return kind ? `switch ${at}, port ${number}` : `device ${at}, link ${number}`;
}

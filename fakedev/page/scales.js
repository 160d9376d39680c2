// The colours of the map. A scale turns the numbers of a frame into one of STEPS colours.

export const STEPS = 48;

const RAMPS = {
  usage: { light: ["#e3e8ed", "#9fd8bd", "#3aa87d", "#0b5d43"], dark: ["#222c37", "#1d5f4a", "#2ea77a", "#8af0c4"] },
  temperature: {
    light: ["#5b8fd9", "#a7cbe8", "#f6e3a1", "#ef9a4d", "#c3262c"],
    dark: ["#2f5fa8", "#5f8fb8", "#d9bf6a", "#e58a3c", "#f0454a"],
  },
  power: { light: ["#e8e6ef", "#b9a3dd", "#7d58b8", "#3d1f72"], dark: ["#262633", "#4d3a7d", "#8a63cf", "#dcc2ff"] },
};
const HEALTH = {
  light: {
    well: "#b9dccb",
    power: "#e6c34a",
    heat: "#ef8a34",
    hardware: "#cf3f36",
    error: "#b3308f",
    hung: "#6d3bd1",
    lost: "#1d242c",
  },
  dark: {
    well: "#23493a",
    power: "#c9a532",
    heat: "#ec8234",
    hardware: "#ef5350",
    error: "#e05cbd",
    hung: "#9d7bff",
    lost: "#eef2f6",
  },
};
const ABSENT = { light: "#b9c3ce", dark: "#3b4753" };
export const HEALTH_WORDS = {
  well: "well",
  power: "held by its power limit",
  heat: "throttled by heat",
  hardware: "slowed by hardware",
  error: "error reported (XID)",
  hung: "hangs",
  lost: "lost",
};
/** The same for narrow places. */
export const HEALTH_SHORT = {
  well: "",
  power: "power limit",
  heat: "heat",
  hardware: "slowed",
  error: "XID",
  hung: "hangs",
  lost: "lost",
};
export const SCALES = {
  usage: { title: "Usage", low: 0, high: 100, unit: "%" },
  temperature: { title: "Temperature", low: 30, high: 95, unit: "°C" },
  power: { title: "Power", low: 0, high: 100, unit: "% of limit" },
  health: { title: "Health" },
};

/** The colours of a scale in a theme, one for each step; the last is for devices without a value. */
export function colours(name, theme, healthNames) {
  if (name === "health") return [...healthNames.map((each) => HEALTH[theme][each]), ABSENT[theme]];
  const stops = RAMPS[name][theme];
  const found = [];
  for (let step = 0; step < STEPS; step++) found.push(between(stops, step / (STEPS - 1)));
  return [...found, ABSENT[theme]];
}

/** A step for each device: indices into colours(). */
export function steps(name, live) {
  return stepsOf(name, live.frame[name], name === "power" ? powerLimits(live) : null);
}

/** A step for each of some values of a scale. */
export function stepsOf(name, values, limits = null) {
  if (name === "health") return Uint8Array.from(values);
  const found = new Uint8Array(values.length);
  const { low, high } = SCALES[name];
  for (let place = 0; place < values.length; place++) {
    const value = limits ? (100 * values[place]) / limits[place] : values[place];
    const share = (value - low) / (high - low);
    found[place] = values[place] < 0 ? STEPS : Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1))));
  }
  return found;
}

/** The power that counts as 100 % for each device: its limit, or the highest power seen. */
function powerLimits(live) {
  if (live.outline.limits) return live.outline.limits;
  const most = Math.max(1, ...live.frame.power.slice(0, 1000));
  const found = new Float32Array(live.frame.power.length);
  live.outline.nodes.forEach(([, pool], node) => {
    const [, , count, limit] = live.outline.pools[pool];
    found.fill(limit ?? most, live.outline.first[node], live.outline.first[node] + count);
  });
  if (live.outline.pools.every((pool) => pool[3] !== null)) live.outline.limits = found;
  return found;
}

function between(stops, share) {
  const at = share * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const [from, to] = [rgb(stops[low]), rgb(stops[low + 1])];
  return `rgb(${from.map((value, part) => Math.round(value + (to[part] - value) * (at - low))).join(" ")})`;
}

function rgb(text) {
  return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
}

// Numbers and times as text.

const formats = new Map();

/** A number as English text: formatters are made once, since that takes long. */
function english(value, options) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat("en", options));
  return formats.get(key).format(value);
}

/** A number with some digits after the point, grouped; a dash for null. */
export function number(value, digits = 0) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return english(value, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Three significant digits, for rates and seconds of any size. */
export function brief(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  return Math.abs(value) >= 1000 ? number(value) : english(value, { maximumSignificantDigits: 3 });
}

/** Watts, as [number, unit]. */
export function watts(value) {
  if (value === null || value === undefined) return ["–", ""];
  if (value >= 1e6) return [number(value / 1e6, 2), "MW"];
  return value >= 10000 ? [number(value / 1000, 1), "kW"] : [number(value), "W"];
}

/** Bytes in binary units. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  for (; value >= 1024 && place < units.length - 1; place++) value /= 1024;
  return `${number(value, place ? 1 : 0)} ${units[place]}`;
}

/** Seconds as 20 ms, 5 s, 3 min 20 s, 2 h 5 min. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds > 0 && seconds < 1) return `${brief(1000 * seconds)} ms`;
  if (seconds < 10) return `${brief(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** A time since the start as 5:07, 2:05:07 or 3 d 2:05:07. */
export function moment(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const tenths = Math.round(10 * seconds);
  const whole = Math.floor(tenths / 10);
  const two = (value) => String(value).padStart(2, "0");
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  const rest = two(whole % 60) + (tenths % 10 ? `.${tenths % 10}` : "");
  if (!days && !hours) return `${minutes}:${rest}`;
  return `${days ? `${days} d ` : ""}${hours}:${two(minutes)}:${rest}`;
}

/** A quantity in the unit of its name, as [text, unit]. */
export function quantity(name, value) {
  if (value === null || value === undefined) return "–";
  if (name.endsWith("_ratio")) return `${number(value * 100, 1)} %`;
  if (name.endsWith("_bytes_per_second")) return `${bytes(value)}/s`;
  if (name.endsWith("_bytes")) return bytes(value);
  if (name.endsWith("_watts")) return `${number(value, 1)} W`;
  if (name.endsWith("_celsius")) return `${number(value, 1)} °C`;
  if (name.endsWith("_mhz")) return `${number(value)} MHz`;
  if (name === "created_seconds") return new Date(value * 1000).toISOString().slice(0, 19).replace("T", " ");
  if (name.endsWith("_seconds")) return duration(value);
  if (name.endsWith("_joules")) return `${number(value / 1000)} kJ`;
  return brief(value);
}

/** A name from the API as words. */
export function words(name) {
  return name.replace(/_(ratio|watts|celsius|mhz|bytes_per_second|bytes|seconds|joules)$/, "").replaceAll("_", " ");
}

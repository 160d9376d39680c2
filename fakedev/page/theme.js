// Light or dark: the theme of the system, until the user chooses.

const KEY = "fakedev-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const told = new Set();

/** "light" or "dark". */
export function theme() {
  return document.documentElement.dataset.theme;
}

/** Call back when the theme changes: canvases must be drawn again. Returns what ends that. */
export function onTheme(tell) {
  told.add(tell);
  return () => told.delete(tell);
}

/** The value of a colour of colours.css. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function apply() {
  const chosen = localStorage.getItem(KEY);
  document.documentElement.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
  for (const tell of told) tell();
}

system.addEventListener("change", apply);
document.getElementById("theme").addEventListener("click", () => {
  localStorage.setItem(KEY, theme() === "dark" ? "light" : "dark");
  apply();
});
apply();

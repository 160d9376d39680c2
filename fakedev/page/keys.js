// Keys for the whole page, and the dialog that lists them.
import { make, put } from "./dom.js";

const LISTED = [
  ["?", "this list"],
  ["/", "search in the open tab"],
  ["Esc", "close the dialog, the device or the search"],
  ["← →", "on a tab: the next tab; on the map: the next device"],
  ["↑ ↓ Home End", "on the map: the device above or below, the first, the last"],
  ["drag", "on a chart: zoom; double click: back to the present"],
  ["Ctrl + wheel, Shift + wheel", "on a chart: zoom, earlier or later"],
  ["Enter", "on the map: the charts of the device"],
];

export class Keys {
  /**
   * @param tabs returns [title, key, go()] of each tab that can be seen.
   * @param search returns the search field of the open tab, or null.
   * @param close closes what is open in the tab.
   */
  constructor(tabs, search, close) {
    this.tabs = tabs;
    this.search = search;
    this.close = close;
    this.tabKeys = make("kbd");
    this.tabTitles = make("dd");
    this.dialog = make(
      "dialog",
      { "aria-labelledby": "keys-title" },
      make("h2", { id: "keys-title" }, "Keys"),
      make(
        "dl",
        { class: "keys" },
        ...LISTED.flatMap(([keys, text]) => [make("dt", {}, make("kbd", {}, keys)), make("dd", {}, text)]),
        make("dt", {}, this.tabKeys),
        this.tabTitles,
      ),
      make("form", { method: "dialog" }, make("button", { class: "main" }, "Close")),
    );
    document.body.append(this.dialog);
    addEventListener("keydown", (event) => this._pressed(event));
    document.getElementById("keys").addEventListener("click", () => this._open());
  }

  _open() {
    const tabs = this.tabs();
    put(this.tabKeys, tabs.map(([, key]) => key).join(" "));
    put(this.tabTitles, `the tabs: ${tabs.map(([title]) => title).join(", ")}`);
    this.dialog.showModal();
  }

  _pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const go = this.tabs().find(([, key]) => key === event.key)?.[2];
    const isField = event.target.matches?.("input, select, textarea");
    if (event.key === "Escape") {
      if (isField) event.target.blur();
      else this.close();
    } else if (isField) return;
    else if (event.key === "?") this._open();
    else if (event.key === "/") this.search()?.focus();
    else if (go) go();
    else return;
    if (event.key !== "Escape") event.preventDefault();
  }
}

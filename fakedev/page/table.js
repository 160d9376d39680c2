// A table whose rows stay the same elements while their texts change: focus and selection are kept.
import { make, put } from "./dom.js";

export class Table {
  /**
   * @param columns {title, text(row)} or {title, element(row), made once}; number and brief set the style.
   * @param key identifies a row.
   */
  constructor(caption, columns, key, nothing) {
    this.columns = columns;
    this.key = key;
    this.rows = new Map();
    this.body = make("tbody");
    this.empty = nothing;
    // Nothing is known before the first answer.
    this.nothing = make("p", { class: "note" }, "Loading…");
    const looks = (column) => (column.number ? "number" : column.brief ? "brief" : null);
    this.looks = looks;
    const head = make(
      "tr",
      {},
      ...columns.map((column) => make("th", { scope: "col", class: looks(column) }, column.title)),
    );
    this.table = make("table", { "aria-label": caption }, make("thead", {}, head), this.body);
    this.table.hidden = true;
    this.element = make("div", {}, make("div", { class: "scroll" }, this.table), this.nothing);
  }

  /** Show rows in this order. */
  show(rows) {
    const left = new Set(this.rows.keys());
    rows.forEach((row, place) => {
      const key = String(this.key(row));
      left.delete(key);
      const line = this.rows.get(key) ?? this._add(key, row);
      this.columns.forEach((column, cell) => column.text && put(line.children[cell], column.text(row)));
      if (this.body.children[place] !== line) this.body.insertBefore(line, this.body.children[place] ?? null);
    });
    for (const key of left) {
      this.rows.get(key).remove();
      this.rows.delete(key);
    }
    this.table.hidden = rows.length === 0;
    put(this.nothing, this.empty);
    this.nothing.hidden = rows.length > 0;
  }

  _add(key, row) {
    const line = make(
      "tr",
      {},
      ...this.columns.map((column) =>
        make("td", { class: this.looks(column) }, column.element ? column.element(row) : ""),
      ),
    );
    this.rows.set(key, line);
    return line;
  }
}

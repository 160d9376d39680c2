// A table whose rows stay the same elements while their texts change: focus and selection are kept.
import { make, put } from "./dom.js";

const LOADING = "Loading…";

export class Table {
  /**
   * @param columns {title, text(row)} or {title, element(row), made once}; number and brief set the style, state(row)
   *   the colour, sort is the key of the order by this column.
   * @param key identifies a row.
   * @param sorted called with the key of an order, "-KEY" for the reverse, "" for none.
   */
  constructor(caption, columns, key, nothing, sorted = null) {
    this.columns = columns;
    this.key = key;
    this.rows = new Map();
    this.body = make("tbody");
    this.empty = nothing;
    this.sorted = sorted;
    this.heads = new Map();
    // Nothing is known before the first answer.
    this.nothing = make("p", { class: "note" }, LOADING);
    const looks = (column) => (column.number ? "number" : column.brief ? "brief" : null);
    this.looks = looks;
    const head = make(
      "tr",
      {},
      ...columns.map((column) => make("th", { scope: "col", class: looks(column) }, this._title(column))),
    );
    this.table = make("table", { "aria-label": caption }, make("thead", {}, head), this.body);
    this.table.hidden = true;
    const scroll = make("div", { class: "scroll" }, this.table);
    this.element = make("div", {}, scroll, this.nothing);
    // What is wider than its place is scrolled by keys, too.
    const scrolled = { tabindex: "0", role: "region", "aria-label": caption };
    const watch = new ResizeObserver(() => {
      const isWider = scroll.scrollWidth > scroll.clientWidth;
      for (const [name, value] of Object.entries(scrolled)) {
        if (isWider) scroll.setAttribute(name, value);
        else scroll.removeAttribute(name);
      }
    });
    watch.observe(scroll);
    watch.observe(this.table);
  }

  /** Show rows in this order. */
  show(rows) {
    const left = new Set(this.rows.keys());
    rows.forEach((row, place) => {
      const key = String(this.key(row));
      left.delete(key);
      const line = this.rows.get(key) ?? this._add(key, row);
      this.columns.forEach((column, cell) => {
        if (column.text) put(line.children[cell], column.text(row));
        if (column.state) line.children[cell].dataset.state = column.state(row);
      });
      if (this.body.children[place] !== line) this.body.insertBefore(line, this.body.children[place] ?? null);
    });
    for (const key of left) {
      this.rows.get(key).remove();
      this.rows.delete(key);
    }
    this._say(this.empty, rows.length > 0);
  }

  /** Show why the rows are not known. */
  fail(error) {
    this.show([]);
    this._say(`Cannot be loaded: ${error.message}`);
  }

  /** Forget the rows until the next answer. */
  reset() {
    this.show([]);
    this._say(LOADING);
  }

  /** Show by which column the rows are sorted. */
  mark(sort) {
    for (const [key, head] of this.heads) {
      const order = { [key]: "ascending", [`-${key}`]: "descending" }[sort];
      if (order) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    }
  }

  _say(text, hasRows = false) {
    put(this.nothing, text);
    this.table.hidden = !hasRows;
    this.nothing.hidden = hasRows;
  }

  /** The title of a column: a button where rows can be sorted by it. */
  _title({ title, sort, number: isNumber }) {
    if (!sort || !this.sorted) return title;
    // Of numbers the highest come first; the third press gives the order without a key.
    const orders = isNumber ? [`-${sort}`, sort, ""] : [sort, `-${sort}`, ""];
    const press = () => {
      const now = { ascending: sort, descending: `-${sort}` }[this.heads.get(sort).getAttribute("aria-sort")] ?? "";
      const next = orders[(orders.indexOf(now) + 1) % orders.length];
      this.mark(next);
      this.sorted(next);
    };
    const button = make("button", { type: "button", class: "sort", onclick: press }, title);
    // The head of the column is there when the button is pressed.
    queueMicrotask(() => this.heads.set(sort, button.parentElement));
    return button;
  }

  _add(key, row) {
    const line = make(
      "tr",
      {},
      ...this.columns.map((column) =>
        // A phone shows the title in front of each value.
        make("td", { class: this.looks(column), "data-title": column.title || null }, column.element ? column.element(row) : ""),
      ),
    );
    this.rows.set(key, line);
    return line;
  }
}

// A list of the API of any length: the service searches and sorts it and sends one page of it, again and again.
import { make, put } from "./dom.js";
import { number } from "./format.js";
import { Polling } from "./polling.js";
import { Table } from "./table.js";

const MOST = 50;

export class Collection {
  /**
   * @param name of the collection: the last part of its path, and the key of its items.
   * @param key identifies an item; null: items have no name, and are numbered from the last.
   * @param query further keys of the query, as text.
   */
  constructor(name, title, columns, key, nothing, query = "") {
    this.name = name;
    this._folder = "/api/v1";
    this._query = query;
    this.offset = 0;
    this.sort = "";
    this.search = make("input", {
      type: "search",
      placeholder: "Search",
      "aria-label": `Search: ${title}`,
      size: "16",
      oninput: () => this._turn(0),
    });
    this.empty = nothing;
    this.key = key;
    this.table = new Table(title, columns, key ?? ((row) => row.key), nothing, (sort) => {
      this.sort = sort;
      this._turn(0);
    });
    this.where = make("span", { class: "note", role: "status" });
    this.back = this._button("Previous", `Previous page: ${title}`, -1);
    this.on = this._button("Next", `Next page: ${title}`, 1);
    this.pager = make("div", { class: "row pager" }, this.where, this.back, this.on);
    this.pager.hidden = true;
    this.element = make("div", {}, this.table.element, this.pager);
    this.polling = new Polling(this._path(), (value, error) => this._show(value, error));
  }

  /** Ask for the page, at once or when it is time. */
  ask(now = false) {
    this.polling.ask(now);
  }

  /** Search for a text, in an order. */
  order(search, sort) {
    this.search.value = search;
    this.sort = sort;
    this.table.mark(sort);
    this._turn(0);
  }

  /** Further keys of the query. */
  set query(text) {
    this._query = text;
    this._turn(0);
  }

  /** The path above the collection; of the one at another path nothing is known. */
  set folder(path) {
    if (path === this._folder) return;
    this._folder = path;
    this.reset();
  }

  /** Another fleet, or another plan: nothing is known of it. */
  reset() {
    this.table.reset();
    this.pager.hidden = true;
    this.offset = 0;
    this.polling.path = this._path();
  }

  _button(text, what, step) {
    return make(
      "button",
      { type: "button", class: "small", "aria-label": what, onclick: () => this._turn(this.offset + step * MOST) },
      text,
    );
  }

  _turn(offset) {
    this.offset = Math.max(0, offset);
    this.polling.path = this._path();
    this.ask(true);
  }

  _path() {
    const { offset, sort } = this;
    const search = this.search.value.trim();
    const choice = Object.entries({ offset, search, sort }).filter(([, value]) => value);
    const words = choice.map(([name, value]) => `&${name}=${encodeURIComponent(value)}`).join("");
    return `${this._folder}/${this.name}?limit=${MOST}${words}${this._query}`;
  }

  _show(value, error) {
    if (error) {
      this.pager.hidden = true;
      this.table.fail(error);
      return;
    }
    const { total, [this.name]: items } = value;
    if (!items.length && total && this.offset) {
      // The list has become shorter than the page's place in it.
      this.offset = MOST * Math.floor((total - 1) / MOST);
      this.polling.path = this._path();
      return;
    }
    const isSearched = Boolean(this.search.value.trim());
    this.table.empty = isSearched ? "Nothing is found." : this.empty;
    const rows = this.key ? items : items.map((item, place) => ({ ...item, key: total - this.offset - place }));
    this.table.show(rows);
    this.pager.hidden = total <= MOST && !isSearched;
    const last = this.offset + items.length;
    put(this.where, items.length ? `${number(this.offset + 1)}-${number(last)} of ${number(total)}${isSearched ? " found" : ""}` : "");
    this.back.disabled = this.offset === 0;
    this.on.disabled = last >= total;
    this.back.hidden = this.on.hidden = total <= MOST;
  }
}

// The last points of a value in the stream, for charts; bounded.

export class Series {
  constructor(rows, most = 600) {
    this.most = most;
    this.times = [];
    this.rows = Array.from({ length: rows }, () => []);
  }

  /** Add a point, unless one of that time or later exists: a frame may be older than an answer of the API. */
  add(time, ...values) {
    if (time <= (this.times.at(-1) ?? -Infinity)) return;
    this.times.push(time);
    this.rows.forEach((row, place) => row.push(values[place]));
    if (this.times.length > this.most) {
      this.times.shift();
      for (const row of this.rows) row.shift();
    }
  }

  /** Remove all points. */
  clear() {
    this.times = [];
    this.rows = this.rows.map(() => []);
  }
}

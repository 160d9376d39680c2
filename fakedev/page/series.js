// The points of a value in the stream, for charts; bounded: of many points, the older half has every second one.

export class Series {
  constructor(rows, most = 4000) {
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
      const keeps = (_, place) => place > this.most / 2 || place % 2 === 0;
      this.times = this.times.filter(keeps);
      this.rows = this.rows.map((row) => row.filter(keeps));
    }
  }

  /** Remove all points. */
  clear() {
    this.times = [];
    this.rows = this.rows.map(() => []);
  }
}

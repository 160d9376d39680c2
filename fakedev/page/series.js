// The last points of something that the stream tells: bounded, for charts.

export class Series {
  constructor(rows, most = 600) {
    this.most = most;
    this.times = [];
    this.rows = Array.from({ length: rows }, () => []);
  }

  /** Add a point, unless there is one of that time or a later one: a frame may be behind what was asked for. */
  add(time, ...values) {
    if (time <= (this.times.at(-1) ?? -Infinity)) return;
    this.times.push(time);
    this.rows.forEach((row, place) => row.push(values[place]));
    if (this.times.length > this.most) {
      this.times.shift();
      for (const row of this.rows) row.shift();
    }
  }

  /** Forget all. */
  clear() {
    this.times = [];
    this.rows = this.rows.map(() => []);
  }
}

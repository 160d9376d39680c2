// The last points of something that the stream tells: bounded, for charts.

export class Series {
  constructor(rows, most = 600) {
    this.most = most;
    this.times = [];
    this.rows = Array.from({ length: rows }, () => []);
  }

  /** Add a point; time that runs backwards begins anew. */
  add(time, ...values) {
    if (time <= (this.times.at(-1) ?? -Infinity)) {
      if (time === this.times.at(-1)) return;
      this.clear();
    }
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

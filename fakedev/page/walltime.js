// The wall clock of simulated times: the clock can be paused and have any speed, so that each tick has its own.
const MOST = 8000;
let [seconds, walls] = [[], []];

/** A tick of some simulated seconds was due at a time, in seconds since 1970. */
export function noteWall(time, wall) {
  if (time <= (seconds.at(-1) ?? -Infinity)) return;
  seconds.push(time);
  walls.push(wall);
  if (seconds.length > MOST) [seconds, walls] = [seconds, walls].map((row) => row.filter((_, place) => place > MOST / 2 || place % 2));
}

/** Note the ticks of an answer of the API, also those before the known ones. */
export function noteWalls({ seconds: times, "wall-seconds": found }) {
  if (!found?.length) return;
  const [later, theirs] = [seconds, walls];
  const last = times.at(-1);
  [seconds, walls] = [[...times], [...found]];
  const earlier = later.findIndex((time) => time >= times[0]);
  if (earlier > 0) [seconds, walls] = [[...later.slice(0, earlier), ...seconds], [...theirs.slice(0, earlier), ...walls]];
  later.forEach((time, place) => time > last && noteWall(time, theirs[place]));
}

/** The time of day of some simulated seconds, by the clock of this computer; empty when it is not known. */
export function wallText(time) {
  if (!seconds.length) return "";
  let [low, high] = [0, seconds.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (seconds[middle] < time) low = middle + 1;
    else high = middle;
  }
  return dayText(walls[low] + (low && seconds[low] >= time ? share(low, time) : time - seconds[low]));
}

function share(place, time) {
  const [span, wall] = [seconds[place] - seconds[place - 1], walls[place] - walls[place - 1]];
  return ((time - seconds[place]) * wall) / span;
}

/** A time since 1970 as 14:05:09. */
export function dayText(since) {
  return new Date(1000 * since).toLocaleTimeString("en-GB");
}

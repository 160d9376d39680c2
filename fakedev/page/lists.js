// Lists whose elements stay the same while their texts change.
import { make, put } from "./dom.js";

/** Terms with their descriptions, in a dl. */
export function list(place, entries) {
  while (place.children.length > 2 * entries.length) place.lastChild.remove();
  entries.forEach(([term, text], number) => {
    if (place.children.length <= 2 * number) place.append(make("dt"), make("dd"));
    put(place.children[2 * number], term);
    put(place.children[2 * number + 1], text);
  });
}

/** Texts with a remark on each, in a ul. */
export function pairs(place, entries) {
  while (place.children.length > entries.length) place.lastChild.remove();
  entries.forEach(([one, other], number) => {
    if (place.children.length <= number) place.append(make("li", {}, make("b"), make("span")));
    put(place.children[number].firstChild, one);
    put(place.children[number].lastChild, other);
  });
}

// Elements from values. Text stays text: nothing here reads markup.

/** Make an element. Keys that begin with "on" add listeners, others set attributes (not for false and null). */
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Make an element of a drawing, likewise. */
export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Set the text of an element if it differs. */
export function put(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** A card with a title, elements beside the title, and content. */
export function card(title, beside, ...content) {
  return make("section", { class: "card" }, make("header", {}, make("h2", {}, title), ...beside), ...content);
}

/** A labelled field. */
export function field(label, control, help = "", wide = false) {
  return make(
    "label",
    { class: wide ? "wide" : null },
    label,
    control,
    help ? make("span", { class: "help" }, help) : null,
  );
}

/** A select with these options: [value, text]. */
export function select(name, options, chosen) {
  return make(
    "select",
    { name },
    ...options.map(([value, text]) => make("option", { value, selected: value === chosen }, text)),
  );
}

// Requests to the API, with the token when one is needed.
import { make } from "./dom.js";

const TOKEN = "fakedev-token";

/** An error from the API; the message has the reason and the place. */
export class Refused extends Error {}

async function answer(response) {
  const text = await response.text();
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    value = { error: { message: text.trim(), where: "" } };
  }
  if (response.ok) return value;
  const { message, where } = value.error ?? { message: response.statusText, where: "" };
  throw new Refused(where && !message.includes(where) ? `${where}: ${message}` : message);
}

/** GET a path of the API; the value. */
export async function get(path) {
  return answer(await fetch(path, { headers: { Accept: "application/json" } }));
}

/** Change something; asks the user once for a token when it is needed. */
export async function change(method, path, body) {
  const response = await sent(method, path, body);
  if (response.status === 401 && (await askToken())) return answer(await sent(method, path, body));
  return answer(response);
}

/** A change as a command for a shell. A token stays out of it: the command takes it from the variable TOKEN. */
export function curl(method, path, body) {
  const words = ["curl", "-sS", "-X", method];
  if (sessionStorage.getItem(TOKEN)) words.push("-H", '"Authorization: Bearer $TOKEN"');
  if (body !== undefined) words.push("-H", quoted("Content-Type: application/json"), "-d", quoted(JSON.stringify(body)));
  return [...words, quoted(location.origin + path)].join(" ");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function sent(method, path, body) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
}

function askToken() {
  const dialog = document.getElementById("ask-token");
  const input = document.getElementById("token");
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        const given = dialog.returnValue === "use" && input.value;
        if (given) sessionStorage.setItem(TOKEN, input.value);
        resolve(Boolean(given));
      },
      { once: true },
    );
  });
}

/** Show a text for a few seconds. */
export function say(text, isBad = false) {
  const place = document.getElementById("said");
  const line = make("p", { class: isBad ? "bad" : null }, text);
  place.append(line);
  // Above an open dialog.
  place.hidePopover?.();
  place.showPopover?.();
  while (place.children.length > 3) place.firstChild.remove();
  setTimeout(() => line.remove(), isBad ? 9000 : 4000);
}

/** Show why the past of a chart is missing; a lost connection is shown by the header, and the next stream asks again. */
export function noPast(error) {
  if (error instanceof Refused) say(`The past cannot be loaded: ${error.message}`, true);
}

/** Make a change for the user and show an error if it fails; the answer, or null. */
export async function attempt(doing, done) {
  try {
    const value = await doing();
    if (done) say(typeof done === "function" ? done(value) : done);
    return value;
  } catch (error) {
    say(error instanceof Refused ? error.message : "fakedev does not answer", true);
    return null;
  }
}

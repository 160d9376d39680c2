// What the user can change: requests as buttons, each also as a curl command to copy, and the question before it.
import { attempt, change, curl, say } from "./ask.js";
import { make } from "./dom.js";

/** Copy a text; where the page may not, say how. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
  } catch {
    // Browsers allow the clipboard to secure pages only.
    const area = make("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    say(isCopied ? "Copied" : text, !isCopied);
  }
}

/** A small button that copies a request as a curl command.
 * @param what the action, for screen readers.
 * @param request returns [method, path, body].
 */
export function curlButton(what, request) {
  return make(
    "button",
    {
      type: "button",
      class: "small quiet",
      title: `Copy as curl: ${what}`,
      "aria-label": `Copy as curl: ${what}`,
      onclick: () => copy(curl(...request())),
    },
    "curl",
  );
}

/** Buttons of a row: the action, and its curl command.
 * @param text of the button; what: the action, for screen readers.
 * @param request [method, path, body]; done: the text after it, or a function of the answer; then: called afterwards.
 */
export function rowAction(text, what, request, done, then, style = "") {
  const act = async () => {
    await attempt(() => change(...request), done);
    then();
  };
  return make(
    "span",
    { class: "actions" },
    make("button", { type: "button", class: `small ${style}`.trim(), "aria-label": what, onclick: act }, text),
    curlButton(what, () => request),
  );
}

/** Ask before something that cannot be undone; whether the user agrees. */
export function confirmed(question, yes) {
  const dialog = make(
    "dialog",
    { "aria-labelledby": "question" },
    make(
      "form",
      { method: "dialog" },
      make("h2", { id: "question" }, question),
      make(
        "div",
        { class: "row" },
        make("button", { value: "yes", class: "main" }, yes),
        make("button", { value: "no" }, "Cancel"),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}

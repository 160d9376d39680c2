// Workloads: list, start and stop them.
import { curlButton, rowAction } from "./actions.js";
import { attempt, change } from "./ask.js";
import { Collection } from "./collection.js";
import { card, field, make, select } from "./dom.js";
import { duration, number } from "./format.js";
import { dayText } from "./walltime.js";

const KINDS = [
  ["compute", "compute"],
  ["tensor", "tensor (hotter)"],
  ["memory", "memory (cooler)"],
  ["transfer", "transfer"],
];

export class WorkloadsTab {
  constructor(app) {
    this.list = new Collection(
      "workloads",
      "Workloads",
      [
        { title: "Name", sort: "name", text: (row) => row.name },
        { title: "Id", sort: "id", text: (row) => row.id, brief: true },
        { title: "Devices", sort: "device-count", text: (row) => `${number(row["device-count"])}: ${brief(row.devices)}` },
        { title: "Load", sort: "load-percent", number: true, text: (row) => `${number(row["load-percent"], 1)} %` },
        {
          title: "Runs for",
          sort: "run-seconds",
          number: true,
          text: (row) => (row.state === "starting" ? "starting" : duration(row["run-seconds"])),
        },
        {
          title: "Left",
          sort: "remaining-seconds",
          number: true,
          text: (row) => (row["remaining-seconds"] === null ? "until stopped" : duration(row["remaining-seconds"])),
        },
        { title: "Used by", sort: "pod", text: (row) => [row.namespace, row.pod, row.container].filter(Boolean).join(" / ") },
        {
          title: "",
          element: (row) =>
            rowAction(
              "Stop",
              `Stop ${row.name} (${row.id})`,
              ["DELETE", `/api/v1/workloads/${encodeURIComponent(row.id)}`],
              `${row.name} is stopped`,
              () => this.list.ask(true),
              "danger",
            ),
        },
      ],
      (row) => row.id,
      "Nothing runs: all devices idle.",
    );
    this.ended = new Collection(
      "ended-workloads",
      "Ended workloads",
      [
        { title: "Name", sort: "name", text: (row) => row.name },
        { title: "Id", sort: "id", text: (row) => row.id, brief: true },
        { title: "Devices", text: (row) => row.devices },
        { title: "Code", sort: "code", number: true, text: (row) => row.code },
        { title: "Text", sort: "text", text: (row) => [row.text, row.detail].filter(Boolean).join(": ") },
        { title: "Cause", sort: "cause", text: (row) => row.cause, brief: true },
        { title: "Pod", sort: "pod", text: (row) => row.pod },
        { title: "Tick", sort: "ended-tick", number: true, text: (row) => number(row["ended-tick"]) },
        { title: "At", brief: true, text: (row) => dayText(Date.parse(row["ended-at"]) / 1000) },
      ],
      (row) => row.id,
      "None has ended yet.",
    );
    this.search = this.list.search;
    this.form = this._form();
    this.element = make(
      "div",
      { class: "tab" },
      card("Start a workload", [], this.form),
      card("Workloads", [this.search], this.list.element),
      card("Ended workloads", [this.ended.search, make("span", { class: "note" }, "newest first")], this.ended.element),
    );
  }

  /** The stream began, or began again: the fleet may be another. */
  outline() {
    this.list.reset();
    this.ended.reset();
  }

  frame() {
    this.list.ask();
    this.ended.ask();
  }

  shown() {
    this.list.ask(true);
    this.ended.ask(true);
  }

  /** Put the name of a device into the form. */
  give(device) {
    this.form.elements.devices.value = device;
    this.form.elements.load.focus();
  }

  _form() {
    const input = (name, attributes) => make("input", { name, autocomplete: "off", ...attributes });
    return make(
      "form",
      { class: "fields", onsubmit: (event) => (event.preventDefault(), this._start()) },
      field("Name", input("name", { required: true, value: "my-job" })),
      field("Devices", input("devices", { required: true, placeholder: "dgx-0/3, dgx-[0-3]/*, all" })),
      field(
        "Load %",
        input("load", { type: "number", min: "0", max: "100", step: "any", value: "80", required: true }),
      ),
      field(
        "Up and down %",
        input("swing", { type: "number", min: "0", max: "50", step: "any", value: "5", required: true }),
      ),
      field(
        "Seconds (0: until stopped)",
        input("seconds", { type: "number", min: "0", step: "any", value: "0", required: true }),
      ),
      field("Kind of work", select("kind", KINDS, "compute")),
      field("Or a whole profile", input("profile", { placeholder: "97:2:50,55:10:4" }), "", true),
      field("Pod", input("pod", {})),
      make(
        "div",
        { class: "row" },
        make("button", { class: "main" }, "Start"),
        curlButton("start the workload", () => this._request()),
      ),
    );
  }

  _request() {
    const { name, devices, load, swing, seconds, kind, profile, pod } = this.form.elements;
    const body = {
      name: name.value.trim(),
      devices: devices.value.split(/[\s,]+/).filter(Boolean),
      profile: profile.value.trim() || `${load.value}:${swing.value}:${seconds.value}`,
      kind: kind.value,
    };
    if (pod.value.trim()) body.pod = pod.value.trim();
    return ["POST", "/api/v1/workloads", body];
  }

  async _start() {
    await attempt(
      () => change(...this._request()),
      (made) => `${made.name} starts as ${made.id}`,
    );
    this.list.ask(true);
  }
}

function brief(devices) {
  const text = devices.slice(0, 4).join(", ");
  return devices.length > 4 ? `${text}, …` : text;
}

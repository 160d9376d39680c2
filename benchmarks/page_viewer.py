"""A viewer of the web page, for web_page.py: python page_viewer.py ADDRESS SECONDS.

Prints a line when the page is shown, and after the time what was measured, as JSON: milliseconds of each frame of the
live stream and of its drawing, the processor time of the page's thread for each, redraws a second, the longest time
between two of them, and memory.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.task import react

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.programs.browser import Chromium

#: Measures each frame of the stream: its script with all that follows at once, and the drawing after it.
_COSTS: Final = """
window.costs = [];
window.frames_seen = 0;
const add = EventSource.prototype.addEventListener;
const after = (call) => {
  const {port1, port2} = new MessageChannel();
  port1.onmessage = call;
  port2.postMessage(0);
};
EventSource.prototype.addEventListener = function (name, listener) {
  const measured = (event) => {
    const begun = performance.now();
    listener(event);
    frames_seen++;
    after(() => {
      const script = performance.now() - begun;
      requestAnimationFrame(() => {
        const drawn = performance.now();
        after(() => costs.push(script + performance.now() - drawn));
      });
    });
  };
  return add.call(this, name, name === "tick" ? measured : listener);
};
"""
_WATCH: Final = """
new Promise((done) => {
  const redraws = [];
  costs.length = 0;
  const began = performance.now();
  let last = began;
  function redraw(now) {
    redraws.push(now - last);
    last = now;
    if (now - began < SECONDS * 1000) requestAnimationFrame(redraw);
    else done({redraws: redraws.length / SECONDS, longest: Math.max(...redraws), costs});
  }
  requestAnimationFrame(redraw);
})
"""


async def view(address: str, seconds: int) -> None:
    """Look at a page for some time."""
    with tempfile.TemporaryDirectory() as folder:
        chromium = Chromium(shutil.which("chromium") or "chromium", Path(folder))
        try:
            browser = await chromium.tab(1440, 900)
            await browser.call("Page.addScriptToEvaluateOnNewDocument", source=_COSTS)
            await browser.open(address)
            await browser.until("document.querySelector('.map canvas')?.height > 100 && costs.length > 5")
            print("shown", flush=True)
            processes = (await chromium.call("SystemInfo.getProcessInfo"))["processInfo"]
            began = {each["id"]: _thread_seconds(each["id"]) for each in processes if each["type"] == "renderer"}
            first = await browser.value("frames_seen")
            await browser.value(f"new Promise((done) => setTimeout(done, {1000 * seconds}))")
            # The busiest renderer is that of the page; the others belong to empty tabs.
            used, page = max((_thread_seconds(each) - before, each) for each, before in began.items())
            cpu = used / (await browser.value("frames_seen") - first)
            found: dict[str, Any] = await browser.value(_WATCH.replace("SECONDS", str(seconds)))
            found["cpu"] = 1000 * cpu
            await browser.call("HeapProfiler.collectGarbage")
            await browser.call("Performance.enable")
            metrics = (await browser.call("Performance.getMetrics"))["metrics"]
            found["heap"] = next(metric["value"] for metric in metrics if metric["name"] == "JSHeapUsedSize")
            found["private"] = _private_bytes(page)
            print(json.dumps(found), flush=True)
        finally:
            await chromium.kill()


def _thread_seconds(pid: int) -> float:
    """The processor time of the first thread of a process, which runs the page."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def _private_bytes(pid: int) -> int:
    """The memory of a process that no other one shares."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return 1024 * sum(int(size) for size in re.findall(r"^Private_\w+: +(\d+)", text, re.MULTILINE))


if __name__ == "__main__":
    react(lambda _: Deferred.fromCoroutine(view(sys.argv[1], int(sys.argv[2]))))

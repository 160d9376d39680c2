"""A real Chromium without a window, driven by its DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

#: How long the browser may take for one answer: the machine may be busy.
PATIENCE_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.1
#: Chromium reads commands from descriptor 3 and writes answers to 4.
_LAUNCH = (
    "import os, sys, fcntl\n"
    "ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]\n"
    "os.dup2(ends[0], 3); os.dup2(ends[1], 4)\n"
    "os.execvp(sys.argv[3], sys.argv[3:])\n"
)


class Browser:
    """One tab of a Chromium that starts from an empty profile.

    :ivar complaints: what the page wrote to the console as an error or warning, and uncaught exceptions.
    :ivar asked: the address of everything that was loaded.
    """

    def __init__(self, chromium: str, folder: Path, width: int = 1280, height: int = 800, theme: str = "light") -> None:
        profile = folder / "chromium"
        profile.mkdir()
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [
            *(sys.executable, "-c", _LAUNCH, str(to_read), str(to_write), chromium),
            *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}"),
            *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
            f"--window-size={width},{height}",
        ]
        self._process = subprocess.Popen(
            command, pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._unread = b""
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.theme(theme)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self._next(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self, address: str) -> None:
        """Go to a page."""
        self.call("Page.navigate", url=address)

    def value(self, script: str) -> Any:
        """What a JavaScript expression is worth in the page; a promise is waited for."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise AssertionError(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def until(self, script: str, seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait until a JavaScript expression is true; its value."""
        last = time.monotonic() + seconds
        while not (found := self.value(script)):
            if time.monotonic() > last:
                shown = self.value("document.body.innerText")
                raise AssertionError(f"not within {seconds} s: {script}\n{shown[:2000]}")
            time.sleep(_LOOK_AGAIN_SECONDS)
        return found

    def press(self, key: str, code: int = 0, shift: bool = False) -> None:
        """Press a key and let it go."""
        text = {"Enter": "\r", " ": " "}.get(key)
        fields: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **fields, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **fields)

    def click(self, x: float, y: float) -> None:
        """Click at a place of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Give the window another size."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def theme(self, name: str) -> None:
        """Let the system prefer light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self) -> bytes:
        """The window as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        """End the browser and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise AssertionError("the browser does not answer")
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.asked.append(parameters["request"]["url"])
        elif event["method"] == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(str(details.get("exception", {}).get("description", details)))
        elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(parameters["args"]))

"""A real Chromium without a window, driven by its DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from tests.support.programs.processes import PATIENCE_SECONDS, AsyncProgram

_LOOK_AGAIN_SECONDS = 0.05
#: The descriptors from which Chromium reads commands and to which it writes answers.
_COMMANDS, _ANSWERS = 3, 4


class Chromium(AsyncProgram):
    """A Chromium that runs, for any number of tabs."""

    def __init__(self, path: str, folder: Path) -> None:
        self._unread = bytearray()
        self._answers: dict[int, Deferred[dict[str, Any]]] = {}
        self._tabs: dict[str, Browser] = {}
        self._number = 0
        command = [
            *(path, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
            *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
            f"--user-data-dir={folder / 'chromium'}",
        ]
        super().__init__(command, descriptors={_COMMANDS: "w", _ANSWERS: "r"})

    async def tab(self, width: int = 1280, height: int = 800, theme: str = "light") -> Browser:
        """A tab of a profile of its own, which is empty."""
        profile = (await self.call("Target.createBrowserContext"))["browserContextId"]
        target = await self.call(
            "Target.createTarget", url="about:blank", browserContextId=profile, width=width, height=height
        )
        session = (await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True))["sessionId"]
        browser = self._tabs[session] = Browser(self, session, profile)
        for domain in ("Page", "Runtime", "Log", "Network"):
            await browser.call(f"{domain}.enable")
        await browser.resize(width, height)
        await browser.theme(theme)
        return browser

    async def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, of the browser or of the tab with this session; its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        answered: Deferred[dict[str, Any]] = Deferred()
        self._answers[self._number] = answered
        self.write(f"{json.dumps(message)}\0", _COMMANDS)
        answer = await answered.addTimeout(PATIENCE_SECONDS, reactor)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        """Take an answer or an event (called by Twisted)."""
        if childFD != _ANSWERS:
            super().childDataReceived(childFD, data)
            return
        self._unread += data
        *messages, self._unread = self._unread.split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers.pop(message["id"]).callback(message)
            elif tab := self._tabs.get(message.get("sessionId", "")):
                tab.note(message)

    def processEnded(self, reason: Failure) -> None:
        """It has ended: no answer will come (called by Twisted)."""
        super().processEnded(reason)
        for answered in list(self._answers.values()):
            answered.errback(AssertionError(f"the browser has ended with {self.exit_code}\n{self.stderr}"))


class Browser:
    """One tab of a Chromium.

    :ivar complaints: what the page wrote to the console as an error or warning, and exceptions that it did not catch.
    :ivar asked: the address of everything that was loaded.
    :ivar sent: every request: its method, address and body (empty for none).
    :ivar refused: the status and the address of every answer that says no.
    """

    def __init__(self, chromium: Chromium, session: str, profile: str) -> None:
        self._chromium = chromium
        self._session = session
        self._profile = profile
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.sent: list[tuple[str, str, str]] = []
        self.refused: list[tuple[int, str]] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; its result."""
        return await self._chromium.call(method, self._session, **parameters)

    async def open(self, address: str) -> None:
        """Go to a page."""
        await self.call("Page.navigate", url=address)

    async def value(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; if it is a promise, what that comes to."""
        done = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, f"{script}: {done['exceptionDetails']}"
        return done["result"].get("value")

    async def until(self, script: str, seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait until a JavaScript expression is true; its value."""
        last = reactor.seconds() + seconds
        while not (found := await self.value(script)):
            if reactor.seconds() > last:
                shown = await self.value("document.body.innerText")
                raise AssertionError(f"not within {seconds} s: {script}\n{shown[:2000]}")
            await deferLater(reactor, _LOOK_AGAIN_SECONDS)
        return found

    async def press(self, key: str, code: int = 0, shift: bool = False) -> None:
        """Press a key and release it."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else None)
        fields: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **fields, **({"text": text} if text else {}))
        await self.call("Input.dispatchKeyEvent", type="keyUp", **fields)

    async def point(self, x: float, y: float) -> None:
        """Move the pointer to a place of the window."""
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def tap(self, x: float, y: float) -> None:
        """Tap with a finger on a place of the window."""
        await self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        await self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        await self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    async def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Give the window another size."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **size)

    async def theme(self, name: str) -> None:
        """Let the system prefer light or dark."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    async def picture(self) -> bytes:
        """The window as PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])

    async def close(self) -> None:
        """Close the tab and forget its profile."""
        await self._chromium.call("Target.disposeBrowserContext", browserContextId=self._profile)

    def note(self, event: dict[str, Any]) -> None:
        """Keep an event of the tab."""
        parameters = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            request = parameters["request"]
            self.asked.append(request["url"])
            self.sent.append((request["method"], request["url"], request.get("postData", "")))
        elif event["method"] == "Network.responseReceived" and parameters["response"]["status"] >= 400:
            self.refused.append((parameters["response"]["status"], parameters["response"]["url"]))
        elif event["method"] == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(str(details.get("exception", {}).get("description", details)))
        elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(parameters["args"]))

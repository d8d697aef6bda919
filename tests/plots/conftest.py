"""A headless browser for the pages that figures are, and runs to draw."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fluxctl.plots.images import find_browser

_LIMIT_S = 60.0
# What a reader would call broken: text that leaves its figure, or a legend entry that lies on the data.
_LAYOUT_FAULTS = """
[...document.querySelectorAll(".js-plotly-plot")].flatMap(plot => {
  const box = part => part.getBoundingClientRect();
  const meet = (a, b) => a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top;
  const within = (a, b) =>
    a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  const words = [...plot.querySelectorAll("svg text")].filter(part => part.textContent.trim() && box(part).width);
  const areas = [...plot.querySelectorAll(".nsewdrag")].map(box);
  const cut = words.filter(part => !within(box(part), box(plot)));
  const covering = [...plot.querySelectorAll(".legendtext")].filter(part => areas.some(area => meet(box(part), area)));
  const hidden = [...plot.querySelectorAll(".legend .scrollbar")].filter(part => box(part).height > 0);
  return [
    ...cut.map(part => `${plot.id}: cut off: ${part.textContent}`),
    ...covering.map(part => `${plot.id}: legend on data: ${part.textContent}`),
    ...hidden.map(() => `${plot.id}: legend scrolls`),
  ];
})
"""
# Plotly shows a hover label, and acts on a click in its legend, some frames later.
_UNTIL = """
new Promise(done => {
  const look = tries => {
    const now = (%s)();
    now || !tries ? done(now) : requestAnimationFrame(() => look(tries - 1));
  };
  look(200);
})
"""


class Browser:
    """Chromium over its debugging pipe: no port, no library. The network is off."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="fluxctl-browser-")
        self._number = 0
        self._buffer = b""
        read_end, self._in = os.pipe()
        self._out, write_end = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        offline = ["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking"]
        command = [path, *flags, *offline, "--remote-debugging-pipe", f"--user-data-dir={self._profile}", "about:blank"]
        script = f'exec 3<&{read_end} 4>&{write_end}; exec "$@"'  # the pipe is expected on descriptors 3 and 4
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", *command],
            pass_fds=(read_end, write_end),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_end)
        os.close(write_end)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, page: Path, width: int = 1200, height: int = 900) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, page, width, height)

    def call(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self._in, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    @property
    def events(self) -> list[dict[str, Any]]:
        if not hasattr(self, "_events"):
            self._events: list[dict[str, Any]] = []
        return self._events

    def read(self) -> dict[str, Any]:
        deadline = time.monotonic() + _LIMIT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._out, 1 << 20)
            assert data, "the browser has gone"
            self._buffer += data
        raw, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(raw)


class Page:
    """One page in a tab of its own."""

    def __init__(self, browser: Browser, session: str, path: Path, width: int, height: int) -> None:
        self._browser, self._session, self._width = browser, session, width
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")
        self.call("Network.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(self._is_mine(event) and event["method"] == "Page.loadEventFired" for event in browser.events):
            browser.events.append(browser.read())

    def _is_mine(self, event: dict[str, Any]) -> bool:
        return event.get("sessionId") == self._session

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait until two frames have been drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def until(self, script: str) -> Any:
        """What a function says as soon as that is something; or what it says after 200 frames."""
        return self.run(_UNTIL % script)

    def faults(self) -> list[str]:
        """What is cut off, covered, or wider than the screen."""
        wide = self.run("document.documentElement.scrollWidth") > self._width
        return [*self.run(_LAYOUT_FAULTS), *(["the page is wider than the screen"] if wide else [])]

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def complaints(self) -> list[str]:
        """Console errors and warnings, exceptions, and requests that left the file."""
        self.settle()
        found = []
        for event in filter(self._is_mine, self._browser.events):
            method, params = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:", "blob:")):
                    found.append(f"request to {url}")
        return found

    def screenshot(self, path: Path) -> None:
        import base64

        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium is installed")
    opened = Browser(path)
    yield opened
    opened.close()

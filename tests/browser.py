"""A headless Chromium driven over WebDriver's own HTTP protocol: no package needed but the browser and its driver."""

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key under which the protocol names an element."""


def missing() -> str | None:
    """Which part of the browser is not installed here, if any."""
    if not any(map(shutil.which, BROWSERS)):
        return "no Chromium here (Debian: apt-get install chromium chromium-driver)"
    return (
        None
        if shutil.which("chromedriver")
        else "no chromedriver here (Debian: apt-get install chromium-driver)"
    )


@dataclass(frozen=True)
class Page:
    """One browser window."""

    url: str

    def open(self, address: str) -> None:
        """Load a page and wait for it."""
        self._call("POST", "url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that the body of a function returns in the page."""
        return self._call("POST", "execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector: str) -> None:
        """A click of the pointer on the first element that fits, scrolled into view."""
        self._call("POST", f"element/{self._find(selector)}/click", {})

    def type(self, selector: str, keys: str) -> None:
        """Key strokes into the first element that fits."""
        self._call("POST", f"element/{self._find(selector)}/value", {"text": keys})

    def hover(self, selector: str) -> None:
        """The mouse over the middle of an element."""
        self._mouse([self._move(selector, 0.0)])

    def drag(self, selector: str, start: float, end: float) -> None:
        """Press, move and release the mouse over an element, between two shares of its width from its middle."""
        moves = [self._move(selector, share) for share in (start, end)]
        self._mouse(
            [moves[0], {"type": "pointerDown", "button": 0}, moves[1], {"type": "pointerUp", "button": 0}]
        )

    def _move(self, selector: str, share: float) -> dict[str, Any]:
        width = self.run(
            "return document.querySelector(arguments[0]).getBoundingClientRect().width", selector
        )
        origin = {ELEMENT: self._find(selector)}
        return {"type": "pointerMove", "duration": 0, "origin": origin, "x": round(share * width), "y": 0}

    def _mouse(self, actions: list[dict[str, Any]]) -> None:
        pointer = {
            "type": "pointer",
            "id": "mouse",
            "parameters": {"pointerType": "mouse"},
            "actions": actions,
        }
        self._call("POST", "actions", {"actions": [pointer]})

    def console(self) -> list[str]:
        """What the page wrote to the console since the last call, errors of loading included."""
        entries = self._call("POST", "se/log", {"type": "browser"})
        return [f"{entry['level']}: {entry['message']}" for entry in entries]

    def alert(self) -> bool:
        """Whether a script has opened an alert."""
        try:
            self._call("GET", "alert/text")
        except LookupError:
            return False
        return True

    def screenshot(self, path: Path) -> None:
        """What the window shows, as a PNG."""
        path.write_bytes(base64.b64decode(self._call("GET", "screenshot")))

    def _find(self, selector: str) -> str:
        found = self._call("POST", "element", {"using": "css selector", "value": selector})
        return str(found[ELEMENT])

    def _call(self, method: Literal["GET", "POST", "DELETE"], path: str, body: Any = None) -> Any:
        return call(f"{self.url}/{path}", method, body)


def call(url: str, method: str, body: Any = None) -> Any:
    """One command of the protocol; what the driver refuses is a LookupError in its words."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise LookupError(json.load(error)["value"]["message"]) from error


@contextlib.contextmanager
def browser(width: int = 1300, height: int = 1000) -> Iterator[Page]:
    """A fresh headless browser; its driver listens on 127.0.0.1 alone, at a port the system picks."""
    with tempfile.TemporaryDirectory(prefix="papd-browser-") as home, _driver(home) as address:
        options = {
            "binary": next(path for name in BROWSERS if (path := shutil.which(name))),
            "args": [
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                f"--user-data-dir={home}/profile",
                f"--window-size={width},{height}",
            ],
        }
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "unhandledPromptBehavior": "ignore",
        }
        session = call(f"{address}/session", "POST", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        try:
            yield Page(f"{address}/session/{session}")
        finally:
            call(f"{address}/session/{session}", "DELETE")


@contextlib.contextmanager
def _driver(home: str) -> Iterator[str]:
    command = ["chromedriver", "--port=0", "--allowed-ips=127.0.0.1"]
    environment = {**os.environ, "HOME": home}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            port = next(
                m[1]
                for line in process.stdout
                if (m := re.search(r"started successfully on port (\d+)", line))
            )
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()

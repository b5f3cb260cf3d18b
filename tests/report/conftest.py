"""Runs to draw, and a browser to look at the pages with."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import fit_run

from dcfsc.io import Dataset, synthetic
from dcfsc.report import Details, read_details
from dcfsc.runs.folder import Run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
WAIT_SECONDS = 300  # for a browser that does not answer; a slow one does


def options(n_clusters: int) -> dict[str, Any]:
    return {"n_clusters": n_clusters, "random_state": 0, "device": "cpu"}


def stripes(n: int = 120) -> Dataset:
    """Images (n, 12, 10) of three kinds, a tenth of them noisy, some of them under a wrong name."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    basis = rng.normal(size=(3, 2, 120))
    X = np.einsum("nk,nkd->nd", rng.normal(size=(n, 2)), basis[y])
    X += rng.normal(size=X.shape) * np.where(np.arange(n) % 10 == 0, 1.5, 0.1)[:, None]
    y = np.where(np.arange(n) % 15 == 0, (y + 1) % 3, y)
    return Dataset("stripes", X.reshape(n, 12, 10), y, label_names=["<b>one</b>", "two", "three"])


@pytest.fixture(scope="session")
def image_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("images") / "run"
    # Without a metric, so that there is a ridge to draw the path of.
    settled = {**options(3), "representation": "given"}
    return fit_run(stripes(), "closed-form", settled, folder, report=True)


@pytest.fixture(scope="session")
def feature_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    data = synthetic(90, 3, 4, 20, random_state=0)
    folder = tmp_path_factory.mktemp("features") / "run"
    bare = Dataset("a </script> name", data.X)
    return fit_run(bare, "closed-form", options(3), folder, report=True)


@pytest.fixture
def details(image_run: Run) -> Details:
    return read_details(image_run.folder / "details.npz")


class Browser:
    """A headless Chromium, spoken to over the DevTools protocol."""

    def __init__(self, profile: Path):
        self._log = open(profile / "log", "wb")  # noqa: SIM115
        self._process = subprocess.Popen(
            [
                str(CHROMIUM),
                *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *("--no-first-run", "--remote-debugging-port=0", "--remote-allow-origins=*"),
                *(f"--user-data-dir={profile}", "about:blank"),
            ],
            stdout=self._log,
            stderr=self._log,
        )
        import websocket

        self._socket = websocket.create_connection(
            self._page(profile), timeout=WAIT_SECONDS, suppress_origin=True
        )
        self._ids = itertools.count(1)
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def _page(self, profile: Path) -> str:
        port_file = profile / "DevToolsActivePort"
        for _ in range(10 * WAIT_SECONDS):
            if port_file.exists() and port_file.read_text().strip():
                port = port_file.read_text().split()[0]
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
                    pages = [t for t in json.load(answer) if t["type"] == "page"]
                if pages:
                    return pages[0]["webSocketDebuggerUrl"]
            time.sleep(0.1)
        raise RuntimeError("chromium did not start")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def _receive(self) -> dict[str, Any]:
        message = json.loads(self._socket.recv())
        method, content = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(content["exceptionDetails"]))
        elif method == "Log.entryAdded" and content["entry"]["level"] in ("error", "warning"):
            self.problems.append(content["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and content["type"] in ("error", "warning"):
            self.problems.append(str(content["args"]))
        elif method == "Network.requestWillBeSent":
            url = content["request"]["url"]
            if not url.startswith(("file:", "data:", "about:")):
                self.problems.append(f"asked for {url}")
        return message

    def open(self, page: Path, width: int = 1280, height: int = 900, theme: str = "light") -> None:
        """Show a page at a size, and wait until it has loaded."""
        self.problems.clear()
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.call("Page.navigate", url=page.absolute().as_uri())
        while self._receive().get("method") != "Page.loadEventFired":
            pass
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript on the page."""
        result = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str) -> None:
        more = {"text": "\r", "windowsVirtualKeyCode": 13} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **more)

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=WAIT_SECONDS)
        self._log.close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine; install Debian's package 'chromium'")
    pytest.importorskip("websocket", reason="the package websocket-client is not installed")
    profile = tmp_path_factory.mktemp("chromium")
    os.environ.setdefault("XDG_RUNTIME_DIR", str(profile))
    opened = Browser(profile)
    yield opened
    opened.close()

"""Servers that cut, lie, hang or talk nonsense: one line, nothing kept, and a retry works."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from dcfsc.errors import InputError
from research.data import download

CONTENT = bytes(range(256)) * 2000
PATIENCE_SECONDS = 600  # of a server that says nothing, or of a client of a slow one
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Server(BaseHTTPRequestHandler):
    """Behaves as it is told; silent."""

    behavior: ClassVar[str] = "good"
    released: ClassVar[threading.Event] = threading.Event()
    gave_up: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        getattr(self, f"_{self.behavior}")()

    def _headers(self, length: int | None = len(CONTENT)) -> None:
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _good(self) -> None:
        self._headers()
        self.wfile.write(CONTENT)

    def _half(self) -> None:
        self._headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2])

    def _half_without_a_length(self) -> None:
        self._headers(None)
        self.wfile.write(CONTENT[: len(CONTENT) // 2])

    def _wrong(self) -> None:
        self._headers()
        self.wfile.write(CONTENT[::-1])

    def _more(self) -> None:
        self._headers(len(CONTENT) + 5)
        self.wfile.write(CONTENT + b"extra")

    def _nothing(self) -> None:
        self._headers(0)

    def _page(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html>please log in</html>")

    def _garbage(self) -> None:
        self.wfile.write(b"\x00\xff\x13\x37 not HTTP\r\n\r\n")

    def _bad_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"zz\r\nnot a chunk\r\n")

    def _silence(self) -> None:
        if not self.released.wait(PATIENCE_SECONDS):
            self.gave_up.set()

    def _silence_in_the_middle(self) -> None:
        self._headers()
        self.wfile.write(CONTENT[:1000])
        self.wfile.flush()
        self._silence()

    def _error(self) -> None:
        self.send_error(503)

    def _circle(self) -> None:
        self.send_response(302)
        self.send_header("Location", self.path)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


BEHAVIORS = [
    name[1:]
    for name in vars(Server)
    if name.startswith("_") and not name.startswith("__") and name not in ("_headers", "_good")
]


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    Server.released.clear()
    Server.gave_up.clear()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/set.bin"
    Server.released.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_one_line_nothing_kept_and_a_retry_works(
    behavior: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "data" / "set.bin"
    monkeypatch.setattr(Server, "behavior", behavior)
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.5)
    with pytest.raises(InputError) as raised:
        download.fetch(address, CHECKSUM, target)
    assert len(str(raised.value).splitlines()) == 1
    assert list(target.parent.iterdir()) == []
    assert not Server.gave_up.is_set()  # it was the client that ended the silence
    monkeypatch.setattr(Server, "behavior", "good")
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", PATIENCE_SECONDS)
    assert download.fetch(address, CHECKSUM, target).read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]

"""What tests of data share: small trees of pictures, there or whole, and a web site here that misbehaves as it is told."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


@pytest.fixture
def plant() -> Callable[..., Path]:
    """Called with a folder and names: files of these names, of one byte each."""

    def make(folder: Path, names: Iterable[str]) -> Path:
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"-")
        return folder

    return make


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        acts = self.site.acts.get(path)
        self.site.asked.append((path, self.headers.get("Range"), self.headers.get("If-Range")))
        self.close_connection = True
        if not acts:
            return self.head(404, "Content-Length: 0")
        with suppress(OSError):  # the other side has had enough
            (acts.pop(0) if len(acts) > 1 else acts[0])(self)
        return None

    def head(self, status: int, *lines: str) -> None:
        text = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} Told", *lines, "Connection: close", ""))
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        pass


Act = Callable[[Handler], object]


class Site:
    """What is asked of it, and how it answers: the acts of a path are done one a request, the last one ever after."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.acts: dict[str, list[Act]] = {}
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.over = threading.Event()

    def __call__(self, path: str, *acts: Act) -> str:
        self.acts[path] = list(acts)
        return self.url + path

    def ranges(self) -> list[str | None]:
        return [asked for _, asked, _ in self.asked]

    def file(self, data: bytes, tag: str | None = '"a"', date: str | None = None, ranges: bool = True) -> Act:
        """As a good server does it."""

        def act(handler: Handler) -> None:
            start, asked, condition = 0, handler.headers.get("Range"), handler.headers.get("If-Range")
            facts = [f"ETag: {tag}"] * bool(tag) + [f"Last-Modified: {date}"] * bool(date)
            if ranges and asked and condition in (None, tag, date):
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
                if start >= len(data):
                    return handler.head(416, f"Content-Range: bytes */{len(data)}", "Content-Length: 0")
                facts.append(f"Content-Range: bytes {start}-{len(data) - 1}/{len(data)}")
            handler.head(206 if start else 200, *facts, f"Content-Length: {len(data) - start}")
            handler.wfile.write(data[start:])
            return None

        return act

    def cut(self, data: bytes, at: int, tag: str | None = '"a"', said: int | None = None) -> Act:
        """Promises all (or `said` bytes), and closes after some."""

        def act(handler: Handler) -> None:
            facts = [f"ETag: {tag}"] * bool(tag)
            handler.head(200, *facts, f"Content-Length: {len(data) if said is None else said}")
            handler.wfile.write(data[:at])

        return act

    def reset(self, data: bytes, at: int) -> Act:
        def act(handler: Handler) -> None:
            self.cut(data, at)(handler)
            handler.wfile.flush()
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.rfile.close()
            handler.connection.close()

        return act

    def stall(self, data: bytes, at: int) -> Act:
        def act(handler: Handler) -> None:
            self.cut(data, at)(handler)
            handler.wfile.flush()
            self.over.wait(10)

        return act

    def drip(self, data: bytes, every: float) -> Act:
        def act(handler: Handler) -> None:
            handler.head(200, 'ETag: "a"', f"Content-Length: {len(data)}")
            for byte in data:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                if self.over.wait(every):
                    return

        return act

    def chunks(self, data: bytes, whole: bool = True) -> Act:
        def act(handler: Handler) -> None:
            handler.head(200, "Transfer-Encoding: chunked")
            handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n" + b"0\r\n\r\n" * whole)

        return act

    def says(self, status: int, *lines: str, body: bytes = b"") -> Act:
        def act(handler: Handler) -> None:
            handler.head(status, *lines, f"Content-Length: {len(body)}")
            handler.wfile.write(body)

        return act


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill takes nothing from what the system has already been given."""
    monkeypatch.setattr(os, "sync", lambda: None)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    handler = type("Told", (Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        handler.site = Site(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield handler.site
        finally:
            handler.site.over.set()
            server.shutdown()
            thread.join(5)

"""A local server that speaks the part of the Hugging Face hub's protocol that downloads use."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """Files of one repository and how the server misbehaves; `asked` logs method, path and Range of each request."""

    repo: str
    files: dict[str, bytes]
    url: str = ""
    stated: dict[str, str | None] = field(default_factory=dict)
    failures: int = 0
    break_after: int | None = None
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)

    def digest(self, name: str) -> str | None:
        """The sha256 the server states for a file."""
        return self.stated.get(name, hashlib.sha256(self.files[name]).hexdigest())

    def info(self) -> dict[str, object]:
        """What /api/datasets answers."""
        siblings = []
        for name, content in self.files.items():
            entry: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": "0" * 40}
            if self.digest(name):
                entry["lfs"] = {"sha256": self.digest(name), "size": len(content), "pointerSize": 134}
            siblings.append(entry)
        return {"id": self.repo, "sha": COMMIT, "siblings": siblings, "private": False, "tags": [], "downloads": 0}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        hub = self.hub
        hub.asked.append((self.command, self.path, self.headers.get("Range")))
        if hub.failures > 0:
            hub.failures -= 1
            return self._send(503, b"busy", {})
        if re.fullmatch(rf"/api/datasets/{hub.repo}/revision/[^/?]+(\?.*)?", self.path):
            return self._send(200, json.dumps(hub.info()).encode(), {"Content-Type": "application/json"})
        asked = re.fullmatch(rf"/datasets/{hub.repo}/resolve/{COMMIT}/(.+)", self.path)
        if not asked or asked[1] not in hub.files:
            code = "EntryNotFound" if hub.repo in self.path else "RepoNotFound"
            return self._send(404, b"", {"X-Error-Code": code})
        return self._send_file(asked[1], body=body)

    def _send_file(self, name: str, *, body: bool) -> None:
        content = self.hub.files[name]
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        headers = {
            "ETag": f'"{self.hub.digest(name) or "git"}"',
            "X-Repo-Commit": COMMIT,
            "X-Linked-Size": str(len(content)),
            "Accept-Ranges": "bytes",
        }
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        part = content[start:]
        if body and self.hub.break_after is not None:
            cut, self.hub.break_after = self.hub.break_after, None
            self._send(200, part[:cut], {**headers, "Content-Length": str(len(part))})
            self.close_connection = True
            return
        self._send(206 if start else 200, part if body else b"", {**headers, "Content-Length": str(len(part))})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Serve `hub` on a free local port; its address is in `hub.url`."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

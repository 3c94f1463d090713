"""A hub of Hugging Face's kind for tests, with a second server that large files are redirected to, and faults on demand.

Standard library only. Every request is noted. A fault is used up by the requests it was made for.
"""

import hashlib
import json
import socket
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PIECE = 16 << 10


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Fault:
    """What goes wrong with requests whose path contains `where`, the first `times` of them.

    status, headers: answer this instead. after: so many bytes of the body, then the connection is lost. change: a
    function from the body to another. length: what Content-Length says. ignores_range: sends all. hangs: nothing after
    the head. pause: seconds between pieces of the body. redirect: where to.
    """

    def __init__(self, where, times=1 << 30, **what):
        self.where, self.times, self.what = where, times, what

    def get(self, name, otherwise=None):
        return self.what.get(name, otherwise)


class Request:
    def __init__(self, server, path, headers):
        self.server, self.path = server, path
        self.range = headers.get("Range")
        self.authorization = headers.get("Authorization")


class Hub:
    """repositories: name to files, by name. Used as a context manager."""

    def __init__(self, repositories):
        self.repositories = repositories
        self.faults = []
        self.requests = []
        self.token = None  # when set, asked for
        self.listing = {}  # members of entries of the listing that say something else, by file name
        self.extra_names = []
        self.body_bytes = 0  # of files, by the second server
        self.lock = threading.Lock()
        self.released = threading.Event()  # ends what hangs
        self.hub = self._start("hub")
        self.store = self._start("store")

    def _start(self, name):
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server_name = name

            def do_GET(self):
                hub.answer(self, name)

            def do_HEAD(self):
                hub.answer(self, name)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # clients that go away are the subject of these tests

        server = Server(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.released.set()
        for server in (self.hub, self.store):
            server.shutdown()
            server.server_close()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.hub.server_port}"

    def asked(self, server=None, where=""):
        with self.lock:
            return [r for r in self.requests if server in (None, r.server) and where in r.path]

    def _fault(self, path):
        with self.lock:
            for fault in self.faults:
                if fault.where in path and fault.times > 0:
                    fault.times -= 1
                    return fault
        return Fault("")

    def answer(self, handler, name):
        with self.lock:
            self.requests.append(Request(name, handler.path, handler.headers))
        fault = self._fault(handler.path)
        if fault.get("status"):
            page = b"<html>a page about the failure</html>"
            return self._send(handler, fault.get("status"), page, fault.get("headers", {}))
        if fault.get("redirect"):
            return self._send(handler, 302, b"", {"Location": fault.get("redirect")})
        if name == "store":
            return self._answer_store(handler, fault)
        parts = urllib.parse.urlsplit(handler.path).path.split("/")
        if parts[1:3] == ["api", "models"]:
            return self._answer_listing(handler, "/".join(parts[3:5]), urllib.parse.unquote(parts[6]))
        return self._answer_file(handler, "/".join(parts[1:3]), parts[4], urllib.parse.unquote(parts[5]), fault)

    def _is_allowed(self, handler):
        return self.token is None or handler.headers.get("Authorization") == f"Bearer {self.token}"

    def _answer_listing(self, handler, repository, revision):
        if not self._is_allowed(handler):
            return self._send(handler, 401, b"{}", {"X-Error-Code": "RepoNotFound"})
        if repository not in self.repositories:
            return self._send(handler, 404, b"{}", {"X-Error-Code": "RepoNotFound"})
        if revision not in ("main", "v1", COMMIT):
            return self._send(handler, 404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        siblings = [{"rfilename": name} for name in self.extra_names]
        for name, content in self.repositories[repository].items():
            entry = {"rfilename": name, "size": len(content), "blobId": git_hash(content)}
            if name.endswith(".safetensors"):
                entry["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 130}
            entry.update(self.listing.get(name, {}))
            siblings.append(entry)
        return self._send(handler, 200, json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode())

    def _answer_file(self, handler, repository, revision, name, fault):
        content = self.repositories.get(repository, {}).get(name)
        if revision not in ("main", COMMIT) or content is None:
            return self._send(handler, 404, b"", {"X-Error-Code": "EntryNotFound"})
        if not self._is_allowed(handler):
            return self._send(handler, 401, b"", {"X-Error-Code": "GatedRepo"})
        if name.endswith(".safetensors"):
            place = f"http://localhost:{self.store.server_port}/{repository}/{name}?signature=x"
            return self._send(handler, 302, b"moved", {
                "Location": place, "X-Repo-Commit": COMMIT, "X-Linked-Size": len(content),
                "X-Linked-ETag": f'"{sha256(content)}"'})
        return self._send_file(handler, content, fault, {"X-Repo-Commit": COMMIT, "ETag": f'"{git_hash(content)}"'})

    def _answer_store(self, handler, fault):
        parts = urllib.parse.urlsplit(handler.path).path.split("/")
        return self._send_file(handler, self.repositories["/".join(parts[1:3])][parts[3]], fault)

    def _send_file(self, handler, content, fault, headers=None):
        content = fault.get("change", lambda body: body)(content)
        asked = handler.headers.get("Range")
        if asked is None or fault.get("ignores_range"):
            return self._send(handler, 200, content, headers, fault)
        first = int(asked.removeprefix("bytes=").removesuffix("-"))
        if first >= len(content):
            return self._send(handler, 416, b"", {"Content-Range": f"bytes */{len(content)}"})
        headers = {"Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}"}
        return self._send(handler, 206, content[first:], headers, fault)

    def _send(self, handler, status, body, headers=None, fault=None):
        fault = fault or Fault("")
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, str(value))
        handler.send_header("Content-Length", str(fault.get("length", len(body))))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        if fault.get("hangs"):
            self.released.wait(60)
        end = min(fault.get("after", len(body)), len(body))
        for at in range(0, end, PIECE):
            piece = body[at : min(at + PIECE, end)]
            handler.wfile.write(piece)
            with self.lock:
                self.body_bytes += len(piece) if handler.server_name == "store" else 0
            if fault.get("pause"):
                self.released.wait(fault.get("pause"))
        if "after" in fault.what:
            handler.connection.shutdown(socket.SHUT_RDWR)
        if "length" in fault.what:
            handler.close_connection = True

"""A server to test against, and small HTTP clients that show every byte."""

import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(os.environ.get("GEMMATRACE_ROOT", Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("GEMMATRACE_BINARY", str(ROOT / "build" / "release" / "gemmatrace"))
DEMO = ROOT / "models" / "demo"
TIMEOUT_S = int(os.environ.get("GEMMATRACE_TEST_TIMEOUT", 240))
# Another device has further options for every server, and the context of its bundle (tests/standin/server_tests).
FURTHER_OPTIONS = shlex.split(os.environ.get("GEMMATRACE_TEST_SERVE", ""))
CONTEXT = int(os.environ.get("GEMMATRACE_TEST_CONTEXT", 131072))
FRANCE = "What is the capital of France?"


class Server:
    """`gemmatrace serve` on a free port, ready for requests when made; a context manager that ends it."""

    def __init__(self, *arguments, checkpoint=DEMO, waits_for_health=True, environment=None):
        further = FURTHER_OPTIONS if checkpoint == DEMO else []
        command = [BINARY, "serve", str(checkpoint), "--port", "0", *map(str, arguments), *further]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        self.log = []
        self.port = None
        found = threading.Event()

        def read():
            for line in self.process.stderr:
                self.log.append(line)
                match = re.search(r"base URL +http://\S+:(\d+)/v1", line)
                if match:
                    self.port = int(match.group(1))
                    found.set()
            found.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        if not found.wait(TIMEOUT_S) or self.port is None:
            self.process.kill()
            self.stop()
            raise AssertionError("the server did not start: " + "".join(self.log))
        if waits_for_health:
            self.wait_for(lambda: self.request("GET", "/health").status == 200)

    def wait_for(self, condition):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError("waited in vain")
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, with_signal=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        status = self.process.wait(timeout=TIMEOUT_S)
        self.reader.join(TIMEOUT_S)
        self.process.stderr.close()
        return status

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, headers=None):
        """One request on a connection of its own; the response has .status, .headers, .body and .json()."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            response.body = response.read()
            response.json = lambda: json.loads(response.body)
            return response
        finally:
            connection.close()

    def chat(self, text=FRANCE, **fields):
        body = {"messages": [{"role": "user", "content": text}], **fields}
        return self.request("POST", "/v1/chat/completions", body)

    def metric(self, name):
        page = self.request("GET", "/metrics").body.decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if re.match(rf"{name}(\{{|\s)", line))

    def raw(self):
        """A bare connection."""
        return RawConnection(self.port)


class RawConnection:
    """A socket that sends what it is told and reads whole responses."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def more(self):
        data = self.socket.recv(65536)
        self.received += data
        return bool(data)

    def response(self, has_body=True):
        """(status, headers, body) of the next response; None when the server closes without one."""
        while b"\r\n\r\n" not in self.received:
            if not self.more():
                return None
        head, self.received = self.received.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
        status = int(lines[0].split()[1])
        if not has_body or status in (100, 204):
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, self.chunked()
        length = int(headers["content-length"])
        while len(self.received) < length:
            assert self.more(), "cut in the middle of a body"
        body, self.received = self.received[:length], self.received[length:]
        return status, headers, body

    def chunked(self):
        body = b""
        while True:
            while b"\r\n" not in self.received:
                assert self.more(), "cut in the middle of a chunk"
            size, self.received = self.received.split(b"\r\n", 1)
            length = int(size, 16)
            while len(self.received) < length + 2:
                assert self.more(), "cut in the middle of a chunk"
            body += self.received[:length]
            assert self.received[length : length + 2] == b"\r\n"
            self.received = self.received[length + 2 :]
            if length == 0:
                return body

    def is_closed(self):
        return not self.more()


def post(path, body, *headers, version="1.1"):
    """The bytes of a POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/{version}", "Host: test", f"Content-Length: {len(data)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data


def events(body):
    """The data of the events of a stream, parsed; the last must be [DONE]."""
    blocks = [block for block in body.decode().split("\n\n") if block and not block.startswith(":")]
    assert blocks[-1] == "data: [DONE]", blocks[-1]
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]

"""Proves that nothing a client sends harms the server.

Thousands of hostile requests: damaged JSON, wrong types, absurd numbers, deep nesting, costly schemas, shapes that
smuggle requests, giant headers, cut bodies, half-closed connections, and dozens of connections that send a byte now and
then. The server stays up, answers none of them with 5xx and each in good time, and between them good requests get the
tokens that they get at rest."""

import collections
import random
import re
import socket
import threading
import time

import client
import hostile_http
import support
from hostile_http import LEFT, REFUSED, Case
from hostile_json import hostile_body

STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\nDate: ")
GOOD = {"prompt": "The capital of France is", "max_tokens": 6, "temperature": 0, "logprobs": 2}
LONGEST_SHOWN = 600


def options():
    parser = support.parser(__doc__)
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--clients", type=int, default=8, help="at once")
    parser.add_argument("--slow", type=int, default=48, help="connections that send a byte now and then")
    parser.add_argument("--good-every", type=int, default=200, help="hostile requests to a good one")
    parser.add_argument("--most-seconds", type=float, default=30, help="that any answer may take")
    parser.add_argument("--only", default="", help="names of kinds, to look for one fault")
    return parser


def draw_case(draw):
    kind = draw.random()
    if kind < 0.55:
        name, path, body = hostile_body(draw)
        return Case(name, hostile_http.closing(path.encode(), body))
    if kind < 0.78:
        return hostile_http.framing(draw)
    if kind < 0.9:
        return hostile_http.head(draw)
    if kind < 0.93:
        return hostile_http.noise(draw)
    if kind < 0.96:
        return hostile_http.too_large(draw)
    name, path, body = hostile_body(draw)
    return hostile_http.truncated(draw, hostile_http.closing(path.encode(), body))


def exchange(port, case, draw, patience):
    """Sends a case in one to three pieces; what came back, and whether the server closed within `patience` seconds."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        try:
            for piece in pieces_of(draw, case.data):
                connection.sendall(piece)
            if case.half_closes:
                connection.shutdown(socket.SHUT_WR)
            if case.expects == LEFT:
                if draw.random() < 0.5:
                    time.sleep(draw.uniform(0, 0.02))
                return b"", True
            while True:
                piece = connection.recv(65536)
                if not piece:
                    return received, True
                received += piece
        except TimeoutError:
            return received, False
        except OSError:  # reset, after an answer or instead of one
            return received, True


def pieces_of(draw, data):
    if draw.random() < 0.6 or len(data) < 3:
        return [data]
    cuts = sorted(draw.sample(range(1, len(data)), min(2, len(data) - 1)))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)])]


def fault_of(case, received, has_closed):
    """What is wrong with the answer to a case, or None."""
    statuses = [int(status) for status in STATUS.findall(received)]
    if received and not statuses:
        return f"bytes that are no answer: {received[:200]}"
    if any(status >= 500 for status in statuses):
        return f"5xx: {received[:500]}"
    if b"\r\nX-Injected" in received or b"\r\nx-injected" in received:
        return "a header was injected"
    if b'data: {"error"' in received and b'"type":"server_error"' in received:
        return f"a server's error in the stream: {received[-500:]}"
    if case.expects == REFUSED:
        if len(statuses) > 1:
            return f"several answers: {statuses}"
        if any(status < 400 for status in statuses):
            return f"it was taken: {received[:300]}"
    if not has_closed:
        return f"neither an answer nor the end: {statuses}"
    return None


class Attack:
    """The hostile clients, and the good one between them."""

    def __init__(self, server, arguments, count):
        self.server = server
        self.arguments = arguments
        self.left = count
        self.lock = threading.Lock()
        self.faults = []
        self.kinds = collections.Counter()
        self.statuses = collections.Counter()
        self.good_requests = 0
        self.longest = (0.0, "")
        self.good_reply = client.reply_of(client.post(server.port, "/v1/completions", GOOD))

    def work(self, number):
        draw = random.Random(f"{self.arguments.seed} garbage {number}")
        while True:
            with self.lock:
                if self.left <= 0 or not self.server.is_up():
                    return
                self.left -= 1
                is_turn = self.left % self.arguments.good_every == 0
            case = draw_case(draw)
            while self.arguments.only and case.name not in self.arguments.only.split(","):
                case = draw_case(draw)
            try:
                self.try_case(case, draw)
                if is_turn:
                    self.ask_well()
            except OSError as error:
                self.tell(case, f"the server cannot be reached: {error}")
                time.sleep(0.2)

    def try_case(self, case, draw):
        begun = time.monotonic()
        received, has_closed = exchange(self.server.port, case, draw, self.arguments.most_seconds)
        took = time.monotonic() - begun
        fault = fault_of(case, received, has_closed)
        with self.lock:
            self.kinds[case.name] += 1
            found = STATUS.findall(received)
            self.statuses[found[0].decode() if found else "none"] += 1
            self.longest = max(self.longest, (took, f"{case.name}: {case.data[:LONGEST_SHOWN]}"))
        if fault:
            self.tell(case, fault)

    def ask_well(self):
        answer = client.post(self.server.port, "/v1/completions", GOOD)
        for _ in range(50):
            if answer.status != 429:
                break
            time.sleep(0.2)
            answer = client.post(self.server.port, "/v1/completions", GOOD)
        with self.lock:
            self.good_requests += 1
        if answer.status != 200 or client.reply_of(answer) != self.good_reply:
            self.tell(Case("good request", b""), f"another answer than before: {answer.status} {answer.body[:300]}")

    def tell(self, case, fault):
        with self.lock:
            self.faults.append(f"{case.name}: {fault}\n  sent: {case.data[:LONGEST_SHOWN]}")


class SlowClients(threading.Thread):
    """Connections that stay in the middle of a header or of a body, one byte at a time."""

    def __init__(self, port, count):
        super().__init__(daemon=True)
        self.port = port
        self.count = count
        self.is_over = False
        self.opened = 0
        self.closed_by_server = 0

    def run(self):
        connections = []
        while not self.is_over:
            while len(connections) < self.count:
                connections.append(self.begin(len(connections)))
            connections = [connection for connection in connections if self.drip(connection)]
            time.sleep(0.3)
        for connection in connections:
            connection.close()

    def begin(self, number):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall([b"POST /tokenize HTTP/1.1\r\nHost: a\r\nX-", b"P",
                            b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n{",
                            b"POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1"][number % 4])
        self.opened += 1
        return connection

    def drip(self, connection):
        try:
            connection.sendall(b"0")
            return True
        except OSError:
            connection.close()
            self.closed_by_server += 1
            return False


def prove(arguments, faults):
    count = 600 if arguments.short else arguments.requests
    with support.Server(arguments, "--context", 1024, "--slots", 8, "--snapshot-mib", 8) as server:
        attack = Attack(server, arguments, count)
        slow = SlowClients(server.port, 8 if arguments.short else arguments.slow)
        slow.start()
        support.run_together([lambda number=number: attack.work(number) for number in range(arguments.clients)])
        faults += attack.faults
        if not server.is_up():
            raise support.Fault(f"the server ended with {server.process.returncode}: {server.messages()[-2000:]}")
        attack.ask_well()
        slow.is_over = True
        slow.join()
        server.wait_until_free(30)
        statuses = server.statuses()
        faults += [f"{number} answers of status {status}" for status, number in statuses.items() if status >= 500]
        memory, files = server.memory_mib(), server.open_files()
        if server.stop() != 0:
            faults.append("the server did not end with status 0")
    if attack.longest[0] > 5:
        print(f"garbage: the longest answer took {attack.longest[0]:.1f} s, {attack.longest[1]}")
    return {"requests": count, "kinds": len(attack.kinds), "answers": dict(sorted(attack.statuses.items())),
            "good_requests": attack.good_requests, "slow_connections": slow.opened,
            "slow_closed_by_server": slow.closed_by_server, "longest_seconds": round(attack.longest[0], 2),
            "memory_mib": round(memory, 1), "open_files": files}


support.report("garbage", prove, options().parse_args())

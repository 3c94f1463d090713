"""Proves that thousands of idle connections cost little and disturb nobody.

Half of the connections are kept alive behind a small answer, half behind an event stream. Then the latter ask for
another stream that must wait behind a long one, so that all they get is comments. In both states other requests are
answered promptly; the memory of a connection is measured; and when all have left, everything is free again."""

import json
import select
import socket
import time

import client
import support

SMALL = b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n"


def options():
    parser = support.parser(__doc__)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--silence", type=float, default=11, help="seconds to listen to waiting streams")
    parser.add_argument("--most-seconds", type=float, default=3, help="that a request beside them may take")
    parser.add_argument("--most-kib", type=float, default=96, help="memory of a connection")
    return parser


def chat(**fields):
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "stream": True, **fields}).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def receive(connection, end):
    """Bytes until one ends with `end`."""
    received = b""
    while not received.endswith(end):
        piece = connection.recv(65536)
        if not piece:
            raise support.Fault(f"the server closed behind {received[-200:]}")
        received += piece
    return received


class Crowd:
    """Open connections."""

    def __init__(self, port):
        self.port = port
        self.connections = []

    def open(self, count, request, end):
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            connection.sendall(request)
            receive(connection, end)
            self.connections.append(connection)

    def closed(self):
        """How many the server has closed, of connections that have nothing to read otherwise."""
        poll = select.poll()
        for connection in self.connections:
            poll.register(connection, select.POLLIN)
        return len(poll.poll(0))

    def ask(self, request):
        for connection in self.connections:
            connection.sendall(request)

    def listen(self, seconds):
        """How many got a comment meanwhile."""
        poll = select.poll()
        by_number = {connection.fileno(): connection for connection in self.connections}
        for number in by_number:
            poll.register(number, select.POLLIN)
        received = dict.fromkeys(by_number, b"")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for number, _ in poll.poll(200):
                piece = by_number[number].recv(65536)
                if not piece:
                    raise support.Fault(f"a waiting stream was closed behind {received[number][-200:]}")
                received[number] += piece
        return sum(b": still here" in text for text in received.values())

    def close(self):
        for connection in self.connections:
            connection.close()
        self.connections = []


def prompt_answer(server, arguments, faults, what, ask):
    answer, took = client.timed(ask)
    if answer.status != 200 or took > arguments.most_seconds:
        faults.append(f"{what}: status {answer.status} after {took:.2f} s")
    return round(took, 3)


def complete(server):
    return client.post(server.port, "/v1/completions", {"prompt": "The capital of France is", "max_tokens": 4})


def prove(arguments, faults):
    count = 200 if arguments.short else arguments.connections
    if support.raise_file_limit(count + 200) < count + 100:
        raise support.Fault(f"this system does not allow {count} open files to a process")
    half = count // 2
    figures = {"connections": count}
    with support.Server(arguments, "--slots", 1, "--context", 32768, "--max-queue", count) as server:
        complete(server)
        files = server.open_files()
        before = server.memory_mib()
        kept, streams = Crowd(server.port), Crowd(server.port)
        kept.open(half, SMALL, b"}")
        figures["kib_kept_alive"] = round((server.memory_mib() - before) * 1024 / half, 1)
        middle = server.memory_mib()
        streams.open(half, chat(max_tokens=1), b"0\r\n\r\n")
        figures["kib_behind_stream"] = round((server.memory_mib() - middle) * 1024 / half, 1)
        figures["beside_idle_seconds"] = prompt_answer(server, arguments, faults, "beside idle connections",
                                                       lambda: complete(server))
        if kept.closed() or streams.closed():
            faults.append(f"{kept.closed()} and {streams.closed()} idle connections were closed")

        middle = server.memory_mib()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as long_one:
            long_one.sendall(chat(max_tokens=30000, ignore_eos=True))
            long_one.recv(1)
            streams.ask(chat(max_tokens=1))
            commented = streams.listen(6 if arguments.short else arguments.silence)
            figures["kib_waiting_stream"] = round((server.memory_mib() - middle) * 1024 / half, 1)
            waiting = int(server.metrics()["gemmatrace_num_requests_waiting"])
            if waiting != half or commented != half:
                faults.append(f"of {half} streams {waiting} wait, and {commented} were told so")
            for path in ("/live", "/ready", "/v1/models"):
                figures[f"beside_waiting_seconds{path.replace('/', '_')}"] = prompt_answer(
                    server, arguments, faults, f"{path} beside waiting streams",
                    lambda path=path: client.get(server.port, path))
        kept.close()
        streams.close()
        figures["free_after_seconds"] = round(server.wait_until_free(10), 2)
        figures["next_request_seconds"] = prompt_answer(server, arguments, faults, "afterwards",
                                                        lambda: complete(server))
        time.sleep(0.5)
        if server.open_files() > files + 4:
            faults.append(f"{server.open_files()} files are open afterwards, {files} were before")
        figures["memory_mib"] = {"before": round(before, 1), "after": round(server.memory_mib(), 1)}
        if server.stop() != 0:
            faults.append("the server did not end with status 0")
    for name, value in figures.items():
        if name.startswith("kib_") and value > arguments.most_kib:
            faults.append(f"{name} is {value}, {arguments.most_kib} are allowed")
    return figures


support.report("idle", prove, options().parse_args())

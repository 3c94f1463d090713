"""Proves that a server told to end under load keeps its promises.

SIGTERM while streams run: those that can be finished in time are, and the exit status is 0; what cannot is cut at the
deadline, and the status is 75; a second signal ends at once. Meanwhile new requests on open connections get 503 with
Retry-After, new connections are refused, and /live answers."""

import signal
import socket
import threading
import time

import client
import support


def options():
    parser = support.parser(__doc__)
    parser.add_argument("--streams", type=int, default=24, help="at once; more than the slots, so that some wait")
    return parser


def chat(tokens):
    return {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": tokens, "ignore_eos": True,
            "stream": True, "temperature": 1, "seed": tokens, "stream_options": {"include_usage": True}}


class Streams:
    """Streaming clients of one server."""

    def __init__(self, server, count, tokens):
        self.answers = [None] * count
        self.tokens = tokens
        self.threads = [threading.Thread(target=self.work, args=(server.port, number)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self, port, number):
        self.answers[number] = client.stream(port, "/v1/chat/completions", chat(self.tokens))

    def wait(self):
        for thread in self.threads:
            thread.join()
        return self.answers

    def are_complete(self):
        return [answer is not None and answer.is_whole and "error" not in client.reply_of(answer) and
                client.reply_of(answer)["usage"][1] == self.tokens for answer in self.answers]


def wait_for_load(server, count):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        values = server.metrics()
        if values["gemmatrace_num_requests_running"] + values["gemmatrace_num_requests_waiting"] >= count:
            return
        time.sleep(0.02)
    raise support.Fault("the load did not build up")


def ask_meanwhile(connections, port, faults):
    """What a draining server says to new requests; several, on connections that were open before."""
    for connection in connections[:-1]:
        response = client.send(connection, "/v1/chat/completions", chat(1))
        response.read()
        if response.status != 503 or not response.getheader("retry-after"):
            faults.append(f"while draining: {response.status}, Retry-After {response.getheader('retry-after')}")
    response = client.send(connections[-1], "/live")
    if response.status != 200:
        faults.append(f"while draining /live says {response.status}")
    response.read()
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        faults.append("while draining a new connection was taken")
    except ConnectionRefusedError:
        pass


def open_connections(port, count):
    connections = [client.connect(port, 30) for _ in range(count)]
    for connection in connections:
        client.send(connection, "/live").read()
    return connections


def finish(arguments, faults):
    """Everything that was asked for before the signal is finished."""
    with support.Server(arguments, "--slots", 4, "--context", 1024, "--drain-seconds", 500) as server:
        connections = open_connections(server.port, 5)
        count = 8 if arguments.short else arguments.streams
        streams = Streams(server, count, 100 if arguments.short else 200)
        wait_for_load(server, count - 4)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        if server.is_up():
            ask_meanwhile(connections, server.port, faults)
        status, took = client.timed(lambda: server.wait(500))
        streams.wait()
    complete = streams.are_complete()
    if status != 0:
        faults.append(f"finish: the server ended with status {status}")
    if not all(complete):
        faults.append(f"finish: {complete.count(False)} of {len(complete)} streams were not finished")
    return round(took, 2)


def cut(arguments, faults):
    """What takes too long is cut at the deadline."""
    with support.Server(arguments, "--slots", 4, "--context", 65536, "--drain-seconds", 2) as server:
        streams = Streams(server, arguments.streams, 60000)
        wait_for_load(server, arguments.streams - 4)
        server.process.send_signal(signal.SIGTERM)
        status, took = client.timed(server.wait)
        streams.wait()
    if status != 75:
        faults.append(f"cut: the server ended with status {status}")
    if not 1.5 <= took <= 10:
        faults.append(f"cut: the server ended after {took:.1f} s instead of 2")
    if any(streams.are_complete()) or any(answer is not None and answer.is_whole and "error" not in
                                          client.reply_of(answer) for answer in streams.answers):
        faults.append("cut: a stream that was cut looks complete")
    return round(took, 2)


def twice(arguments, faults):
    """A second signal does not wait for the deadline."""
    with support.Server(arguments, "--slots", 4, "--context", 65536) as server:
        streams = Streams(server, 4, 60000)
        wait_for_load(server, 4)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        status, took = client.timed(server.wait)
        streams.wait()
    if status != 75 or took > 5:
        faults.append(f"twice: the server ended with status {status} after {took:.1f} s")
    return round(took, 2)


def idle(arguments, faults):
    """Nothing runs: nothing is waited for."""
    with support.Server(arguments) as server:
        connections = open_connections(server.port, 20)
        status, took = client.timed(server.stop)
        for connection in connections:
            connection.close()
    if status != 0 or took > 5:
        faults.append(f"idle: the server ended with status {status} after {took:.1f} s")
    return round(took, 2)


def prove(arguments, faults):
    return {f"{part.__name__}_seconds": part(arguments, faults) for part in (finish, cut, twice, idle)}


support.report("drain", prove, options().parse_args())

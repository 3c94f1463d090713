"""Measures what the server adds to the engine's own time: clients that stream, the wall clock against the time inside
the backend, in one run. For a full-size checkpoint; on a small one a token costs the backend next to nothing."""

import threading
import time

import client
import support


def options():
    parser = support.parser(__doc__)
    parser.add_argument("--tokens", type=int, default=40, help="of each stream")
    parser.add_argument("--streams", default="1,8", help="numbers of streams at once, one after the other")
    parser.add_argument("--most", type=float, default=0.02, help="share of the engine's time that the server may add")
    return parser


def busy_seconds(server):
    return server.metrics()["gemmatrace_engine_busy_seconds_total"]


def measure(server, streams, tokens, faults):
    """Wall seconds from the first request to the last event, and seconds inside the backend meanwhile."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": tokens, "temperature": 0,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    lock = threading.Lock()

    def ask():
        answer = client.stream(server.port, "/v1/chat/completions", body)
        usage = next((event["usage"] for event in answer.events if event.get("usage")), {})
        with lock:
            if answer.status != 200 or not answer.is_whole or usage.get("completion_tokens") != tokens:
                faults.append(f"a stream of {tokens} tokens ended as {answer.status} with {usage}")

    before = busy_seconds(server)
    begun = time.monotonic()
    support.run_together([ask] * streams)
    wall = time.monotonic() - begun
    return wall, busy_seconds(server) - before


def prove(arguments, faults):
    tokens = 4 if arguments.short else arguments.tokens
    figures = {}
    with support.Server(arguments) as server:
        measure(server, 1, 2, faults)  # the weights were read once
        for streams in map(int, arguments.streams.split(",")):
            wall, busy = measure(server, streams, tokens, faults)
            added = wall / busy - 1
            figures[f"{streams}_streams"] = {"wall_seconds": round(wall, 3), "engine_seconds": round(busy, 3),
                                             "added_share": round(added, 4)}
            if added > arguments.most:
                faults.append(f"with {streams} streams the server adds {added:.1%} to the engine's time")
        if server.stop() != 0:
            faults.append("the server did not end with status 0")
    return figures


if __name__ == "__main__":
    support.report("overhead", prove, options().parse_args())

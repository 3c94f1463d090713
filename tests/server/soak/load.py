"""Proves that many streaming clients for a long time leave the server as it was.

Every request ends in tokens, in 429 with Retry-After, or because its client left; nothing is answered with 5xx. The
memory of the process is flat after the first part of the run, every slot is free at the end, and a new request is
answered at once."""

import collections
import random
import threading
import time

import client
import support
from random_requests import Requests


def options():
    parser = support.parser(__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--max-queue", type=int, default=32)
    parser.add_argument("--leaving", type=float, default=0.1, help="share of the requests whose client leaves early")
    parser.add_argument("--settling", type=float, default=0.25, help="share of the run before memory is watched")
    parser.add_argument("--snapshot-mib", type=int, default=16, help="of the server; filled while it settles")
    parser.add_argument("--most-growth", type=float, default=2, help="MiB a minute that memory may grow afterwards")
    parser.add_argument("--most-seconds", type=float, default=3, help="that the request afterwards may take")
    return parser


class Load:
    """The clients, and what became of their requests."""

    def __init__(self, server, arguments, seconds):
        self.server = server
        self.arguments = arguments
        self.end = time.monotonic() + seconds
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.faults = []
        self.longest_wait = 0.0

    def work(self, number):
        requests = Requests(f"{self.arguments.seed} load {number % 8}", longest_words=60)
        draw = random.Random(f"{self.arguments.seed} client {number}")
        while time.monotonic() < self.end:
            path, body = requests.draw()
            try:
                kind, pause = self.ask(path, body, draw)
            except Exception as error:  # a refused or cut connection is a fault of the server's
                kind, pause = "broken", 0.2
                self.tell(f"{type(error).__name__}: {error}")
            with self.lock:
                self.counts[kind] += 1
            time.sleep(pause)

    def ask(self, path, body, draw):
        """How one request ended, and how long its client waits before the next."""
        leaves_after = draw.randrange(1, 8) if draw.random() < self.arguments.leaving else None
        body = {**body, "stream": True, "stream_options": {"include_usage": True}}
        begun = time.monotonic()
        answer = client.stream(self.server.port, path, body,
                               leaves_after and (lambda events: len(events) >= leaves_after))
        with self.lock:
            self.longest_wait = max(self.longest_wait, time.monotonic() - begun)
        if answer.status == 429:
            wait = answer.headers.get("retry-after", "")
            if not wait.isdigit() or int(wait) < 1:
                self.tell(f"429 with Retry-After '{wait}'")
                return "refused", 1
            return "refused", int(wait) * draw.uniform(0.8, 1.5)
        if answer.status != 200:
            self.tell(f"status {answer.status}: {answer.body[:300]}")
            return "failed", 0.2
        if not answer.is_whole and leaves_after and len(answer.events) >= leaves_after:
            return "left", 0
        self.check(answer)
        return "answered", 0

    def check(self, answer):
        reply = client.reply_of(answer)
        if not answer.is_whole:
            self.tell("a stream ended without [DONE]")
        elif "error" in reply:
            self.tell(f"an error in a stream: {reply['error']}")
        elif not reply["usage"] or not all(choice["finish_reason"] for choice in reply["choices"]):
            self.tell(f"a reply without an end: {reply}")

    def tell(self, fault):
        with self.lock:
            self.faults.append(fault)


def slope_a_minute(samples):
    """Least squares through (seconds, MiB)."""
    count = len(samples)
    mean_at = sum(at for at, _ in samples) / count
    mean_of = sum(value for _, value in samples) / count
    spread = sum((at - mean_at) ** 2 for at, _ in samples)
    return 60 * sum((at - mean_at) * (value - mean_of) for at, value in samples) / spread


def watch(server, seconds):
    """(seconds, MiB) four times a second, and the most that waited and ran."""
    samples = []
    most = collections.Counter()
    begun = time.monotonic()
    while time.monotonic() - begun < seconds and server.is_up():
        samples.append((time.monotonic() - begun, server.memory_mib()))
        if len(samples) % 8 == 1:
            values = server.metrics()
            for kind in ("running", "waiting"):
                most[kind] = max(most[kind], int(values[f"gemmatrace_num_requests_{kind}"]))
        time.sleep(0.25)
    return samples, most


def prove(arguments, faults):
    seconds = 12 if arguments.short else arguments.minutes * 60
    with support.Server(arguments, "--max-queue", arguments.max_queue, "--context", 4096, "--snapshot-mib",
                        arguments.snapshot_mib) as server:
        load = Load(server, arguments, seconds)
        samples, most = support.run_together(
            [lambda number=number: load.work(number) for number in range(arguments.clients)],
            lambda: watch(server, seconds))
        faults += load.faults
        freed = server.wait_until_free(10)
        answer, took = client.timed(lambda: client.post(server.port, "/v1/completions", {
            "prompt": "The capital of France is", "max_tokens": 4}))
        if answer.status != 200 or took > arguments.most_seconds:
            faults.append(f"afterwards a request was answered with {answer.status} after {took:.1f} s")
        statuses = server.statuses()
        faults += [f"{count} answers of status {status}" for status, count in statuses.items() if status >= 500]
        if server.stop() != 0:
            faults.append("the server did not end with status 0")
    settled = [sample for sample in samples if sample[0] >= arguments.settling * seconds]
    slope = slope_a_minute(settled)
    if not arguments.short and slope > arguments.most_growth:
        faults.append(f"memory grows by {slope:.2f} MiB a minute, {arguments.most_growth} are allowed")
    if load.counts["answered"] == 0 or load.counts["refused"] == 0:
        faults.append(f"this was no load: {dict(load.counts)}")
    return {"clients": arguments.clients, "ended": dict(load.counts), "statuses": statuses,
            "most_running": most["running"], "most_waiting": most["waiting"],
            "memory_mib": {"start": round(samples[0][1], 1), "settled": round(settled[0][1], 1),
                           "end": round(samples[-1][1], 1)},
            "growth_mib_a_minute": round(slope, 3), "longest_request_seconds": round(load.longest_wait, 1),
            "free_after_seconds": round(freed, 2), "next_request_seconds": round(took, 3)}


support.report("load", prove, options().parse_args())

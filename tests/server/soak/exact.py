"""Proves that a busy server gives every request exactly what an idle one gives it.

Each request is answered alone, whole and without prefix reuse first. Then all of them come at random moments and
several at once, streamed or not, and some clients leave early. Tokens, log probabilities, texts, calls, finish reasons
and counts of what completes must be equal, and what was cut must be a beginning of it."""

import json
import queue
import random
import time

import client
import support
from random_requests import Requests


def options():
    parser = support.parser(__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=14, help="at once")
    parser.add_argument("--leaving", type=float, default=0.15, help="share of the clients that leave early")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--context", type=int, default=1536, help="tokens of a slot")
    parser.add_argument("--cache-mib", type=int, default=2, help="so little that requests are sent back to the queue")
    parser.add_argument("--matrix", default="reuse:1,reuse:2,alone:1,alone:2",
                        help="runs as reuse:THREADS (prefixes are used again) or alone:THREADS (they are not)")
    return parser


def server_options(arguments, kind, threads):
    chosen = ["--threads", threads, "--slots", arguments.slots, "--context", arguments.context, "--max-queue", 4096,
              "--cache-mib", arguments.cache_mib, "--snapshot-mib", 8]
    return chosen + (["--no-prefix-reuse"] if kind == "alone" else [])


def expected_replies(arguments, requests):
    """What each request gives when nothing else runs."""
    replies = []
    with support.Server(arguments, *server_options(arguments, "alone", 1)) as server:
        for path, body in requests:
            answer = client.post(server.port, path, body)
            if answer.status != 200:
                raise support.Fault(f"{answer.status} for a valid request: {answer.body[:300]} for {json.dumps(body)}")
            replies.append(client.reply_of(answer))
        server.stop()
    return replies


def is_beginning(part, whole):
    """Whether what a client had of one choice is a beginning of the whole."""
    if not all(whole[name].startswith(part[name]) for name in ("text", "reasoning")):
        return False
    if whole["tokens"][: len(part["tokens"])] != part["tokens"] or len(part["calls"]) > len(whole["calls"]):
        return False
    return all(full["name"] == cut["name"] and full["arguments"].startswith(cut["arguments"])
               for cut, full in zip(part["calls"], whole["calls"]))


def fault_of(answer, expected):
    """What is wrong with an answer, or None."""
    if answer.status != 200:
        return f"status {answer.status}: {answer.body[:300]}"
    got = client.reply_of(answer)
    if "error" in got:
        return f"an error in the stream: {got['error']}"
    if not answer.is_whole:
        wrong = [at for at, part in enumerate(got["choices"]) if not is_beginning(part, expected["choices"][at])]
        return f"choice {wrong[0]} of a cut answer is no beginning: {got} of {expected}" if wrong else None
    return None if got == expected else f"another answer: {got} instead of {expected}"


class Crowd:
    """Threads that send the requests of one run and compare what comes."""

    def __init__(self, arguments, server, requests, expected, seed):
        self.arguments = arguments
        self.server = server
        self.jobs = queue.SimpleQueue()
        self.faults = []
        self.cut = 0
        order = list(zip(requests, expected, strict=True))
        draw = random.Random(f"order {seed}")
        draw.shuffle(order)
        for (path, body), reply in order:
            self.jobs.put((path, body, reply, draw.random()))

    def run(self):
        support.run_together([lambda number=number: self.work(number) for number in range(self.arguments.clients)])

    def work(self, number):
        draw = random.Random(f"client {number} {self.arguments.seed}")
        while True:
            try:
                path, body, expected, fate = self.jobs.get_nowait()
            except queue.Empty:
                return
            time.sleep(draw.choice([0, 0, draw.expovariate(50)]))
            try:
                fault = fault_of(self.ask(path, body, fate, draw), expected)
            except Exception as error:  # told, as any wrong answer is
                fault = f"{type(error).__name__}: {error}"
            if fault:
                self.faults.append(f"{fault}\n  request: {path} {json.dumps(body)}")

    def ask(self, path, body, fate, draw):
        port = self.server.port
        if fate < self.arguments.leaving / 3:
            return self.leave_unread(path, body, draw)
        if fate < self.arguments.leaving:
            count = draw.randrange(1, 12)
            answer = client.stream(port, path, streamed(body), lambda events: len(events) >= count)
            self.cut += 0 if answer.is_whole else 1
            return answer
        if draw.random() < 0.5:
            return client.post(port, path, body)
        answer = client.stream(port, path, streamed(body))
        if not answer.is_whole:
            raise support.Fault("the stream ended without [DONE]")
        return answer

    def leave_unread(self, path, body, draw):
        """A client that asks for a whole answer and leaves before it comes."""
        connection = client.connect(self.server.port)
        connection.request("POST", path, json.dumps(body).encode())
        time.sleep(draw.expovariate(100))
        connection.close()
        self.cut += 1
        return client.Answer(200, {}, is_whole=False)


def streamed(body):
    return {**body, "stream": True, "stream_options": {"include_usage": True}}


def prove(arguments, faults):
    count = 40 if arguments.short else arguments.requests
    drawn = Requests(arguments.seed)
    requests = [drawn.draw() for _ in range(count)]
    expected = expected_replies(arguments, requests)
    figures = {"requests": count, "tokens": sum(reply["usage"][1] for reply in expected), "runs": {}}
    for run in ("reuse:2,alone:2" if arguments.short else arguments.matrix).split(","):
        kind, threads = run.split(":")
        with support.Server(arguments, *server_options(arguments, kind, threads)) as server:
            crowd = Crowd(arguments, server, requests, expected, f"{arguments.seed} {run}")
            crowd.run()
            faults += [f"{run}: {fault}" for fault in crowd.faults]
            server.wait_until_free(10)
            values = server.metrics()
            status = server.stop()
            if status != 0:
                faults.append(f"{run}: the server ended with status {status}")
        cached = int(values["gemmatrace_prompt_tokens_cached_total"])
        figures["runs"][run] = {"cut": crowd.cut, "cached_tokens": cached, "together":
                                round(values["gemmatrace_n_busy_slots_per_decode"], 2),
                                "preemptions": int(values["gemmatrace_num_preemptions_total"])}
        if (cached > 0) != (kind == "reuse"):
            faults.append(f"{run}: {cached} prompt tokens came from the cache")
    return figures


support.report("exact", prove, options().parse_args())

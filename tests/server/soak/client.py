"""A small HTTP client for the proofs: whole answers, event streams read piece by piece, and replies put together."""

import http.client
import json
import time
from dataclasses import dataclass, field

TIMEOUT_SECONDS = 300


@dataclass
class Answer:
    """One answer. Of an event stream, `events` are what came, and `is_whole` says whether its end did."""

    status: int
    headers: dict
    body: bytes = b""
    events: list = field(default_factory=list)
    comments: int = 0
    is_whole: bool = True

    def json(self):
        return json.loads(self.body)


def connect(port, timeout=TIMEOUT_SECONDS):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)


def send(connection, path, body=None):
    """Sends a request on a connection, and gives http.client's response with its body unread."""
    if body is None:
        connection.request("GET", path)
    else:
        connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return connection.getresponse()


def get(port, path):
    connection = connect(port)
    try:
        response = send(connection, path)
        return Answer(response.status, lowered(response), response.read())
    finally:
        connection.close()


def post(port, path, body):
    connection = connect(port)
    try:
        response = send(connection, path, body)
        return Answer(response.status, lowered(response), response.read())
    finally:
        connection.close()


def lowered(response):
    return {name.lower(): value for name, value in response.getheaders()}


def stream(port, path, body, gives_up=None):
    """Posts a streamed request and reads events to [DONE]; closes the connection early when gives_up(events) says so.

    An answer that is no event stream is read whole.
    """
    connection = connect(port)
    try:
        response = send(connection, path, body)
        answer = Answer(response.status, lowered(response))
        if "text/event-stream" not in answer.headers.get("content-type", ""):
            answer.body = response.read()
            return answer
        read_events(response, answer, gives_up)
        return answer
    finally:
        connection.close()


def read_events(response, answer, gives_up=None):
    """Fills answer.events from a stream, in the order they come."""
    answer.is_whole = False
    while True:
        if gives_up is not None and gives_up(answer.events):
            return
        try:
            line = response.readline()
        except (http.client.IncompleteRead, ConnectionError):
            return
        if not line:
            return
        line = line.rstrip(b"\r\n")
        if line.startswith(b":"):
            answer.comments += 1
        elif line == b"data: [DONE]":
            answer.is_whole = True
            response.read()  # the last chunk
            return
        elif line.startswith(b"data: "):
            answer.events.append(json.loads(line[6:]))


class Choice:
    """What a client has put together of one choice."""

    def __init__(self):
        self.text = ""
        self.reasoning = ""
        self.calls = {}
        self.tokens = []
        self.finish_reason = None

    def add(self, part, logprobs, finish_reason):
        self.text += part.get("content") or ""
        self.reasoning += part.get("reasoning_content") or ""
        for call in part.get("tool_calls") or []:
            kept = self.calls.setdefault(call.get("index", len(self.calls)), {"name": "", "arguments": ""})
            kept["name"] += call["function"].get("name") or ""
            kept["arguments"] += call["function"].get("arguments") or ""
        self.tokens += tokens_of(logprobs)
        self.finish_reason = finish_reason or self.finish_reason

    def value(self):
        return {"text": self.text, "reasoning": self.reasoning, "calls": [self.calls[at] for at in sorted(self.calls)],
                "tokens": self.tokens, "finish_reason": self.finish_reason}


def tokens_of(logprobs):
    """Tokens with their log probabilities and alternatives, of either dialect's shape."""
    if not logprobs:
        return []
    if logprobs.get("content") is not None:
        return [[one["token"], one["logprob"], [[other["token"], other["logprob"]] for other in one["top_logprobs"]]]
                for one in logprobs["content"]]
    if "tokens" not in logprobs:
        return []
    return [[token, logprob, sorted(map(list, (top or {}).items()))] for token, logprob, top in
            zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True)]


def reply_of(answer):
    """The choices of an answer, streamed or not, and its usage without what depends on the cache. A choice of which a
    cut stream told nothing yet is an empty one."""
    choices = {}
    usage = None
    for body in answer.events or ([answer.json()] if answer.body else []):
        if "error" in body:
            return {"error": body["error"]}
        for entry in body["choices"]:
            choice = choices.setdefault(entry["index"], Choice())
            part = entry.get("delta") or entry.get("message") or {"content": entry.get("text")}
            choice.add(part, entry.get("logprobs"), entry.get("finish_reason"))
        usage = body.get("usage") or usage
    return {"choices": [choices.get(index, Choice()).value() for index in range(max(choices, default=-1) + 1)],
            "usage": [usage["prompt_tokens"], usage["completion_tokens"]] if usage else None}


def timed(action):
    """What action() gives, and the seconds it took."""
    begun = time.monotonic()
    result = action()
    return result, time.monotonic() - begun

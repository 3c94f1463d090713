"""Proves that structured answers of the model itself, drawn at a temperature, fit their schemas.

Random schemas go through /v1/chat/completions with response_format json_schema, strict; every answer that finished with
"stop" must be JSON that Python's jsonschema accepts, formats included. Needs jsonschema with its format checkers, as
build/venv has them."""

import json
import sys
import threading

import client
import support

sys.path.insert(0, str(support.ROOT / "tools" / "crosscheck"))
from schema_random import Schemas

try:
    import jsonschema
except ImportError:
    print("jsonschema is not there: run this with the Python of build/venv", file=sys.stderr)
    sys.exit(77)

LEAST_STOPPED = 0.6  # of the answers; otherwise the proof says little


def options():
    parser = support.parser(__doc__)
    parser.add_argument("--schemas", type=int, default=500)
    parser.add_argument("--clients", type=int, default=6, help="at once")
    parser.add_argument("--temperature", type=float, default=1)
    parser.add_argument("--max-tokens", type=int, default=1500)
    return parser


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


class Asking:
    """Threads that send one request a schema and judge the answers."""

    def __init__(self, arguments, server, count):
        self.arguments = arguments
        self.server = server
        self.left = list(range(count))
        self.lock = threading.Lock()
        self.faults = []
        self.counts = {"stop": 0, "length": 0, "refused": 0}
        self.checker = jsonschema.Draft202012Validator.FORMAT_CHECKER

    def work(self):
        while True:
            with self.lock:
                if not self.left:
                    return
                number = self.left.pop()
            schema = Schemas(self.arguments.seed, number).schema()
            try:
                fault = self.fault_of(number, schema)
            except Exception as error:  # told, as any wrong answer is
                fault = f"{type(error).__name__}: {error}"
            if fault:
                with self.lock:
                    self.faults.append(f"schema {number}: {fault}\n  {json.dumps(schema)}")

    def fault_of(self, number, schema):
        """Asks for one answer; what is wrong with it, or None."""
        body = {"messages": [{"role": "user", "content": "Give me the data as JSON."}],
                "temperature": self.arguments.temperature, "seed": number, "max_tokens": self.arguments.max_tokens,
                "response_format": {"type": "json_schema",
                                    "json_schema": {"name": "data", "strict": True, "schema": schema}}}
        path = "/v1/chat/completions"
        answer = client.stream(self.server.port, path, {**body, "stream": True}) if number % 2 else \
            client.post(self.server.port, path, body)
        if answer.status == 400:
            self.count("refused")
            return None
        if answer.status != 200:
            return f"status {answer.status}: {answer.body[:300]}"
        reply = client.reply_of(answer)
        if "error" in reply:
            return f"an error in the stream: {reply['error']}"
        choice = reply["choices"][0]
        if choice["finish_reason"] not in self.counts:
            return f"it finished with {choice['finish_reason']}"
        self.count(choice["finish_reason"])
        return self.fault_of_text(schema, choice["text"]) if choice["finish_reason"] == "stop" else None

    def fault_of_text(self, schema, text):
        try:
            value = json.loads(text, parse_constant=refuse_constant)
            jsonschema.Draft202012Validator(schema, format_checker=self.checker).validate(value)
        except (ValueError, jsonschema.ValidationError) as error:
            return f"{str(error).splitlines()[0]}: {text[:300]!r}"
        return None

    def count(self, name):
        with self.lock:
            self.counts[name] += 1


def prove(arguments, faults):
    count = 30 if arguments.short else arguments.schemas
    with support.Server(arguments, "--context", 4096, "--slots", arguments.clients) as server:
        asking = Asking(arguments, server, count)
        support.run_together([asking.work] * arguments.clients)
        faults += asking.faults
        memory = server.memory_mib()
        if server.stop() != 0:
            faults.append("the server did not end with status 0")
    if asking.counts["stop"] < LEAST_STOPPED * count:
        faults.append(f"of {count} answers only {asking.counts['stop']} came to their end")
    return {"schemas": count, **asking.counts, "memory_mib": round(memory, 1)}


support.report("schemas", prove, options().parse_args())

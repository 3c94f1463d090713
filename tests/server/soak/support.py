"""What the long-running proofs of the server share: starting it, reading its figures, common options, the summary."""

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import client

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 120  # under sanitizers, on a loaded machine
SHOWN_FAULTS = 10


class Fault(Exception):
    """The server did something that it must not do."""


class Server:
    """A `gemmatrace serve` of our own on a free port; what it says goes to a file that is shown when it fails."""

    def __init__(self, arguments, *options):
        self.said = tempfile.TemporaryFile()
        command = [arguments.binary, "serve", arguments.checkpoint, "--port", "0", "--access-log", "off"]
        if "--threads" not in options and arguments.threads:
            command += ["--threads", arguments.threads]
        self.process = subprocess.Popen([*map(str, command), *map(str, options)], stdout=subprocess.DEVNULL,
                                        stderr=self.said)
        try:
            self.port = self._wait_for_port()
            self._wait_until_ready()
            self.statuses_before = self._statuses()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _wait_for_port(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            found = re.search(r"http://127\.0\.0\.1:(\d+)/v1", self.messages())
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise Fault(f"the server did not start: {self.messages()}")

    def _wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if client.get(self.port, "/ready").status == 200:
                return
            time.sleep(0.05)
        raise Fault("the server did not become ready")

    def messages(self):
        self.said.seek(0)
        return self.said.read().decode("utf-8", "replace")

    def is_up(self):
        return self.process.poll() is None

    def memory_mib(self):
        """Resident memory without the mapped checkpoint."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"RssAnon:\s+(\d+) kB", status).group(1)) / 1024

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def metrics(self):
        """Values by name with labels, as the page gives them, and sums by bare name."""
        values = {}
        for line in client.get(self.port, "/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                bare = name.split("{")[0]
                values[name] = float(value)
                if bare != name:
                    values[bare] = values.get(bare, 0.0) + float(value)
        return values

    def statuses(self):
        """How many answers of each status the server has counted since it was ready."""
        counts = self._statuses()
        return {status: count - self.statuses_before.get(status, 0) for status, count in sorted(counts.items())
                if count > self.statuses_before.get(status, 0)}

    def _statuses(self):
        counts = {}
        for name, value in self.metrics().items():
            found = re.search(r'http_responses_total\{.*status="(\d+)"', name)
            if found:
                counts[int(found.group(1))] = counts.get(int(found.group(1)), 0) + int(value)
        return counts

    def wait_until_free(self, seconds):
        """Seconds until nothing runs and nothing waits; Fault when that takes longer than `seconds`."""
        begun = time.monotonic()
        while True:
            values = self.metrics()
            running, waiting = (int(values[f"gemmatrace_num_requests_{kind}"]) for kind in ("running", "waiting"))
            if running == 0 and waiting == 0:
                return time.monotonic() - begun
            if time.monotonic() - begun > seconds:
                raise Fault(f"{running} requests still run and {waiting} wait {seconds} s after the last client left")
            time.sleep(0.02)

    def stop(self, seconds=60):
        """SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=60):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Fault(f"the server did not end within {seconds} s") from None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None and self.process.poll() not in (None, 0):
            print(f"the server ended with {self.process.returncode} and said:\n{self.messages()[-4000:]}",
                  file=sys.stderr)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.said.close()


def parser(description):
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("--binary", default=os.environ.get("GEMMATRACE_BINARY", ROOT / "build/release/gemmatrace"),
                         help="the program")
    options.add_argument("--checkpoint", default=ROOT / "models/demo", help="what is served")
    options.add_argument("--seed", type=int, default=1, help="of everything that is random here")
    options.add_argument("--threads", type=int, default=0, help="of the server; 0: as many as it takes by itself")
    options.add_argument("--short", action="store_true", help="a small run of some seconds, for every build")
    return options


def raise_file_limit(wanted):
    """The limit on open files, for this process and the servers it starts; the number that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def run_together(works, meanwhile=None):
    """Runs functions on threads of their own and waits for all of them; what meanwhile() gives, on this thread.

    An exception in one of them is raised here, when all have ended: a proof whose clients broke proves nothing.
    """
    failures = []

    def guarded(work):
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        return meanwhile() if meanwhile else None
    finally:
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]


def report(name, prove, arguments):
    """Runs prove(arguments, faults), prints what it found as one line of JSON, and ends with status 0 or 1.

    `prove` returns the figures of the summary and appends to `faults` one sentence for each thing that is wrong.
    """
    begun = time.monotonic()
    faults = []
    figures = {}
    try:
        figures = prove(arguments, faults)
    except Fault as fault:
        faults.append(str(fault))
    except Exception:  # a fault of the server's more often than of ours: tell, and fail
        faults.append(traceback.format_exc())
    for fault in faults[:SHOWN_FAULTS]:
        print(f"{name}: {fault}", file=sys.stderr)
    summary = {"proof": name, "passed": not faults, "faults": len(faults), **figures,
               "seconds": round(time.monotonic() - begun, 1)}
    print(json.dumps(summary))
    sys.exit(1 if faults else 0)

"""The accelerator from outside, on stand-ins for its software: the simulator's text, and every way to end.

neuron_device_test.py --write-table rewrites the table of failures in docs/neuron.md.
"""

import importlib.util
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import support
from standin_neuron import Standin, compiled_bundle
from support import BINARY, DEMO, ROOT, TIMEOUT_S, TestCase, generate

# The server's support has the name of this folder's.
_spec = importlib.util.spec_from_file_location("server_support", ROOT / "tests" / "server" / "support.py")
server_support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(server_support)

QUESTION = ("--chat", "What is the capital of France?", "--temperature", "0", "--max-tokens", "12")
WATCHDOG = 76
DOCUMENT = ROOT / "docs" / "neuron.md"
TABLE_BEGIN, TABLE_END = "<!-- table of failures -->\n", "<!-- end of table -->\n"

# What happens, on how many ranks, how the stand-in is told to, the exit status of generate, and what the error says.
FAILURES = [
    ("the runtime is not installed", 1, {"library": "/nowhere/libnrt.so.1"}, 3, "cannot be opened"),
    ("functions are missing", 1, {"library": "broken"}, 5, "nrt_load_collectives"),
    ("the runtime is too old", 1, {"version": "2.24.1"}, 5, "2.24.1"),
    ("the machine has fewer cores", 2, {"cores": 1}, 4, "1 cores"),
    ("`nrt_init`: status 1", 1, {"faults": "nrt_init 0 1 status=1"}, 8, "another process may hold"),
    ("`nrt_init`: status 6", 1, {"faults": "nrt_init 0 1 status=6"}, 8, "6 (HW_ERROR)"),
    ("a core's memory is too small", 1, {"bytes": 4_000_000}, 7, "counted_by_runtime"),
    ("`nrt_load`: status 2", 1, {"faults": "nrt_load 0 * status=2"}, 8, "2 (INVALID)"),
    ("`nrt_load`: status 9", 1, {"faults": "nrt_load 0 1 status=9"}, 8, "too few cores are free"),
    ("`nrt_load`: status 10", 1, {"faults": "nrt_load 0 1 status=10"}, 5, "upgrade aws-neuronx-runtime-lib"),
    ("one rank cannot load", 2, {"faults": "nrt_load_collectives 0 1 status=1"}, WATCHDOG, "on rank 0"),
    ("one rank hangs while it loads", 2, {"faults": "nrt_load_collectives 1 1 hang"}, WATCHDOG, "nrt_load_collectives"),
    ("a program does not keep its keys and values", 1, {"faults": "nrt_execute 0 1 drop"}, 8, "does not write its cache"),
    ("one rank does not", 2, {"faults": "nrt_execute 1 1 drop"}, 8, "rank: 1"),
    ("logits are NaN", 1, {"faults": "nrt_execute 0 9 nan"}, 8, "no numbers"),
    ("`nrt_execute`: status 1002", 1, {"faults": "nrt_execute 0 9 status=1002"}, 8, "1002 (EXEC_BAD_INPUT)"),
    ("`nrt_execute`: status 1005", 1, {"faults": "nrt_execute 0 9 status=1005"}, 8, "1005 (EXEC_NC_BUSY)"),
    ("`nrt_execute`: status 1006, and garbage", 2, {"faults": "nrt_execute 1 9 garbage=1006"}, 8, "1006 (EXEC_OOB)"),
    ("one rank: status 101", 2, {"faults": "nrt_execute 1 9 status=101"}, WATCHDOG, "failed on rank 1"),
    ("one rank: status 1201", 2, {"faults": "nrt_execute 0 9 status=1201"}, WATCHDOG, "1201 (EXEC_HW_ERR_HBM_UE)"),
    ("one rank hangs in a step", 2, {"faults": "nrt_execute 1 9 hang"}, WATCHDOG, "rank 1 in nrt_execute"),
    ("one rank hangs in a transfer", 2, {"faults": "nrt_tensor_write 1 400 hang"}, WATCHDOG, "rank 1 in nrt_tensor_write"),
]


def failure_row(what, done):
    """A row of the document's table, from what a run said."""
    said = re.search(r"^error: ([^\n]*)\n.*^  remedy: ([^\n]*)$", done.err, re.MULTILINE | re.DOTALL)
    message, remedy = said.groups() if said else (done.err, "")
    return f"| {what} | {done.status} | {message} | {remedy} |\n"


def document_with(rows):
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(TABLE_BEGIN)
    heading = "\n| what happens | exit status | error | remedy |\n|---|---:|---|---|\n"
    return before + TABLE_BEGIN + heading + "".join(rows) + "\n" + TABLE_END + rest.split(TABLE_END)[1]


class NeuronDeviceTest(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.bundles = {}
        for tp in (1, 2):
            cls.bundles[tp] = compiled_bundle(tempfile.mkdtemp(dir=cls.folder.name), tp=tp, batch=2, context="64,128",
                                              chunk=32)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def on(self, tp, *more):
        return ("--device", "neuron", "--bundle", self.bundles[tp], *more)

    def ask(self, standin, tp, *more, **settings):
        done = standin.run("generate", DEMO, "--json", *QUESTION, *self.on(tp, *more), **settings)
        self.assertEqual(done.status, 0, done.err)
        return done.json()

    def test_it_says_what_the_simulator_says_and_leaves_nothing(self):
        for tp in (1, 2):
            expected = generate(*QUESTION, "--device", "sim", "--bundle", self.bundles[tp])
            with Standin() as standin:
                got = self.ask(standin, tp)
                self.assertEqual((got["text"], got["token_ids"]), (expected["text"], expected["token_ids"]))
                self.assertEqual((got["device"], got["ranks"]), ("neuron", tp))
                [log] = standin.log()
            self.assertEqual((log["tensors_left"], log["sets_left"], log["models_left"]), (0, 0, 0))
            self.assertEqual(log["environment"]["NEURON_RT_VISIBLE_CORES"], "0" if tp == 1 else "0-1")

    def test_every_family_says_what_the_simulator_says(self):
        question = ("--ids", ",".join(str(3 + index * 7 % 300) for index in range(40)), "--temperature", "0",
                    "--max-tokens", "8", "--ignore-eos")
        for family in ("e2b", "e4b", "12b", "26b-a4b", "31b"):
            checkpoint = ROOT / "models" / family
            with tempfile.TemporaryDirectory() as folder, Standin() as standin:
                device = ("--bundle", compiled_bundle(folder, checkpoint, tp=2, context=64, chunk=32), "--device")
                expected = generate(*question, *device, "sim", checkpoint=checkpoint)
                done = standin.run("generate", checkpoint, "--json", *question, *device, "neuron")
                self.assertEqual(done.status, 0, done.err)
                self.assertEqual(done.json()["token_ids"], expected["token_ids"], family)

    def test_F040_a_step_moves_its_own_inputs_and_outputs_and_no_cache(self):
        with Standin() as standin:
            for tokens in (4, 12):
                done = standin.run("generate", DEMO, "--ids", "2,105,468", "--ignore-eos", "--temperature", "0",
                                   "--max-tokens", tokens, *self.on(1))
                self.assertEqual(done.status, 0, done.err)
            short, long = standin.log()
        steps = long["executions"] - short["executions"]
        self.assertEqual(steps, 8)
        config = json.loads((DEMO / "config.json").read_text())
        vocabulary = config.get("text_config", config)["vocab_size"]
        self.assertLess((long["bytes_read"] - short["bytes_read"]) / steps, vocabulary * 4 + 64)
        self.assertLess((long["bytes_written"] - short["bytes_written"]) / steps, 64 << 10)

    def test_auto_takes_the_accelerator_where_it_can_and_says_why_not_elsewhere(self):
        automatic = ("generate", DEMO, "--json", *QUESTION, "--device", "auto")
        with Standin() as standin:
            done = standin.run(*automatic, "--bundle", self.bundles[2])
            self.assertIn("device: neuron", done.err)
            self.assertEqual(done.json()["device"], "neuron")
            emitted = Path(self.folder.name) / "emitted"
            support.run("compile", DEMO / "config.json", "-o", emitted, "--emit-only", "--context", 64, "--chunk", 32)
            for arguments, settings, reason in (((), {}, "no --bundle"),
                                                (("--bundle", emitted), {}, "compiled"),
                                                (("--bundle", "/no/such/bundle"), {}, "no bundle"),
                                                (("--bundle", self.bundles[2]), {"cores": 1}, "1 cores")):
                done = standin.run(*automatic, *arguments, **settings)
                self.assertEqual(done.status, 0, done.err)
                self.assertIn("device: cpu, because ", done.err)
                self.assertIn(reason, done.err)
                self.assertEqual(done.json()["device"], "cpu")

    def test_what_is_asked_wrongly_is_refused(self):
        with Standin() as standin:
            def fails(status, words, *arguments, **settings):
                self.assert_fails(standin.run("generate", DEMO, *QUESTION, *arguments, **settings), status, *words)

            fails(2, ["--bundle"], "--device", "neuron")
            fails(2, ["--cores"], "--cores", "0-1")
            fails(2, ["--cores", "one core"], *self.on(2, "--cores", "1"))
            fails(2, ["--device-timeout"], *self.on(2, "--device-timeout", "0"))
            fails(2, ["--tp"], *self.on(2, "--tp", "2"))
            self.assertEqual(self.ask(standin, 1, "--cores", "1")["ranks"], 1)
            self.assertEqual(standin.log()[-1]["environment"]["NEURON_RT_VISIBLE_CORES"], "1")

    def fail_as(self, standin, ranks, planted):
        settings = dict(planted)
        timeout = 1 if "load_collectives 1 1 hang" in planted.get("faults", "") else 5
        return standin.run("generate", DEMO, "--ids", "2,105", "--ignore-eos", "--max-tokens", 40, "--temperature", 0,
                           *self.on(ranks, "--device-timeout", timeout), library=settings.pop("library", "all"),
                           **settings)

    # Faults F024, F143, F147 and others: each status of the runtime is tests/neuron's.
    def test_planted_failures_are_told_as_documented_and_nothing_stays_held(self):
        rows = []
        with Standin() as standin:
            for what, ranks, planted, status, said in FAILURES:
                done = self.fail_as(standin, ranks, planted)
                self.assertEqual(done.status, status, (what, done.err))
                self.assertIn(said, done.err, what)
                rows.append(failure_row(what, done))
            self.ask(standin, 2)
        self.assertEqual(DOCUMENT.read_text(encoding="utf-8"), document_with(rows),
                         "run tests/cli/neuron_device_test.py --write-table")

    def assert_fails_after_notes(self, done, status, *said):
        self.assertEqual(done.status, status, done.err)
        for words in ("error: ", *said):
            self.assertIn(words, done.err)

    def test_F043_cores_that_another_process_holds_and_those_of_one_that_was_killed(self):
        with Standin() as standin:
            tools = standin.folder / "tools"
            tools.mkdir()
            (tools / "neuron-ls").write_text(
                f"#!/bin/sh\nread pid < {standin.folder}/core0\n"
                "echo \"[{\\\"neuron_processes\\\":[{\\\"pid\\\":$pid,\\\"command\\\":\\\"holder\\\"}]}]\"\n")
            (tools / "neuron-ls").chmod(0o755)
            environment = standin.environment(faults="nrt_execute * 1 delay=600")
            holder = subprocess.Popen([BINARY, "generate", str(DEMO), *QUESTION, *map(str, self.on(1))], env=environment,
                                      stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            try:
                deadline = time.monotonic() + TIMEOUT_S
                core = standin.folder / "core0"
                while not (core.exists() and core.read_text().strip()) and time.monotonic() < deadline:
                    time.sleep(0.02)
                environment = {**standin.environment(), "PATH": f"{tools}:/usr/bin:/bin"}
                done = support.Done(subprocess.run([BINARY, "generate", str(DEMO), *QUESTION, *map(str, self.on(1))],
                                                   env=environment, capture_output=True, timeout=TIMEOUT_S))
                self.assert_fails_after_notes(done, 8, "nrt_init", f"held by process {holder.pid} (holder)")
                self.ask(standin, 1, "--cores", "1")
            finally:
                holder.kill()
                holder.wait()
            self.ask(standin, 1)

    def test_a_process_killed_at_any_moment_leaves_nothing_behind(self):
        moments = random.Random(5)
        with Standin() as standin:
            for _ in range(4):
                process = subprocess.Popen([BINARY, "generate", str(DEMO), *QUESTION, *map(str, self.on(2))],
                                           env=standin.environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                time.sleep(moments.uniform(0.0, 1.5))
                process.send_signal(signal.SIGKILL)
                process.wait()
            self.ask(standin, 2)


class NeuronServerTest(TestCase):
    def test_it_serves_what_the_simulator_serves_and_ends_when_the_core_cannot_go_on(self):
        with tempfile.TemporaryDirectory() as folder, Standin() as standin:
            bundle = compiled_bundle(folder, tp=2, batch=2, context="128", chunk=32)
            texts = {}
            for device in ("sim", "neuron"):
                with server_support.Server("--device", device, "--bundle", bundle, checkpoint=DEMO,
                                           environment=standin.environment()) as server:
                    with ThreadPoolExecutor(3) as pool:
                        answers = list(pool.map(lambda text: server.chat(text, temperature=0, max_tokens=8).json(),
                                                ("What is the capital of France?", "What is 2+3?", "Say hello.")))
                    texts[device] = [answer["choices"][0]["message"]["content"] for answer in answers]
            self.assertEqual(texts["neuron"], texts["sim"])

            # Fault F145: the request gets an error, then the process ends.
            environment = standin.environment(faults="nrt_execute 1 30 garbage=1006")
            with server_support.Server("--device", "neuron", "--bundle", bundle, checkpoint=DEMO,
                                       environment=environment) as server:
                statuses = []
                while not statuses or statuses[-1] == 200:
                    statuses.append(server.chat("What is 2+3?", temperature=0, max_tokens=8).status)
                self.assertGreaterEqual(statuses[-1], 500)
                self.assertEqual(server.process.wait(TIMEOUT_S), WATCHDOG)
                self.assertIn("1006 (EXEC_OOB)", "".join(server.log))


if __name__ == "__main__":
    if "--write-table" in sys.argv:
        NeuronDeviceTest.setUpClass()
        with Standin() as machine:
            lines = [failure_row(row[0], NeuronDeviceTest().fail_as(machine, row[1], row[2])) for row in FAILURES]
        DOCUMENT.write_text(document_with(lines), encoding="utf-8")
        NeuronDeviceTest.tearDownClass()
    else:
        unittest.main()

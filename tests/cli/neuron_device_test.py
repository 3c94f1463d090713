"""The accelerator from outside, on a stand-in for its runtime: the simulator's text, and every way to end."""

import importlib.util
import json
import random
import signal
import subprocess
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
            fails(4, ["1 cores"], *self.on(2), cores=1)
            fails(5, ["2.24.1"], *self.on(1), version="2.24.1")
            self.assertEqual(self.ask(standin, 1, "--cores", "1")["ranks"], 1)
            self.assertEqual(standin.log()[-1]["environment"]["NEURON_RT_VISIBLE_CORES"], "1")

    def test_planted_failures_are_told_and_nothing_stays_held(self):
        """(what is planted, exit status, what is said)"""
        cases = (
            ("nrt_init 0 1 status=6", 8, ["nrt_init", "6 (HW_ERROR)"]),
            ("nrt_load 0 1 status=10", 5, ["upgrade aws-neuronx-runtime-lib"]),
            ("nrt_tensor_allocate 0 3 status=4", 7, ["planned_of_a_core: weights", "counted_by_runtime"]),
            ("nrt_execute 0 1 drop", 8, ["does not write its cache", "prefill_c64"]),
            ("nrt_execute 0 * nan", 8, ["no numbers"]),
            ("nrt_execute 0 9 garbage=1006", 8, ["1006 (EXEC_OOB)", "garbage"]),
        )
        with Standin() as standin:
            for faults, status, said in cases:
                done = standin.run("generate", DEMO, "--ids", "2,105", "--ignore-eos", "--max-tokens", 40, "--temperature", 0,
                                   *self.on(1), faults=faults)
                self.assertEqual(done.status, status, (faults, done.err))
                for words in said:
                    self.assertIn(words, done.err, faults)
            self.ask(standin, 1)

    def test_F024_a_rank_that_keeps_nothing_is_found_at_the_start(self):
        with Standin() as standin:
            done = standin.run("generate", DEMO, *QUESTION, *self.on(2), faults="nrt_execute 1 1 drop")
            self.assert_fails_after_notes(done, 8, "does not write its cache", "rank: 1")

    def assert_fails_after_notes(self, done, status, *said):
        self.assertEqual(done.status, status, done.err)
        for words in ("error: ", *said):
            self.assertIn(words, done.err)

    def test_F143_a_rank_that_hangs_or_fails_alone_ends_the_process(self):
        with Standin() as standin:
            for faults, said in (("nrt_execute 1 8 hang", "has not come back for 3 s: rank 0 in nrt_execute, rank 1 in"),
                                 ("nrt_execute 1 8 status=101", "nrt_execute failed on rank 1"),
                                 ("nrt_load_collectives 0 1 status=1", "nrt_load_collectives failed on rank 0")):
                done = standin.run("generate", DEMO, *QUESTION, *self.on(2, "--device-timeout", "3"), faults=faults)
                self.assertEqual(done.status, WATCHDOG, done.err)
                self.assertIn(said, done.err)
            self.ask(standin, 2)

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
    unittest.main()

"""`doctor` on stand-ins for the accelerator's software: the whole first contact, its report, and planted deviations.

doctor_test.py --write-table rewrites the tables of docs/first-contact.md.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import support
from standin_neuron import COMPILER, Standin
from support import BINARY, ROOT, CheckpointCopy, TestCase, run

CHECKPOINT = ROOT / "models" / "e2b"
DOCUMENT = ROOT / "docs" / "first-contact.md"
TABLE_BEGIN, TABLE_END = "<!-- table of steps -->\n", "<!-- end of table -->\n"
MEMBERS = {"id", "question", "expected", "verdict", "seconds", "seen", "faults", "remarks", "meaning", "change"}

# What deviates, how a stand-in is told to, the step that fails and no other, and what it says and advises.
DEVIATIONS = [
    ("the runtime is too old", ("versions",), {"version": "2.24.1"}, {}, "2.24.1", "one release"),
    ("the runtime is of an earlier release than the compiler", ("versions",), {"version": "2.30.51"}, {}, "is newer than",
     "one release"),
    ("another islpy", ("versions",), {}, {"STANDIN_CC_ISLPY": "2026.2.1"}, "goes with islpy", "--any-compiler"),
    ("a single core", ("cores",), {"cores": 1}, {}, "1 cores", "--tp"),
    ("the compiler names tensors as it likes", ("compile",), {}, {"STANDIN_CC_WRONG": "name"}, "is not in the NEFF",
     "neff_input_names"),
    ("a NEFF of newer features", ("operation",), {}, {"STANDIN_CC_FEATURES": "0x100000"}, "older than the compiler",
     "status 10"),
    ("a NaN", ("operation",), {"faults": "nrt_execute 0 1 nan"}, {}, "are no numbers", "NEURON_RT_LOG_LEVEL"),
    ("an operation that the compiler lacks", ("types",), {}, {"STANDIN_CC_ONLY": "types_pred", "STANDIN_CC_FAIL": "NCC_EVRF001"},
     "pred in and out", "another release"),
    ("the ranks cannot load together", ("ranks",), {"faults": "nrt_load_collectives 1 * status=2"}, {},
     "nrt_load_collectives", "ROOT_COMM_ID"),
    ("a rank dies", ("ranks",), {"faults": "nrt_execute 1 1 kill"}, {}, "signal 9", "ROOT_COMM_ID"),
    ("a write in place is dropped", ("alias",), {"faults": "nrt_execute 0 2 drop"}, {}, "row 63", "2.24.5133"),
    ("a core has little memory", ("biggest",), {"bytes": 300_000}, {}, "no memory", "check_shape"),
    ("a sum that is wrong on one rank", ("two-layers",), {"faults": "nrt_execute 1 1 drop"}, {}, "does not write its cache",
     "--disable-mixed-precision-accumulation"),
]


class DoctorTest(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.report = self.folder / "report.json"

    def environment(self, standin, planted={}, **settings):
        return {**standin.environment(**settings), "GEMMATRACE_NEURONX_CC": str(COMPILER), **planted}

    def command(self, *arguments, checkpoint=CHECKPOINT):
        return ("doctor", "--first-contact", checkpoint, "--small", "--chunk", 16, "--report", self.report, "--work",
                self.folder / "work", *arguments)

    def contact(self, *arguments, planted={}, checkpoint=CHECKPOINT, **settings):
        with Standin() as standin:
            return run(*self.command(*arguments, checkpoint=checkpoint), env=self.environment(standin, planted, **settings))

    def steps(self):
        steps = json.loads(self.report.read_text(encoding="utf-8"))["steps"]
        for step in steps:
            self.assertLessEqual(MEMBERS, set(step), step["id"])
            self.assertIn(step["verdict"], ("pass", "fail", "skipped"))
            self.assertTrue(step["expected"] and step["meaning"] and step["change"], step["id"])
        return {step["id"]: step for step in steps}

    def test_the_whole_script_runs_and_its_report_is_readable(self):
        done = self.contact()
        self.assertEqual(done.status, 0, done.out + done.err)
        steps = self.steps()
        listed = [line.split("`")[1] for line in run("doctor", "--list").out.split("\n\n")[0].splitlines()[2:]]
        self.assertEqual(list(steps), listed)
        self.assertEqual({step["verdict"] for step in steps.values()}, {"pass"})
        for step in steps.values():
            self.assertIn(step["question"], done.out)
        report = json.loads(self.report.read_text(encoding="utf-8"))
        self.assertTrue(report["options"]["small"])
        self.assertEqual(report["expectations"]["core_gb_per_s"]["value"], 165)
        parity = steps["parity"]["seen"]
        self.assertGreater(parity["rows"], 30)
        self.assertLess(0, parity["worst_relative"])
        self.assertEqual((parity["ranks"], parity["far_rows"]), (2, 0))
        self.assertEqual(set(steps["two-layers"]["seen"]), {"as usual", "--disable-mixed-precision-accumulation"})
        self.assertIn("decode_c112", steps["speed"]["seen"])
        self.assertEqual(steps["recovery"]["seen"]["a_rank_stays_away"]["noticed_by"], "our watchdog")
        text = self.report.read_text(encoding="utf-8")
        self.assertNotIn(socket.gethostname(), text)

        # One step again, judged otherwise: the others stay as they were.
        before = self.steps()
        done = self.contact("--only", "memory", "--expect", "core_gib=17")
        self.assertEqual(done.status, 1, done.err)
        after = self.steps()
        self.assertEqual(list(after), listed)
        self.assertEqual(after["memory"]["verdict"], "fail")
        self.assertIn("reserved_gb", done.out)
        self.assertEqual({**after, "memory": None}, {**before, "memory": None})

    def test_a_deviation_fails_its_step_with_its_advice_and_stops_the_run(self):
        for what, (step,), settings, planted, said, advised in DEVIATIONS:
            with self.subTest(what):
                self.report.unlink(missing_ok=True)
                subprocess.run(["rm", "-rf", str(self.folder / "work")], check=True)
                done = self.contact("--from", step, planted=planted, **settings)
                self.assertEqual(done.status, 1, done.out + done.err)
                steps = self.steps()
                self.assertEqual(list(steps), [step], "the run stops")
                self.assertEqual(steps[step]["verdict"], "fail")
                self.assertIn(said, " ".join(steps[step]["faults"]) + json.dumps(steps[step].get("error", "")))
                self.assertIn(advised, steps[step]["meaning"] + " " + steps[step]["change"])
                self.assertIn("FAIL: ", done.out)
                self.assertIn(steps[step]["change"], done.out)

    def test_keep_going_and_skipped_steps(self):
        done = run("doctor", "--first-contact", "--small", "--report", self.report, "--work", self.folder / "work", "--from",
                   "inputs", "--keep-going", env={**os.environ, "GEMMATRACE_LIBNRT": "/nowhere", "PATH": "/nowhere",
                                                  "GEMMATRACE_NEURONX_CC": "/nowhere"})
        self.assertEqual(done.status, 1)
        steps = self.steps()
        self.assertEqual(steps["inputs"]["verdict"], "fail")
        self.assertIn("no compiler", steps["inputs"]["faults"][0])
        self.assertEqual((steps["parity"]["verdict"], steps["parity"]["reason"]), ("skipped", "no checkpoint was named"))
        self.assertEqual(steps["recovery"]["verdict"], "fail")

    def test_an_interrupt_keeps_the_report(self):
        with Standin() as standin:
            environment = self.environment(standin, {"STANDIN_CC_ONLY": "ranks", "STANDIN_CC_SLOW_MS": "60000"})
            process = subprocess.Popen([BINARY, *map(str, self.command("--from", "types"))], env=environment,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            deadline = time.monotonic() + support.TIMEOUT_S
            while not list(self.folder.glob("work/ranks/scratch/*")) and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=support.TIMEOUT_S)[1].decode()
        self.assertEqual(process.returncode, 130, said)
        self.assertEqual({name: step["verdict"] for name, step in self.steps().items()}, {"types": "pass"})

    def test_without_first_contact_it_looks_and_takes_nothing(self):
        with Standin() as standin:
            done = run("doctor", CHECKPOINT, "--json", env=self.environment(standin), cwd=self.folder)
        self.assertEqual(done.status, 0, done.err)
        steps = {step["id"]: step for step in done.json()["steps"]}
        self.assertEqual(list(steps), ["host", "versions", "cores", "checkpoint"])
        self.assertEqual((steps["cores"]["seen"]["cores"], steps["checkpoint"]["seen"]["layers"]), (2, 7))
        self.assertEqual(list(self.folder.iterdir()), [])
        bare = {**os.environ, "GEMMATRACE_LIBNRT": "/nowhere", "GEMMATRACE_NEURONX_CC": "/nowhere"}
        done = run("doctor", "--json", env=bare)
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual({step["id"]: step["verdict"] for step in done.json()["steps"]},
                         {"host": "pass", "versions": "skipped", "cores": "skipped"})
        with CheckpointCopy(CHECKPOINT) as copy:
            copy.edit_header(lambda header: header.pop(next(name for name in header if "q_proj" in name)))
            done = run("doctor", copy.path, "--json", env=bare)
        self.assertEqual(done.status, 1)
        self.assertEqual([step["id"] for step in done.json()["steps"] if step["verdict"] == "fail"], ["checkpoint"])

    def test_what_is_asked_wrongly_is_refused(self):
        for arguments, status, said in ((("--from", "nowhere"), 2, "nowhere"), (("--expect", "speed=1"), 2, "--list"),
                                        (("--expect", "call_ms=x"), 2, "--list")):
            self.assert_fails(run(*self.command(*arguments)), status, said)
        self.report.write_text("{}")
        self.assert_fails(run(*self.command()), 2, "no report")
        self.assertEqual(self.report.read_text(), "{}")

    def test_the_document_has_the_steps(self):
        self.assertEqual(DOCUMENT.read_text(encoding="utf-8"), document(), "run tests/cli/doctor_test.py --write-table")


def document():
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(TABLE_BEGIN)
    return before + TABLE_BEGIN + "\n" + run("doctor", "--list").out + "\n" + TABLE_END + rest.split(TABLE_END)[1]


if __name__ == "__main__":
    if "--write-table" in sys.argv:
        DOCUMENT.write_text(document(), encoding="utf-8")
    else:
        unittest.main()

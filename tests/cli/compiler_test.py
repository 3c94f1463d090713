"""`compile` with the Neuron compiler, which a stand-in plays: what a compiled bundle holds, the cache, and every failure
on record planted.

compiler_test.py --write-table rewrites the table of failures in docs/compiling.md.
"""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from support import BINARY, DEMO, ROOT, CheckpointCopy, TestCase, run

STANDIN = Path(os.environ.get("GEMMATRACE_STANDIN_CC", ROOT / "build" / "release" / "standin" / "neuronx-cc"))
IS_SANITIZED = "GEMMATRACE_SANITIZED" in os.environ
SMALL = ("--context", "32,64", "--chunk", 16)
PROGRAMS = ["prefill_c32", "prefill_c64", "decode_c32", "decode_c64"]
DOCUMENT = ROOT / "docs" / "compiling.md"
TABLE_BEGIN, TABLE_END = "<!-- table of failures -->\n", "<!-- end of table -->\n"


def code(name, *more):
    """A row for a code that the compiler prints: the codes that mean the same, and how the stand-in is told."""
    text = name if name.startswith("[") else f"NCC_{name}"
    return ", ".join((text, *(f"NCC_{other}" for other in more))), {"STANDIN_CC_FAIL": text}


# What the compiler does, how the stand-in is told to, further arguments, the exit status, and what the error says.
FAILURES = [
    (*code("EARG001"), (), 4, "--logical-nc-config"),
    ("NCC_EARG002: an option that it does not know", {}, ("--compiler-flag=--cache_dir=x",), 4, "one of its options"),
    (*code("EVRF001", "EUOC002"), (), 70, "an operation"),
    (*code("EVRF004", "EVRF005", "EVRF051", "ESPP004"), (), 70, "element type"),
    (*code("EVRF007", "EBVF030", "EXTP004"), (), 4, "too many instructions"),
    ("[XTP002], as older releases print it", {"STANDIN_CC_FAIL": "[XTP002]"}, (), 4, "too many instructions"),
    (*code("EVRF009", "EOOM001", "EOOM002", "EXSP001"), (), 7, "16 GiB"),
    (*code("EVRF013"), (), 70, "top-k of whole numbers"),
    (*code("EVRF015", "EHCA005"), (), 70, "custom call"),
    (*code("EVRF016", "EVRF060"), (), 70, "scatter"),
    (*code("EVRF022", "EVRF035", "ESFH002"), (), 70, "width"),
    (*code("EVRF031", "EVRF056", "ESMP002"), (), 70, "outside"),
    (*code("EVRF059", "EVRF065"), (), 5, "another release"),
    (*code("EVRF061"), (), 70, "fp32"),
    (*code("EVRF064"), (), 70, "contradicts"),
    (*code("EMOD025"), (), 70, "not fixed"),
    (*code("INLA001"), (), 4, "196,608"),
    (*code("IBIR229"), (), 4, "no place"),
    (*code("IXCG856"), (), 4, "top-k"),
    ("NCC_ISMP902 above a sequence length", {"STANDIN_CC_ISMP902_ABOVE": "8"}, (), 5, "islpy"),
    (*code("IXGM002", "ILLC059", "TEN404"), (), 8, "failed inside"),
    ("a code that is in no table", {"STANDIN_CC_FAIL": "NCC_EXYZ123"}, (), 8, "NCC_EXYZ123"),
    ("exits with 1", {"STANDIN_CC_EXIT": "1"}, (), 8, "exit status 1"),
    ("exits with 70, also the second time", {"STANDIN_CC_EXIT": "70"}, (), 8, "twice"),
    ("is killed (signal 9)", {"STANDIN_CC_KILL": "1"}, (), 7, "memory"),
    ("says that all is well and writes no file", {"STANDIN_CC_NO_FILE": "1"}, (), 8, "wrote no file"),
    ("writes a file that is cut", {"STANDIN_CC_CUT": "100"}, (), 5, "bytes"),
    ("makes a NEFF with a tensor of another size", {"STANDIN_CC_WRONG": "size"}, (), 5, "bytes in the NEFF"),
    ("names tensors as it likes", {"STANDIN_CC_WRONG": "name"}, (), 5, "is not in the NEFF"),
    ("makes a NEFF that wants more", {"STANDIN_CC_WRONG": "more"}, (), 5, "not in the program"),
    ("is of a version that is not known", {"STANDIN_CC_VERSION": "2.99.1.0+x"}, (), 5, "no release"),
    ("has another islpy", {"STANDIN_CC_ISLPY": "2026.2.1"}, (), 5, "goes with islpy 2023.2.5"),
    ("has an islpy that cannot be found", {"STANDIN_CC_ISLPY": ""}, (), 5, "not found"),
    ("is not there", {}, ("--compiler", "nowhere/neuronx-cc"), 3, "no compiler"),
    ("would need more memory than there is", {}, ("--memory-gib", "0.5"), 7, "of memory"),
]


def error_of(done):
    """The sentence and the remedy of a run that failed."""
    parts = re.search(r"^error: ([^\n]*)\n.*^  remedy: ([^\n]*)$", done.err, re.MULTILINE | re.DOTALL)
    return parts.groups() if parts else (done.err, "")


class Compiling(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out, self.cache, self.log = (self.folder / name for name in ("bundle", "cache", "runs.log"))

    def environment(self, planted):
        known = {name: value for name, value in os.environ.items() if not name.startswith("STANDIN_")}
        return {**known, "STANDIN_CC_LOG": str(self.log), "GEMMATRACE_NEURONX_CC": str(STANDIN), **planted}

    def command(self, *arguments, checkpoint=DEMO, out=None):
        return ("compile", checkpoint, "-o", out or self.out, "--cache", self.cache, *arguments)

    def compile(self, *arguments, planted={}, checkpoint=DEMO, out=None, sizes=SMALL):
        command = self.command(*sizes, *arguments, checkpoint=checkpoint, out=out)
        return run(*command, env=self.environment(planted))

    def must_compile(self, *arguments, **options):
        done = self.compile(*arguments, **options)
        self.assertEqual(done.status, 0, done.err)
        return done

    def fail_as(self, planted, arguments):
        return self.compile(*arguments, planted=planted, sizes=("--context", "32", "--chunk", 16))

    def runs(self):
        """The names of the programs that were compiled since the last call."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.write_text("")
        return [line.split()[0] for line in lines]

    def start(self, *arguments, planted={}, out=None):
        command = [BINARY, *map(str, self.command(*SMALL, *arguments, out=out))]
        return subprocess.Popen(command, env=self.environment(planted), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class CompilerTest(Compiling):
    def test_a_bundle_holds_a_neff_of_each_program_and_says_how_it_was_made(self):
        done = self.compile("--json", planted={"NEURON_CC_FLAGS": "--planted"})
        self.assertEqual(done.status, 0, done.err)
        manifest = json.loads((self.out / "manifest.json").read_text())
        compiled = json.loads((self.out / "compiled.json").read_text())
        self.assertEqual((compiled["hash"], compiled["target"]), (manifest["hash"], "inf2"))
        self.assertEqual((compiled["compiler"], compiled["islpy"]), ("2.26.6360.0+standin", "2023.2.5"))
        self.assertEqual([program["name"] for program in compiled["programs"]], PROGRAMS)
        for program, entry in zip(compiled["programs"], manifest["programs"]):
            neff = (self.out / program["file"]).read_bytes()
            self.assertEqual((len(neff), hashlib.sha256(neff).hexdigest()), (program["bytes"], program["sha256"]))
            self.assertEqual(program["program_sha256"], entry["sha256"])
            self.assertEqual(program["scratchpad_bytes"], 4096)
            self.assertGreater(program["peak_memory_bytes"], 1 << 20)
            self.assertTrue((self.out / "logs" / f"{program['name']}.log").read_text().count("Compiler status PASS"))
        files = {str(path.relative_to(self.out)) for path in self.out.rglob("*") if path.is_file()}
        self.assertEqual(files, {"manifest.json", "compiled.json", *(f"logs/{name}.log" for name in PROGRAMS),
                                 *(f"programs/{name}.{end}" for name in PROGRAMS for end in ("hlo.pb", "neff"))})
        lines = sorted(self.log.read_text().splitlines())
        flags = " --framework=XLA --target=inf2 --model-type=transformer --auto-cast=none -O1" \
                " --enable-mixed-precision-accumulation --output=program.neff"
        self.assertEqual(lines, sorted(name + flags for name in PROGRAMS))
        self.assertEqual([(neff["name"], neff["cached"]) for neff in done.json()["neffs"]],
                         [(name, False) for name in PROGRAMS])
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["bundle", "cache", "runs.log"])

    def test_every_program_is_compiled_for_two_ranks_and_several_slots_too(self):
        self.must_compile("--tp", 2, "--batch", 2)
        self.assertEqual(len(self.runs()), 6)

    def test_f038_a_second_compile_runs_nothing_and_f037_a_change_of_any_ingredient_does(self):
        self.must_compile()
        self.assertEqual(sorted(self.runs()), sorted(PROGRAMS))
        done = self.must_compile("--json", out=self.folder / "again")
        self.assertEqual((self.runs(), [neff["cached"] for neff in done.json()["neffs"]]), ([], [True] * 4))
        for name in PROGRAMS:
            self.assertEqual(*((folder / "programs" / f"{name}.neff").read_bytes()
                               for folder in (self.out, self.folder / "again")))
        with CheckpointCopy() as copy:
            copy.edit_json("config.json", lambda config: config["text_config"].update({"rms_norm_eps": 2e-6}))
            changes = [
                ({}, ("--compiler-flag=--optlevel=2",), DEMO),
                ({"STANDIN_CC_VERSION": "2.26.6360.0+other"}, (), DEMO),
                ({"STANDIN_CC_VERSION": "2.25.3371.0+standin"}, (), DEMO),
                ({"STANDIN_CC_VERSION": "2.25.3371.0+standin", "STANDIN_CC_ISLPY": "2023.1"}, (), DEMO),
                ({"STANDIN_CC_VERSION": "2.27.5334.0+x", "STANDIN_CC_ISLPY": "2026.1"}, (), DEMO),
                ({}, (), copy.path),
            ]
            for number, (planted, arguments, checkpoint) in enumerate(changes):
                with self.subTest(planted=planted, arguments=arguments):
                    out = self.folder / f"changed{number}"
                    self.must_compile(*arguments, planted=planted, checkpoint=checkpoint, out=out)
                    self.assertEqual(sorted(self.runs()), sorted(PROGRAMS))
        self.must_compile("--precision", "fp32", out=self.folder / "fp32")
        self.assertEqual(len(self.runs()), 4)
        self.must_compile(out=self.folder / "last")
        self.assertEqual(self.runs(), [])

    def test_a_failure_is_explained_and_does_no_damage(self):
        rows = []
        for number, (title, planted, arguments, status, said) in enumerate(FAILURES):
            if IS_SANITIZED and number % 4:
                continue
            with self.subTest(title):
                done = self.fail_as(planted, arguments)
                rows.append(table_row(title, done))
                sentence, remedy = error_of(done)
                self.assertEqual((done.status, done.out), (status, ""), done.err)
                self.assertIn(said, sentence + done.err.split(sentence)[1])
                self.assertTrue(remedy, done.err)
                self.assertLessEqual({path.name for path in self.folder.iterdir()}, {"cache", "runs.log"})
                self.assertEqual(list(self.cache.rglob("*.neff-entry")), [])
        if not IS_SANITIZED:
            self.assertEqual(DOCUMENT.read_text(encoding="utf-8"), with_table(rows),
                             "run tests/cli/compiler_test.py --write-table")
        logs = list((self.cache / "failed").iterdir())
        self.assertTrue(all(log.suffix == ".log" for log in logs) and logs, logs)
        self.runs()
        self.must_compile()  # nothing of all this was kept
        self.assertEqual(sorted(self.runs()), sorted(PROGRAMS))

    def test_an_exit_with_70_is_tried_once_more(self):
        once = self.folder / "once"
        done = self.must_compile(planted={"STANDIN_CC_EXIT": "70", "STANDIN_CC_ONCE": str(once)})
        self.assertIn("once more", done.err)
        self.assertEqual(len(self.runs()), 5)

    def test_what_was_finished_before_a_failure_is_not_compiled_again(self):
        done = self.compile(planted={"STANDIN_CC_ONLY": "decode_c64", "STANDIN_CC_FAIL": "NCC_EVRF007"})
        self.assertEqual(done.status, 4)
        self.assertIn("decode_c64", done.err)
        log = Path(re.search(r"^  log: (.*)$", done.err, re.MULTILINE).group(1))
        self.assertIn("NCC_EVRF007", log.read_text())
        self.runs()
        self.must_compile()
        self.assertEqual(self.runs(), ["decode_c64"])

    def test_a_damaged_entry_of_the_cache_is_dropped_and_compiled_again(self):
        self.must_compile()
        before = {path.name: path.read_bytes() for path in self.cache.rglob("*.neff-entry")}
        for number, damage in enumerate((lambda data: data[:-1], lambda data: b"",
                                         lambda data: data[:300] + bytes([data[300] ^ 1]) + data[301:])):
            entry = sorted(self.cache.rglob("*.neff-entry"))[number]
            entry.write_bytes(damage(entry.read_bytes()))
            self.runs()
            done = self.must_compile(out=self.folder / f"again{number}")
            self.assertIn("damaged entry", done.err)
            self.assertEqual(len(self.runs()), 1)
        self.assertEqual(before.keys(), {path.name for path in self.cache.rglob("*.neff-entry")})

    def test_two_compiles_at_once_share_the_work(self):
        both = [self.start(out=self.folder / name, planted={"STANDIN_CC_SLOW_MS": "100"}) for name in ("one", "two")]
        for process in both:
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
        self.assertEqual(sorted(self.runs()), sorted(PROGRAMS))
        self.assertEqual(*((self.folder / name / "programs" / "decode_c32.neff").read_bytes() for name in ("one", "two")))

    def test_several_run_at_once_where_that_is_allowed(self):
        done = self.must_compile("--jobs", 4, "--memory-gib", 64, planted={"STANDIN_CC_SLOW_MS": "1500"})
        words = [line.split(":")[1].split()[0].strip(",") for line in done.err.splitlines() if "comp" in line.split(":")[-1]]
        self.assertEqual(words.index("compiled"), 4, done.err)  # four began before one ended

    def test_ctrl_c_ends_the_compilers_and_leaves_nothing(self):
        process = self.start(planted={"STANDIN_CC_SLOW_MS": "60000"})
        deadline = time.monotonic() + 60
        helper = ""
        while not helper and time.monotonic() < deadline:
            time.sleep(0.02)
            helper = "".join(path.read_text() for path in self.folder.rglob("helper.pid"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (130, b""), err)
        self.assertEqual({path.name for path in self.folder.iterdir()} - {"cache", "runs.log"}, set())
        deadline = time.monotonic() + 10
        while Path(f"/proc/{int(helper)}").exists() and time.monotonic() < deadline:
            if " Z " in Path(f"/proc/{int(helper)}/stat").read_text():
                break  # ended, and nobody asks for its status
            time.sleep(0.02)
        else:
            self.assertFalse(Path(f"/proc/{int(helper)}").exists(), "the compiler's helper still runs")

    def test_killed_at_any_moment_it_goes_on_the_next_time(self):
        dice = random.Random(6)
        for _ in range(4 if IS_SANITIZED else 16):
            process = self.start(planted={"STANDIN_CC_SLOW_MS": "20"})
            time.sleep(dice.uniform(0, 0.5))
            process.kill()
            process.communicate()
            if self.out.exists():  # it was quicker
                self.assertTrue((self.out / "compiled.json").exists())
                self.out.rename(self.folder / f"finished{time.monotonic()}")
        self.must_compile()
        self.assertEqual(list(self.folder.glob(".bundle.*")), [])
        self.runs()
        done = self.must_compile("--json", out=self.folder / "last")
        self.assertEqual((self.runs(), {neff["cached"] for neff in done.json()["neffs"]}), ([], {True}))

    def test_a_dry_run_says_what_would_be_and_does_nothing(self):
        self.must_compile("--context", "32,64", sizes=("--chunk", 16))
        self.runs()
        done = run("compile", DEMO, "--dry-run", "--cache", self.cache, "--context", "48,64", "--chunk", 16,
                   env=self.environment({}))
        self.assertEqual(done.status, 0, done.err)
        for words in ("2 to compile", "--auto-cast=none", "2.26.6360", str(self.cache), "islpy 2026.1"):
            self.assertIn(words, done.out)
        done = run("compile", DEMO, "--dry-run", "--cache", self.cache, "--context", "32,64", "--chunk", 16, "--json",
                   env=self.environment({}))
        plan = done.json()
        self.assertEqual([program["cached"] for program in plan["programs"]], [True] * 4)
        keys = {path.name.split(".")[0] for path in self.cache.rglob("*.neff-entry")}
        self.assertEqual({program["key"] for program in plan["programs"]}, keys)
        self.assertEqual(self.runs(), [])

    def test_unknown_versions_can_be_tried(self):
        done = self.must_compile("--any-compiler", planted={"STANDIN_CC_VERSION": "2.99.0.0+new"})
        self.assertIn("warning: compiler 2.99.0.0+new belongs to no release", done.err)
        self.assertEqual(json.loads((self.out / "compiled.json").read_text())["compiler"], "2.99.0.0+new")

    def test_an_emitted_bundle_is_compiled_as_it_is(self):
        emitted = self.folder / "emitted"
        self.assertEqual(run("compile", DEMO, "-o", emitted, "--emit-only", *SMALL).status, 0)
        self.must_compile(checkpoint=emitted, sizes=())
        self.assertEqual((self.out / "manifest.json").read_bytes(), (emitted / "manifest.json").read_bytes())
        self.runs()
        self.must_compile(out=self.folder / "directly")
        self.assertEqual(self.runs(), [])
        done = self.compile(checkpoint=emitted, sizes=("--tp", 2), out=self.folder / "other")
        self.assertEqual(done.status, 2)
        self.assertIn("this is a bundle", done.err)

    def test_what_makes_no_sense_is_refused(self):
        for arguments, said in ((("--jobs", -1), "--jobs"), (("--memory-gib", 0), "--memory-gib"),
                                (("--memory-gib", "nan"), "--memory-gib"), (("--compiler-flag=x",), "--compiler-flag"),
                                (("--compiler-flag=--output=/x",), "--compiler-flag"),
                                (("--dry-run", "--emit-only"), "--dry-run")):
            with self.subTest(said):
                done = self.compile(*arguments)
                self.assertEqual(done.status, 2, done.err)
                self.assertIn(said, done.err)
        self.assertEqual(self.runs(), [])

    def test_without_a_compiler_the_places_and_ways_out_are_named(self):
        environment = {**self.environment({}), "PATH": "/usr/bin", "HOME": "/nowhere"}
        del environment["GEMMATRACE_NEURONX_CC"]
        done = run(*self.command(*SMALL), env=environment)
        self.assertEqual(done.status, 3)
        for words in ("neuronx-cc", "/usr/bin", "--compiler", "--emit-only"):
            self.assertIn(words, done.err)


def table_row(title, done):
    """A line of the document's table; sizes of memory are those of one machine."""
    sentence, remedy = (re.sub(r"[0-9.]+ [GM]B\b", "… GB", text) for text in error_of(done))
    title = title.replace("NCC_", "prints NCC_", 1) if title.startswith("NCC_") else title.replace("[X", "prints [X")
    return f"| {title} | {done.status} | {sentence} | {remedy} |\n"


def with_table(rows):
    """The document with these lines as its table of failures."""
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(TABLE_BEGIN)
    heading = "\n| the compiler… | exit status | error | remedy |\n|---|---|---|---|\n"
    return before + TABLE_BEGIN + heading + "".join(rows) + "\n" + TABLE_END + rest.split(TABLE_END)[1]


if __name__ == "__main__":
    if "--write-table" in sys.argv:
        writer = Compiling()
        writer.setUp()
        lines = [table_row(row[0], writer.fail_as(row[1], row[2])) for row in FAILURES]
        DOCUMENT.write_text(with_table(lines), encoding="utf-8")
        writer.doCleanups()
    else:
        unittest.main()

"""`compile` from outside: what a bundle holds, what its text and figures say, refusals, and that Ctrl-C leaves nothing."""

import hashlib
import json
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from support import BINARY, DEMO, CheckpointCopy, TestCase, run

SMALL = ("--context", "32,128", "--chunk", 16)


class CompileTest(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "bundle"

    def compile(self, *arguments, checkpoint=DEMO):
        return run("compile", checkpoint, "-o", self.out, "--emit-only", *SMALL, *arguments)

    def manifest(self):
        return json.loads((self.out / "manifest.json").read_text(encoding="utf-8"))

    def test_a_bundle_holds_its_programs_as_the_manifest_names_them(self):
        done = self.compile("--batch", 2)
        self.assertEqual((done.status, done.out), (0, f"{self.out}\n"), done.err)
        manifest = self.manifest()
        names = [program["file"] for program in manifest["programs"]]
        self.assertEqual(names, [f"programs/{kind}_c{bucket}.hlo.pb" for kind in ("prefill", "decode", "copy")
                                 for bucket in (32, 128)])
        for program in manifest["programs"]:
            data = (self.out / program["file"]).read_bytes()
            self.assertEqual((len(data), hashlib.sha256(data).hexdigest()), (program["bytes"], program["sha256"]))
            self.assertIn(Path(program["file"]).name.split(".")[0], done.err)
        files = {str(path.relative_to(self.out)) for path in self.out.rglob("*") if path.is_file()}
        self.assertEqual(files, {"manifest.json", *names})
        self.assertEqual(list(self.folder.iterdir()), [self.out])

    def test_the_hash_is_that_of_what_stands_before_it(self):
        done = self.compile("--json")
        manifest = self.manifest()
        identity = dict(list(manifest.items())[: list(manifest).index("hash")])
        text = json.dumps(identity, separators=(",", ":"), ensure_ascii=False)
        self.assertEqual(hashlib.sha256(text.encode()).hexdigest(), manifest["hash"])
        self.assertEqual(done.json()["hash"], manifest["hash"])
        self.assertEqual([program["name"] for program in done.json()["programs"]],
                         ["prefill_c32", "prefill_c128", "decode_c32", "decode_c128"])

    def test_the_config_is_enough_and_any_field_of_it_counts(self):
        hashes = set()
        with CheckpointCopy() as copy:
            for name in ("model.safetensors", "tokenizer.json"):
                copy.remove(name)
            for change in ({}, {"final_logit_softcapping": 29.0}, {"rms_norm_eps": 2e-6}, {"sliding_window": 48}):
                copy.edit_json("config.json", lambda config, change=change: config["text_config"].update(change))
                self.out = self.folder / str(len(hashes))
                self.assertEqual(self.compile(checkpoint=copy.path / "config.json").status, 0)
                hashes.add(self.manifest()["hash"])
        self.assertEqual(len(hashes), 4)

    def test_text_comes_on_request(self):
        self.assertEqual(self.compile("--emit-hlo-text").status, 0)
        text = (self.out / "programs" / "decode_c32.hlo.txt").read_text(encoding="utf-8")
        self.assertTrue(text.startswith("HloModule decode_c32"))

    def test_a_plan_writes_nothing(self):
        done = run("compile", "--like", "e2b", "--plan", "--json", "--context", "512", "--tp", 2)
        self.assertEqual(done.status, 0, done.err)
        plan = done.json()
        prefill, decode = plan["programs"]
        self.assertEqual((prefill["name"], decode["name"]), ("prefill_c512", "decode_c512"))
        self.assertEqual(decode["findings"], 0)
        self.assertLessEqual(decode["weight_inputs"], 250)
        self.assertLess(decode["proto_bytes"], 20e6)
        self.assertLessEqual(decode["floor_bytes"], decode["bytes_read"])
        self.assertLessEqual(decode["bytes_read"], 1.05 * decode["floor_bytes"])
        host = plan["host"]
        self.assertTrue(host["fits"])
        self.assertLess(host["own_bytes"], 1e9)
        tables = 262144 * (1536 + 35 * 256) * 2
        self.assertEqual(host["table_bytes"], tables)
        self.assertGreater(host["stored_bytes"], tables)
        shown = run("compile", DEMO, "--plan", *SMALL).out
        self.assertIn("decode_c128", shown)
        self.assertIn("a host of 16 GB needs no swap", shown)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_cannot_be_made_is_refused_with_a_remedy(self):
        for status, said, arguments in (
            (2, "--output", (DEMO, "--emit-only")),
            (2, "--like", ("--emit-only", "-o", self.out)),
            (2, "--like", (DEMO, "--like", "E2B", "--plan")),
            (4, "inf2", (DEMO, "--plan", "--target", "gpu")),
            (4, "--tp", (DEMO, "--plan", *SMALL, "--tp", 7)),
            (2, "--batch", (DEMO, "--plan", *SMALL, "--batch", 0)),
            (2, "--context", (DEMO, "--plan", "--context", "2K,,4K")),
            (2, "--context", (DEMO, "--plan", "--context", "-5")),
            (2, "--context", (DEMO, "--plan", "--context", "99999999999999999999K")),
            (2, "--chunk", (DEMO, "--plan", "--context", "100", "--chunk", 16)),
            (2, "positions", (DEMO, "--plan", "--context", "512K")),
            (2, "precision", (DEMO, "--plan", *SMALL, "--precision", "fp8")),
        ):
            with self.subTest(said, arguments=arguments):
                done = run("compile", *arguments)
                self.assert_fails(done, status, said, "remedy: ")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_is_there_already_is_left_alone(self):
        self.out.mkdir()
        (self.out / "mine").write_text("precious")
        self.assert_fails(self.compile(), 2, "bundle")
        self.assertEqual([path.name for path in self.folder.rglob("*")], ["bundle", "mine"])

    def test_ctrl_c_leaves_nothing(self):
        contexts = ",".join(str(64 * step) for step in range(1, 400))
        process = subprocess.Popen([BINARY, "compile", "--like", "31B", "--tp", "8", "--context", contexts, "-o",
                                    str(self.out), "--emit-only"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not any(self.folder.rglob("*.hlo.pb")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual((process.returncode, stdout), (130, b""), stderr)
        self.assertEqual(list(self.folder.rglob("*")), [])


if __name__ == "__main__":
    unittest.main()

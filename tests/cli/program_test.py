"""The program as a whole from outside: help, version, completion scripts, `inspect`, and `synth` with what it leaves."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from support import BINARY, DEMO, ROOT, TestCase, generate, run

COMMANDS = ("chat", "generate", "tokenize", "detokenize", "render", "inspect", "synth", "compile", "pull", "doctor",
            "completion")


class HelpTest(TestCase):
    def test_every_command_explains_itself_with_examples(self):
        whole = run("--help")
        self.assertEqual((whole.status, whole.err), (0, ""))
        for command in COMMANDS:
            self.assertIn(f"  {command} ", whole.out)
            done = run(command, "--help")
            self.assertEqual((done.status, done.err), (0, ""))
            self.assertIn(f"Usage: gemmatrace {command}", done.out)
            self.assertIn("Examples:", done.out)

    def test_the_version_is_printed(self):
        self.assertRegex(run("--version").out, r"^gemmatrace \d+\.\d+\.\d+\n$")

    def test_completion_scripts_are_sound_and_know_the_options(self):
        for shell in ("bash", "zsh", "fish"):
            script = run("completion", shell).out
            self.assertIn("max-tokens", script)
            if shutil.which(shell):
                done = subprocess.run([shell, "-n"], input=script.encode(), capture_output=True)
                self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_bash_completes_commands_and_options(self):
        def completions(*words):
            script = run("completion", "bash").out + f"""
                COMP_WORDS=({' '.join(map(repr, words))}) COMP_CWORD={len(words) - 1}
                _gemmatrace; printf '%s\\n' "${{COMPREPLY[@]}}" """
            return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(completions("gemmatrace", "tok"), ["tokenize"])
        self.assertEqual(completions("gemmatrace", "generate", "--max"), ["--max-tokens"])


class InspectTest(TestCase):
    def test_every_bundled_checkpoint_is_complete(self):
        for checkpoint in sorted(path.parent for path in (ROOT / "models").glob("*/config.json")):
            with self.subTest(checkpoint.name):
                report = run("inspect", checkpoint, "--json").json()
                layers = report["layers"]
                self.assertEqual(len(layers), report["model"]["layers"])
                self.assertEqual(layers[-1]["attention"], "full")
                read, total = report["consumed"], report["total"]
                ignored = sum(entry["tensors"] for entry in report["ignored"])
                self.assertEqual(read["tensors"] + ignored, total["tensors"])
                self.assertEqual(sum(group["bytes"] for group in report["groups"]), read["bytes"])
                self.assertGreater(report["kv_cache"]["full_bytes_per_token"], 0)
                text = run("inspect", checkpoint).out
                for heading in ("Layers", "Weights", "Ledger", "KV cache", "Files"):
                    self.assertIn(f"\n{heading}", text)

    def test_equal_layers_share_a_line(self):
        report = run("inspect", DEMO, "--json").json()
        table = run("inspect", DEMO).out.split("Layers\n")[1].split("\n\n")[0]
        self.assertLess(len(table.splitlines()), len(report["layers"]))


@unittest.skipIf("GEMMATRACE_SANITIZED" in os.environ, "gigabytes of random numbers")
class SynthTest(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_an_existing_folder_with_files_is_left_alone(self):
        (self.folder / "mine").write_text("precious")
        done = run("synth", "--like", "E2B", "--layers", 1, self.folder)
        self.assertNotEqual(done.status, 0)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["mine"])

    def test_unknown_sizes_and_impossible_layers_are_refused(self):
        self.assert_fails(run("synth", "--like", "7B", self.folder / "out"), 2, "7B")
        for layers in ("0", "-1", "1000"):
            self.assert_fails(run("synth", "--like", "E2B", "--layers", layers, self.folder / "out"), 2)
        self.assertFalse((self.folder / "out").exists())

    def test_ctrl_c_leaves_nothing(self):
        out = self.folder / "out"
        process = subprocess.Popen([BINARY, "synth", "--like", "E2B", "--layers", "5", str(out)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not any(self.folder.rglob("*.safetensors*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, stderr)
        self.assertEqual(stdout, b"")
        self.assertEqual(list(self.folder.rglob("*")), [])

    @unittest.skipUnless(os.environ.get("GEMMATRACE_WHOLE_SUITE"), "writes gigabytes; part of the whole suite")
    def test_what_is_written_runs_and_is_the_same_for_a_seed(self):
        hashes = []
        for seed in (1, 1, 2):
            out = self.folder / "out"
            done = run("synth", "--like", "E2B", "--layers", 1, "--seed", seed, out)
            self.assertEqual(done.status, 0, done.err)
            hashes.append(subprocess.run(["cksum", str(out / "model.safetensors")], capture_output=True).stdout)
            if seed == 2:
                self.assertEqual(run("inspect", out).status, 0)
                result = generate("--ids", "2,105", "--max-tokens", 2, "--ignore-eos", "--top-logits", 3, checkpoint=out)
                self.assertEqual(len(result["token_ids"]), 2)
                self.assertTrue(all(value is not None for step in result["top_logits"] for _, value in step))
            shutil.rmtree(out)
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0], hashes[2])


if __name__ == "__main__":
    unittest.main()

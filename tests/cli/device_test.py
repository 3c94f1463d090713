"""The simulator from outside: the CPU's text through traced programs, with and without a bundle, and what is refused."""

import json
import tempfile
import unittest
from pathlib import Path

from support import DEMO, ROOT, TestCase, generate, run

QUESTION = ("--chat", "What is the capital of France?", "--temperature", "0", "--max-tokens", "16")


class DeviceTest(TestCase):
    def test_the_simulator_says_what_the_cpu_says(self):
        expected = generate(*QUESTION)
        for tp in (1, 2):
            got = generate(*QUESTION, "--device", "sim", "--tp", tp)
            self.assertEqual(got["text"], expected["text"])
            self.assertEqual((got["device"], got["ranks"]), ("sim", tp))

    def test_a_bundle_serves_the_checkpoint_it_was_made_for_and_no_other(self):
        with tempfile.TemporaryDirectory() as folder:
            bundle = Path(folder) / "bundle"
            done = run("compile", DEMO / "config.json", "-o", bundle, "--tp", 2, "--batch", 2, "--context", "128,256",
                       "--chunk", 32, "--target", "inf2", "--emit-only")
            self.assertEqual(done.status, 0, done.err)
            got = generate(*QUESTION, "--device", "sim", "--bundle", bundle)
            self.assertEqual((got["text"], got["ranks"]), (generate(*QUESTION)["text"], 2))
            self.assert_fails(run("generate", ROOT / "models" / "12b", *QUESTION, "--device", "sim", "--bundle", bundle),
                              5, "another model", "ple_dim")
            for extra in (("--tp", 2), ("--chunk", 16), ("--precision", "fp32"), ("--isa", "scalar")):
                self.assert_fails(run("generate", DEMO, *QUESTION, "--device", "sim", "--bundle", bundle, *extra), 2,
                                  extra[0])
            manifest = bundle / "manifest.json"
            document = json.loads(manifest.read_text())
            manifest.write_text(manifest.read_text()[: len(json.dumps(document)) // 2])
            done = run("generate", DEMO, *QUESTION, "--device", "sim", "--bundle", bundle)
            self.assert_fails(done, 5, "manifest")

    def test_what_a_device_does_not_have_is_said(self):
        for arguments, status, said in ((("--tp", 2), 2, "--tp"), (("--device", "gpu"), 2, "gpu"),
                                        (("--device", "sim", "--tp", 3), 4, "3 ranks"),
                                        (("--device", "sim", "--bundle", "/no/such/bundle"), 3, "bundle")):
            self.assert_fails(run("generate", DEMO, *QUESTION, *arguments), status, said)


if __name__ == "__main__":
    unittest.main()

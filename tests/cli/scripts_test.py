"""`./run` and `./test` from outside: from any folder, through a link, with spaces, and what they print where."""

import os
import re
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

from support import BINARY, ROOT, TIMEOUT_S, TestCase

RELEASE = ROOT / "build" / "release" / "gemmatrace"


def script(name, *arguments, cwd=None, stdin=b""):
    return subprocess.run([str(name), *arguments], cwd=cwd, input=stdin, capture_output=True, text=False,
                          timeout=TIMEOUT_S)


class ScriptsTest(TestCase):
    def test_help_says_what_they_do(self):
        for name, said in (("run", b"--build-only"), ("test", b"--quick")):
            done = script(ROOT / name, "--help", cwd="/")
            self.assertEqual(done.returncode, 0)
            self.assertIn(said, done.stdout)
            self.assertEqual(script(ROOT / name, "--no-such-option").returncode, 2)

    @unittest.skipUnless(Path(BINARY) == RELEASE, "needs the release build where ./run puts it")
    def test_run_works_from_any_folder_and_through_a_link(self):
        with tempfile.TemporaryDirectory(prefix="with space ") as folder:
            link = Path(folder) / "a link"
            os.symlink(ROOT / "run", link)
            for command in (ROOT / "run", link, os.path.relpath(ROOT / "run", folder)):
                done = script(command, "--build-only", cwd=folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.decode(), f"{RELEASE}\n")

    @unittest.skipUnless(Path(BINARY) == RELEASE, "needs the release build where ./run puts it")
    def test_a_question_is_answered_on_standard_output_alone(self):
        for arguments in (["What is the capital of France?"], "What is the capital of France?".split()):
            done = script(ROOT / "run", *arguments, cwd="/")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"Paris", done.stdout)

    @unittest.skipUnless(Path(BINARY) == RELEASE, "needs the release build where ./run puts it")
    def test_without_a_question_the_demo_is_served_until_it_is_told_to_end(self):
        environment = {**os.environ, "GEMMATRACE_PORT": "0"}
        with subprocess.Popen([str(ROOT / "run")], env=environment, stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as serving:
            hang = threading.Timer(TIMEOUT_S, serving.kill)
            hang.start()
            try:
                address = None
                while address is None:
                    line = serving.stderr.readline()
                    self.assertTrue(line, "it ended without saying where it serves")
                    address = re.search(rb"http://[0-9.]+:[0-9]+", line)
                with urllib.request.urlopen(address[0].decode() + "/live", timeout=TIMEOUT_S) as answer:
                    self.assertEqual(answer.status, 200)
            finally:
                serving.send_signal(signal.SIGTERM)
                serving.communicate()
                hang.cancel()
        self.assertEqual(serving.returncode, 0)


if __name__ == "__main__":
    unittest.main()

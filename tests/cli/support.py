"""What the end-to-end tests share: running the program, damaged copies of a checkpoint, safetensors as Python sees it."""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("GEMMATRACE_ROOT", Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("GEMMATRACE_BINARY", str(ROOT / "build" / "release" / "gemmatrace"))
DEMO = ROOT / "models" / "demo"
# Generous, because the same tests run under sanitizers and on loaded machines; what hangs is still noticed.
TIMEOUT_S = int(os.environ.get("GEMMATRACE_TEST_TIMEOUT", 240))


class Done:
    """A finished run: status, stdout and stderr, as bytes and as text."""

    def __init__(self, completed):
        self.status = completed.returncode
        self.out_bytes = completed.stdout
        self.out = completed.stdout.decode("utf-8", "replace")
        self.err = completed.stderr.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.out)


def run(*arguments, stdin=b"", cwd=None, env=None):
    if isinstance(stdin, str):
        stdin = stdin.encode()
    command = [BINARY, *map(str, arguments)]
    return Done(subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S, cwd=cwd, env=env))


def generate(*arguments, checkpoint=DEMO, stdin=b""):
    """The JSON object of a generate run that must succeed."""
    done = run("generate", checkpoint, "--json", *arguments, stdin=stdin)
    assert done.status == 0, done.err
    return done.json()


class TestCase(unittest.TestCase):
    maxDiff = None

    def assert_fails(self, done, status, *said):
        """The run ended with this status, one clear error on stderr that says all of `said`, and nothing on stdout."""
        self.assertEqual(done.status, status, done.err)
        self.assertTrue(done.err.startswith("error: "), done.err)
        self.assertEqual(done.out, "")
        for words in said:
            self.assertIn(words, done.err)


class CheckpointCopy:
    """A copy of a checkpoint to damage."""

    def __init__(self, source=DEMO):
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "checkpoint"
        self.path.mkdir()
        for file in source.iterdir():
            if file.is_file() and file.suffix in (".json", ".jinja", ".safetensors"):
                shutil.copyfile(file, self.path / file.name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def read(self, name):
        return (self.path / name).read_bytes()

    def write(self, name, data):
        (self.path / name).write_bytes(data.encode() if isinstance(data, str) else data)

    def remove(self, name):
        (self.path / name).unlink()

    def edit_json(self, name, change):
        document = json.loads(self.read(name))
        change(document)
        self.write(name, json.dumps(document, ensure_ascii=False))

    def edit_header(self, change):
        """Changes the header of model.safetensors; the tensor data stays as it is."""
        header, data = split_safetensors(self.read("model.safetensors"))
        change(header)
        self.write("model.safetensors", join_safetensors(header, data))


def split_safetensors(raw):
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def join_safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data

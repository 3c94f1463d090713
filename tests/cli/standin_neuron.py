"""The stand-ins for the Neuron compiler and runtime, as the tests from outside use them: compiled bundles, a machine of
its own for each test, and its log."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import support

LIBRARIES = Path(support.BINARY).parent / "tests" / "standin" / "nrt"  # all, old and broken, by what they export
COMPILER = os.environ.get("GEMMATRACE_STANDIN_CC", Path(support.BINARY).parent / "standin" / "neuronx-cc")


def compiled_bundle(folder, checkpoint=support.DEMO, **options):
    """A bundle of the checkpoint in a new folder, compiled by the stand-in for the compiler; options as of compile."""
    bundle = Path(folder) / "bundle"
    arguments = [word for name, value in options.items() for word in ("--" + name, value)]
    done = support.run("compile", checkpoint, "-o", bundle, "--cache", Path(folder) / "cache", *arguments,
                       env={**os.environ, "GEMMATRACE_NEURONX_CC": str(COMPILER)})
    assert done.status == 0, done.err
    return bundle


class Standin:
    """A machine with some cores, for as long as a test lasts."""

    def __init__(self, **settings):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.settings = settings

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def environment(self, library="all", **settings):
        """For a process on it; settings as the stand-in's own, e.g. faults="nrt_execute 1 3 hang"."""
        own = {"folder": self.folder, "log": self.folder / "log", **self.settings, **settings}
        variables = {"GEMMATRACE_STANDIN_NRT_" + name.upper(): str(value) for name, value in own.items()}
        clean = {name: value for name, value in os.environ.items() if not name.startswith("NEURON_")}
        path = library if "/" in library else LIBRARIES / library / "libnrt.so.1"
        return {**clean, "GEMMATRACE_LIBNRT": str(path), **variables}

    def run(self, *arguments, **settings):
        command = [support.BINARY, *map(str, arguments)]
        return support.Done(subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                           timeout=support.TIMEOUT_S, env=self.environment(**settings)))

    def log(self):
        """What it counted, of each process that closed it in order."""
        file = self.folder / "log"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

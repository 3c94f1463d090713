"""The stand-in for the Neuron runtime, as the tests from outside use it: bundles with compiled programs, an environment
of its own for each test, and its log."""

import io
import json
import os
import struct
import subprocess
import tarfile
import tempfile
from pathlib import Path

import support

LIBRARY = Path(support.BINARY).parent / "tests" / "standin" / "nrt" / "all" / "libnrt.so.1"
ELEMENT_BYTES = {"pred": 1, "s8": 1, "u8": 1, "s32": 4, "u32": 4, "f16": 2, "bf16": 2, "f32": 4}


def tensor_bytes(tensor):
    count = ELEMENT_BYTES[tensor["type"]]
    for size in tensor["shape"]:
        count *= size
    return count


def neff(program, proto):
    """What the compiler would make of a program of a manifest: a header, and an archive that names the tensors."""
    variables = {}
    for side, tensors in (("input", program["inputs"]), ("output", program["outputs"])):
        for tensor in tensors:
            variables[tensor["name"]] = {"type": side, "size": tensor_bytes(tensor)}
    members = {"kelf-0.json": b"{}", "sg00/def.json": json.dumps({"var": variables}).encode(),
               "standin/program.hlo.pb": proto}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    data = archive.getvalue()
    header = bytearray(1024)
    struct.pack_into("<QQQQQ", header, 0, 2, 1024, len(data), 2, 0)
    header[40:47] = b"standin"
    struct.pack_into("<I", header, 168, 1)
    struct.pack_into("<QI", header, 544, 0, 1)
    return bytes(header) + data


def compiled_bundle(folder, checkpoint=support.DEMO, **options):
    """A bundle of the checkpoint's programs in a new folder, with NEFFs beside them; options as of compile."""
    bundle = Path(folder) / "bundle"
    arguments = [word for name, value in options.items() for word in ("--" + name, value)]
    done = support.run("compile", checkpoint / "config.json", "-o", bundle, "--target", "inf2", "--emit-only", *arguments)
    assert done.status == 0, done.err
    for program in json.loads((bundle / "manifest.json").read_text())["programs"]:
        file = bundle / program["file"]
        Path(str(file).replace(".hlo.pb", ".neff")).write_bytes(neff(program, file.read_bytes()))
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

    def environment(self, **settings):
        """For a process on it; settings as the stand-in's own, e.g. faults="nrt_execute 1 3 hang"."""
        own = {"folder": self.folder, "log": self.folder / "log", **self.settings, **settings}
        variables = {"GEMMATRACE_STANDIN_NRT_" + name.upper(): str(value) for name, value in own.items()}
        clean = {name: value for name, value in os.environ.items() if not name.startswith("NEURON_")}
        return {**clean, "GEMMATRACE_LIBNRT": str(LIBRARY), **variables}

    def run(self, *arguments, **settings):
        command = [support.BINARY, *map(str, arguments)]
        return support.Done(subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                           timeout=support.TIMEOUT_S, env=self.environment(**settings)))

    def log(self):
        """What it counted, of each process that closed it in order."""
        file = self.folder / "log"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

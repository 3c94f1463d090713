"""Holds the source tree to its rules: which room may include which, headings, lengths, no traces of a build machine.

Standard library only. Usage: check_tree.py ROOT; or check_tree.py ROOT --self-test, which plants one breach of every
rule and expects it to be found. Prints each breach as file:line: what, and ends with status 1 when there is any.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

# The rooms in the order of docs/architecture.md: a room may include those before it, less what it may not know.
ROOMS = ["base", "hub", "checkpoint", "text", "model", "cpu", "hlo", "trace", "neuron", "engine", "proof", "server",
         "cli"]
FORBIDDEN = {
    "text": {"checkpoint"},  # tensors
    "hlo": {"checkpoint", "text", "model", "cpu"},  # Gemma
    "trace": {"cpu"},  # where the model runs now
    "neuron": {"checkpoint", "text", "model", "cpu"},  # Gemma
    "server": {"cpu"},  # kernels
}
# What only some rooms may use: libraries, and where checkpoints come from.
LIBRARY_ROOMS = {"CLI/": {"cli"}, "boost/": {"server"}, "google/protobuf/": {"hlo", "trace"}, "curl/": {"hub"},
                 "zlib.h": {"neuron"}, "openssl/": {"hub"}, "hub/": {"hub", "server", "cli"}}

MAX_LINES = 600
CPP_FOLDERS = ("src/", "tests/", "bench/")
CPP_ENDINGS = (".h", ".cpp")

# Written in pieces, so that this file does not name them itself.
MACHINE_PATHS = ["/" + folder + "/" for folder in ("work", "farm", "root", "home/[a-z]+")]
PACKAGE_HOSTS = [r"pypi\." + "org", "files.python" + "hosted", "registry.npm" + "js", r"deb\.debian\." + "org",
                 "static.crates" + r"\.io", "proxy.go" + "lang", "repo1?.ma" + "ven"]
TRACE = re.compile("|".join(r"(?<![\w.$}])" + path for path in MACHINE_PATHS) + "|" + "|".join(PACKAGE_HOSTS))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def tracked_files(root):
    """Paths under version control, or, in an unpacked archive, all files outside build folders."""
    done = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                          capture_output=True)
    if done.returncode == 0:
        names = [name for name in done.stdout.decode().split("\0") if name]
        return sorted(name for name in set(names) if (root / name).is_file())
    every = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(str(path) for path in every if path.parts[0] not in ("build", ".git"))


def check_include(room, bracket, target):
    """What is wrong with an include of a file of `room`, or None."""
    for prefix, rooms in LIBRARY_ROOMS.items():
        if target.startswith(prefix) and room not in rooms:
            return f"<{target}> belongs to {' and '.join(sorted(rooms))}"
    if bracket != '"':
        return None
    other = target.split("/")[0]
    if other not in ROOMS or "/" not in target:
        return f'"{target}" is no room\'s header: write "room/file.h"'
    if ROOMS.index(other) > ROOMS.index(room):
        return f"{room}/ comes before {other}/ and may not include it"
    if other in FORBIDDEN.get(room, ()):
        return f"{room}/ may not know {other}/"
    return None


def check_cpp(name, text):
    lines = text.splitlines()
    if not lines or not re.match(r"// \S.*", lines[0]):
        yield 1, "the first line must be a // sentence that says what the file is for"
    if name.endswith(".h") and "#pragma once" not in text:
        yield 1, "a header needs #pragma once"
    if len(lines) > MAX_LINES:
        yield MAX_LINES + 1, f"{len(lines)} lines: a file over {MAX_LINES} asks to be two"
    parts = name.split("/")
    if parts[0] != "src" or len(parts) < 3:
        return
    if parts[1] not in ROOMS:
        yield 1, f"src/{parts[1]} is no room"
        return
    for number, line in enumerate(lines, 1):
        include = INCLUDE.match(line)
        fault = check_include(parts[1], *include.groups()) if include else None
        if fault:
            yield number, fault


def check_script(name, text):
    lines = text.splitlines()
    heading = lines[1] if len(lines) > 1 and lines[0].startswith("#!") else (lines[0] if lines else "")
    if not heading.startswith(("# ", '"""')):
        yield 1, "a script begins with a comment that says what it is for"


def breaches(root):
    for name in tracked_files(root):
        data = (root / name).read_bytes()
        if b"\0" in data[:8192] or len(data) > 4 << 20:
            continue
        text = data.decode("utf-8", "replace")
        if name.startswith(CPP_FOLDERS) and name.endswith(CPP_ENDINGS):
            yield from ((name, *fault) for fault in check_cpp(name, text))
        elif name.endswith((".py", ".sh")) or name in ("run", "test", ".ci/run"):
            yield from ((name, *fault) for fault in check_script(name, text))
        for number, line in enumerate(text.splitlines(), 1):
            trace = TRACE.search(line)
            if trace:
                yield name, number, f"'{trace.group(0)}' is a path of one machine or a package host"


def self_test():
    heading = "// What it is for.\n"
    planted = {
        "src/base/order.cpp": (heading + '#include "model/forward.h"\n', "may not include"),
        "src/text/forbidden.cpp": (heading + '#include "checkpoint/config.h"\n', "may not know"),
        "src/model/library.cpp": (heading + "#include <CLI/CLI.hpp>\n", "belongs to"),
        "src/checkpoint/source.cpp": (heading + '#include "hub/pull.h"\n', "belongs to"),
        "src/cpu/bare.cpp": (heading + '#include "kernels.h"\n', "no room's header"),
        "src/colour/new.cpp": (heading, "is no room"),
        "src/base/heading.cpp": ("#include <vector>\n", "first line"),
        "src/base/twice.h": (heading, "#pragma once"),
        "src/base/long.cpp": (heading * (MAX_LINES + 1), "asks to be two"),
        "docs/trace.md": ("see /" + "work/main\n", "path of one machine"),
        "docs/host.md": ("from https://pypi" + ".org/simple\n", "package host"),
        "tools/nothing.py": ("import os\n", "begins with a comment"),
    }
    sound = {
        "src/model/sound.cpp": heading + '#include "checkpoint/config.h"\n#include <vector>\n',
        "src/cli/sound.cpp": heading + '#include "cpu/runner.h"\n#include <CLI/CLI.hpp>\n',
        "docs/sound.md": "models/demo, ${root}/work/x and <https://example.org>\n",
        "tools/sound.sh": "#!/bin/sh\n# Does nothing.\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in [(name, text) for name, (text, _) in planted.items()] + list(sound.items()):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = list(breaches(root))
    for name, (_, expected) in planted.items():
        if not any(fault[0] == name and expected in fault[2] for fault in found):
            sys.exit(f"the breach planted in {name} ({expected}) was not found")
    wrong = [fault for fault in found if fault[0] not in planted]
    if wrong:
        sys.exit(f"found where nothing is wrong: {wrong}")
    print(f"all {len(planted)} planted breaches were found")


def main():
    if "--self-test" in sys.argv:
        return self_test()
    found = list(breaches(Path(sys.argv[1])))
    for name, number, what in found:
        print(f"{name}:{number}: {what}")
    sys.exit(1 if found else 0)


main()

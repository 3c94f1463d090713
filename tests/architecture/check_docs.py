"""Checks that docs/commands.md names every command and option that the program's help names, and no other.

Standard library only. Usage: check_docs.py ROOT PROGRAM
"""

import re
import subprocess
import sys
from pathlib import Path


def help_text(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout


def options(text):
    """The long options that a help text lists, one a line."""
    return set(re.findall(r"^\s+(?:-\w,)?(--[a-z][a-z-]*)", text, re.MULTILINE)) - {"--help"}


def sections(document):
    """Text of docs/commands.md by command: each has a heading "## `name …`"."""
    parts = re.split(r"^## `?(\w+)[^\n]*$", document, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def main():
    root, program = Path(sys.argv[1]), sys.argv[2]
    commands = re.findall(r"^  ([a-z]+)  ", help_text(program).split("Commands:")[1].split("Examples:")[0], re.MULTILINE)
    documented = sections((root / "docs" / "commands.md").read_text(encoding="utf-8"))
    faults = []
    for command in commands:
        if command not in documented:
            faults.append(f"docs/commands.md has no section on {command}")
            continue
        said = set(re.findall(r"`(--[a-z][a-z-]*)", documented[command]))
        known = options(help_text(program, command))
        faults += [f"{command}: {option} is not described" for option in sorted(known - said)]
        faults += [f"{command}: {option} does not exist" for option in sorted(said - known)]
    print("\n".join(faults) or f"{len(commands)} commands are described with all their options")
    sys.exit(1 if faults or not commands else 0)


main()

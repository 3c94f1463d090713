"""Runs every proof of this folder one after the other, and says which passed; options are handed on to each."""

import subprocess
import sys
from pathlib import Path

PROOFS = ["exact", "garbage", "schemas", "idle", "drain", "load"]
SKIPPED = 77


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        print("usage: all.py [--short] [--binary PROGRAM] [--checkpoint DIRECTORY] [--seed N] [--threads N]")
        return
    results = {}
    for proof in PROOFS:
        script = Path(__file__).with_name(f"{proof}.py")
        results[proof] = subprocess.run([sys.executable, "-B", script, *sys.argv[1:]]).returncode
    words = {0: "passed", SKIPPED: "skipped"}
    print(", ".join(f"{proof} {words.get(status, 'FAILED')}" for proof, status in results.items()))
    sys.exit(0 if all(status in words for status in results.values()) else 1)


main()

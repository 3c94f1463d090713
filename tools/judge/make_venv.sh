#!/bin/sh
# Makes build/judge, the Python environment of tools/judge_hlo.py, from tools/judge/requirements.lock (620 MB).
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
venv=$root/build/judge
rm -rf "$venv"
python3 -m venv "$venv" >&2
exec "$venv/bin/python" -m pip install --quiet --no-deps --requirement "$root/tools/judge/requirements.lock"

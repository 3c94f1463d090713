#!/bin/sh
# Makes build/venv, the Python environment of the cross-checks, from tools/crosscheck/requirements.lock; quick when it is
# there and the lock has not changed. All messages go to standard error.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
lock=$root/tools/crosscheck/requirements.lock
venv=$root/build/venv
stamp=$venv/requirements.lock

say() { printf '%s\n' "$*" >&2; }

if [ -x "$venv/bin/python" ] && "$venv/bin/python" -c '' 2>/dev/null && cmp -s "$lock" "$stamp"; then
    exit 0
fi
say "Making build/venv for the Python cross-checks"
rm -rf "$venv"
python3 -m venv "$venv" >&2
# The lock names every package that is needed, so nothing else is resolved.
if ! "$venv/bin/python" -m pip install --quiet --no-deps --requirement "$lock" >&2; then
    say "The packages of tools/crosscheck/requirements.lock could not be installed; is there a network?"
    exit 1
fi
cp "$lock" "$stamp"

#!/bin/sh
# Runs a Python program in build/venv. Usage: in_venv.sh ROOT PROGRAM ARGUMENT...
# Without the environment: skipped (77), or failed when ./test runs the whole suite and so has just made it.
set -eu
python=$1/build/venv/bin/python
shift
if [ ! -x "$python" ]; then
    printf '%s is not there; ./test makes it\n' "$python"
    [ -z "${GEMMATRACE_WHOLE_SUITE:-}" ] || exit 1
    exit 77
fi
exec "$python" "$@"

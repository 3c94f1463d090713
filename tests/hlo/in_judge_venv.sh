#!/bin/sh
# Runs a Python program in build/judge, the environment of tools/judge/requirements.lock (620 MB, so made only by hand).
# Usage: in_judge_venv.sh ROOT PROGRAM ARGUMENT...
# Without that environment: skipped (77).
set -eu
python=$1/build/judge/bin/python
shift
if [ ! -x "$python" ]; then
    printf '%s is not there; tools/judge/make_venv.sh makes it\n' "$python"
    exit 77
fi
exec "$python" "$@"

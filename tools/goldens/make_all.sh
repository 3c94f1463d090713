#!/bin/sh
# Makes the odd random checkpoints and the goldens of every checkpoint in the repository.
# Usage: tools/goldens/make_all.sh [NAME…]     names of checkpoints; all without. PYTHON=… chooses the interpreter.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
export HF_HUB_OFFLINE=1 ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=1

wanted() { # name list…: true if the list is empty or holds the name
    name=$1
    shift
    [ $# -eq 0 ] && return 0
    for item in "$@"; do [ "$item" = "$name" ] && return 0; done
    return 1
}

for name in $("$python" "$root/tools/goldens/make_random.py" --list | sed -n 's/ (committed)//p'); do
    wanted "$name" "$@" || continue
    folder=$root/tests/goldens/checkpoints/$name
    [ -f "$folder/config.json" ] || "$python" "$root/tools/goldens/make_random.py" "$name" "$folder"
    "$python" "$root/tools/goldens/make_goldens.py" "$folder" "$folder"
done
for folder in "$root"/models/*/; do
    folder=${folder%/}
    [ -f "$folder/config.json" ] || continue
    wanted "$(basename "$folder")" "$@" || continue
    "$python" "$root/tools/goldens/make_goldens.py" "$folder" "$folder"
done

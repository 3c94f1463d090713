#!/bin/sh
# Draws N random odd checkpoints and compares the binary with Transformers on each; ends with 1 if any differs.
# Usage: tools/compare/sweep.sh N [FIRST_SEED] [options of compare_transformers.py]   (PYTHON=… and BINARY=… choose)
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
binary=${BINARY:-$root/build/release/gemmatrace}
case ${1:-} in "" | *[!0-9]*) sed -n 2,3p "$0" | cut -c3-; exit 2 ;; esac
count=$1
shift
first=1000
case ${1:-} in "" | *[!0-9]*) ;; *) first=$1; shift ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=
seed=$first
while [ "$seed" -lt $((first + count)) ]; do
    checkpoint=$work/seed-$seed
    if ! "$python" "$root/tools/goldens/make_random.py" --random "$seed" "$checkpoint" > "$work/variant" \
        2> "$work/log"; then
        cat "$work/log"
        exit 1
    fi
    echo "seed $seed: $(cat "$work/variant")"
    "$python" "$root/tools/compare/compare_transformers.py" "$checkpoint" --binary "$binary" "$@" || bad="$bad $seed"
    rm -rf "$checkpoint"
    seed=$((seed + 1))
done
if [ -n "$bad" ]; then
    echo "different: seeds$bad (again with: $0 1 SEED)"
    exit 1
fi
echo "all $count checkpoints equal"

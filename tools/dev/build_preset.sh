#!/bin/sh
# Configures (the first time) and builds one CMake preset, or some targets of it, with as many jobs as cores and memory bear.
# Usage: tools/dev/build_preset.sh PRESET [TARGET...]
# All output goes to standard error.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
preset=${1:?a preset is needed, e.g. release}
shift
[ $# -gt 0 ] || set -- all
build=$root/build/$preset

say() { printf '%s\n' "$*" >&2; }

# A compiler of this project takes up to about 1.2 GB.
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
free_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)
if [ -n "$free_kb" ]; then
    by_memory=$((free_kb / 1200000))
    [ "$by_memory" -ge 1 ] || by_memory=1
    [ "$jobs" -le "$by_memory" ] || jobs=$by_memory
fi

cd "$root"
cache=$build/CMakeCache.txt
# A build directory that came along with a copied or moved tree points at the old place.
if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
    say "build/$preset was made for another place: starting it anew"
    rm -rf "$build"
fi
if [ ! -f "$build/build.ninja" ]; then
    say "Configuring build/$preset"
    cmake --preset "$preset" >&2
fi
say "Building build/$preset, $*, with $jobs jobs"
cmake --build "$build" --target "$@" --parallel "$jobs" >&2

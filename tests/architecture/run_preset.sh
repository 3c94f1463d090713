#!/bin/sh
# Runs the quick tests of another preset's build. Usage: run_preset.sh ROOT PRESET
# Planted faults, stability of bits, the bundled checkpoints and the engine's longest mixtures are shown by the optimised
# build alone: they compare numbers, which the odd checkpoints and one mixture do here as well on every path.
# Without that build: skipped (77), or failed when ./test runs the whole suite and so has just made it.
set -eu
build=$1/build/$2
if [ ! -f "$build/CTestTestfile.cmake" ]; then
    printf '%s is not built; ./test builds it\n' "$build"
    [ -z "${GEMMATRACE_WHOLE_SUITE:-}" ] || exit 1
    exit 77
fi
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
exec ctest --test-dir "$build" --parallel "$jobs" --output-on-failure --no-tests=error \
    --label-exclude 'full|slow' --exclude-regex '^architecture/|^goldens/(Planted|Stability)|^goldens/.*/models/|^engine/Engine\.(.*WithoutReuse|AShortage|EveryTurn)'

#!/bin/sh
# Runs the npm SDKs' tests against gemmatrace serve. Usage: run.sh [PATTERN], which is node --test's name pattern.
# Installs what package-lock.json names into build/npm, once. Skipped (77) without Node 20, npm or a network.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
root=$(CDPATH='' cd -- "$here/../../../.." && pwd -P)
work=$root/build/npm
export GEMMATRACE_ROOT="${GEMMATRACE_ROOT:-$root}"
export GEMMATRACE_BINARY="${GEMMATRACE_BINARY:-$root/build/release/gemmatrace}"

skip() {
    printf '%s; skipped\n' "$*" >&2
    exit 77
}

if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
    skip "node and npm are not installed"
fi
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "the SDKs need Node 20 or newer"

# Node looks for packages beside the program, and the source tree stays as it is.
mkdir -p "$work"
cp "$here/.npmrc" "$here/package.json" "$here"/*.mjs "$work"
if ! cmp -s "$here/package-lock.json" "$work/installed.json" || [ ! -d "$work/node_modules" ]; then
    cp "$here/package-lock.json" "$work"
    (cd "$work" && npm ci --fetch-retries=1 --fetch-timeout=60000 >&2) || skip "the packages could not be installed"
    cp "$here/package-lock.json" "$work/installed.json"
fi
cd "$work"
exec node --test ${1:+--test-name-pattern="$1"} openai.test.mjs anthropic.test.mjs

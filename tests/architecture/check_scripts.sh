#!/bin/sh
# Runs shellcheck over every shell script of the tree. Usage: check_scripts.sh ROOT
set -eu
cd "$1"
find run test .ci deploy tools tests -type f \( -name '*.sh' -o -path run -o -path test -o -path .ci/run \) \
    -exec shellcheck {} +

#!/bin/sh
# What the image runs: the endpoint. SageMaker starts it with the word serve alone, and puts the checkpoint in
# /opt/ml/model; everything else are options of `gemmatrace serve`.
set -eu
[ "${1:-}" != serve ] || shift
case ${1:-} in
    '' | -*)
        if [ -d /model ]; then set -- /model "$@"; else set -- /opt/ml/model "$@"; fi
        ;;
esac
exec gemmatrace serve "$@"

#!/bin/sh
# Heavy clients against gemmatrace serve, by hand: LangChain, LiteLLM, OpenCode. Usage: run.sh [langchain|litellm|opencode]...
# Installs what the locks name into build/extra (about 800 MB), starts a server on models/demo and ends it.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
root=$(CDPATH='' cd -- "$here/../../../.." && pwd -P)
work=$root/build/extra
binary=${GEMMATRACE_BINARY:-$root/build/release/gemmatrace}
threads=${GEMMATRACE_THREADS:-}
[ $# -gt 0 ] || set -- langchain litellm opencode
mkdir -p "$work"

python_packages() {
    cmp -s "$here/requirements.lock" "$work/requirements.lock" && return
    python3 -m venv "$work/venv"
    "$work/venv/bin/python" -m pip install --quiet --no-deps --requirement "$here/requirements.lock"
    cp "$here/requirements.lock" "$work"
}

# In a project and a home of its own. The platform's package holds the program; the wrapper around it would need
# an install script.
opencode() {
    mkdir -p "$work/opencode" "$work/home" "$work/project"
    cp "$here/opencode/package.json" "$here/opencode/package-lock.json" "$here/opencode/.npmrc" "$work/opencode"
    [ -d "$work/opencode/node_modules" ] || (cd "$work/opencode" && npm ci >&2)
    cp "$here/opencode/opencode.json" "$work/project"
    (cd "$work/project" && env HOME="$work/home" XDG_CONFIG_HOME="$work/home" XDG_DATA_HOME="$work/home/data" \
        XDG_CACHE_HOME="$work/home/cache" XDG_STATE_HOME="$work/home/state" GEMMATRACE_BASE_URL="$1" \
        OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 \
        "$work"/opencode/node_modules/opencode-linux-x64/bin/opencode run "What is the capital of France?" </dev/null)
}

"$binary" serve "$root/models/demo" --port 0 ${threads:+--threads "$threads"} 2>"$work/server.log" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT INT TERM
url=''
while [ -z "$url" ]; do
    kill -0 "$server" || { cat "$work/server.log" >&2; exit 1; }
    url=$(sed -n 's/^ *base URL *\(http[^ ]*\).*/\1/p' "$work/server.log")
    sleep 0.1
done

for client in "$@"; do
    case $client in
    langchain | litellm)
        python_packages
        "$work/venv/bin/python" -B "$here/${client}_turns.py" "$url"
        ;;
    opencode) opencode "$url" ;;
    *)
        printf 'unknown client %s; use langchain, litellm, opencode\n' "$client" >&2
        exit 2
        ;;
    esac
done

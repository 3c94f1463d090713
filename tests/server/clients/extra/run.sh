#!/bin/sh
# Heavy clients against gemmatrace serve, by hand: LangChain, LiteLLM and coding agents.
# Usage: run.sh [langchain|litellm|opencode|codex|claude]...
# Installs what the locks name into build/extra (about 2 GB), starts a server on models/demo and ends it.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
root=$(CDPATH='' cd -- "$here/../../../.." && pwd -P)
work=$root/build/extra
binary=${GEMMATRACE_BINARY:-$root/build/release/gemmatrace}
threads=${GEMMATRACE_THREADS:-}
[ $# -gt 0 ] || set -- langchain litellm opencode codex claude
mkdir -p "$work"

python_packages() {
    cmp -s "$here/requirements.lock" "$work/requirements.lock" && return
    python3 -m venv "$work/venv"
    "$work/venv/bin/python" -m pip install --quiet --no-deps --requirement "$here/requirements.lock"
    cp "$here/requirements.lock" "$work"
}

# Coding agents, each in a project and a home of its own. These packages hold the programs themselves.
agents() {
    mkdir -p "$work/agents" "$work/home/.codex" "$work/project"
    if ! cmp -s "$here/agents/package-lock.json" "$work/agents/package-lock.json" || [ ! -d "$work/agents/node_modules" ]; then
        cp "$here/agents/package.json" "$here/agents/package-lock.json" "$here/agents/.npmrc" "$work/agents"
        (cd "$work/agents" && npm ci >&2)
    fi
}

in_project() {
    (cd "$work/project" && env HOME="$work/home" XDG_CONFIG_HOME="$work/home" XDG_DATA_HOME="$work/home/data" \
        XDG_CACHE_HOME="$work/home/cache" XDG_STATE_HOME="$work/home/state" "$@" </dev/null)
}

opencode_run() {
    in_project GEMMATRACE_BASE_URL="$url" WEATHER_TOOL="$here/agents/weather_tool.py" WEATHER_LOG="$work/weather.log" \
        OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 \
        "$work"/agents/node_modules/opencode-linux-x64/bin/opencode run "$1"
}

# A turn, and one with a real tool round trip: the model calls get_weather among all the tools that OpenCode declares,
# OpenCode asks the tool server, and the model says what came back.
opencode() {
    agents
    cp "$here/agents/opencode.json" "$work/project"
    opencode_run "What is the capital of France?"
    : >"$work/weather.log"
    opencode_run "What is the weather in Lima?" | tee "$work/weather.txt"
    if [ "$(cat "$work/weather.log")" != Lima ] || ! grep -q "sunny, 21 degrees" "$work/weather.txt"; then
        printf 'OpenCode: no tool round trip; the tool was asked for: %s\n' "$(cat "$work/weather.log")" >&2
        exit 1
    fi
}

codex() {
    agents
    sed "s|http://127.0.0.1:8080/v1|$url|" "$here/agents/codex.toml" >"$work/home/.codex/config.toml"
    in_project "$(find "$work/agents/node_modules/@openai" -name codex -type f -perm -u+x | head -n 1)" \
        exec --skip-git-repo-check "What is the capital of France?"
}

claude() {
    agents
    in_project ANTHROPIC_BASE_URL="${url%/v1}" ANTHROPIC_AUTH_TOKEN=none ANTHROPIC_MODEL=demo \
        ANTHROPIC_SMALL_FAST_MODEL=demo API_TIMEOUT_MS=3600000 DISABLE_AUTOUPDATER=1 \
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_MAX_CONTEXT_TOKENS=131072 \
        "$work"/agents/node_modules/@anthropic-ai/claude-code-linux-x64/claude -p "What is the capital of France?"
}

: >"$work/server.log"
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
    opencode | codex | claude) "$client" ;;
    *)
        printf 'unknown client %s; use langchain, litellm, opencode, codex, claude\n' "$client" >&2
        exit 2
        ;;
    esac
done

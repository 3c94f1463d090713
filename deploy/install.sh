#!/bin/sh
# Makes a serving systemd unit of a machine with Debian or Ubuntu, for its CPU or its Inferentia2. See --help.
set -eu
umask 022

usage() {
    cat <<'TEXT'
usage: deploy/install.sh --checkpoint ORG/NAME [--bundle SOURCE] [options]

Installs the program, a checkpoint, settings, a key and the unit gemmatrace.service, and waits until it answers. With
--bundle it serves on the machine's Inferentia2 (say, an inf2.xlarge with a stock Neuron image), otherwise on the CPU.
Run it again at any time: what is there is kept, and the service starts anew only when something changed.

What to serve
  --checkpoint WHICH       ORG/NAME of the hub, fetched by `gemmatrace pull`; or a folder that is there
  --revision REV           of the repository [main]
  --hub-token-file FILE    a file with the hub's token, for repositories that ask for one
  --bundle SOURCE          a compiled bundle: a folder, an archive, an http(s):// or s3:// address of one
  --bundle-sha256 HEX      the archive must have this hash

How
  --program FILE           take this program instead of building it from the source around this script
  --host IP                where to listen [0.0.0.0]
  --port N                 [8080]
  --wait SECONDS           for the model to be ready [1800]
  --root DIR               install below DIR and start nothing, to make an image; needs no rights and no device
  --dry-run                say what would be done, and do nothing

Files: /usr/local/bin/gemmatrace, /var/lib/gemmatrace, and in /etc gemmatrace.json (settings), gemmatrace.keys (API keys,
made at random once), gemmatrace.env (variables, yours). Settings and keys that are there are never changed.
TEXT
}

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "install.sh: $1"
    exit "${2:-1}"
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
checkpoint='' revision=main token_file='' bundle='' bundle_hash='' program='' host=0.0.0.0 port=8080 wait_s=1800 root=''
is_dry=no
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --dry-run) is_dry=yes ;;
        --checkpoint | --revision | --hub-token-file | --bundle | --bundle-sha256 | --program | --host | --port | --wait | --root)
            [ -n "${2:-}" ] || fail "$1 needs a value; see --help" 2
            case $1 in
                --checkpoint) checkpoint=$2 ;;
                --revision) revision=$2 ;;
                --hub-token-file) token_file=$2 ;;
                --bundle) bundle=$2 ;;
                --bundle-sha256) bundle_hash=$2 ;;
                --program) program=$2 ;;
                --host) host=$2 ;;
                --port) port=$2 ;;
                --wait) wait_s=$2 ;;
                --root) root=${2%/} ;;
            esac
            shift
            ;;
        *) fail "unknown option $1; see --help" 2 ;;
    esac
    shift
done
state=$root/var/lib/gemmatrace
etc=$root/etc
units=$etc/systemd/system
installed=$root/usr/local/bin/gemmatrace

# Does it, or says so.
act() {
    if [ "$is_dry" = yes ]; then
        printf 'would run: %s\n' "$*"
    else
        "$@"
    fi
}

# place MODE SOURCE TARGET: a copy, when it is not there or differs.
place() {
    if cmp -s -- "$2" "$3"; then return 0; fi
    act mkdir -p -- "$(dirname -- "$3")"
    act install -m "$1" -- "$2" "$3.new"
    act mv -- "$3.new" "$3" # a program that runs cannot be written over
}

# point LINK TARGET, where the link is none yet or points elsewhere.
point() {
    if [ "$(readlink -- "$1" 2>/dev/null)" = "$2" ]; then return 0; fi
    [ -L "$1" ] || [ ! -e "$1" ] || fail "$1 is there and no link; move it away first"
    act ln -sfn -- "$2" "$1"
}

check_words() {
    [ -n "$checkpoint" ] || fail "--checkpoint is missing; see --help" 2
    name=$checkpoint # of the model
    if [ -d "$checkpoint" ]; then
        checkpoint=$(CDPATH='' cd -- "$checkpoint" && pwd -P)
        name=$(basename -- "$checkpoint")
        case $checkpoint in /home/* | /root*) fail "$checkpoint is in a home, which the unit cannot see" ;; esac
    fi
    case $port$wait_s in *[!0-9]*) fail "--port and --wait are numbers" 2 ;; esac
    case $host in *[!0-9a-fA-F.:]*) fail "--host is an address" 2 ;; esac
    case $name$revision in *[!A-Za-z0-9._/@+-]* | -* | *..*) fail "--checkpoint or --revision has odd characters" 2 ;; esac
    [ -z "$bundle_hash" ] || [ -n "$bundle" ] || fail "--bundle-sha256 is of a --bundle" 2
    [ -z "$token_file" ] || [ -r "$token_file" ] || fail "$token_file cannot be read"
    [ -z "$program" ] || [ -x "$program" ] || fail "$program is no program"
}

check_machine() {
    [ -z "$root" ] || return 0
    if [ "$is_dry" = yes ]; then
        printf 'would check: root, systemd%s\n' "${bundle:+, /dev/neuron0, the Neuron runtime}"
        return 0
    fi
    [ "$(id -u)" -eq 0 ] || fail "this has to be run as root, or with --root DIR"
    [ -d /run/systemd/system ] || fail "systemd does not run here; see docs/deploying.md for containers"
    [ -n "$bundle" ] || return 0
    [ -c /dev/neuron0 ] || fail "there is no /dev/neuron0: install the driver (aws-neuronx-dkms), or take a Neuron image"
    case $(stat -c %A /dev/neuron0) in
        *rw-) ;;
        *) fail "/dev/neuron0 is not open to all users, as the driver's package makes it: chmod 666 /dev/neuron0" ;;
    esac
    [ -e /opt/aws/neuron/lib/libnrt.so.1 ] || fail "there is no Neuron runtime: install aws-neuronx-runtime-lib"
    dpkg-query -W -f='${Package} ${Version}\n' 'aws-neuronx-*' >&2 2>/dev/null || true
}

install_program() {
    if [ -z "$program" ]; then
        act "$here/../run" --build-only
        program=$(CDPATH='' cd -- "$here/.." && pwd -P)/build/release/gemmatrace
    elif [ -z "$root" ] && ldd "$program" | grep -q 'not found'; then
        act apt-get update -q
        act env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends curl '^libcurl4(t64)?$' \
            '^libssl3(t64)?$' '^libfmt[0-9]+$' '^libprometheus-cpp-core[0-9.]+(t64)?$' '^libprotobuf-lite[0-9]+(t64)?$'
        if [ "$is_dry" = no ] && ldd "$program" | grep 'not found' >&2; then
            fail "$program was built for another release of the system; build it on this one, without --program"
        fi
    fi
    place 755 "$program" "$installed"
}

install_checkpoint() {
    act mkdir -p -- "$state/checkpoints"
    if [ -d "$checkpoint" ]; then
        point "$state/model" "$checkpoint"
        return 0
    fi
    # One folder for each name and revision, so that files of two are never mixed and an older one can be had again.
    folder=$(printf '%s@%s' "$checkpoint" "$revision" | sed 's,/,--,g')
    if [ -n "$token_file" ]; then
        export HF_TOKEN_PATH="$token_file"
    fi
    act "$program" pull "$checkpoint" --revision "$revision" --local-dir "$state/checkpoints/$folder"
    point "$state/model" "checkpoints/$folder"
}

install_bundle() {
    [ -n "$bundle" ] || return 0
    set -- "$bundle" "$state/bundle"
    [ -z "$bundle_hash" ] || set -- --sha256 "$bundle_hash" "$@"
    [ "$is_dry" = no ] || set -- --dry-run "$@"
    "$here/fetch_bundle.sh" "$@"
}

settings() {
    printf '{\n  "host": "%s",\n  "port": %s,\n  "model-name": "%s"' "$host" "$port" "$name"
    [ -z "$bundle" ] || printf ',\n  "device": "neuron",\n  "bundle": "/var/lib/gemmatrace/bundle"'
    printf '\n}\n'
}

install_settings() {
    if [ "$is_dry" = yes ]; then
        printf 'would write, where they are not there: %s and a key in %s\n' "$etc/gemmatrace.json" "$etc/gemmatrace.keys"
        settings
        return 0
    fi
    mkdir -p -- "$etc"
    if [ ! -e "$etc/gemmatrace.json" ]; then
        settings >"$etc/gemmatrace.json.new"
        mv -- "$etc/gemmatrace.json.new" "$etc/gemmatrace.json"
    elif [ "$(settings)" != "$(cat -- "$etc/gemmatrace.json")" ]; then
        say "kept $etc/gemmatrace.json as it is; this call would have written:"
        settings >&2
    fi
    if [ ! -e "$etc/gemmatrace.keys" ]; then
        (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$etc/gemmatrace.keys.new")
        mv -- "$etc/gemmatrace.keys.new" "$etc/gemmatrace.keys"
        say "made a key for clients, in $etc/gemmatrace.keys"
    fi
}

install_unit() {
    place 644 "$here/gemmatrace.service" "$units/gemmatrace.service"
    if [ -n "$bundle" ]; then
        place 644 "$here/neuron.conf" "$units/gemmatrace.service.d/neuron.conf"
    elif [ -e "$units/gemmatrace.service.d/neuron.conf" ]; then
        act rm -- "$units/gemmatrace.service.d/neuron.conf"
    fi
}

# A hash of all that a start depends on; some of it need not be there.
stamp() {
    {
        for part in "$installed" "$etc/gemmatrace.json" "$etc/gemmatrace.keys" "$etc/gemmatrace.env" \
            "$units/gemmatrace.service" "$units/gemmatrace.service.d/neuron.conf"; do
            if [ -e "$part" ]; then cat -- "$part"; fi
        done
        readlink -- "$state/model" "$state/bundle" || true
        stat -L -c '%n %s %Y' -- "$state/model"/* 2>/dev/null || true
    } | sha256sum
}

start() {
    [ -z "$root" ] || return 0
    act systemctl daemon-reload
    act systemctl enable gemmatrace
    now=$(stamp)
    if [ "$now" = "$(cat -- "$state/served" 2>/dev/null)" ]; then
        act systemctl start gemmatrace
    else
        act systemctl restart gemmatrace
    fi
    case $host in
        0.0.0.0 | ::) address=127.0.0.1 ;;
        *:*) address="[$host]" ;;
        *) address=$host ;;
    esac
    if [ "$is_dry" = yes ]; then
        printf 'would wait for: http://%s:%s/ready\n' "$address" "$port"
        return 0
    fi
    waited=0
    until curl -fsS --max-time 5 -o /dev/null "http://$address:$port/ready" 2>/dev/null; do
        restarts=$(systemctl show --property NRestarts --value gemmatrace)
        if systemctl is-failed --quiet gemmatrace || [ "${restarts:-0}" -ge 3 ] || [ "$waited" -ge "$wait_s" ]; then
            journalctl -u gemmatrace -n 30 --no-pager >&2 || true
            fail "it did not become ready; above is the end of its log"
        fi
        sleep 2
        waited=$((waited + 2))
    done
    printf '%s\n' "$now" >"$state/served"
    say "ready: http://$address:$port/v1, with a key of /etc/gemmatrace.keys"
}

check_words
check_machine
install_program
install_checkpoint
install_bundle
install_settings
install_unit
start

#!/bin/sh
# Installs what building (build) or the whole test suite (test) needs, on Debian and Ubuntu; elsewhere names it.
# Usage: tools/dev/install_packages.sh build|test
# Quick and silent when everything is there. Uses sudo only when not root. All messages go to standard error.
set -eu

say() { printf '%s\n' "$*" >&2; }

# The release preset describes the tests too, so configuring it asks for their library.
build_packages='g++ cmake ninja-build nlohmann-json3-dev libcli11-dev libfmt-dev libgtest-dev libgmock-dev
libboost-dev prometheus-cpp-dev pkg-config'
build_packages="$build_packages libcurl4-openssl-dev libssl-dev" # the command pull
build_packages="$build_packages protobuf-compiler libprotobuf-dev zlib1g-dev" # programs for the accelerator
test_packages='python3 python3-venv git shellcheck'

case ${1:-} in
    build) packages=$build_packages ;;
    test) packages="$build_packages $test_packages" ;;
    *)
        say "usage: $0 build|test"
        exit 2
        ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    if command -v cmake >/dev/null 2>&1 && command -v ninja >/dev/null 2>&1 && command -v c++ >/dev/null 2>&1; then
        exit 0 # the tools are here; cmake names a library that is not
    fi
    say "This is no Debian or Ubuntu, so nothing was installed. Building needs a C++20 compiler (gcc 11+ or clang 14+),"
    say "cmake 3.22+, ninja and these libraries, named as Debian names them:"
    say "  $packages"
    exit 3
fi

missing=''
for package in $packages; do
    status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [ "$status" = 'install ok installed' ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=''
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        say "These packages are missing:$missing"
        say "Install them as root: apt-get install$missing"
        exit 3
    fi
    as_root=sudo
fi
say "Installing with apt:$missing"
export DEBIAN_FRONTEND=noninteractive
# The lists of a fresh machine are empty; an update that fails (no network) leaves the install to say what is wrong.
$as_root apt-get update -q >&2 || say "apt-get update failed; trying the lists that are there"
# shellcheck disable=SC2086  # one word a package
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >&2

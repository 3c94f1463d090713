#!/bin/sh
# Puts a compiled bundle in its place, from a folder, an archive, a web server or S3. See --help.
set -eu
umask 022

usage() {
    cat <<'TEXT'
usage: fetch_bundle.sh [--sha256 HEX] [--dry-run] SOURCE LINK

  SOURCE   a bundle's folder; an archive of one (.tar, .tar.gz, .tgz), by path, http(s):// or s3://; or s3://BUCKET/FOLDER/
  LINK     where it is wanted, e.g. /var/lib/gemmatrace/bundle. It becomes a link to a folder beside it that is named
           after the bundle's content, and changes only when the new bundle is there as a whole. Bundles that were
           fetched before stay: to go back, point the link at one of them.

  --sha256 HEX   the archive must have this hash
  --dry-run      say what would be done, and do nothing

S3 is read by the AWS command line (aws), with whatever rights the machine or the environment has. The programs of a
bundle are checked against the hashes in it when it is loaded; --sha256 says that it is the bundle you mean.
TEXT
}

fail() {
    printf 'fetch_bundle.sh: %s\n' "$1" >&2
    exit "${2:-1}"
}

wanted_hash=''
is_dry=no
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --sha256)
            [ $# -gt 1 ] || fail "--sha256 needs a value" 2
            wanted_hash=$2
            shift
            ;;
        --dry-run) is_dry=yes ;;
        -*) fail "unknown option $1; see --help" 2 ;;
        *) break ;;
    esac
    shift
done
[ $# -eq 2 ] || fail "a source and a link are needed; see --help" 2
source=$1
link=${2%/}
name=$source
case $source in http://* | https://*) name=${source%%\?*} ;; esac
case $name in
    *.tar | *.tar.gz | *.tgz) is_archive=yes ;;
    *) is_archive=no ;;
esac
[ -z "$wanted_hash" ] || [ "$is_archive" = yes ] || fail "--sha256 is of an archive, and $source is none" 2
if [ -e "$link" ] && [ ! -L "$link" ]; then
    fail "$link is there and no link; move it away first"
fi
if [ "$is_dry" = yes ]; then
    printf 'would fetch %s, and point %s at it\n' "$source" "$link"
    exit 0
fi

parent=$(dirname -- "$link")
mkdir -p -- "$parent"
draft=$(mktemp -d "$parent/.bundle.XXXXXX")
trap 'rm -rf -- "$draft"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$draft/content"

case $source in
    s3://*)
        command -v aws >/dev/null 2>&1 || fail "the AWS command line (aws) is needed for $source"
        if [ "$is_archive" = yes ]; then
            aws s3 cp --only-show-errors "$source" "$draft/archive" || fail "$source could not be fetched"
        else
            aws s3 cp --only-show-errors --recursive "$source" "$draft/content" || fail "$source could not be fetched"
        fi
        ;;
    http://* | https://*)
        [ "$is_archive" = yes ] || fail "$source is no archive (.tar, .tar.gz or .tgz)" 2
        curl -fsSL --retry 3 --output "$draft/archive" -- "$source" || fail "$source could not be fetched"
        ;;
    *)
        if [ "$is_archive" = yes ]; then
            cp -- "$source" "$draft/archive"
        else
            cp -R -- "$source/." "$draft/content"
        fi
        ;;
esac
if [ "$is_archive" = yes ]; then
    if [ -n "$wanted_hash" ]; then
        printf '%s  %s\n' "$wanted_hash" "$draft/archive" | sha256sum --check --status ||
            fail "$source does not have the hash $wanted_hash"
    fi
    tar --extract --no-same-owner --no-same-permissions --file "$draft/archive" --directory "$draft/content" ||
        fail "$source is no archive, or damaged"
fi

# An archive may hold the bundle itself or its folder.
content=$draft/content
if [ ! -f "$content/manifest.json" ]; then
    set -- "$content"/*/manifest.json
    if [ $# -ne 1 ] || [ ! -f "$1" ]; then
        fail "$source holds no bundle: there is no manifest.json"
    fi
    content=$(dirname -- "$1")
fi
[ -f "$content/compiled.json" ] ||
    fail "the bundle in $source was emitted and not compiled: run \`gemmatrace compile\` on it, without --emit-only"

# These two files hold the hashes of all others.
name=$(cat "$content/manifest.json" "$content/compiled.json" | sha256sum | cut -c 1-16)
folder=$link-$name
chmod -R a+rX -- "$content"
if [ ! -e "$folder" ]; then
    mv -- "$content" "$folder"
fi
if [ "$(readlink -- "$link" 2>/dev/null)" != "$(basename -- "$folder")" ]; then
    ln -s -- "$(basename -- "$folder")" "$draft/link"
    mv -T -- "$draft/link" "$link" # at once, so that a start in between finds one bundle or the other
fi
printf '%s\n' "$folder"

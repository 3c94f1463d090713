#!/bin/sh
# Names the C++ files that clang-format 14 would change; a note, never a failure, and nothing where that version is not
# installed (another one has other opinions).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
cd "$root"
formatter=''
for candidate in clang-format-14 clang-format; do
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" --version | grep -q 'version 14\.'; then
        formatter=$candidate
        break
    fi
done
[ -n "$formatter" ] || exit 0
find src tests bench -name '*.cpp' -o -name '*.h' | sort | while IFS= read -r file; do
    "$formatter" --style=file "$file" | cmp -s - "$file" || printf 'note: clang-format 14 would change %s\n' "$file"
done

#!/bin/bash
# grpc_abi.sh: what the plug-in declares of gRPC's internals is what Debian's sources say.
# FERRY_GRPC_SOURCE names an unpacked source package; without it, it is downloaded. Status 77 skips.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source=${FERRY_GRPC_SOURCE:-}
if [ -z "$source" ]; then
  mkdir -p "$work/parts" "$work/lists/partial"
  cat > "$work/parts/source.sources" <<END
Types: deb-src
URIs: http://deb.debian.org/debian
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
  apt=(apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/parts"
       -o Dir::State::lists="$work/lists")
  if ! (cd "$work" && timeout 120 "${apt[@]}" update && timeout 120 "${apt[@]}" source --download-only grpc) \
      > "$work/log" 2>&1 || ! ls "$work"/grpc_*.orig.tar.* > /dev/null 2>&1; then
    echo "the source package of gRPC cannot be had"
    exit 77
  fi
  tar -C "$work" -xf "$work"/grpc_*.orig.tar.*
  source=$(echo "$work"/grpc-*)
fi

# Debian's flags: no NDEBUG.
facts() {
  g++ -S -O0 -w -fno-access-control "$@" -x c++ "$top/tests/grpc/abi_facts.inc" -o - |
    sed -n '/^ferry_grpc_facts:/,/\.size\|\.text\|\.section/p' | grep -E '\.(quad|zero)'
}
facts -std=c++17 -DFERRY_THEIRS -I "$source" -I "$source/include" > "$work/theirs"
facts -std=c++20 -I "$top" > "$work/ours"
[ "$(wc -l < "$work/ours")" -ge 30 ]
if ! diff "$work/theirs" "$work/ours"; then
  echo "gRPC's sources (<) and abi_internal.h (>) differ: see tests/grpc/abi_facts.inc for what each line is"
  exit 1
fi
echo "gRPC's layouts are as abi_internal.h has them: $(wc -l < "$work/ours") numbers"

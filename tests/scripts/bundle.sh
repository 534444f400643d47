# A bundle works where it is put, and is small enough to be carried around.
set -euo pipefail
export FERRY_TUNING=off
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$top/tools/bundle" "$folder/made" "$(dirname "$1")" >/dev/null
mv "$folder/made" "$folder/moved"
"$folder/moved/ferry" train --model fcn-5 --compute emulate --workers 1 --ps 1 --steps 2 --no-test >/dev/null
"$folder/moved/ferry" bench models --models fcn-5 --workers 1 --ps 1 --transports ferry --repeat 1 --seconds 0.1 >/dev/null 2>&1 ||
  { echo "the bundle's benchmarks do not work"; exit 1; }
bytes=$(du -sb "$folder/moved" | cut -f1)
((bytes < 72 << 20)) || { echo "the bundle has $bytes bytes, more than 72 MiB"; exit 1; }
if "$top/tools/bundle" "$folder/moved" 2>/dev/null; then echo "a folder that is there was taken"; exit 1; fi

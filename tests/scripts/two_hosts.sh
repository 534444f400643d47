# Training between two network namespaces: what another machine would see.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[[ -d /usr/share/datasets/fashion-mnist ]] || { echo "dataset-fashion-mnist is not installed"; exit 77; }
out=$("$top/tools/two-hosts" "$1/ferry" --model mlp --batch 16 --steps 10) || exit $?
[[ $(grep -c "^step     10 " <<<"$out") == 2 ]] || { echo "not both transports came to step 10: $out"; exit 1; }
grep -q "ferry over TCP took" <<<"$out" || { echo "$out"; exit 1; }
if ip netns list | grep -q '^ferry-'; then echo "a namespace was left behind"; exit 1; fi

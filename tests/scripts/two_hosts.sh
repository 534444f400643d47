# Training between two network namespaces: what another machine would see.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[[ -d /usr/share/datasets/fashion-mnist ]] || { echo "dataset-fashion-mnist is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
out=$("$top/tools/two-hosts" "$1/ferry" --model mlp --batch 16 --steps 10 --rounds 2 --no-test --json "$folder/jobs.json") || exit $?
[[ $(grep -c "^step     10 " <<<"$out") == 2 ]] || { echo "not both transports came to step 10: $out"; exit 1; }
grep -q "^ferry, tcp is .*x as fast as grpc, tcp, median of 2 rounds" <<<"$out" || { echo "$out"; exit 1; }
python3 - "$folder" <<'PY'
import json, sys
jobs = json.load(open(f"{sys.argv[1]}/jobs.json"))["jobs"]
assert [job["transport"] for job in jobs] == ["ferry", "grpc"], jobs
assert [[round["turn"] for round in job["rounds"]] for job in jobs] == [[0, 2], [1, 3]], jobs
assert [one["provider"] for one in jobs[0]["registration"]["providers"]] == ["tcp"], jobs
PY
if ip netns list | grep -q '^ferry-'; then echo "a namespace was left behind"; exit 1; fi

# The tasks are where they are said to be: nobody else's namespace has that address.
echo '{"ps": ["10.77.0.1:7000"], "worker": ["10.77.0.1:7001"]}' >"$folder/cluster.json"
for wrong in "10.77.0.1=none-of-that-name" "10.77.0.1" "10.77.0.1=../x"; do
  status=0
  "$1/ferry" run --cluster "$folder/cluster.json" --namespace "$wrong" --model mlp --steps 2 --no-test --patience 5 \
    >/dev/null 2>"$folder/err" || status=$?
  [[ $status == 2 ]] && grep -q "namespace" "$folder/err" || { echo "$wrong: status $status, $(cat "$folder/err")"; exit 1; }
done

# `ferry bench models`: real processes, weights compared between the transports, and scaling.
set -euo pipefail
ferry=$1/ferry
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
small=(--models gru --repeat 1 --seconds 0.2)
"$ferry" bench models "${small[@]}" --transports ferry,ferry/tcp,grpc --json "$folder/models.json" >/dev/null 2>&1
"$ferry" bench models "${small[@]}" --transports ferry --scaling 1,2 --json "$folder/scaling.json" >/dev/null 2>&1
python3 - "$folder" <<'PY'
import json, sys
folder = sys.argv[1]
model = json.load(open(f"{folder}/models.json"))["models"][0]
assert (model["variables"], round(model["variable_bytes"] / 2**20, 2)) == (11, 27.92), model
assert [path["transport"] for path in model["paths"]] == ["ferry", "ferry/tcp", "grpc"], model
for path in model["paths"]:
    assert not path["failed"] and min(path["step_seconds"]) >= 0.9 * model["emulated_seconds"], path
points = json.load(open(f"{folder}/scaling.json"))["points"]
assert [point["workers"] for point in points] == [1, 2] and not any(point["failed"] for point in points), points
PY
refused() {
  local status=0
  "$ferry" bench models "$@" >/dev/null 2>&1 || status=$?
  [[ $status == 2 ]] || { echo "bench models $*: status $status, not 2"; exit 1; }
}
refused --models nothing
refused --transports ferry/carrier-pigeon
refused --json /proc/x

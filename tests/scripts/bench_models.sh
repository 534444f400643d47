# `ferry bench models`: real processes, weights compared between the transports, and scaling.
set -euo pipefail
ferry=$1/ferry
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
small=(--models gru --repeat 1 --seconds 0.2)
"$ferry" bench models "${small[@]}" --transports ferry,ferry/tcp,grpc --json "$folder/models.json" >"$folder/models" 2>/dev/null
"$ferry" bench models "${small[@]}" --transports ferry --scaling 1,2 --json "$folder/scaling.json" >/dev/null 2>&1
python3 - "$folder" <<'PY'
import json, sys
folder = sys.argv[1]
model = json.load(open(f"{folder}/models.json"))["models"][0]
assert (model["variables"], round(model["variable_bytes"] / 2**20, 2)) == (11, 27.92), model
assert [path["transport"] for path in model["paths"]] == ["ferry", "ferry/tcp", "grpc"], model
for path in model["paths"]:
    assert not path["failed"] and min(path["step_seconds"]) >= 0.9 * model["emulated_seconds"], path
# Gradients are sent from ordinary memory in the first step, which is traced; all else from registered memory.
lines = {line.split()[0]: line for line in open(f"{folder}/models") if line.startswith(("ferry", "grpc"))}
for path, in_a_step in zip(model["paths"], (22, 44)):
    figures, steps = path["registration"], path["steps"]
    assert figures["tensors"] == in_a_step * steps and figures["registered"] == figures["tensors"] - 22, path
    assert f'{100 * figures["registered"] / figures["tensors"]:.1f} %' in lines[path["transport"]], (path, lines)
    assert figures["registering_share"] is None and lines[path["transport"]].rstrip().endswith("-"), (path, lines)
assert model["paths"][2]["registration"] is None and lines["grpc"].split()[-2:] == ["-", "-"], (model, lines)
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

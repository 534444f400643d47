# `ferry bench ps`: training through servers ends where one process alone does.
set -euo pipefail
ferry=$1/ferry
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
refused() {
  local wanted=$1 status=0
  shift
  "$ferry" bench ps "$@" >/dev/null 2>&1 || status=$?
  [[ $status == "$wanted" ]] || { echo "bench ps $*: status $status, not $wanted"; exit 1; }
}
refused 2 --parts training --json /proc/x
refused 2 --parts nothing

[[ -d /usr/share/datasets/fashion-mnist ]] || { echo "dataset-fashion-mnist is not installed"; exit 77; }
"$ferry" bench ps --parts training --quick --json "$folder/ps.json" --html "$folder/ps.html" >"$folder/out" 2>"$folder/err" ||
  { cat "$folder"/{out,err}; exit 1; }
grep -q 'one process alone' "$folder/out"
grep -q 'images per second by number of workers' "$folder/ps.html"
python3 - "$folder/ps.json" <<'PY'
import json, sys
alone, *others = json.load(open(sys.argv[1]))["trainings"]
ways = [(one["training"], one["workers"]) for one in others]
assert ways == [(f"{path}, 1 server", workers) for path in ("shm", "tcp") for workers in (2, 4, 8)], ways
assert alone["loss"] < 2 and alone["accuracy"] > 0.4, alone  # ten classes that are guessed: 2.3 and 0.1
for one in others:
    assert abs(one["loss"] - alone["loss"]) < 1e-4 * alone["loss"], (one, alone)
    assert one["images_per_second"] > 0 and 0 < one["communicating"] < 1, one
PY

# The spin of a job's waits: measured by the first job, kept for the next, left alone where the user says so.
set -euo pipefail
bin=$1
[[ -d /usr/share/datasets/fashion-mnist ]] || { echo "dataset-fashion-mnist is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
kept=$folder/kept
out=$folder/out

# job ARGUMENT...: a short one; what it said is in $out.
job() {
  timeout 60 "$bin/ferry" train --model mlp --workers 1 --ps 1 --batch 1 --steps 3 --no-test \
    --json "$folder/train.json" "$@" >"$out" 2>&1 || { echo "ferry train $*: $(cat "$out")"; exit 1; }
}
# ps ARGUMENT...: the same for a parameter server.
ps() {
  timeout 60 "$bin/ferry" ps --local 1x1 --json "$folder/ps.json" "$@" -- "$bin/example_ps_worker" >"$out" 2>&1 ||
    { echo "ferry ps $*: $(cat "$out")"; exit 1; }
}
# source_in FILE: where the spin came from.
source_in() {
  python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
print(report.get("jobs", [report])[0]["spin"]["source"])' "$1"
}
expect_source() {
  [[ $(source_in "$folder/$1.json") == "$2" ]] || { echo "$1: $(source_in "$folder/$1.json"), not $2: $(cat "$out")"; exit 1; }
}
files() { find "$kept" -name '*.json' 2>/dev/null | wc -l; }
# measured COMMAND...: runs jobs until one has measured: beside much else a measurement may run out of time, and costs the job nothing.
measured() {
  for _ in {1..15}; do
    "$@"
    [[ $(files) == 0 ]] || return 0
  done
  echo "nothing was measured: $(cat "$out")"
  exit 1
}

# Off: the default, and nothing is written. HOME is where files would be otherwise.
export HOME=$folder/home FERRY_TUNING=off
mkdir "$HOME"
unset XDG_CACHE_HOME
job && expect_source train default
grep -q 'waits spin for 50 us (default)' "$out" || { cat "$out"; exit 1; }
ps && expect_source ps default
[[ -z $(find "$HOME" -type f) ]] || { echo "files in spite of FERRY_TUNING=off: $(find "$HOME" -type f)"; exit 1; }

# The first job measures, the next ones use it, whichever kind they are.
export FERRY_TUNING=$kept
measured job --provider shm && expect_source train measured
[[ $(files) == 1 ]] || { ls "$kept"; exit 1; }
job --provider shm && expect_source train kept
job && expect_source train kept
ps --provider shm && expect_source ps kept
# The user's word is above it, also if it is the default.
for spin in 50 7; do
  job --spin $spin && expect_source train user
  grep -q "waits spin for $spin us (user)" "$out" || { cat "$out"; exit 1; }
  ps --spin $spin && expect_source ps user
done
# A parameter server measures as well.
rm -r "$kept"
measured ps && expect_source ps measured
job && expect_source train kept

# A file that is none costs a line in the log: the path is measured anew, and the job runs.
for file in "$kept"/*.json; do echo '{' >"$file"; done
job
grep -q 'kept/shm-' "$out" || { echo "no word of the file: $(cat "$out")"; exit 1; }
[[ $(source_in "$folder/train.json") =~ ^(measured|default)$ ]] || { cat "$out"; exit 1; }
# So does a folder that cannot be written.
echo >"$folder/file"
FERRY_TUNING=$folder/file/below job && expect_source train default

# Every path has a value of its own.
before=$(files)
for _ in {1..15}; do
  job --provider tcp
  [[ $(files) == "$before" ]] || break
done
job --provider tcp && expect_source train kept

# `ferry tune`: measures, keeps, shows and forgets; in a folder of its own.
set -euo pipefail
bin=$1
folder=$(mktemp -d)
listener=
cleanup() {
  [[ -z $listener ]] || kill "$listener" 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT
export FERRY_TUNING=$folder/kept
out=$folder/out

# expect STATUS PATTERN COMMAND...: what it said is in $out.
expect() {
  local status=0 wanted=$1 pattern=$2
  shift 2
  "$@" >"$out" 2>&1 || status=$?
  [[ $status == "$wanted" ]] || { echo "status $status of $*: $(cat "$out")"; exit 1; }
  grep -Eq "$pattern" "$out" || { echo "$* said: $(cat "$out")"; exit 1; }
}

expect 0 'nothing is kept in' "$bin/ferry" tune --show
expect 0 'eager threshold' "$bin/ferry" tune --provider shm,tcp --seconds 0.3
for curve in 'message +eager +announced' 'message +copied +registered' '4 MiB by chunks of' 'chunks at once' '64 B, spin' 'asleep at once'; do
  grep -Eq "$curve" "$out" || { echo "no curve '$curve': $(cat "$out")"; exit 1; }
done
expect 0 '^tcp within this host, measured' "$bin/ferry" tune --show
expect 0 '^shm within this host' "$bin/ferry" tune --show --provider shm
! grep -q '^tcp' "$out" || { echo "--provider shm shows tcp"; exit 1; }
"$bin/ferry" tune --show --json | python3 -c '
import json, sys
tunings = json.load(sys.stdin)["tunings"]
assert sorted(one["provider"] for one in tunings) == ["shm", "tcp"], tunings
assert all(len(one["curves"]) == 8 for one in tunings), tunings'

# A broken file is as if it were not there, with one line that says so.
for file in "$FERRY_TUNING"/shm-*.json; do echo '{' >"$file"; done
expect 0 'is ignored' "$bin/ferry" tune --show
[[ $(grep -c 'is ignored' "$out") == 1 ]] || { echo "said more than once: $(cat "$out")"; exit 1; }

expect 0 '2 tuning\(s\) removed' "$bin/ferry" tune --forget
expect 0 'nothing is kept' "$bin/ferry" tune --show

# Two ends that find each other.
export FERRY_SECRET='a secret of this test'
: >"$folder/listener"
"$bin/ferry" tune --listen 127.0.0.1:0 --provider tcp --seconds 0.2 >"$folder/listener" 2>&1 &
listener=$!
for _ in {1..200}; do
  endpoint=$(grep -o 'tune --peer .*' "$folder/listener" | cut -d' ' -f3 || true)
  [[ -z $endpoint ]] || break
  sleep 0.05
done
[[ -n $endpoint ]] || { echo "the listener said: $(cat "$folder/listener")"; exit 1; }
expect 0 '^tcp within this host' "$bin/ferry" tune --peer "$endpoint" --provider tcp --seconds 0.2
wait "$listener" || { echo "the listener failed: $(cat "$folder/listener")"; exit 1; }
listener=
grep -q '^tcp within this host' "$folder/listener" || { echo "the listener said: $(cat "$folder/listener")"; exit 1; }

# What cannot be done says why.
expect 2 "does not know 'carrier-pigeon'" "$bin/ferry" tune --provider carrier-pigeon
expect 2 'excludes' "$bin/ferry" tune --show --forget
expect 2 'FERRY_TUNING is off' env FERRY_TUNING=off "$bin/ferry" tune
expect 2 'making the folder' env FERRY_TUNING="$out/below" "$bin/ferry" tune --provider shm
expect 2 'secret is needed' env -u FERRY_SECRET "$bin/ferry" tune --peer "$endpoint"
expect 2 'ferry tune: ' "$bin/ferry" tune --peer "$endpoint"
expect 0 'FERRY_TUNING' "$bin/ferry" tune --help

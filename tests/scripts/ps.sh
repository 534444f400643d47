# `ferry ps`: roles one by one, jobs on one machine.
set -euo pipefail
export FERRY_TUNING=off
bin=$1
ferry=$bin/ferry
folder=$(mktemp -d)
pids=()
clean_up() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap clean_up EXIT

source "$(dirname "${BASH_SOURCE[0]}")/../ps/expect.sh"

# A job on one machine, on each path.
for provider in shm tcp; do
  expect 0 '' --local 2x3 --provider $provider -- "$bin/example_ps_kvstore"
  [[ $(grep -c 'y = 3.000 x + 1.000' "$folder/out") == 3 ]] || { cat "$folder/out"; exit 1; }
  expect 0 '' --local 2x3 --mean --provider $provider --json "$folder/local.json" -- "$bin/example_ps_worker"
  [[ $(grep -c 'y = 3.000 x + 1.000' "$folder/out") == 3 ]] || { cat "$folder/out"; exit 1; }
  python3 - "$folder/local.json" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["well"] and len(report["processes"]) == 5, report
PY
done

# Workers that are not in step: what comes back has the worker's own gradient, whose memory is written to again.
for _ in {1..5}; do
  expect 0 '' --local 1x1 --consistency async --provider shm -- "$bin/example_ps_worker"
  grep -q 'y = 3.000 x + 1.000' "$folder/out" || { cat "$folder/out"; exit 1; }
done
expect 0 '' --local 1x2 --consistency async --provider tcp -- "$bin/example_ps_worker"

# said PATTERN FILE: waits until a role has said so.
# Whoever starts a program again removes what the former one said: the shell empties a file only when the
# program is about to begin.
said() {
  for _ in {1..2400}; do
    grep -qs "$1" "$2" && return
    sleep 0.05
  done
  echo "'$1' was not said: $(cat "$2")"
  exit 1
}

# The same, role by role.
export FERRY_SECRET=0123456789abcdef0123456789abcdef
"$ferry" ps --role scheduler --workers 2 --servers 2 --mean --json "$folder/scheduler.json" >"$folder/scheduler" &
pids+=($!)
said 'scheduler at' "$folder/scheduler"
scheduler=$(sed -n 's/^scheduler at //p' "$folder/scheduler")
for each in 1 2; do
  "$ferry" ps --role server --scheduler "$scheduler" --json "$folder/server$each.json" >"$folder/server$each" &
  pids+=($!)
done
for each in 0 1; do
  FERRY_PS_SCHEDULER=$scheduler FERRY_PS_RANK=$each "$bin/example_ps_worker" >"$folder/worker$each" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || { cat "$folder"/{scheduler,server?,worker?}; exit 1; }; done
pids=()
grep -q 'y = 3.000 x + 1.000' "$folder/worker1" || { cat "$folder/worker1"; exit 1; }
python3 - "$folder" <<'PY'
import json, sys
scheduler = json.load(open(sys.argv[1] + "/scheduler.json"))
assert scheduler["left"] == 2 and scheduler["dead"] == 0 and scheduler["tensors"] == 1, scheduler
servers = [json.load(open(f"{sys.argv[1]}/server{each}.json")) for each in (1, 2)]
assert sum(server["steps"] for server in servers) == 1000, servers
PY

# With two copies of each block the workers do not notice that a server is killed.
rm -f "$folder"/{scheduler,server?,worker?}
"$ferry" ps --role scheduler --workers 2 --servers 3 --replicas 2 --mean --json "$folder/scheduler.json" \
  >"$folder/scheduler" 2>"$folder/err" &
pids+=($!)
said 'scheduler at' "$folder/scheduler"
scheduler=$(sed -n 's/^scheduler at //p' "$folder/scheduler")
for each in 0 1 2; do
  "$ferry" ps --role server --scheduler "$scheduler" >"$folder/server$each" &
  [[ $each == 0 ]] && victim=$! || pids+=($!)
  said "server $each at" "$folder/server$each"
done
for each in 0 1; do
  FERRY_PS_SCHEDULER=$scheduler FERRY_PS_RANK=$each "$bin/example_ps_worker" >"$folder/worker$each" &
  pids+=($!)
  [[ $each == 0 ]] && sleep 0.3 && kill -9 "$victim"
done
for pid in "${pids[@]}"; do wait "$pid" || { cat "$folder"/{scheduler,err,worker?}; exit 1; }; done
pids=()
grep -q 'y = 3.000 x + 1.000' "$folder/worker1" || { cat "$folder/worker1"; exit 1; }
grep -q '"servers_gone": 1' "$folder/scheduler.json" || { cat "$folder/scheduler.json"; exit 1; }
expect 2 'replicas on 1 servers' --role scheduler --servers 1 --replicas 2

# A scheduler that is killed and started again goes on with its state, at the same address.
begin_scheduler() {
  rm -f "$folder/scheduler"
  "$ferry" ps --role scheduler --workers 2 --servers 2 --mean --state "$folder/state" >"$folder/scheduler" 2>"$folder/err" &
  keeper=$!
  pids+=($keeper)
  said 'scheduler at' "$folder/scheduler"
}
begin_scheduler
scheduler=$(sed -n 's/^scheduler at //p' "$folder/scheduler")
expect 2 'another scheduler keeps its state' --role scheduler --workers 2 --servers 2 --mean --state "$folder/state"
for each in 0 1; do
  "$ferry" ps --role server --scheduler "$scheduler" >"$folder/kept$each" &
  pids+=($!)
  said "server $each at" "$folder/kept$each"
done
kill -9 "$keeper"
wait "$keeper" || true
pids=("${pids[@]:1}")
expect 2 'other options' --role scheduler --workers 3 --servers 2 --mean --state "$folder/state"
begin_scheduler
for each in 0 1; do
  FERRY_PS_SCHEDULER=$scheduler FERRY_PS_RANK=$each "$bin/example_ps_worker" >"$folder/worker$each" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || { cat "$folder"/{scheduler,err,worker?}; exit 1; }; done
pids=()
grep -q 'y = 3.000 x + 1.000' "$folder/worker1" || { cat "$folder/worker1"; exit 1; }
expect 2 'etcd at 127.0.0.1:9 does not answer' --role scheduler --state etcd://127.0.0.1:9/job
expect 2 'a job of --local ends with its scheduler' --local 1x1 --state "$folder/state" -- true
unset FERRY_SECRET

# Any process that fails makes the job fail, by name, and ends the others.
expect 1 'worker 1 exited with status 9' --local 1x2 -- bash -c '[[ $FERRY_PS_RANK == 0 ]] && exec sleep 60; exit 9'
expect 1 'worker 0 was killed by signal 9' --local 1x1 -- bash -c 'kill -9 $$'
expect 2 'cannot start' --local 1x1 -- "$folder/nothing"
expect 2 'needs a program' --local 1x1
for wrong in 0x1 1x0 2 2x 2x2x2 x 100x1 -1x1; do expect 2 "--local" --local=$wrong -- true; done
expect 2 'say one of' --workers 2
expect 2 'needs --scheduler' --role server
expect 2 'secret' --role scheduler
expect 2 'at least one for each' --local 1x5 --pool 3 -- true
expect 2 'blocks have' --local 1x1 --block 7 -- true
# A server that dies is no failure of a job with two copies: worker 0 kills one when it is done, and then worker 1 comes.
cat >"$folder/worker" <<'SH'
if [[ $FERRY_PS_RANK == 0 ]]; then
  "$2" | grep 'y =' # one after the other, they do not get as far
  kill -9 "$(pgrep -P $PPID -f 'role server' | head -1)" && touch "$1/go"
else
  until [[ -e $1/go ]]; do sleep 0.05; done
  "$2" | grep 'y ='
fi
SH
expect 0 '' --local 3x2 --replicas 2 --consistency async -- bash "$folder/worker" "$folder" "$bin/example_ps_worker"
[[ $(grep -c 'y =' "$folder/out") == 2 ]] && grep -q 'goes on with its blocks' "$folder/err" || { cat "$folder/out" "$folder/err"; exit 1; }

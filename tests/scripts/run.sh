# `ferry run`: tasks of a cluster file, started together and one by one.
set -euo pipefail
export FERRY_TUNING=off
ferry=$1/ferry
folder=$(mktemp -d)
pids=()
clean_up() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap clean_up EXIT

[[ -d /usr/share/datasets/fashion-mnist ]] || { echo "dataset-fashion-mnist is not installed"; exit 77; }

# Ports that were free a moment ago.
mapfile -t ports < <(python3 - <<'PY'
import socket
held = [socket.socket() for _ in range(3)]
for each in held: each.bind(("127.0.0.1", 0))
print("\n".join(str(each.getsockname()[1]) for each in held))
PY
)
cat >"$folder/cluster.json" <<EOF
{"ps": ["127.0.0.1:${ports[0]}"], "worker": ["127.0.0.1:${ports[1]}", "127.0.0.1:${ports[2]}"]}
EOF
small=(--cluster "$folder/cluster.json" --model mlp --batch 16 --steps 20)
export FERRY_SECRET=0123456789abcdef0123456789abcdef

# refused PATTERN ARGUMENT...: ends with 2, and says why.
refused() {
  local pattern=$1 status=0
  shift
  "$ferry" run "$@" >/dev/null 2>"$folder/err" || status=$?
  [[ $status == 2 ]] && grep -q -- "$pattern" "$folder/err" || {
    echo "ferry run $*: status $status, $(cat "$folder/err"); expected 2 and '$pattern'"
    exit 1
  }
}

# All of them here.
"$ferry" run "${small[@]}" --no-test --json "$folder/all.json" >/dev/null

# One by one, the last first; the server's shard is what all of them together had.
start() {
  "$ferry" run "${small[@]}" --task "$1" --checkpoints "$folder/run" --json "$folder/$2.json" >"$folder/$2.out" 2>&1 &
  pids+=($!)
}
start /job:worker/task:1 worker1
sleep 0.5
start /job:worker/task:0 worker0
start /job:ps/task:0 ps
for pid in "${pids[@]}"; do wait "$pid" || { cat "$folder"/*.out; exit 1; }; done
pids=()
grep -q "step     20" "$folder/worker0.out" || { cat "$folder/worker0.out"; exit 1; }
python3 - "$folder" <<'PY'
import json, sys
folder = sys.argv[1]
ps = json.load(open(f"{folder}/ps.json"))
assert ps["steps"] == 20 and ps["sent"]["copies"] == 0, ps
assert not ps["emulated"] and not ps["made_up"], ps
PY

# Each task says that its computation is emulated, and no loss.
emulated=(--cluster "$folder/cluster.json" --model lstm --compute emulate --steps 2)
for task in /job:ps/task:0 /job:worker/task:0 /job:worker/task:1; do
  name=emulated${task//[\/:]/-}
  "$ferry" run "${emulated[@]}" --task "$task" --json "$folder/$name.json" >"$folder/$name.out" 2>&1 &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || { cat "$folder"/emulated*.out; exit 1; }; done
pids=()
for file in "$folder"/emulated*; do
  grep -q "computation is emulated" "$file" || { echo "not said in $file: $(cat "$file")"; exit 1; }
done
if grep -h "loss  *[0-9]" "$folder"/emulated*.out; then echo "a loss of emulated steps"; exit 1; fi
compgen -G "$folder/run/step-*" >/dev/null || { echo "nothing was saved"; exit 1; }

# A task with other options is refused by name, on both sides.
"$ferry" run "${small[@]}" --task /job:ps/task:0 --patience 20 >"$folder/ps.out" 2>&1 &
pids+=($!)
refused "it has rate 0.0[0-9]*, not rate 0.5;" "${small[@]}" --rate 0.5 --task /job:worker/task:0 --patience 20
wait "${pids[0]}" && { echo "a server went on with a worker of another program"; exit 1; }
grep -q "runs another program than .*: it has rate 0.5, not rate" "$folder/ps.out" || { cat "$folder/ps.out"; exit 1; }
pids=()

# Others that never come are named.
refused "/job:worker/task:0" "${small[@]}" --task /job:ps/task:0 --patience 1

# What is wrong with a cluster file is said.
refused "no task /job:ps/task:7" "${small[@]}" --task /job:ps/task:7
refused "cannot open" --cluster "$folder/nothing.json"
check_file() {
  echo "$2" >"$folder/bad.json"
  refused "$1" --cluster "$folder/bad.json"
}
check_file "no cluster file" "hello"
check_file "no worker" '{"ps": ["127.0.0.1:7000"]}'
check_file "no job 'master'" '{"master": ["127.0.0.1:7000"]}'
check_file "both at" '{"ps": ["127.0.0.1:7000"], "worker": ["127.0.0.1:7000"]}'
check_file "needs a port" '{"worker": ["127.0.0.1:0"]}'
check_file "is at 'nowhere'" '{"worker": ["nowhere"]}'

# A port that somebody else has.
python3 - "${ports[0]}" <<'PY' &
import socket, sys, time
held = socket.socket()
held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
held.bind(("127.0.0.1", int(sys.argv[1])))
held.listen()
time.sleep(20)
PY
pids+=($!)
sleep 0.5
refused "127.0.0.1:${ports[0]}" "${small[@]}" --task /job:ps/task:0
unset FERRY_SECRET
refused "secret" "${small[@]}" --task /job:worker/task:0

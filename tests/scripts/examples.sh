# The examples of examples/.
set -euo pipefail
export FERRY_TUNING=off
bin=$1
out=$(mktemp)
receiver=
cleanup() {
  [[ -z $receiver ]] || kill "$receiver" 2>/dev/null || true
  rm -f "$out"
}
trap cleanup EXIT

# run NAME: example_NAME_receiver and example_NAME_sender to their ends; what the former printed is in $out.
run() {
  : >"$out"
  "$bin/example_$1_receiver" >"$out" &
  receiver=$!
  for _ in {1..200}; do
    [[ -s $out ]] && break
    sleep 0.05
  done
  endpoint=$(head -n 1 "$out")
  [[ -n $endpoint ]] || { echo "the receiver of $1 named no endpoint"; exit 1; }
  "$bin/example_$1_sender" "$endpoint"
  wait "$receiver"
  receiver=
}

run hello
[[ $(tail -n 1 "$out") == "hello from the other process" ]] || { echo "received: $(cat "$out")"; exit 1; }
run tensor
[[ $(tail -n 3 "$out" | tr '\n' ' ') == "sum 65536 sum 131072 sum 196608 " ]] || { echo "received: $(cat "$out")"; exit 1; }

# A model of the program's own, by three processes.
"$bin/example_train_own_model" >"$out"
grep -q "500 steps, 3 processes, 0 tensors copied" "$out" || { echo "said: $(cat "$out")"; exit 1; }

# A peer that is not there has a name, and no example hangs.
for example in hello tensor; do
  if "$bin/example_${example}_sender" "$endpoint" 2>"$out"; then
    echo "sent to nobody"
    exit 1
  fi
  grep -q UNAVAILABLE "$out" || { echo "said: $(cat "$out")"; exit 1; }
done

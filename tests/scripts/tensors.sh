# The tensor example: two processes, three tensors.
set -euo pipefail
bin=$1
out=$(mktemp)
receiver=
cleanup() {
  [[ -z $receiver ]] || kill "$receiver" 2>/dev/null || true
  rm -f "$out"
}
trap cleanup EXIT
"$bin/example_tensor_receiver" >"$out" &
receiver=$!
for _ in {1..200}; do
  [[ -s $out ]] && break
  sleep 0.05
done
"$bin/example_tensor_sender" "$(head -n 1 "$out")"
wait "$receiver"
receiver=
[[ $(tail -n 3 "$out" | tr '\n' ' ') == "sum 65536 sum 131072 sum 196608 " ]] || { echo "received: $(cat "$out")"; exit 1; }

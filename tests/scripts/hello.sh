# The hello world of examples/: two processes, one greeting.
set -euo pipefail
bin=$1
out=$(mktemp)
receiver=
cleanup() {
  [[ -z $receiver ]] || kill "$receiver" 2>/dev/null || true
  rm -f "$out"
}
trap cleanup EXIT
"$bin/example_hello_receiver" >"$out" &
receiver=$!
for _ in {1..200}; do
  [[ -s $out ]] && break
  sleep 0.05
done
endpoint=$(head -n 1 "$out")
[[ -n $endpoint ]] || { echo "the receiver named no endpoint"; exit 1; }
"$bin/example_hello_sender" "$endpoint"
wait "$receiver"
receiver=
[[ $(tail -n 1 "$out") == "hello from the other process" ]] || { echo "received: $(cat "$out")"; exit 1; }
# A peer that is not there has a name, and no example hangs.
if "$bin/example_hello_sender" "$endpoint" 2>"$out"; then
  echo "sent to nobody"
  exit 1
fi
grep -q UNAVAILABLE "$out" || { echo "said: $(cat "$out")"; exit 1; }

#!/usr/bin/env bash
# grpc_tensor.sh BIN: the example of tensors through a generated gRPC service, on TCP and over Tensorferry.
set -euo pipefail
bin=$1
if [ ! -x "$bin/example_grpc_tensor" ] || [ ! -e "$bin/../lib/libferry_grpc.so" ]; then
  echo "the example for gRPC, or the plug-in, was not built"
  exit 77
fi
work=$(mktemp -d)
trap 'exec 3>&-; rm -rf "$work"' EXIT
fail() { echo "$1"; exit 1; }

# run COMMAND...: the example's server and client, each started by the command.
run() {
  mkfifo "$work/input"
  : >"$work/port"
  "$@" "$bin/example_grpc_tensor" serve <"$work/input" >"$work/port" &
  server=$!
  exec 3>"$work/input"
  for _ in {1..200}; do
    [[ -s $work/port ]] && break
    sleep 0.05
  done
  timeout 60 "$@" "$bin/example_grpc_tensor" double "$(cat "$work/port")" >"$work/out" || fail "the client ended with $?"
  exec 3>&-
  wait "$server" || fail "the server ended with $?"
  rm "$work/input"
  [ "$(grep -c '^f32\[1000, 1000\], the last element is 1999998$' "$work/out")" = 10 ] || fail "said: $(cat "$work/out")"
}

run env
run "$bin/ferry" grpc --stats "$work/stats" --provider shm --
grep -q '^tensorferry grpc to .* by shm: ' "$work/stats" || fail "the tensors went over TCP: $(cat "$work/stats")"
echo "tensors go through a generated service"

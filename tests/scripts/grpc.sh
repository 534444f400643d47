#!/bin/bash
# grpc.sh BIN: `ferry grpc` runs programs that use gRPC, and others, and says what went over it.
set -euo pipefail
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -e "$bin/../lib/libferry_grpc.so" ] || [ ! -x "$bin/ferry-peer-grpc" ]; then
  echo "the plug-in for gRPC was not built"
  exit 77
fi

fail() { echo "$1"; exit 1; }

# A pair of processes that knows nothing of the plug-in.
printf 'hello\nrun bytes=1048576 rounds=20 touch=all wait=sleep produce=0\nquit\n' |
  "$bin/ferry" grpc --stats "$work/stats" --provider shm -- "$bin/ferry-peer-grpc" --send slices > "$work/out"
grep -q 'ok ns=.* bad=0' "$work/out" || fail "the rounds went wrong: $(cat "$work/out")"
grep -q '^tensorferry grpc to .* by shm: ' "$work/stats" ||
  fail "nothing went over shm: $(cat "$work/stats")"

# Off by the environment: the same, over TCP.
printf 'hello\nrun bytes=1048576 rounds=20 touch=all wait=sleep produce=0\nquit\n' |
  FERRY_GRPC=off "$bin/ferry" grpc --stats "$work/off" -- "$bin/ferry-peer-grpc" --send slices > "$work/out"
grep -q 'ok ns=.* bad=0' "$work/out" || fail "the rounds went wrong over TCP: $(cat "$work/out")"
[ ! -s "$work/off" ] || fail "something went over Tensorferry: $(cat "$work/off")"

# A program without gRPC, its arguments and its exit status.
status=0
said=$("$bin/ferry" grpc -- sh -c 'echo "$@"; exit 3' sh one --two) || status=$?
[ "$said" = "one --two" ] && [ $status = 3 ] || fail "sh said '$said' and ended with $status"

status=0
"$bin/ferry" grpc -- "$work/no such program" 2> "$work/err" || status=$?
[ $status = 2 ] && grep -q 'cannot run' "$work/err" || fail "status $status: $(cat "$work/err")"
# What is wrong on the command line is said before the program runs.
for wrong in "--provider nonsense" "--secret-file $work/none" "--stats $work/none/stats"; do
  status=0
  # shellcheck disable=SC2086
  "$bin/ferry" grpc $wrong -- echo ran > "$work/out" 2> "$work/err" || status=$?
  [ $status = 2 ] && [ ! -s "$work/out" ] && [ -s "$work/err" ] || fail "$wrong: status $status, $(cat "$work/out")"
done

# A program of the distribution: the compiler calls of a build, told to a server by gRPC.
if command -v bear > /dev/null && command -v cc > /dev/null; then
  cd "$work"
  echo 'int main(void) { return 0; }' > one.c
  "$bin/ferry" grpc --stats "$work/bear" -- bear -- cc -c one.c || fail "bear ended with $?"
  grep -q '"file": ".*/one.c"' compile_commands.json || fail "bear saw no compiler call"
  grep -q '^tensorferry grpc from .* by shm: ' "$work/bear" || fail "bear's calls went over TCP"
fi
echo "ferry grpc runs programs with gRPC and without"

# tools/limit passes a command's status on, ends a hang with all that it started, and is patient when
# other programs keep the cores busy.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
limit=$top/tools/limit
fail() { echo "limit: $*"; exit 1; }
status_of() { local status=0; "$@" || status=$?; echo "$status"; }

[[ $(status_of "$limit" 60 true) == 0 ]] || fail "a command that succeeds"
[[ $(status_of "$limit" 60 bash -c 'exit 77') == 77 ]] || fail "a command that skips"
[[ $(status_of "$limit" 60 bash -c 'kill -9 $$') == 137 ]] || fail "a command that is killed"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[[ $(status_of "$limit" 1 bash -c "setsid sleep 987 & echo \$! >$work/orphan; sleep 987") == 124 ]] || fail "a hang"
! kill -0 "$(cat "$work/orphan")" 2>/dev/null || fail "what the command had started outlives it"

# Signals to tools/limit itself end the command: also one that comes just after the fork, which takes long here,
# and also when it is asked twice.
await() { local try; for ((try = 0; try < 1200; try++)); do "$@" && return; sleep 0.05; done; fail "in vain: $*"; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }
mkdir "$work/slow"
echo 'import os, time; os.register_at_fork(after_in_parent=lambda: time.sleep(1))' >"$work/slow/sitecustomize.py"
early=$(PYTHONPATH=$work/slow status_of "$limit" 60 bash -c "echo \$\$ >$work/early; kill -TERM \$PPID; exec sleep 987 >/dev/null")
[[ $early == 143 ]] || fail "a signal after the fork: status $early"
is_gone "$(cat "$work/early")" || { kill "$(cat "$work/early")"; fail "the command outlives a signal after the fork"; }

cat >"$work/slow_end" <<'SH'
trap 'touch "$0.asked"; until [[ -e $0.go ]]; do sleep 0.05; done; exit 0' TERM
sleep 987 &
echo $! >"$0.child"
touch "$0.ready"
wait
SH
"$limit" 60 bash "$work/slow_end" 2>"$work/err" &
pid=$!
await test -e "$work/slow_end.ready"
kill -TERM $pid
await test -e "$work/slow_end.asked"
kill -TERM $pid
sleep 1
touch "$work/slow_end.go"
status=0
wait $pid || status=$?
[[ $status == 143 ]] || fail "asked twice: status $status, $(cat "$work/err")"
is_gone "$(cat "$work/slow_end.child")" || { kill "$(cat "$work/slow_end.child")"; fail "what was asked to end twice goes on"; }

# Three spinning processes for each core: a second counts for a quarter at most.
spinners=()
for ((i = 0; i < 3 * $(nproc); i++)); do (while :; do :; done) & spinners+=($!); done
slow=$(status_of "$limit" 2 sleep 4)
kill "${spinners[@]}"
[[ $slow == 0 ]] || fail "a loaded machine ended a command early"

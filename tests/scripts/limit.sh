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

# Three spinning processes for each core: a second counts for a quarter at most.
spinners=()
for ((i = 0; i < 3 * $(nproc); i++)); do (while :; do :; done) & spinners+=($!); done
slow=$(status_of "$limit" 2 sleep 4)
kill "${spinners[@]}"
[[ $slow == 0 ]] || fail "a loaded machine ended a command early"

# `ferry doctor --report`, interrupted: its program ends with it, and the report says so.
set -euo pipefail
bin=$1
folder=$(mktemp -d)
doctor=
cleanup() {
  [[ -z $doctor ]] || kill "$doctor" 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT
[[ -x $bin/ferry_contract_tests ]] || { echo "ferry_contract_tests is not built"; exit 77; }

# say_interrupted SIGNAL STATUS
say_interrupted() {
  local child='' status=0
  rm -f "$folder/report" "$folder/out"
  "$bin/ferry" doctor --report "$folder/report" >"$folder/out" 2>&1 &
  doctor=$!
  for _ in {1..200}; do
    child=$(cat "/proc/$doctor/task/$doctor/children" 2>/dev/null || true)
    child=${child%% *}
    [[ -z $child ]] || break
    sleep 0.05
  done
  [[ -n $child ]] || { echo "no stage was started: $(cat "$folder/out")"; exit 1; }
  kill -s "$1" "$doctor"
  wait "$doctor" || status=$?
  doctor=
  [[ $status == "$2" ]] || { echo "status $status after $1: $(cat "$folder/out")"; exit 1; }
  ! kill -0 "$child" 2>/dev/null || { echo "the stage outlived the program"; exit 1; }
  grep -q '^interrupted$' "$folder/report" || { echo "report: $(tail -n 5 "$folder/report")"; exit 1; }
  grep -q 'interrupted' "$folder/out" || { echo "said: $(cat "$folder/out")"; exit 1; }
}
say_interrupted TERM 143
# A background job of a script ignores SIGINT until it is told otherwise; the program tells so itself.
say_interrupted INT 130

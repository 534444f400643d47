# Functions for ./test: run things, count what came out, say it once. Sourced, not run.
#
# Needs $top (the repository), $logs (a folder), $filter (a gtest pattern or nothing).

passed=0 failed=0 skipped=0
failures=()
current=0 # process id of the command that runs now, 0 if none
declare -A running=() ended=() # gtest programs: name by process id, exit status by name
started=()                     # "NAME|SECONDS" of each since the last finish_gtests
stage=""

say() { printf '%s\n' "$*"; }

# pass | fail NAME WHY | skip NAME WHY: counts one test.
pass() { passed=$((passed + 1)); }
fail() {
  failed=$((failed + 1))
  failures+=("$stage: $1: $2")
  say "  FAILED  $1: $2"
}
skip() {
  skipped=$((skipped + 1))
  say "  skipped $1: $2"
}

# Runs a command in the background, so that a signal to this script is acted on at once.
run() {
  "$@" 3>&- &
  current=$!
  local status=0
  wait "$current" || status=$?
  current=0
  return "$status"
}

# Ends what runs now, and with it what it started.
stop_current() {
  local pids=("${!running[@]}")
  [[ $current == 0 ]] || pids+=("$current")
  [[ ${#pids[@]} == 0 ]] || { kill -TERM "${pids[@]}" 2>/dev/null && wait "${pids[@]}" 2>/dev/null; } || true
}

# log_of NAME: where the output of NAME goes.
log_of() { printf '%s/%s.log' "$logs" "$(printf '%s' "$stage-$1" | tr -c 'A-Za-z0-9._=-' '_')"; }

show_end_of() {
  tail -n "${2:-60}" "$1" | sed 's/^/    /'
  say "    (all of it: ${1#"$top"/})"
}

# check NAME SECONDS COMMAND...: one test that passes if the command exits 0; 77 means skipped, with
# the reason as its last line.
check() {
  local name=$1 limit=$2 log status=0
  shift 2
  log=$(log_of "$name")
  run "$top/tools/limit" "$limit" "$@" >"$log" 2>&1 </dev/null || status=$?
  case $status in
    0) pass ;;
    77) skip "$name" "$(tail -n 1 "$log")" ;;
    124 | 137) show_end_of "$log"; fail "$name" "no end after $limit s" ;;
    *) show_end_of "$log"; fail "$name" "exit status $status" ;;
  esac
}

# build PRESET TARGET...: configures and builds those targets that exist. Counts only a failure.
build() {
  local preset=$1 log target known wanted=()
  shift
  log=$(log_of "build-$preset")
  if ! run cmake --preset "$preset" -S "$top" >"$log" 2>&1; then
    show_end_of "$log" && fail "configure $preset" "cmake found a problem"
    return 1
  fi
  known=$(ninja -C "$top/build/$preset" -t targets all)
  for target in "$@"; do grep -q "^$target: phony" <<<"$known" && wanted+=("$target"); done
  [[ ${#wanted[@]} -gt 0 ]] || return 0
  if ! run ninja -k 0 -C "$top/build/$preset" "${wanted[@]}" >>"$log" 2>&1; then
    grep -E -A 12 '^FAILED:|error:' "$log" | head -n 60 | sed 's/^/    /'
    fail "build $preset" "it does not compile (${log#"$top"/})"
    return 1
  fi
}

# Sums up a gtest log: "P passed count", "F failed test", "S skipped test<TAB>reason", "R test that
# was running at the end".
gtest_events() {
  awk '
    function name(line) { sub(/.*\] /, "", line); sub(/(, where .*)? \([0-9]+ ms\)$/, "", line); return line }
    /\[ RUN      \] / { running = name($0); reason = ""; grab = 0; next }
    /\[       OK \] .* \([0-9]+ ms\)$/ { count++; running = ""; next }
    /\[  FAILED  \] .* \([0-9]+ ms\)$/ { print "F\t" name($0); running = ""; next }
    /\[  SKIPPED \] .* \([0-9]+ ms\)$/ { print "S\t" name($0) "\t" reason; running = ""; next }
    /: Skipped$/ { grab = 1; next }
    grab && NF { reason = reason (reason == "" ? "" : " ") $0 }
    END { print "P\t" count + 0; if (running != "") print "R\t" running }' "$1"
}

# count_gtest NAME LOG STATUS SECONDS: adds what a gtest program wrote to the totals.
count_gtest() {
  local name=$1 log=$2 status=$3 limit=$4 kind what reason running="" before=$failed here_failed
  local here_passed=0 here_skipped=$skipped
  while IFS=$'\t' read -r kind what reason; do
    case $kind in
      P) here_passed=$what; passed=$((passed + what)) ;;
      F) fail "$name: $what" "an expectation was not met" ;;
      S) skip "$name: $what" "${reason:-it does not say why}" ;;
      R) running=$what ;;
    esac
  done < <(gtest_events "$log")
  here_skipped=$((skipped - here_skipped))
  if [[ $status == 124 || $status == 137 ]]; then
    fail "$name" "no end after $limit s${running:+, in $running}"
  elif [[ -n $running ]]; then
    fail "$name: $running" "the program ended in the middle of it with status $status"
  elif [[ $status != 0 && $failed == "$before" ]]; then
    fail "$name" "exit status $status, though no test failed"
  elif [[ $here_passed == 0 && $here_skipped == 0 && $failed == "$before" && -z $filter ]]; then
    fail "$name" "it ran no tests"
  fi
  here_failed=$((failed - before))
  [[ $here_failed == 0 ]] || show_end_of "$log" 120
  say "  $name: $here_passed passed, $here_failed failed, $here_skipped skipped"
}

# start_gtest NAME SECONDS COMMAND...: runs a gtest program, two at a time: much of what they do is wait.
start_gtest() {
  local name=$1 limit=$2
  shift 2
  [[ ${#running[@]} -lt 2 ]] || await_gtest
  "$top/tools/limit" "$limit" "$@" --gtest_color=no ${filter:+"--gtest_filter=$filter"} >"$(log_of "$name")" 2>&1 </dev/null 3>&- &
  running[$!]=$name
  started+=("$name|$limit")
}

await_gtest() {
  local pid status=0
  wait -n -p pid "${!running[@]}" || status=$?
  ended[${running[$pid]}]=$status
  unset "running[$pid]"
}

# Waits for all that were started, and counts their cases.
finish_gtests() {
  local line name
  while [[ ${#running[@]} -gt 0 ]]; do await_gtest; done
  for line in "${started[@]}"; do
    name=${line%|*}
    count_gtest "$name" "$(log_of "$name")" "${ended[$name]}" "${line#*|}"
  done
  started=() ended=()
}

# The runtimes of the sanitizers cannot place their shadow where addresses are very random.
fixed_addresses() {
  if setarch -R true 2>/dev/null; then echo "setarch -R"; fi
}

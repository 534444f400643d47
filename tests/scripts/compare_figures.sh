# tools/compare-figures names the rows that are slower beyond their interval, and no others. The two "builds" are scripts
# that write reports.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "compare_figures: $*"; exit 1; }

# build NAME NS RATE SECONDS: a program whose rounds, rates and steps are these, and 1 to 3 % more from run to run.
build() {
  mkdir -p "$work/$1"
  cat >"$work/$1/ferry" <<PY
#!/usr/bin/env python3
import json, pathlib, sys
runs = pathlib.Path(__file__).with_suffix(".runs")
with open(runs, "a") as file:
    file.write("$1\n")
noise = 1 + len(runs.read_text().split()) % 3 / 100
suite, report = sys.argv[2], sys.argv[sys.argv.index("--json") + 1]
def cells(ns):
    return [{"bytes": 64, "median_ns": ns * noise}, {"bytes": 1 << 20, "median_ns": 5000 * noise}]
rounds = {"produce": False, "touch": "page", "variants": [
    {"title": "ours", "owner": "ours", "results": cells($2)}, {"title": "theirs", "owner": "peer", "results": cells(1)}]}
figures = {"figures": [{"what": "pushes", "ours": [$3 * noise], "unit": "GB/s"},
                       {"what": "skipped", "ours": [], "unit": "ms"}]}
models = {"models": [{"model": "gru", "paths": [{"transport": "ferry", "failed": "", "step_seconds": [$4 * noise]}]}]}
json.dump({"ps": figures, "models": models}.get(suite, rounds), open(report, "w"))
PY
  chmod +x "$work/$1/ferry"
}
build old 100 10 0.1
build new 150 9 0.08
compare() { "$top/tools/compare-figures" "$@" 2>"$work/err"; }

said=$(compare "$work/old" "$work/new" --suites transfer,ps,models --json "$work/rows.json") || fail "$(cat "$work/err")"
[[ $(grep -c '^slower beyond the interval: ' <<<"$said") == 2 ]] || fail "$said"
grep -q '^slower beyond the interval: transfer: ours, 64 B: 1.5' <<<"$said" || fail "$said"
grep -q '^slower beyond the interval: ps: pushes: 1.1' <<<"$said" || fail "$said"
grep -qE '^models +gru, ferry +0.8.* faster$' <<<"$said" || fail "$said"
grep -q '^4 rows, 2 slower and 1 faster' <<<"$said" || fail "$said"
! grep -q theirs <<<"$said" || fail "a peer is a row"
python3 - "$work" <<'PY'
import json, sys
report = json.load(open(f"{sys.argv[1]}/rows.json"))
assert report["rounds"] == 6 and all(len(row["old"]) == len(row["new"]) == 6 for row in report["rows"]), report
PY
# In turns, and each is first as often as the other.
[[ $(sed -n 's/^transfer, round \([0-9]\) of 6, \(.*\)$/\2/p' "$work/err" | tr '\n' ' ') == "old new new old old new new old old new new old " ]] ||
  fail "$(cat "$work/err")"

status=0
compare "$work/old" "$work/new" --suites ps --check >/dev/null || status=$?
[[ $status == 1 ]] || fail "--check: status $status"
compare "$work/old" "$work/old" --check >"$work/out" || fail "a build is slower than itself: $(cat "$work/out")"
said=$(compare "$work/old" "$work/new" --suites ps --rounds 2 --check) || fail "two rounds have no interval"
grep -q 'fewer than 6 rounds give no interval' <<<"$said" || fail "$said"

printf '#!/bin/sh\necho cannot do that; exit 3\n' >"$work/new/ferry"
refuse() {
  local text=$1 status=0
  shift
  compare "$@" >/dev/null || status=$?
  [[ $status == 2 ]] && grep -qF -- "$text" "$work/err" || fail "status $status, and not '$text': $(cat "$work/err")"
}
refuse "ended with status 3" "$work/old" "$work/new" --suites ps
refuse "cannot do that" "$work/old" "$work/new" --suites ps
refuse "there is no suite 'x'" "$work/old" "$work/new" --suites x
refuse "there is no program $work/nothing/ferry" "$work/old" "$work/nothing"
refuse "--rounds is at least 1" "$work/old" "$work/new" --rounds 0
refuse "--help" "$work/old"

# hollow REPORT: a build whose report is of no use.
hollow() {
  printf '#!/bin/sh\nfor report; do :; done\ncat >"$report" <<END\n%s\nEND\n' "$1" >"$work/new/ferry"
}
hollow '{"models": [{"model": "gru", "paths": [{"transport": "ferry", "failed": "", "step_seconds": []}]}]}'
refuse "cannot be read (StatisticsError: " "$work/old" "$work/new" --suites models
hollow '{"figures": 7}'
refuse "cannot be read (TypeError: " "$work/old" "$work/new" --suites ps

# The counting of ./test must see passed, failed, skipped, crashed and endless test programs as they are.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$top/tools/test-lib.sh"
logs=$(mktemp -d) filter="" stage=sample
trap 'rm -rf "$logs"' EXIT

# expect COUNTS STATUS LOG: what a program with this output and exit status adds to the totals.
expect() {
  passed=0 failed=0 skipped=0
  printf "$3" >"$logs/log"
  count_gtest sample "$logs/log" "$2" 10 >"$logs/said"
  [[ "$passed $failed $skipped" == "$1" ]] || { echo "expected $1, got $passed $failed $skipped for:"; cat "$logs/log"; exit 1; }
}
ok='[ RUN      ] A.b\n[       OK ] A.b (0 ms)\n'
bad='[ RUN      ] A/P.c/2\nx.cc:1: Failure\n[  FAILED  ] A/P.c/2, where GetParam() = 9 (6 ms)\n'
left='[ RUN      ] A.d\nx.cc:4: Skipped\nno NIC\n[  SKIPPED ] A.d (0 ms)\n'
summary='[  PASSED  ] 1 test.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A/P.c/2, where GetParam() = 9\n'
expect "2 0 0" 0 "$ok$ok"
expect "1 1 1" 1 "$ok$bad$left$summary"
grep -q 'skipped sample: A.d: no NIC' "$logs/said"
expect "1 1 0" 134 "${ok}[ RUN      ] A.e\n"          # crashed in a test
expect "1 1 0" 124 "${ok}[ RUN      ] A.e\n"          # never ended
expect "1 1 0" 1 "$ok"                              # failed outside of a test
expect "0 1 0" 0 "Running main()\n"                 # ran nothing
expect "0 1 0" 127 ""                               # did not start
expect "1 0 0" 0 "noise without newline$ok"

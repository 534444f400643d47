# Sourced by scripts that try `ferry ps`. They set: ferry, the program; folder, for its output.

limit=$(dirname "${BASH_SOURCE[0]}")/../../tools/limit
source "$(dirname "${BASH_SOURCE[0]}")/complaints.sh"

# expect STATUS PATTERN ARGUMENT...: how `ferry ps` ends, and what it says on standard error.
expect() {
  local expected=$1 pattern=$2 status=0
  shift 2
  "$limit" 60 "$ferry" ps "$@" >"$folder/out" 2>"$folder/err" || status=$?
  [[ $status == "$expected" ]] && { [[ -z $pattern ]] || grep -q -- "$pattern" "$folder/err"; } || {
    echo "ferry ps $*: status $status, $(cat "$folder/err"); expected $expected and '$pattern'"
    exit 1
  }
}

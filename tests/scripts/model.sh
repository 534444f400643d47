#!/usr/bin/env bash
# Checks the models of the transfer protocols over every interleaving within their bounds, and that a broken rule is
# found.
set -eu
models=$(cd "$(dirname "$0")/../model" && pwd)
command -v spin >/dev/null || { echo "spin is not installed (tools/packages.txt)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# errors NAME [-DBROKEN]: what the checker says, for example "errors: 0".
errors() {
  local name=$1
  shift
  spin -a "$@" "$models/$name.pml" >spin.log 2>&1 || { cat spin.log >&2; return 1; }
  gcc -O1 -w -DSAFETY -DMEMLIM=2000 -o pan pan.c
  timeout 120 ./pan -m1000000 -w22 >pan.log 2>&1 || { cat pan.log >&2; return 1; }
  if grep -q "search depth too small\|out of memory" pan.log; then
    cat pan.log >&2
    return 1
  fi
  grep -o "errors: [0-9]*" pan.log
}

for model in "$models"/*.pml; do
  name=$(basename "$model" .pml)
  right=$(errors "$name")
  states=$(grep -o "[0-9.e+]* states, stored" pan.log)
  broken=$(errors "$name" -DBROKEN)
  echo "$name: $right in $states; with its rule broken $broken"
  [[ $right == "errors: 0" && $broken != "errors: 0" ]] || { echo "$name is not as it must be" >&2; exit 1; }
done

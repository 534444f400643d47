# pslite.sh BIN PROVIDER: programs for ps-lite, each on 1 to 4 servers by 1 to 4 workers. What they
# check ends them with a message.
set -euo pipefail
export FERRY_TUNING=off
bin=$1 provider=$2
ferry=$bin/ferry
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

for counts in {1,2,3,4}x{1,2,3,4}; do
  for program in connection simple_app kv_app customers push_pull; do
    expect 0 '' --local $counts --pslite --provider "$provider" -- "$bin/pslite_$program"
    [[ -z $(complaints "$folder/err") ]] || { echo "$program, $counts, $provider: $(cat "$folder/err")"; exit 1; }
  done
done

# What programs use besides stores, and dmlc-core beside it.
expect 0 '' --local 2x2 --pslite --provider "$provider" -- "$bin/pslite_interface"
[[ -z $(complaints "$folder/err") ]] || { echo "interface, $provider: $(cat "$folder/err")"; exit 1; }
"$bin/pslite_core_before"
"$bin/pslite_core_after"

# Any process that fails makes the job fail, by name, and ends the others.
for role in scheduler server worker; do
  expect 1 "$role.* exited with status 7" --local 2x2 --pslite --provider "$provider" -- \
    "$bin/pslite_connection" $role 0 7
  expect 1 "$role.* was killed by signal 6" --local 2x2 --pslite --provider "$provider" -- \
    "$bin/pslite_connection" $role 0 abort
  grep -q 'Check failed: how != "abort"' "$folder/err" || { cat "$folder/err"; exit 1; }
done
expect 1 'worker . exited with status 9' --local 4x4 --pslite --provider "$provider" -- \
  "$bin/pslite_connection" worker 3 9

# pslite_customers.sh BIN PROVIDER: worker processes whose threads are customers, each of which calls Start().
set -euo pipefail
export FERRY_TUNING=off
bin=$1 provider=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
source "$(dirname "${BASH_SOURCE[0]}")/dmlc_local.sh"

# expect SERVERS WORKERS PROCESSES CUSTOMERS: the job ends well and has nothing to say.
expect() {
  dmlc_job "$1" "$2" "$3" "$bin/pslite_multi_workers" "$4" && [[ -z $(complaints "$folder/job") ]] || {
    echo "$1 servers, $2 workers declared, $3 processes of $4 customers: $(cat "$folder/job")"
    exit 1
  }
}
expect 2 2 1 2 # every customer is declared, as in ps-lite's local_multi_workers.sh 2 2
expect 1 6 2 3
expect 2 1 1 2 # the customers share one rank
expect 1 1 1 4

# A process that leaves while one of its customers waits at a barrier: the others meet there.
dmlc_job 1 2 2 "$bin/pslite_leave_in_barrier" "$folder" || { cat "$folder/job"; exit 1; }

# One process more than there are ranks: the others go on without it. They wait for it to have come.
dmlc_job 1 1 2 "$bin/pslite_multi_workers" 1 "$folder/go" &
job=$!
refused() { grep -q 'one worker more than declared has come' "$folder/job"; }
for ((try = 0; try < 2400; try++)); do
  ! refused || break
  sleep 0.05
done
touch "$folder/go"
if wait $job; then
  echo "a worker too many was not refused"
  exit 1
fi
refused || { cat "$folder/job"; exit 1; }

# Sourced by scripts that start programs for ps-lite by hand, as ps-lite's own scripts do: with DMLC_*
# variables and nothing else. They set: folder, for the output; provider.

limit=$(dirname "${BASH_SOURCE[0]}")/../../tools/limit
source "$(dirname "${BASH_SOURCE[0]}")/complaints.sh"

# free_port: below those that the kernel hands out; nobody listens there.
free_port() {
  local port
  for _ in {1..100}; do
    port=$((20000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo $port; return; }
  done
  echo "no port is free" >&2
  return 1
}

# dmlc_job SERVERS WORKERS PROCESSES PROGRAM...: one scheduler, SERVERS servers, and PROCESSES processes with the
# role of a worker, of which WORKERS are declared. 0 if all of them end well within a minute, or longer on a loaded
# machine; "$folder/job" has what they say.
dmlc_job() {
  local servers=$1 workers=$2 processes=$3 port role each status=0 pids=()
  shift 3
  port=$(free_port)
  local job=(env DMLC_NUM_SERVER="$servers" DMLC_NUM_WORKER="$workers" DMLC_PS_ROOT_URI=127.0.0.1
    DMLC_PS_ROOT_PORT="$port" FERRY_PROVIDER="$provider" "$limit" 60)
  : >"$folder/job"
  for role in scheduler $(yes server | head -n "$servers") $(yes worker | head -n "$processes"); do
    DMLC_ROLE=$role "${job[@]}" "$@" >>"$folder/job" 2>&1 &
    pids+=($!)
  done
  for each in "${pids[@]}"; do wait "$each" || status=$?; done
  return $status
}

#!/usr/bin/env bash
# Runs inside the two guests of tools/rdma-vm: a parameter server over kernel verbs. The scheduler is on
# guest 1, a server on each, a worker on guest 1 and two on guest 2, which compare what they pull with a
# sequential model, bit by bit. Argument: the folder of the programs.
set -eu
bin=$1
export FERRY_SECRET="the secret of these tests" # which the workers' program has
scheduler=10.77.0.1:7200
pids=()
if [[ $RDMA_HOST == 1 ]]; then
  "$bin/ferry" ps --role scheduler --listen $scheduler --servers 2 --workers 3 --block 16K --provider verbs &
  pids+=($!)
fi
for _ in {1..200}; do
  (exec 3<>/dev/tcp/10.77.0.1/7200) 2>/dev/null && break
  sleep 0.2
done
"$bin/ferry" ps --role server --scheduler $scheduler --listen "$RDMA_ADDRESS:0" --provider verbs &
pids+=($!)
ranks=(0)
[[ $RDMA_HOST == 1 ]] || ranks=(1 2)
# 3 workers, 3 steps, nobody dies, 30,011 values in each of two tensors, three times the usual patience.
for rank in "${ranks[@]}"; do
  "$bin/ferry_ps_tests" --role train $scheduler verbs "$rank" 3 3 4294967295 3 none 30011 3 0 0 0 &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
echo "weights of the workers of guest $RDMA_HOST: equal over verbs and in sequence"

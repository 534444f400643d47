#!/usr/bin/env bash
# Runs inside the two guests of tools/rdma-vm: trains across them over kernel verbs, and compares the
# weights with one process's, bit by bit. Argument: the folder of the program ferry.
set -eu
ferry=$1/ferry
folder=$(mktemp -d)
options=(--model mlp --batch 8 --steps 4 --optimizer sgd --rate 0.1 --threads 1)
cat >"$folder/cluster.json" <<J
{"ps": ["10.77.0.1:7000", "10.77.0.2:7000"], "worker": ["10.77.0.1:7001", "10.77.0.2:7001"]}
J
export FERRY_SECRET=known-to-both-guests
number=$((RDMA_HOST - 1))
pids=()
for job in ps worker; do
  "$ferry" run --cluster "$folder/cluster.json" --task "/job:$job/task:$number" --provider verbs \
    --patience 120 --checkpoints "$folder/many" "${options[@]}" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
"$ferry" train --one-process --no-test --workers 2 --ps 2 --checkpoints "$folder/one" "${options[@]}"
mine=$(cd "$folder/many" && find . -type f -name "*ps-task-$number*")
[[ -n $mine ]] || { ls -lR "$folder/many" >&2; echo "the server saved nothing" >&2; exit 1; }
cmp "$folder/many/$mine" "$folder/one/$mine"
echo "weights of /job:ps/task:$number: equal over verbs and in one process"

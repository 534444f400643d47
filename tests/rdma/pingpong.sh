#!/usr/bin/env bash
# Runs inside the guests of tools/rdma-vm: does RDMA itself work there? 100 round trips of 4 KiB.
set -eu
round_trips=(ibv_rc_pingpong -d "$RDMA_DEVICE" -g 1 -s 4096 -n 100 -c)
connect() {
  for _ in {1..50}; do
    if "${round_trips[@]}" "$1"; then return 0; fi
    sleep 0.2
  done
  echo "no answer from $1" >&2
  return 1
}
if [[ $RDMA_PEER == "$RDMA_ADDRESS" ]]; then
  "${round_trips[@]}" &
  connect "$RDMA_ADDRESS"
  wait $!
elif [[ $RDMA_HOST == 1 ]]; then
  "${round_trips[@]}"
else
  connect "$RDMA_PEER"
fi

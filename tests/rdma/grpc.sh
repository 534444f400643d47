#!/bin/bash
# grpc.sh: gRPC calls between two guests, by verbs. Run on both by tools/rdma-vm --hosts 2 --ends-with 2.
set -euo pipefail
export FERRY_GRPC_PROVIDER=verbs FERRY_SECRET=a-secret-for-two-guests FERRY_GRPC_PATIENCE=30 FERRY_GRPC_STATS=1
export FERRY_GRPC_LISTEN=$RDMA_ADDRESS:0 FERRY_LOG=info
if [ "$RDMA_HOST" = 1 ]; then
  tail -f /dev/null | ./ferry_grpc_plugin_tests --serve "$RDMA_ADDRESS:7100"
else
  status=0
  ./ferry_grpc_plugin_tests --client "$RDMA_PEER:7100" 3 2> /tmp/said || status=$?
  cat /tmp/said
  [ $status = 0 ]
  grep -q '^tensorferry grpc to .* by verbs: ' /tmp/said
  echo "gRPC calls went by verbs"
fi

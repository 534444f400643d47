#!/bin/bash
# grpc_python.sh BIN: Python's gRPC has a copy of gRPC inside, which the plug-in cannot serve. A program that uses
# it works over TCP, and says in one line that it does. Debian's package is tried, and pip's if it can be had.
set -euo pipefail
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -e "$bin/../lib/libferry_grpc.so" ]; then
  echo "the plug-in for gRPC was not built"
  exit 77
fi
if ! /usr/bin/python3 -c 'import grpc' 2> /dev/null; then
  echo "python3-grpcio is not installed"
  exit 77
fi

fail() { echo "$1"; exit 1; }

cat > "$work/echo.py" <<'END'
import concurrent.futures
import grpc

class Echo(grpc.GenericRpcHandler):
  def service(self, details):
    return grpc.unary_unary_rpc_method_handler(lambda request, context: request)

server = grpc.server(concurrent.futures.ThreadPoolExecutor(1), handlers=[Echo()])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
  said = channel.unary_unary("/test/Echo")(b"x" * 100000, timeout=60)
print("fine" if said == b"x" * 100000 else "not the bytes that were sent")
server.stop(None)
END

# check_python WHAT PYTHON: one line that names the copy; nothing without the plug-in or with it off.
check_python() {
  timeout 60 "$bin/ferry" grpc -- "$2" "$work/echo.py" > "$work/out" 2> "$work/err" || fail "$1: status $?, $(cat "$work/err")"
  grep -qx fine "$work/out" || fail "$1: $(cat "$work/out")"
  [ "$(grep -c 'gRPC in .*cygrpc.* stays on TCP: ' "$work/err")" = 1 ] || fail "$1: the line is missing, or there are more: $(cat "$work/err")"
  FERRY_GRPC=off timeout 60 "$bin/ferry" grpc -- "$2" "$work/echo.py" > "$work/out" 2> "$work/err" || fail "$1: status $?"
  ! grep -q 'stays on TCP' "$work/err" || fail "$1: said though the plug-in is off: $(cat "$work/err")"
}
check_python "Debian's grpcio" /usr/bin/python3

# A Python program without gRPC, though it uses epoll, is told nothing.
timeout 60 "$bin/ferry" grpc -- /usr/bin/python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0))' 2> "$work/err" || fail "status $?"
[ ! -s "$work/err" ] || fail "said of a program without gRPC: $(cat "$work/err")"

pip="pip's was left out, because it could not be installed"
if timeout 90 python3 -m venv "$work/venv" > "$work/log" 2>&1 &&
    timeout 90 "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 0 --timeout 10 \
      --only-binary :all: grpcio >> "$work/log" 2>&1; then
  check_python "pip's grpcio" "$work/venv/bin/python"
  pip="so does pip's"
fi
echo "a program with Debian's python3-grpcio says that it stays on TCP; $pip"

# `ferry mount`: the model as files, driven by cp, dd, python3 with numpy, and fio.
set -euo pipefail
export FERRY_TUNING=off
ferry=$1/ferry
[[ -e /dev/fuse ]] || { echo "there is no /dev/fuse"; exit 77; }
"$ferry" mount --help >/dev/null
folder=$(mktemp -d)
pids=()
clean_up() {
  umount -l "$folder/m" 2>/dev/null || true
  umount -l "$folder/m2" 2>/dev/null || true
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap clean_up EXIT
export FERRY_SECRET=the-files-of-a-test

wait_for() { # COMMAND...: until it succeeds
  for _ in {1..1200}; do "$@" >/dev/null 2>&1 && return 0; sleep 0.05; done
  echo "in vain: $*" >&2
  cat "$folder"/*.out >&2
  return 1
}
start_job() { # PROVIDER CONSISTENCY WORKERS
  mkdir -p "$folder/m" 2>/dev/null || true  # fails where a mount was killed, which the next one is to clean up
  rm -f "$folder"/*.out
  "$ferry" ps --role scheduler --servers 2 --workers "$3" --consistency "$2" >"$folder/scheduler.out" 2>&1 &
  pids+=($!)
  wait_for grep -q "scheduler at" "$folder/scheduler.out"
  at=$(sed -n 's/^scheduler at //p' "$folder/scheduler.out")
  for _ in 1 2; do
    "$ferry" ps --role server --scheduler "$at" --provider "$1" >>"$folder/server.out" 2>&1 &
    pids+=($!)
  done
  "$ferry" mount "$at" "$folder/m" --provider "$1" --patience 120 >"$folder/mount.out" 2>&1 &
  mounted=$!
  pids+=("$mounted")
  wait_for mountpoint -q "$folder/m"
}
end_job() {
  umount "$folder/m"
  wait "$mounted" || { echo "ferry mount failed: $(cat "$folder/mount.out")"; exit 1; }
  local pid
  for pid in "${pids[@]}"; do wait "$pid" || { echo "a role failed"; cat "$folder"/*.out; exit 1; }; done
  pids=()
}
fails_with() { # TEXT COMMAND...
  local text=$1 said
  shift
  said=$(LC_ALL=C "$@" 2>&1) && { echo "went well: $*"; exit 1; }
  grep -q "$text" <<<"$said" || { echo "$*: '$said', not '$text'"; exit 1; }
}

# make_tensor FOLDER META. Redirections of bash do not report that a close has failed; cp does.
make_tensor() {
  echo "$2" >"$folder/meta"
  cp "$folder/meta" "$1/meta"
}

for provider in shm tcp; do
  start_job $provider async 1
  m=$folder/m
  mkdir -p "$m/conv1/w"
  make_tensor "$m/conv1/w" '{"shape": [256, 1024], "update": "sum"}'
  mkdir "$m/table"
  head -c 4194304 /dev/urandom >"$folder/first"
  cp "$folder/first" "$m/table/value"
  make_tensor "$m/table" '{"shape": [1048576], "update": "assign"}'
  [[ $(ls "$m" | tr '\n' ' ') == "conv1 grad meta model table " ]] || { ls "$m"; exit 1; }
  [[ $(stat -c %s "$m/conv1/w/grad") == 1048576 ]] || { ls -lR "$m"; cat "$folder"/*.out; exit 1; }
  cmp "$folder/first" "$m/table/value"
  # cp: two gradients are added up.
  /usr/bin/python3 -c "import numpy as np; np.arange(262144, dtype=np.float32).tofile('$folder/g')"
  cp "$folder/g" "$m/conv1/w/grad"
  cp "$folder/g" "$m/conv1/w/grad"
  # dd: four writers at a time, parts of a tensor.
  head -c 4194304 /dev/urandom >"$folder/second"
  writers=()
  for part in 0 1 2 3; do
    dd if="$folder/second" of="$m/table/value" bs=64K skip=$((part * 16)) seek=$((part * 16)) count=16 conv=notrunc,fsync status=none &
    writers+=($!)
  done
  for pid in "${writers[@]}"; do wait "$pid"; done
  cmp "$folder/second" "$m/table/value"
  # numpy, at offsets, and the whole model as one file.
  /usr/bin/python3 - "$m" <<'PY'
import json, mmap, os, sys
import numpy as np
m = sys.argv[1]
w = np.fromfile(f"{m}/conv1/w/value", np.float32)
assert (w == 2 * np.arange(262144, dtype=np.float32)).all(), w
with open(f"{m}/conv1/w/grad", "r+b") as f:
    f.seek(4 * 1000)
    np.full(10, 0.5, np.float32).tofile(f)
now = np.fromfile(f"{m}/conv1/w/value", np.float32)
assert (now - w)[1000:1010].tolist() == [0.5] * 10 and np.count_nonzero(now != w) == 10
meta = json.load(open(f"{m}/meta"))
assert [(t["name"], t["offset"]) for t in meta] == [("conv1/w", 0), ("table", 1048576)], meta
assert np.array_equal(np.fromfile(f"{m}/model", np.float32)[:262144], now)
np.ones(262144 + 1048576, np.float32).tofile(f"{m}/grad")
assert np.array_equal(np.fromfile(f"{m}/conv1/w/value", np.float32), now + 1)
assert (np.fromfile(f"{m}/table/value", np.float32) == 1).all()
fd = os.open(f"{m}/table/value", os.O_RDWR)
os.pwrite(fd, np.full(4, 7, np.float32).tobytes(), 16)
os.fsync(fd)
os.close(fd)
table = np.fromfile(f"{m}/table/value", np.float32)
assert table[:10].tolist() == [1] * 4 + [7] * 4 + [1] * 2, table[:10]
fd = os.open(f"{m}/table/value", os.O_RDWR)
try:
    mmap.mmap(fd, 4096)
    raise SystemExit("mapped")
except OSError as error:
    assert error.errno == 19, error
os.close(fd)
PY
  fails_with "File too large" bash -c "echo x >>$m/table/value"
  fails_with "File too large" dd if=/dev/zero of="$m/table/value" bs=4K seek=1024 count=1 conv=notrunc status=none
  fails_with "Permission denied" cp "$folder/g" "$m/conv1/w/value"
  fails_with "not permitted" touch "$m/conv1/w/other"
  fails_with "not permitted" rm "$m/conv1/w/grad"
  fails_with "No such file" cat "$m/nothing/value"
  mkdir "$m/wrong"
  echo '{"shape": [-1]}' >"$folder/wrong"
  fails_with "Invalid argument" cp "$folder/wrong" "$m/wrong/meta"
  grep -q "'shape' has -1, which is no dimension" "$folder/mount.out"
  rmdir "$m/wrong"
  # 1 GiB, four writers at a time.
  if [[ $provider == shm && $(awk '/MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo) -ge 8 ]]; then
    mkdir "$m/big"
    make_tensor "$m/big" '{"shape": [268435456], "update": "assign"}'
    /usr/bin/python3 -c "import numpy as np; np.arange(268435456, dtype=np.uint32).tofile('$folder/large')"
    writers=()
    for part in 0 1 2 3; do
      dd if="$folder/large" of="$m/big/grad" bs=1M skip=$((part * 256)) seek=$((part * 256)) count=256 conv=notrunc status=none &
      writers+=($!)
    done
    for pid in "${writers[@]}"; do wait "$pid"; done
    sync "$m/big/grad"
    cmp "$folder/large" "$m/big/value"
    rm "$folder/large"
  fi
  if command -v fio >/dev/null; then
    fio --name=v --filename="$m/table/value" --size=4M --bs=256k --rw=randwrite --ioengine=psync --verify=crc32c \
      --verify_fatal=1 --verify_state_save=0 --do_verify=1 --end_fsync=1 --fallocate=none --overwrite=1 --output="$folder/fio.out" || { cat "$folder/fio.out"; exit 1; }
    cp "$m/table/value" "$folder/written"
    cmp "$folder/written" "$m/table/value"
  fi
  end_job
done

# A synchronous job: closing pushes nothing, fsync is the step.
start_job auto sync 1
mkdir "$m/w"
make_tensor "$m/w" '{"shape": [4], "update": "sgd", "rate": 0.5}'
/usr/bin/python3 - "$m" <<'PY'
import os, sys
import numpy as np
m = sys.argv[1]
for step in range(3):
    with open(f"{m}/w/grad", "wb", buffering=0) as f:
        f.write(np.full(4, 2, np.float32).tobytes())
        before = np.fromfile(f"{m}/w/value", np.float32)[0]
        assert before == -step, before
        os.fsync(f.fileno())
assert np.fromfile(f"{m}/w/value", np.float32).tolist() == [-3] * 4
np.full(4, 2, np.float32).tofile(f"{m}/w/grad")
assert np.fromfile(f"{m}/w/value", np.float32).tolist() == [-3] * 4
assert np.fromfile(f"{m}/w/grad", np.float32).tolist() == [2] * 4
PY
sync "$m/w/grad"
[[ $(od -An -tf4 "$m/w/value" | tr -s ' ') == " -4 -4 -4 -4" ]]
end_job

# Two workers train a classifier of text through two mounts, in step.
start_job auto sync 2
mkdir -p "$folder/m2"
"$ferry" mount "$at" "$folder/m2" >"$folder/mount2.out" 2>&1 &
pids+=($!)
wait_for mountpoint -q "$folder/m2"
/usr/bin/python3 "$(dirname "$0")/../../examples/files/classify.py" "$m" 0 2 60 >"$folder/worker0" &
worker=$!
/usr/bin/python3 "$(dirname "$0")/../../examples/files/classify.py" "$folder/m2" 1 2 60 >"$folder/worker1"
wait "$worker"
right=$(sed -n 's/.* \([0-9]*\)\.[0-9] % of .*/\1/p' "$folder/worker0")
[[ $right -ge 55 ]] || { cat "$folder/worker0"; exit 1; }
cmp "$m/model" "$folder/m2/model"
umount "$folder/m2"
end_job

# A mount that is killed: another one takes its place. What is not ours is left alone.
start_job auto async 1
mkdir "$m/w"
kill -9 "$mounted"
wait "$mounted" 2>/dev/null || true
fails_with "not connected" ls "$m"
# Another process is about to unmount there: this one waits for it, and unmounts nothing meanwhile.
exec 8<"$folder"
flock 8
"$ferry" mount "$at" "$m" --patience 20 >"$folder/mount2.out" 2>&1 8<&- &
waits=$!
sleep 1
grep -q " $m " /proc/self/mountinfo || { echo "a folder was unmounted under the lock of another"; exit 1; }
kill -9 "$waits"
wait "$waits" 2>/dev/null || true
exec 8<&-
for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
wait 2>/dev/null || true
pids=()
start_job auto async 1
mkdir "$m/v"
[[ $(ls "$m" | tr '\n' ' ') == "grad meta model v " ]] || { ls "$m"; exit 1; }
[[ $(grep -c " $m " /proc/self/mountinfo) == 1 ]] || { grep " $m " /proc/self/mountinfo; exit 1; }
grep -q "unmounted $m, whose" "$folder/mount.out" || { cat "$folder/mount.out"; exit 1; }
rmdir "$m/v"
if [[ -x $1/ferry-peer-fuse-ram ]]; then
  mkdir -p "$folder/m2"
  "$1/ferry-peer-fuse-ram" "$folder/m2" 4096 >"$folder/ram.out" 2>&1 &
  other=$!
  wait_for mountpoint -q "$folder/m2"
  kill -9 "$other"
  wait "$other" 2>/dev/null || true
  fails_with "not connected" "$ferry" mount "$at" "$folder/m2"
  grep -q " $folder/m2 " /proc/self/mountinfo || { echo "a mount of another kind was unmounted"; exit 1; }
  umount -l "$folder/m2"
  rmdir "$folder/m2"
fi
end_job

# A server that dies: errors with a name, and the mount can still be unmounted.
start_job auto async 1
mkdir "$m/w"
make_tensor "$m/w" '{"shape": [1000], "update": "assign"}'
kill -9 "${pids[1]}" "${pids[2]}"
cannot_read() { [[ $(LC_ALL=C cat "$m/w/value" 2>&1 >/dev/null) == *"not connected"* ]]; }
wait_for cannot_read
fails_with "not connected\|canceled" bash -c "head -c 4000 /dev/zero >$m/w/value"
umount "$m"

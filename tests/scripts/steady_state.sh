# Training in place: what is sent in further steps costs no system call. Waiting does, and the lines
# that workers say.
set -euo pipefail
export FERRY_TUNING=off
ferry=$1/ferry
command -v strace >/dev/null || { echo "strace is not installed"; exit 77; }
strace -f -o /dev/null true 2>/dev/null || { echo "nothing can be traced here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for steps in 100 300; do
  strace -f -c -o "$folder/$steps" "$ferry" train --model mlp --workers 2 --ps 1 --steps $steps --no-test --provider shm >/dev/null
done
python3 - "$folder" <<'PY'
import sys
def calls(path):
    rows = [line.split() for line in open(path)]
    return {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit()}
few, many = (calls(f"{sys.argv[1]}/{steps}") for steps in (100, 300))
assert many["mmap"] > 0, many
transfer = ["mmap", "munmap", "mremap", "madvise", "brk", "memfd_create", "ftruncate", "membarrier", "sendto",
            "sendmsg", "writev", "process_vm_readv", "process_vm_writev", "io_uring_enter"]
more = {name: many.get(name, 0) - few.get(name, 0) for name in transfer}
# Two workers send 24 tensors in a step.
assert sum(abs(count) for count in more.values()) < 100, more
PY

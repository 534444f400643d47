# Commands that start processes, ended by each signal: nothing runs on, and no folder is left.
set -euo pipefail
export FERRY_TUNING=off
bin=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
/usr/bin/python3 - "$bin" "$folder" <<'PY'
import atexit, os, signal, subprocess, sys, time

bin, folder = sys.argv[1:]
ferry = bin + "/ferry"
LIMIT = 90


def stat_of(pid):  # state and parent, or None
    try:
        fields = open(f"/proc/{pid}/stat").read().rpartition(") ")[2].split()
        return fields[0], int(fields[1])
    except (OSError, IndexError):
        return None


def runs(pid):
    stat = stat_of(pid)
    return stat is not None and stat[0] != "Z"


def below(pid):
    parents = {int(p): stat_of(p) for p in os.listdir("/proc") if p.isdigit()}
    found, todo = [], [pid]
    while todo:
        above = todo.pop()
        children = [p for p, stat in parents.items() if stat and stat[1] == above]
        found += children
        todo += children
    return found


def kill_with_all_below(pid):  # after a failure of this test nothing runs on, either
    for each in [*below(pid), pid]:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass


def watch_over(process):
    atexit.register(lambda: process.poll() is None and kill_with_all_below(process.pid))
    return process


def until(what, so):
    end = time.monotonic() + LIMIT
    while not so():
        if time.monotonic() > end:
            raise SystemExit(f"in vain: {what}")
        time.sleep(0.02)


def as_usual():  # what a shell that runs scripts ignores for programs in the background
    for each in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)


def try_it(name, command, ready, victim, number, expected, stubborn=""):
    place = os.path.join(folder, "place")
    os.mkdir(place)
    notes = os.path.join(place, "notes")
    environment = dict(os.environ, TMPDIR=place, NOTES=notes, STUBBORN=stubborn)
    process = watch_over(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment,
                                          start_new_session=True, preexec_fn=as_usual))
    until(f"{name} begins", lambda: ready(process.pid, place) or process.poll() is not None)
    if process.poll() is not None:
        raise SystemExit(f"{name} has ended too soon: {process.stderr.read().decode()}")
    started = below(process.pid)
    noted = [int(word) for word in open(notes).read().split()] if os.path.exists(notes) else []
    assert set(noted) <= set(started), (noted, started)
    os.kill(victim(process.pid), number)
    until(f"{name} ends after signal {number}", lambda: process.poll() is not None)
    until(f"what {name} started ends after signal {number}", lambda: not any(map(runs, started)))
    assert process.returncode in expected, (name, number, process.returncode, process.stderr.read().decode())
    left = [each for each in os.listdir(place) if each != "notes"]
    assert not left, f"{name}, signal {number}: left in TMPDIR: {left}"
    if os.path.exists(notes):
        os.remove(notes)
    os.rmdir(place)


# A worker that starts programs of its own: one in its process group, one that goes its own way, and, if $STUBBORN is set,
# does not mind being asked to end.
WORKER = """
sleep 1000 & echo $! >>$NOTES
([[ -z ${STUBBORN-} ]] || trap '' TERM; exec setsid sleep 1001) & echo $! >>$NOTES
echo $$ >>$NOTES
wait
"""
local = [ferry, "ps", "--local", "1x2", "--", "bash", "-c", WORKER]
train = [ferry, "train", "--model", "mlp", "--batch", "8", "--steps", "1000000", "--no-test", "--threads", "1"]


def all_noted(pid, place):
    try:
        return len(open(place + "/notes").read().split()) == 6
    except OSError:
        return False


def trains(pid, place):
    return os.listdir(place) and len(below(pid)) >= 3


def itself(pid):
    return pid


def its_child(pid):
    return min(p for p in below(pid) if stat_of(p)[1] == pid)


for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL):
    expected = [128 + number, -number]
    try_it("ps --local", local, all_noted, itself, number, expected)
    try_it("train", train, trains, itself, number, expected)
try_it("ps --local", local, all_noted, its_child, signal.SIGKILL, [128 + signal.SIGKILL])
try_it("ps --local", local, all_noted, itself, signal.SIGKILL, [-signal.SIGKILL], stubborn="yes")

# nohup means what it says.
ignored = watch_over(subprocess.Popen(["nohup", *local], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      start_new_session=True, env=dict(os.environ, NOTES=folder + "/notes")))
until("ps --local begins under nohup", lambda: all_noted(ignored.pid, folder))
started = below(ignored.pid)
os.kill(ignored.pid, signal.SIGHUP)
time.sleep(0.3)
noted = [int(word) for word in open(folder + "/notes").read().split()]
assert ignored.poll() is None and all(map(runs, noted)), "ended by SIGHUP under nohup"
os.kill(ignored.pid, signal.SIGTERM)
until("it ends after SIGTERM", lambda: ignored.poll() is not None and not any(map(runs, started)))

# A program that cannot be started, and a worker that fails: named, and nothing goes on.
failed = subprocess.run([ferry, "ps", "--local", "1x1", "--", "/nowhere/program"], capture_output=True, text=True, timeout=LIMIT)
assert failed.returncode == 2 and "/nowhere/program" in failed.stderr, failed
script = 'sleep 1002 & echo $! >>$NOTES; [[ $FERRY_PS_RANK == 0 ]] || wait; until [[ $(wc -l <$NOTES) == 2 ]]; do sleep 0.05; done; exit 5'
notes = folder + "/notes2"
failed = subprocess.run([ferry, "ps", "--local", "1x2", "--", "bash", "-c", script], capture_output=True, text=True, timeout=LIMIT,
                        env=dict(os.environ, NOTES=notes))
assert failed.returncode == 1 and "exited with status 5" in failed.stderr, failed
assert not any(runs(int(pid)) for pid in open(notes).read().split())
PY

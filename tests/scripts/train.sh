# `ferry train` and `ferry explain`, from outside: real processes, real data.
set -euo pipefail
export FERRY_TUNING=off
ferry=$1/ferry
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../data" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

[[ -d /usr/share/datasets/fashion-mnist ]] || { echo "dataset-fashion-mnist is not installed"; exit 77; }

small=(--model mlp --workers 2 --ps 2 --batch 16)

# The plan: variables are read in place on one host, and sent over TCP.
"$ferry" explain "${small[@]}" --json >"$folder/shm.json"
"$ferry" explain "${small[@]}" --json --provider tcp >"$folder/tcp.json"
python3 - "$folder" <<'PY'
import json, sys
folder = sys.argv[1]
for name, ways in (("shm", {"shared": 12, "static": 12}), ("tcp", {"static": 24})):
    crossings = json.load(open(f"{folder}/{name}.json"))["crossings"]
    found = {}
    for crossing in crossings:
        found[crossing["way"]] = found.get(crossing["way"], 0) + 1
    assert found == ways, (name, found)
PY
# What a step of a job did is what was planned for it, copies included.
for model in mlp lstm-text; do
  for provider in shm tcp; do
    for traced in "" --traced; do
      # shellcheck disable=SC2086
      "$ferry" explain --model "$model" --batch 4 --provider "$provider" $traced --json >"$folder/explain$traced.json"
    done
    python3 - "$folder" "$model" <<'PY'
import json, sys
folder, model = sys.argv[1:]
plan, step = (json.load(open(f"{folder}/explain{traced}.json")) for traced in ("", "--traced"))
for key in ("tensors", "in_place", "copies", "leased"):
    assert plan["each_step"][key] == step["each_step"][key], (model, key, plan["each_step"], step["each_step"])
for planned, done in zip(plan["crossings"], step["crossings"]):
    assert planned["copies"] == done["copies"] and planned["in_place"] == done["in_place"], (planned, done)
assert plan["each_step"]["copies"] == (2 if model == "lstm-text" else 0), plan["each_step"]
PY
  done
done
"$ferry" explain "${small[@]}" --dot >"$folder/plan.dot"
head -n 1 "$folder/plan.dot" | grep -q digraph

# Transports side by side take turns and give the same loss; ours copies nothing. The middle of the
# rounds is told, and what bounds a step.
"$ferry" train "${small[@]}" --steps 20 --transport ferry,grpc --json "$folder/train.json" --html "$folder/train.html" >"$folder/train"
grep -q "^ferry, auto is .*x as fast as grpc, tcp, median of 3 rounds" "$folder/train" || { echo "no median: $(cat "$folder/train")"; exit 1; }
python3 - "$folder" <<'PY'
import json, sys
jobs = json.load(open(f"{sys.argv[1]}/train.json"))["jobs"]
assert [job["transport"] for job in jobs] == ["ferry", "grpc"], jobs
assert jobs[0]["loss"] == jobs[1]["loss"], jobs
assert jobs[0]["test_accuracy"] == jobs[1]["test_accuracy"] > 0.3, jobs
assert jobs[0]["sent"]["copies"] == 0 and jobs[0]["sent"]["in_place"] > 0, jobs
assert [[round["turn"] for round in job["rounds"]] for job in jobs] == [[0, 2, 4], [1, 3, 5]], jobs
text, page = (open(f"{sys.argv[1]}/train{end}").read() for end in ("", ".html"))
for job in jobs:
    steps = [round["step_seconds"] for round in job["rounds"]]
    told = job["step_seconds"]
    assert told["low"] == min(steps) <= told["median"] == sorted(steps)[1] <= max(steps) == told["high"], job
    assert job["seconds"] == sorted(round["seconds"] for round in job["rounds"])[1], job
    bound = job["bound"]
    assert bound["path"] == ("memory" if job["transport"] == "ferry" else "socket"), job
    assert bound["computation_seconds"] > 0 and bound["carrying_seconds"] > 0 and bound["bytes"] > 0, job
    assert bound["sentence"] in text and bound["sentence"] in page, (bound, text)
ratio = json.load(open(f"{sys.argv[1]}/train.json"))["comparisons"][0]
pairs = sorted(b["step_seconds"] / a["step_seconds"] for a, b in zip(*(job["rounds"] for job in jobs)))
assert abs(ratio["times_as_fast"]["median"] / pairs[1] - 1) < 1e-9, (ratio, pairs)
PY

# Tensors sent from registered memory. Of 12 gradients a step, all but the first step's, which is traced; over
# tcp the 12 variables too, from the first step on. With a copy before each send: none. gRPC registers nothing.
"$ferry" train "${small[@]}" --steps 20 --provider tcp --transport ferry,ferry-copy,grpc --rounds 1 --no-test \
  --json "$folder/copies.json" >"$folder/copies"
grep -q "^ferry, tcp .* 97.5 %  *- " "$folder/copies" || { echo "not 97.5 % registered: $(cat "$folder/copies")"; exit 1; }
grep -q "^grpc, tcp .* -  *-  *0$" "$folder/copies" || { echo "gRPC registers: $(cat "$folder/copies")"; exit 1; }
grep -q "shm and tcp register nothing with hardware" "$folder/copies" || { echo "nobody says what it means: $(cat "$folder/copies")"; exit 1; }
python3 - "$folder" <<'PY'
import json, sys
def told(name, job):
    return json.load(open(f"{sys.argv[1]}/{name}.json"))["jobs"][job]["registration"]
for name, job, provider, tensors, registered in (
    ("train", 0, "shm", 240, 228), ("copies", 0, "tcp", 480, 468), ("copies", 1, "tcp", 480, 0)):
    figures = told(name, job)
    assert (figures["tensors"], figures["registered"]) == (tensors, registered), (name, job, figures)
    assert figures["registered_share"] == registered / tensors, figures
    assert figures["registering_share"] is None, figures
    (only,) = figures["providers"]
    assert (only["provider"], only["hardware"]) == (provider, False) and only["registrations"] > 0, figures
    assert figures["transfer_seconds"] > 0, figures
assert told("train", 1) is None and told("copies", 2) is None
PY

# A transport alone is run once, unless more is asked for; rounds that leave checkpoints would not be alike.
"$ferry" train "${small[@]}" --steps 4 --no-test --json "$folder/once.json" >/dev/null
"$ferry" train "${small[@]}" --steps 4 --no-test --rounds 2 --json "$folder/twice.json" >/dev/null
python3 - "$folder" <<'PY'
import json, sys
for name, rounds in (("once", 1), ("twice", 2)):
    (job,) = json.load(open(f"{sys.argv[1]}/{name}.json"))["jobs"]
    assert len(job["rounds"]) == rounds and job["bound"] is None, job
PY

# Text, whose length differs from step to step, is learnt too.
"$ferry" train --model lstm-text --workers 2 --ps 1 --batch 8 --optimizer adam --rate 0.003 --steps 40 \
  --transport ferry,grpc --rounds 1 --json "$folder/text.json" >"$folder/text"
grep -q "perplexity" "$folder/text" || { echo "no perplexity: $(cat "$folder/text")"; exit 1; }
python3 - "$folder" <<'PY'
import json, sys
assert json.load(open(f"{sys.argv[1]}/train.json"))["jobs"][0]["perplexity"] is None
jobs = json.load(open(f"{sys.argv[1]}/text.json"))["jobs"]
assert jobs[0]["perplexity"] == jobs[1]["perplexity"], jobs
assert jobs[0]["test_perplexity"] == jobs[1]["test_perplexity"] < 40, jobs
PY

# A model that PyTorch made, from a file.
"$ferry" explain --model "$data/onnx/resnet.onnx" >"$folder/out"
grep -q "blocks.0.bn1.weight" "$folder/out" || { echo "not the file's weights: $(cat "$folder/out")"; exit 1; }
"$ferry" train --model "$data/onnx/lenet.onnx" --workers 2 --ps 1 --batch 16 --steps 100 --transport ferry,grpc --rounds 1 \
  --json "$folder/onnx.json" >"$folder/out"
python3 - "$folder" <<'PY'
import json, sys
jobs = json.load(open(f"{sys.argv[1]}/onnx.json"))["jobs"]
assert jobs[0]["test_accuracy"] == jobs[1]["test_accuracy"] > 0.3, jobs
PY
! "$ferry" train --model "$folder/onnx.onnx" 2>"$folder/err"
grep -q "onnx.onnx: No such file" "$folder/err" || { echo "no reason: $(cat "$folder/err")"; exit 1; }

# What is made up is said wherever the job is spoken of: no loss of emulated steps, no accuracy of random labels.
"$ferry" train --model fcn-5 --compute emulate --workers 1 --steps 2 --json "$folder/emulated.json" --html "$folder/emulated.html" >"$folder/emulated"
"$ferry" train --model "$data/onnx/resnet.onnx" --batch 4 --steps 2 --json "$folder/random.json" --html "$folder/random.html" >"$folder/random"
for kind in emulated random; do
  phrase="computation is emulated"
  [[ $kind == emulated ]] || phrase="the data is made up"
  for file in "$folder/$kind" "$folder/$kind.json" "$folder/$kind.html"; do
    grep -q "$phrase" "$file" || { echo "$kind is not said in $file: $(cat "$file")"; exit 1; }
  done
  grep -q "accuracy by time\|accuracy  *[0-9]" "$folder/$kind" "$folder/$kind.html" && { echo "accuracy, though $phrase"; exit 1; }
done
grep -q "loss  *[0-9]\|loss by time" "$folder/emulated" "$folder/emulated.html" && { echo "a loss of emulated steps"; exit 1; }
python3 - "$folder" <<'PY'
import json, sys
emulated, random = (json.load(open(f"{sys.argv[1]}/{name}.json"))["jobs"][0] for name in ("emulated", "random"))
assert emulated["emulated"] and emulated["loss"] is None, emulated
assert random["made_up_data"] and random["loss"] > 0 and random["test_accuracy"] is None, random
PY

# A worker that is killed ends the job with its name; the job goes on from its checkpoint.
"$ferry" train "${small[@]}" --steps 1000000 --save-every 10 --checkpoints "$folder/run" --no-test \
  >"$folder/out" 2>"$folder/err" &
job=$!
for _ in {1..400}; do
  compgen -G "$folder/run/step-*" >/dev/null && break
  sleep 0.1
done
mapfile -t tasks < <(pgrep -P "$(pgrep -P "$job")")  # one process between them watches over the job
[[ ${#tasks[@]} == 4 ]] || { echo "there are ${#tasks[@]} tasks, not 4"; kill "$job"; exit 1; }
kill -KILL "${tasks[3]}"
if wait "$job"; then echo "a job without a worker ended well"; exit 1; fi
grep -q "/job:" "$folder/err" || { echo "no task is named: $(cat "$folder/err")"; exit 1; }
grep -q -- "--resume" "$folder/err" || { echo "nobody says how to go on: $(cat "$folder/err")"; exit 1; }
"$ferry" train "${small[@]}" --steps 5 --checkpoints "$folder/run" --resume --no-test --json "$folder/resumed.json" >/dev/null
python3 - "$folder" <<'PY'
import json, sys
job = json.load(open(f"{sys.argv[1]}/resumed.json"))["jobs"][0]
assert job["first_step"] > 10, job
PY

# Ctrl-C leaves nothing behind.
"$ferry" train "${small[@]}" --steps 1000000 --no-test >"$folder/interrupted" 2>"$folder/err" &
job=$!
# A file of its own: what an earlier job has written must not look like this one's first step.
for _ in {1..400}; do
  grep -qs "^step" "$folder/interrupted" && break
  sleep 0.1
done
mapfile -t tasks < <(pgrep -P "$(pgrep -P "$job")")  # one process between them watches over the job
kill -INT "$job"
status=0
wait "$job" || status=$?
[[ $status == 130 ]] || { echo "status $status after SIGINT: $(cat "$folder/err")"; exit 1; }
for task in "${tasks[@]}"; do
  if kill -0 "$task" 2>/dev/null; then echo "task $task is still there"; exit 1; fi
done

# A checkpoint of another model, or another optimizer's, is told from one that can be used.
for wrong in "--model lenet" "--model mlp-2048" "--model mlp --optimizer adam"; do
  # shellcheck disable=SC2086
  ! "$ferry" train --batch 16 --checkpoints "$folder/run" --resume --no-test $wrong >/dev/null 2>"$folder/err"
  grep -q "another model's" "$folder/err" || { echo "$wrong: $(cat "$folder/err")"; exit 1; }
done

# What cannot be is said in a sentence, and nothing is done.
for wrong in "--model nothing" "--workers 0" "--transport pigeon" "--optimizer none" "--resume" "--rounds 2 --checkpoints $folder/rounds" "--batch 0" "--batch 100000"; do
  status=0
  # shellcheck disable=SC2086
  "$ferry" train "${small[@]}" $wrong >/dev/null 2>"$folder/err" || status=$?
  [[ $status == 2 && -s $folder/err ]] || { echo "$wrong: status $status, $(cat "$folder/err")"; exit 1; }
done
status=0
TMPDIR=$folder/nowhere "$ferry" train "${small[@]}" --steps 5 --no-test >/dev/null 2>"$folder/err" || status=$?
[[ $status == 2 ]] && grep -q TMPDIR "$folder/err" || { echo "without TMPDIR: status $status, $(cat "$folder/err")"; exit 1; }

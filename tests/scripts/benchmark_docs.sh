# tools/benchmark-docs writes the tables that `ferry bench` prints, notices a document that is another, and says what is
# wrong with a report; tools/record-figures keeps what it measures, and goes on when a part fails.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ferry=$1/ferry
export FERRY_TUNING=off
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/tree/{tools,docs} "$work/bin"
cp "$top"/tools/{benchmark-docs,benchmark_tables.py,record-figures} "$work/tree/tools/"
cd "$work/tree"
fail() { echo "benchmark_docs: $*"; exit 1; }

tools/benchmark-docs
tools/benchmark-docs --check || fail "an empty document is refused"
grep -q 'No figures are kept' docs/benchmarks.md

"$ferry" bench transfer --sizes 64,64K --providers shm --against memcpy --no-facts --repeat 6 --seconds 20 \
  --json "$work/transfer.json" >"$work/transfer.out" 2>/dev/null
"$ferry" bench models --models gru --transports ferry,grpc --repeat 1 --seconds 0.2 --json "$work/models.json" \
  >"$work/models.out" 2>/dev/null
"$ferry" bench ps --parts recovery --quick --json="$work/ps.json" >"$work/ps.out" 2>/dev/null
for part in transfer models ps; do
  tools/benchmark-docs --store $part "$work/$part.json" || fail "$part was refused"
done
tools/benchmark-docs --check || fail "the document that was just written is refused"
python3 - "$work" <<'PY'
import json, pathlib, sys
work = pathlib.Path(sys.argv[1])
document = (work / "tree/docs/benchmarks.md").read_text()
lines = set(document.split("\n"))
for part in ("transfer", "models", "ps"):
    blocks = [block.split("\n") for block in (work / f"{part}.out").read_text().split("\n\n")]
    tables = [line for block in blocks if any(line and set(line) == {"-"} for line in block) for line in block if line]
    missing = [line for line in tables if line not in lines]
    assert len(tables) > 3 and not missing, (part, missing)
    kept, = work.glob(f"tree/docs/figures/*/{part}.json")
    report, raw = json.loads(kept.read_text()), json.loads((work / f"{part}.json").read_text())
    assert raw["command"][:3] == ["ferry", "bench", part] and str(work) in " ".join(raw["command"]), raw["command"]
    assert str(work) not in kept.read_text() + document, "a path of this machine"
    assert kept.stat().st_size < (work / f"{part}.json").stat().st_size
    assert report["commit"] in document and raw["setup"]["date"] in document
prose = "".join(document.split("```")[::2])
assert all(len(line) <= 120 for line in prose.split("\n"))
PY

echo >>docs/benchmarks.md
said=$(tools/benchmark-docs --check) && fail "a document that was changed is accepted"
grep -qE '^docs/benchmarks.md:[0-9]+: is not what the figures' <<<"$said" || fail "$said"
tools/benchmark-docs
tools/benchmark-docs --check

# refuse TEXT PART CHANGE: the report of a transfer, changed by this line of Python, is not kept.
refuse() {
  python3 -c "import json; r = json.load(open('$work/transfer.json')); $3; json.dump(r, open('$work/bad.json', 'w'))"
  said=$(tools/benchmark-docs --store "$2" "$work/bad.json") && fail "accepted: $1"
  grep -qF -- "$1" <<<"$said" || fail "expected '$1' in: $said"
}
refuse "there is no part 'x'" x 'pass'
refuse "part 'ps' is measured by ferry bench ps, not by ferry bench transfer" ps 'pass'
refuse "lacks what the tables need (KeyError: 'commit')" transfer 'del r["commit"]'
refuse "lacks what the tables need" transfer 'r["setup"] = ["as it was once"]'
refuse "lacks what the tables need (ZeroDivisionError" transfer \
  '[c.update(median_ns=0) for v in r["variants"] for c in v["results"]]'
refuse "the run was interrupted" transfer 'r["interrupted"] = True'
refuse "3 bytes were wrong" transfer 'r["wrong"] = 3'
echo '{' >"$work/half.json"
said=$(tools/benchmark-docs --store transfer "$work/half.json") && fail "half a report is accepted"
grep -q 'half.json: cannot be read' <<<"$said" || fail "$said"
mkdir docs/figures/another
mv docs/figures/*/ps.json docs/figures/another/
said=$(tools/benchmark-docs) && fail "a report in the folder of another machine is accepted"
grep -q 'another/ps.json: is of the machine ' <<<"$said" || fail "$said"
rm -r docs/figures

# Instead of the program: one part is measured, another fails, and says why.
cat >"$work/bin/ferry" <<SH
#!/bin/bash
[[ \$2 == transfer ]] || { echo "no data"; exit 2; }
cp "$work/transfer.json" "\${@: -1}"
exit 1
SH
chmod +x "$work/bin/ferry"
status=0
tools/record-figures --bin "$work/bin" --only ps,transfer 2>"$work/said" || status=$?
[[ $status == 1 ]] && grep -q '^no data$' "$work/said" && grep -q 'not measured: ps$' "$work/said" ||
  fail "status $status: $(cat "$work/said")"
tools/benchmark-docs --check || fail "the document is not what was recorded"
grep -q '^### Giving a tensor' docs/benchmarks.md || fail "what could be measured was not kept"
listed=$(tools/record-figures --list)
grep -q '^transfer ' <<<"$listed" || fail "--list: $listed"
for words in "--only nothing" "--bin /nowhere" "--blah"; do
  status=0
  # shellcheck disable=SC2086
  tools/record-figures $words 2>/dev/null || status=$?
  [[ $status == 2 ]] || fail "record-figures $words: status $status"
done
# Each part that can be recorded can be shown.
for part in $(sed 's/[* ].*//' <<<"$listed"); do
  grep -q "^    \"$part\": " tools/benchmark-docs || fail "tools/benchmark-docs does not know $part"
done

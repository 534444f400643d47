# The command of docs/onnx.md with PyTorch itself: batch normalisation, and weights in a file of their own.
# FERRY_TORCH_PYTHON names a Python that has torch and onnxscript; else the usual one is tried.
set -euo pipefail
ferry=$1/ferry
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${FERRY_TORCH_PYTHON:-python3}
"$python" -c "import onnxscript, torch; assert tuple(map(int, torch.__version__.split('.')[:2])) >= (2, 9)" 2>/dev/null ||
  { echo "$python has no torch 2.9 or later with onnxscript; FERRY_TORCH_PYTHON may name one that has"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
command=$(grep "^torch.onnx.export(" "$top/docs/onnx.md")
[[ $(wc -l <<<"$command") == 1 ]] || { echo "docs/onnx.md has not one command: $command"; exit 1; }
{
  cat <<'PY'
import torch
from torch import nn
model = nn.Sequential(nn.Conv2d(1, 4, 5, padding=2, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(),
                      nn.Dropout(0.2), nn.Linear(4 * 7 * 7, 10))
PY
  echo "$command"
} >"$folder/export.py"
(cd "$folder" && "$python" export.py >export.log 2>&1) || { tail "$folder/export.log"; exit 1; }
[[ -s $folder/mine.onnx.data ]] || { echo "the weights are not in a file of their own: $(ls "$folder")"; exit 1; }
"$ferry" train --model "$folder/mine.onnx" --workers 1 --ps 1 --steps 2 --no-test >"$folder/out" || { cat "$folder/out"; exit 1; }
"$ferry" explain --model "$folder/mine.onnx" >"$folder/out"
for weight in 0.weight 1.weight 1.bias 6.weight 6.bias; do
  grep -q "$weight" "$folder/out" || { echo "no variable $weight: $(cat "$folder/out")"; exit 1; }
done

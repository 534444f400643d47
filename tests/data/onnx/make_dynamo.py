#!/usr/bin/env python3
"""make_dynamo.py: makes dynamo_*.onnx with the exporter of current PyTorch, and what they should answer.

  python3 tests/data/onnx/make_dynamo.py [FOLDER]   needs torch 2.9 or later and onnxscript; writes beside itself,
                                                    or to FOLDER

As make.py does it, but with dynamo=True. What the exporter notes about the Python program is taken out: it has paths
of the machine, and makes most of a small file. dynamo_norm keeps its weights in a file of their own.
"""

import pathlib
import sys

import onnx
import torch
import torch.nn.functional as F
from make import BATCH, Lstm, Resnet, batch_of
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent


class Norm(nn.Module):
    """Batch normalisation of images and of rows, as it is in training, behind layers without a bias."""
    shape = (2, 6, 6)

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(3)
        self.fc = nn.Linear(3 * 9, 5, bias=False)
        self.rows = nn.BatchNorm1d(5)
        self.out = nn.Linear(5, 4)
        for module in (self.bn, self.rows):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv(x))), 2)
        return self.out(torch.tanh(self.rows(self.fc(x.flatten(1)))))


# Name, model, whether it is exported as it is in training, and what else the exporter is told.
CASES = [
    ("dynamo_norm", Norm, True, dict(external_data=True, optimize=False)),
    ("dynamo_norm_eval", Norm, False, dict(external_data=False, optimize=False)),
    ("dynamo_resnet", Resnet, True, dict(external_data=False, optimize=False)),
    ("dynamo_lstm", Lstm, False, dict(external_data=False)),
]


def strip(path):
    """Takes out what is said about the program; external data stays where it is."""
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    del graph.value_info[:]
    path.write_bytes(model.SerializeToString())


def make(folder, name, kind, training, how):
    torch.manual_seed(1)
    model = kind()
    # Ours uses the statistics of the batch in any case.
    model.train()
    with torch.no_grad():
        logits = model(batch_of(model, BATCH))
    model.train(training)
    path = folder / f"{name}.onnx"
    torch.onnx.export(model, (batch_of(model, 2),), path, dynamo=True, input_names=["x"], output_names=["y"], **how)
    strip(path)
    return name + " " + " ".join(f"{value:.7g}" for value in logits.flatten().tolist())


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    lines = [make(folder, *case) + "\n" for case in CASES]
    (folder / "dynamo_logits.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()

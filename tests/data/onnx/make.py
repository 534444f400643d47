#!/usr/bin/env python3
"""make.py: makes the models of this folder with PyTorch, and what they should answer.

  python3 tests/data/onnx/make.py     needs torch; writes *.onnx and logits.txt beside itself

Each model is fed with a batch of 3. Element i of the input, in ONNX's order, is (7919 i mod 1000) / 250 - 2,
or 7919 i mod 20 where it is a whole number. A line of logits.txt is the model's name and its logits.
"""

import pathlib

import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 3


class Lenet(nn.Module):
    """Flattens an image of several channels before a dense layer."""
    shape = (1, 28, 28)

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5, padding=2)
        self.conv2 = nn.Conv2d(4, 8, 5, padding=2)
        self.fc1 = nn.Linear(8 * 7 * 7, 24)
        self.fc2 = nn.Linear(24, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc2(x)


class Block(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.short = nn.Sequential()
        if stride != 1 or before != channels:
            self.short = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


class Resnet(nn.Module):
    """Batch normalisation, as it is in training, and shortcuts."""
    shape = (3, 16, 16)
    training_mode = True

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 7, 2, 3, bias=False)
        self.bn = nn.BatchNorm2d(6)
        self.blocks = nn.Sequential(Block(6, 6, 1), Block(6, 12, 2))
        self.fc = nn.Linear(12, 5)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.bias, -0.5, 0.5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.stem(x))), 3, 2, 1)
        x = F.adaptive_avg_pool2d(self.blocks(x), 1)
        return self.fc(torch.flatten(x, 1))


class Vgg(nn.Module):
    """Made for a batch of 1, which is written into its shapes; ends in a softmax."""
    shape = (3, 12, 10)
    fixed = True
    softmax = True

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(5, 7, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Linear(7 * 3 * 2, 20), nn.ReLU(), nn.Dropout(), nn.Linear(20, 6))

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x.reshape(x.shape[0], 7 * 3 * 2))


class Inception(nn.Module):
    """Branches, averages with and without their padding, windows that reach over the edge, and arithmetic."""
    shape = (3, 15, 15)

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 2)
        self.wide = nn.Conv2d(4, 3, (1, 5), padding=(0, 2))
        self.tall = nn.Conv2d(4, 3, (5, 1), padding=(2, 0))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 10).reshape(1, 10, 1, 1))
        self.fc = nn.Linear(10, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu6(self.stem(x)), 3, 2, ceil_mode=True)
        pooled = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False) + F.avg_pool2d(x, 3, 1, 1)
        x = torch.cat([torch.sigmoid(self.wide(x)), torch.tanh(self.tall(x)), pooled], 1)
        x = x * self.scale / 2 - 0.25
        return self.fc(x.mean((2, 3)))


class Lstm(nn.Module):
    """Looks numbers up in a table, and takes the last step of two layers."""
    shape = (5,)
    below = 20

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 7, num_layers=2, batch_first=True)
        self.fc = nn.Linear(7, 4)

    def forward(self, x):
        y, _ = self.lstm(self.table(x))
        return self.fc(y[:, -1])


class Gru(nn.Module):
    """The state after the last step, for a batch of 1."""
    shape = (5, 6)
    fixed = True

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(6, 7, batch_first=True)
        self.fc = nn.Linear(7, 4)

    def forward(self, x):
        _, h = self.gru(x)
        return self.fc(h[0])


class Tokens(nn.Module):
    """Dense layers on each of several rows, and a transposed image."""
    shape = (4, 6)

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.fc2 = nn.Linear(3 * 4 * 4, 5)

    def forward(self, x):
        x = torch.tanh(self.fc1(x)).reshape(-1, 4, 2, 4)
        x = self.conv(x.permute(0, 2, 1, 3))
        return self.fc2(x.permute(0, 2, 3, 1).flatten(1))


def batch_of(model, size):
    count = size
    for dim in model.shape:
        count *= dim
    numbers = torch.arange(count) * 7919
    if hasattr(model, "below"):
        return (numbers % model.below).reshape(size, *model.shape)
    return ((numbers % 1000).float() / 250 - 2).reshape(size, *model.shape)


def make(kind):
    torch.manual_seed(1)
    model = kind()
    training = getattr(model, "training_mode", False)
    model.train(training)
    with torch.no_grad():
        logits = model(batch_of(model, BATCH))
    fixed = getattr(model, "fixed", False)
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(
        nn.Sequential(model, nn.LogSoftmax(1)) if hasattr(model, "softmax") else model,
        batch_of(model, 1 if fixed else 2), HERE / f"{kind.__name__.lower()}.onnx", training=mode,
        opset_version=14, input_names=["x"], output_names=["y"], dynamic_axes=None if fixed else {"x": {0: "batch"}})
    return kind.__name__.lower() + " " + " ".join(f"{value:.7g}" for value in logits.flatten().tolist())


def main():
    kinds = [Lenet, Resnet, Vgg, Inception, Lstm, Gru, Tokens]
    (HERE / "logits.txt").write_text("".join(make(kind) + "\n" for kind in kinds))


if __name__ == "__main__":
    main()

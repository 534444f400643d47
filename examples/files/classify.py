#!/usr/bin/env python3
"""Trains a classifier of text through files alone: which licence is this line of text from?

  ferry mount SCHEDULER FOLDER &          once for each worker
  classify.py FOLDER [WORKER WORKERS [STEPS]]

Needs numpy and the licences that every Debian has. The weights are the tensor `classify/w` of the job: read
FOLDER/classify/w/value, write FOLDER/classify/w/grad, fsync. In a synchronous job (ferry ps --mean) all workers take
the same steps.
"""
import os
import sys
import time
import zlib

import numpy as np

LICENCES = ["Apache-2.0", "Artistic", "GFDL-1.3", "GPL-3", "MPL-2.0"]
FEATURES = 4096
WORDS = 16  # in a sample
BATCH = 64


def samples():
    """Features of a sample (which words it has) and its class."""
    features, classes = [], []
    for label, name in enumerate(LICENCES):
        with open(f"/usr/share/common-licenses/{name}", encoding="utf-8") as text:
            words = text.read().lower().split()
        for at in range(0, len(words) - WORDS, WORDS):
            row = np.zeros(FEATURES, np.float32)
            for word in words[at:at + WORDS]:
                row[zlib.crc32(word.encode()) % FEATURES] += 1
            features.append(row)
            classes.append(label)
    return np.array(features), np.array(classes)


def make_tensor(folder, worker):
    """The first worker makes it; the others wait until it is there."""
    if worker == 0 and not os.path.exists(f"{folder}/classify/w/value"):
        os.makedirs(f"{folder}/classify/w", exist_ok=True)
        with open(f"{folder}/classify/w/meta", "w") as meta:
            meta.write('{"shape": [%d, %d], "update": "sgd", "rate": 0.5}' % (FEATURES, len(LICENCES)))
    for _ in range(600):
        if os.path.exists(f"{folder}/classify/w/value"):
            return
        time.sleep(0.05)
    sys.exit("nobody made the tensor")


def read_weights(folder):
    return np.fromfile(f"{folder}/classify/w/value", np.float32).reshape(FEATURES, len(LICENCES))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    if not os.path.exists(f"{folder}/meta"):
        sys.exit(f"classify.py: {folder} is no mounted job: ferry mount SCHEDULER {folder}")
    worker, workers = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 3 else (0, 1)
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 100
    x, labels = samples()
    order = np.random.default_rng(1).permutation(len(x))
    tested, trained = order[:len(x) // 5], order[len(x) // 5:][worker::workers]
    make_tensor(folder, worker)
    picks = np.random.default_rng(worker)
    with open(f"{folder}/classify/w/grad", "wb", buffering=0) as grad:
        for _ in range(steps):
            pick = picks.choice(trained, BATCH)
            scores = x[pick] @ read_weights(folder)
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            odds /= odds.sum(axis=1, keepdims=True)
            odds[np.arange(BATCH), labels[pick]] -= 1
            grad.seek(0)
            grad.write((x[pick].T @ odds / BATCH).astype(np.float32).tobytes())
            os.fsync(grad.fileno())
    right = ((x[tested] @ read_weights(folder)).argmax(axis=1) == labels[tested]).mean()
    print(f"worker {worker}: {steps} steps, {100 * right:.1f} % of {len(tested)} samples are right")


if __name__ == "__main__":
    main()

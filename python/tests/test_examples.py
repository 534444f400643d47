"""The programs of examples/python run."""

import pathlib
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def run(name, *arguments):
    return subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, timeout=100,
                          check=True).stdout


def test_producer_and_consumer():
    consumer = subprocess.Popen([sys.executable, EXAMPLES / "consumer.py"], stdout=subprocess.PIPE, text=True)
    try:
        run("producer.py", consumer.stdout.readline().strip())
        assert consumer.communicate(timeout=60)[0].split("\n")[:3] == ["sum 65536.0", "sum 131072.0", "sum 196608.0"]
    finally:
        consumer.kill()


def test_camera():
    assert run("camera.py", "20").startswith("20 frames")


def test_round():
    assert "134217728 B" in run("round.py", "--rounds", "20")

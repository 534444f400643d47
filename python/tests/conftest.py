"""What the tests of the package share: two devices of one process, and processes of their own."""

import os
import subprocess
import sys
import textwrap

import pytest

import tensorferry

os.environ["FERRY_TUNING"] = "off"
SECRET = "the secret of these tests"


class Pair:
    """`channel` goes from `device` to `receiver_device`; `back` is its other end."""

    def __init__(self, provider: str = "auto") -> None:
        self.device = tensorferry.Device(secret=SECRET, provider=provider)
        self.receiver_device = tensorferry.Device(secret=SECRET, provider=provider)
        self.channel = self.device.connect(self.receiver_device.endpoint)
        self.back = self.receiver_device.accept()


@pytest.fixture
def pair():
    return Pair()


@pytest.fixture(params=["shm", "tcp"])
def any_pair(request):
    return Pair(request.param)


class Program:
    """A script in a Python of its own, which talks by lines."""

    def __init__(self, source: str, *arguments: str) -> None:
        # A shell ignores SIGINT for what it runs in the background, and Python then leaves it so.
        head = ("import tensorferry, numpy, sys, os, signal, threading, time\n"
                f"signal.signal(signal.SIGINT, signal.default_int_handler)\nSECRET = {SECRET!r}\n")
        self.process = subprocess.Popen([sys.executable, "-u", "-c", head + textwrap.dedent(source), *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def end(self, seconds: float = 60):
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out.strip(), err


@pytest.fixture
def program():
    made = []

    def start(source, *arguments):
        made.append(Program(source, *arguments))
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()

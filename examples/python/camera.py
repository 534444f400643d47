"""A pipeline like a camera's: frames are made by one process, worked on in place by a second, shown by a third.

    python camera.py [FRAMES]

Each hop hands frames on without a copy: a stage reads its frame where it landed, and writes the result into the memory
of the next stage. Processes are spawned, so that each opens a device of its own.
"""

import multiprocessing
import sys
import time

import tensorferry

SECRET = "frames, only an example"
SHAPE = (720, 1280, 3)


def source(endpoint: str, frames: int) -> None:
    device = tensorferry.Device(secret=SECRET)
    channel = device.connect(endpoint)
    sender = tensorferry.Sender(channel, channel.receive())
    for number in range(frames):
        with sender.output() as frame:
            frame[:] = number % 200
    sender.drain()


def invert(endpoint: str, tell, frames: int) -> None:
    device = tensorferry.Device(secret=SECRET)
    onward = device.connect(endpoint)
    sender = tensorferry.Sender(onward, onward.receive())
    tell.put(device.endpoint)
    channel = device.accept()
    receiver = tensorferry.Receiver(channel, SHAPE, "uint8", slots=3)
    channel.send(receiver.ticket)
    for _ in range(frames):
        frame = receiver.receive()
        with sender.output() as inverted:
            inverted[:] = 255 - frame
        del frame
    sender.drain()


def main(frames: int) -> None:
    spawn = multiprocessing.get_context("spawn")
    device = tensorferry.Device(secret=SECRET)
    tell = spawn.Queue()
    stages = [spawn.Process(target=invert, args=(device.endpoint, tell, frames))]
    stages[0].start()
    channel = device.accept(timeout=60)
    receiver = tensorferry.Receiver(channel, SHAPE, "uint8", slots=3)
    channel.send(receiver.ticket)
    stages.append(spawn.Process(target=source, args=(tell.get(timeout=60), frames)))
    stages[1].start()
    began = None
    for number in range(frames):
        frame = receiver.receive()
        began = began or time.perf_counter()
        assert frame[0, 0, 0] == 255 - number % 200 and frame[-1, -1, -1] == frame[0, 0, 0]
        del frame
    seconds = time.perf_counter() - began
    print(f"{frames} frames of {SHAPE} in {seconds:.2f} s: {(frames - 1) / seconds:.0f} a second")
    for stage in stages:
        stage.join(30)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)

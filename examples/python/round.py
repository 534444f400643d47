"""What a tensor costs from Python: made in place, seen by another process, and a tiny answer.

    python round.py [--rounds N] [--against iceoryx2]

Two processes that poll. The tensor's first and last element are written and looked at; the answer is 8 bytes. With
iceoryx2 0.10 installed (pip install iceoryx2) its loan, send and receive are measured beside it, in turns.
"""

import argparse
import ctypes
import multiprocessing
import statistics
import time

SIZES = (64, 64 << 10, 1 << 20, 16 << 20, 128 << 20)
SECRET = "rounds, only an example"


class Ferry:
    """The sending end; its peer is `ferry_peer`."""

    name = "tensorferry"

    def __init__(self, size: int, spawn) -> None:
        import tensorferry
        self.device = tensorferry.Device(secret=SECRET, arena_bytes=max(64 << 20, 3 * size))
        self.peer = spawn.Process(target=ferry_peer, args=(self.device.endpoint, size))
        self.peer.start()
        self.channel = self.device.accept(timeout=60)
        self.sender = tensorferry.Sender(self.channel, self.channel.receive())
        self.answers = tensorferry.Receiver(self.channel, (1,), "int64", spins=True)
        self.channel.send(self.answers.ticket)

    def round(self, number: int) -> None:
        with self.sender.output() as array:
            array[0] = array[-1] = number
        answer = self.answers.receive(timeout=20)
        assert answer[0] == number

    def close(self) -> None:
        with self.sender.output() as array:
            array[0] = -1
        self.peer.join(20)


def ferry_peer(endpoint: str, size: int) -> None:
    import tensorferry
    device = tensorferry.Device(secret=SECRET, arena_bytes=max(64 << 20, 3 * size))
    channel = device.connect(endpoint)
    receiver = tensorferry.Receiver(channel, (size // 8,), "int64", spins=True)
    channel.send(receiver.ticket)
    answers = tensorferry.Sender(channel, channel.receive())
    while True:
        array = receiver.receive(timeout=60)
        first = array[0]
        if first < 0:
            return
        assert array[-1] == first
        del array
        with answers.output() as answer:
            answer[0] = first


class Iceoryx:
    """Loaned slices of iceoryx2, both ways, polled."""

    name = "iceoryx2"

    def __init__(self, size: int, spawn) -> None:
        self.peer = spawn.Process(target=ice_peer, args=(size,))
        self.publisher, self.subscriber, self.node = ice_ports("tensor", "answer", size, 8)
        self.peer.start()
        while self.subscriber.receive() is None:
            pass

    def round(self, number: int) -> None:
        ice_send(self.publisher, self.count(), number)
        while True:
            sample = self.subscriber.receive()
            if sample is not None:
                break
        assert sample.payload()[0] == number
        sample.delete()

    def count(self) -> int:
        return self.words

    def close(self) -> None:
        self.peer.terminate()
        self.peer.join(20)


def ice_ports(out: str, into: str, out_bytes: int, in_bytes: int):
    import iceoryx2 as iox2
    node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
    service = lambda name: (node.service_builder(iox2.ServiceName.new("ferry/" + name))  # noqa: E731
                            .publish_subscribe(iox2.Slice[ctypes.c_int64]).open_or_create())
    publisher = service(out).publisher_builder().initial_max_slice_len(out_bytes // 8).create()
    return publisher, service(into).subscriber_builder().create(), node


def ice_send(publisher, words: int, number: int) -> None:
    sample = publisher.loan_slice_uninit(words)
    payload = sample.payload()
    payload[0] = number
    payload[words - 1] = number
    sample.assume_init().send()


def ice_peer(size: int) -> None:
    publisher, subscriber, _node = ice_ports("answer", "tensor", 8, size)
    ice_send(publisher, 1, 0)
    while True:
        sample = subscriber.receive()
        if sample is None:
            continue
        first = sample.payload()[0]
        assert sample.payload()[size // 8 - 1] == first
        sample.delete()
        ice_send(publisher, 1, first)


def measure(end, rounds: int) -> float:
    times = []
    for number in range(1, rounds + 1):
        began = time.perf_counter()
        end.round(number)
        times.append(time.perf_counter() - began)
    return statistics.median(times[rounds // 10:]) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--against", choices=["iceoryx2"])
    given = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    kinds = [Ferry] + ([Iceoryx] if given.against else [])
    for size in SIZES:
        ends = []
        for kind in kinds:
            end = kind(size, spawn)
            end.words = size // 8
            ends.append((end, []))
        for _ in range(3):
            for end, medians in ends:
                medians.append(measure(end, given.rounds))
        line = "  ".join(f"{end.name} {statistics.median(medians):7.2f} us" for end, medians in ends)
        print(f"{size:>10} B  {line}", flush=True)
        for end, _ in ends:
            end.close()


if __name__ == "__main__":
    main()

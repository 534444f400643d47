"""A numpy producer: makes each array where the consumer will use it.

    python producer.py HOST:PORT     the endpoint that consumer.py printed
"""

import sys

import tensorferry


def main(endpoint: str) -> None:
    device = tensorferry.Device(secret="arrays, only an example")
    channel = device.connect(endpoint)  # shm, verbs or tcp: the best there is
    sender = tensorferry.Sender(channel, channel.receive())  # the ticket says shape and type
    for step in range(1, 4):
        with sender.output() as array:  # on one host the consumer's own memory
            array[:] = step
    sender.drain()  # until the consumer has let go of all of them


if __name__ == "__main__":
    main(sys.argv[1])

"""A numpy consumer: uses arrays where they land.

    python consumer.py     prints its endpoint; give it to producer.py
"""

import tensorferry


def main() -> None:
    device = tensorferry.Device(secret="arrays, only an example")
    print(device.endpoint, flush=True)
    channel = device.accept(timeout=60)
    receiver = tensorferry.Receiver(channel, (256, 256), "float32")
    channel.send(receiver.ticket)  # plain bytes: any way to the producer will do
    for _ in range(3):
        array = receiver.receive()  # the slot itself: nothing was copied
        print("sum", array.sum())
        del array  # the producer may use the slot again


if __name__ == "__main__":
    main()

"""Regions, transfers, edges, mailboxes: no copies, lifetimes, errors."""

import gc
import pickle
import threading

import numpy
import pytest

import tensorferry


def address(array):
    return array.__array_interface__["data"][0]


def test_a_region_is_an_array_without_a_copy(pair):
    region = pair.device.allocate(4096)
    array = region.array("float32", (4, 4), offset=64)
    assert address(array) == region.address + 64 and array.flags.writeable
    assert address(numpy.from_dlpack(array)) == address(array)
    with pytest.raises(tensorferry.Error) as caught:
        region.array("float32", (4096,))
    assert isinstance(caught.value, ValueError) and caught.value.code_name == "OUT_OF_RANGE"


def test_an_array_outlives_its_region_and_device():
    device = tensorferry.Device()
    view = device.allocate(1 << 20).array("int64")[10:20]
    device.close()
    del device
    gc.collect()
    view[:] = 7
    assert view.sum() == 70


def test_write_read_and_flags(any_pair):
    region = any_pair.receiver_device.allocate(8192)
    memory = region.array()
    grant = any_pair.receiver_device.grant(region)
    any_pair.receiver_device.publish("weights", grant)
    remote = any_pair.channel.look_up("weights")
    assert remote.length == 8192
    assert pickle.loads(pickle.dumps(remote)).to_bytes() == remote.to_bytes()
    data = numpy.arange(1000, dtype="float32")
    any_pair.channel.write_flagged(data, remote, flag_offset=8000, value=1).wait()
    any_pair.receiver_device.wait_flag(memory, 1, offset=8000)
    assert numpy.array_equal(memory[:4000].view("float32"), data)
    back = numpy.zeros(1000, "float32")
    any_pair.channel.read(back, remote).wait()
    assert numpy.array_equal(back, data)


def test_register_memory_of_numpy(pair):
    own = numpy.zeros(1 << 16, "uint8")
    region = pair.receiver_device.register(own)
    assert region.address == address(own)
    grant = pair.receiver_device.grant(region, "w")
    pair.channel.write(b"hello", grant).wait()
    assert own[:5].tobytes() == b"hello"
    with pytest.raises(PermissionError):
        pair.channel.read(bytearray(5), grant).wait()
    region.close()


def test_atomics(pair):
    region = pair.receiver_device.allocate(64)
    word = pair.receiver_device.grant(region, "rwa")
    first = pair.channel.fetch_add(word, 5)
    first.wait()
    second = pair.channel.compare_swap(word, 5, 9)
    second.wait()
    assert (first.value, second.value) == (0, 5)


def test_a_static_edge_is_used_in_place(any_pair):
    receiver = tensorferry.Receiver(any_pair.back, (100, 10), "float32", slots=3)
    sender = tensorferry.Sender(any_pair.channel, receiver.ticket)
    for step in range(10):
        output = sender.output()
        with output as array:
            array[:] = step
        assert not array.flags.writeable
        got = receiver.receive()
        assert got.shape == (100, 10) and (got == step).all() and got.flags.writeable
        del got
    assert sender.explain()["tensors"] == 10
    if any_pair.channel.provider == "shm":
        assert output.in_place and sender.explain()["in_place"] == 10
    sender.send(numpy.ones((100, 10), "float32"))
    assert receiver.receive().sum() == 1000
    sender.drain()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"])
def test_types(pair, dtype):
    receiver = tensorferry.Receiver(pair.back, (5,), dtype)
    sender = tensorferry.Sender(pair.channel, receiver.ticket)
    sender.send(numpy.array([0, 1, 1, 0, 1], dtype))
    got = receiver.receive()
    assert got.dtype == numpy.dtype(dtype) and got.astype(int).tolist() == [0, 1, 1, 0, 1]


def test_a_dynamic_edge(any_pair):
    receiver = tensorferry.Receiver(any_pair.back, (None, 4), "float64", dynamic=True)
    sender = tensorferry.Sender(any_pair.channel, receiver.ticket)
    for rows in (1, 0, 3, 100000, 2):
        with sender.output((rows, 4)) as array:
            array[:] = rows
        got = receiver.receive()
        assert got.shape == (rows, 4) and (got == rows).all() and not got.flags.writeable
        del got
    with pytest.raises(ValueError):
        sender.send(numpy.ones((2, 5)))
    with pytest.raises(ValueError):
        sender.output()


def test_views_hold_the_slot_and_the_caller_is_told(pair):
    receiver = tensorferry.Receiver(pair.back, (8,), "float32", slots=2)
    sender = tensorferry.Sender(pair.channel, receiver.ticket)
    views = []
    for step in range(2):
        with sender.output() as array:
            array[:] = step
        views.append(receiver.receive()[2:].reshape(2, 3)[1])
    assert receiver.held == 2
    with pytest.raises(tensorferry.ResourceExhausted, match="all 2 slots"):
        receiver.receive(timeout=5)
    with pytest.raises(TimeoutError):
        sender.send(numpy.zeros(8, "float32"), timeout=0.1)
    assert views[0].tolist() == [0, 0, 0] and views[1].tolist() == [1, 1, 1]
    del views
    assert receiver.held == 0
    sender.send(numpy.full(8, 2, "float32"))
    assert receiver.receive()[0] == 2


def test_an_arrival_outlives_everything(pair):
    receiver = tensorferry.Receiver(pair.back, (4,), "int32")
    sender = tensorferry.Sender(pair.channel, receiver.ticket)
    sender.send(numpy.arange(4, dtype="int32"))
    array = receiver.receive()
    pair.channel.close()
    del sender, receiver
    pair.receiver_device.close()
    pair.__dict__.clear()
    gc.collect()
    assert array.tolist() == [0, 1, 2, 3]


def test_an_exception_in_the_block_sends_nothing(pair):
    receiver = tensorferry.Receiver(pair.back, (4,), "float32")
    sender = tensorferry.Sender(pair.channel, receiver.ticket)
    with pytest.raises(ZeroDivisionError):
        with sender.output() as array:
            array[:] = 1 // 0
    with pytest.raises(TimeoutError):
        receiver.receive(timeout=0.05)
    sender.send(numpy.ones(4, "float32"))
    assert receiver.receive().sum() == 4


def test_bad_input(pair):
    receiver = tensorferry.Receiver(pair.back, (4, 4), "float32")
    sender = tensorferry.Sender(pair.channel, receiver.ticket)
    for wrong in (numpy.ones((4, 4)).T[::2], numpy.ones((4, 4), "float64"), numpy.ones((5, 4), "float32"), "text", None):
        with pytest.raises((ValueError, TypeError)):
            sender.send(wrong)
    for timeout in (-1, float("nan")):
        with pytest.raises(ValueError):
            receiver.receive(timeout=timeout)
    with pytest.raises(ValueError):
        tensorferry.Sender(pair.channel, b"x" * 160)
    with pytest.raises((ValueError, TypeError)):
        tensorferry.Receiver(pair.back, (4,), "complex64")
    sender.close()
    with pytest.raises(tensorferry.FailedPrecondition, match="closed"):
        sender.output().__enter__()
    with pytest.raises(ConnectionError):
        pair.device.connect("127.0.0.1:1", timeout=0.2)


def test_shared_tensor(pair):
    writer = tensorferry.SharedWriter(pair.device, (16,), "float32")
    reader = tensorferry.SharedReader(pair.back, writer.admit(pair.channel))
    for version in (1, 2, 3):
        with writer.output() as array:
            array[:] = version
        got = reader.read(least=version)
        assert (got == version).all() and not got.flags.writeable
        del got
    with pytest.raises(TimeoutError):
        reader.read(least=4, timeout=0.05)


def test_mailbox(any_pair):
    boxes = []
    other = threading.Thread(target=lambda: boxes.append(tensorferry.Mailbox(any_pair.back, tuning="off")))
    other.start()
    here = tensorferry.Mailbox(any_pair.channel, tuning="off")
    other.join()
    there = boxes[0]
    large = numpy.arange(3_000_000, dtype="uint8")
    sending = here.post([b"head", large])
    head, body = there.receive()
    assert head.tobytes() == b"head" and numpy.array_equal(body, large)
    del head, body
    sending.wait(timeout=10)
    there.send(b"")
    assert [part.size for part in here.receive()] == [0]
    with pytest.raises(TimeoutError):
        here.receive(timeout=0.05)


def test_one_thread_at_a_time(pair):
    receiver = tensorferry.Receiver(pair.back, (4,), "float32")
    began = threading.Event()

    def wait():
        began.set()
        with pytest.raises(TimeoutError):
            receiver.receive(timeout=1)

    waiting = threading.Thread(target=wait)
    waiting.start()
    began.wait()
    with pytest.raises((tensorferry.FailedPrecondition, TimeoutError)):
        for _ in range(1000):
            try:
                receiver.receive(timeout=0)
            except TimeoutError:
                continue
    waiting.join()


def test_the_interpreter_runs_while_a_thread_waits(pair):
    receiver = tensorferry.Receiver(pair.back, (4,), "float32")
    waiting = threading.Thread(target=lambda: pytest.raises(TimeoutError, receiver.receive, timeout=0.5))
    waiting.start()
    count = 0
    while waiting.is_alive():
        count += 1
    assert count > 1000

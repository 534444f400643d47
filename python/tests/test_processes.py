"""Real processes: spawn, fork, Ctrl-C, the interpreter's end, a peer that dies."""

import os
import signal
import time

import numpy
import pytest

import tensorferry
from conftest import SECRET

SEND = """
    device = tensorferry.Device(secret=SECRET)
    channel = device.connect(sys.argv[1])
    sender = tensorferry.Sender(channel, channel.receive())
    for step in range(int(sys.argv[2])):
        with sender.output() as array:
            array[:] = step
    sender.drain()
    print("sent")
"""


def test_tensors_between_processes(program):
    device = tensorferry.Device(secret=SECRET)
    peer = program(SEND, device.endpoint, "20")
    channel = device.accept()
    receiver = tensorferry.Receiver(channel, (1000,), "float32")
    channel.send(receiver.ticket)
    for step in range(20):
        assert (receiver.receive() == step).all()
    assert peer.end() == (0, "sent", "")


def test_a_peer_that_dies_is_named(program):
    device = tensorferry.Device(secret=SECRET)
    peer = program(SEND, device.endpoint, "1")
    channel = device.accept()
    receiver = tensorferry.Receiver(channel, (1000,), "float32")
    channel.send(receiver.ticket)
    array = receiver.receive()
    peer.process.kill()
    with pytest.raises(ConnectionError):
        receiver.receive(timeout=30)
    assert array.sum() == 0


@pytest.mark.parametrize("wait", ["receiver.receive(timeout=60)", "device.accept(timeout=60)", "back.receive(timeout=60)",
                                  "channel.look_up('nothing', timeout=60)", "ps.Worker('127.0.0.1:1', 's' * 20, timeout=60)"])
def test_control_c_ends_a_wait(program, wait):
    peer = program(f"""
        from tensorferry import ps
        device = tensorferry.Device(secret=SECRET)
        other = tensorferry.Device(secret=SECRET)
        channel = device.connect(other.endpoint)
        back = other.accept()
        receiver = tensorferry.Receiver(back, (4,), "float32")
        print("ready")
        began = time.monotonic()
        try:
            {wait}
        except KeyboardInterrupt:
            print("interrupted" if time.monotonic() - began < 30 else "late")
            sys.stdout.flush()
        os._exit(0)
    """)
    assert peer.line() == "ready"
    time.sleep(0.3)
    peer.process.send_signal(signal.SIGINT)
    assert peer.end()[1] == "interrupted"


def test_the_end_with_threads_that_wait_is_clean(program):
    source = """
        device = tensorferry.Device(secret=SECRET)
        other = tensorferry.Device(secret=SECRET)
        channel = device.connect(other.endpoint)
        back = other.accept()
        receiver = tensorferry.Receiver(back, (4,), "float32")
        for wait in (receiver.receive, device.accept, channel.receive):
            threading.Thread(target=wait, daemon=True).start()
        time.sleep(0.1)
    """
    for _ in range(5):
        assert program(source).end(30) == (0, "", "")


def test_fork_after_first_use_is_refused_and_before_it_works(program):
    assert program("""
        child = os.fork()
        if child == 0:
            tensorferry.Device(secret=SECRET).allocate(64)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        device = tensorferry.Device(secret=SECRET)
        region = device.allocate(64)
        child = os.fork()
        if child == 0:
            try:
                device.allocate(64)
            except tensorferry.FailedPrecondition as error:
                del region, device
                os._exit(8 if "before fork" in str(error) else 9)
            os._exit(10)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """).end()[:2] == (0, "8")  # 3.12 and later warn of forks beside threads


def test_import_is_quick_and_light(program):
    status, out, _ = program("""
        import subprocess
        code = "import time; b = time.perf_counter(); import tensorferry, sys; " \
               "print(time.perf_counter() - b, 'numpy' in sys.modules)"
        times = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() for _ in range(3)]
        print(min(float(each[0]) for each in times), times[0][1])
    """).end()
    assert status == 0 and out.endswith("False")


def test_the_package_tells_what_the_host_can_do(program):
    import subprocess
    import sys
    out = subprocess.run([sys.executable, "-m", "tensorferry"], capture_output=True, text=True, check=True).stdout
    assert "shm" in out and "tcp" in out and "because" in out


def test_workers_of_a_local_job(program):
    from tensorferry import ps
    with ps.local(servers=2, workers=2) as job:
        workers = [program("""
            from tensorferry import ps
            worker = ps.Worker() if not sys.argv[1:] else ps.Worker(*sys.argv[1:])
            worker.init("w", numpy.zeros(100_000, "float32"), ps.sgd(1.0))
            for step in range(3):
                worker.push("w", numpy.full(100_000, -1, "float32"))
                worker.end_step()
            worker.flush()
            print(worker.pull("w").sum())
            worker.leave()
        """, job.scheduler, job.secret) for _ in range(2)]
        for worker in workers:
            status, out, err = worker.end()
            assert (status, float(out)) == (0, 600_000.0), err


def test_await(pair):
    import asyncio

    async def receive_and_count():
        receiver = tensorferry.Receiver(pair.back, (4,), "float32")
        sender = tensorferry.Sender(pair.channel, receiver.ticket)
        waiting = asyncio.create_task(receiver.receive_async(timeout=20))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        await sender.send_async(numpy.ones(4, "float32"))
        assert (await waiting).sum() == 4
        with pytest.raises(TimeoutError):
            await receiver.receive_async(timeout=0.05)

    asyncio.run(receive_and_count())


def test_await_sleeps_on_the_device(program):
    import asyncio
    device = tensorferry.Device(secret=SECRET)
    peer = program("""
        device = tensorferry.Device(secret=SECRET)
        channel = device.connect(sys.argv[1])
        sender = tensorferry.Sender(channel, channel.receive())
        for step in range(5):
            time.sleep(0.05)
            sender.send(numpy.full(4, step, "float32"))
        channel.send(b"end")
        sender.drain()
        channel.receive()
    """, device.endpoint)

    async def take_all():
        channel = await device.accept_async(timeout=30)
        receiver = tensorferry.Receiver(channel, (4,), "float32")
        await channel.send_async(receiver.ticket)
        end = asyncio.create_task(channel.receive_async())
        for step in range(5):
            assert (await receiver.receive_async())[0] == step
        assert await end == b"end"
        await channel.send_async(b"bye")

    busy = time.process_time()
    asyncio.run(take_all())
    assert time.process_time() - busy < 0.2
    assert peer.end() == (0, "", "")

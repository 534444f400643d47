"""`await` for waits: every X that waits has an X_async.

What can be looked at without waiting sleeps in asyncio's selector, on the device's descriptor; what cannot (connect,
look_up, the parameter server) runs on a thread of asyncio's.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any, Callable, Dict, Optional, Set, Tuple

from . import _core
from .errors import TimeoutError

_POLL = 0.0005  # between two looks at objects that do not know their device
_TICK = 0.05  # between two looks at others, whatever their device says

# Who sleeps on the descriptor of a device, by (loop, descriptor).
_sleepers: Dict[Tuple[asyncio.AbstractEventLoop, int], Set["asyncio.Future[None]"]] = {}


def _wake(device: _core.Device, sleepers: Set["asyncio.Future[None]"]) -> None:
    device._handle_ready()
    for sleeper in sleepers:
        if not sleeper.done():
            sleeper.set_result(None)


async def _sleep_on(device: _core.Device, seconds: float) -> None:
    """Until there is something to do on the device, or the time is over. The device is armed."""
    loop = asyncio.get_running_loop()
    key = (loop, device.fileno())
    sleepers = _sleepers.setdefault(key, set())
    if not sleepers:
        loop.add_reader(key[1], _wake, device, sleepers)
    own = loop.create_future()
    sleepers.add(own)
    try:
        await asyncio.wait((own,), timeout=seconds)
    finally:
        sleepers.discard(own)
        if not sleepers:
            loop.remove_reader(key[1])
            _sleepers.pop(key, None)


async def _until(device: Optional[_core.Device], attempt: Callable[[], Any], timeout: Optional[float]) -> Any:
    """Calls attempt() until it does not raise TimeoutError."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return attempt()
        except TimeoutError:
            left = end - time.monotonic()
            if left <= 0:
                raise
        if device is None:
            await asyncio.sleep(min(left, _POLL))
        elif not device._arm():  # something has come
            await asyncio.sleep(0)
        else:
            try:
                try:
                    return attempt()
                except TimeoutError:
                    await _sleep_on(device, min(left, _TICK))
            finally:
                device._disarm()


def _looking(cls: type, name: str) -> None:
    plain = getattr(cls, name)

    async def wait(self, *args: Any, timeout: Optional[float] = 30.0, **named: Any) -> Any:
        device = self if cls is _core.Device else getattr(self, "_device", None)
        return await _until(device, lambda: plain(self, *args, timeout=0, **named), timeout)

    wait.__name__ = name + "_async"
    wait.__doc__ = f"{name}() for asyncio: other tasks run while it waits."
    setattr(cls, wait.__name__, wait)


def _threaded(cls: type, name: str) -> None:
    plain = getattr(cls, name)

    async def wait(self, *args: Any, **named: Any) -> Any:
        return await asyncio.to_thread(plain, self, *args, **named)

    wait.__name__ = name + "_async"
    wait.__doc__ = f"{name}() for asyncio, on a thread of its own."
    setattr(cls, wait.__name__, wait)


for _cls, _names in (
    (_core.Receiver, ("receive",)), (_core.SharedReader, ("read",)), (_core.Mailbox, ("receive", "drain")),
    (_core.Channel, ("receive",)), (_core.Transfer, ("wait",)), (_core.Sending, ("wait",)),
    (_core.Sender, ("drain",)), (_core.Device, ("accept", "wait_flag")),
):
    for _name in _names:
        _looking(_cls, _name)
for _cls, _names in (
    (_core.Device, ("connect",)), (_core.Channel, ("look_up", "send")), (_core.Sender, ("send",)),
    (_core.Mailbox, ("send",)),
    (_core.Worker, ("init", "find", "push", "pull", "pull_to", "end_step", "flush", "barrier", "leave")),
    (_core.KVStore, ("init", "push", "pull", "barrier", "close")), (_core.Job, ("wait",)),
):
    for _name in _names:
        _threaded(_cls, _name)

"""`await` for waits: every X that waits has an X_async.

What can be looked at without waiting sleeps in asyncio's selector, on the device's descriptor; what cannot (connect,
look_up, the parameter server) runs on a thread of asyncio's.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, Optional

from . import _core
from .errors import TimeoutError

_POLL = 0.0005  # between two looks at objects that do not tell their device


async def _until(attempt: Callable[[], Any], timeout: Optional[float]) -> Any:
    """Calls attempt() until it does not raise TimeoutError."""
    end = None if timeout is None else time.monotonic() + timeout
    pause = 0.0
    while True:
        try:
            return attempt()
        except TimeoutError:
            if end is not None and time.monotonic() >= end:
                raise
        await asyncio.sleep(pause)
        pause = min(pause + 0.00005, _POLL)


def _looking(cls: type, name: str) -> None:
    plain = getattr(cls, name)

    async def wait(self, *args: Any, timeout: Optional[float] = 30.0, **named: Any) -> Any:
        return await _until(lambda: plain(self, *args, timeout=0, **named), timeout)

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

"""Tensors between processes and machines without copies.

    device = tensorferry.Device(secret="what all members know")
    channel = device.connect("127.0.0.1:7000")

Times are seconds; a wait that takes longer raises tensorferry.TimeoutError. See docs/python.md.
"""

import atexit as _atexit

from . import _core
from ._core import (
    Channel,
    Device,
    KVStore,
    Mailbox,
    Output,
    Receiver,
    Region,
    RemoteRegion,
    Sender,
    Sending,
    SharedReader,
    SharedWriter,
    Transfer,
)
from ._core import __version__
from . import _aio as _aio  # adds the *_async methods
from . import ps
from .errors import (
    Aborted,
    Cancelled,
    ConnectionError,
    DataLoss,
    Error,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    TimeoutError,
    Unimplemented,
)

# Threads that wait when the interpreter ends stay where they are: see docs/design/python.md.
_atexit.register(_core._begin_end)

__all__ = [
    "Aborted", "AlreadyExists", "Cancelled", "Channel", "ConnectionError", "DataLoss", "Device", "Error",
    "FailedPrecondition", "InternalError", "InvalidArgument", "KVStore", "Mailbox", "NotFound", "Output",
    "PermissionDenied", "Receiver", "Region", "RemoteRegion", "ResourceExhausted", "Sender", "Sending", "SharedReader",
    "SharedWriter", "TimeoutError", "Transfer", "Unimplemented", "__version__", "ps",
]

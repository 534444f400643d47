"""Errors. Each has a `code` (numerically google.rpc.Code), its name, and a sentence that says what to do.

>>> import tensorferry
>>> try:
...     receiver_device.connect("127.0.0.1:1", timeout=0.2)
... except tensorferry.Error as error:
...     isinstance(error, OSError), error.code_name
(True, 'UNAVAILABLE')
"""

import builtins

NAMES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)


class Error(Exception):
    """What went wrong: `code`, `code_name`, `message`, `os_code` (errno, or 0)."""

    def __init__(self, message: str, code: int = 2, os_code: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.os_code = os_code

    @property
    def code_name(self) -> str:
        return NAMES[self.code] if 0 <= self.code < len(NAMES) else "UNKNOWN"

    def __str__(self) -> str:
        return self.message

    def __reduce__(self):
        return type(self), (self.message, self.code, self.os_code)


class TimeoutError(Error, builtins.TimeoutError):
    """The time was over. What was waited for goes on, and can be waited for again."""


class ConnectionError(Error, builtins.ConnectionError):
    """The peer is gone, or cannot be reached."""


class InvalidArgument(Error, ValueError):
    """An argument makes no sense."""


class OutOfRange(Error, IndexError, ValueError):
    """Beyond the end of something."""


class NotFound(Error, LookupError):
    """There is nothing of that name."""


class AlreadyExists(Error, ValueError):
    """There is something else of that name."""


class PermissionDenied(Error, PermissionError):
    """A grant does not allow it, or the secret is another."""


class ResourceExhausted(Error, MemoryError):
    """No memory, no slot, no seat: the sentence says which."""


class FailedPrecondition(Error, RuntimeError):
    """Not in this state: closed, forked, in use by another thread."""


class Cancelled(Error, RuntimeError):
    """It was closed or cancelled meanwhile."""


class Aborted(Error, RuntimeError):
    """It ended in the middle."""


class Unimplemented(Error, NotImplementedError):
    """This path cannot do it."""


class DataLoss(Error, RuntimeError):
    """What came is broken, or the peer broke the protocol."""


class InternalError(Error, RuntimeError):
    """A mistake of this library's."""


_CLASSES = {
    1: Cancelled, 3: InvalidArgument, 4: TimeoutError, 5: NotFound, 6: AlreadyExists, 7: PermissionDenied,
    8: ResourceExhausted, 9: FailedPrecondition, 10: Aborted, 11: OutOfRange, 12: Unimplemented, 13: InternalError,
    14: ConnectionError, 15: DataLoss, 16: PermissionDenied,
}


def error_of(code: int, message: str, os_code: int = 0) -> Error:
    """The exception for a code; the extension calls it."""
    return _CLASSES.get(code, Error)(message, code, os_code)

"""The parameter server: local() starts one in this process, Worker takes part in a job.

>>> from tensorferry import ps
>>> with ps.local(workers=1) as job:
...     worker = job.worker()
...     worker.init("w", numpy.zeros(4, "float32"), ps.sgd(0.5))
...     worker.push("w", numpy.ones(4, "float32"))
...     worker.end_step()
...     worker.flush()
...     worker.pull("w").tolist()
...     worker.leave()
[-0.5, -0.5, -0.5, -0.5]
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Dict, Optional

from . import _core
from ._core import Worker


@dataclass(frozen=True)
class Update:
    """What a server does with a gradient: assign, add, sgd, momentum, adam of this module make them."""

    kind: int
    rate: float = 0.0
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


def assign() -> Update:
    """weights = gradient"""
    return Update(1)


def add() -> Update:
    """weights += gradient"""
    return Update(2)


def sgd(rate: float) -> Update:
    """weights -= rate * gradient"""
    return Update(3, rate)


def momentum(rate: float, momentum: float) -> Update:
    return Update(4, rate, momentum)


def adam(rate: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> Update:
    return Update(5, rate, 0.0, beta1, beta2, epsilon)


class Job:
    """A scheduler and servers on threads of this process. `environment` is what worker processes need."""

    def __init__(self, core: _core.Job, provider: str) -> None:
        self._core = core
        self._provider = provider

    @property
    def scheduler(self) -> str:
        return self._core.scheduler

    @property
    def secret(self) -> str:
        return self._core.secret

    @property
    def environment(self) -> Dict[str, str]:
        """Variables by which ps.Worker() of a child process finds the job."""
        return {
            **os.environ, "FERRY_PS_SCHEDULER": self.scheduler, "FERRY_SECRET": self.secret,
            "FERRY_PROVIDER": self._provider,
        }

    def worker(self, rank: Optional[int] = None, timeout: Optional[float] = 30.0) -> Worker:
        return Worker(self.scheduler, self.secret, provider=self._provider, rank=rank, timeout=timeout)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Until every worker has left."""
        self._core.wait(timeout)

    def close(self) -> None:
        self._core.close()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def local(servers: int = 1, workers: int = 1, consistency: str = "sync", *, staleness: int = 0, mean: bool = False,
          replicas: int = 1, shards: int = 1, provider: str = "auto", listen: str = "127.0.0.1:0") -> Job:
    """Starts a scheduler and servers. Workers are threads or processes: Job.worker(), Job.environment."""
    core = _core.Job(servers, workers, consistency, staleness, mean, replicas, shards, provider, listen)
    return Job(core, provider)


__all__ = ["Job", "Update", "Worker", "adam", "add", "assign", "local", "momentum", "sgd"]

"""ContextPool: contexts of one engine for calls from any number of threads."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Callable, Iterator, List, Optional

from .context import IExecutionContext


def default_limit() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


class ContextPool:
    """Gives each call a context of its own.

    A context is created when a call finds none idle, up to |limit|; further calls wait for one. The context used last
    is given out first, so that calls of one thread use one context.
    """

    def __init__(self, create: Callable[[], IExecutionContext], limit: int) -> None:
        if limit < 1:
            raise ValueError(f"contexts must be at least 1, got {limit}")
        self._create: Optional[Callable[[], IExecutionContext]] = create  # None: closed
        self.limit = limit
        self._idle: List[IExecutionContext] = []
        self._count = 0
        self._changed = threading.Condition()

    count = property(lambda self: self._count)  # contexts that exist

    @contextlib.contextmanager
    def use(self) -> Iterator[IExecutionContext]:
        context = self._take()
        try:
            yield context
        finally:
            self._give_back(context)

    def _take(self) -> IExecutionContext:
        with self._changed:
            while True:
                create = self._create
                if create is None:
                    raise RuntimeError("the model is closed")
                if self._idle:
                    return self._idle.pop()
                if self._count < self.limit:
                    self._count += 1
                    break
                self._changed.wait()
        try:
            return create()
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify()

    def _give_back(self, context: IExecutionContext) -> None:
        with self._changed:
            if self._create is not None:
                self._idle.append(context)
                self._changed.notify()
                return
        context._close()
        self._drop()

    def close(self) -> None:
        """Frees the idle contexts now and the others after their calls. Later calls raise RuntimeError."""
        with self._changed:
            self._create = None
            idle, self._idle = self._idle, []
            self._count -= len(idle)
            self._changed.notify_all()
        for context in idle:
            context._close()

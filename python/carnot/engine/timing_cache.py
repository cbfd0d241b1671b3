"""The timing cache: tactic times by problem."""

from __future__ import annotations

import zlib
from typing import Any, List

from .._carnot import ffi, lib
from ..core import CarnotError, Reporter, check
from ..types import IHostMemory


class TimingCacheKey:
    """The problem of a timing-cache entry, as text."""

    def __init__(self, problem: str) -> None:
        self._text = problem

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimingCacheKey) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    @staticmethod
    def parse(text: str) -> "TimingCacheKey":
        return TimingCacheKey(text)


class TimingCacheValue:
    """A tactic's hash and time."""

    def __init__(self, tacticHash: int = 0, timingMSec: float = 0.0) -> None:  # noqa: N803
        self.tacticHash, self.timingMSec = tacticHash, timingMSec


class ITimingCache(Reporter):
    """Times of tactics. Builds that share a cache are repeatable and fast."""

    def __init__(self, data: bytes = b"") -> None:
        self._clear()
        if data:
            check(lib.carnot_timing_cache_read(self._c, ffi.from_buffer("char[]", data), len(data)))

    def _clear(self) -> None:
        made = ffi.new("carnot_timing_cache**")
        check(lib.carnot_timing_cache_create(made))
        self._c = ffi.gc(made[0], lib.carnot_timing_cache_destroy)

    def serialize(self) -> IHostMemory:
        out, size = ffi.new("char**"), ffi.new("size_t*")
        check(lib.carnot_timing_cache_print(self._c, out, size))
        return IHostMemory._of_c(ffi.cast("void*", out[0]), size[0])

    def combine(self, input_cache: "ITimingCache", ignore_mismatch: bool = False) -> bool:
        data = bytes(input_cache.serialize())
        try:
            check(lib.carnot_timing_cache_read(self._c, data, len(data)))
        except CarnotError:
            return False
        return True

    def reset(self) -> bool:
        self._clear()
        return True

    def _lines(self) -> List[List[str]]:
        """Problem, tactic, nanoseconds of each entry."""
        lines = bytes(self.serialize()).decode().splitlines()
        return [line.rsplit(" ", 2) for line in lines if line and not line.startswith("#") and line.count(" ") >= 2]

    def queryKeys(self) -> List[TimingCacheKey]:  # noqa: N802
        return [TimingCacheKey(problem) for problem in dict.fromkeys(line[0] for line in self._lines())]

    def query(self, key: TimingCacheKey) -> TimingCacheValue:
        times = [(float(time), tactic) for problem, tactic, time in self._lines() if problem == str(key)]
        if not times:
            return TimingCacheValue()
        time, tactic = min(times)
        return TimingCacheValue(zlib.crc32(tactic.encode()), time / 1e6)

    def update(self, key: TimingCacheKey, value: TimingCacheValue) -> bool:
        """Removes all entries of |key| but the tactic with this hash, so that builds select it."""
        lines = self._lines()
        chosen = [line for line in lines if line[0] == str(key) and zlib.crc32(line[1].encode()) == value.tacticHash]
        if not chosen:
            return False
        kept = [line for line in lines if line[0] != str(key)] + chosen
        head = [line for line in bytes(self.serialize()).decode().splitlines() if len(line.split(" ")) < 3][:1]
        data = "\n".join(head + [" ".join(line) for line in kept] + [""]).encode()
        self._clear()
        check(lib.carnot_timing_cache_read(self._c, data, len(data)))
        return True

    def __enter__(self) -> "ITimingCache":
        return self

    def __exit__(self, *what: Any) -> None:
        pass

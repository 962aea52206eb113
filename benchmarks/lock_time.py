"""Measures how long a Python program holds the interpreter's lock, by phase.

The lock's flag is in the memory of the interpreter. This program reads it from outside, a thousand times a second, so
that the measured program runs as always. On a busy machine, the time in which the holder waits for a processor is
included. `python -m benchmarks.lock_time MODULE [ARGUMENTS]` prints the share.

Run it as root, because other users may not request real-time priority. Without it, the sampler often waits until a
thread of the measured program blocks, which the lock causes, and the share is too high.
"""

import ctypes
import os
import runpy
import struct
import subprocess
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_INTERVAL_MICROSECONDS = 4987
"""Switch interval of the measured program, by which its lock is found. The default is 5,000."""
_RUNTIME_BYTES = 1 << 20
_SAMPLE_SECONDS = 0.001
_ADDRESS_FD = "LOCK_ADDRESS_FD"


@dataclass(frozen=True, slots=True)
class LockSamples:
    """Samples of a program's run: seconds since 1970, and whether a thread held the lock."""

    samples: Sequence[tuple[float, bool]]
    wall_seconds: float
    cpu_seconds: float

    @property
    def share(self) -> float:
        """Share of the time in which a thread held the lock."""
        return sum(held for _, held in self.samples) / max(1, len(self.samples))

    @property
    def held_seconds(self) -> float:
        return self.share * self.wall_seconds

    def by_phase(self, begins: Mapping[str, float]) -> dict[str, float]:
        """Return the seconds in which the lock was held, by phase. `begins` has the time at which each one begins."""
        times = sorted(begins.values())
        names = ["start", *sorted(begins, key=begins.__getitem__)]
        held = Counter(dict.fromkeys(names, 0))
        for at, is_held in self.samples:
            held[names[bisect_right(times, at)]] += is_held
        return {name: count * self.wall_seconds / max(1, len(self.samples)) for name, count in held.items()}


def measure_lock(module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> LockSamples:
    """Run `python -m MODULE ARGUMENTS` and sample its lock. Raises CalledProcessError."""
    read_end, write_end = os.pipe()
    before, started = os.times(), time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.lock_time", "--measured", module, *arguments],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(environment or {}), _ADDRESS_FD: str(write_end)},
        pass_fds=[write_end],
        stdout=subprocess.DEVNULL,
    ) as process:
        os.close(write_end)
        with os.fdopen(read_end, "rb") as pipe:
            address = int(pipe.read() or b"0")
        samples = _samples(process, address)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, [module, *arguments])
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return LockSamples(samples, time.monotonic() - started, cpu)


def _samples(process: subprocess.Popen[bytes], address: int) -> list[tuple[float, bool]]:
    samples: list[tuple[float, bool]] = []
    with _real_time(), Path(f"/proc/{process.pid}/mem").open("rb", buffering=0) as memory:
        while process.poll() is None:
            try:
                flag = os.pread(memory.fileno(), 4, address)
            except OSError:  # the process has ended
                break
            if len(flag) == 4:
                samples.append((time.time(), flag != bytes(4)))
            time.sleep(_SAMPLE_SECONDS)
    process.wait()
    return samples


@contextmanager
def _real_time() -> Iterator[None]:
    """Let this thread run as soon as it wakes up, if the system permits it."""
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, priority)


def lock_address() -> int:
    """Return the address of the flag of this interpreter's lock: 1 while a thread holds it.

    The flag follows the switch interval and the last holder, two words, in CPython 3.11 to 3.13
    (`struct _gil_runtime_state`). Raises RuntimeError.
    """
    sys.setswitchinterval(_INTERVAL_MICROSECONDS / 1e6)
    start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        runtime = os.pread(memory.fileno(), _RUNTIME_BYTES, start)
    found = runtime.find(struct.pack("<Q", _INTERVAL_MICROSECONDS))
    if found < 0:
        raise RuntimeError("The lock of this Python version is elsewhere. Adapt benchmarks/lock_time.py.")
    return start + found + 16


def main() -> None:
    """Measure a module, or run the measured module after reporting where its lock is."""
    if sys.argv[1] != "--measured":
        lock = measure_lock(sys.argv[1], sys.argv[2:])
        print(f"lock held {lock.share:.1%} of {lock.wall_seconds:.1f} s; {lock.cpu_seconds:.1f} CPU s")
        return
    with os.fdopen(int(os.environ.pop(_ADDRESS_FD)), "wb") as pipe:
        pipe.write(str(lock_address()).encode())
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

"""Candidates that take more than their share: time, memory, processes, output, disk."""

from __future__ import annotations

from kforge.records import Phase, Status
from tests.judge.hostile import TIMED, hostile

_LATE = Status.TIMED_OUT

CANDIDATES = [
    hostile("endless import", _LATE, "time_limit", top="while True: pass", phase=Phase.BUILD),
    hostile("endless constructor", _LATE, "time_limit", construct="while True: pass", phase=Phase.BUILD),
    hostile("endless forward", _LATE, "time_limit", forward="while True: pass", phase=Phase.RUN),
    hostile("sleeps in forward with all signals blocked", _LATE, "time_limit", phase=Phase.RUN,
            top="signal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 65)) - {32, 33})", forward="time.sleep(1000)"),
    hostile("endless system call while timed", _LATE, "time_limit", phase=Phase.TIMING,
            forward=f"if {TIMED}: libc.pause()\nreturn self.right(x)"),
    hostile("deadlock while timed", _LATE, "time_limit", phase=Phase.TIMING, forward=f"""
        if {TIMED}:
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        return self.right(x)
    """),
    hostile("a frame that never ends", _LATE, "time_limit", phase=Phase.RUN,
            forward="os.write(channel(), struct.pack('<I', 2**20) + b'{')\ntime.sleep(1000)"),
    hostile("disk filled", Status.CRASHED, "forward", "crash", phase=Phase.RUN, forward="""
        number = 0
        while True:
            number += 1
            with open(os.path.join(os.environ["HOME"], str(number)), "wb") as file:
                file.write(b"x" * 2**26)
    """),
    hostile("1 GB of output, then a right answer", Status.CORRECT, forward="""
        if self.number == 1:
            line = b"x" * 2**20
            for _ in range(1024):
                os.write(1, line)
        return self.right(x)
    """),
    hostile("output without end", _LATE, "time_limit", phase=Phase.RUN,
            forward="while True: os.write(2, b'no' * 4096)"),
    hostile("thread bomb", Status.CRASHED, "forward", "memory_limit", "crash", phase=Phase.RUN, forward="""
        while True:
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    """),
    hostile("descriptors used up", Status.CRASHED, "forward", "crash", phase=Phase.RUN, forward="""
        while True:
            os.dup(1)
    """),
]  # fmt: skip

BOMBS = [
    hostile("fork bomb", Status.CRASHED, "forward", "memory_limit", "crash", phase=Phase.RUN,
            forward="while True:\n    os.fork()\n"),
    hostile("memory bomb in forward", Status.CRASHED, "memory_limit", "forward", phase=Phase.RUN, forward="""
        kept = []
        while True:
            kept.append(bytearray(2**28))
    """),
    hostile("memory bomb of tensors at import", Status.CRASHED, "memory_limit", "crash", phase=Phase.BUILD,
            top="kept = []\ntry:\n    while True: kept.append(torch.ones(2**26))\nexcept BaseException: os.abort()"),
    hostile("memory bomb of shared memory", Status.CRASHED, "memory_limit", "forward", "crash", phase=Phase.RUN,
            forward="""
        kept = []
        while True:
            kept.append(mmap.mmap(-1, 2**28))
            kept[-1].write(b"x" * 2**28)
    """),
    hostile("memory bomb of memfds", Status.CRASHED, "memory_limit", "forward", "crash", phase=Phase.RUN, forward="""
        while True:
            fd = os.memfd_create("bomb")
            for _ in range(16):
                os.write(fd, b"x" * 2**24)
    """),
    hostile("memory bomb in children", Status.CRASHED, "memory_limit", "forward", "crash", phase=Phase.RUN, forward="""
        for _ in range(64):
            if os.fork() == 0:
                kept = [bytearray(b"x" * 2**28) for _ in range(4)]
                time.sleep(1000)
        time.sleep(1000)
    """),
]  # fmt: skip
"""These need time to reach their limit."""

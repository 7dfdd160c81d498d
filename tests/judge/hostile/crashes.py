"""Candidates that end, or try to end, their process, their channel or the files around it."""

from __future__ import annotations

from kforge.records import Phase, Status
from tests.judge.hostile import TIMED, hostile

_CRASHED = Status.CRASHED

CANDIDATES = [
    hostile("segfault at import", _CRASHED, "crash", top="ctypes.string_at(0)", phase=Phase.BUILD, says="SIGSEGV"),
    hostile("segfault in forward", _CRASHED, "crash", forward="ctypes.string_at(0)", phase=Phase.RUN, says="SIGSEGV"),
    hostile("segfault while timed", _CRASHED, "crash", phase=Phase.TIMING, says="SIGSEGV",
            forward=f"if {TIMED}: ctypes.string_at(0)\nreturn self.right(x)"),
    hostile("abort in forward", _CRASHED, "crash", forward="os.abort()", phase=Phase.RUN, says="SIGABRT"),
    hostile("exit 0 at import", _CRASHED, "crash", top="os._exit(0)", phase=Phase.BUILD, says="status 0"),
    hostile("exit 0 in forward", _CRASHED, "crash", forward="os._exit(0)", phase=Phase.RUN, says="status 0"),
    hostile("exit 0 while timed", _CRASHED, "crash", phase=Phase.TIMING, says="status 0",
            forward=f"if {TIMED}: os._exit(0)\nreturn self.right(x)"),
    hostile("sys.exit at import", Status.BUILD_FAILED, "import", top="sys.exit(0)", phase=Phase.BUILD,
            says="SystemExit: 0"),
    hostile("sys.exit in forward", _CRASHED, "forward", forward="sys.exit(3)", phase=Phase.RUN, says="SystemExit: 3"),
    hostile("another program in its place", _CRASHED, "crash", "forward", "protocol", phase=Phase.RUN,
            forward="os.execv('/bin/true', ['true'])"),
    hostile("endless recursion", _CRASHED, "forward", phase=Phase.RUN, says="RecursionError",
            forward="return self.forward(x)"),
    hostile("all descriptors closed at import", _CRASHED, "protocol", "crash", top="os.closerange(0, 4096)",
            phase=Phase.BUILD),
    hostile("all descriptors closed in forward", _CRASHED, "protocol", "crash", phase=Phase.RUN,
            forward="os.closerange(0, 4096)\nreturn self.right(x)"),
    hostile("channel replaced by /dev/null", _CRASHED, "protocol", "crash", phase=Phase.RUN,
            forward="os.dup2(os.open('/dev/null', os.O_RDWR), channel())\nreturn self.right(x)"),
    hostile("channel shut down", _CRASHED, "protocol", "crash", phase=Phase.RUN,
            forward="socket.socket(fileno=os.dup(channel())).shutdown(socket.SHUT_RDWR)\nreturn self.right(x)"),
    hostile("raises what cannot be shown", _CRASHED, "forward", phase=Phase.RUN, top="""
        class Worst(Exception):
            def __str__(self):
                raise self
            __repr__ = __str__
    """, forward="raise Worst()"),
    hostile("raises a message of 64 MB", _CRASHED, "forward", phase=Phase.RUN, forward="raise ValueError('x' * 2**26)"),
    hostile("raises KeyboardInterrupt", _CRASHED, "forward", forward="raise KeyboardInterrupt()", phase=Phase.RUN),
    hostile("no ModelNew after import", Status.BUILD_FAILED, "construct", construct="raise ValueError('no')",
            phase=Phase.BUILD, says="no"),
    hostile("arena unmapped", _CRASHED, "crash", phase=Phase.RUN, says="SIGSEGV", forward="""
        base = min(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if "kforge-arena" in line)
        libc.munmap(ctypes.c_void_p(base), ctypes.c_size_t(2**30))
        return self.right(x)
    """),
    hostile("signal handlers changed", Status.CORRECT, top="""
        for number in range(1, 32):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_IGN)
    """),
    hostile("signals blocked", Status.CORRECT,
            top="signal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 65)) - {32, 33})"),
    hostile("an interval timer that raises", _CRASHED, "forward", says="too slow", top="""
        def late(*_):
            raise RuntimeError("too slow")
        signal.signal(signal.SIGALRM, late)
    """, forward="signal.setitimer(signal.ITIMER_REAL, 0.01)\ntime.sleep(1)\nreturn self.right(x)"),
    hostile("scratch folder deleted", Status.CORRECT, top="""
        for name in os.listdir(os.environ["HOME"]):
            path = os.path.join(os.environ["HOME"], name)
            shutil.rmtree(path, ignore_errors=True)
            if os.path.exists(path):
                os.unlink(path)
        try:
            os.rmdir(os.environ["HOME"])
        except OSError:
            pass
    """),
]  # fmt: skip

"""Candidates whose answers are wrong, stale, late, or made by something that is not stopped with them."""

from __future__ import annotations

from kforge.records import Phase, Status
from tests.judge.hostile import TIMED, hostile

_WRONG = Status.WRONG
_SHARED = """
    held = torch.frombuffer(mmap.mmap(-1, 2**28), dtype=torch.float32)
    places = [held[i * 64 * 4096:(i + 1) * 64 * 4096].view(64, 4096) for i in range(256)]
"""

CANDIDATES = [
    hostile("zeros", _WRONG, "values", forward="self.calls += 1\nreturn torch.zeros(64, 4096)", phase=Phase.COMPARE),
    hostile("memory that nobody wrote", _WRONG, "values", "nonfinite", phase=Phase.COMPARE,
            forward="self.right(x)\nreturn torch.empty(64, 4096)"),
    hostile("one element that nobody wrote", _WRONG, "values", "nonfinite", phase=Phase.COMPARE, forward="""
        out = torch.empty(64, 4096)
        right = self.right(x)
        out.view(-1)[:-1] = right.view(-1)[:-1]
        return out
    """),
    hostile("not a number", _WRONG, "nonfinite", forward="return self.right(x) * float('nan')", phase=Phase.COMPARE),
    hostile("half precision inside", _WRONG, "values", forward="return self.right(x.half()).float()"),
    hostile("the input", _WRONG, "values", forward="self.calls += 1\nreturn x"),
    hostile("answers kept by address", _WRONG, "values", phase=Phase.TIMING, forward="""
        if x.data_ptr() not in self.__dict__.setdefault("kept", {}) or self.number <= 3:
            self.kept[x.data_ptr()] = self.right(x)
        return self.kept[x.data_ptr()].clone()
    """),
    hostile("answers kept by some elements", _WRONG, "values", forward="""
        key = tuple(x.view(-1)[::65536].tolist())
        if (x.data_ptr(), key[:1]) not in self.__dict__.setdefault("kept", {}):
            self.kept[x.data_ptr(), key[:1]] = self.right(x)
        return self.kept[x.data_ptr(), key[:1]] if self.number < 2 else next(iter(self.kept.values()))
    """),
    hostile("the first answer for ever", _WRONG, "values", forward="""
        if self.number == 1:
            self.first = self.right(x)
        self.calls.fill_(self.number)
        return self.first
    """),
    hostile("one buffer for all answers", _WRONG, "values", phase=Phase.TIMING, construct="self.out = None", forward="""
        if self.out is None:
            self.out = torch.empty(64, 4096)
        self.calls += 1
        return torch.mul(torch.tanh(x), self.weight, out=self.out)
    """),
    hostile("right at first, wrong while timed", _WRONG, "values", phase=Phase.TIMING,
            forward=f"return self.right(x) + (0.001 if {TIMED} else 0)"),
    hostile("only the last call of a batch computed", _WRONG, "values", "nonfinite", phase=Phase.TIMING, forward=f"""
        right = self.right(x)
        if {TIMED} and self.number % 3:
            return torch.zeros(64, 4096)
        return right
    """),
    hostile("input spoilt afterwards", _WRONG, "inputs_unchanged", phase=Phase.COMPARE, forward="""
        right = self.right(x)
        x.zero_()
        return right
    """),
    hostile("input spoilt while timed", _WRONG, "inputs_unchanged", "values", phase=Phase.TIMING, forward=f"""
        right = self.right(x)
        if {TIMED}:
            x.zero_()
        return right
    """),
    hostile("parameter spoilt", _WRONG, "parameters_unchanged", phase=Phase.COMPARE, forward="""
        right = self.right(x)
        with torch.no_grad():
            self.weight.zero_()
        return right
    """),
    hostile("buffer not kept", _WRONG, "buffers", forward="return torch.tanh(x) * self.weight", phase=Phase.COMPARE),
    hostile("a thread that computes after the answer", _WRONG, "values", "nonfinite", forward="""
        out = torch.empty(64, 4096)
        def late():
            time.sleep(0.0005)
            out.copy_(torch.tanh(x) * self.weight)
        self.calls += 1
        threading.Thread(target=late).start()
        return out
    """),
    hostile("a thread that computes while timed", _WRONG, "values", "nonfinite", phase=Phase.TIMING, forward=f"""
        if not ({TIMED}):
            return self.right(x)
        out = torch.empty(64, 4096)
        self.__dict__.setdefault("work", []).append((out, x))
        def late():
            for mine, its in list(self.work):
                mine.copy_(torch.tanh(its) * self.weight)
        threading.Thread(target=late).start()
        return out
    """),
    hostile("a child that finishes the work", Status.REJECTED, "children", phase=Phase.TIMING, top=_SHARED,
            forward=f"""
        if not ({TIMED}):
            return self.right(x)
        out = places[self.number % 256]
        if os.fork() == 0:
            torch.set_num_threads(1)
            out.copy_(self.right(x))
            time.sleep(1000)
        return out
    """),
    hostile("a child that outlives", Status.REJECTED, "children", phase=Phase.TIMING,
            top="if os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\n    os._exit(0)"),
    hostile("a grandchild in a session of its own", Status.REJECTED, "children", phase=Phase.TIMING, top="""
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 65)) - {32, 33})
                time.sleep(1000)
            os._exit(0)
    """),
    hostile("a child that continues its parent", Status.REJECTED, "children", "not_stopped", top="""
        if os.fork() == 0:
            while True:
                os.kill(1, signal.SIGCONT)
    """),
    hostile("a child without end in each call", Status.REJECTED, "children", "not_stopped", phase=Phase.TIMING,
            forward=f"""
        if {TIMED} and os.fork() == 0:
            time.sleep(1000)
        return self.right(x)
    """),
    hostile("clocks patched", Status.CORRECT, top="""
        for name in ("time", "perf_counter", "monotonic", "process_time", "time_ns", "perf_counter_ns", "monotonic_ns"):
            setattr(time, name, lambda: 0)
        torch.cuda.Event = torch.Event = None
    """),
    hostile("threads, garbage collector and priorities changed", Status.CORRECT, top="""
        gc.disable()
        torch.set_num_threads(1)
        try:
            os.nice(-10)
        except OSError:
            pass
        sys.setswitchinterval(10)
        sys.settrace(None)
    """),
    hostile("limits lowered by itself", Status.CORRECT, top="resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))"),
]  # fmt: skip

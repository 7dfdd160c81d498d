"""Candidates that forge what they tell the judge, or patch the program that tells it."""

from __future__ import annotations

from kforge.records import Phase, Status
from tests.judge.hostile import TIMED, hostile

_BROKEN = Status.CRASHED


def _frame(text: str) -> str:
    """Give code that writes a whole frame with this expression's bytes into the channel."""
    text = text.replace("TYPE", '"float32","cpu","torch.Tensor"')
    return f"data = {text}\nos.write(channel(), struct.pack('<I', len(data)) + data)\n"


CANDIDATES = [
    hostile("a frame that is no JSON", _BROKEN, "protocol", forward=_frame("b'{]'") + "return self.right(x)"),
    hostile("a frame that is no object", _BROKEN, "protocol", forward=_frame("b'[1]'") + "return self.right(x)"),
    hostile("a frame of 4 GB", _BROKEN, "protocol", phase=Phase.RUN,
            forward="os.write(channel(), b'\\xff' * 8)\nreturn self.right(x)"),
    hostile("a frame nested without end", _BROKEN, "protocol",
            forward=_frame("b'{\"output\":' + b'[' * 100000 + b']' * 100000 + b'}'") + "return self.right(x)"),
    hostile("numbers that are no sizes", _BROKEN, "protocol", forward=_frame(
        """b'{"output":["tensor",[-1,[1e999,NaN],[true,null],TYPE]]}'""") + "return self.right(x)"),
    hostile("an answer without an output", _BROKEN, "protocol", forward=_frame("b'{}'") + "return self.right(x)"),
    hostile("a tensor larger than any memory", Status.WRONG, "shape", "structure", forward=_frame(
        """b'{"output":["tensor",[4096,[1048576,65536],[65536,1],TYPE]]}'""") + "time.sleep(9)"),
    hostile("a tensor spread over all memory", Status.WRONG, "structure", forward=_frame(
        """b'{"output":["tensor",[4096,[64,4096],[4294967296,1],TYPE]]}'""") + "time.sleep(9)"),
    hostile("the address of nothing", Status.REJECTED, "unreadable", forward=_frame(
        """b'{"output":["tensor",[4096,[64,4096],[4096,1],TYPE]]}'""") + "time.sleep(9)"),
    hostile("the address of the kernel", Status.REJECTED, "unreadable", forward=_frame(
        """b'{"output":["tensor",[9223372036854771712,[64,4096],[4096,1],TYPE]]}'""") + "time.sleep(9)"),
    hostile("an early answer that is right, then another", _BROKEN, "protocol", forward="""
        from kforge.judge import worker
        held = self.right(x)
        tagged = ["tensor", [held.data_ptr(), list(held.shape), list(held.stride()), "float32", "cpu", "torch.Tensor"]]
        import json
        data = json.dumps({"output": tagged}).encode()
        os.write(channel(), struct.pack("<I", len(data)) + data)
        return held
    """),
    hostile("a forged error of another candidate's", _BROKEN, "forward",
            forward=_frame("""b'{"error":{"type":["x"],"message":{"y":1},"traceback":7}}'""") + "return self.right(x)"),
    hostile("an error that is no object", _BROKEN, "forward",
            forward=_frame("b'{\"error\":7}'") + "return self.right(x)"),
    hostile("a forged verdict", _BROKEN, "protocol", forward=_frame(
        """b'{"result":{"status":"correct"},"verdict":"correct","progress":["x","y"]}'""") + "return self.right(x)"),
    hostile("says float32 over half precision", Status.WRONG, "values", "nonfinite", "dtype", top="""
        from kforge.judge import worker
        worker.dtype_name = lambda dtype: "float32"
    """, forward="return self.right(x).half().repeat(1, 2)[:, :4096]"),
    hostile("says torch.Tensor over a subclass that computes late", Status.WRONG, "values", "nonfinite", top="""
        from kforge.judge import worker
        class Late(torch.Tensor):
            pass
        Late.__module__, Late.__qualname__ = "torch", "Tensor"
    """, forward="self.right(x)\nreturn torch.empty(64, 4096).as_subclass(Late)"),
    hostile("a subclass of Tensor", Status.WRONG, "type", top="class Mine(torch.Tensor): pass",
            forward="return self.right(x).as_subclass(Mine)"),
    hostile("worker replaced by one that answers before it computes", Status.WRONG, "values", "nonfinite", top="""
        from kforge.judge.worker import Worker
        honest = Worker._batch
        def batch(self, request):
            if not hasattr(self, "held"):
                self.held = [torch.empty(64, 4096) for _ in range(8)]
            tagged = [["tensor", [one.data_ptr(), [64, 4096], [4096, 1], "float32", "cpu", "torch.Tensor"]]
                      for one in self.held]
            return {"outputs": [tagged[number % 8] for number in range(len(request["slots"]))]}
        Worker._batch = batch
    """, phase=Phase.TIMING),
    hostile("too few outputs while timed", _BROKEN, "protocol", phase=Phase.TIMING, top="""
        from kforge.judge.worker import Worker
        honest = Worker._batch
        Worker._batch = lambda self, request: {"outputs": honest(self, request)["outputs"][:-1]}
    """),
    hostile("another shape while timed", Status.WRONG, "shape", phase=Phase.TIMING,
            forward=f"return self.right(x)[:1] if {TIMED} else self.right(x)"),
    hostile("another structure while timed", Status.WRONG, "structure", phase=Phase.TIMING,
            forward=f"return [self.right(x)] if {TIMED} else self.right(x)"),
    hostile("nothing while timed", Status.WRONG, "structure", phase=Phase.TIMING,
            forward=f"return None if {TIMED} else self.right(x)"),
    hostile("a million values", Status.CRASHED, "protocol", forward="return [0] * 2**20"),
    hostile("nested without end", Status.CRASHED, "forward", "protocol", forward="""
        nested = []
        nested.append(nested)
        return nested
    """),
    hostile("an object that lies about its class", Status.CRASHED, "forward", says="Liar", top="""
        class Liar:
            __class__ = torch.Tensor
            shape, dtype, device = (64, 4096), torch.float32, torch.device("cpu")
    """, forward="return Liar()"),
    hostile("comparisons patched", Status.WRONG, "values", top="""
        import kforge.judge.checks, kforge.judge.compare, kforge.judge.session
        torch.equal = torch.allclose = torch.isclose = lambda *_, **__: True
        torch.testing.assert_close = lambda *_, **__: None
        kforge.judge.checks.compare_tensor = kforge.judge.compare.compare_output = lambda *_, **__: None
    """, forward="return self.right(x) + 1"),
]  # fmt: skip

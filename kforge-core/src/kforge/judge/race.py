"""Timing: batches of several programs in turn, on the same contents, under the judge's clock.

Per round: contents are redrawn while all are stopped; each program runs its batch on slots of the same random order;
its last output's tiles are copied inside the clock; tiles of the last and of sampled outputs are compared with those of
a baseline; inputs are checked in the worker's own mapping.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import torch
from attrs import define, field

from kforge.judge.arena import Arena, itemsize
from kforge.judge.checks import Expected, compare_shape, compare_structure, compare_tensor
from kforge.judge.inputs import Ring
from kforge.judge.program import Failure, Program
from kforge.judge.protocol import Message
from kforge.judge.values import TensorAt, leaves
from kforge.records import Finding, Phase, Status

WARM_ROUNDS: Final = 3
ROUNDS: Final = 15
FEWEST_ROUNDS: Final = 5
LONG_S: Final = 20.0
"""Seconds of timed windows after which the fewest rounds are enough: slow programs are timed well in few."""
BATCH_S: Final = 0.020
"""A batch shorter than this is noise on a CPU: its threads may share a core for all of it."""
TILES: Final = 4
TILE: Final = 1024
"""Elements."""
INPUT_TILES: Final = 4
EXTRA_CHECK_SHARE: Final = 3
"""In one of so many rounds a call that the baseline did not time is computed for the check."""


_HELPERS: Final = ThreadPoolExecutor(2, "redraw")
"""One thread does not fill the memory's bandwidth, and all workers are stopped meanwhile."""


@define
class Lane:
    """One program in a race, and what it took."""

    program: Program
    trusted: bool = False
    calls: int = 1
    seconds: list[float] = field(factory=list)
    """Seconds a call, a number a counted round."""
    outputs: list[Any] = field(factory=list)
    window_s: float = 0.0
    """Of the last batch."""


@define
class Race:
    """A fixed set of programs timed against each other; the first is the candidate, the last a trusted baseline."""

    arena: Arena
    ring: Ring
    lanes: list[Lane]
    expected: Any
    """The nesting with an `Expected` for each tensor; its values are of other inputs, its budgets serve here too."""
    call_limit_s: float
    """For a batch too: it has one call, or as many as take `BATCH_S`."""
    max_calls: int
    redraw_whole: Callable[[int], None] | None = None
    """Draws a slot from the Problem's own generator, where a key cannot change it."""
    window_s: float = 0.0
    """Spent in timed windows by all lanes, warm-up included."""
    _reverse: list[Lane] = field(factory=list)
    """The last round's order, where its reverse comes next."""

    def run(self, rounds: int = ROUNDS) -> None:
        """Warm up, then time ``rounds`` rounds; raises `Failure` for what the candidate did wrong."""
        for _ in range(WARM_ROUNDS):
            self._round(counted=False)
            for lane in self.lanes:
                per_call = lane.window_s / lane.calls
                lane.calls = max(1, min(math.ceil(BATCH_S / max(per_call, 1e-7)), self.max_calls, self.ring.slots))
        for number in range(rounds):
            self._round(counted=True)
            if number + 1 >= FEWEST_ROUNDS and self.window_s > LONG_S:
                break

    def _round(self, *, counted: bool) -> None:
        order = secrets.SystemRandom().sample(range(self.ring.slots), max(lane.calls for lane in self.lanes))
        if not counted:
            pass  # what a candidate keeps from here is stale in the rounds that count
        elif self.redraw_whole is None:
            list(_HELPERS.map(lambda slot: self.ring.redraw(self.arena, slot), order))
        else:
            for slot in order:
                self.redraw_whole(slot)
        tiles = [secrets.randbelow(2**31) for _ in range(TILES)]
        for lane in self._turns():
            self._batch(lane, order[-lane.calls :], tiles, counted=counted)
        self._check(order)
        for lane in self.lanes:
            lane.outputs.clear()
            lane.program.ask("free", self.call_limit_s)
            lane.program.freeze()

    def _turns(self) -> list[Lane]:
        """Give who goes when: a random order, then its reverse, so that each follows each other one equally often."""
        if self._reverse:
            turns, self._reverse = self._reverse[::-1], []
        else:
            turns = self._reverse = secrets.SystemRandom().sample(self.lanes, len(self.lanes))
        return turns

    def _batch(self, lane: Lane, slots: Sequence[int], tiles: Sequence[int], *, counted: bool) -> None:
        message: Message = {"op": "batch", "slots": slots}
        if lane.program.copies:
            message["arguments"] = {str(slot): self.ring.tagged[slot] for slot in slots}
        lane.window_s, lane.outputs = lane.program.window(message, tiles, self.call_limit_s)
        self.window_s += lane.window_s
        if lane.program is self.lanes[0].program:
            lane.program.refuse_children()
        if counted:
            lane.seconds.append(lane.window_s / lane.calls)

    def _check(self, order: Sequence[int]) -> None:
        """Compare the candidate's outputs with the trusted lane's on the same contents; both are frozen."""
        candidate, trusted = self.lanes[0], self.lanes[-1]
        for output in candidate.outputs:
            self._check_shapes(output)
        shared = min(candidate.calls, trusted.calls)
        self._compare(candidate.outputs[-1], trusted.outputs[-1])
        if shared > 1:
            back = 2 + secrets.randbelow(shared - 1)
            self._compare(candidate.outputs[-back], trusted.outputs[-back])
        if candidate.calls > shared and secrets.randbelow(EXTRA_CHECK_SHARE) == 0:
            back = shared + 1 + secrets.randbelow(candidate.calls - shared)
            quick = min((lane for lane in self.lanes if lane.trusted), key=lambda lane: lane.window_s / lane.calls)
            answer = quick.program.ask("call", self.call_limit_s, slot=order[-back], poison=0)
            quick.program.freeze()
            self._compare(candidate.outputs[-back], quick.program.decoded(answer["output"]), quick)
        self._check_inputs(candidate.program, order[-candidate.calls :])

    def _check_shapes(self, output: object) -> None:
        finding = compare_structure(self.expected, output, Phase.TIMING)
        if finding is not None:
            raise Failure(Status.WRONG, finding)
        for (path, expected), (_, leaf) in zip(leaves(self.expected), leaves(output), strict=True):
            # A value that is no tensor may follow from the inputs, and these are not the case's: its kind is checked.
            known = expected if isinstance(expected, Expected) or type(leaf) is not type(expected) else leaf
            finding = compare_shape(path, known, leaf, Phase.TIMING)
            if finding is not None:
                raise Failure(Status.WRONG, finding)

    def _compare(self, output: object, trusted: object, referee: Lane | None = None) -> None:
        referee = referee or self.lanes[-1]
        rows = zip(leaves(self.expected), leaves(output), leaves(trusted), strict=True)
        for (path, expected), (_, mine), (_, right) in rows:
            if not (isinstance(expected, Expected) and isinstance(mine, TensorAt) and isinstance(right, TensorAt)):
                finding = compare_shape(f"{path} while timed", right, mine, Phase.TIMING)
                if finding is not None:
                    raise Failure(Status.WRONG, finding)
                continue
            if mine.numel == 0:
                continue
            starts = (0, max(0, mine.numel - TILE), *(secrets.randbelow(mine.numel) for _ in range(TILES)))
            got = [self.lanes[0].program.read_tile(mine, start, TILE) for start in starts]
            want = [referee.program.read_tile(right, start, TILE) for start in starts]
            if self._finding(path, expected, torch.cat(want), torch.cat(got)) is None:
                continue
            findings = [
                self._finding(f"{path} while timed, from element {start}", expected, its, own)
                for start, its, own in zip(starts, want, got, strict=True)
            ]
            finding = next((one for one in findings if one is not None), None)
            # Tiles that only together are off are so on average.
            finding = finding or self._finding(f"{path} while timed", expected, torch.cat(want), torch.cat(got))
            assert finding is not None
            raise Failure(Status.WRONG, finding)

    @staticmethod
    def _finding(path: str, expected: Expected, want: torch.Tensor, got: torch.Tensor) -> Finding | None:
        exact = want if expected.budget is None else want.to(torch.complex128 if want.is_complex() else torch.float64)
        stand_in = Expected(exact, dtype=expected.dtype, budget=expected.budget)
        # The trusted side is at the declared precision itself, so the budget stands on both sides.
        return compare_tensor(path, stand_in, got, Phase.TIMING, slack=2.0)

    def _check_inputs(self, program: Program, slots: Sequence[int]) -> None:
        """Look for spoilt inputs in the worker's own mapping, which is private to it."""
        for slot in {slots[-1], slots[0], slots[secrets.randbelow(len(slots))]}:
            for number, where in enumerate(self.ring.places(slot)):
                length = where.span * itemsize(where.dtype)
                if not length:
                    continue
                for _ in range(INPUT_TILES):
                    start = secrets.randbelow(length)
                    size = min(4096, length - start)
                    buffer = bytearray(size)
                    program.read(program.base + where.at + start, memoryview(buffer))
                    if buffer != self.arena.bytes[where.at + start : where.at + start + size].tobytes():
                        raise Failure(Status.WRONG, Finding(
                            "inputs_unchanged", phase=Phase.TIMING, output=f"input {number}",
                            message=f"input {number} was changed by the candidate while it was timed",
                        ))  # fmt: skip

"""One candidate's outputs, inputs, parameters and buffers against one case."""

from __future__ import annotations

from typing import Any, Final

import torch

from kforge.judge.arena import itemsize
from kforge.judge.checks import Expected, compare_shape, compare_structure, compare_tensor
from kforge.judge.expected import Case, same_bits
from kforge.judge.program import Failure, Program
from kforge.judge.values import TensorAt, leaves
from kforge.judge.workshop import Workshop
from kforge.records import Finding, Phase, Status

POISONS: Final = (0x80, 0x55, 0x01)
"""Bytes for fresh memory, complemented by the C library: a huge, a negative and a not-a-number pattern in turn."""


def compare_case(
    workshop: Workshop, program: Program, case: Case, phase: Phase, *, number: int, limit_s: float
) -> None:
    """Call the candidate once on a case and compare everything; raises `Failure`."""
    workshop.ring.put(workshop.arena, 0, case.arguments)
    program.phase = Phase.RUN if phase is Phase.COMPARE else phase
    workshop.bind(program, 1)
    answer = program.ask("call", limit_s, slot=0, poison=POISONS[number % len(POISONS)])
    program.freeze()
    program.phase = phase
    output = program.decoded(answer.get("output"))
    compare_output(program, case.output, output, phase)
    _compare_inputs(workshop, program, phase)
    _compare_state(program, case, phase)
    program.ask("free", limit_s)
    program.freeze()


def compare_output(program: Program, expected: Any, output: Any, phase: Phase) -> None:
    """Compare an output's structure, kinds and elements; raises `Failure`."""
    finding = compare_structure(expected, output, phase)
    if finding is not None:
        raise Failure(Status.WRONG, finding)
    for (path, right), (_, mine) in zip(leaves(expected), leaves(output), strict=True):
        finding = compare_shape(path, right, mine, phase)
        if finding is None and isinstance(right, Expected) and isinstance(mine, TensorAt) and mine.numel:
            finding = compare_tensor(path, right, program.fetch(mine), phase)
        if finding is not None:
            raise Failure(Status.WRONG, finding)


def _compare_inputs(workshop: Workshop, program: Program, phase: Phase) -> None:
    """Compare the worker's own mapping of slot 0 with the judge's."""
    for number, where in enumerate(workshop.ring.places(0)):
        length = where.span * itemsize(where.dtype)
        buffer = torch.empty(length, dtype=torch.uint8)
        if length:
            program.read(program.base + where.at, buffer.numpy().data)
        if not torch.equal(buffer, torch.from_numpy(workshop.arena.flat(where))):
            raise Failure(Status.WRONG, Finding(
                "inputs_unchanged", phase=phase, output=f"input {number}",
                message=f"input {number} was changed by the candidate",
            ))  # fmt: skip


def _compare_state(program: Program, case: Case, phase: Phase) -> None:
    """Compare parameters (unchanged) and buffers (as the reference leaves them), by name."""
    answer = program.ask("state", 30.0)
    program.freeze()
    before = dict(case.state)
    state = answer.get("state")
    for entry in state if isinstance(state, list) else []:
        match entry:
            case [str() as name, bool() as is_parameter, tagged]:
                where = program.decoded(tagged)
                right = before.get(name)
                if right is None or not isinstance(where, TensorAt) or where.shape != tuple(right.shape):
                    continue
                finding = _compare_named(program, case, name, where, right, phase, is_parameter=is_parameter)
                if finding is not None:
                    raise Failure(Status.WRONG, finding)


def _compare_named(
    program: Program, case: Case, name: str, where: TensorAt, before: torch.Tensor, phase: Phase, *, is_parameter: bool
) -> Finding | None:
    if name in case.buffers:
        expected = case.buffers[name]
        if where.dtype != expected.dtype or not where.numel:
            return None
        finding = compare_tensor(f"buffer {name}", expected, program.fetch(where), phase)
        if finding is None:
            return None
        return Finding(
            "buffers", phase=phase, message=finding.message, output=finding.output, index=finding.index,
            expected=finding.expected, got=finding.got, error=finding.error, allowed=finding.allowed,
        )  # fmt: skip
    if is_parameter and where.numel and not same_bits(before, program.fetch(where)):
        message = f"parameter {name} was changed by forward"
        return Finding("parameters_unchanged", phase=phase, message=message, output=f"parameter {name}")
    return None

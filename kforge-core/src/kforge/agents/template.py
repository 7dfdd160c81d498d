"""The agent that needs no model: it plans the reference's graph, has a renderer write it, and searches by measurement.

The search is a coordinate descent over the renderer's axes, started at the first value of each. All it knows is read
from the request's attempts, so a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from attrs import frozen

from kforge.interfaces import Axis, NothingToTry, Proposal, Renderer, Request
from kforge.plan.plan import Plan, Unplannable
from kforge.plan.planner import make_plan
from kforge.records import Attempt

Point = tuple[int, ...]
"""One value for each axis."""


class TemplateAgent:
    """The `kforge.interfaces.Agent` named ``template``."""

    def propose(self, request: Request) -> Proposal | NothingToTry:
        """Give the next point of the search, or say why there is none."""
        if request.renderer is None:
            return NothingToTry(
                f"the language {request.target.language} has no renderer: choose another target, or an agent that "
                "writes source itself (--agent openai)"
            )
        plan = make_plan(request.graph)
        if isinstance(plan, Unplannable):
            return NothingToTry(
                f"no kernel can be planned for {plan}. An agent that writes source itself may do it (--agent openai)"
            )
        reasons = request.renderer.can_render(plan, request.problem.device)
        if reasons:
            return NothingToTry(f"{request.target.language} cannot express the plan: {'; '.join(reasons)}")
        search = _Search(
            request, plan, request.renderer, request.renderer.space(plan, request.problem.device), _sources(request)
        )
        return search.next()


def _sources(request: Request) -> frozenset[str]:
    return frozenset(attempt.candidate.source for attempt in request.attempts)


@frozen
class _Move:
    """A point worth trying, and why."""

    point: Point
    why: str


@frozen
class _Search:
    request: Request
    plan: Plan
    renderer: Renderer
    axes: tuple[Axis, ...]
    tried: frozenset[str]

    def next(self) -> Proposal | NothingToTry:
        """Give the first move that leads to a source nobody has seen."""
        best = self._best()
        moves = self._first() if best is None else self._around(best)
        known = self._points()
        for move in moves:
            parameters = self._parameters(move.point)
            source = self.renderer.render(self.plan, parameters)
            if source not in self.tried and move.point not in known:
                return Proposal(source, note=move.why, parameters=tuple(parameters.items()))
        if best is None:
            return NothingToTry(f"all {self._size()} points of the space were tried, and none is correct")
        return NothingToTry(
            f"{self._text(best)} is the fastest of its neighbours{_at(self._seconds(best))}; "
            f"{len(self._points())} of {self._size()} points were tried"
        )

    def _parameters(self, point: Point) -> dict[str, int]:
        return {axis.name: value for axis, value in zip(self.axes, point, strict=True)}

    def _points(self) -> dict[Point, Attempt]:
        """Give the attempts of this space by their points; the last one of each."""
        found = {}
        for attempt in self.request.attempts:
            parameters = dict(attempt.candidate.origin.parameters)
            if all(parameters.get(axis.name) in axis.values for axis in self.axes) and len(parameters) == len(
                self.axes
            ):
                found[tuple(parameters[axis.name] for axis in self.axes)] = attempt
        return found

    def _best(self) -> Point | None:
        """Give the point to search around: the kept one, else the fastest correct one."""
        points = {point: attempt for point, attempt in self._points().items() if attempt.judgement.correct}
        kept = self.request.best
        for point, attempt in points.items():
            if kept is not None and attempt.candidate.hash == kept.candidate.hash:
                return point
        return min(points, key=lambda point: self._seconds(point) or float("inf"), default=None)

    def _seconds(self, point: Point) -> float | None:
        """Give the measured time of a point; None where it was not timed or is not correct."""
        attempt = self._points().get(point)
        if attempt is None or not attempt.judgement.correct or attempt.judgement.measurement is None:
            return None
        return attempt.judgement.measurement.candidate.median_s

    def _first(self) -> Iterator[_Move]:
        """Start at the default, and walk through the space as long as nothing is correct."""
        last = next(reversed(self.request.attempts), None)
        for number, point in enumerate(itertools.product(*(axis.values for axis in self.axes))):
            if number == 0 or last is None:
                yield _Move(point, f"first guess: {self._text(point)}")
            else:
                status = last.judgement.verdict.status
                word = "not judged" if status is None else status.value
                yield _Move(point, f"attempt {last.number} was {word}, so next {self._text(point)}")

    def _around(self, best: Point) -> Iterator[_Move]:
        """Go on where a step has paid, then to neighbours, then to the rest of each axis."""
        yield from self._onward(best)
        for near in (True, False):
            for number, axis in enumerate(self.axes):
                values = sorted(axis.values)
                place = values.index(best[number])
                for value in sorted(values, key=lambda value: (abs(values.index(value) - place), -value)):
                    if value != best[number] and (abs(values.index(value) - place) == 1) is near:
                        yield self._step(best, number, value)

    def _onward(self, best: Point) -> Iterator[_Move]:
        for number, axis in enumerate(self.axes):
            values = sorted(axis.values)
            place = values.index(best[number])
            for behind, ahead in ((place - 1, place + 1), (place + 1, place - 1)):
                if not (0 <= behind < len(values) and 0 <= ahead < len(values)):
                    continue
                slower = self._seconds(_moved(best, number, values[behind]))
                faster = self._seconds(best)
                if slower is not None and faster is not None and faster < slower:
                    yield _Move(
                        _moved(best, number, values[ahead]),
                        f"{_words(axis.name)} {values[behind]} -> {best[number]}: {_time(slower)} -> {_time(faster)}, "
                        f"so next {values[ahead]}",
                    )

    def _step(self, best: Point, number: int, value: int) -> _Move:
        name = _words(self.axes[number].name)
        known = self._no_gain(best)
        reason = known or f"{self._text(best)} is the best so far{_at(self._seconds(best))}"
        return _Move(_moved(best, number, value), f"{reason}; next {name} {best[number]} -> {value}")

    def _no_gain(self, best: Point) -> str | None:
        """Tell the last attempt where it was a step from the best that did not pay."""
        last = next(reversed(self._points()), None)
        if last is None or last == best:
            return None
        changed = [number for number, (one, other) in enumerate(zip(best, last, strict=True)) if one != other]
        before, after = self._seconds(best), self._seconds(last)
        if len(changed) != 1 or before is None:
            return None
        number = changed[0]
        step = f"{_words(self.axes[number].name)} {best[number]} -> {last[number]}"
        if after is None:
            status = self._points()[last].judgement.verdict.status
            return f"{step} was {'not timed' if status is None else status.value} (best {_time(before)})"
        return f"{step}: {_time(before)} -> {_time(after)}, no gain"

    def _text(self, point: Point) -> str:
        if not point:
            return "the only form"
        return ", ".join(f"{_words(axis.name)} {value}" for axis, value in zip(self.axes, point, strict=True))

    def _size(self) -> int:
        size = 1
        for axis in self.axes:
            size *= len(axis.values)
        return size


def _moved(point: Point, number: int, value: int) -> Point:
    return (*point[:number], value, *point[number + 1 :])


def _words(name: str) -> str:
    return name.replace("_", "-")


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def _at(seconds: float | None) -> str:
    return "" if seconds is None else f" at {_time(seconds)}"

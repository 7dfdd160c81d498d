"""What a session starts: the arena, the zygote, and workers that hold a candidate or the reference."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from attrs import define, field, frozen

from kforge.errors import CannotJudgeError
from kforge.interfaces import WorkerSetup
from kforge.judge.arena import Arena, Layout
from kforge.judge.expected import Case
from kforge.judge.inputs import Ring, place_all, slot_bytes, tensors_of
from kforge.judge.isolation import LAYERS, Confinement
from kforge.judge.program import Program
from kforge.judge.race import BATCH_S
from kforge.judge.reference import Reference
from kforge.judge.values import TensorAt, encode
from kforge.judge.worker import CANDIDATE_FILE
from kforge.judge.zygote import Zygote
from kforge.records import Candidate, DeviceFacts, Limits, Phase

FAST_BYTES_S: Final = 30e9
"""No program here is expected to move more; sets how many slots a batch may need."""
MAX_SLOTS: Final = 4096
ARENA_BYTES: Final = 768 * 2**20
OUTPUT_BYTES: Final = 512 * 2**20
"""Outputs of one batch that are kept alive at once."""
BUILD_BYTES: Final = 6 * 2**30
"""What a build may take beside inputs and outputs; compilers of kernels run inside the worker."""
ACCELERATOR_BYTES: Final = 24 * 2**30
"""The same where a driver maps an accelerator's memory."""
BASELINE_BUILD_S: Final = 180.0
NOT_ACCELERATORS: Final = tuple(f"/dev/{name}" for name in ("tty", "pts", "ptmx", "fuse", "net", "kvm", "vhost", "shm"))
DRIVERS_REFUSE: Final = ("landlock files", "no sockets")
"""Layers under which a driver was seen not to start; the worker's own root still hides files and sockets."""
SCRATCH_BYTES: Final = 512 * 2**20


@frozen
class Sizes:
    """How large things are, all in bytes but ``slots`` and ``max_calls``."""

    slot: int
    output: int = field(kw_only=True)
    slots: int = field(kw_only=True)
    max_calls: int = field(kw_only=True)
    warm: int = field(kw_only=True)

    @classmethod
    def of(cls, case: Case, output: int, cache_bytes: int | None) -> Sizes:
        """Choose how many slots a ring needs: enough for a batch of the fastest program, and twice the last cache."""
        slot = max(256, slot_bytes(case.arguments))
        fastest = max(3e-6, (slot + output) / FAST_BYTES_S)
        wanted = max(math.ceil(BATCH_S / fastest), math.ceil(2 * (cache_bytes or 0) / slot), 2)
        slots = max(2, min(wanted, MAX_SLOTS, ARENA_BYTES // slot))
        max_calls = max(1, min(slots, OUTPUT_BYTES // max(output, 1)))
        warm = min(2 * 2**30, max_calls * output + 3 * max(output, slot) + 8 * 2**20)
        return cls(slot, output=output, slots=slots, max_calls=max_calls, warm=warm)

    def check_memory(self, cases: int, weights: int) -> None:
        """Raise `CannotJudgeError` before anything is spent where this cannot fit."""
        needed = self.slots * self.slot + cases * (self.slot + 4 * self.output) + 4 * (self.warm + weights)
        available = available_memory()
        if needed > 0.9 * available:
            raise CannotJudgeError(
                f"judging this Problem takes about {needed / 2**30:.1f} GiB of memory, "
                f"{available / 2**30:.1f} GiB are free",
                hint="make the Problem's inputs smaller, or free memory",
            )


def available_memory() -> int:
    """Give the bytes that could be allocated without swapping."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 2**33


def device_nodes() -> tuple[str, ...]:
    """Give the device nodes that every user of this machine may use, but for terminals and the like.

    Without a plugin for a kind of device nothing else says which nodes its driver needs.
    """
    nodes = [path for pattern in ("*", "*/*") for path in Path("/dev").glob(pattern) if path.is_char_device()]
    open_to_all = [str(path) for path in nodes if path.stat().st_mode & 0o006 == 0o006]
    return tuple(node for node in open_to_all if not node.startswith(NOT_ACCELERATORS))


@define
class Workshop:
    """Starts workers. A context manager: everything it started is gone afterwards."""

    reference: Reference
    case: Case
    """Whose weights are used for timing."""
    sizes: Sizes = field(kw_only=True)
    setup: WorkerSetup = field(kw_only=True)
    scratch: Path = field(kw_only=True)
    cache: Path = field(kw_only=True)
    """Kept between sessions; only trusted baselines write here."""
    facts: DeviceFacts = field(kw_only=True)
    zygote: Zygote = field(kw_only=True)
    limits: Limits = field(kw_only=True)
    arena: Arena = field(init=False)
    ring: Ring = field(init=False)
    keyed: bool = field(init=False)
    """Whether contents can be redrawn with a key."""
    _state: list[list[Any]] = field(init=False)
    _init_places: list[TensorAt] = field(init=False)
    _places: list[TensorAt] = field(init=False)
    _build_bytes: int = field(init=False)
    _started: int = 0

    def __attrs_post_init__(self) -> None:
        wanted = BUILD_BYTES if self.facts.kind == "cpu" else ACCELERATOR_BYTES
        # On a small machine a hostile candidate would else take the judge's memory before it meets its own limit.
        self._build_bytes = self.limits.memory_bytes or min(wanted, max(2**30, available_memory() // 2))
        layout = Layout()
        self._init_places: list[TensorAt] = []
        place_all(self.reference.init_arguments(self.case.seed), layout, self._init_places)
        self._state = []
        places: list[TensorAt] = []
        for name, tensor in self.case.state:
            self._state.append([name, place_all(tensor, layout, places)])
        self._places = places
        other = self.reference.draw_inputs(int.from_bytes(os.urandom(3), "little"))
        self.ring = Ring([self.case.arguments, other], layout, self.sizes.slots)
        self.arena = Arena(layout.size)
        self.keyed = self.ring.prepare(self.arena)
        for slot in range(self.ring.slots):
            self.ring.put(self.arena, slot, self.case.arguments)

    def redraw_whole(self, slot: int) -> None:
        """Fill a slot from the Problem's own generator."""
        self.ring.put(self.arena, slot, self.reference.draw_inputs(int.from_bytes(os.urandom(4), "little")))

    def close(self) -> None:
        """End the zygote and give the arena back."""
        self.zygote.close()
        os.close(self.arena.fd)

    def candidate(self, candidate: Candidate, case: Case) -> Program:
        """Start a worker and build the candidate in it; raises `Failure`."""
        program = self.spawn_candidate(candidate, "candidate")
        try:
            self.build_candidate(program, candidate, case)
        except BaseException:
            program.__exit__()
            raise
        return program

    def spawn_candidate(self, candidate: Candidate, name: str) -> Program:
        """Start a worker for a candidate."""
        builds = self.scratch / "builds" / candidate.hash
        builds.mkdir(parents=True, exist_ok=True)
        environment = {variable: str(builds) for variable in self.setup.cache_variables}
        return self.spawn(name, environment, writable=[builds], hidden=[self.reference.source.path])

    def build_candidate(self, program: Program, candidate: Candidate, case: Case | None = None) -> None:
        """Import and construct a candidate; raises `Failure`."""
        program.wait_ready()
        started = time.monotonic()
        request = self._build_request(candidate.source, CANDIDATE_FILE, "ModelNew", case or self.case)
        program.ask("build", self.limits.build_s, **request)
        program.phase = Phase.RUN
        program.build_s = time.monotonic() - started

    def spawn_baseline(self, name: str) -> Program:
        """Start a trusted worker for the reference."""
        inductor = self.cache / "inductor" / hashlib.sha256(self.reference.source.text.encode()).hexdigest()[:16]
        inductor.mkdir(parents=True, exist_ok=True)
        environment = {"TORCHINDUCTOR_CACHE_DIR": str(inductor), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        return self.spawn(name, environment, writable=[inductor], readable=[self.reference.source.path.parent])

    def build_baseline(self, program: Program, *, compiled: bool) -> None:
        """Construct the reference; a compiled one answers later, see `Program.take`."""
        program.wait_ready()
        request = self._build_request(self.reference.source.text, "reference.py", "Model", self.case)
        request["path"] = [str(self.reference.source.path.parent)]
        if compiled:
            program.send("build", BASELINE_BUILD_S, **{**request, "compile": True, "warm": [self.ring.tagged[0]]})
        else:
            started = time.monotonic()
            program.ask("build", BASELINE_BUILD_S, **request)
            program.build_s = time.monotonic() - started

    def write_state(self, case: Case) -> None:
        """Put a case's weights where workers copy theirs from."""
        for where, (_, tensor) in zip(self._places, case.state, strict=True):
            self.arena.put(tensor, where)

    def load(self, program: Program, case: Case) -> list[str]:
        """Give a worker a case's weights; answers the names that it has no place for."""
        self.write_state(case)
        answer = program.ask("load", self.limits.build_s, state=self._state)
        unmatched = answer.get("unmatched")
        return [str(name) for name in unmatched] if isinstance(unmatched, list) else []

    def bind(self, program: Program, slots: int | None = None) -> None:
        """Make the tensors of the ring, or of its first slots, in a worker, outside of any timed window."""
        program.ask("bind", self.limits.build_s, slots=self.ring.tagged[:slots])

    def _constructor_arguments(self, case: Case) -> list[Any]:
        """Put a case's constructor arguments into the arena; gives them as a tagged value."""
        init = self.reference.init_arguments(case.seed)
        for where, tensor in zip(self._init_places, tensors_of(init), strict=True):
            self.arena.put(tensor, where)
        places = iter(self._init_places)
        return encode(init, lambda _: next(places))

    def _build_request(self, source: str, file: str, name: str, case: Case) -> dict[str, Any]:
        return {
            "source": source, "file": file, "class": name, "seed": case.seed, "path": [],
            "arguments": self._constructor_arguments(case), "compile": False, "warm": [],
        }  # fmt: skip

    def spawn(
        self, name: str, environment: Mapping[str, str], *, writable: Sequence[Path] = (),
        readable: Sequence[Path] = (), hidden: Sequence[Path] = (), warm: int | None = None,
    ) -> Program:  # fmt: skip
        """Start a confined worker that holds no module yet; ``warm`` bytes of its heap are touched."""
        self._started += 1
        scratch = self.scratch / f"worker{self._started}"
        scratch.mkdir()
        cpu = self.facts.kind == "cpu"
        memory = 2 * self.sizes.warm + self._build_bytes
        confinement = Confinement(
            readable=tuple(str(path) for path in (*self.setup.readable, *readable, *(() if cpu else ("/sys",)))),
            devices=() if cpu else device_nodes(),
            layers=None if cpu else tuple(layer for layer in LAYERS if layer not in DRIVERS_REFUSE),
            writable=tuple(str(path) for path in writable),
            hidden=tuple(str(path) for path in hidden),
            scratch=str(scratch),
            scratch_bytes=SCRATCH_BYTES,
            data_bytes=self.arena.size + memory,
        )
        settings = {
            "warm_bytes": self.sizes.warm if warm is None else warm,
            "environment": {**environment, "HOME": str(scratch), "TMPDIR": str(scratch)},
            "threads": torch.get_num_threads(),
            "device": self.facts.kind,
            "scratch": str(scratch),
        }
        process = self.zygote.spawn(settings, confinement, self.arena.fd, memory_bytes=memory)
        return Program(name, process, scratch, copies=not cpu)

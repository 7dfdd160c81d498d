"""A worker cannot find expected values, seeds, the reference's file, keys, or what another candidate left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kforge.records import Limits, Status
from tests.judge.conftest import Opens
from tests.judge.court import SECRET_KEY, Court, assert_correct, decisive, shown
from tests.judge.hostile import HONEST, PROBLEM, hostile

pytestmark = pytest.mark.usefixtures("whole_isolation")

MARK = "only-the-reference-says-this"
"""Stands in the Problem's text; candidates hold its halves only."""


@pytest.fixture(scope="module")
def court(convene: Opens) -> Court:
    return convene(f"# {MARK}\n" + PROBLEM, limits=Limits(build_s=30, call_s=60))


def _told(court: Court, forward: str, top: str = "") -> Any:
    """Run hostile text in forward, and give what it found as ``found``."""
    text = f"import json\nfound = []\n{forward}\nraise RuntimeError(json.dumps(found))"
    judgement = court.judge(hostile("thief", Status.CRASHED, top=_TOOLS + top, forward=text).source)
    finding = decisive(judgement)
    assert finding.check == "forward", shown(judgement)
    return json.loads(finding.message.partition("RuntimeError: ")[2])


_TOOLS = '''
import re


def regions():
    """Give all memory that can be read, but for the maps of files."""
    for line in open("/proc/self/maps"):
        span, access, _, device, node, *name = line.split(None, 5)
        start, end = (int(part, 16) for part in span.split("-"))
        if "r" in access and not (name and name[0].strip().startswith(("/usr", "/lib", "[vvar", "[vsyscall"))):
            yield start, end


window = mmap.mmap(-1, 2**20)
here = ctypes.addressof(ctypes.c_char.from_buffer(window))


def count(wanted):
    """Count the places in memory that hold these bytes, but for the window that is looked through."""
    memory, total = open("/proc/self/mem", "rb", 0), 0
    for start, end in list(regions()):
        if start <= here < end:
            continue
        for at in range(start, end, len(window)):
            try:
                size = os.preadv(memory.fileno(), [memoryview(window)[: end - at]], at)
            except (OSError, OverflowError):
                break
            total += sum(1 for _ in re.finditer(re.escape(wanted), memoryview(window)[:size]))
    memory.close()
    return total


def walk(wanted):
    """Give files whose text holds these bytes, wherever they may be read."""
    for folder, folders, files in os.walk("/"):
        if folder == "/":
            folders[:] = [name for name in folders if name not in ("proc", "sys", "dev")]
        for name in files:
            path = os.path.join(folder, name)
            try:
                if not os.path.islink(path) and os.path.getsize(path) < 2**16:
                    with open(path, "rb") as file:
                        if wanted in file.read():
                            yield path
            except OSError:
                pass
'''


def test_expected_values_are_nowhere_in_its_memory(court: Court) -> None:
    found = _told(
        court,
        """
right = torch.tanh(x.double()) * self.weight.double()
other = torch.tanh(x.double() + 0.5) * self.weight.double()
# What it computed itself lies in about as many places as something else that it computed in the same way.
for row, pair in ((7, (right, other)), (31, (other, right))):
    found.append([count(one[row, 100:103].numpy().tobytes()) for one in pair])
    mine, its = (one.float()[row, 100:104].numpy().tobytes() for one in pair)
    found.append([count(mine), count(its)])
found.append([count(x[7, 100:104].numpy().tobytes())])
""",
    )
    *pairs, (inputs,) = found
    assert inputs >= 1, "the search must find what is there"
    for (expected, control), (control_first, expected_second) in zip(pairs[:2], pairs[2:], strict=True):
        assert min(control, control_first) >= 1
        assert expected <= control or expected_second <= control_first, found


def test_inputs_of_secret_cases_do_not_follow_from_what_it_is_given(court: Court) -> None:
    found = _told(
        court,
        """
state = torch.initial_seed()
for seed in [state + step for step in range(-200, 200)] + list(range(400)) + [hash(str(state)) % 2**31]:
    torch.manual_seed(seed)
    if torch.equal(torch.rand(64, 4096)[0, :8], x[0, :8]):
        found.append(seed)
import random
found.append(random.Random(state).randrange(2**31) == state)
""",
    )
    assert found == [False]


def test_the_text_of_the_reference_is_not_to_be_found(court: Court) -> None:
    found = _told(
        court,
        """
wanted = b"only-the-" + b"reference-says-this"
found.append([path for path in walk(wanted)])
found.append(count(b"only-the-reference" + b"-says-this") - count(b"only-the-reference" + b"-says-that"))
found.append([name for name in sys.modules if "problem" in name and "kforge_problem" in name])
""",
    )
    files, memory, modules = found
    assert files == []
    assert memory <= 0
    assert modules == []


def test_keys_and_settings_of_the_person_are_not_to_be_found(court: Court) -> None:
    found = _told(
        court,
        """
found.append(sorted(name for name in os.environ if "KEY" in name or "KFORGE" in name))
found.append(count(b"sk-no-worker" + b"-may-see-this"))
found.append(count(b"sk-no-worker" + b"-may-see-that"))
found.append([pid for pid in os.listdir("/proc") if pid.isdigit()])
found.append("OPENAI" in open("/proc/self/environ").read())
""",
    )
    names, secret, control, processes, leaked = found
    assert names == []
    assert secret <= control
    assert processes == ["1"]
    assert not leaked
    assert SECRET_KEY.startswith("sk-no-worker")


def test_nothing_but_its_own_descriptors_is_open(court: Court) -> None:
    found = _told(
        court,
        """
for fd in os.listdir("/proc/self/fd"):
    try:
        found.append(os.readlink(f"/proc/self/fd/{fd}").split(":")[0].split("[")[0])
    except OSError:
        pass
""",
    )
    assert set(found) <= {"socket", "pipe", "/dev/null", "/null", "/memfd", "/proc/1/fd"}, found
    assert found.count("socket") == 1
    assert found.count("/memfd") == 2  # the arena, as it was given and as Python's mmap keeps it


def test_no_shared_memory_of_others_is_in_reach(court: Court) -> None:
    found = _told(
        court,
        """
for kind in ("shm", "sem", "msg"):
    found.append(len(open(f"/proc/sysvipc/{kind}").read().splitlines()) - 1)
for folder in ("/dev/shm", "/tmp", "/var/tmp", "/run"):
    try:
        own = [place + "/" for place in (os.environ["HOME"], sys.prefix, *sys.path)]  # what it may read
        names = os.listdir(folder)
        found.append([name for name in names if not any(one.startswith(f"{folder}/{name}/") for one in own)])
    except OSError:
        found.append([])
""",
    )
    assert found[:3] == [0, 0, 0]
    assert found[3:] == [[], [], [], []]


def test_no_other_process_can_be_reached(court: Court) -> None:
    found = _told(
        court,
        """
for pid in [0, *range(2, 400)]:
    for name, action in (
        ("signal", lambda: os.kill(pid, 0) if pid else os.kill(os.getppid() or 99999, 0)),
        ("group", lambda: os.killpg(pid, 0) if pid > 1 else os.kill(99999, 0)),
        ("memory", lambda: open(f"/proc/{pid or 99999}/mem", "rb")),
        ("held", lambda: os.pidfd_open(pid or 99999)),
        ("traced", lambda: libc.ptrace(16, pid or 99999, 0, 0) and os.kill(99999, 0)),
    ):
        try:
            action()
            found.append([name, pid])
        except OSError:
            pass
threads = {int(name) for name in os.listdir("/proc/self/task")}
found = [one for one in found if one[1] not in threads]
""",
    )
    assert found == []


def test_what_another_candidate_left_is_not_to_be_found(court: Court) -> None:
    leave = """
import torch
for folder in {os.environ["HOME"], os.environ["TMPDIR"], os.getcwd(), *places()}:
    try:
        with open(os.path.join(folder, "left.txt"), "w") as file:
            file.write("left-by-" + "the-first")
        left.append(folder)
    except OSError:
        pass
"""
    places = """
left = []
def places():
    for line in open("/proc/self/mountinfo"):
        yield line.split()[4]
"""
    source = hostile("first", Status.CORRECT, top=places + leave + "assert left").source
    assert_correct(court.judge(source))
    found = _told(
        court,
        """
found.extend(walk(b"left-by-" + b"the-first"))
""",
    )
    assert found == []
    assert_correct(court.judge(HONEST))

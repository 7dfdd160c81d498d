"""The store loses nothing, whoever writes beside it and whatever the disk does."""

from __future__ import annotations

import multiprocessing
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kforge.errors import HarnessError, UsageError
from kforge.events import RunFinished, RunStarted
from kforge.records import Outcome, Target
from kforge.store import Store

STARTED = RunStarted("p.py", source="", target=Target("null", "cpu"), agent="template")


def _write_runs(home: Path) -> None:
    store = Store(home)
    for _ in range(10):
        store.append(store.start(STARTED), RunFinished(Outcome.NO_CORRECT))


def test_events_come_back_as_a_view(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = store.start(STARTED)
    store.append(run, RunFinished(Outcome.INTERRUPTED))
    found = store.run(run)
    assert (found.id, found.started, found.outcome) == (run, STARTED, Outcome.INTERRUPTED)


def test_reading_makes_nothing(tmp_path: Path) -> None:
    assert Store(tmp_path / "home").runs() == ()
    assert list(tmp_path.iterdir()) == []


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_runs, args=(tmp_path,)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    runs = Store(tmp_path).runs()
    assert len({run.id for run in runs}) == 30
    assert all(run.outcome is Outcome.NO_CORRECT for run in runs)


def test_ids_sort_by_time_and_a_beginning_is_enough(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.start(STARTED)
    assert store.resolve(first[:4]) == first
    assert store.resolve("last") == first
    with pytest.raises(UsageError, match="there is no run 'zz'"):
        store.resolve("zz")


def test_a_removed_run_takes_its_folder_along_and_no_more_events(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = store.start(STARTED)
    store.write(run, "k.py", "x = 1\n")
    store.remove(run)
    assert not store.folder(run).exists()
    with pytest.raises(UsageError, match="was removed"):
        store.append(run, RunFinished(Outcome.FAILED))


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.start(STARTED)
    connection = sqlite3.connect(store.file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(HarnessError, match="newer KForge"):
        store.runs()
    with pytest.raises(HarnessError, match="newer KForge"):
        store.start(STARTED)


def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.file.write_bytes(b"this is no database at all" * 100)
    with pytest.raises(HarnessError, match="damaged") as caught:
        store.runs()
    assert f"mv {store.file}" in str(caught.value.hint)
    with pytest.raises(HarnessError, match="damaged"):
        store.start(STARTED)


def test_a_file_in_the_way_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("", encoding="utf-8")
    with pytest.raises(HarnessError, match="cannot be written"):
        Store(tmp_path / "home").start(STARTED)


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = store.start(STARTED)
    code = (
        "import resource, sys, pathlib; from kforge.store import Store; from kforge.errors import *;"
        "from kforge.events import RunStarted; from kforge.records import Target;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "\ntry: Store(pathlib.Path(sys.argv[1])).start("
        "RunStarted('p', source='x' * 100000, target=Target('null', 'cpu'), agent='a'))"
        "\nexcept KforgeError as error: print(error.message, error.hint); sys.exit(error.exit_code)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], check=False, capture_output=True, text=True)
    assert done.returncode == 4, done.stderr
    assert "free some space" in done.stdout
    assert [one.id for one in store.runs()] == [run]

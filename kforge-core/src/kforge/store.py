"""One table of events in SQLite, and a folder for each run's files. An event is written before it is acted on."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kforge.errors import HarnessError, UsageError
from kforge.events import KINDS, Event, Run, RunStarted, view
from kforge.serialize import from_json, to_plain

HOME = "KFORGE_HOME"
SCHEMA = 1
"""Version of the table's form, kept in the file (``PRAGMA user_version``)."""
_BUSY_S = 30.0
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: sorts like the numbers, and has no look-alikes
_TABLE = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
)
"""
_INDEX = "CREATE INDEX IF NOT EXISTS events_of_run ON events (run, number)"


def home() -> Path:
    """Give the folder that holds store and runs: ``KFORGE_HOME``, else the person's data folder."""
    chosen = os.environ.get(HOME)
    if chosen:
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("kforge"))


class Store:
    """The events of all runs under one folder. Safe for several processes at once; one object for one thread.

    Every method raises `HarnessError` when the disk does not do what it must. Nothing is made on disk before the first
    event is written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.home = home() if path is None else path
        self.file = self.home / "store.sqlite"

    def folder(self, run: str) -> Path:
        """Name the folder of a run's files; it may not exist."""
        return self.home / "runs" / run

    # Writing

    def start(self, event: RunStarted) -> str:
        """Begin a run; gives its id, which is unique and sorts by time."""
        with self._writing() as connection:
            while True:
                run = _new_id()
                if connection.execute("SELECT 1 FROM events WHERE run = ?", (run,)).fetchone() is None:
                    break
            _insert(connection, run, event)
        return run

    def append(self, run: str, event: Event) -> None:
        """Add an event to a run that `start` began; `UsageError` when somebody removed the run meanwhile."""
        with self._writing() as connection:
            if connection.execute("SELECT 1 FROM events WHERE run = ?", (run,)).fetchone() is None:
                raise UsageError(f"the run {run} was removed", hint="start it again: kforge run PROBLEM")
            _insert(connection, run, event)

    def remove(self, run: str) -> None:
        """Delete a run: its events, then its folder."""
        with self._writing() as connection:
            connection.execute("DELETE FROM events WHERE run = ?", (run,))
        try:
            shutil.rmtree(self.folder(run))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _disk_error(self.folder(run), error) from error

    def write(self, run: str, name: str, text: str) -> Path:
        """Write a file into the run's folder, whole or not at all."""
        return write_text(self.folder(run) / name, text)

    # Reading

    def runs(self) -> tuple[Run, ...]:
        """Give all runs, the oldest first."""
        with self._reading() as connection:
            if connection is None:
                return ()
            rows = connection.execute("SELECT run, at, kind, data FROM events ORDER BY number").fetchall()
        grouped: dict[str, list[tuple[float, Event]]] = {}
        for run, at, kind, data in rows:
            grouped.setdefault(run, []).append((at, self._event(kind, data)))
        views = (view(run, events) for run, events in grouped.items())
        return tuple(one for one in views if one is not None)

    def run(self, run: str) -> Run:
        """Give one run; `UsageError` when there is none of that id."""
        events = self.events(run)
        found = view(run, events)
        if found is None:
            raise UsageError(f"there is no run {run!r}", hint="`kforge runs` lists them")
        return found

    def events(self, run: str) -> tuple[tuple[float, Event], ...]:
        """Give a run's events in their order, each with its time (seconds since 1970)."""
        with self._reading() as connection:
            if connection is None:
                return ()
            query = "SELECT at, kind, data FROM events WHERE run = ? ORDER BY number"
            rows = connection.execute(query, (run,)).fetchall()
        return tuple((at, self._event(kind, data)) for at, kind, data in rows)

    def resolve(self, name: str) -> str:
        """Give the id that a beginning of it, or ``last``, means; `UsageError` when it means none or several."""
        with self._reading() as connection:
            rows = []
            if connection is not None:
                rows = connection.execute("SELECT run FROM events GROUP BY run ORDER BY MIN(number)").fetchall()
        known: list[str] = [run for (run,) in rows]
        found = known[-1:] if name == "last" else [run for run in known if run.startswith(name)]
        if name in known:
            found = [name]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{name!r} begins {len(found)} runs: {', '.join(found[:5])}", hint="write more of the id")
        what = "there is no run" if name == "last" else f"there is no run {name!r}"
        raise UsageError(what, hint="`kforge runs` lists them" if known else "`kforge run PROBLEM` makes one")

    def _event(self, kind: str, data: str) -> Event:
        try:
            return from_json(data, KINDS[kind])
        except (KeyError, UsageError) as error:
            hint = f"another version of KForge wrote it? use that one, or move {self.file} away"
            raise HarnessError(f"{self.file}: an event {kind!r} cannot be read: {error}", hint=hint) from error

    # The file

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            self.home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _disk_error(self.home, error) from error
        with self._translated(), contextlib.closing(self._connect(f"file:{_quoted(self.file)}")) as connection:
            _use_wal(connection)
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._check_schema(connection)
                if _schema(connection) == 0:
                    connection.execute(_TABLE)
                    connection.execute(_INDEX)
                    connection.execute(f"PRAGMA user_version = {SCHEMA}")
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Open the file without making it; gives None when there is none."""
        if not self.file.exists():
            yield None
            return
        with self._translated(), contextlib.closing(self._open_for_reading()) as connection:
            self._check_schema(connection)
            yield connection if _schema(connection) else None

    def _open_for_reading(self) -> sqlite3.Connection:
        connection = self._connect(f"file:{_quoted(self.file)}?mode=ro")
        try:
            _schema(connection)
        except sqlite3.OperationalError:
            connection.close()
            # A folder that cannot be written has no place for the lock file; then nobody writes, and no lock is needed.
            if os.access(self.home, os.W_OK):
                raise
            return self._connect(f"file:{_quoted(self.file)}?mode=ro&immutable=1")
        return connection

    @staticmethod
    def _connect(uri: str) -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        found = _schema(connection)
        if found > SCHEMA:
            raise HarnessError(
                f"{self.file} was written by a newer KForge (schema {found}; this one knows {SCHEMA})",
                hint=f"pip install --upgrade kforge-core, or use another folder: {HOME}=FOLDER",
            )

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT} or "no such table" in str(error):
                hint = f"move it away (mv {self.file} {self.file}.broken), or use another folder: {HOME}=FOLDER"
                raise HarnessError(f"{self.file} is damaged, or no store of KForge ({error})", hint=hint) from error
            raise _disk_error(self.file, error) from error


def write_text(path: Path, text: str) -> Path:
    """Write a text file, whole or not at all; `HarnessError` when the disk refuses."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        # mkstemp makes it private; what a person asked for follows their umask.
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise _disk_error(path, error) from error
    return path


def _disk_error(path: Path, error: Exception) -> HarnessError:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    hint = f"free some space, or make the folder writable; {HOME}=FOLDER keeps runs in another one"
    return HarnessError(f"{path} cannot be written or read: {said}", hint=hint)


def _new_id() -> str:
    number = (time.time_ns() // 1_000_000) << 15 | secrets.randbits(15)
    digits = []
    for _ in range(12):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def _insert(connection: sqlite3.Connection, run: str, event: Event) -> None:
    kind = next(word for word, record in KINDS.items() if type(event) is record)
    # Escaped, since a candidate may hold half of a surrogate pair, which SQLite refuses.
    row = (run, time.time(), kind, json.dumps(to_plain(event)))
    connection.execute("INSERT INTO events (run, at, kind, data) VALUES (?, ?, ?, ?)", row)


def _schema(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _use_wal(connection: sqlite3.Connection) -> None:
    # The change of mode does not wait for other processes as everything else does.
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")

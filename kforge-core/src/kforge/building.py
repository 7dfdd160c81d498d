"""Making the object of a plugin's record, with the plugin's name on whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from kforge.errors import KforgeError, MissingError
from kforge.manager import Source

B_co = TypeVar("B_co", covariant=True)


class Record(Protocol[B_co]):
    """What all records of plugins with an object have."""

    @property
    def build(self) -> Callable[[], B_co]:
        """Make the object."""
        ...


def build(record: Record[B_co], source: Source) -> B_co:
    """Make a record's object; raises `MissingError` with the plugin's name when it cannot be made."""
    try:
        return record.build()
    except (KforgeError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # SystemExit and anything else of a stranger must not end us.
        raise MissingError(
            f"the plugin {source.distribution} {source.version} (entry point {source.entry_point}) is broken: "
            f"it raised {type(error).__name__}: {error}",
            hint=f"update it: pip install --upgrade {source.distribution}; or pip uninstall {source.distribution}",
        ) from error

"""``python -m kforge.judge._probe FOLDER``: confine a process as a worker is, and print the layers that took hold."""

from __future__ import annotations

import json
import os
import sys

from kforge.judge import isolation
from kforge.judge.isolation import Confinement


def main(scratch: str) -> None:
    """Do both stages of isolation, with the fork between them."""
    confinement = Confinement(scratch, scratch_bytes=2**20, data_bytes=2**32)
    reasons = isolation.leave(confinement)
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    reasons = isolation.confine(confinement, reasons)
    os.write(1, json.dumps(reasons).encode())
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])

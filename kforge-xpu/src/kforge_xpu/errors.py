"""What can go wrong with a SYCL module, one class each."""

from __future__ import annotations

import re

# libsycl wraps the compiler's text in these lines.
_WRAPPING = re.compile(r"\A(?:Device compilation failed\s*)?(?:Detailed information:\s*)?")


class SyclError(Exception):
    """The base of everything that kforge_xpu raises about SYCL source, launches and the runtime."""


class SyclBuildError(SyclError):
    """The kernel compiler refused the source.

    Attributes: `log`, the compiler's text in clang's form (`rtc_0.cpp:LINE:COLUMN: error: ...`, lines of `source`);
    `source`, what was compiled.
    """

    def __init__(self, log: str, source: str) -> None:
        super().__init__(log, source)
        self.log = _WRAPPING.sub("", log, count=1)
        self.source = source

    def __str__(self) -> str:
        return f"the SYCL source does not compile:\n{self.log}"


class SyclLaunchError(SyclError):
    """A launch that cannot be: wrong arguments or sizes, or the runtime refused it. Nothing ran.

    Attributes: `message`; `kernel`, its name; `requested` and `limit`, where a number was too large or did not fit,
    else None.
    """

    def __init__(self, message: str, kernel: str = "", requested: int | None = None, limit: int | None = None) -> None:
        super().__init__(message, kernel, requested, limit)
        self.message = message
        self.kernel = kernel
        self.requested = requested
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.kernel}: {self.message}" if self.kernel else self.message


class SyclUnavailable(SyclError):  # noqa: N818  # names a state of the machine
    """Something that SYCL needs is missing on this machine.

    Attributes: `message`, what is missing; `hint`, what a person can do about it.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}"

"""The exceptions of the package. Their messages are those of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence


@dataclass(frozen=True)
class Diagnostic:
    """A message about an input: its place, the reason, and a valid alternative."""

    severity: str
    """`error`, `warning` or `note`."""
    message: str
    file: Optional[str] = None
    """The file, or the name of a text."""
    line: Optional[int] = None
    """From 1."""
    column: Optional[int] = None
    """From 1, in characters."""
    help: Optional[str] = None
    """A valid alternative."""
    key: Optional[str] = None
    """The key whose value is wrong, if the mistake is not in a text."""
    value: Optional[str] = None

    def __str__(self) -> str:
        place = f"{self.key}={self.value}" if self.key is not None else self.file or ""
        if self.line is not None:
            place += f":{self.line}:{self.column}"
        head = f"{place}: {self.severity}: {self.message}"
        return head if self.help is None else f"{head}\n  help: {self.help}"


class ZerolagError(Exception):
    """The base of all exceptions of this package."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = (), help: Optional[str] = None) -> None:
        super().__init__(message if help is None else f"{message}\n  help: {help}")
        self.message = message
        self.diagnostics = tuple(diagnostics)
        """All mistakes, in order of position; empty if the error has no parts."""
        self.help = help
        """A valid alternative, if there is one for the error as a whole."""

    def __reduce__(self) -> tuple[object, ...]:
        # Sweeps send exceptions between processes.
        return (type(self), (self.message, self.diagnostics, self.help))


class InputError(ZerolagError, ValueError):
    """An input is wrong: a file that does not exist, a trace where a workload is wanted, a bad value."""


class WorkloadError(InputError):
    """The text of a workload has mistakes: `diagnostics` has all of them, with line and column."""


class SettingError(InputError):
    """Values cannot be set: `diagnostics` has all of them, with key and value."""


class RunError(ZerolagError):
    """A run failed for a reason that is not in the input."""

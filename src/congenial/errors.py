"""Errors of the package, and parts of their messages.

Every message gives the offending value, the bound it broke and the way out. Of confidential tables it names the
condition or the column that is broken, never a cell, an area or a count. What a message quotes is text and nothing
else: characters that do not show are escaped.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar

from congenial.safe_text import on_one_line, printable


class CongenialError(Exception):
    """Base class of every error this package raises on purpose.

    Attributes
    ----------
    has_lines : bool
        Whether its message has several lines by itself; in others a line end can only come from what they quote.
    """

    has_lines: ClassVar[bool] = False

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message) if self.has_lines else on_one_line(message))


class SchemaError(CongenialError, ValueError):
    """Dimensions or labels that do not describe a table."""


class TableError(CongenialError, ValueError):
    """Counts that do not form a table of the schema."""


class FractionError(CongenialError, ValueError):
    """A budget or precision that is not an exact number."""


class NoiseError(CongenialError, ValueError):
    """A noise law that does not exist or cannot be used this way."""


class ConditionError(CongenialError, ValueError):
    """An invariant or bound that is not well formed."""


class ClashError(ConditionError):
    """Conditions that no table can obey together.

    Attributes
    ----------
    clash : tuple of str
        A set of conditions that no table obeys together.
    is_irreducible : bool
        Whether it is proven that leaving out any one of them leaves a table that obeys the others. Cells without limits
        can keep such a proof from being found.
    """

    has_lines = True

    def __init__(self, message: str, clash: tuple[str, ...], is_irreducible: bool) -> None:
        super().__init__(message)
        self.clash = clash
        self.is_irreducible = is_irreducible

    def __reduce__(self) -> tuple[type["ClashError"], tuple[str, tuple[str, ...], bool]]:
        return ClashError, (str(self), self.clash, self.is_irreducible)


class BrokenError(ConditionError):
    """A condition that confidential tables do not obey: which one it is, never in which cell or area.

    Attributes
    ----------
    condition : str
        The condition in words.
    """

    def __init__(self, condition: str, where: str = "") -> None:
        self.condition = condition
        self._where = where or (
            "where they do is confidential: congenial check writes it to a file for you alone, and"
            " congenial.find_violations(mechanism, tables) returns it"
        )
        super().__init__(
            f"the confidential data break the condition «{condition}»; {self._where}. Correct the condition or the"
            " data: a release could not obey it either"
        )

    def __reduce__(self) -> tuple[type["BrokenError"], tuple[str, str]]:
        return BrokenError, (self.condition, self._where)


class HierarchyError(CongenialError, ValueError):
    """Areas that form no tree, or a tree of areas that cannot be released as it is asked for."""


class UndecidedError(ConditionError):
    """Conditions of which it could not be decided whether any table obeys them."""


class TooLargeError(CongenialError):
    """More tables, states or memory than the method is made for."""


class SuppressedError(CongenialError):
    """A draw was asked for where nothing but the invariants is released."""


class SamplingError(CongenialError):
    """A sampler that cannot run on this system, or gave up."""


class BaselineError(SamplingError):
    """A baseline that cannot be computed: nothing is released rather than a table that is silently wrong."""


class StudyError(CongenialError, ValueError):
    """A study that cannot be run, or whose result may not be shown."""


class InferenceError(CongenialError, ValueError):
    """A question to a bundle that cannot be answered as it is asked."""


class BundleError(CongenialError, ValueError):
    """A bundle that cannot be written, or is not what was published."""


class PrivacyError(CongenialError, ValueError):
    """A privacy statement that cannot be made, or a budget that cannot be met."""


class LedgerError(CongenialError):
    """A budget ledger that cannot be opened, read or written, or a request that it cannot record."""


class OtherVersionError(LedgerError):
    """A ledger whose tables another version of the software made."""


class BudgetError(LedgerError):
    """A release that would cost more than a dataset has left, or in a currency that the dataset does not take."""


class AlreadySpentError(LedgerError):
    """A release name that was charged before: one spend gives at most one table."""


class LedgerBusyError(LedgerError):
    """A ledger that other programs keep locked."""


class UncertainError(LedgerError):
    """The database failed while it was writing: nobody knows yet whether the record is there."""


class TamperedError(LedgerError):
    """A ledger whose records do not hang together.

    Attributes
    ----------
    findings : tuple of str
        Everything that is wrong, in words.
    """

    def __init__(self, message: str, findings: tuple[str, ...]) -> None:
        super().__init__(message)
        self.findings = findings

    def __reduce__(self) -> tuple[type["TamperedError"], tuple[str, tuple[str, ...]]]:
        return TamperedError, (str(self), self.findings)


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong in a spec file: where, and what. Lines and columns count from 1."""

    file_name: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        path = f"{on_one_line(self.path)}: " if self.path else ""
        return f"{on_one_line(self.file_name)}:{self.line}:{self.column}: {path}{self.message}"


class SpecError(CongenialError, ValueError):
    """A spec file with mistakes, all of them at once.

    Attributes
    ----------
    mistakes : tuple of Mistake
        In the order in which they stand in the file.
    """

    has_lines = True

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))
        count = f"{len(self.mistakes)} mistakes in the spec:\n" if len(self.mistakes) > 1 else ""
        super().__init__(count + "\n".join(map(str, self.mistakes)))

    def __reduce__(self) -> tuple[type["SpecError"], tuple[tuple[Mistake, ...]]]:
        return SpecError, (self.mistakes,)


class EngineError(CongenialError):
    """The machines that should draw a release cannot."""


class ReadingError(CongenialError, ValueError):
    """Files that cannot be read as the tables that a spec describes. The message holds nothing from their rows."""


class MissingPackageError(CongenialError, ImportError):
    """A package of an extra that is not installed."""


def import_extra(module: str, extra: str) -> Any:
    """Return a module of an optional package; where it is not installed, say which extra brings it.

    Examples
    --------
    >>> import_extra("no_such_package.inside", "analysis")
    Traceback (most recent call last):
    MissingPackageError
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0].replace("_", "-")
    raise MissingPackageError(
        f"this needs the package {package}, which is not installed; install the extra: pip install 'congenial[{extra}]'"
    )


def reason_of(error: OSError) -> str:
    """Return why the operating system refused a file, as the end of a sentence.

    Examples
    --------
    >>> reason_of(FileNotFoundError(2, "No such file or directory"))
    'no such file or directory'
    >>> reason_of(OSError())
    'the system gives no reason'
    """
    return (error.strerror or "the system gives no reason").lower()


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known name, or the known names when none is close.

    Examples
    --------
    >>> did_you_mean("femal", ["female", "male"])
    "did you mean 'female'?"
    >>> did_you_mean("x", ["female", "male"])
    "known: 'female', 'male'"
    """
    names = list(known)
    close = get_close_matches(wrong, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(repr(name) for name in names[:8])
    return f"known: {shown}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")

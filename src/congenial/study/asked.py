"""What a comparison is asked for: whose tables, which methods, how many releases. Refused before anything is drawn."""

from collections.abc import Sequence
from pathlib import Path

from congenial.errors import StudyError, did_you_mean
from congenial.table import CONFIDENTIAL

SOURCES = ("public", "simulated")


def check_asked(
    source: str, methods: Sequence[str], known: Sequence[str], n_releases: int, folder: Path | None
) -> None:
    """Refuse what cannot be compared, and confidential tables without a marked folder."""
    if source not in {*SOURCES, "confidential"}:
        raise StudyError(f'source={source!r} is not known; write "public", "simulated" or "confidential"')
    if source == "confidential" and (folder is None or not folder.name.startswith(CONFIDENTIAL)):
        raise StudyError(
            "a comparison with confidential tables is confidential itself. If the tables are public or simulated,"
            ' say so: source="public" or "simulated" (in a spec: data status). Otherwise write it to a marked folder:'
            f' out="{CONFIDENTIAL}comparison"'
        )
    if isinstance(methods, str) or not methods:
        raise StudyError(f"methods is a list of {', '.join(known)}")
    for method in methods:
        if method not in known:
            raise StudyError(f"method {method!r} is not known; {did_you_mean(str(method), known)}")
    if len(set(methods)) != len(methods):
        raise StudyError("methods names one twice")
    if type(n_releases) is not int or n_releases < 2:
        raise StudyError(f"n_releases is a whole number from 2 on, not {n_releases!r}")

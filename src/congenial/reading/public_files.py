"""The public files that a spec names: lists of levels, of areas, and of a tree's leaves. None of them is the data."""

from collections.abc import Sequence
from pathlib import Path

from congenial.bundle.naming import PublicFile
from congenial.errors import ReadingError
from congenial.reading.files import find_files
from congenial.spec.public_csv import public_file
from congenial.spec.spec import Spec


def public_files(spec: Spec, folder: Path) -> tuple[PublicFile, ...]:
    """Return what the manifest says of them: what each gives, its name and its SHA-256."""
    lists = [fact for _, fact in spec.public_files]
    if spec.hierarchy is not None:
        paths = find_files([spec.hierarchy.file], folder.resolve())
        lists += [public_file(f"every {spec.hierarchy.leaf}", path) for path in paths]
    return tuple(lists)


def check_apart(spec: Spec, folder: Path, data: Sequence[Path]) -> None:
    """Refuse a public list that is a file of confidential data: which levels occur there would be given away."""
    if spec.data.status != "confidential":
        return
    lists = [path.resolve() for path, _ in spec.public_files]
    lists += [] if spec.hierarchy is None else find_files([spec.hierarchy.file], folder)
    for path in lists:
        if path in data:
            raise ReadingError(
                f"{path.name} is a data file of the spec, which is confidential, and a list of levels, which is public;"
                " make the list from a public source, or state `status: public` if the data are"
            )

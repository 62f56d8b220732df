"""A first release: the P12 example in a folder of its own, with its ledger and its bundle."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from congenial.bundle.loading import Bundle, load_bundle
from congenial.curator.pipeline import release
from congenial.errors import BundleError, reason_of
from congenial.ledger import open_ledger
from congenial.progress import Progress, no_news
from congenial.spec.load import load_spec

DATASET = "p12-example"


@dataclass(frozen=True)
class Demonstration:
    """Where the pieces are, and the verified bundle."""

    folder: Path
    ledger: Path
    account: str
    bundle: Bundle


def example_files() -> Path:
    """Return the folder of the P12 example: inside an installed package, or in the source tree."""
    inside = Path(__file__).parents[1] / "example_files" / "p12"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "examples" / "p12"


def demonstrate(folder: Path, progress: Progress = no_news) -> Demonstration:
    """Copy the example into a new folder, make a ledger with a budget of epsilon 4, release, and verify."""
    try:
        folder.mkdir(parents=True)
        for name in ("spec.yaml", "counts.csv"):
            shutil.copyfile(example_files() / name, folder / name)
    except OSError as refused:
        raise BundleError(f"{folder} cannot be made: {reason_of(refused)}; name a new folder") from None
    place = folder / "budget.db"
    ledger = open_ledger(place, create=True)
    ledger.create_dataset(DATASET, epsilon="4", neighbours="bounded", who="demo")
    spec = load_spec(folder / "spec.yaml")
    made = release(spec, folder, folder / "bundle", ledger=ledger, who="demo", progress=progress)
    account = str(ledger.status(DATASET)).splitlines()[0]
    return Demonstration(made.folder, place, account, load_bundle(made.folder))

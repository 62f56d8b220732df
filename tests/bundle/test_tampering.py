"""Not a byte of a bundle can be changed, added or taken away without its being seen."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from congenial.bundle.manifest import Manifest, untouched_values
from congenial.bundle.signing import check_signature
from congenial.errors import BundleError
from congenial.inference.analyst_bundle import load_bundle
from drawn import drawn
from releases import Maker

FILES = [
    "README.txt",
    "expected-errors.csv",
    "manifest.json",
    "report.html",
    "signature.json",
    "table.csv",
    "table.parquet",
]
EVERYWHERE = drawn(1_000)  # bytes


def test_the_files_are_those_that_are_changed(bundle: Path) -> None:
    assert sorted(os.listdir(bundle)) == FILES
    assert load_bundle(bundle).signed_by


def changed(content: bytes, place: int) -> Iterator[bytes]:
    """Flip the lowest bit, the bit of capital letters and the highest one; leave out; double; put in a blank."""
    before, byte, after = content[:place], content[place], content[place + 1 :]
    for bit in (0x01, 0x20, 0x80):
        yield before + bytes([byte ^ bit]) + after
    if content != before + after:
        yield before + after
    yield before + bytes([byte, byte]) + after
    yield before + b" " + bytes([byte]) + after


@pytest.mark.parametrize("name", FILES)
def test_every_changed_byte_is_seen(name: str, bundle: Path) -> None:
    """One change at every place, each kind in its turn; at 200 places of the large files."""
    path = bundle / name
    content = path.read_bytes()
    for number, place in enumerate(range(0, len(content), 1 if len(content) < EVERYWHERE else len(content) // 200)):
        kinds = list(changed(content, place))
        path.write_bytes(kinds[number % len(kinds)])
        with pytest.raises(BundleError):
            load_bundle(bundle)
    path.write_bytes(content)
    load_bundle(bundle)


def test_every_change_of_the_manifest_and_the_signature_is_seen(bundle: Path) -> None:
    """Nothing above these two vouches for them, so every kind of change at every place."""
    manifest, signature = ((bundle / name).read_bytes() for name in ("manifest.json", "signature.json"))
    for place in range(len(manifest)):
        for forged in changed(manifest, place):
            with pytest.raises(BundleError):
                Manifest.from_values(untouched_values(forged))
    for place in range(len(signature)):
        for forged in changed(signature, place):
            with pytest.raises(BundleError):
                check_signature(manifest, forged, None)


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_cut_short_or_grow(name: str, bundle: Path) -> None:
    path = bundle / name
    content = path.read_bytes()
    forged = [b"", content[:1], content[: len(content) // 2], content[:-1]]
    forged += [content + tail for tail in (b"\n", b" ", b"\x00", content)]
    for forgery in forged:
        path.write_bytes(forgery)
        with pytest.raises(BundleError):
            load_bundle(bundle)


@pytest.mark.parametrize("name", [name for name in FILES if name != "signature.json"])
def test_files_that_are_missing(name: str, bundle: Path) -> None:
    (bundle / name).unlink()
    with pytest.raises(BundleError, match=name.replace(".", r"\.")):
        load_bundle(bundle)


@pytest.mark.parametrize(
    "name", ["extra.csv", ".hidden", "table.csv~", "Table.csv", "manifest.json.bak", "SIGNATURE.json"]
)
def test_files_that_do_not_belong(name: str, bundle: Path) -> None:
    (bundle / name).write_text("x", encoding="utf-8")
    with pytest.raises(BundleError, match="does not belong"):
        load_bundle(bundle)


def test_folders_that_do_not_belong(bundle: Path) -> None:
    (bundle / "more").mkdir()
    with pytest.raises(BundleError, match="'more' does not belong"):
        load_bundle(bundle)


@pytest.mark.parametrize("name", FILES)
def test_links_are_not_files(name: str, bundle: Path, tmp_path: Path) -> None:
    """A link shows today's content of something else, and tomorrow another."""
    (bundle / name).rename(tmp_path / name)
    (bundle / name).symlink_to(tmp_path / name)
    with pytest.raises(BundleError):
        load_bundle(bundle)
    (tmp_path / name).unlink()  # now the link leads nowhere
    with pytest.raises(BundleError):
        load_bundle(bundle)


def test_folders_in_the_place_of_files(bundle: Path) -> None:
    (bundle / "table.csv").unlink()
    (bundle / "table.csv").mkdir()
    with pytest.raises(BundleError, match=r"table\.csv"):
        load_bundle(bundle)


@pytest.mark.parametrize("name", FILES)
def test_files_of_another_bundle(name: str, bundle: Path, case_folder: Maker) -> None:
    shutil.copyfile(case_folder("ranges") / "bundle" / name, bundle / name)
    with pytest.raises(BundleError):
        load_bundle(bundle)


def test_places_that_are_no_bundles(tmp_path: Path, bundle: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place, words in (
        (tmp_path / "none", "does not exist"),
        (bundle / "table.csv", "is a file"),
        (tmp_path / "empty", r"no file manifest\.json"),
    ):
        with pytest.raises(BundleError, match=words):
            load_bundle(place)


def test_a_bundle_may_be_moved_and_linked_to(bundle: Path, tmp_path: Path) -> None:
    """Links inside are refused; where the folder itself stands does not matter."""
    (tmp_path / "latest").symlink_to(bundle)
    load_bundle(tmp_path / "latest")
    bundle.rename(tmp_path / "elsewhere")
    load_bundle(tmp_path / "elsewhere")

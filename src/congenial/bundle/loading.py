"""A bundle from its folder: verified as it is loaded, or refused with everything that is wrong."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.areas_file import AREAS, areas_of_parquet
from congenial.bundle.canonical import digest
from congenial.bundle.exact_numbers import exactly
from congenial.bundle.manifest import Manifest
from congenial.bundle.signing import check_signature, read_public_key
from congenial.bundle.table_csv import tables_from_csv
from congenial.conditions.areas import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.errors import BundleError, CongenialError, PrivacyError, did_you_mean, reason_of
from congenial.public_law import PublicLaw
from congenial.randomness import RandomStream

if TYPE_CHECKING:
    from congenial.inference.frequentist import Confidence
    from congenial.inference.posterior import Posterior
    from congenial.inference.priors import LogDensity, Prior


MANIFEST, SIGNATURE, TABLE = "manifest.json", "signature.json", "table.csv"
_LARGEST = 1 << 30


@dataclass(frozen=True, repr=False)
class Bundle:
    """A verified bundle: the manifest, and the released tables by area.

    Attributes
    ----------
    signed_by : str or None
        The public key that signed the manifest, in hexadecimal digits.
    """

    manifest: Manifest
    tables: Mapping[Area, Ints]
    signed_by: str | None

    @property
    def law(self) -> PublicLaw:
        """The law of the release, but for the confidential tables."""
        return self.manifest.law

    def posterior(
        self,
        area: Area = None,
        *,
        prior: "str | Prior | LogDensity" = "flat",
        n_draws: int = 4_000,
        n_chains: int | None = None,
        rng: RandomStream | None = None,
    ) -> "Posterior":
        """Return what the release says of the confidential table of an area, under a prior."""
        from congenial.inference.posterior import posterior

        released = self.released(area)
        return posterior(self.law, area, released, prior=prior, n_draws=n_draws, n_chains=n_chains, rng=rng)

    def confidence(self, query: str, area: Area = None, *, level: float = 0.9) -> "list[Confidence]":
        """Return intervals that need no prior, or the reason why there is none, for each statistic of a query."""
        from congenial.inference.frequentist import confidence
        from congenial.inference.question import parse_query

        released = self.released(area)
        return [
            confidence(self.law, area, released, statistic, level) for statistic in parse_query(query, self.law.schema)
        ]

    def released(self, area: Area = None) -> Ints:
        """Return the released table of an area, cell by cell."""
        if area not in self.tables:
            known = [name for name in self.tables if name is not None]
            hint = did_you_mean(str(area), known) if known else "it has one table: leave the area out"
            what = f"no area {area!r}" if area is not None else f"several tables; name one {self.law.areas.name}"
            raise BundleError(f"the bundle has {what}; {hint}")
        return self.tables[area]

    def __repr__(self) -> str:
        manifest = self.manifest
        kind = "" if manifest.is_for_release else ", a simulation, NOT FOR RELEASE"
        tables = "one table" if len(self.tables) == 1 else f"{len(self.tables):,} tables"
        cells = f"{tables} of {manifest.law.schema.n_cells:,} cells"
        return f"bundle {manifest.naming.release!r} of dataset {manifest.naming.dataset!r}: {cells}{kind}"


def load_bundle(folder: str | Path, *, key: str | Path | None = None) -> Bundle:
    """Load a bundle and verify it: digests of all files, tables against invariants, the certificate, the signature.

    Parameters
    ----------
    folder : path
    key : path, optional
        The publisher's public key. With it, a bundle that this key did not sign is refused.

    Raises
    ------
    BundleError
        When anything is not as it was published.
    """
    place = Path(folder)
    if not os.path.isdir(place):
        what = "is a file" if os.path.lexists(place) else "does not exist"
        raise BundleError(f"{place} {what}; a bundle is a folder with a {MANIFEST}")
    content = _read(place, MANIFEST)
    manifest = Manifest.from_bytes(content, lambda n_exact: areas_of_parquet(_read(place, AREAS), n_exact))
    _check_files(place, manifest)
    signed_by = _signed_by(place, content, None if key is None else Path(key))
    tables = tables_from_csv(manifest.law, _read(place, TABLE))
    counts = np.stack(list(tables.values()))
    for number in np.flatnonzero(~manifest.law.areas.holds(counts))[:1]:
        area = manifest.law.areas.labels[number]
        where = "the table" if area is None else f"the table of {area!r}"
        raise BundleError(f"{where} does not obey the published invariants")
    _check_exact(manifest, counts)
    _check_law(manifest, counts)
    _check_certificate(manifest)
    return Bundle(manifest, tables, signed_by)


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        if path.is_symlink() or not path.is_file():
            raise BundleError(f"the bundle has no file {name}; it was cut short, or is not a bundle")
        if path.stat().st_size > _LARGEST:
            raise BundleError(f"{name} is larger than a gigabyte; no bundle has such a file")
        return path.read_bytes()
    except OSError as refused:
        raise BundleError(f"{name} cannot be read: {reason_of(refused)}") from None


def _check_files(folder: Path, manifest: Manifest) -> None:
    wrong = []
    for name, stated in manifest.files.items():
        if "/" in name or name.startswith(".") or not isinstance(stated, str):
            raise BundleError("manifest.json lists a file outside the bundle")
        try:
            if digest(_read(folder, name)) != stated:
                wrong.append(f"{name} was changed")
        except BundleError as missing:
            wrong.append(str(missing))
    if TABLE not in manifest.files:
        wrong.append(f"{TABLE} is not listed")
    strange = sorted(path.name for path in folder.iterdir() if path.name not in {*manifest.files, MANIFEST, SIGNATURE})
    wrong += [f"{name!r} does not belong to the bundle" for name in strange]
    if wrong:
        raise BundleError(f"the bundle is not as it was published: {'; '.join(wrong)}")


def _signed_by(folder: Path, content: bytes, key: Path | None) -> str | None:
    public = None if key is None else read_public_key(key)
    if not os.path.lexists(folder / SIGNATURE):  # a link that leads nowhere is no missing file
        if public is not None:
            raise BundleError(f"the bundle is not signed: it has no {SIGNATURE}")
        return None
    return check_signature(content, _read(folder, SIGNATURE), public)


def _check_exact(manifest: Manifest, counts: Ints) -> None:
    """Compare what the manifest states exactly with what its conditions say of the released tables."""
    law = manifest.law
    if exactly(law.schema, manifest.conditions, law.areas.labels, counts) != manifest.exactly:
        raise BundleError("the manifest states other exact numbers than its tables and conditions have")


def _check_law(manifest: Manifest, counts: Ints) -> None:
    """Compile the stated conditions again, at the released values: they must be what the law is conditioned on."""
    law = manifest.law
    try:
        if law.areas.name is None:
            stated = Areas.one(Constraints.of(law.schema, manifest.conditions, counts[0].tolist()))
        else:
            tables = {str(area): line for area, line in zip(law.areas, counts, strict=True)}
            stated = Areas.disclosed(law.schema, manifest.conditions, tables, name=law.areas.name)
    except CongenialError:
        raise BundleError("the conditions that the manifest states do not hold in its tables") from None
    if stated != law.areas:
        raise BundleError("the manifest states other conditions than its law is conditioned on")


def _check_certificate(manifest: Manifest) -> None:
    """Compute the certificate again from the published law; what the manifest states must come out."""
    try:
        again = manifest.plan.certificate
    except PrivacyError:
        raise BundleError("the published law has no certificate") from None
    stated = manifest.certificate
    if manifest.software.get("congenial") == version("congenial"):
        is_right = again == stated
    else:  # another version may find a better bound, and use other words
        figures = (
            (again.loss, stated.loss),
            (again.rho, stated.rho),
            (again.rho_at_all_orders, stated.rho_at_all_orders),
        )
        is_right = (again.k, again.neighbours) == (stated.k, stated.neighbours) and all(
            theirs is None or (ours is not None and ours <= theirs) for ours, theirs in figures
        )
        is_right &= stated.orders in {again.orders, "integer"} and (stated.loss is not None or stated.rho is not None)
    if not is_right:
        raise BundleError("the manifest's certificate is not the one that its law has")

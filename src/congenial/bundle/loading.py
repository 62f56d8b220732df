"""A bundle from its folder: verified as it is loaded, or refused with everything that is wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from numpy.typing import ArrayLike

from congenial.arrays import Ints
from congenial.bundle.made_again import check_made_again
from congenial.bundle.manifest import Manifest
from congenial.bundle.opening import OpenedBundle, memory_in_words, open_bundle
from congenial.chunks import beside
from congenial.conditions.areas import Area
from congenial.errors import BundleError, did_you_mean
from congenial.hierarchy.tree import Tree
from congenial.progress import Progress, no_news
from congenial.public_law import PublicLaw
from congenial.randomness import RandomStream

if TYPE_CHECKING:
    from congenial.inference.areas_posterior import AreasPosterior
    from congenial.inference.frequentist import Confidence
    from congenial.inference.model_posterior import ModelPosterior
    from congenial.inference.model_test import ModelTest, TableStatistic
    from congenial.inference.posterior import Posterior
    from congenial.inference.priors import LogDensity, Prior, Smooth
    from congenial.inference.tree.estimate import TreeEstimate


@dataclass(frozen=True, repr=False)
class Bundle:
    """A verified bundle: the manifest, and the released tables.

    Attributes
    ----------
    counts : array (area, cell)
        The released tables, in the order of the areas.
    signed_by : str or None
        The public key that signed the manifest, in hexadecimal digits.
    not_checked : tuple of str
        What this version could not compute as the one that made the bundle did. All numbers are checked always.
    below : tuple of arrays (unit, cell)
        Of a tree, the tables of each level below the top; `counts` are those of the top.
    """

    manifest: Manifest
    counts: Ints = field(repr=False)
    signed_by: str | None
    not_checked: tuple[str, ...] = ()
    below: tuple[Ints, ...] = ()

    @cached_property
    def tables(self) -> Mapping[Area, Ints]:
        """The released table of each area, cell by cell; of a tree, of each unit at the top."""
        return self.law.areas.by_label(self.counts)

    @property
    def tree(self) -> Tree | None:
        """The tree of areas, if there is one."""
        return None if self.manifest.chain is None else self.manifest.chain.law.tree

    def level(self, name: str) -> tuple[tuple[str, ...], Ints]:
        """Return the codes of a level's units and their released tables (unit, cell)."""
        if self.tree is None:
            raise BundleError("the bundle has no levels: its areas are no tree")
        number = self.tree.level_of(name)
        tables = self.counts if number == 0 else self.below[number - 1]
        return tuple(self.tree.texts(number)), tables

    @property
    def law(self) -> PublicLaw:
        """The law of the release, but for the confidential tables."""
        return self.manifest.law

    @overload
    def posterior(
        self,
        area: str,
        *,
        prior: "str | Prior | Smooth | LogDensity" = "smooth",
        n_draws: int = 4_000,
        n_chains: int | None = None,
        rng: RandomStream | None = None,
    ) -> "Posterior": ...

    @overload
    def posterior(
        self,
        area: None = None,
        *,
        prior: "str | Prior | Smooth | LogDensity" = "smooth",
        n_draws: int = 4_000,
        n_chains: int | None = None,
        rng: RandomStream | None = None,
    ) -> Any: ...

    def posterior(
        self,
        area: Area = None,
        *,
        prior: "str | Prior | Smooth | LogDensity" = "smooth",
        n_draws: int = 4_000,
        n_chains: int | None = None,
        rng: RandomStream | None = None,
    ) -> "Posterior | AreasPosterior":
        """Return what the release says of the confidential table of an area, under a prior.

        Of a release with areas, left out, the posterior of all of them together (`AreasPosterior`).
        """
        from congenial.inference.areas_posterior import areas_posterior
        from congenial.inference.posterior import posterior

        if area is None and None not in self.tables:
            return areas_posterior(self.law, self.counts, prior=prior, n_draws=n_draws, n_chains=n_chains, rng=rng)
        released = self.released(area)
        return posterior(self.law, area, released, prior=prior, n_draws=n_draws, n_chains=n_chains, rng=rng)

    def confidence(
        self, query: str | Sequence[str], area: Area = None, *, level: float = 0.9, is_simultaneous: bool = False
    ) -> "list[Confidence]":
        """Return intervals that need no prior, or the reason why there is none, for each statistic of the queries.

        Parameters
        ----------
        area : str, optional
            Which area's table is meant; left out for one table, and for queries that name areas or add over them.
        is_simultaneous : bool
            Whether the intervals hold all together with this probability, not one by one.
        """
        from congenial.inference.frequentist import confidences
        from congenial.inference.question import parse_query

        asked = [query] if isinstance(query, str) else list(query)
        found = [statistic for text in asked for statistic in parse_query(text, self.law.schema, self.law.areas)]
        if any(statistic.areas is None for statistic in found):
            self.released(area)  # it is there, or refused
        return confidences(self.law, self.tables, found, area, level=level, is_simultaneous=is_simultaneous)

    def model(
        self,
        terms: Sequence[str] = (),
        area: Area = None,
        *,
        covariates: Mapping[str, ArrayLike] | None = None,
        exposure: ArrayLike | None = None,
        prior_deviation: float = 3.0,
        n_draws: int = 4_000,
        n_chains: int = 16,
        rng: RandomStream | None = None,
    ) -> "ModelPosterior":
        """Return what the release says of a log-linear (Poisson) model of an area's confidential cells.

        Parameters
        ----------
        terms : sequence of str
            Dimensions for main effects, or several joined by ``:`` for an interaction.
        covariates : mapping from name to a number for each cell, optional
        exposure : a positive number for each cell, optional
            Rates are for one unit of it.
        prior_deviation : float
            Standard deviation of the normal prior of each parameter; the intercept's is ten.
        """
        from congenial.inference.design import Design
        from congenial.inference.log_linear import log_linear

        design = Design.of(self.law, terms, covariates, exposure)
        released = self.released(area)
        options = {"n_draws": n_draws, "n_chains": n_chains}
        return log_linear(self.law, area, released, design, prior_deviation=prior_deviation, rng=rng, **options)

    def independence_test(
        self,
        area: Area = None,
        *,
        statistic: "str | TableStatistic" = "chi_square",
        n_replicates: int = 199,
        rng: RandomStream | None = None,
    ) -> "ModelTest":
        """Test whether the dimensions of an area's confidential table are independent, through the release's own law.

        Parameters
        ----------
        statistic : str or function
            ``"chi_square"``, ``"trend"``, or a function of tables (table, cell) whose large values speak against it.
        """
        from congenial.inference.model_test import independence_test

        released = self.released(area)
        return independence_test(self.law, area, released, statistic=statistic, n_replicates=n_replicates, rng=rng)

    def estimate(
        self,
        *,
        n_draws: int | None = None,
        n_chains: int = 2,
        rng: RandomStream | None = None,
        progress: Progress = no_news,
    ) -> "TreeEstimate":
        """Return estimates for every unit of a tree: the release is a draw, and for small areas these are to be used.

        Parameters
        ----------
        n_draws : int, optional
            Draws to keep, in all chains together: 1,000 for small trees, 100 for large ones if not given.
        progress : Progress
            Told what is being done.
        """
        from congenial.inference.tree.estimate import estimate_tree

        chain = self.manifest.chain
        if chain is None:
            raise BundleError(
                "the bundle has no tree of areas, and estimates are for the units of a tree; posterior and confidence"
                " (congenial infer) answer questions about its tables"
            )
        release = (self.counts, *self.below)
        return estimate_tree(chain.law, release, n_draws=n_draws, n_chains=n_chains, rng=rng, progress=progress)

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
        if self.tree is not None:
            tables = str(self.tree)
        cells = f"{tables} of {manifest.law.schema.n_cells:,} cells"
        return f"bundle {manifest.naming.release!r} of dataset {manifest.naming.dataset!r}: {cells}{kind}"


def load_bundle(folder: str | Path, *, key: str | Path | None = None, progress: Progress = no_news) -> Bundle:
    """Load a bundle and verify it: whatever follows from its tables, conditions and law is computed again.

    Pages for people, the report and the README, are compared with their digests; `verify_bundle` makes them again.

    Parameters
    ----------
    folder : path
    key : path, optional
        The publisher's public key. With it, a bundle that this key did not sign is refused.
    progress : Progress
        Is told how many areas were read, where there are many.

    Raises
    ------
    BundleError
        When anything is not as it was published.
    """
    return check_bundle(open_bundle(folder, key=key, progress=progress))


@memory_in_words()
def check_bundle(opened: OpenedBundle) -> Bundle:
    """Compute again whatever follows from a bundle's tables, conditions and law; refuses one that says otherwise."""
    with beside(opened.check_other_table) as compared:
        not_checked, reviews = check_made_again(opened.manifest, opened.counts)
        compared()
    manifest = replace(opened.manifest, known_reviews=reviews)
    return Bundle(manifest, opened.counts, opened.signed_by, tuple(not_checked), opened.below)

"""A bundle as an analyst has it: loaded, verified, and answered by the modules of this package.

Each question imports what answers it, so that loading a bundle stays quick.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

from numpy.typing import ArrayLike

from congenial.arrays import Ints
from congenial.bundle.read import open_bundle
from congenial.bundle.recompute import Bundle, check_bundle
from congenial.bundle.workload_bundle import check_workload
from congenial.bundle.workload_manifest import WorkloadManifest
from congenial.conditions.areas_and_bounds import Area
from congenial.errors import BundleError, did_you_mean
from congenial.plan import Plan
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import RandomStream
from congenial.tree_margins import measures_cells

if TYPE_CHECKING:
    from congenial.inference.areas_posterior import AreasPosterior
    from congenial.inference.chains_and_table_moves import LogDensity
    from congenial.inference.combined_levels import CombinedLevels
    from congenial.inference.districts import District
    from congenial.inference.frequentist import Confidence
    from congenial.inference.measurement_intervals import Measurements
    from congenial.inference.models.goodness_of_fit import ModelTest, TableStatistic
    from congenial.inference.models.log_linear import ModelPosterior
    from congenial.inference.posterior import Posterior
    from congenial.inference.priors import Prior
    from congenial.inference.statistics_registry import Statistic
    from congenial.inference.tree.estimate_and_files import TreeEstimate


@dataclass(frozen=True, repr=False)
class AnalystBundle(Bundle):
    """A verified bundle that answers questions about the confidential tables. Nothing here reads data."""

    @classmethod
    def of(cls, bundle: Bundle) -> "AnalystBundle":
        """Return a bundle with the methods of this class."""
        if isinstance(bundle, cls):
            return bundle
        return cls(**{each.name: getattr(bundle, each.name) for each in fields(bundle)})

    @overload
    def posterior(
        self,
        area: str,
        *,
        prior: "str | Prior | LogDensity" = "smooth",
        n_draws: int = 4_000,
        n_chains: int | None = None,
        rng: RandomStream | None = None,
    ) -> "Posterior": ...

    @overload
    def posterior(
        self,
        area: None = None,
        *,
        prior: "str | Prior | LogDensity" = "smooth",
        n_draws: int = 4_000,
        n_chains: int | None = None,
        rng: RandomStream | None = None,
    ) -> Any: ...

    def posterior(
        self,
        area: Area = None,
        *,
        prior: "str | Prior | LogDensity" = "smooth",
        n_draws: int = 4_000,
        n_chains: int | None = None,
        rng: RandomStream | None = None,
    ) -> "Posterior | AreasPosterior":
        """Return what the release says of the confidential table of an area, under a prior.

        Of a release with areas, left out, the posterior of all of them together (`AreasPosterior`). Of a measured
        release it is the posterior given the measurements.
        """
        from congenial.inference.areas_posterior import areas_posterior
        from congenial.inference.posterior import posterior

        law, tables = self.law, self._tables_to_compare
        if area is None and None not in law.areas:
            return areas_posterior(
                law, tables, measurements=self.measurements, prior=prior, n_draws=n_draws, n_chains=n_chains, rng=rng
            )
        place = self.place(area)
        return posterior(
            law,
            area,
            tables[place],
            measurements=None if self.measurements is None else self.measurements[place],
            prior=prior,
            n_draws=n_draws,
            n_chains=n_chains,
            rng=rng,
        )

    def place(self, area: Area) -> int:
        """Return where an area stands among all; refused if there is none of this name."""
        areas = self.law.areas
        if area not in areas:
            if self.levels:
                self.released(area)  # the same words
            raise BundleError(f"the bundle has no area {area!r}; {did_you_mean(str(area), map(str, areas))}")
        return areas.places[area]

    @cached_property
    def _parsed(self) -> "dict[tuple[str, ...], list[Statistic]]":
        return {}

    def statistics(self, query: str | Sequence[str]) -> "list[Statistic]":
        """Return what queries ask, read once: the names of all areas belong to the language."""
        from congenial.inference.questions import parse_queries

        texts = (query,) if isinstance(query, str) else tuple(query)
        if texts not in self._parsed:
            self._parsed[texts] = parse_queries(texts, self.law.schema, self.law.areas)
        return self._parsed[texts]

    def units(self, level: str) -> "AnalystBundle":
        """Return a level of a measured tree by itself: its units are areas, and their own measurements answer.

        Or, by their name, areas that cross the tree.

        Intervals from one level alone are exact, and need no prior. Those of another level are other intervals for the
        same number: the measurements of a unit and of its parts are independent.
        """
        plan = self.manifest.plan
        names = [name for name, _ in self.law.names_and_codes]
        number = names.index(level) if level in names else self.tree.level_of(level)
        if not self.law.is_measured or not self.law.is_tree:
            raise BundleError(
                f"units of a level, such as {level}, have measurements of their own in a measured release of a tree,"
                " and this is none"
            )
        alone = Plan.of(self.law.measured_laws[number], plan.neighbours, plan.rows_per_unit)
        manifest = replace(self.manifest, plan=alone, conditions=(), exact_statistics=(), known_disclosures=())
        levels = self.law.measured_tables(self.levels)[number : number + 1] if self.levels else ()
        return AnalystBundle(
            manifest, levels, self.signed_by, self.not_checked, self.measured_levels[number : number + 1]
        )

    def district(self, leaves: Sequence[str]) -> "District":
        """Return leaves of a measured tree put together, by their codes: measurements of all levels answer for them.

        A unit that lies in it as a whole answers by itself where its noise is smaller than that of its parts together.
        Intervals are exact, and need no prior.
        """
        from congenial.inference.districts import District

        alone = [self.units(name).measured for name in self.tree.levels]
        return District.of(self.tree, alone, leaves)

    @cached_property
    def combined(self) -> "CombinedLevels":
        """What all levels of a measured tree say together of units and districts: narrower intervals, by public draws.

        ``bundle.combined.units("tract", "all")`` has an interval for each tract, ``bundle.combined.district(codes,
        "all")`` that of leaves put together.
        """
        from congenial.inference.combined_levels import CombinedLevels

        names = [name for name, _ in self.law.names_and_codes]
        alone = tuple(self.units(name).measured for name in names)  # refused of what is no measured tree
        if not measures_cells(self.law):
            raise BundleError(
                "all levels are put together for trees of measured cells, and this one measures margins: the level of a"
                " unit answers by itself, and `congenial plan` prints how near the estimates of all levels are"
            )
        if not self.levels:
            raise BundleError(
                "the noise is drawn around the tables, and this release has none; congenial decide makes some"
            )
        plan = Plan.of(self.law, self.manifest.plan.neighbours, self.manifest.plan.rows_per_unit)
        return CombinedLevels(plan, self.measured_levels, self.levels, alone)

    @cached_property
    def _tables_to_compare(self) -> Ints:
        """The released tables (area, cell); where no rule decided any, tables near the measurements."""
        if self.levels:
            return self.counts
        from congenial.inference.measured_target import cell_measurements, start_tables

        return start_tables(self.law, cell_measurements(self.law, self.measurements))

    @cached_property
    def measured(self) -> "Measurements":
        """The measurements with their law, for intervals without a prior; refused of a conditional release."""
        from congenial.inference.measurement_intervals import Measurements

        return Measurements.of(self.manifest.plan, self.measurements)

    def confidence(
        self, query: str | Sequence[str], area: Area = None, *, level: float = 0.9, is_simultaneous: bool = False
    ) -> "list[Confidence]":
        """Return intervals that need no prior, or the reason why there is none, for each statistic of the queries.

        Of a measured release they are exact, for every sum of what is measured, and say which coverage they have.

        Parameters
        ----------
        area : str, optional
            Which area's table is meant; left out for one table, and for queries that name areas or add over them.
        is_simultaneous : bool
            Whether the intervals hold all together with this probability, not one by one.
        """
        from congenial.inference.frequentist import confidences

        statistics = self.statistics(query)
        if any(statistic.areas is None for statistic in statistics):
            self.place(area)  # it is there, or refused
        if self.law.is_measured:
            return self.measured.confidences(statistics, area, level=level, is_simultaneous=is_simultaneous)
        return confidences(self.law, self.tables, statistics, area, level=level, is_simultaneous=is_simultaneous)

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
        from congenial.inference.models.design_and_parameter_steps import Design
        from congenial.inference.models.log_linear import log_linear

        design, place = Design.of(self.law, terms, covariates, exposure), self.place(area)
        return log_linear(
            self.law,
            area,
            self._tables_to_compare[place],
            design,
            measurements=None if self.measurements is None else self.measurements[place],
            prior_deviation=prior_deviation,
            n_draws=n_draws,
            n_chains=n_chains,
            rng=rng,
        )

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
        from congenial.inference.measured_target import check_offered
        from congenial.inference.models.goodness_of_fit import independence_test

        check_offered(self.law, "the independence test")
        released = self.released(area)
        return independence_test(self.law, area, released, statistic=statistic, n_replicates=n_replicates, rng=rng)

    def estimate(
        self,
        *,
        n_draws: int | None = None,
        n_chains: int = 2,
        rng: RandomStream | None = None,
        progress: Progress = silent,
    ) -> "TreeEstimate":
        """Return estimates for every unit of a conditional tree, whose tables are draws: for small areas use these.

        Parameters
        ----------
        n_draws : int, optional
            Draws to keep, in all chains together: 1,000 for small trees, 100 for large ones if not given.
        progress : Progress
            Told what is being done.
        """
        from congenial.inference.tree.estimate_and_files import estimate_tree

        if not self.law.is_tree:
            raise BundleError(
                "the bundle has no tree of areas, and estimates are for the units of a tree; posterior and confidence"
                " (congenial infer) answer questions about its tables"
            )
        if self.law.is_measured:
            raise BundleError(
                "estimates with a prior are for trees released by the conditional method, whose tables are draws. In a"
                " measured release the table is an estimate already, and bundle.units(level) has intervals for every"
                " unit: congenial infer --units LEVEL"
            )
        return estimate_tree(self.law, self.levels, n_draws=n_draws, n_chains=n_chains, rng=rng, progress=progress)


def load_bundle(folder: str | Path, *, key: str | Path | None = None, progress: Progress = silent) -> AnalystBundle:
    """Load a bundle and verify it: whatever follows from its tables, conditions and law is computed again.

    Pages for people, the report and the README, are compared with their digests; `verify_bundle` makes them again.

    Parameters
    ----------
    folder : path
    key : path, optional
        The publisher's public key. With it, a bundle that this key did not sign is refused.
    progress : Progress
        Is told how many areas were read, where there are many.

    Returns
    -------
    bundle : AnalystBundle
        Of several tables of the same records, an `AnalystWorkloadBundle`; `verify_bundle` alone runs its rule again.

    Raises
    ------
    BundleError
        When anything is not as it was published.
    """
    opened = open_bundle(folder, key=key, progress=progress)
    if isinstance(opened.manifest, WorkloadManifest):
        from congenial.inference.workload_answers import AnalystWorkloadBundle

        return cast("AnalystBundle", AnalystWorkloadBundle.of(check_workload(opened)))
    return AnalystBundle.of(check_bundle(opened))

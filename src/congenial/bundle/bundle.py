"""A bundle from its folder: verified as it is loaded, or refused with everything that is wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from numpy.typing import ArrayLike

from congenial.arrays import Ints
from congenial.bundle.encoding import first_difference
from congenial.bundle.manifest import Manifest
from congenial.bundle.metadata import other_versions
from congenial.bundle.read import OpenedBundle, memory_in_words, open_bundle
from congenial.conditions.areas import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Query, cells
from congenial.errors import BrokenError, BundleError, CongenialError, PrivacyError, did_you_mean
from congenial.law import PublicLaw
from congenial.plan import Asked, Plan
from congenial.privacy.certificate import Certificate
from congenial.privacy.disclosure import Review
from congenial.progress import Progress, silent
from congenial.randomness import RandomStream
from congenial.resources import in_background
from congenial.tree.exact_sums import Disclosed
from congenial.tree.mechanism import Hierarchy
from congenial.tree.plan import ChainPlan
from congenial.tree.tree import Tree

if TYPE_CHECKING:
    from congenial.inference.areas_posterior import AreasPosterior
    from congenial.inference.frequentist import Confidence
    from congenial.inference.models.goodness_of_fit import ModelTest, TableStatistic
    from congenial.inference.models.log_linear import ModelPosterior
    from congenial.inference.posterior import Posterior
    from congenial.inference.priors import LogDensity, Prior, Smooth
    from congenial.inference.tree.estimate import TreeEstimate

# A manifest made again from what it states and the released tables; the two must be the same.

_BROKEN = "the conditions that the manifest states do not hold in its tables"


def check_made_again(manifest: Manifest, tables: Ints) -> tuple[list[str], tuple[Review, ...]]:
    """Refuse a manifest that is not what follows from its tables (area, cell), its conditions and its precisions.

    Another version of `congenial` may prove a smaller bound, and say so in other words: then its figures are held to be
    bounds, which they must be, and what was not compared is returned; and what the exact numbers give away.
    """
    others = other_versions(manifest.software, ["congenial"])
    again = _made_again(manifest, tables)
    not_checked = []
    if others and _is_another_certificate(again, manifest):
        _check_figures(again.certificate, manifest.certificate)
        again = replace(again, certificate=manifest.certificate, sampler=manifest.sampler)
        not_checked.append(f"the words of the certificate and of the sampler, for they are of {others[0]}")
    if others and again.given_away != manifest.given_away:  # it may find more, or fewer
        again = replace(again, given_away=manifest.given_away)
        not_checked.append(f"what the exact numbers give away, for it was counted by {others[0]}")
    if difference := first_difference(manifest.as_json(), again.as_json()):
        raise BundleError(
            "manifest.json has {1} at {0}, and from its tables, conditions and law follows {2}; get the bundle from its"
            " publisher again".format(*difference)
        )
    if (again.exactly, again.law) != (manifest.exactly, manifest.law):
        raise BundleError("areas.parquet states other numbers than the tables and conditions have")
    return not_checked + _check_precisions(manifest, others), again.known_reviews


def _made_again(manifest: Manifest, tables: Ints) -> Manifest:
    plan: Plan | ChainPlan = Plan.of(
        _law(manifest, tables),
        manifest.plan.neighbours,
        manifest.rows_per_unit,
        manifest.plan.budget,
        manifest.plan.asked,
    )
    if manifest.chain is not None:
        plan = _chain(manifest, manifest.chain, tables)
    stated = (manifest.naming, manifest.made_at, plan, manifest.conditions, tables, manifest.receipt, manifest.software)
    try:
        made = Manifest.of(*stated)
    except PrivacyError as refused:
        raise BundleError(f"the published law has no certificate: {refused}") from None
    return replace(made, files=manifest.files, left_out=manifest.left_out)


def _chain(manifest: Manifest, chain: ChainPlan, tables: Ints) -> ChainPlan:
    """Plan a tree again, from its budget and shares or its given precisions."""
    tree, budget, law = chain.law.tree, chain.budget, chain.law
    if manifest.plan.asked != (cells(precision=None if budget is not None else law.top.queries[0].precision),):
        raise BundleError("a tree measures every cell at every level, and the manifest something else")
    own = [law.top.queries[0].precision, *(noise.precision for noise in law.noises)]
    given: dict[str, Any] = {"precisions": dict(zip(tree.levels, own, strict=True))}
    if budget is not None:
        given = {"rho": budget.rho, "epsilon": budget.epsilon, "delta": budget.delta}
        given["shares"] = dict(zip(tree.levels, chain.shares or (), strict=True))
    try:
        again = Hierarchy(
            *(tree, law.top.schema),
            invariants={tree.levels[0]: manifest.conditions, **chain.invariants_below},
            noise=law.top.noise,
            neighbours=manifest.plan.neighbours,
            zeros=law.zeros,
            **given,
        )
        return again.plan(Disclosed(again.areas_of(tables), law.exact))
    except BrokenError:  # its words are about confidential data, and these tables are public
        raise BundleError(_BROKEN) from None
    except CongenialError as refused:
        raise BundleError(f"the tree that the manifest states cannot be planned: {refused}") from None


def _law(manifest: Manifest, tables: Ints) -> PublicLaw:
    """Compile the stated conditions at the released values; what is measured must be what was asked for."""
    law, conditions = manifest.law, manifest.conditions
    _check_asked(manifest.plan.asked, law)
    try:
        if law.areas.name is None:
            areas = Areas.one(Constraints.of(law.schema, conditions, tables[0].tolist()))
        else:
            labels = [str(area) for area in law.areas]
            areas = Areas.of_counts(law.schema, conditions, labels, tables, name=law.areas.name)
    except CongenialError:
        raise BundleError(_BROKEN) from None
    return PublicLaw(law.schema, law.noise, law.queries, areas)


def _check_asked(asked: Sequence[Query], law: PublicLaw) -> None:
    """See that a law measures what was asked for, at given precisions; a budget may divide the cells of one query."""
    if len(asked) not in {1, len(law.queries)}:
        raise BundleError(f"the manifest measures {len(asked)} queries, and its law {len(law.queries)}")
    pairs = zip(asked, law.queries, strict=False)
    if any(query.precision not in {None, stated.precision} for query, stated in pairs):
        raise BundleError("the manifest states another precision of a measured query than its law has")
    rows = [row for query in asked for row in query.rows(law.schema)]
    measured = [row for query in law.queries for row in query.rows]
    if len(rows) != len(measured) or set(rows) != set(measured):
        raise BundleError("the manifest measures other statistics than its law does")


def _is_another_certificate(again: Manifest, manifest: Manifest) -> bool:
    return (again.certificate, again.sampler) != (manifest.certificate, manifest.sampler)


def _check_figures(ours: Certificate, theirs: Certificate) -> None:
    """See that what another version certified is a bound by this version's proofs."""
    bounds = (
        (ours.loss, theirs.loss),
        (ours.rho, theirs.rho),
        (ours.rho_at_all_orders, theirs.rho_at_all_orders),
    )
    is_right = all(stated is None or (own is not None and own <= stated) for own, stated in bounds)
    is_right &= theirs.loss is not None or theirs.rho is not None
    is_right &= theirs.orders in {ours.orders, "integer"}
    plain = (ours.neighbours, ours.k, ours.loss_without_invariants)
    if not is_right or plain != (theirs.neighbours, theirs.k, theirs.loss_without_invariants):
        raise BundleError(
            f"the manifest's certificate says {theirs.amounts} for {theirs.per_record}, and its law has"
            f" {ours.amounts} for {ours.per_record}; get the bundle from its publisher again"
        )


def _check_precisions(manifest: Manifest, others: Sequence[str]) -> list[str]:
    """See that the precisions are those that were given, and the largest that the budget allows."""
    plan, law, budget = manifest.plan, manifest.law, manifest.budget
    if budget is not None and not budget.covers(manifest.certificate):
        raise BundleError(f"the manifest's budget of {budget.text} does not cover its certificate")
    asked = Asked(law.schema, law.noise, plan.asked, plan.budget, plan.neighbours, plan.rows_per_unit)
    try:
        is_largest = asked.plan(law.areas).law.queries == law.queries
    except CongenialError:
        is_largest = False
    if is_largest:
        return []
    if plan.budget is None:
        raise BundleError("the manifest states another precision or weight of a measured query than its law has")
    if not others:
        raise BundleError(
            f"the precisions of its law are not those that the manifest's budget of {plan.budget.text} gives"
        )
    return [f"whether the budget allows no larger precisions, for that is by {others[0]}"]


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
        from congenial.inference.questions import parse_query

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
        from congenial.inference.models.design import Design
        from congenial.inference.models.log_linear import log_linear

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
        from congenial.inference.models.goodness_of_fit import independence_test

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


def load_bundle(folder: str | Path, *, key: str | Path | None = None, progress: Progress = silent) -> Bundle:
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
    with in_background(opened.check_other_table) as compared:
        not_checked, reviews = check_made_again(opened.manifest, opened.counts)
        compared()
    manifest = replace(opened.manifest, known_reviews=reviews)
    return Bundle(manifest, opened.counts, opened.signed_by, tuple(not_checked), opened.below)

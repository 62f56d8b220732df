"""Priors: the registry `PRIORS` of what an analyst may believe of confidential tables before seeing the release."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.errors import InferenceError, did_you_mean, import_extra
from congenial.inference.chains_and_table_moves import FEW_CHAINS, ChainDraws, LogDensity, draw_by_density
from congenial.inference.kernels_random_numbers import RandomBuffer
from congenial.inference.measured_target import log_excess, start_tables, target_of
from congenial.inference.pattern_moves_and_normalisers import PatternSteps
from congenial.inference.smooth.chains import smooth_draws
from congenial.law import PublicLaw
from congenial.randomness import RandomStream
from congenial.sampling.target_and_system import Target
from congenial.schema import Schema, widths_of_labels

_BURN_IN = 10  # proposals of the chains of areas under the flat prior
_BURN_IN_STEPS, _STEPS_A_CELL, _JUMP_EVERY = 50, 5, 10  # sweeps of areas given measurements, steps in each, jumps


class Prior:
    """What is believed of confidential tables before the release: in words, and how tables given the release are drawn.

    See "Recipe: a prior" in CONTRIBUTING.md.

    Attributes
    ----------
    text : str
        What it says, in words.
    is_pooled : bool
        Whether the tables of areas that are drawn together lean on each other.
    has_areas : bool
        Whether tables of many areas can be drawn together.
    """

    text: str
    is_pooled = False
    has_areas = True

    def draw_areas(self, law: PublicLaw, released: Ints, n_draws: int, n_chains: int, rng: RandomStream) -> ChainDraws:
        """Draw the tables of all areas given their released ones (area, cell), if `has_areas`.

        Where the law is measured, measurements of cells stand in the place of released tables: they may be negative.
        """
        raise NotImplementedError

    def draw_table(
        self, law: PublicLaw, area: Area, released: Ints, n_draws: int, n_chains: int | None, rng: RandomStream
    ) -> ChainDraws:
        """Draw the table of one area given the released one (cell,): one table is one area."""
        alone = replace(law, areas=Areas.one(law.areas[area]))
        draws = self.draw_areas(alone, released[None, :], n_draws, FEW_CHAINS if n_chains is None else n_chains, rng)
        return replace(draws, chains=np.ascontiguousarray(draws.chains[:, :, 0], np.int64))


@dataclass(frozen=True)
class DensityPrior(Prior):
    """A log density, up to a constant, of tables (draw, cell)."""

    text: str
    log_density: LogDensity
    has_areas = False

    def __call__(self, tables: Ints) -> Floats:
        """Return the log density of each table, checked to be one finite number or minus infinity each."""
        values = np.asarray(self.log_density(tables), np.float64)
        if values.shape != (len(tables),) or np.isnan(values).any() or (values == np.inf).any():
            raise InferenceError(
                f"the prior must give one number for each of {len(tables):,} tables (draw, cell), finite or minus"
                f" infinity and never NaN; it gave an array of shape {values.shape}"
            )
        return values

    def draw_table(
        self, law: PublicLaw, area: Area, released: Ints, n_draws: int, n_chains: int | None, rng: RandomStream
    ) -> ChainDraws:
        """Draw one table by what the density allows: enumeration, proposals of the exact sampler, or small steps."""
        return draw_by_density(target_of(law, area, released), self, n_draws, n_chains, rng)


@dataclass(frozen=True)
class FlatPrior(DensityPrior):
    """Every table that fits the published numbers is equally likely."""

    text: str = "flat: every table that fits is equally likely"
    log_density: LogDensity = field(default=lambda tables: np.zeros(len(tables)), repr=False)
    has_areas = True

    def draw_areas(self, law: PublicLaw, released: Ints, n_draws: int, n_chains: int, rng: RandomStream) -> ChainDraws:
        """Run chains of every area by proposals of the exact sampler at its release; the normalisers decide."""
        if law.is_measured:
            return _flat_given_measurements(law, released, n_draws, n_chains, rng)
        n_areas, n_cells = released.shape
        n_kept = n_draws // n_chains
        out = np.empty((n_chains, n_kept, n_areas, n_cells), np.int32)
        accepted, n_each = 0, n_kept + _BURN_IN
        for group in law.areas.groups:
            tables = released[group.places]
            noise = Target(group.constraints(0), law.measured, tables[0]).unweighted.measured
            moving, at_release = PatternSteps.of(group.pattern, law.measured), PatternSteps.of(group.pattern, noise)
            for chain in range(n_chains):
                proposed = np.empty((len(tables), n_each, n_cells), np.int64)
                for places, errors in at_release.errors(tables, n_each, rng):
                    proposed[places] = tables[places][:, None, :] + errors
                log_c = moving.log_normalisers(proposed.reshape(-1, n_cells), rng).reshape(len(tables), n_each)
                coins = np.log(rng.uniforms(len(tables) * n_each)).reshape(len(tables), n_each)
                here, every = np.zeros(len(tables), np.int64), np.arange(len(tables))
                for step in range(n_each):
                    is_accepted = coins[:, step] < log_c[every, here] - log_c[:, step]
                    here = np.where(is_accepted, step, here)
                    accepted += int(is_accepted.sum())
                    if step >= _BURN_IN:
                        out[chain, step - _BURN_IN, group.places] = proposed[every, here]
        return ChainDraws(out, accepted / (n_chains * n_each * n_areas))


def _flat_given_measurements(law: PublicLaw, cells: Ints, n_draws: int, n_chains: int, rng: RandomStream) -> ChainDraws:
    """Run chains of every area by small steps from a table near its measurements (area, cell): no normaliser decides.

    Now and then a whole table is proposed, so that every table that fits is reached.
    """
    n_kept, starts = n_draws // n_chains, start_tables(law, cells)
    out = np.empty((n_chains, n_kept, *cells.shape), np.int32)
    buffer = RandomBuffer(rng)
    for group in law.areas.groups:
        if any(limit.low is None or limit.low < 0 for limit in group.pattern.limits):
            raise InferenceError(
                "areas whose cells may be negative are asked one by one under the flat prior: name them"
            )
        moving = PatternSteps.of(group.pattern, law.measured, has_normaliser=False)
        around, near = (np.tile(array[group.places], (n_chains, 1)) for array in (cells, starts))
        here, tilts, eta = near, moving.tilts(near), np.zeros(near.shape)
        n_steps = _STEPS_A_CELL * int(moving.is_open.sum())
        for sweep in range(_BURN_IN_STEPS + n_kept):
            here, _ = moving.move(here, around, eta, tilts, n_steps, buffer, has_counts=False)
            if sweep % _JUMP_EVERY == 0 and moving.sampler.is_exact:
                tried = moving.sampler.draw_each(near, rng)
                gain = log_excess(law.measured, tried, around, near) - log_excess(law.measured, here, around, near)
                here = np.where((np.log(rng.uniforms(len(here))) < gain)[:, None], tried, here)
            if sweep >= _BURN_IN_STEPS:
                out[:, sweep - _BURN_IN_STEPS, group.places] = here.reshape(n_chains, -1, cells.shape[1])
    return ChainDraws(out, 1.0)


@dataclass(frozen=True)
class SmoothPrior(Prior):
    """The default: Poisson counts whose log rates have main effects and shrunken interactions, smooth where ordered.

    It has no density to write down: its effects and their scales are drawn together with the tables.

    Attributes
    ----------
    ordered : mapping from dimension to widths
        Dimensions along which neighbours are alike, and how wide their levels are.
    """

    ordered: Mapping[str, tuple[float, ...]]
    is_pooled = True

    @property
    def text(self) -> str:  # type: ignore[override]
        """What it says, in words."""
        along = f", smooth along {' and '.join(self.ordered)}" if self.ordered else ""
        return f"smooth: main effects and shrunken interactions on the log scale{along}"

    def draw_areas(self, law: PublicLaw, released: Ints, n_draws: int, n_chains: int, rng: RandomStream) -> ChainDraws:
        """Run chains of the tables together with their log rates."""
        draws = smooth_draws(law, released, self.ordered, n_draws=n_draws, n_chains=n_chains, rng=rng)
        of_cells = float(np.median(draws.scales[:, :, -1]))  # their law has no mean where tables say little
        return ChainDraws(draws.tables, draws.acceptance, cell_effect=of_cells)


def smooth(schema: Schema, ordered: Mapping[str, Sequence[float] | None] | None = None) -> SmoothPrior:
    """Return the default prior of a schema.

    Parameters
    ----------
    ordered : mapping, optional
        Dimensions whose levels have an order, with the width of each level; None for what labels say, or else 1 each.
        Left out, those that the schema says, and those whose labels are intervals that follow upon each other, such as
        ages.

    Examples
    --------
    >>> smooth(Schema({"sex": ["female", "male"], "age": ["0-17", "18-64", "65+"]})).text
    'smooth: main effects and shrunken interactions on the log scale, smooth along age'
    """
    if ordered is None:
        known = {name: schema.ordered.get(name) or widths_of_labels(schema.labels(name)) for name in schema.names}
        return SmoothPrior({name: tuple(map(float, widths)) for name, widths in known.items() if widths is not None})
    return SmoothPrior({name: _widths(schema, name, widths) for name, widths in ordered.items()})


def _widths(schema: Schema, name: str, stated: Sequence[float] | None) -> tuple[float, ...]:
    if name not in schema.names:
        raise InferenceError(f"{name!r} is not a dimension; {did_you_mean(str(name), schema.names)}")
    n_levels = len(schema.labels(name))
    default = schema.ordered.get(name) or widths_of_labels(schema.labels(name)) or (1,) * n_levels
    widths = tuple(map(float, default if stated is None else stated))
    if len(widths) != n_levels or not all(0 < width < float("inf") for width in widths):
        raise InferenceError(f"the widths of {name!r} are {n_levels} numbers above 0, one for each level")
    return widths


def poisson(schema: Schema, rates: ArrayLike) -> DensityPrior:
    """Return independent Poisson cells with given rates; given the total, this is the multinomial prior.

    Examples
    --------
    >>> prior = poisson(Schema({"bin": ["a", "b"]}), [1.0, 3.0])
    >>> prior(np.array([[1, 1], [0, 2]])).round(4).tolist()
    [1.0986, 1.5041]
    """
    known = _positive(schema, rates, "rates")
    gammaln = import_extra("scipy.special", "analysis").gammaln

    def log_density(tables: Ints) -> Floats:
        return np.asarray((tables * np.log(known) - gammaln(tables + 1.0)).sum(axis=1))

    return DensityPrior("independent Poisson cells with given rates", _of_counts(log_density))


def dirichlet(schema: Schema, concentration: ArrayLike = 0.5) -> DensityPrior:
    """Return multinomial cells whose probabilities have a Dirichlet law: cells may differ much, sharing nothing.

    A concentration of 1/2 is Jeffreys' prior; with 1, and the total published, it would be the flat prior.

    Where the total is not published, it is taken to be equally likely to be anything.
    """
    alpha = _positive(
        schema, np.broadcast_to(np.asarray(concentration, np.float64), (schema.n_cells,)), "concentration"
    )
    gammaln = import_extra("scipy.special", "analysis").gammaln

    def log_density(tables: Ints) -> Floats:
        total = tables.sum(axis=1)
        cells = gammaln(tables + alpha) - gammaln(tables + 1.0)
        return np.asarray(cells.sum(axis=1) + gammaln(total + 1.0) - gammaln(total + alpha.sum()))

    return DensityPrior("multinomial cells, Dirichlet probabilities", _of_counts(log_density))


def independence(schema: Schema, concentration: float = 1.0) -> DensityPrior:
    """Return multinomial cells whose dimensions are independent (log-linear), each with Dirichlet probabilities.

    Where the total is not published, it is taken to be equally likely to be anything.
    """
    if not concentration > 0:
        raise InferenceError(f"the concentration must be above 0, and it is {concentration}")
    gammaln = import_extra("scipy.special", "analysis").gammaln

    axes = range(len(schema.shape))

    def log_density(tables: Ints) -> Floats:
        cube = tables.reshape(len(tables), *schema.shape)
        total = tables.sum(axis=1)
        out = gammaln(total + 1.0) - gammaln(tables + 1.0).sum(axis=1)
        for axis in axes:
            sums = cube.sum(axis=tuple(other + 1 for other in axes if other != axis))
            alpha = np.full(schema.shape[axis], concentration)
            out = out + (gammaln(sums + alpha) - gammaln(alpha)).sum(axis=1) + gammaln(alpha.sum())
            out = out - gammaln(total + alpha.sum())
        return np.asarray(out)

    return DensityPrior("multinomial cells with independent dimensions", _of_counts(log_density))


def _of_counts(log_density: LogDensity) -> LogDensity:
    """Give tables with a negative cell, which conditions may allow, no chance at all."""

    def checked(tables: Ints) -> Floats:
        counts = (tables >= 0).all(axis=1)
        out = np.full(len(tables), -np.inf)
        if counts.any():
            out[counts] = log_density(tables[counts])
        return out

    return checked


PRIORS: dict[str, Callable[[Schema], Prior]] = {
    "smooth": smooth,
    "flat": lambda _: FlatPrior(),
    "dirichlet": dirichlet,
    "independence": independence,
}
"""The priors that have a name, each made for a schema."""

DEFAULT_PRIOR = "smooth"


def prior_of(schema: Schema, prior: str | Prior | LogDensity) -> Prior:
    """Return a prior from its name, or from a log density of tables (draw, cell); a prior stays as it is."""
    if isinstance(prior, Prior):
        return prior
    if isinstance(prior, str):
        if prior not in PRIORS:
            raise InferenceError(f"prior {prior!r} is not known; {did_you_mean(prior, PRIORS)}")
        return PRIORS[prior](schema)
    if callable(prior):
        return DensityPrior("given by the analyst", prior)
    raise InferenceError(
        f"a prior is {', '.join(PRIORS)}, a Prior, or a function of tables, not a {type(prior).__name__}"
    )


def _positive(schema: Schema, values: ArrayLike, what: str) -> Floats:
    known = np.asarray(values, np.float64).reshape(-1)
    if known.shape != (schema.n_cells,) or not np.all(np.isfinite(known)) or not np.all(known > 0):
        raise InferenceError(f"{what} are {schema.n_cells} finite numbers above 0, one for each cell")
    return known

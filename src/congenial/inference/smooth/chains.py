"""Chains under the smooth prior: the field of log rates given the tables, and the tables given field and release.

A sweep moves the field, then tries small steps of every table under the field's Poisson counts, the noise of
the release and a surrogate G for the normaliser (`moves`); what they come to is taken with chance
``c(s) G(s') / (c(s') G(s))``, one decision on all steps of a table, which leaves the posterior invariant. Now and then
the exact sampler at the release proposes a whole table, so that every table that fits is reached.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import InferenceError, import_extra
from congenial.inference.kernels_random_numbers import RandomBuffer, Terms
from congenial.inference.measured_target import log_excess, start_tables
from congenial.inference.pattern_moves_and_normalisers import PatternSteps, Tilts
from congenial.inference.smooth.areas import AreasField
from congenial.inference.smooth.effects import ALONE, Scales, Widths, terms_of
from congenial.law import PublicLaw
from congenial.randomness import RandomStream
from congenial.sampling.sampler_and_registry import Sampler, choose_sampler
from congenial.sampling.target_and_system import Measured, System, Target
from congenial.schema import Schema

# The smooth field of log rates of one chain: its arrays, and how it moves given tables.

_START = 0.7  # of the normals behind scales


@dataclass(eq=False)
class Field:
    """Effects of one table or two, of shared scales. It moves, so it is not frozen."""

    terms: Terms
    buffer: RandomBuffer
    is_open: NDArray[np.bool_]
    hyper: Floats
    scales: Floats
    normals: Floats
    effects: Floats
    level: Floats
    eta: Floats
    scratch: Floats

    @classmethod
    def start(cls, terms: Terms, counts: Ints, is_open: NDArray[np.bool_], buffer: RandomBuffer) -> "Field":
        """Return a field near nothing at all for some tables (table, cell), moved once."""
        n_tables, n_cells = counts.shape
        n_effects, n_normals = len(terms.scale), int(terms.start[-1]) + n_cells
        shape = terms.shape
        scratch = int((shape[:, 0] * (shape[:, 3] + shape[:, 2])).max(initial=1))
        hyper = np.full(n_effects, _START)
        units = terms.scale
        scales = np.where(terms.is_estimated, units * _START, units)
        return cls(
            terms,
            buffer,
            is_open,
            hyper,
            scales,
            0.2 * (buffer.rng.uniforms(n_tables * n_normals).reshape(n_tables, n_normals) - 0.5),
            np.zeros((n_tables, n_effects, n_cells)),
            np.zeros(n_tables),
            np.zeros((n_tables, n_cells)),
            np.zeros(scratch),
        ).set_effects()

    def set_effects(self) -> "Field":
        """Compute the effects of the tables from their normals."""
        from congenial.inference.smooth.kernels import add_effect

        edges = [*self.terms.start.tolist(), self.normals.shape[1]]
        for normals, effects in zip(self.normals, self.effects, strict=True):
            for t, (first, last) in enumerate(pairwise(edges)):
                add_effect(self.terms, t, normals[first:last], self.scales[t], self.scratch, effects[t])
        return self

    @property
    def _most_words(self) -> int:
        from congenial.inference.kernels_random_numbers import MOST_TRIALS

        n_normals, n_effects = self.normals.shape[1], len(self.scales)
        n_cells = int(self.eta.shape[1])
        return 16 * int(n_normals) + (MOST_TRIALS + 8) * (4 * n_effects + n_cells) + 4 * MOST_TRIALS

    def sweep(self, counts: Ints) -> None:
        """Move everything once, given tables (table, cell)."""
        from congenial.inference.smooth.kernels import move_scales, sweep_fields

        done, most = 0, self._most_words
        while done < len(counts):
            done = sweep_fields(
                self.terms,
                self.scales,
                counts,
                self.is_open,
                self.normals,
                self.effects,
                self.level,
                self.eta,
                self.scratch,
                most,
                done,
                self.buffer.at_least(most),
            )
        move_scales(
            self.terms,
            counts,
            self.is_open,
            self.hyper,
            self.scales,
            self.normals,
            self.effects,
            self.eta,
            self.buffer.at_least(most),
        )


_STEPS_A_CELL = 5
_STARTS = 100  # draws among which a start is looked for
_JUMP_EVERY = 10  # sweeps; where there are many cells, jumps are hardly ever taken, and dear
_MANY_CELLS = 50
KEPT_RATES = 10
"""Draws of a chain whose log rates are kept, as a rule."""
_MANY_AREAS = 200  # each sweep moves what they share
_FEW_AREAS = 3  # fewer say nothing about a common profile


@dataclass(frozen=True)
class SmoothDraws:
    """What the chains drew.

    Attributes
    ----------
    tables : array (chain, draw, area, cell) of int32
    scales : array (chain, draw, effect)
        Of the tables' own effects; the last is that of single cells.
    eta : array (table, area, cell)
        Log rates of some draws.
    acceptance : float
        Share of the decisions by normalisers that went through.
    """

    tables: NDArray[np.int32]
    scales: Floats
    eta: Floats
    acceptance: float


@dataclass(eq=False)
class _Pattern:
    """The areas that share a pattern: where they are, how they move, and how many steps a decision takes.

    Attributes
    ----------
    released : array (area, cell)
        The released tables, or the measurements of cells.
    centres : array (area, cell)
        Around which whole tables are proposed: the released tables, or tables near the measurements.
    at_release : Sampler or None
        What proposes them; None where measurements were made under conditions that no exact sampler fits.
    """

    places: Ints
    released: Ints
    centres: Ints
    measured: tuple[Measured, ...]
    moving: PatternSteps
    at_release: Sampler | None
    tilts: Tilts
    n_steps: int
    n_taken: int = 0
    n_tried: int = 0

    @classmethod
    def all_of(cls, law: PublicLaw, released: Ints, centres: Ints) -> "list[_Pattern]":
        out = []
        for group in law.areas.groups:
            tables, starts = released[group.places], centres[group.places]
            moving = PatternSteps.of(group.pattern, law.measured, has_normaliser=not law.is_measured)
            noise = Target(group.constraints(0), law.measured, starts[0]).unweighted.measured
            sampler = choose_sampler(System.of(group.pattern, noise))
            at_release = None if law.is_measured and not sampler.is_exact else sampler
            n_steps = _STEPS_A_CELL * int(moving.is_open.sum())
            tilts = moving.tilts(np.maximum(tables, 0))
            out.append(cls(group.places, tables, starts, law.measured, moving, at_release, tilts, n_steps))
        return out

    def log_excess(self, tables: Ints) -> Floats:
        """Return what tables (chain and area, cell) are likelier given the release than proposals of them are."""
        if self.moving.has_normaliser:
            return np.zeros(len(tables))
        n_chains = len(tables) // len(self.places)
        around = (np.tile(array, (n_chains, 1)) for array in (self.released, self.centres))
        return log_excess(self.measured, tables, *around)

    @property
    def jump_every(self) -> int:
        """The sweeps from one jump to the next."""
        return _JUMP_EVERY * max(1, int(self.moving.is_open.sum()) // _MANY_CELLS)

    def start(self, rng: RandomStream) -> Ints:
        """Return draws of the exact sampler at the release, counts all of them."""
        if self.at_release is None:
            return self.centres.copy()
        out = self.at_release.draw_each(self.centres, rng)
        for _ in range(_STARTS):
            bad = np.flatnonzero((out < 0).any(axis=1))
            if not bad.size:
                return out
            out[bad] = self.at_release.draw_each(self.centres[bad], rng)
        raise InferenceError(
            "no table near the release has counts of 0 and more in all cells, as models of rates need; what does not is"
            ' a posterior with prior="flat"'
        )

    def adapt(self) -> None:
        """Take fewer steps a decision where too few go through, and more where nearly all do."""
        share = self.n_taken / max(1, self.n_tried)
        n_open = int(self.moving.is_open.sum())
        if share < 0.6:
            self.n_steps = max(n_open // 4 + 1, int(0.7 * self.n_steps))
        elif share > 0.85:
            self.n_steps = min(4 * _STEPS_A_CELL * n_open, int(1.3 * self.n_steps) + 1)
        self.n_taken = self.n_tried = 0


def smooth_draws(
    law: PublicLaw,
    released: Ints,
    ordered: Widths,
    *,
    n_draws: int,
    n_chains: int,
    rng: RandomStream,
    thin: int = 1,
    scales: Scales = ALONE,
    kept_rates: int = KEPT_RATES,
) -> SmoothDraws:
    """Run chains for the tables of all areas (area, cell) together.

    Parameters
    ----------
    released : array (area, cell)
        The released tables; of a measured release, the measurements of cells.
    n_draws : int
        Draws kept in all chains together.
    thin : int
        Sweeps for each draw that is kept.
    scales : Scales
        Of the effects of one table, or two; those of more are estimated.
    kept_rates : int
        Draws of a chain whose log rates are kept.
    """
    centres = start_tables(law, released) if law.is_measured else released
    patterns = _Pattern.all_of(law, released, centres)
    n_areas, n_cells = released.shape
    etas: list[Floats] = []
    counts = np.empty((n_chains, n_areas, n_cells), np.int64)
    is_open = np.ones((n_areas, n_cells), bool)
    for pattern in patterns:
        is_open[pattern.places] = pattern.moving.is_open
        for chain in range(n_chains):
            counts[chain, pattern.places] = pattern.start(rng)
    log_c = np.empty((n_chains, n_areas))
    for pattern in patterns:
        log_c[:, pattern.places] = _normalisers(pattern, counts[:, pattern.places], rng)
    buffer = RandomBuffer(rng)
    fields = [_start(law.schema, ordered, scales, of_chain, centres, is_open, buffer) for of_chain in counts]
    each = n_draws // n_chains
    burn_in = max(200 if n_areas <= _MANY_AREAS else 80, each * thin // 3)
    tables = np.empty((n_chains, each, n_areas, n_cells), np.int32)
    drawn_scales = np.empty((n_chains, each, len(fields[0].scales)))
    n_taken, n_tried = 0, 0
    for sweep in range(burn_in + each * thin):
        for chain, field in enumerate(fields):
            field.sweep(counts[chain])
        eta = np.stack([field.eta for field in fields])
        for pattern in patterns:
            if sweep in {burn_in // 4, burn_in // 2}:
                pattern.tilts = pattern.moving.tilts(counts[0, pattern.places])
            taken = _step(pattern, counts, log_c, eta, buffer)
            if sweep % pattern.jump_every == 0:
                _jump(pattern, counts, log_c, eta, rng)
            pattern.n_taken += taken
            pattern.n_tried += n_chains * len(pattern.places)
            if sweep < burn_in and sweep % 20 == 19:
                pattern.adapt()
            if sweep >= burn_in:
                n_taken, n_tried = n_taken + taken, n_tried + n_chains * len(pattern.places)
        draw, rest = divmod(sweep - burn_in, thin)
        if sweep >= burn_in and rest == thin - 1:
            tables[:, draw] = counts
            drawn_scales[:, draw] = [field.scales for field in fields]
            if draw % max(1, each // kept_rates) == 0:
                etas += [field.eta.copy() for field in fields]
    return SmoothDraws(tables, drawn_scales, np.array(etas), n_taken / n_tried)


def _start(
    schema: Schema,
    ordered: Widths,
    scales: Scales,
    counts: Ints,
    released: Ints,
    is_open: NDArray[np.bool_],
    buffer: RandomBuffer,
) -> Field | AreasField:
    """Return the log rates of one chain at its start, near its tables."""
    if len(counts) >= _FEW_AREAS:
        return AreasField.start(schema, ordered, counts, released, is_open, buffer)
    return Field.start(terms_of(schema, ordered, scales), counts, is_open, buffer)


def _step(pattern: _Pattern, counts: Ints, log_c: Floats, eta: Floats, buffer: RandomBuffer) -> int:
    """Take small steps of the tables of one pattern in all chains; return how many went through."""
    n_chains, n_areas = len(counts), len(pattern.places)
    here = counts[:, pattern.places].reshape(n_chains * n_areas, -1)
    etas = eta[:, pattern.places].reshape(here.shape)
    released = np.tile(pattern.released, (n_chains, 1))
    tilts = Tilts(
        *(
            np.tile(array, (n_chains,) + (1,) * (array.ndim - 1))
            for array in (pattern.tilts.log_mass, pattern.tilts.slope)
        )
    )
    tried, gain = pattern.moving.move(here, released, etas, tilts, pattern.n_steps, buffer)
    return _decide(pattern, counts, log_c, tried, gain, buffer.rng)


def _jump(pattern: _Pattern, counts: Ints, log_c: Floats, eta: Floats, rng: RandomStream) -> int:
    """Propose whole tables of the exact sampler at the release."""
    gammaln = import_extra("scipy.special", "analysis").gammaln

    if pattern.at_release is None:
        return 0
    n_chains = len(counts)
    tried = np.concatenate([pattern.at_release.draw_each(pattern.centres, rng) for _ in range(n_chains)])
    here = counts[:, pattern.places].reshape(tried.shape)
    etas = eta[:, pattern.places].reshape(tried.shape)
    possible = np.asarray((tried >= 0).all(axis=1))
    tried = np.where(possible[:, None], tried, here)
    gain = (etas * (tried - here) - gammaln(tried + 1.0) + gammaln(here + 1.0)).sum(axis=1)
    gain += pattern.log_excess(tried) - pattern.log_excess(here)
    return _decide(pattern, counts, log_c, tried, gain, rng)


def _decide(pattern: _Pattern, counts: Ints, log_c: Floats, tried: Ints, gain: Floats, rng: RandomStream) -> int:
    n_chains, n_areas = len(counts), len(pattern.places)
    here = counts[:, pattern.places].reshape(tried.shape)
    log_c_here = log_c[:, pattern.places].reshape(-1)
    tried_c = log_c_here.copy()
    moved = np.flatnonzero((tried != here).any(axis=1))
    if moved.size:
        tried_c[moved] = pattern.moving.log_normalisers(tried[moved], rng)
    taken = np.log(rng.uniforms(len(tried))) < gain + log_c_here - tried_c
    counts[:, pattern.places] = np.where(taken[:, None], tried, here).reshape(n_chains, n_areas, -1)
    log_c[:, pattern.places] = np.where(taken, tried_c, log_c_here).reshape(n_chains, n_areas)
    return int(taken.sum())


def _normalisers(pattern: _Pattern, counts: Ints, rng: RandomStream) -> Floats:
    n_chains, n_areas, n_cells = counts.shape
    return pattern.moving.log_normalisers(counts.reshape(-1, n_cells), rng).reshape(n_chains, n_areas)

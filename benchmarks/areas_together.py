"""All US counties asked together: what the pooled posterior and the error's law take, and how near they are."""

import resource
import time
import warnings
from pathlib import Path

import numpy as np
from counties import county_tables

import congenial as cg
from congenial.examples import P12_AGES, P12_VOTING_AGES
from congenial.inference.areas_posterior import areas_posterior
from congenial.inference.estimates_and_draw_quality import quality_of

OLD = tuple(P12_AGES[17:])
SIZES = (0, 1_500, 3_000, 6_000, 10_000, 30_000)


def ask_all_counties(folder: Path, every: int = 1) -> None:
    """Release counties once at epsilon 1, total, women and voting age exact, and ask for people of 65 and over."""
    tables = county_tables(folder)[::every]
    schema = cg.Schema({"sex": ["female", "male"], "age": P12_AGES}, ordered=["age"])
    exact = [cg.total(), cg.total({"sex": "female"}, name="women"), cg.total({"age": P12_VOTING_AGES}, name="adults")]
    mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=exact, epsilon="1")
    named = {str(place): cg.Table(schema, table.reshape(schema.shape)) for place, table in enumerate(tables)}
    law = mechanism.plan(mechanism.disclose(named)).law
    released = np.stack(
        [
            cg.Law(law, table, area).sample(1, cg.replay_rng(f"county {area}"))[0]
            for area, table in zip(law.areas, tables, strict=True)
        ]
    )
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        together = areas_posterior(law, released, rng=cg.replay_rng("counties together"))
    took = time.process_time() - start
    print(f"{len(tables):,} counties at epsilon 1: pooled posterior, {together.chains.shape[1]} draws of")
    print(f"  {together.chains.shape[0]} chains, {took:.0f} CPU s, peak {_gigabytes():.2f} GB")
    query = f"age in {{{', '.join(OLD)}}}"
    values = together.values(query)
    old = np.flatnonzero([age in OLD for _ in ("female", "male") for age in P12_AGES])
    truth, released_old = tables[:, old].sum(axis=1), released[:, old].sum(axis=1)
    start = time.process_time()
    by_law = together.error_intervals(query, rng=cg.replay_rng("errors"))
    covered = np.mean(
        [interval.low <= number <= interval.high for interval, number in zip(by_law.values(), truth, strict=True)]
    )
    print(f"  intervals by the error's law: {time.process_time() - start:.0f} CPU s, {covered:.1%} covered")
    print(f"  sum over counties: {together.total(query)}; the truth is {truth.sum():,}")
    print(f"  by the error's law: {together.error_total(query, rng=cg.replay_rng('errors of the sum'))}")
    print(
        f"  effective draws of the sum: {quality_of(values.sum(axis=2)).effective_draws:.0f} of {values[..., 0].size}"
    )
    drawn, cells = values.reshape(-1, len(tables)), together.chains.reshape(-1, *tables.shape).mean(axis=0)
    inside = (np.quantile(drawn, 0.05, axis=0) <= truth) & (truth <= np.quantile(drawn, 0.95, axis=0))
    print("  people from, counties, covered, error of 65+ released, estimated, error of a cell released, estimated")
    for low, high in zip(SIZES, (*SIZES[1:], np.inf), strict=True):
        some = (tables.sum(axis=1) >= low) & (tables.sum(axis=1) < high)
        figures = [released_old - truth, drawn.mean(axis=0) - truth, released - tables, cells - tables]
        sizes = "".join(f"{np.sqrt(np.square(gap[some]).mean()):8.2f}" for gap in figures)
        print(f"  {low:7,}{some.sum():7,}{inside[some].mean():8.1%}{sizes}")


def _gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6

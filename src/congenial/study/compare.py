"""Mechanisms side by side at equal certified privacy loss, on simulated or public tables."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.baselines.baseline import Baseline, Problem, noisy_answers, repair_all
from congenial.baselines.projection import Clipped, L1Projection, L2Projection, Raw
from congenial.baselines.topdown import TopDown
from congenial.conditions.queries import bounds
from congenial.errors import StudyError
from congenial.law import Law
from congenial.mechanism import Mechanism
from congenial.plan import Plan
from congenial.privacy.budget import Budget, spent
from congenial.privacy.certificate import Certificate
from congenial.progress import Progress, no_news
from congenial.randomness import RandomStream, secure_rng
from congenial.study.asked import SOURCES, check_asked
from congenial.study.comparison import Comparison, Result
from congenial.table import Table

CONGENIAL = "congenial"
BASELINES: dict[str, Baseline] = {
    "raw": Raw(),
    "clip": Clipped(),
    "l2": L2Projection(),
    "l1": L1Projection(),
    "topdown": TopDown(),
}
METHODS = (CONGENIAL, *BASELINES)
DEFAULT_METHODS = (CONGENIAL, "raw", "clip", "l2", "topdown")


def compare(
    mechanism: Mechanism,
    tables: Table | Iterable[Table],
    *,
    source: str = "confidential",
    methods: Sequence[str] = DEFAULT_METHODS,
    n_releases: int = 100,
    rng: RandomStream | None = None,
    out: str | Path | None = None,
    progress: Progress = no_news,
) -> Comparison:
    """Release each table many times by each method, and measure how far the releases lie from the truth.

    All methods spend the same certified loss. The congenial mechanism keeps its budget (or the loss that its precisions
    cost); the others get as much precision as that loss buys for noise with no conditions at all. Where no single
    record can change its value alone, say with both margins exact, the loss of all methods is that of k records.

    Parameters
    ----------
    mechanism : Mechanism
    tables : Table or several
        Each is released by itself, under its own values of the invariants.
    source : str
        ``"public"`` or ``"simulated"``. A comparison with confidential tables is itself confidential: it is refused
        unless `out` is a folder whose name begins with CONFIDENTIAL.
    methods : sequence of str
        Of congenial, raw, clip, l2, l1, topdown.
    n_releases : int
        Releases of each table by each method.
    out : path, optional
        A new folder for the page, the pictures and the tidy CSV.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> from congenial.randomness import replay_rng
    >>> found = compare(p12_mechanism(epsilon="1"), p12_table(), source="simulated", n_releases=20, rng=replay_rng(1))
    >>> [result.name for result in found.results]
    ['congenial', 'raw', 'clip and rescale', 'L2 projection', 'TopDown']
    """
    folder = None if out is None else Path(out)
    check_asked(source, methods, METHODS, n_releases, folder)
    truths = [tables] if isinstance(tables, Table) else list(tables)
    if not truths or any(getattr(table, "schema", None) != mechanism.schema for table in truths):
        raise StudyError(f"compare needs one or more tables of the mechanism's schema, {mechanism.schema}")
    stream = rng or secure_rng()
    runs = {method: _Run(n_releases, mechanism.budget) for method in methods}
    for number, table in enumerate(truths):
        progress("tables", number, len(truths))
        _one_table(mechanism, table, runs, n_releases, stream)
    several = max(run.k for run in runs.values()) > 1
    found = Comparison(
        tuple(run.result(method, names_records=several) for method, run in runs.items()),
        truths=np.stack([table.counts for table in truths]),
        n_releases=n_releases,
        is_confidential=source not in SOURCES,
    )
    if folder is not None:
        found.write(folder)
    return found


class _Run:
    """What one method did to table after table. Confidential if the tables are."""

    def __init__(self, n_releases: int, budget: Budget | None) -> None:
        self.n_releases = n_releases
        self.budget = budget
        self.certificates: list[Certificate] = []
        self.means: list[Floats] = []
        self.l1: list[float] = []
        self.l2: list[float] = []
        self.zeros: list[float] = []
        self.n_broken = 0
        self.seconds: list[float] = []

    def add(
        self, table: Table, releases: Floats | Ints, is_broken: NDArray[np.bool_], seconds: float, cost: Certificate
    ) -> None:
        gap = releases - table.counts
        self.certificates.append(cost)
        self.means.append(gap.mean(axis=0))
        self.l1.append(float(np.abs(gap).sum(axis=1).mean()))
        self.l2.append(float(np.sqrt((gap.astype(np.float64) ** 2).sum(axis=1)).mean()))
        self.zeros.append(float((np.abs(releases) < 1e-9).mean()))
        self.n_broken += int(is_broken.sum())
        self.seconds.append(seconds)

    @property
    def k(self) -> int:
        """Of how many records a certificate speaks at most."""
        return max(certificate.k for certificate in self.certificates)

    def result(self, method: str, *, names_records: bool) -> Result:
        label = BASELINES[method].label if method in BASELINES else None
        worst = max(self.certificates, key=lambda certificate: spent(certificate, self.budget).amount)
        return Result(
            name=label.name if label else CONGENIAL,
            certificate=worst,
            spent=spent(worst, self.budget).text + (f" for {worst.per_record}" if names_records else ""),
            holds_for=label.privacy if label else "all tables that share the invariants' values",
            law=label.law if label else "known exactly: the conditional law",
            l1=np.array(self.l1),
            l2=np.array(self.l2),
            bias=np.stack(self.means),
            zeros=float(np.mean(self.zeros)),
            broken=self.n_broken / (self.n_releases * len(self.l1)),
            seconds=float(np.median(self.seconds)),
        )


def _one_table(mechanism: Mechanism, table: Table, runs: dict[str, _Run], n: int, rng: RandomStream) -> None:
    constraints = mechanism.disclose(table)
    plan = mechanism.plan(constraints)
    certificate = plan.certificate
    plain = without_conditions(mechanism, certificate)
    problem = Problem(constraints, plain.law.measured)
    for method, run in runs.items():
        if method == CONGENIAL:
            releases: Floats | Ints = Law(plan.law, table.counts).sample(n, rng)
            seconds = _best_of_three(lambda: plan.draw(table.counts[None, :], rng))
            broken = ~np.asarray(constraints.holds(releases))
            run.add(table, releases, broken, seconds, certificate)
            continue
        baseline = BASELINES[method]
        start = time.perf_counter()
        releases = repair_all(baseline, problem, noisy_answers(problem, table, n, rng))
        seconds = (time.perf_counter() - start) / n
        run.add(table, releases, _broken(problem, releases), seconds, plain.certificate)


def _broken(problem: Problem, releases: Floats | Ints) -> NDArray[np.bool_]:
    """Say which releases break a condition, by more than rounding."""
    tolerance = 1e-6 * (1 + np.abs(releases).max(axis=1))
    return np.asarray([problem.polytope.farthest(release) for release in releases.astype(np.float64)] > tolerance)


def _best_of_three(call: Callable[[], object]) -> float:
    found = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def _for_one_record(budget: Budget, certificate: Certificate) -> Budget:
    """Return what one record may cost so that the certificate's k records, under noise alone, cost the budget.

    Distances add up, so pure losses do. Under rho k records cost at most ``k^2`` times as much; Gaussian noise pays
    nothing for conditions at integer orders, so there the certificate itself says how much less it is.
    """
    plain, k = certificate.loss_without_invariants, certificate.k
    if budget.epsilon is not None and certificate.currency == "epsilon":
        # With a delta too: the pure bound of k records is the better one here.
        return Budget(epsilon=budget.epsilon / k)
    share = plain / certificate.rho if certificate.currency == "rho" and certificate.rho else Fraction(1, k * k)
    rho = budget.rho if budget.rho is not None else certificate.rho
    return Budget(rho=None if rho is None else rho * max(share, Fraction(1, k * k)), orders=budget.orders)


def without_conditions(mechanism: Mechanism, certificate: Certificate) -> Plan:
    """Return the plan of the noise alone, no condition at all, at the largest precisions that the same loss certifies.

    The same loss between the same tables: where it takes k records to keep the invariants, k records.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism(epsilon="1")
    >>> certificate = mechanism.plan(mechanism.disclose(p12_table())).certificate
    >>> without_conditions(mechanism, certificate).law.queries[0].precision
    Fraction(1, 2)
    """
    budget = mechanism.budget
    if budget is None:
        # The precisions were given: keep their proportions, and spend what they cost under the conditions.
        queries = [replace(query, precision=None, portion=query.precision or None) for query in mechanism.queries]
        pure = certificate.loss is not None
        budget = Budget(epsilon=certificate.loss, rho=None if pure else certificate.rho, orders=certificate.orders)
    else:
        queries = list(mechanism.queries)
    if certificate.k > 1:
        budget = _for_one_record(budget, certificate)
    plain = Mechanism(
        mechanism.schema,
        measure=queries,
        invariants=[bounds(None)],
        noise=mechanism.noise,
        neighbours=mechanism.neighbours,
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho=budget.rho,
        orders=budget.orders if budget.rho is not None else "integer",
    )
    empty = Table(mechanism.schema, np.zeros(mechanism.schema.shape, np.int64))
    return plain.plan(plain.disclose(empty))

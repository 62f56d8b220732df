"""Mechanisms side by side at equal certified privacy loss, on simulated or public tables."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from importlib.metadata import version
from math import isnan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.limits import bounds
from congenial.errors import StudyError, did_you_mean
from congenial.law import Law
from congenial.mechanism import Mechanism
from congenial.pages.matplotlib_figures import BiasLine, Picture, bias_by_size, distance_boxes
from congenial.pages.page import render
from congenial.plan import Plan
from congenial.privacy.budget import Budget, spent
from congenial.privacy.certificate import Certificate
from congenial.progress import Progress, no_news
from congenial.randomness import RandomStream, secure_rng
from congenial.study.baselines.base import Baseline, Problem, noisy_answers, repair_all
from congenial.study.baselines.projection import Clipped, L1Projection, L2Projection, Raw
from congenial.study.baselines.topdown import TopDown
from congenial.study.paper.exhibits import Columns, Grid, write_csv
from congenial.table import CONFIDENTIAL, Table

# What a comparison found: numbers by method, bias by size of count, pictures, a page and a tidy CSV.

SIZES = (0, 1, 3, 6, 11, 21, 51, 101, 501, 1_001, 10_001)
"""Where each class of true counts begins."""
PERCENTILES = (1, 50, 99)


@dataclass(frozen=True)
class Result:
    """What one method did.

    Attributes
    ----------
    certificate : Certificate
        What its release costs at most.
    spent : str
        That cost in the budget's currency, in words.
    holds_for : str
        For which pairs of tables that is known.
    l1, l2 : arrays (table,)
        Average distances of the releases from each table.
    bias : array (table, cell)
        Average of release less truth.
    zeros : float
        Share of released cells that are exactly zero.
    broken : float
        Share of releases that break an invariant or a limit.
    seconds : float
        Time of one release of one table.
    """

    name: str
    certificate: Certificate
    spent: str
    holds_for: str
    law: str
    l1: Floats
    l2: Floats
    bias: Floats
    zeros: float
    broken: float
    seconds: float


@dataclass(frozen=True, repr=False)
class Comparison:
    """Results by method. Printed unless the tables are confidential."""

    results: tuple[Result, ...]
    truths: Ints
    n_releases: int
    is_confidential: bool

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The classes of true counts that occur, in words."""
        return tuple(size_text(number) for number in self._classes)

    @cached_property
    def _classes(self) -> list[int]:
        return sorted(set(self._class_of.reshape(-1).tolist()))

    @cached_property
    def _class_of(self) -> NDArray[np.intp]:
        return np.searchsorted(SIZES, self.truths, side="right") - 1

    def bias_percentiles(self, result: Result) -> Floats:
        """Return the percentiles (size of count, percentile) of a method's bias over the cells of each size."""
        groups = [result.bias[self._class_of == number] for number in self._classes]
        return np.array([np.percentile(group, PERCENTILES) for group in groups])

    @property
    def summary(self) -> Columns:
        """One line a method."""
        results = self.results
        return {
            "method": [result.name for result in results],
            "certified_loss": [result.spent for result in results],
            "mean_l1": [float(result.l1.mean()) for result in results],
            "mean_l2": [float(result.l2.mean()) for result in results],
            "mean_bias_of_zero_cells": [self._bias_of_zeros(result) for result in results],
            "share_of_zeros": [result.zeros for result in results],
            "share_of_broken_releases": [result.broken for result in results],
            "seconds_a_table": [result.seconds for result in results],
        }

    def _bias_of_zeros(self, result: Result) -> float:
        empty = self.truths == 0
        return float(result.bias[empty].mean()) if empty.any() else float("nan")

    @property
    def tidy(self) -> Columns:
        """Every number in a long frame: method, statistic, size of count, table, value."""
        rows = list(self._tidy_rows())
        names = ("method", "certified_loss", "statistic", "size_of_count", "n_cells", "table", "value")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    def _tidy_rows(self) -> Iterator[tuple[str, str, str, str, object, object, float]]:
        for result in self.results:
            head = (result.name, result.spent)
            for number in range(len(result.l1)):
                yield (*head, "mean_l1", "", "", number + 1, float(result.l1[number]))
                yield (*head, "mean_l2", "", "", number + 1, float(result.l2[number]))
            for size, klass, values in zip(self.sizes, self._classes, self.bias_percentiles(result), strict=True):
                n_cells = int((self._class_of == klass).sum())
                mean = float(result.bias[self._class_of == klass].mean())
                yield (*head, "bias_mean", size, n_cells, "", mean)
                for percentile, value in zip(PERCENTILES, values.tolist(), strict=True):
                    yield (*head, f"bias_p{percentile:02}", size, n_cells, "", value)
            for name in ("zeros", "broken", "seconds"):
                yield (*head, name, "", "", "", float(getattr(result, name)))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Box plots of the distances, and bias against the size of the count."""
        boxes = distance_boxes(
            {
                "average L1 distance, people": {result.name: result.l1 for result in self.results},
                "average L2 distance, people": {result.name: result.l2 for result in self.results},
            }
        )
        lines = {result.name: BiasLine(*self.bias_percentiles(result).T.tolist()) for result in self.results}
        order = ", ".join(result.name for result in sorted(self.results, key=lambda result: float(result.l1.mean())))
        return (
            Picture(
                "distances",
                boxes,
                f"Distances from the truth at equal certified loss; a point is one table, {self.n_releases} releases"
                " each.",
                f"Box plots of distances by method; from near to far in L1: {order}.",
            ),
            Picture(
                "bias",
                bias_by_size(self.sizes, lines),
                "Bias of a cell by its true count: the median, with a bar from the 1st to the 99th percentile over"
                f" cells. Part of each bar is simulation noise of {self.n_releases} releases.",
                "A panel a method: bias against the size of the true count. Raw noise lies around zero; methods that"
                " keep counts nonnegative push small counts up and large ones down.",
            ),
        )

    @property
    def grids(self) -> tuple[Grid, ...]:
        """The summary and the bias by size, to read."""
        summary = self.summary
        rows = zip(*summary.values(), strict=True)
        heads = ("method", "certified loss", "L1", "L2", "bias of empty cells", "exact zeros", "broken", "ms a table")
        lines = tuple(
            (name, loss, f"{l1:.2f}", f"{l2:.2f}", _signed(bias), f"{zeros:.1%}", f"{broken:.1%}",
             f"{1e3 * seconds:.3g}")
            for name, loss, l1, l2, bias, zeros, broken, seconds in rows
        )  # fmt: skip
        truly = float((self.truths == 0).mean())
        caption = f"Averages over {len(self.truths):,} tables; of the true cells {truly:.1%} are zero"
        n_cells = [int((self._class_of == number).sum()) for number in self._classes]
        bias = [
            (
                f"{result.name}, {percentile}th" if percentile != 1 else f"{result.name}, 1st",
                *(f"{v:+.2f}" for v in column),
            )
            for result in self.results
            for percentile, column in zip(PERCENTILES, self.bias_percentiles(result).T.tolist(), strict=True)
        ]
        return (
            Grid(caption, heads, lines),
            Grid(
                "Percentiles of the bias of a cell, by its true count",
                ("method and percentile", *self.sizes),
                (("number of cells", *(f"{n:,}" for n in n_cells)), *bias),
            ),
        )

    def write(self, folder: Path) -> None:
        """Write the page, the pictures and the tidy CSV into a new folder."""
        write_comparison(
            folder,
            "Mechanisms compared at equal certified loss",
            self.results,
            self.grids,
            self.tidy,
            pictures=self.pictures,
            n_releases=self.n_releases,
            is_confidential=self.is_confidential,
        )

    def __repr__(self) -> str:
        if self.is_confidential:
            return (
                f"confidential comparison of {len(self.results)} methods, not shown; see the folder it was written to"
            )
        return self.grids[0].text


def write_comparison(
    folder: Path,
    title: str,
    results: Sequence[object],
    grids: Sequence[Grid],
    tidy: Columns,
    *,
    pictures: Sequence[Picture] = (),
    n_releases: int,
    is_confidential: bool,
) -> None:
    """Write a page, pictures and the tidy CSV into a new folder; all of them marked if they are confidential."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudyError(f"{folder} is there already and not an empty folder; name a new one")
    mark = CONFIDENTIAL if is_confidential else ""
    folder.mkdir(parents=True, exist_ok=True)
    if is_confidential:
        folder.chmod(0o700)
    for picture in pictures:
        picture.write(folder, prefix=mark)
    write_csv(folder / f"{mark}comparison.csv", tidy)
    page = render(
        "comparison.html",
        title=title,
        mark=mark,
        results=results,
        grids=grids,
        pictures=pictures,
        n_releases=n_releases,
        version=version("congenial"),
    )
    (folder / f"{mark}index.html").write_text(page, encoding="utf-8")


def _signed(value: float) -> str:
    return "" if isnan(value) else f"{value:+.2f}"


def size_text(number: int) -> str:
    """Return a class of counts in words."""
    low = SIZES[number]
    if number + 1 == len(SIZES):
        return f"{low:,}+"
    high = SIZES[number + 1] - 1
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


# What a comparison is asked for: whose tables, which methods, how many releases. Refused before anything is drawn.

SOURCES = ("public", "simulated")


def check_asked(
    source: str, methods: Sequence[str], known: Sequence[str], n_releases: int, folder: Path | None
) -> None:
    """Refuse what cannot be compared, and confidential tables without a marked folder."""
    if source not in {*SOURCES, "confidential"}:
        raise StudyError(f'source={source!r} is not known; write "public", "simulated" or "confidential"')
    if source == "confidential" and (folder is None or not folder.name.startswith(CONFIDENTIAL)):
        raise StudyError(
            "a comparison with confidential tables is confidential itself. If the tables are public or simulated,"
            ' say so: source="public" or "simulated" (in a spec: data status). Otherwise write it to a marked folder:'
            f' out="{CONFIDENTIAL}comparison"'
        )
    if isinstance(methods, str) or not methods:
        raise StudyError(f"methods is a list of {', '.join(known)}")
    for method in methods:
        if method not in known:
            raise StudyError(f"method {method!r} is not known; {did_you_mean(str(method), known)}")
    if len(set(methods)) != len(methods):
        raise StudyError("methods names one twice")
    if type(n_releases) is not int or n_releases < 2:
        raise StudyError(f"n_releases is a whole number from 2 on, not {n_releases!r}")


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

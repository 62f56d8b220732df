"""Mechanisms side by side at equal certified privacy loss, level by level, on simulated or public tables."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from math import isnan
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import CongenialError, StudyError, did_you_mean
from congenial.mechanism_and_hierarchy import Hierarchy, Mechanism
from congenial.pages.matplotlib_figures import BiasLine, Picture, bias_by_size, distance_boxes
from congenial.pages.page import render
from congenial.plan import Plan
from congenial.privacy.budget import Budget, spent
from congenial.privacy.certificate import Certificate
from congenial.privacy.certificate_inputs import CONDITIONAL, MEASURED
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import RandomStream, secure_rng
from congenial.schema import Schema
from congenial.study.baselines.base_and_least_squares import (
    Baseline,
    Label,
    Problem,
    noisy_answers,
    repair_all,
    without_conditions,
)
from congenial.study.baselines.projection import Clipped, L1Projection, L2Projection, Raw
from congenial.study.baselines.topdown_and_leaves_alone import TopDown
from congenial.study.equal_loss import (
    DEFAULT_TREE_METHODS,
    MEASUREMENTS,
    TREE_METHODS,
    plan_by_method,
    release_once,
    releases_by_method,
)
from congenial.study.metrics import SIZES, LevelResult, LevelTally, Metric, size_text
from congenial.study.paper.exhibits_table_1_and_figures import Columns, PrintedTable, check_new_folder, write_csv
from congenial.table import CONFIDENTIAL, Table

# The result of a comparison: errors by method and level, bias by size of count, pictures, a page and a tidy CSV.

PERCENTILES = (1, 50, 99)
_MOST_UNITS = 1_000  # of a level, whose distances are listed one by one


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
    levels : tuple of LevelResult
        The top first; of tables without levels there is one.
    broken : float
        Share of releases that break an invariant or a limit of the top.
    seconds : float
        CPU time of one release, of one table or of the whole tree, the median.
    """

    name: str
    certificate: Certificate
    spent: str
    holds_for: str
    law: str
    levels: tuple[LevelResult, ...]
    broken: float
    seconds: float


@dataclass(frozen=True, repr=False)
class Comparison:
    """Results by method and level. Printed unless the tables are confidential.

    Attributes
    ----------
    levels : tuple of str
        The top first.
    truths : tuple of arrays (unit, cell)
        The confidential tables of each level.
    left_out : mapping from a method's name to text
        The usual methods that these conditions or this budget do not allow, each with the reason.
    """

    results: tuple[Result, ...]
    levels: tuple[str, ...]
    truths: tuple[Ints, ...]
    n_releases: int
    is_confidential: bool
    left_out: Mapping[str, str]

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The classes of true counts that occur, in words."""
        return tuple(size_text(number) for number in self._classes)

    @cached_property
    def _classes(self) -> list[int]:
        return sorted({number for level in self._class_of for number in np.unique(level).tolist()})

    @cached_property
    def _class_of(self) -> list[NDArray[np.intp]]:
        return [np.searchsorted(SIZES, truth, side="right") - 1 for truth in self.truths]

    @cached_property
    def n_of_size(self) -> Ints:
        """How many cells of each level have a true count of each size (level, size of count)."""
        return np.array([[(level == number).sum() for number in self._classes] for level in self._class_of])

    def bias_of_size(self, result: Result, level: int = 0) -> Floats:
        """Return a method's mean bias over the cells of each size; not a number where there are none."""
        return np.array([values.mean() if values.size else np.nan for values in self._bias_by_size(result, level)])

    def bias_percentiles(self, result: Result, level: int = 0) -> Floats:
        """Return the percentiles (size of count, percentile) of a method's bias over the cells of each size."""
        nothing = np.full(len(PERCENTILES), np.nan)
        groups = self._bias_by_size(result, level)
        return np.array([np.percentile(values, PERCENTILES) if values.size else nothing for values in groups])

    def _bias_by_size(self, result: Result, level: int) -> list[Floats]:
        return [result.levels[level].bias[self._class_of[level] == number] for number in self._classes]

    def _lines(self) -> Iterator[tuple[Result, int, LevelResult]]:
        for result in self.results:
            for number, level in enumerate(result.levels):
                yield result, number, level

    @property
    def summary(self) -> Columns:
        """One line for each method and level."""
        lines = list(self._lines())
        return {
            "method": [result.name for result, _, _ in lines],
            "certified_loss": [result.spent for result, _, _ in lines],
            "level": [self.levels[number] for _, number, _ in lines],
            "rms_error_of_a_cell": [_root_mean_square(level.cells) for _, _, level in lines],
            "rms_error_of_a_total": [_root_mean_square(level.totals) for _, _, level in lines],
            "mean_l1": [float(level.l1.mean()) for _, _, level in lines],
            "mean_l2": [float(level.l2.mean()) for _, _, level in lines],
            "mean_bias_of_zero_cells": [self._bias_of_zeros(number, level) for _, number, level in lines],
            "share_of_zeros": [level.zeros for _, _, level in lines],
            "share_of_zeros_kept": [level.zeros_kept for _, _, level in lines],
            "share_of_broken_releases": [result.broken for result, _, _ in lines],
            "cpu_seconds_a_release": [result.seconds for result, _, _ in lines],
        }

    def _bias_of_zeros(self, number: int, level: LevelResult) -> float:
        empty = self.truths[number] == 0
        return float(level.bias[empty].mean()) if empty.any() else float("nan")

    @property
    def metrics(self) -> Columns:
        """Every registered figure of every method and level, in a long frame."""
        rows = [
            (result.name, result.spent, self.levels[number], metric)
            for result, number, level in self._lines()
            for metric in level.metrics
        ]
        return {
            "method": [name for name, _, _, _ in rows],
            "certified_loss": [cost for _, cost, _, _ in rows],
            "level": [level for _, _, level, _ in rows],
            "metric": [metric.name for _, _, _, metric in rows],
            "value": [metric.value for _, _, _, metric in rows],
            "standard_error": [metric.standard_error for _, _, _, metric in rows],
            "better": [metric.better for _, _, _, metric in rows],
        }

    def worse(self, method: str, other: str) -> tuple[str, ...]:
        """Return the metrics in which a method is worse than another by more than two standard errors, by name."""
        one, two = (next(result for result in self.results if result.name == name) for name in (method, other))
        return tuple(
            metric.name if len(self.levels) == 1 else f"{name}: {metric.name}"
            for name, level, compared in zip(self.levels, one.levels, two.levels, strict=True)
            for metric, against in zip(level.metrics, compared.metrics, strict=True)
            if metric.is_worse_than(against)
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """Say in which metrics each method of this project is worse than those beside it, and what is left out."""
        names = [result.name for result in self.results]
        pairs = [(MEASURED, CONDITIONAL), (MEASURED, "TopDown"), (CONDITIONAL, MEASURED), (CONDITIONAL, "TopDown")]
        worse = (
            f"{one} is worse than {other} by more than two standard errors in:"
            f" {'; '.join(self.worse(one, other)) or 'nothing'}"
            for one, other in pairs
            if one in names and other in names
        )
        return (*worse, *(f"{method} is left out: {reason}" for method, reason in self.left_out.items()))

    @property
    def tidy(self) -> Columns:
        """Every number in a long frame: method, level, statistic, size of count, unit or release, value."""
        rows = list(self._tidy_rows())
        head = ("method", "certified_loss", "level", "statistic", "size_of_count", "n_cells", "unit", "release")
        return {name: [row[i] for row in rows] for i, name in enumerate((*head, "value"))}

    def _tidy_rows(self) -> Iterator[tuple[str, str, str, str, str, object, object, object, float]]:
        for result, number, level in self._lines():
            head = (result.name, result.spent, self.levels[number])
            for release, (cell, total) in enumerate(zip(level.cells.tolist(), level.totals.tolist(), strict=True), 1):
                yield (*head, "rms_error_of_a_cell", "", "", "", release, cell)
                yield (*head, "rms_error_of_a_total", "", "", "", release, total)
            for statistic, distances in (("mean_l1", level.l1), ("mean_l2", level.l2)):
                for unit, value in enumerate(distances.tolist() if len(distances) <= _MOST_UNITS else (), 1):
                    yield (*head, statistic, "", "", unit, "", value)
            means, percentiles = self.bias_of_size(result, number), self.bias_percentiles(result, number)
            for size, n_cells, mean, values in zip(self.sizes, self.n_of_size[number], means, percentiles, strict=True):
                if n_cells:
                    yield (*head, "bias_mean", size, int(n_cells), "", "", float(mean))
                    for percentile, value in zip(PERCENTILES, values.tolist(), strict=True):
                        yield (*head, f"bias_p{percentile:02}", size, int(n_cells), "", "", value)
            yield (*head, "zeros", "", "", "", "", level.zeros)
            if not isnan(level.zeros_kept):
                yield (*head, "zeros_kept", "0", "", "", "", level.zeros_kept)
        for result in self.results:
            yield (result.name, result.spent, "", "broken", "", "", "", "", result.broken)
            yield (result.name, result.spent, "", "cpu_seconds", "", "", "", "", result.seconds)

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Box plots of the distances, and bias against the size of the count; not of trees, with a point a unit."""
        if len(self.levels) > 1:
            return ()
        by_method = {result.name: result.levels[0] for result in self.results}
        boxes = distance_boxes(
            {
                "average L1 distance, people": {name: level.l1 for name, level in by_method.items()},
                "average L2 distance, people": {name: level.l2 for name, level in by_method.items()},
            }
        )
        lines = {result.name: BiasLine(*self.bias_percentiles(result).T.tolist()) for result in self.results}
        order = ", ".join(sorted(by_method, key=lambda name: float(by_method[name].l1.mean())))
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
    def printed_tables(self) -> tuple[PrintedTable, ...]:
        """The summary and the bias by size, to read."""
        heads = ("method", "certified loss", "a cell", "a total", "L1", "L2", "bias of empty cells", "exact zeros")
        lines = tuple(
            (
                self._title(result, number),
                result.spent if number == 0 else "",
                *(_with_error(level.cells), _with_error(level.totals)),
                *(f"{level.l1.mean():,.2f}", f"{level.l2.mean():,.2f}"),
                *(_shown(self._bias_of_zeros(number, level), "+.2f"), f"{level.zeros:.1%}"),
                *(_shown(level.zeros_kept, ".1%"), f"{result.broken:.1%}" if number == 0 else ""),
                f"{1e3 * result.seconds:.3g}" if number == 0 else "",
            )
            for result, number, level in self._lines()
        )
        sizes = ", ".join(f"{name}: {len(truth):,}" for name, truth in zip(self.levels, self.truths, strict=True))
        zeros = float((self.truths[-1] == 0).mean())
        caption = (
            f"Units ({sizes}), {self.n_releases} releases by each method: root mean squared errors with their standard"
            f" errors, average distances; of the true cells {zeros:.1%} are zero"
        )
        biases = [
            (f"{self._title(result, number)}, {_ordinal(percentile)}", *(_shown(value, "+.2f") for value in column))
            for result, number, _ in self._lines()
            for percentile, column in zip(PERCENTILES, self.bias_percentiles(result, number).T.tolist(), strict=True)
        ]
        n_cells = [
            (f"number of cells, {name}", *(f"{count:,}" for count in counts))
            for name, counts in zip(self.levels, self.n_of_size.tolist(), strict=True)
        ]
        return (
            PrintedTable(caption, (*heads, "zeros kept", "broken", "CPU ms"), lines),
            PrintedTable(
                "Percentiles of the bias of a cell, by its true count",
                ("method and percentile", *self.sizes),
                (*n_cells, *biases),
            ),
            *self._printed_metrics(),
        )

    def _printed_metrics(self) -> Iterator[PrintedTable]:
        """Go through the levels, with a line for each metric and a column for each method."""
        for number, name in enumerate(self.levels):
            columns: list[tuple[Metric, ...]] = [result.levels[number].metrics for result in self.results]
            level = "" if len(self.levels) == 1 else f", {name}"
            yield PrintedTable(
                f"Mean absolute errors unless they say otherwise, with standard errors{level}",
                ("metric", *(result.name for result in self.results)),
                tuple((line[0].name, *(metric.text for metric in line)) for line in zip(*columns, strict=True)),
            )

    def _title(self, result: Result, level: int) -> str:
        return result.name if len(self.levels) == 1 else f"{result.name}, {self.levels[level]}"

    def write(self, folder: Path) -> None:
        """Write the page, the pictures and the tidy CSV into a new folder; all of them marked if confidential."""
        check_new_folder(folder)
        mark = CONFIDENTIAL if self.is_confidential else ""
        folder.mkdir(parents=True, exist_ok=True)
        if self.is_confidential:
            folder.chmod(0o700)
        pictures = self.pictures
        for picture in pictures:
            picture.write(folder, prefix=mark)
        write_csv(folder / f"{mark}comparison.csv", self.tidy)
        write_csv(folder / f"{mark}metrics.csv", self.metrics)
        page = render(
            "comparison.html",
            title="Mechanisms compared at equal certified loss",
            mark=mark,
            results=self.results,
            unrecorded_use=UNRECORDED_USE if self.is_confidential else "",
            printed_tables=self.printed_tables,
            remarks=self.remarks,
            pictures=pictures,
            n_releases=self.n_releases,
            version=version("congenial"),
        )
        (folder / f"{mark}index.html").write_text(page, encoding="utf-8")

    def __repr__(self) -> str:
        if self.is_confidential:
            return (
                f"{UNRECORDED_USE}\nconfidential comparison of {len(self.results)} methods, not shown; see the folder"
                " it was written to"
            )
        summary, _, *metrics = self.printed_tables
        return "\n".join([summary.text, "", *(table.text for table in metrics), *self.remarks])


def _root_mean_square(values: Floats) -> float:
    return float(np.sqrt((values**2).mean()))


def _with_error(values: Floats) -> str:
    """Return the root mean square over releases, and how far it may be off in brackets."""
    size = _root_mean_square(values)
    error = float((values**2).std(ddof=1) / np.sqrt(values.size)) / (2 * size) if size else 0.0
    return f"{size:,.3f} ({error:.3f})"


def _shown(value: float, how: str) -> str:
    return "" if isnan(value) else format(value, how)


def _ordinal(percentile: int) -> str:
    return f"{percentile}{'st' if percentile == 1 else 'th'}"


# Requests are refused before anything is drawn.

SOURCES = ("public", "simulated")

UNRECORDED_USE = (
    "These data are not declared public or simulated. To choose a method or a rule by this comparison is a use of the"
    " data that no ledger knows: the choice can tell of them, and no budget is charged for it. Choose by public or"
    " simulated tables, or by congenial plan, which sees no table."
)
"""What comes before a comparison with tables that are confidential."""


def check_request(
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


BASELINES: dict[str, Baseline] = {
    "raw": Raw(),
    "clip": Clipped(),
    "l2": L2Projection(),
    "l1": L1Projection(),
    "topdown": TopDown(),
}
METHODS = (CONDITIONAL, MEASURED, MEASUREMENTS, *BASELINES)
DEFAULT_METHODS = (CONDITIONAL, MEASURED, "raw", "clip", "l2", "topdown")
_SHARED = "all tables that share the invariants' values"
_LABELS = {
    CONDITIONAL: Label(CONDITIONAL, _SHARED, "known exactly: the conditional law"),
    MEASURED: Label(MEASURED, _SHARED, "that of the measurements it is decided from, known exactly"),
    MEASUREMENTS: Label(MEASUREMENTS, _SHARED, "known exactly, and the same for every table", keeps_invariants=False),
    **{name: baseline.label for name, baseline in BASELINES.items()},
}


class _ErrorTally:
    """What one method did in release after release. Confidential if the tables are."""

    def __init__(self, label: Label, truths: Sequence[Ints], n_releases: int, schema: Schema) -> None:
        self.label = label
        self.levels = [LevelTally(truth, n_releases, schema) for truth in truths]
        self.certificates: list[Certificate] = []
        self.broken: list[float] = []
        self.seconds: list[float] = []

    def add(self, certificate: Certificate, broken: float, seconds: float) -> None:
        """Add the cost, the share that breaks a condition, and the CPU time of a release of some releases."""
        self.certificates.append(certificate)
        self.broken.append(broken)
        self.seconds.append(seconds)

    def result(self, budget: Budget | None, *, names_records: bool) -> Result:
        worst = max(self.certificates, key=lambda certificate: spent(certificate, budget).amount)
        return Result(
            name=self.label.name,
            certificate=worst,
            spent=spent(worst, budget).text + (f" for {worst.per_record}" if names_records else ""),
            holds_for=self.label.privacy,
            law=self.label.law,
            levels=tuple(level.result for level in self.levels),
            broken=float(np.mean(self.broken)),
            seconds=float(np.median(self.seconds)),
        )


def _compared(
    tallies: Iterable[_ErrorTally],
    levels: tuple[str, ...],
    budget: Budget | None,
    source: str,
    folder: Path | None,
    left_out: Mapping[str, str],
) -> Comparison:
    """Return the comparison, written if a folder is named."""
    runs = list(tallies)
    names_records = max(certificate.k for run in runs for certificate in run.certificates) > 1
    comparison = Comparison(
        tuple(run.result(budget, names_records=names_records) for run in runs),
        levels=levels,
        truths=tuple(level.truth for level in runs[0].levels),
        n_releases=len(runs[0].levels[0].cells),
        is_confidential=source not in SOURCES,
        left_out=left_out,
    )
    if folder is not None:
        comparison.write(folder)
    return comparison


def compare(
    mechanism: Mechanism,
    tables: Table | Iterable[Table],
    *,
    source: str = "confidential",
    methods: Sequence[str] = DEFAULT_METHODS,
    n_releases: int = 100,
    rng: RandomStream | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Release each table many times by each method, and measure how far the releases lie from the truth.

    All methods spend the same certified loss: the mechanism's budget, or what its precisions cost. Baselines get as
    much precision as that loss buys for noise with no conditions at all. Where no single record can change its value
    alone, say with both margins exact, the loss of all methods is that of k records.

    Parameters
    ----------
    mechanism : Mechanism
    tables : Table or several
        Each is released by itself, under its own values of the invariants.
    source : str
        ``"public"`` or ``"simulated"``. A comparison with confidential tables is itself confidential: it is refused
        unless `out` is a folder whose name begins with CONFIDENTIAL.
    methods : sequence of str
        Of conditional, measured (its tables), measurements (before a rule decides), raw, clip, l2, l1, topdown. The
        first two are the mechanism by either method, whichever it was made with.
    n_releases : int
        Releases of each table by each method.
    out : path, optional
        A new folder for the page, the pictures and the tidy CSV.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> from congenial.randomness import replay_rng
    >>> mechanism = p12_mechanism(epsilon="1")
    >>> comparison = compare(mechanism, p12_table(), source="simulated", n_releases=20, rng=replay_rng(1))
    >>> [result.name for result in comparison.results]
    ['conditional', 'measured', 'raw', 'clip and rescale', 'L2 projection', 'TopDown']
    """
    folder = None if out is None else Path(out)
    check_request(source, methods, METHODS, n_releases, folder)
    truths = [tables] if isinstance(tables, Table) else list(tables)
    if not truths or any(getattr(table, "schema", None) != mechanism.schema for table in truths):
        raise StudyError(f"compare needs one or more tables of the mechanism's schema, {mechanism.schema}")
    stream, counts = rng or secure_rng(), np.stack([table.counts for table in truths])
    tallies = {method: _ErrorTally(_LABELS[method], [counts], n_releases, mechanism.schema) for method in methods}
    for number, table in enumerate(truths):
        progress("tables", number, len(truths))
        _release_table(mechanism, table, number, tallies, n_releases, stream)
    return _compared(tallies.values(), ("table",), mechanism.budget, source, folder, {})


def _release_table(
    mechanism: Mechanism, table: Table, number: int, tallies: dict[str, _ErrorTally], n: int, rng: RandomStream
) -> None:
    constraints = mechanism.disclose(table)
    stated = mechanism.plan(constraints)
    plain = without_conditions(mechanism, stated.certificate)
    problem = Problem(constraints, plain.law.measured)
    for method, tally in tallies.items():
        if method in BASELINES:
            start = time.process_time()
            releases: Floats | Ints = repair_all(BASELINES[method], problem, noisy_answers(problem, table, n, rng))
            seconds, certificate = (time.process_time() - start) / n, plain.certificate
        else:
            plan = plan_by_method(mechanism, stated, table, CONDITIONAL if method == CONDITIONAL else MEASURED)
            releases, certificate = releases_by_method(plan, table, method, n, rng), plan.certificate
            seconds = _best_of_three(lambda plan=plan: release_once(plan, table, rng))  # type: ignore[misc]
        tally.add(certificate, float(_broken(problem, releases).mean()), seconds)
        tally.levels[0].add(releases[:, None], slice(number, number + 1))


def _broken(problem: Problem, releases: Floats | Ints) -> NDArray[np.bool_]:
    """Say which releases break a condition, by more than rounding."""
    tolerance = 1e-6 * (1 + np.abs(releases).max(axis=1))
    return np.asarray([problem.polytope.farthest(release) for release in releases.astype(np.float64)] > tolerance)


def _best_of_three(call: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def compare_tree(
    hierarchy: Hierarchy,
    leaves: ArrayLike,
    *,
    source: str = "confidential",
    methods: Sequence[str] | None = None,
    n_releases: int = 10,
    rng: RandomStream | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Release a tree some times by each method, and measure level by level how far the releases lie from the truth.

    All methods spend the same certified loss, with equal shares by level: the hierarchy's budget, or what its
    precisions cost. TopDown measures every cell of every level with the hierarchy's noise; leaves alone have the whole
    of it.

    Parameters
    ----------
    hierarchy : Hierarchy
    leaves : array (leaf, cell)
        In the order in which the leaves were listed when the tree was made.
    source : str
        ``"public"`` or ``"simulated"``. A comparison with confidential leaves is itself confidential: it is refused
        unless `out` is a folder whose name begins with CONFIDENTIAL.
    methods : sequence of str
        Of conditional (the chain), measured (its tables), measurements (before a rule decides), topdown, leaves. The
        first two are the hierarchy by either method, whichever it was made with. If not given, all of them but the
        measurements, without those that the budget or the exact numbers do not allow: under a pure epsilon there is
        neither a chain nor leaves alone, and TopDown and leaves alone know no exact numbers below the top.
    out : path, optional
        A new folder for a page and the tidy CSV.

    Examples
    --------
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), invariants=[cg.total()], rho="1")
    >>> comparison = cg.compare_tree(hierarchy, [[3, 4], [0, 1], [2, 2]], source="simulated", n_releases=3)
    >>> [result.name for result in comparison.results], comparison.levels
    (['conditional', 'measured', 'TopDown', 'leaves alone'], ('county', 'block'))
    """
    folder = None if out is None else Path(out)
    chosen = DEFAULT_TREE_METHODS if methods is None else methods
    check_request(source, chosen, tuple(TREE_METHODS), n_releases, folder)
    counts = hierarchy.counts_of(leaves)
    plans, left_out = _plans_of(hierarchy, counts, methods)
    truths, stream = hierarchy.tree.summed(counts), rng or secure_rng()
    tallies = {
        method: _ErrorTally(TREE_METHODS[method].label, truths, n_releases, hierarchy.schema) for method in plans
    }
    for method, tally in tallies.items():
        plan = plans[method]
        for number in range(n_releases):
            progress(tally.label.name, number, n_releases)
            start = time.process_time()
            released = TREE_METHODS[method].release(plan, counts, stream)
            seconds = time.process_time() - start
            tally.add(plan.certificate, float(not plan.law.areas.holds(released[0]).all()), seconds)
            for level, drawn in zip(tally.levels, released, strict=True):
                level.add(drawn[None], slice(None), number)
    return _compared(tallies.values(), hierarchy.tree.levels, hierarchy.budget, source, folder, left_out)


def _plans_of(
    hierarchy: Hierarchy, leaves: Ints, methods: Sequence[str] | None
) -> tuple[dict[str, Plan], dict[str, str]]:
    """Return the plan of each method, and why usual ones have none; a method that was named must have one."""
    stated = hierarchy.plan(hierarchy.disclose(leaves))
    plans: dict[str, Plan] = {}
    left_out: dict[str, str] = {}
    for method in DEFAULT_TREE_METHODS if methods is None else methods:
        try:
            plan = TREE_METHODS[method].plan_of(hierarchy, stated, leaves)
            plan.check_samplers()
            _ = plan.certificate
        except CongenialError as refused:
            if methods is not None or method == hierarchy.method:
                raise
            left_out[TREE_METHODS[method].label.name] = str(refused)
        else:
            plans[method] = plan
    return plans, left_out

"""Open bundles, of the folder, uploaded as a zip or simulated here; and a cache of answers from them."""

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import IO, Any, TypeVar, cast
from warnings import catch_warnings, simplefilter
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.file_registry import MANIFEST
from congenial.bundle.recompute import Bundle
from congenial.bundle.verify import Verified, verify_bundle
from congenial.bundle.workload_bundle import WorkloadBundle
from congenial.errors import BundleError, CongenialError, InferenceError, reason_of
from congenial.inference.analyst_bundle import AnalystBundle
from congenial.inference.areas_posterior import AreasPosterior, areas_posterior
from congenial.inference.ask_and_answers import Replies, ask, error_intervals_across, known_answers
from congenial.inference.error_intervals import ErrorInterval
from congenial.inference.estimates_and_draw_quality import Estimate, PoorDrawsWarning
from congenial.inference.priors import DEFAULT_PRIOR, prior_of
from congenial.inference.questions import parse_query
from congenial.inference.tree.estimate_and_files import TreeEstimate
from congenial.inference.workload_answers import AnalystWorkloadBundle, TableAnswer
from congenial.law import PublicLaw
from congenial.randomness import replay_rng
from congenial.workbench.jobs_and_errors import BackgroundJob
from congenial.workbench.measured_bundles import start_of_draws
from congenial.workbench.workload_bundles import answers_of
from congenial.workbench.workspace import Workspace, evict

_HERE = "opened:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MOST_FILES, LARGEST_FILE, LARGEST_ZIP = 40, 100_000_000, 200_000_000
_MOST_KEPT = 6
_CHUNK = 1 << 20
_ENCRYPTED = 1 | 1 << 6 | 1 << 13  # bits of a file's flags: encrypted, strongly, and its list as well


@dataclass
class OpenBundles:
    """Bundles by name; each is verified once as long as its files stay."""

    workspace: Workspace
    _numbers: "count[int]" = field(default_factory=lambda: count(1))
    _verified: dict[object, "Verified | str"] = field(default_factory=dict)

    def folder(self, name: str) -> Path:
        """Return the folder of a bundle."""
        if name.startswith(_HERE):
            plain = name.removeprefix(_HERE)
            folder = self.workspace.scratch / plain
            if not re.fullmatch(r"[0-9]+-[A-Za-z0-9._-]+", plain) or not folder.is_dir():
                raise BundleError("this bundle is not open any more; open it again")
            return folder
        return self.workspace.path(name, "bundle")

    def new_folder(self, title: str) -> tuple[str, Path]:
        """Return the name and the folder, not there yet, of a bundle that is simulated or uploaded."""
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", title).strip("-.")[:60] or "bundle"
        name = f"{next(self._numbers)}-{plain}"
        return _HERE + name, self.workspace.scratch / name

    def key(self, name: str) -> tuple[object, ...]:
        """Return what tells a bundle from another one, and from itself with other files."""
        return (name, _state(self.folder(name)))

    def verified(self, name: str) -> "Verified | str":
        """Return a bundle that was verified, or what is wrong with it. In the computing thread."""
        folder, key = self.folder(name), self.key(name)
        if key not in self._verified:
            evict(self._verified, _MOST_KEPT)
            try:
                self._verified[key] = verify_bundle(folder)
            except CongenialError as refused:
                self._verified[key] = str(refused)
        return self._verified[key]

    def opened(self, name: str) -> Verified:
        """Return a bundle that was verified, or refuse it."""
        verified = self.verified(name)
        if isinstance(verified, str):
            raise BundleError(f"the bundle is not verified, so it is not asked: {verified}")
        return verified

    def unpack(self, stream: IO[bytes], title: str) -> str:
        """Unpack a zip of a bundle into a new folder; damaged ones, odd names, links and sizes are refused."""
        name, folder = self.new_folder(title.removesuffix(".zip"))
        try:
            _unpack(stream, folder)
        except BaseException:
            rmtree(folder, ignore_errors=True)
            raise
        return name


class _ShortReads:
    """A stream that is read in pieces only: a zip that asks for more at once has a list of files no bundle has."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, n_bytes: int = -1) -> bytes:
        if n_bytes > _CHUNK:
            raise BundleError("the zip's list of files is longer than any bundle's")
        return self._stream.read(n_bytes if n_bytes >= 0 else _CHUNK)


def _unpack(stream: IO[bytes], folder: Path) -> None:
    """Unpack the files of a zip; whatever the library says of a damaged one becomes one refusal."""
    try:
        with ZipFile(cast("IO[bytes]", _ShortReads(stream))) as packed:
            files = _checked(packed.infolist())
            folder.mkdir()
            room = LARGEST_ZIP
            for info, name in files:
                room -= _copied(packed, info, folder / name, min(room, LARGEST_FILE))
    except (CongenialError, MemoryError):
        raise
    except OSError as refused:
        raise BundleError(f"the zip cannot be unpacked: {reason_of(refused)}") from None
    except Exception as damage:  # noqa: BLE001  zipfile and zlib raise many kinds on bytes that are no zip
        raise BundleError(
            f"this is no zip, or a damaged one ({type(damage).__name__}); pack the folder of the bundle again"
        ) from None


def _checked(files: list[ZipInfo]) -> list[tuple[ZipInfo, str]]:
    """Return the files of a zip with their names in the bundle's folder."""
    plain = [info for info in files if not info.is_dir()]
    if len(plain) > MOST_FILES:
        raise BundleError(f"the zip holds {len(plain):,} files, and no bundle has more than {MOST_FILES}")
    if sum(info.file_size for info in plain) > LARGEST_ZIP:
        raise BundleError(f"the zip unpacks to more than {LARGEST_ZIP:,} bytes; unpack it, and open its folder instead")
    homes = {info.filename.rpartition("/")[0] for info in plain}
    if len(homes) > 1:
        raise BundleError("the zip holds several folders; pack the folder of one bundle")
    named: list[tuple[ZipInfo, str]] = []
    for info in plain:
        home, _, name = info.filename.rpartition("/")
        kind = stat.S_IFMT(info.external_attr >> 16)
        is_plain = _NAME.fullmatch(name) and (_NAME.fullmatch(home) or info.filename == name)
        is_odd = not is_plain or kind not in (0, stat.S_IFREG)
        if info.flag_bits & _ENCRYPTED or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise BundleError(
                f"{info.filename[:80]!r} is encrypted or packed in a way that is not read here; pack the bundle again,"
                " stored or deflated and without a password"
            )
        if is_odd or name in {other for _, other in named}:
            raise BundleError(f"the zip holds a file named {info.filename[:80]!r}, which no bundle has")
        named.append((info, name))
    if MANIFEST not in {name for _, name in named}:
        raise BundleError(f"the zip holds no {MANIFEST}; it is not one of a bundle")
    return named


def _copied(packed: ZipFile, info: ZipInfo, place: Path, most: int) -> int:
    """Unpack one file, counting what comes out: what a zip says of its sizes need not be true."""
    n_bytes = 0
    with packed.open(info) as source, place.open("xb") as out:
        while chunk := source.read(_CHUNK):
            n_bytes += len(chunk)
            if n_bytes > most:
                raise BundleError(f"{info.filename[:80]!r} unpacks to more than it may; this is no bundle")
            out.write(chunk)
    return n_bytes


def _state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what tells whether files of a folder were changed."""
    if not folder.is_dir():
        return ()
    entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    states = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    return tuple((name, state.st_mtime_ns, state.st_size) for name, state in states)


# Levels of a bundle: one of areas, several of a tree.


def levels_of(bundle: Bundle) -> dict[str, int]:
    """Return the levels with the number of their units, the top first; nothing for one table.

    Then the areas that cross a tree.
    """
    is_one = bundle.law.areas.name is None and len(bundle.tree.levels) == 1
    return {} if is_one else {name: len(codes) for name, codes in bundle.law.names_and_codes}


# Answers of a bundle: cached while its files stay; of many areas together what is known at once comes first.

_MOST_UNITS_TOGETHER = 50

SEED = 1
"""The same question has the same answer, whoever asks it again."""

LEVELS = ("0.5", "0.8", "0.9", "0.95", "0.99")
DRAWS, DRAWS_OF_AREAS = 4_000, 400  # of sixty areas together, a minute; poor draws are said to be so
_MAX_ANSWERS = 32
_MOST_CODES = 500

Result = TypeVar("Result")
AreasDraws = tuple[AreasPosterior, tuple[str, ...]]
"""Draws of all areas, and the warnings of drawing them."""

DrawsRequest = tuple[PublicLaw, Ints, int, Ints | None]
"""What they are drawn from: the law, tables, how many draws, and measurements if there are any."""


@dataclass(frozen=True)
class Question:
    """A query of a bundle and the level of its interval; of which area or units, less which others.

    Attributes
    ----------
    area : str
        Of a list of areas; none is all of them.
    units, minus : str
        Of a tree: codes with commas between them.
    prior : str
        Of a measured release: nothing, and its measurements answer at once; or the usual prior, and there is an
        estimate under it as well.
    """

    query: str
    level: str
    area: str = ""
    units: str = ""
    minus: str = ""
    prior: str = ""

    @classmethod
    def of(cls, fields: Any) -> "Question":
        """Read the fields of a form, an address or a page's message."""
        usual = {"query": "all", "level": "0.9", "area": "", "units": "", "minus": "", "prior": ""}
        question = cls(**{name: str(fields.get(name) or value).strip() for name, value in usual.items()})
        if question.level not in LEVELS:
            raise InferenceError(f"a level is one of {', '.join(LEVELS)}")
        if question.prior not in {"", DEFAULT_PRIOR}:
            raise InferenceError(f"the prior here is {DEFAULT_PRIOR}; congenial infer knows others")
        return question

    def n_draws(self, bundle: Bundle) -> int:
        """Return how many draws are made."""
        return DRAWS if len(bundle.law.areas) == 1 else DRAWS_OF_AREAS

    def prior_of(self, bundle: Bundle) -> str | None:
        """Return the prior that is named: none where measurements answer."""
        return (self.prior or None) if bundle.law.is_measured else DEFAULT_PRIOR

    def spans_areas(self, bundle: Bundle) -> bool:
        """Whether it asks for numbers of several areas together."""
        return not self.area and bool(parse_query(self.query, bundle.law.schema, bundle.law.areas)[0].areas)

    def check_units(self, bundle: Bundle | WorkloadBundle) -> None:
        """Refuse a question about units that cannot be answered, before anything is drawn."""
        if isinstance(bundle, WorkloadBundle) or len(bundle.tree.levels) == 1:
            raise InferenceError("the bundle has no tree of areas; ask it as one table or a list of areas")
        tree, codes = bundle.tree, [*_codes(self.units), *_codes(self.minus)]
        if not self.units:
            raise InferenceError("name a unit by its code, or several with commas between them")
        if len(codes) > _MOST_CODES:
            raise InferenceError(f"name up to {_MOST_CODES} units here; from Python there can be any number")
        for code in codes:
            if not any(tree.places_of_code(level, code).size for level in range(len(tree.levels))):
                raise InferenceError(f"{code!r} is no unit of the tree; the levels below list their codes")
        parse_query(self.query, bundle.law.schema)

    def interval(self, estimate: TreeEstimate) -> Estimate:
        """Return the interval for its units; the page says how good its draws are."""
        with catch_warnings():
            simplefilter("ignore", PoorDrawsWarning)
            minus = _codes(self.minus) or None
            return estimate.interval(_codes(self.units), self.query, float(self.level), minus=minus)


def _codes(text: str) -> list[str]:
    return [code.strip() for code in text.split(",") if code.strip()]


@dataclass
class AnswerCache:
    """Answers questions, and keeps answers and the draws of all areas or units together, which take longest.

    Attributes
    ----------
    key_of : function
        From a bundle's name to what tells it from another, and from itself with other files.
    """

    key_of: Callable[[str], object]
    _replies: dict[object, Replies] = field(default_factory=dict)
    _draws: dict[object, AreasDraws] = field(default_factory=dict)
    _estimates: dict[object, tuple[TreeEstimate, tuple[str, ...]]] = field(default_factory=dict)
    _of_tables: dict[object, AnalystWorkloadBundle] = field(default_factory=dict)

    def of_tables(self, name: str, verified: Verified) -> AnalystWorkloadBundle | None:
        """Return a bundle of several tables of the same records with its estimates; None of another one."""
        if not isinstance(verified.bundle, WorkloadBundle):
            return None
        key = self.key_of(name)
        if key not in self._of_tables:
            evict(self._of_tables, _MOST_KEPT)
            self._of_tables[key] = AnalystWorkloadBundle.of(verified.bundle)
        return self._of_tables[key]

    def table_answers(self, name: str, bundles: OpenBundles, question: Question) -> list[TableAnswer] | None:
        """Answer a question of several tables of the same records; None of another bundle."""
        bundle = self.of_tables(name, bundles.opened(name))
        return None if bundle is None else answers_of(bundle, question.query, question.level)

    def at_once(self, verified: Verified, question: Question) -> list[ErrorInterval]:
        """Return intervals of numbers that span areas, by the law of the noise around the released tables.

        Approximate: the tables that are drawn around are the released ones, and not what is likely given them.
        """
        bundle = _bundle_in_question(verified, question)
        if bundle.law.is_measured or not question.spans_areas(bundle):
            return []  # what measurements say is exact, and at once
        prior, counts = prior_of(bundle.law.schema, DEFAULT_PRIOR), bundle.counts
        around = AreasPosterior(bundle.law, counts, prior, counts[None, None].astype(np.int32), 1.0)
        statistics = parse_query(question.query, bundle.law.schema, bundle.law.areas)
        return error_intervals_across(around, statistics, float(question.level), replay_rng(f"infer {SEED}"))

    def missing(self, name: str, verified: Verified, question: Question) -> DrawsRequest | None:
        """Return what `draw_areas` needs before a question can be answered; None where nothing is to be drawn."""
        bundle, key = _bundle_in_question(verified, question), self.key_of(name)
        is_there = (key, question) in self._replies or key in self._draws
        if is_there or question.area or len(bundle.law.areas) == 1 or question.prior_of(bundle) is None:
            return None
        queries = ([question.query], []) if question.spans_areas(bundle) else ([], [question.query])
        if known_answers(bundle, *queries, list(bundle.law.areas.labels), float(question.level)) is not None:
            return None
        return bundle.law, start_of_draws(bundle), question.n_draws(bundle), bundle.measurements

    def keep(self, name: str, draws: AreasDraws) -> None:
        """Keep the draws of all areas of a bundle, for its further questions."""
        self._draws.clear()  # those of one bundle are large
        self._draws[self.key_of(name)] = draws

    def answers(self, name: str, verified: Verified, question: Question) -> Replies:
        """Answer a question, from a public seed: what `congenial infer --seed 1` says."""
        bundle, key = _bundle_in_question(verified, question), self.key_of(name)
        if (key, question) not in self._replies:
            evict(self._replies, _MAX_ANSWERS)
            self._replies[key, question] = self._answer(bundle, question, key)
        return self._replies[key, question]

    def _answer(self, bundle: AnalystBundle, question: Question, key: object) -> Replies:
        areas = [question.area] if question.area else []
        together, warnings = (None, ()) if areas else self._draws.get(key, (None, ()))
        replies = ask(
            bundle,
            [question.query],
            areas,
            level=float(question.level),
            prior=question.prior_of(bundle),
            n_draws=question.n_draws(bundle),
            together=together,
            rng=replay_rng(f"infer {SEED}"),
        )
        return replace(replies, posteriors=(), warnings=(*warnings, *replies.warnings))

    def estimate(self, name: str) -> tuple[TreeEstimate | None, tuple[str, ...]]:
        """Return the estimate of a tree's units with its warnings, if it was computed and the files have stayed."""
        return self._estimates.get(self.key_of(name), (None, ()))

    def compute_estimate(self, name: str, bundle: Bundle, job: BackgroundJob) -> None:
        """Estimate every unit of a tree from a public seed, as `congenial estimate --seed 1` does."""
        if self.estimate(name)[0] is not None:
            return
        job.progress("estimating every unit")
        rng = replay_rng(f"estimate {SEED}")
        estimate, warnings = _with_warnings(lambda: AnalystBundle.of(bundle).estimate(rng=rng, progress=job.progress))
        misfits = [f"THE PRIOR DOES NOT FIT: {check}" for check in estimate.draws.fit if check.is_bad]
        self._estimates.clear()  # that of one bundle is large
        self._estimates[self.key_of(name)] = estimate, tuple(dict.fromkeys([*warnings, *misfits]))


def draw_areas(law: PublicLaw, released: Ints, n_draws: int, measurements: Ints | None = None) -> AreasDraws:
    """Draw the tables of all areas together, with the warnings of doing so. In a process of its own."""
    rng = replay_rng(f"infer {SEED}")
    return _with_warnings(
        lambda: areas_posterior(law, released, measurements=measurements, prior=DEFAULT_PRIOR, n_draws=n_draws, rng=rng)
    )


def _with_warnings(function: Callable[[], Result]) -> tuple[Result, tuple[str, ...]]:
    """Return what a function returns, and the texts of its warnings."""
    with catch_warnings(record=True) as caught:
        simplefilter("always")
        result = function()
    return result, tuple(str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))


def _bundle_in_question(verified: Verified, question: Question) -> AnalystBundle:
    """Return one table or areas to ask: of a measured tree, the units of a level, of which one is named if many."""
    if isinstance(verified.bundle, WorkloadBundle):
        raise InferenceError("several tables of the same records answer at once, on the page of their bundle")
    bundle, levels = AnalystBundle.of(verified.bundle), levels_of(verified.bundle)
    if len(levels) < 2:
        return bundle
    if not bundle.law.is_measured:
        raise InferenceError("a tree of areas is asked by its units; open its page again")
    level = question.units or next(iter(levels))
    units = bundle.units(level)
    if not question.area and levels[level] > _MOST_UNITS_TOGETHER and not question.spans_areas(units):
        raise InferenceError(f"{level} has {levels[level]:,} units: name one by its code, or add up with `over areas`")
    return units

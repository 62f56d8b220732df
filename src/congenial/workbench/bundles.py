"""Bundles that are open: folders of the workbench's own, and those that were dropped as a zip or made up here."""

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import IO, Any, cast
from warnings import catch_warnings, simplefilter
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.files import MANIFEST
from congenial.bundle.recompute import VerifiedBundle
from congenial.bundle.verify import Verified, verify_bundle
from congenial.errors import BundleError, CongenialError, InferenceError, reason_of
from congenial.inference.answers import SMOOTH, Replies, ask, error_intervals_across, known_answers
from congenial.inference.areas_posterior import AreasPosterior, areas_posterior
from congenial.inference.bundle import Bundle
from congenial.inference.error_law import ErrorInterval
from congenial.inference.priors import prior_of
from congenial.inference.questions import parse_query
from congenial.law import PublicLaw
from congenial.randomness import replay_rng
from congenial.workbench.desk import Desk, forget_some

_HERE = "opened:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MOST_FILES, LARGEST_FILE, LARGEST_ZIP = 40, 100_000_000, 200_000_000
_MOST_KEPT = 6
_CHUNK = 1 << 20
_ENCRYPTED = 1 | 1 << 6 | 1 << 13  # bits of a file's flags: encrypted, strongly, and its list as well


@dataclass
class Opened:
    """Bundles by name; each is verified once as long as its files stay."""

    desk: Desk
    _numbers: "count[int]" = field(default_factory=lambda: count(1))
    _found: dict[object, "Verified | str"] = field(default_factory=dict)

    def folder(self, name: str) -> Path:
        """Return the folder of a bundle."""
        if name.startswith(_HERE):
            own = name.removeprefix(_HERE)
            folder = self.desk.scratch / own
            if not re.fullmatch(r"[0-9]+-[A-Za-z0-9._-]+", own) or not folder.is_dir():
                raise BundleError("this bundle is not open any more; open it again")
            return folder
        return self.desk.path(name, "bundle")

    def new_place(self, title: str) -> tuple[str, Path]:
        """Return the name and the folder, not there yet, of a bundle that is made or dropped."""
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", title).strip("-.")[:60] or "bundle"
        own = f"{next(self._numbers)}-{plain}"
        return _HERE + own, self.desk.scratch / own

    def key(self, name: str) -> tuple[object, ...]:
        """Return what tells a bundle from another one, and from itself with other files."""
        return (name, _state(self.folder(name)))

    def verified(self, name: str) -> "Verified | str":
        """Return a bundle that was verified, or what is wrong with it. In the computing thread."""
        folder, key = self.folder(name), self.key(name)
        if key not in self._found:
            forget_some(self._found, _MOST_KEPT)
            try:
                self._found[key] = verify_bundle(folder)
            except CongenialError as refused:
                self._found[key] = str(refused)
        return self._found[key]

    def unpack(self, stream: IO[bytes], title: str) -> str:
        """Unpack a zip of a bundle into a new folder; damaged ones, odd names, links and sizes are refused."""
        name, folder = self.new_place(title.removesuffix(".zip"))
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
            left = LARGEST_ZIP
            for info, own in files:
                left -= _copied(packed, info, folder / own, min(left, LARGEST_FILE))
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
    found: list[tuple[ZipInfo, str]] = []
    for info in plain:
        home, _, own = info.filename.rpartition("/")
        kind = stat.S_IFMT(info.external_attr >> 16)
        is_plain = _NAME.fullmatch(own) and (_NAME.fullmatch(home) or info.filename == own)
        is_odd = not is_plain or kind not in (0, stat.S_IFREG)
        if info.flag_bits & _ENCRYPTED or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise BundleError(
                f"{info.filename[:80]!r} is encrypted or packed in a way that is not read here; pack the bundle again,"
                " stored or deflated and without a password"
            )
        if is_odd or own in {name for _, name in found}:
            raise BundleError(f"the zip holds a file named {info.filename[:80]!r}, which no bundle has")
        found.append((info, own))
    if MANIFEST not in {own for _, own in found}:
        raise BundleError(f"the zip holds no {MANIFEST}; it is not one of a bundle")
    return found


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
    return tuple((name, own.st_mtime_ns, own.st_size) for name, own in states)


# Answers of a bundle: kept while its files stay; of many areas together what is known at once comes first.

SEED = 1
"""The same question has the same answer, whoever asks it again."""

LEVELS = ("0.5", "0.8", "0.9", "0.95", "0.99")
DRAWS, DRAWS_OF_AREAS = 4_000, 400  # of sixty areas together, a minute; poor draws are said to be so
_MAX_ANSWERS = 32

Together = tuple[AreasPosterior, tuple[str, ...]]
"""Draws of all areas, and what has to be said of them."""


@dataclass(frozen=True)
class Question:
    """A query of a bundle, the level of its interval, and of which area; none is all of them."""

    query: str
    level: str
    area: str = ""

    @classmethod
    def of(cls, said: Any) -> "Question":
        """Read what a page sends."""
        found = cls(*(str(said.get(name) or "") for name in ("query", "level", "area")))
        if found.level not in LEVELS:
            raise InferenceError(f"a level is one of {', '.join(LEVELS)}")
        return found

    def n_draws(self, bundle: VerifiedBundle) -> int:
        """Return how many draws are made."""
        return DRAWS if len(bundle.tables) == 1 else DRAWS_OF_AREAS

    def spans_areas(self, bundle: VerifiedBundle) -> bool:
        """Whether it asks for numbers of several areas together."""
        return not self.area and bool(parse_query(self.query, bundle.law.schema, bundle.law.areas)[0].areas)


@dataclass
class Answering:
    """Answers questions, and keeps answers and the draws of all areas together, which take longest.

    Attributes
    ----------
    key_of : function
        From a bundle's name to what tells it from another, and from itself with other files.
    """

    key_of: Callable[[str], object]
    _replies: dict[object, Replies] = field(default_factory=dict)
    _together: dict[object, Together] = field(default_factory=dict)

    def at_once(self, verified: Verified, asked: Question) -> list[ErrorInterval]:
        """Return intervals of numbers that span areas, by the law of the noise around the released tables.

        Approximate: the tables that are drawn around are the released ones, and not what is likely given them.
        """
        bundle = _one_table_or_areas(verified)
        if not asked.spans_areas(bundle):
            return []
        released = _released(bundle)
        prior = prior_of(bundle.law.schema, SMOOTH)
        around = AreasPosterior(bundle.law, released, prior, released[None, None].astype(np.int32), 1.0)
        statistics = parse_query(asked.query, bundle.law.schema, bundle.law.areas)
        return error_intervals_across(around, statistics, float(asked.level), replay_rng(f"infer {SEED}"))

    def missing(self, name: str, verified: Verified, asked: Question) -> tuple[PublicLaw, Ints, int] | None:
        """Return what `draw_together` needs before a question can be answered; None where nothing is to be drawn."""
        bundle, key = _one_table_or_areas(verified), self.key_of(name)
        is_there = (key, asked) in self._replies or key in self._together
        if is_there or asked.area or len(bundle.tables) == 1:
            return None
        spans_areas = asked.spans_areas(bundle)
        queries = ([asked.query], []) if spans_areas else ([], [asked.query])
        if known_answers(bundle, *queries, list(bundle.tables), float(asked.level)) is not None:
            return None
        return bundle.law, _released(bundle), asked.n_draws(bundle)

    def keep(self, name: str, together: Together) -> None:
        """Keep the draws of all areas of a bundle, for its further questions."""
        self._together.clear()  # those of one bundle are large
        self._together[self.key_of(name)] = together

    def answers(self, name: str, verified: Verified, asked: Question) -> Replies:
        """Answer a question, from a public seed: what `congenial infer --seed 1` says."""
        bundle, key = _one_table_or_areas(verified), self.key_of(name)
        if (key, asked) not in self._replies:
            forget_some(self._replies, _MAX_ANSWERS)
            self._replies[key, asked] = self._asked(bundle, asked, key)
        return self._replies[key, asked]

    def _asked(self, bundle: Bundle, asked: Question, key: object) -> Replies:
        areas = [asked.area] if asked.area else []
        together, said = (None, ()) if areas else self._together.get(key, (None, ()))
        found = ask(
            bundle,
            [asked.query],
            areas,
            level=float(asked.level),
            n_draws=asked.n_draws(bundle),
            together=together,
            rng=replay_rng(f"infer {SEED}"),
        )
        return replace(found, posteriors=(), warnings=(*said, *found.warnings))


def draw_together(law: PublicLaw, released: Ints, n_draws: int) -> Together:
    """Draw the tables of all areas together, with the warnings of doing so. In a process of its own."""
    rng = replay_rng(f"infer {SEED}")
    with catch_warnings(record=True) as heard:
        simplefilter("always")
        found = areas_posterior(law, released, prior=SMOOTH, n_draws=n_draws, rng=rng)
    said = [str(one.message) for one in heard if issubclass(one.category, UserWarning)]
    return found, tuple(said)


def _released(bundle: VerifiedBundle) -> Ints:
    return np.stack([np.asarray(bundle.released(area), np.int64) for area in bundle.law.areas.labels])


def _one_table_or_areas(verified: Verified) -> Bundle:
    if verified.bundle.law.steps:
        raise InferenceError("a tree of areas is asked by its units; open its page again")
    return Bundle.of(verified.bundle)

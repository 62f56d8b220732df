"""The secret key of one release: on disk from before the charge until the release is handed over.

All noise of a release follows from its key and its data. Whoever has both can draw the same tables again, which is how
a release that was stopped after its charge is gone on with; whoever has the key and a release can test guesses of the
data. So the key lies in a file of its owner's alone, appears nowhere else, and is destroyed as soon as it is not
needed. A file that was destroyed may still be on the medium: deletion is not erasure.
"""

import errno
import fcntl
import hashlib
import hmac
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from shlex import quote

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import Codes
from congenial.conditions.areas_and_bounds import Area
from congenial.disk_and_gzip import flush, flush_folder
from congenial.errors import LedgerBusyError, LedgerError, reason_of
from congenial.memory_and_threads import parts_of
from congenial.randomness import SecretBytes, TreeStreams, UnitStarts, UnitStreams, secret_bytes, with_length

_BYTES = 32
_LARGEST = 1 << 20  # bytes of a key's file: far more than names and paths take
_OTHERS = 0o077
_ELSEWHERE = "name another folder for keys, --keys or the environment variable CONGENIAL_KEYS"


@dataclass(frozen=True, repr=False, eq=False)
class ReleaseKey:
    """32 secret bytes, and what is derived from them. Confidential."""

    secret: SecretBytes = field(default_factory=lambda: secret_bytes(_BYTES))

    def _derived(self, purpose: str, *parts: bytes, size: int = _BYTES) -> SecretBytes:
        """Return a keyed hash of parts, each with its length before it, of which no two purposes share one."""
        return SecretBytes(self._keyed_hash(purpose, parts, size).digest())

    def _keyed_hash(self, purpose: str, parts: Sequence[bytes], size: int) -> "hashlib.blake2b":
        digest = hashlib.blake2b(key=self.secret, digest_size=size, person=purpose.encode())
        for part in parts:
            digest.update(with_length(part))
        return digest

    def streams(self, release: str, plan_digest: str, areas: Sequence[Area], counts: Ints) -> UnitStreams:
        """Return the random words of every area.

        An area's words depend on the release, the plan, the area's label and its own confidential counts, and on
        nothing else: not on the order of areas, nor on which others there are. Other counts never meet the same noise.
        """
        starts = _Starts(self._keyed_hash("unit", [release.encode(), plan_digest.encode()], size=16), areas, counts)
        return UnitStreams(self._derived("words"), starts)

    def measurement_streams(self, release: str, plan_digest: str, table: str) -> "MeasurementStreams":
        """Return the random words of every unit of every level of one table of a measured release."""
        parts = [text.encode() for text in (release, plan_digest, table)]

        def begun(level: str) -> "hashlib.blake2b":
            return self._keyed_hash("measured unit", [*parts, level.encode()], size=16)

        return MeasurementStreams(self._derived("measured words"), begun)

    def tree_streams(self, release: str, plan_digest: str) -> TreeStreams:
        """Return the random words of every unit of a tree, which depend on nothing else but the unit itself."""
        return TreeStreams(self._derived("tree"), [release, plan_digest])

    @property
    def commitment(self) -> str:
        """A public number that only this key has, and that tells nothing of it: the ledger keeps it with the spend."""
        return self._derived("commitment").hex()

    def seal(self, facts: Mapping[str, object], counts: Ints) -> str:
        """Return a keyed hash of public facts and of the confidential tables: it tells whether anything has changed."""
        text = json.dumps(facts, sort_keys=True).encode()
        digest = self._keyed_hash("seal", [text, str(counts.shape).encode()], _BYTES)
        digest.update((8 * counts.size).to_bytes(8, "little"))
        for part in parts_of(len(counts)):  # some lines at a time: a copy of all is as large as they are
            digest.update(np.ascontiguousarray(counts[part], "<i8").data)
        return digest.hexdigest()

    def __getstate__(self) -> object:
        raise TypeError("the key of a release cannot be copied or sent to another process")

    def __repr__(self) -> str:
        return "ReleaseKey(secret)"


class MeasurementStreams:
    """The random words of the units of all levels of a measured release. Confidential.

    The noise does not depend on the counts, so words that met other counts would publish their difference: a unit's
    words depend on its own counts too, and on table and level, so that a unit and its only part share none.
    """

    def __init__(self, key: SecretBytes, begun: Callable[[str], "hashlib.blake2b"]) -> None:
        self._key, self._begun = key, begun

    def of_level(self, level: str, codes: Sequence[Area] | Codes, counts: Ints) -> UnitStreams:
        """Return the words of the units of a level, given their codes and confidential tables (unit, cell)."""
        return UnitStreams(self._key, _Starts(self._begun(level), codes, counts))

    def __getstate__(self) -> object:
        raise TypeError("the random words of a release cannot be copied or sent to another process")

    def __repr__(self) -> str:
        return "MeasurementStreams(secret)"


class _Starts(UnitStarts):
    """Those of areas: a keyed hash of the area's label and counts."""

    def __init__(self, begun: "hashlib.blake2b", areas: Sequence[Area] | Codes, counts: Ints) -> None:
        self._keyed_hash, self._areas, self._counts = begun, areas, counts

    def __len__(self) -> int:
        return len(self._areas)

    def subset(self, places: Sequence[int] | NDArray[np.int64]) -> list[bytes]:
        """Return those of some areas, whose counts are taken out of the tables at once."""
        lines = np.ascontiguousarray(self._counts[places], "<i8").view(np.uint8).reshape(len(places), -1)
        size, begun, areas = lines.shape[1].to_bytes(8, "little"), self._keyed_hash, self._areas
        chosen = areas[places].tolist() if isinstance(areas, np.ndarray) else [areas[place] for place in places]
        out = []
        for area, line in zip(chosen, lines, strict=True):
            state = begun.copy()
            label = area if isinstance(area, bytes) else (area or "").encode()
            state.update(with_length(label) + size + line.tobytes())
            out.append(state.digest())
        return out


@dataclass(frozen=True, repr=False)
class KeyFile:
    """The key of a release that is under way, in its file, which nobody else has open.

    Attributes
    ----------
    key : ReleaseKey or None
        None if the file holds no whole key: it was not written to its end, and nothing was charged, or it was not
        removed to its end, and the release was handed over.
    terms : mapping
        What the release was begun with, such as the folder of its bundle.
    is_remainder : bool
        Whether it was not written, or not destroyed, to its end. A file without a key that is no remainder is damaged.
    """

    path: Path
    key: ReleaseKey | None
    terms: Mapping[str, str]
    _seal: str
    _file: FileIO
    is_remainder: bool = False

    def is_sealed_for(self, facts: Mapping[str, object], counts: Ints) -> bool:
        """Return whether these are the facts and tables that the release was begun with."""
        if self.key is None:
            return False
        return hmac.compare_digest(self._seal, self.key.seal({**facts, "terms": dict(self.terms)}, counts))

    def destroy(self) -> None:
        """Overwrite the key, and remove the file."""
        handle = self._file.fileno()
        os.pwrite(handle, bytes(os.fstat(handle).st_size), 0)
        flush(handle)
        if _has_name(self._file, self.path):  # another run may have put its own key there
            self.path.unlink(missing_ok=True)
        flush_folder(self.path.parent)

    def close(self) -> None:
        """Let others open the file; the key stays in it, unless it was destroyed."""
        self._file.close()

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"


@dataclass(frozen=True)
class KeyFolder:
    """Where the keys of releases that are under way lie, each in a file of its own.

    Attributes
    ----------
    account : str
        The hash of the dataset's creation: the keys of two ledgers in one folder do not meet.
    """

    folder: Path
    account: str

    def begin(
        self,
        key: ReleaseKey,
        dataset: str,
        release: str,
        terms: Mapping[str, str],
        facts: Mapping[str, object],
        counts: Ints,
    ) -> KeyFile:
        """Write the key of a new release to disk; refuses where there is one already."""
        path, seal = self._path(dataset, release), key.seal({**facts, "terms": dict(terms)}, counts)
        text = SecretBytes(
            json.dumps(
                {"dataset": dataset, "release": release, "terms": dict(terms), "seal": seal, "key": key.secret.hex()}
            ).encode()
        )
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._check_private()
            file = _opened(path, "x+")  # from here on nobody else has it
            try:
                os.fchmod(file.fileno(), 0o600)
                if not _has_name(
                    file, path
                ):  # before it was locked, another run took it for a remainder and removed it
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                if file.write(text) != len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                flush(file.fileno())
                flush_folder(self.folder)
                flush_folder(self.folder.absolute().parent)
            except BaseException:
                if _has_name(file, path):
                    path.unlink(missing_ok=True)
                file.close()
                raise
        except OSError as refused:
            raise LedgerError(
                f"the key of the release cannot be written to {self.folder}: {reason_of(refused)}. Nothing was charged;"
                f" {_ELSEWHERE}"
            ) from None
        return KeyFile(path, key, terms, seal, file)

    def find(self, dataset: str, release: str) -> KeyFile | None:
        """Return the key of a release that was begun and not finished; None if there is none."""
        path = self._path(dataset, release)
        if not self.folder.is_dir():
            return None
        try:
            self._check_private()
            file = _opened(path, "r+")
        except FileNotFoundError:
            return None
        except BlockingIOError:
            raise LedgerBusyError(
                f"release {release!r} of dataset {dataset!r} is under way in another process; wait until it has ended"
            ) from None
        except OSError as refused:
            raise LedgerError(f"the key of the release cannot be read from {path}: {reason_of(refused)}") from None
        try:
            pending = _read(path, file)
        except BaseException:
            file.close()
            raise
        if pending is None:
            file.close()
        return pending

    def _check_private(self) -> None:
        """Refuse a folder in which others could read names, or put files in place of keys."""
        status = self.folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
            raise LedgerError(
                f"the folder for keys {self.folder} belongs to user {status.st_uid} and has mode"
                f" {stat.S_IMODE(status.st_mode):o}, and it must be yours alone, of user {os.geteuid()} with mode 700."
                f" Make it so, chmod 700 {quote(str(self.folder))}, or {_ELSEWHERE}"
            )

    def _path(self, dataset: str, release: str) -> Path:
        name = hashlib.sha256(f"{self.account}\0{dataset}\0{release}".encode()).hexdigest()
        return self.folder / f"{name[:40]}.key"


def _opened(path: Path, mode: str) -> FileIO:
    """Open a key's file, no link to one, and keep others from it."""
    file = FileIO(path, mode, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file


def _has_name(file: FileIO, path: Path) -> bool:
    """Return whether a path still names the file that is open."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _read(path: Path, file: FileIO) -> KeyFile | None:
    """Read a key; None if its file was removed at this moment, and refuses what no release has written."""
    status = os.fstat(file.fileno())
    if not status.st_nlink:
        return None
    is_file, me = stat.S_ISREG(status.st_mode), os.geteuid()
    if not is_file or status.st_nlink > 1 or status.st_uid != me or status.st_size > _LARGEST:
        raise LedgerError(
            f"{path} is no key that a release has written: it is {'a' if is_file else 'no ordinary'} file of user"
            f" {status.st_uid} with {status.st_nlink} names and {status.st_size:,} bytes, and a key is one of user {me}"
            f" with 1 name and at most {_LARGEST:,} bytes. Find out who put it there, and move it away"
        )
    text = SecretBytes(os.pread(file.fileno(), status.st_size, 0))
    key, terms, seal = _parsed(text)
    # Cut short before its charge, or overwritten after the bundle; what was written to its end and cannot be read is
    # damaged, and may be the key of a release that is paid for.
    is_remainder = key is None and (not text.endswith(b"}") or text.startswith(b"\0"))
    return KeyFile(path, key, terms, seal, file, is_remainder)


def _parsed(text: SecretBytes) -> tuple[ReleaseKey | None, dict[str, str], str]:
    """Return the key, the terms and the seal that a key's file holds; no key if the file is not whole."""
    try:
        content = json.loads(text)
        secret = SecretBytes.fromhex(content.pop("key"))  # a traceback would show it in the content
        terms = {str(name): str(value) for name, value in content["terms"].items()}
        seal = str(content["seal"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        secret = SecretBytes()
    if len(secret) != _BYTES:  # half written, before any charge, or half destroyed, after the bundle: no key either way
        return None, {}, ""
    return ReleaseKey(secret), terms, seal


def key_in(text: SecretBytes) -> ReleaseKey | None:
    """Return the key in the content of a key's file; None if it holds no whole key."""
    return _parsed(text)[0]


def key_without_charge(path: Path, ledger: str, dataset: str, release: str) -> str:
    """Say what is known of a key whose charge a ledger does not hold: only the ledger that holds it ends it."""
    return (
        f"release {release!r} of dataset {dataset!r} was not charged to {ledger}, but its key is there, {path}."
        " Either the run that wrote the key ended before its charge, or this ledger is an older copy of the one that"
        " was charged. Nothing was changed, and the key stays. If there is a newer ledger, name that one, --ledger. If"
        " this is the newest, nothing was charged: remove the key's file, and begin the release again, without --resume"
    )

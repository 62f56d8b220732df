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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from congenial.arrays import Ints
from congenial.conditions.areas import Area
from congenial.disk import flush_folder
from congenial.errors import LedgerBusyError, LedgerError, reason_of
from congenial.randomness import UnitStreams, secret_bytes

_BYTES = 32


@dataclass(frozen=True, repr=False, eq=False)
class ReleaseKey:
    """32 secret bytes, and what is derived from them. Confidential."""

    secret: bytes = field(default_factory=lambda: secret_bytes(_BYTES))

    def _derived(self, purpose: str, *parts: bytes, size: int = _BYTES) -> bytes:
        """Return a keyed hash of parts, each with its length before it, of which no two purposes share one."""
        made = hashlib.blake2b(key=self.secret, digest_size=size, person=purpose.encode())
        for part in parts:
            made.update(len(part).to_bytes(8, "little"))
            made.update(part)
        return made.digest()

    def streams(self, release: str, plan_digest: str, areas: Sequence[Area], counts: Ints) -> UnitStreams:
        """Return the random words of every area.

        An area's words depend on the release, the plan, the area's label and its own confidential counts, and on
        nothing else: not on the order of areas, nor on which others there are. Other counts never meet the same noise.
        """
        public = [release.encode(), plan_digest.encode()]
        starts = [
            self._derived("unit", *public, (area or "").encode(), line.astype("<i8").tobytes(), size=16)
            for area, line in zip(areas, counts, strict=True)
        ]
        return UnitStreams(self._derived("words"), starts)

    @property
    def commitment(self) -> str:
        """A public number that only this key has, and that tells nothing of it: the ledger keeps it with the spend."""
        return self._derived("commitment").hex()

    def seal(self, facts: Mapping[str, object], counts: Ints) -> str:
        """Return a keyed hash of public facts and of the confidential tables: it tells whether anything has changed."""
        text = json.dumps(facts, sort_keys=True).encode()
        return self._derived("seal", text, str(counts.shape).encode(), counts.astype("<i8").tobytes()).hex()

    def __getstate__(self) -> object:
        raise TypeError("the key of a release cannot be copied or sent to another process")

    def __repr__(self) -> str:
        return "ReleaseKey(secret)"


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
    """

    path: Path
    key: ReleaseKey | None
    terms: Mapping[str, str]
    _seal: str
    _handle: int

    def is_sealed_for(self, facts: Mapping[str, object], counts: Ints) -> bool:
        """Return whether these are the facts and tables that the release was begun with."""
        if self.key is None:
            return False
        return hmac.compare_digest(self._seal, self.key.seal({**facts, "terms": dict(self.terms)}, counts))

    def destroy(self) -> None:
        """Overwrite the key, and remove the file."""
        os.pwrite(self._handle, bytes(os.fstat(self._handle).st_size), 0)
        os.fsync(self._handle)
        self.path.unlink(missing_ok=True)
        with suppress(FileNotFoundError):  # another run has removed the empty folder
            flush_folder(self.path.parent)
        with suppress(OSError):  # another release is under way
            self.path.parent.rmdir()

    def close(self) -> None:
        """Let others open the file; the key stays in it, unless it was destroyed."""
        os.close(self._handle)

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
        path, handle, is_locked = self._path(dataset, release), -1, False
        seal = key.seal({**facts, "terms": dict(terms)}, counts)
        content = {"dataset": dataset, "release": release, "terms": dict(terms), "seal": seal, "key": key.secret.hex()}
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(handle, 0o600)
            is_locked = True
            text = json.dumps(content).encode()
            if os.write(handle, text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(handle)
            flush_folder(self.folder)
            flush_folder(self.folder.absolute().parent)
        except OSError as refused:
            if is_locked:  # otherwise another run has it, or has removed it already
                path.unlink(missing_ok=True)
            if handle >= 0:
                os.close(handle)
            raise LedgerError(
                f"the key of the release cannot be written to {self.folder}: {reason_of(refused)}. Nothing was charged;"
                " name another folder for keys, --keys or the environment variable CONGENIAL_KEYS"
            ) from None
        return KeyFile(path, key, terms, seal, handle)

    def find(self, dataset: str, release: str) -> KeyFile | None:
        """Return the key of a release that was begun and not finished; None if there is none."""
        path = self._path(dataset, release)
        try:
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as refused:
            raise LedgerError(f"the key of the release cannot be read from {path}: {reason_of(refused)}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise LedgerBusyError(
                f"release {release!r} of dataset {dataset!r} is under way in another process; wait until it has ended"
            ) from None
        if not path.exists() or path.stat().st_ino != os.fstat(handle).st_ino:  # finished at this moment
            os.close(handle)
            return None
        return _read(path, handle)

    def _path(self, dataset: str, release: str) -> Path:
        name = hashlib.sha256(f"{self.account}\0{dataset}\0{release}".encode()).hexdigest()
        return self.folder / f"{name[:40]}.key"


def _read(path: Path, handle: int) -> KeyFile:
    try:
        content = json.loads(os.pread(handle, os.fstat(handle).st_size, 0))
        secret = bytes.fromhex(content["key"])
        terms = {str(name): str(value) for name, value in content["terms"].items()}
        found = KeyFile(path, ReleaseKey(secret), terms, str(content["seal"]), handle)
    except (ValueError, TypeError, KeyError, AttributeError):
        secret = b""
    if len(secret) != _BYTES:  # half written, before any charge, or half destroyed, after the bundle: no key either way
        return KeyFile(path, None, {}, "", handle)
    return found

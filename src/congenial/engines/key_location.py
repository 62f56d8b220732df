"""Where the machines that draw find the key of a release. Public: it says where the key is, not what it is.

The key does not travel with the work. Every task fetches it from a file, or from a command that the operator names,
sees by the public commitment that it is the right one, and forgets it when it ends.
"""

import os
import shlex
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from congenial.disk_and_gzip import disable_core_dumps
from congenial.errors import EngineError, reason_of
from congenial.randomness import SecretBytes
from congenial.release_key import ReleaseKey, key_in

_LARGEST = 1 << 20
_SECONDS = 60  # that a command may take
NAME = "{name}"
"""What stands for the key's name in a command."""


@dataclass(frozen=True)
class KeyLocation:
    """How a machine gets at the content of a key's file.

    Attributes
    ----------
    folder : str or None
        The folder of keys, as that machine sees it.
    command : str or None
        A command that prints the content, with ``{name}`` for the name of the key's file; no shell is involved.

    Examples
    --------
    >>> KeyLocation(command="ssh keys.example cat /srv/keys/{name}").text
    'the command `ssh keys.example cat /srv/keys/{name}`'
    """

    folder: str | None = None
    command: str | None = None

    def __post_init__(self) -> None:
        if (self.folder is None) == (self.command is None):
            raise EngineError("a key is found in a folder or by a command: name one of them")
        if self.command is not None and NAME not in self.command:
            raise EngineError(
                f"the command for keys is {self.command!r}, and does not say where the key's name goes: write {NAME}"
                " there, such as `ssh keys.example cat /srv/keys/{name}`"
            )

    @property
    def text(self) -> str:
        """The place in words."""
        return f"the folder {self.folder}" if self.command is None else f"the command `{self.command}`"

    def content(self, name: str) -> SecretBytes:
        """Return the content of a key's file. Confidential."""
        disable_core_dumps()
        if self.command is not None:
            return _printed(self.command, name)
        path = Path(self.folder or "") / name
        try:
            with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                    raise EngineError(
                        f"the key {path} on {os.uname().nodename} is a file of user {status.st_uid} with mode"
                        f" {stat.S_IMODE(status.st_mode):o}, and a key is one of user {os.geteuid()} with mode 600"
                    )
                return SecretBytes(file.read(_LARGEST))
        except OSError as refused:
            raise EngineError(
                f"the key {path} cannot be read on {os.uname().nodename}: {reason_of(refused)}. Keep keys in a folder"
                " that every machine sees, or name a command that prints them: --key-command"
            ) from None

    def key(self, name: str, commitment: str) -> ReleaseKey:
        """Return the key of a release, the one that its spend was made for."""
        key = key_in(self.content(name))
        if key is None or key.commitment != commitment:
            raise EngineError(
                f"{self.text} has no key {name} of this release on {os.uname().nodename}; it must give the keys of the"
                " folder that the release was begun with, --keys"
            )
        return key


def _printed(command: str, name: str) -> SecretBytes:
    arguments = [word.replace(NAME, name) for word in shlex.split(command)]
    try:
        run = subprocess.run(arguments, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603  the operator's own
    except (OSError, subprocess.SubprocessError) as failed:
        reason = reason_of(failed) if isinstance(failed, OSError) else f"it took more than {_SECONDS} seconds"
        raise EngineError(f"the command for keys, `{command}`, failed on {os.uname().nodename}: {reason}") from None
    if run.returncode:
        raise EngineError(
            f"the command for keys, `{command}`, ended with status {run.returncode} on {os.uname().nodename}"
        )
    return SecretBytes(run.stdout[:_LARGEST])

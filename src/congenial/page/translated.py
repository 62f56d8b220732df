"""Templates that were translated into Python are kept beside Python's own translations: it takes 0.1 s of each page."""

import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from jinja2.bccache import Bucket, FileSystemBytecodeCache

from congenial.versions import version_of


class Translated(FileSystemBytecodeCache):
    """Translated templates, for one state of the code that says how they are translated.

    Parameters
    ----------
    code : Path
        The file that sets Jinja up for them.
    """

    def __init__(self, code: Path) -> None:
        state = sha256(version_of("jinja2").encode() + code.read_bytes()).hexdigest()[:16]
        super().__init__(str(code.parent / "__pycache__"), f"template-{state}-%s.cache")

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a translation, where Python keeps its own."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)

"""Templates that were translated into Python are kept beside Python's own translations: it takes 0.1 s of each page."""

import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from pickle import UnpicklingError

from jinja2.bccache import Bucket, FileSystemBytecodeCache

from congenial import plain_text
from congenial.versions import version_of


class Translated(FileSystemBytecodeCache):
    """Translated templates, for one state of the code that says how they are translated.

    Parameters
    ----------
    code : Path
        The file that sets Jinja up for them.
    """

    def __init__(self, code: Path) -> None:
        decides = [version_of("jinja2").encode(), code.read_bytes(), Path(plain_text.__file__).read_bytes()]
        state = sha256(b"".join(sha256(one).digest() for one in decides)).hexdigest()[:16]
        super().__init__(str(code.parent / "__pycache__"), f"template-{state}-%s.cache")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take a translation up, unless it was cut short."""
        with suppress(OSError, EOFError, ValueError, TypeError, UnpicklingError):
            return super().load_bytecode(bucket)
        return bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a translation, where Python keeps its own."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)

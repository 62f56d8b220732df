"""Where machines find the key: a private file, or what a command prints; and nothing else will do."""

from pathlib import Path

import numpy as np
import pytest

from congenial.engines.key_location import KeyLocation
from congenial.errors import EngineError
from congenial.release_key import KeyFile, KeyFolder, ReleaseKey


@pytest.fixture
def begun(tmp_path: Path) -> KeyFile:
    keys = KeyFolder(tmp_path / "keys", "account")
    return keys.begin(ReleaseKey(), "people", "r", {}, {}, np.zeros((1, 2), np.int64))


def test_a_folder_or_a_command_gives_the_key(begun: KeyFile) -> None:
    assert begun.key is not None
    folder = begun.path.parent
    for place in (KeyLocation(folder=str(folder)), KeyLocation(command=f"cat '{folder}/{{name}}'")):
        key = place.key(begun.path.name, begun.key.commitment)
        assert key.secret == begun.key.secret
        assert begun.key.secret.hex() not in repr((place, key, place.content(begun.path.name)))
        with pytest.raises(EngineError, match="has no key"):
            place.key(begun.path.name, ReleaseKey().commitment)
    begun.close()


def test_what_is_no_private_file_is_refused(begun: KeyFile) -> None:
    begun.close()
    place, name = KeyLocation(folder=str(begun.path.parent)), begun.path.name
    with pytest.raises(EngineError, match="cannot be read"):
        place.content("another.key")
    (begun.path.parent / "link.key").symlink_to(begun.path)
    with pytest.raises(EngineError, match="cannot be read"):
        place.content("link.key")
    begun.path.chmod(0o640)
    with pytest.raises(EngineError, match="mode 640"):
        place.content(name)


def test_a_command_that_fails_says_so_and_shows_nothing() -> None:
    for command, message in (
        ("false {name}", "status 1"),
        ("/no/such/command {name}", "no such file"),
    ):
        with pytest.raises(EngineError, match=message):
            KeyLocation(command=command).content("a.key")
    with pytest.raises(EngineError, match="where the key's name goes"):
        KeyLocation(command="cat keys")
    with pytest.raises(EngineError, match="name one of them"):
        KeyLocation()

"""Files that are no ledgers, cannot be used or are taken, and what SQLite itself refuses."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from congenial.errors import LedgerBusyError, LedgerError, UncertainError
from congenial.ledger import open_ledger
from congenial.ledger.store import Book, UnsafePlaceWarning
from ledgers import ledger_with, request


def test_a_missing_file_is_not_made_by_looking(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"does not exist; create it first"):
        open_ledger(tmp_path / "budget.db")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_went_away_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = ledger_with(path, epsilon="1")
    path.unlink()
    with pytest.raises(LedgerError, match="cannot be opened"):
        ledger.charge(request())
    assert list(tmp_path.iterdir()) == []


def test_folders(tmp_path: Path) -> None:
    for create in (False, True):
        with pytest.raises(LedgerError, match="is a folder"):
            open_ledger(tmp_path, create=create)
    with pytest.raises(LedgerError, match="no such file or directory"):
        open_ledger(tmp_path / "missing" / "budget.db", create=True)
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match=r"cannot be created or opened|does not exist"):
        open_ledger(tmp_path / "file" / "budget.db", create=True)
    with pytest.raises(LedgerError, match="no ordinary file"):
        open_ledger("/dev/null", create=True)
    with pytest.raises(LedgerError, match="cannot be created or opened"):
        open_ledger(tmp_path / ("x" * 300), create=True)


def test_an_empty_file_is_an_empty_ledger_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    path.touch(mode=0o600)
    with pytest.raises(LedgerError, match="not a ledger yet"):
        open_ledger(path)
    assert ledger_with(path, epsilon="1").verify().n_spends == 0


@pytest.mark.parametrize("create", [False, True])
def test_files_of_something_else(tmp_path: Path, create: bool) -> None:
    text = tmp_path / "table.csv"
    text.write_text("sex,age,count\n" * 100)
    with pytest.raises(LedgerError, match="no SQLite database"):
        open_ledger(text, create=create)
    assert text.read_text() == "sex,age,count\n" * 100
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE people (name TEXT)")
    connection.commit()
    connection.close()
    before = other.read_bytes()
    with pytest.raises(LedgerError, match="is not a ledger"):
        open_ledger(other, create=create)
    assert other.read_bytes() == before


@pytest.mark.parametrize("create", [False, True])
def test_a_newer_version(tmp_path: Path, create: bool) -> None:
    path = tmp_path / "budget.db"
    ledger_with(path, epsilon="1")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE congenial_ledger_version SET version_num = 'v9999'")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="newer congenial"):
        open_ledger(path, create=create)


def test_damaged_files(tmp_path: Path) -> None:
    """Every page of the file overwritten in turn: an error of ours, never a traceback of SQLite."""
    path = tmp_path / "budget.db"
    ledger = ledger_with(path, epsilon="100")
    for number in range(30):
        ledger.charge(request(f"release {number}", invariants=(("x" * 300, number),)))
    whole = path.read_bytes()
    for start in range(0, len(whole), 4096):
        path.write_bytes(whole[:start] + b"\xa5" * 4096 + whole[start + 4096 :])
        with pytest.raises(LedgerError):
            open_ledger(path).verify()
    path.write_bytes(whole[:6000])
    with pytest.raises(LedgerError):
        open_ledger(path).verify()
    path.write_bytes(whole)
    assert open_ledger(path).verify().n_spends == 30


def test_missing_tables(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = ledger_with(path, epsilon="1")
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE congenial_spends")
    connection.close()
    for work in (ledger.verify, lambda: ledger.charge(request()), lambda: ledger.status("county")):
        with pytest.raises(LedgerError, match="may be damaged"):
            work()


def test_locked(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger_with(path, epsilon="1")
    ledger = open_ledger(path, patience=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerBusyError, match=r"for more than 0.05 seconds; .*; nothing was written"):
        ledger.charge(request())
    assert ledger.status("county").n_spends == 0  # reading goes on
    other.execute("ROLLBACK")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerBusyError):
        ledger.status("county")
    with pytest.raises(LedgerBusyError):
        open_ledger(path, create=True, patience=0.05)
    other.close()
    ledger.charge(request())


def test_a_reader_in_the_way_of_a_commit(tmp_path: Path) -> None:
    """Whoever reads for long keeps a commit from finishing; the message then says to look."""
    path = tmp_path / "budget.db"
    ledger_with(path, epsilon="1")
    ledger = open_ledger(path, patience=0.05)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM congenial_datasets").fetchall()
    with pytest.raises(UncertainError, match=r"locked by another.*not known whether the last record was written"):
        ledger.charge(request())
    reader.close()
    assert ledger.verify().n_spends == 0
    ledger.charge(request())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE congenial_spends SET loss = '0'",
        "DELETE FROM congenial_spends",
        "UPDATE congenial_datasets SET cap = '9'",
        "DELETE FROM congenial_datasets",
        "INSERT OR REPLACE INTO congenial_spends SELECT * FROM congenial_spends",
        "INSERT OR REPLACE INTO congenial_datasets SELECT * FROM congenial_datasets",
        "INSERT OR REPLACE INTO congenial_datasets (name, folded, neighbours, currency, cap, who, at, software, hash)"
        " SELECT 'COUNTY', folded, neighbours, currency, '9', who, at, software, hash FROM congenial_datasets",
        "UPDATE OR REPLACE congenial_spends SET number = number + 1",
    ],
)
def test_append_only(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "budget.db"
    ledger = ledger_with(path, epsilon="1")
    ledger.charge(request())
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()
    assert ledger.verify().n_spends == 1


def test_durable_settings(tmp_path: Path) -> None:
    """Read back from a connection of the ledger's own."""
    ledger = ledger_with(tmp_path / "budget.db", epsilon="1")

    def pragma(name: str) -> object:
        return ledger._store.read(lambda book: book.connection.rows(f"PRAGMA {name}"))[0][0]

    assert (pragma("synchronous"), pragma("journal_mode"), pragma("foreign_keys")) == (3, "delete", 1)


def test_no_connection_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after a charge, a refusal, an interrupt or a file that is none."""
    ledger = ledger_with(tmp_path / "budget.db", epsilon="9")
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def kept(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    def interrupted(book: Book) -> None:
        book.connection.execute("CREATE TABLE something (x TEXT)")
        raise KeyboardInterrupt

    monkeypatch.setattr(sqlite3, "connect", kept)
    ledger.charge(request())
    with pytest.raises(LedgerError):
        ledger.charge(request())
    with pytest.raises(KeyboardInterrupt):
        ledger._store.write(interrupted)
    (tmp_path / "other.db").write_text("no database\n" * 100)
    with pytest.raises(LedgerError):
        open_ledger(tmp_path / "other.db")
    assert len(opened) == 4
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
    assert not ledger._store.read(lambda book: ledger._store.backend.has_table(book.connection, "something"))


def test_values_that_no_text_is_made_of(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, in a name that is read to be compared: an error of ours."""
    path = tmp_path / "budget.db"
    ledger = ledger_with(path, epsilon="9")
    ledger.charge(request())
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER congenial_spends_no_update")
    connection.execute("UPDATE congenial_spends SET release = CAST(x'ff00fe' AS TEXT)")
    connection.commit()
    connection.close()
    for work in (ledger.verify, lambda: ledger.charge(request("other")), lambda: ledger.status("county")):
        with pytest.raises(LedgerError, match="SQLite reports an error; it may be damaged"):
            work()


def test_a_ledger_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger_with(path, epsilon="1").charge(request())
    assert [one.name for one in tmp_path.iterdir()] == ["budget.db"]
    shutil.copy(path, tmp_path / "copy.db")
    assert open_ledger(tmp_path / "copy.db").verify() == open_ledger(path).verify()


@pytest.fixture(params=[0o000, 0o022, 0o277])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_ledger_and_its_journal_are_their_owners_alone(tmp_path: Path) -> None:
    ledger = ledger_with(tmp_path / "budget.db", epsilon="1")

    def modes_while_writing(book: Book) -> dict[str, int]:
        book.connection.execute("CREATE TABLE something (x TEXT)")
        return {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}

    assert ledger._store.write(modes_while_writing) == {"budget.db": 0o600, "budget.db-journal": 0o600}


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "budget.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(LedgerError, match="cannot be opened"):
        open_ledger(tmp_path / "budget.db", create=True)
    assert not (tmp_path / "elsewhere.db").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_ledger_that_others_can_read_is_warned_about_and_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "the budget.db"
    ledger_with(path, epsilon="1")
    path.chmod(mode)
    with pytest.warns(UnsafePlaceWarning, match=rf"its mode is {mode:o}\..*chmod 600 '.*the budget\.db'") as caught:
        ledger = open_ledger(path)
    assert ledger.charge(request()).number == 1
    assert path.stat().st_mode & 0o777 == mode  # nobody's rights are changed behind their back
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name]


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700, 0o711])
def test_a_ledger_of_one_owner_is_not_warned_about(tmp_path: Path, mode: int) -> None:
    ledger_with(tmp_path / "budget.db", epsilon="1")
    (tmp_path / "budget.db").chmod(mode)
    open_ledger(tmp_path / "budget.db")  # a warning is an error here


CHARGE = """
import sys
sys.path.insert(0, {tests!r})
from ledgers import request, certificate
from congenial.errors import LedgerError
from congenial.ledger import open_ledger
try:
    ledger = open_ledger({path!r}, create={create}, patience=0.1)
    print("read", ledger.status("county").n_spends)
    for number in range({most}):
        ledger.charge(request(str(number), certificate("0"), invariants=(("x" * 9000, number),)))
except LedgerError as error:
    print(type(error).__name__, error)
print("verified", open_ledger({path!r}).verify().n_spends if {verify} else "")
"""


def charged_on_mount(folder: Path, mount: str, *, create: bool = False, verify: bool = True, most: int = 1) -> str:
    """Charge a ledger in another process, on a folder that a mount of that process alone makes read-only or small.

    Modes of files are no test where the tests run as root, who may write everything.
    """
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare, to mount a folder that is read-only or small")
    path = str(folder / "budget.db")
    code = CHARGE.format(tests=str(Path(__file__).parents[1]), path=path, create=create, verify=verify, most=most)
    command = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$0" -c "$1"', sys.executable, code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_read_only_folder(tmp_path: Path) -> None:
    ledger_with(tmp_path / "budget.db", epsilon="1")
    message = charged_on_mount(tmp_path, f"mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path}")
    assert message.startswith("read 0\nLedgerError the ledger")
    assert "read-only" in message
    assert "nothing was written" in message
    assert "verified 0" in message


def test_creating_in_a_read_only_folder(tmp_path: Path) -> None:
    mount = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path}"
    message = charged_on_mount(tmp_path, mount, create=True, verify=False)
    assert "read-only file system" in message


def test_disk_full(tmp_path: Path) -> None:
    """The charge that does not fit is refused, and what was recorded before still verifies."""
    ledger_with(tmp_path / "budget.db", epsilon="1")
    copy = tmp_path.with_name("copy-of-ledger.db")
    shutil.move(tmp_path / "budget.db", copy)
    mount = f"mount -t tmpfs -o size=256k none {tmp_path} && cp {copy} {tmp_path}/budget.db"
    message = charged_on_mount(tmp_path, mount, most=100)
    assert "UncertainError" in message
    assert "full" in message
    count = int(message.split("verified ")[1])
    assert 0 < count < 50

"""Where a ledger is, and that no error repeats a password."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from congenial.errors import LedgerError
from congenial.ledger import open_ledger
from congenial.ledger.address import FileAddress, ServerAddress, read_address
from ledgers import SECRET, codes_as_texts


@pytest.mark.parametrize(
    "given_place",
    ["budget.db", "./budget.db", "sqlite:///budget.db", Path("budget.db")],
)
def test_files_relative(given_place: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    address = read_address(given_place)
    assert address == FileAddress(tmp_path / "budget.db")
    open_ledger(given_place, create=True)
    assert (tmp_path / "budget.db").is_file()


def test_files_absolute(tmp_path: Path) -> None:
    path = tmp_path / "a folder with 100% #odd? names" / "budget.db"
    path.parent.mkdir()
    for place in (path, str(path)):
        assert open_ledger(place, create=True).datasets() == ()
    assert read_address(f"sqlite:///{tmp_path}/budget.db") == FileAddress(tmp_path / "budget.db")
    assert list(path.parent.iterdir()) == [path]


def test_home_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_address("~/budget.db") == FileAddress(tmp_path / "budget.db")
    with pytest.raises(LedgerError, match="not known"):
        read_address("~nobody-of-that-name/budget.db")


def test_the_environment_is_read_when_nothing_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONGENIAL_LEDGER", str(tmp_path / "budget.db"))
    assert read_address() == FileAddress(tmp_path / "budget.db")
    for nothing in (None, ""):
        monkeypatch.setenv("CONGENIAL_LEDGER", "") if nothing == "" else monkeypatch.delenv("CONGENIAL_LEDGER")
        with pytest.raises(LedgerError, match="CONGENIAL_LEDGER"):
            read_address()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_servers(scheme: str) -> None:
    address = read_address(f"{scheme}://ada:{SECRET}@db.example:5433/budgets?sslmode=require&password={SECRET}")
    assert isinstance(address, ServerAddress)
    message = {"host": "db.example", "port": "5433", "dbname": "budgets", "user": "ada", "password": SECRET}
    assert address.parameters == message | {"sslmode": "require"}
    assert address.place == "the ledger in PostgreSQL database 'budgets' on db.example"
    assert SECRET not in repr(address) + address.place
    assert "ada" not in repr(address) + address.place


@pytest.mark.parametrize(
    ("rest", "parameters"),
    [
        ("/budgets", {"dbname": "budgets"}),
        ("ada:@host/budgets", {"host": "host", "dbname": "budgets", "user": "ada"}),
        ("a%40b:%3A%2F+%25@host/b", {"host": "host", "dbname": "b", "user": "a@b", "password": ":/+%"}),
        ("ada:7/x?y#z@host:1/b", {"host": "host", "port": "1", "dbname": "b", "user": "ada", "password": "7/x?y#z"}),
        ("ada@/b?host=/tmp%20x&user=&port=7", {"host": "/tmp x", "port": "7", "dbname": "b", "user": "ada"}),
        ("[::1]/b?host=a,b&port=1,2", {"host": "a,b", "port": "1,2", "dbname": "b"}),
        ("host/b?application_name=x@y", {"host": "host", "dbname": "b", "application_name": "x@y"}),
    ],
)
def test_what_a_server_is_told(rest: str, parameters: dict[str, str]) -> None:
    """A password may hold all but an @; options come last, and what is empty is not said."""
    address = read_address(f"postgresql://{rest}")
    assert isinstance(address, ServerAddress)
    assert address.parameters == parameters


def test_hosts_by_number() -> None:
    assert read_address(f"postgresql://ada:{SECRET}@[::1]:5433/budgets").place.endswith("'budgets' on ::1")
    assert read_address(f"postgresql://ada:{SECRET}@127.0.0.1/budgets").place.endswith("on 127.0.0.1")


UNREADABLE = [
    "",
    ":memory:",
    "sqlite://",
    "sqlite:///",
    "sqlite:///:memory:",
    "sqlite:///a.db?mode=memory",
    "a\0b",
    "mysql://ada:Xyzzy@host/db",
    "Postgresql://ada:Xyzzy@host/db",
    "://",
    "oracle://Xyzzy",
    "Xyzzy://a",
    "postgresql://",
    "postgresql://host",
    "postgresql://ada:Xyzzy@host",
    "postgresql://ada:Xyzzy@host/",
    "postgresql://ada:Xyz@Xyzzy@host/db",
    "postgresql://ada:Xyzzy@ho st/db",
    "postgresql://ada:Xyzzy@host/d b",
    "postgresql://ada:Xyzzy@host:port/db",
    "postgresql://ad/a:Xyzzy@host/db",
    "postgresql://a:b@c:Xyzzy/d",
    "postgresql://ada:x@Xyzzy?y@host/db",
    "postgresql://ada:Xyzzy@host:1:2/db",
    "postgresql://[::1/Xyzzy@",
    "postgresql://ada:5432/Xyzzy?x@ho:st/db",
    "postgresql://ada:5432/Xyzzy?x@host:123456/db",
    "postgresql://ada:5432/Xyzzy?x@[::1]:y",
    "postgresql://ada:Xyzzy@[::1]x/db",
    "postgresql://ada:Xyz%00zy@host/db",
    "postgresql://ada:Xyzzy@host:/db",
    "postgresql://ada:Xyzzy@host/db?sslmode=require\n",
    "postgresql://ada@host/db?password=Xyz&password=Xyzzy",
    "postgresql:/ada:Xyzzy@host/db",
    "postgresql//ada:Xyzzy@host/db",
    "ada:Xyzzy@host/db",
    "sqlite:budget.db",
    "host=db password=Xyzzy",
    "PASSWORD = Xyzzy",
    "postgres+psycopg:ada:Xyzzy@host",
]


@pytest.mark.parametrize(
    "place",
    [*UNREADABLE, 7, b"budget.db", True, ["budget.db"], 1.5],
)
def test_what_cannot_be_read_is_refused_without_repeating_it(place: Any) -> None:
    with pytest.raises(LedgerError) as caught:
        read_address(place)
    assert SECRET not in codes_as_texts(caught.value)


@given(st.text(st.sampled_from("Zz@:/?#%&=[]. "), min_size=1, max_size=12).map(lambda rest: f"{SECRET}{rest}{SECRET}"))
def test_no_badly_written_password_is_ever_shown(password: str) -> None:
    """Whatever a password with unescaped characters is taken for, no part of it comes out."""
    try:
        address = read_address(f"postgresql://ada:{password}@host/db")
        shown = address.place + repr(address)
    except LedgerError as error:
        shown = codes_as_texts(error)
    assert SECRET not in shown


def test_the_driver_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerError, match=r"pip install 'congenial\[postgresql\]'") as caught:
        open_ledger(f"postgresql://ada:{SECRET}@host/db")
    assert SECRET not in codes_as_texts(caught.value)

"""A real server: rights, locks, broken connections, and no password in any of the errors."""

import logging
from collections.abc import Callable, Iterator

import pytest

from congenial.errors import CongenialError, LedgerError
from congenial.ledger import Ledger, open_ledger
from congenial.ledger.store import Book
from ledgers import SECRET, Server, codes_as_texts, ledger_with, request


@pytest.fixture
def database(server: Server) -> str:
    name: str = server.new_database()
    return name


@pytest.fixture
def curator(server: Server, database: str) -> Iterator[str]:
    """The URL of a role with a password, which may read and insert and nothing more."""
    name = f"curator_{database}"
    ledger_with(server.url(database), epsilon="9")
    server.run(
        f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'",
        f"GRANT SELECT, INSERT ON congenial_datasets, congenial_spends, congenial_withdrawals TO {name}",
        f"GRANT SELECT ON congenial_ledger_version TO {name}",
        database=database,
    )
    rules = server.folder / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all {name} scram-sha-256\n{before}")
    server.reload()
    yield server.url(database, name, SECRET)
    rules.write_text(before)
    server.reload()
    server.run(f"ALTER DATABASE {database} RESET ALL")
    server.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}", database=database)


def refusal(work: Callable[[], object], caplog: pytest.LogCaptureFixture) -> str:
    """Return what an error says, after a look for the password in everything that it and the logs can print."""
    with caplog.at_level(logging.DEBUG), pytest.raises(CongenialError) as caught:
        work()
    assert SECRET not in codes_as_texts(caught.value) + caplog.text
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None  # what the driver said is not even behind it
    assert isinstance(caught.value, LedgerError)
    return str(caught.value)


def test_reading_and_inserting_are_rights_enough(curator: str) -> None:
    ledger = open_ledger(curator)
    assert ledger.charge(request()).number == 1
    ledger.create_dataset("other", rho="1", neighbours="bounded", who="Ada")
    assert ledger.verify().n_spends == 1
    assert SECRET not in repr(ledger) + repr(ledger._store) + str(vars(ledger)) + repr(ledger._store.backend)


def test_wrong_password(curator: str, caplog: pytest.LogCaptureFixture) -> None:
    for wrong in (curator.replace(SECRET, f"{SECRET}2"), curator.replace(f":{SECRET}@", "@")):
        assert "refuses the user or the password" in refusal(lambda url=wrong: open_ledger(url), caplog)  # type: ignore[misc]


def test_wrong_user_and_database(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    url = server.url("postgres", "nobody_of_that_name", SECRET)
    assert "refuses the user" in refusal(lambda: open_ledger(url), caplog)
    url = server.url("no_such_database", "postgres", SECRET)
    assert "'no_such_database' on a local socket does not exist" in refusal(lambda: open_ledger(url), caplog)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{SECRET}@127.0.0.1:1/budgets",
        f"postgresql://ada:{SECRET}@/budgets?host=/nowhere",
        f"postgresql://ada:{SECRET}@no-such-host.invalid/budgets",
        f"postgresql://ada@127.0.0.1:1/budgets?password={SECRET}",
        f"postgresql://ada:{SECRET}@127.0.0.1:1/budgets?nonsense={SECRET}",
        f"postgresql://ada:{SECRET}@127.0.0.1:1/budgets?connect_timeout={SECRET}",
        f"postgresql://ada:{SECRET}@127.0.0.1:99999/budgets",
        f"postgresql://ada:{SECRET}@127.0.0.1:1/budgets?sslmode={SECRET}",
    ],
)
@pytest.mark.parametrize("create", [False, True])
def test_server_down(url: str, create: bool, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("psycopg", reason="needs the extra postgresql")
    assert "cannot be reached" in refusal(lambda: open_ledger(url, create=create, patience=2), caplog)


def test_missing_rights(server: Server, database: str, curator: str, caplog: pytest.LogCaptureFixture) -> None:
    ledger = open_ledger(curator)
    server.run(f"REVOKE INSERT ON congenial_spends FROM curator_{database}", database=database)
    message = refusal(lambda: ledger.charge(request()), caplog)
    assert "grant SELECT and INSERT" in message
    assert message.endswith("nothing was written")
    server.run(f"REVOKE SELECT ON congenial_spends FROM curator_{database}", database=database)
    assert "grant SELECT and INSERT" in refusal(lambda: ledger.status("county"), caplog)


@pytest.mark.usefixtures("curator")
def test_creating_without_the_right(server: Server, database: str, caplog: pytest.LogCaptureFixture) -> None:
    other = server.new_database()
    url = server.url(other, f"curator_{database}", SECRET)
    assert "is not a ledger yet" in refusal(lambda: open_ledger(url), caplog)
    assert "CREATE to create it" in refusal(lambda: open_ledger(url, create=True), caplog)


def test_locked(server: Server, database: str, curator: str, caplog: pytest.LogCaptureFixture) -> None:
    import psycopg

    ledger = open_ledger(curator, patience=0.2)
    with psycopg.connect(host=server.socket, user="postgres", dbname=database) as other:
        other.execute(f"SELECT pg_advisory_lock({0x636F6E67656E6961})".encode())
        message = refusal(lambda: ledger.charge(request()), caplog)
        assert "locked by another program, for more than 0.2 seconds" in message
        assert message.endswith("nothing was written")
        assert ledger.status("county").n_spends == 0  # reading goes on
    assert open_ledger(curator).charge(request()).number == 1  # the other is gone when the server notices


def test_read_only_server(server: Server, database: str, curator: str, caplog: pytest.LogCaptureFixture) -> None:
    server.run(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    assert "the server is read-only" in refusal(lambda: open_ledger(curator).charge(request()), caplog)


def ask(ledger: Ledger, question: str) -> object:
    return ledger._store.write(lambda book: book.connection.rows(question))[0][0]


def test_settings_of_the_server_do_not_weaken_a_charge(server: Server, database: str) -> None:
    ledger = ledger_with(server.url(database), epsilon="9")
    server.run(
        f"ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'",
        f"ALTER DATABASE {database} SET synchronous_commit = off",
    )
    assert ask(ledger, "SHOW transaction_isolation") == "read committed"
    assert ask(ledger, "SHOW synchronous_commit") == "on"
    server.run(f"ALTER DATABASE {database} SET synchronous_commit = remote_apply")
    assert ask(ledger, "SHOW synchronous_commit") == "remote_apply"  # stronger ones stay


@pytest.mark.parametrize("option", ["autocommit=true", "prepare_threshold=0", "cursor_factory=x"])
def test_options_of_a_url_are_those_of_postgresql(
    server: Server, database: str, option: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of the driver could have each statement committed by itself."""
    ledger_with(server.url(database), epsilon="9")
    assert "cannot be reached" in refusal(lambda: open_ledger(f"{server.url(database)}&{option}"), caplog)
    assert open_ledger(f"{server.url(database)}&application_name=a+name").verify().n_spends == 0


def test_no_connection_stays(server: Server, database: str) -> None:
    """Not after a charge, a refusal or an interrupt; and what was begun is undone before the connection is closed."""
    ledger = ledger_with(server.url(database), epsilon="9")
    names = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'"
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"

    def interrupted(book: Book) -> None:
        assert server.run(names) == [(1,)]
        assert server.run(locks) == [(1,)]
        raise KeyboardInterrupt

    ledger.charge(request())
    with pytest.raises(LedgerError):
        ledger.charge(request())
    with pytest.raises(KeyboardInterrupt):
        ledger._store.write(interrupted)
    assert server.run(locks) == [(0,)]
    while server.run(names) != [(0,)]:  # a server takes a moment to let go
        pass


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE congenial_spends SET loss = '0'",
        "DELETE FROM congenial_spends",
        "TRUNCATE congenial_spends CASCADE",
        "UPDATE congenial_datasets SET cap = '99'",
        "DELETE FROM congenial_datasets",
        "TRUNCATE congenial_datasets CASCADE",
        "INSERT INTO congenial_spends SELECT * FROM congenial_spends"
        " ON CONFLICT (dataset, number) DO UPDATE SET loss = '0'",
    ],
)
def test_append_only(server: Server, database: str, statement: str) -> None:
    import psycopg

    ledger = ledger_with(server.url(database), epsilon="9")
    ledger.charge(request())
    with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        server.run(statement, database=database)
    assert ledger.verify().n_spends == 1


def test_a_connection_that_breaks(server: Server, database: str, caplog: pytest.LogCaptureFixture) -> None:
    ledger = ledger_with(server.url(database), epsilon="9")
    stop = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"

    def work(book: object) -> None:
        server.run(stop)
        book.names()  # type: ignore[attr-defined]

    assert refusal(lambda: ledger._store.write(work), caplog).endswith("nothing was written")
    message = refusal(lambda: ledger._store.write(lambda _: server.run(stop)), caplog)
    assert "it is not known whether the last record was written" in message


def test_missing_tables(server: Server, database: str, caplog: pytest.LogCaptureFixture) -> None:
    ledger = ledger_with(server.url(database), epsilon="9")
    server.run("DROP TABLE congenial_spends CASCADE", database=database)
    assert "a table of it is missing" in refusal(lambda: ledger.charge(request()), caplog)


def test_a_database_may_hold_other_tables(server: Server, database: str) -> None:
    server.run("CREATE TABLE datasets (name TEXT)", "CREATE TABLE alembic_version (x TEXT)", database=database)
    ledger_with(server.url(database), epsilon="9").charge(request())
    assert open_ledger(server.url(database)).verify().n_spends == 1


@pytest.mark.parametrize("create", [False, True])
def test_a_newer_version(server: Server, database: str, create: bool) -> None:
    ledger_with(server.url(database), epsilon="9")
    server.run("UPDATE congenial_ledger_version SET version_num = 'v9999'", database=database)
    with pytest.raises(LedgerError, match="newer congenial"):
        open_ledger(server.url(database), create=create)

"""Signals while something must be finished: the first is held, what others have set up stays."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from congenial.progress_and_interrupts import hold_first_interrupt

HELD = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


class Reached(Exception):  # noqa: N818
    pass


def reached(*_: object) -> None:
    raise Reached


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.signal(number, reached) for number in HELD}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", HELD)
def test_the_first_is_held_and_the_reason_is_said_when_it_is_true(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    with hold_first_interrupt() as tell:
        send(number)
        assert capfd.readouterr().err == ""
        tell("because")
        assert capfd.readouterr().err == "\nbecause\n"
    with hold_first_interrupt() as tell:
        tell("because")
        assert capfd.readouterr().err == ""
        send(number)
        assert capfd.readouterr().err == "\nbecause\n"
    with pytest.raises(Reached):
        send(number)


def test_a_second_one_interrupts_unless_the_terminal_is_gone() -> None:
    for first in HELD:
        with hold_first_interrupt():
            send(first)
            send(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                send(signal.SIGTERM)
        assert [signal.getsignal(number) for number in HELD] == [reached] * 3


@pytest.mark.parametrize("number", HELD)
def test_what_is_ignored_stays_ignored(number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    """As by nohup, or in the background of a shell."""
    signal.signal(number, signal.SIG_IGN)
    with hold_first_interrupt() as tell:
        tell("because")
        send(number)
        send(number)
        assert signal.getsignal(number) == signal.SIG_IGN
    assert signal.getsignal(number) == signal.SIG_IGN
    assert capfd.readouterr().err == ""


def test_a_handler_that_is_not_pythons_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python knows of it that it is there, and could not put it back."""
    known = signal.getsignal
    monkeypatch.setattr("signal.getsignal", lambda number: None if number == signal.SIGTERM else known(number))
    with hold_first_interrupt():
        assert known(signal.SIGTERM) is reached
        assert known(signal.SIGINT) is not reached
    assert [known(number) for number in HELD] == [reached] * 3


def test_other_threads_change_nothing() -> None:
    found: list[object] = []

    def work() -> None:
        with hold_first_interrupt() as tell:
            tell("because")
            found.extend(signal.getsignal(number) for number in HELD)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [reached] * 3

"""The command line: each command parses, makes one library call, and prints."""

import click

from congenial.cli.check import check
from congenial.cli.compare import compare
from congenial.cli.demo import demo
from congenial.cli.estimate import estimate
from congenial.cli.infer import infer
from congenial.cli.init import init
from congenial.cli.keygen import keygen
from congenial.cli.ledger import ledger
from congenial.cli.output import Commands
from congenial.cli.plan import plan
from congenial.cli.release import release
from congenial.cli.reproduce import reproduce
from congenial.cli.show import show
from congenial.cli.simulate import simulate
from congenial.cli.study import study
from congenial.cli.verify import verify
from congenial.cli.withdraw import withdraw
from congenial.cli.workbench import workbench


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="congenial")
def main() -> None:
    """Publish tables under differential privacy with some numbers exact.

    \b
    A curator's way:   init, check, plan, ledger create, release; later withdraw
    An analyst's way:  verify, show, infer, estimate
    In a browser:      workbench
    To study:          simulate, compare, study coverage, reproduce, demo

    Exit codes: 0 done, 1 refused (the message says why), 2 wrong command line, 130 interrupted.
    """  # noqa: D301  click wants the backspace character itself


for command in (
    init,
    check,
    plan,
    release,
    withdraw,
    verify,
    show,
    infer,
    estimate,
    ledger,
    keygen,
    simulate,
    compare,
    study,
    reproduce,
    demo,
    workbench,
):
    main.add_command(command)

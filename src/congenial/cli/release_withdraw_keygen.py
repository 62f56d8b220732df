"""Commands that write to the ledger or sign: release, withdraw, keygen; options that they share with others."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from congenial.cli.command_and_output import (
    command,
    progress_bar,
    require_consent,
    say,
    show_json,
    show_result,
    spec_argument,
)

if TYPE_CHECKING:
    from congenial.curator.pipeline import Published, ReleaseEngine
    from congenial.ledger import Ledger, Status
    from congenial.spec.spec_and_hierarchy import Spec

# The options of a release that Spark reads and draws.


_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="What reads and draws: this machine, or Spark (docs/spark.md). The tables are the same.",
    ),
    click.option("--master", help="Spark: the cluster, such as spark://127.0.0.1:7077, or local[2]."),
    click.option("--spark-conf", multiple=True, help="Spark: a setting, such as spark.executor.memory=4g; repeatable."),
    click.option("--partitions", type=click.IntRange(1), help="Spark: tasks to cut the draw into. Default: 4 a core."),
    click.option(
        "--tables",
        type=click.Path(path_type=Path),
        help="Spark: a folder, seen by all machines, to write the released tables to as Parquet, beside the bundle.",
    ),
    click.option(
        "--executor-keys",
        type=click.Path(path_type=Path),
        help="Spark: where the machines see the folder of --keys. Default: at the same path.",
    ),
    click.option(
        "--key-command", help="Spark: a command that prints the key {name} on the machines, in place of a folder."
    ),
)


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_spark_options(engine: str, **options: object) -> None:
    """Refuse options of Spark without Spark, and Spark without a cluster."""
    names = ("master", "spark_conf", "partitions", "tables", "executor_keys", "key_command")
    stated = [name for name in names if options[name]]
    if engine == "local" and stated:
        raise click.UsageError(f"--{stated[0].replace('_', '-')} goes with --engine spark")
    if engine == "spark" and options["master"] is None:
        raise click.UsageError("--engine spark needs the cluster: --master spark://HOST:7077, or --master 'local[2]'")


@contextmanager
def engine_of(
    engine: str, master: str | None, spark_conf: Sequence[str], partitions: int | None, **options: Any
) -> Iterator["ReleaseEngine"]:
    """Give the requested engine; a Spark session is stopped afterwards."""
    from congenial.curator.pipeline import LOCAL

    if engine == "local" or master is None:
        yield LOCAL
        return
    from congenial.engines.spark.engine import SparkEngine
    from congenial.engines.spark.session_data_and_tasks import spark_session

    with spark_session(master, _settings(spark_conf)) as session:
        yield SparkEngine(session, n_partitions=partitions, **options)


def _settings(texts: Sequence[str]) -> dict[str, str]:
    wrong = [text for text in texts if "=" not in text]
    if wrong:
        raise click.UsageError(f"--spark-conf {wrong[0]!r} is no setting; write NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in texts)}


ledger_option = click.option(
    "--ledger",
    "place",
    help="The budget ledger: a file such as budget.db, or a postgresql:// URL. Default: $CONGENIAL_LEDGER.",
)
keys_option = click.option(
    "--keys",
    type=click.Path(path_type=Path),
    help="Private folder for the keys of releases under way. Default: $CONGENIAL_KEYS, or beside the ledger's file.",
)
memory_option = click.option(
    "--memory",
    callback=lambda _, __, amount: bound_memory(amount),
    expose_value=False,
    metavar="AMOUNT",
    help="How much memory to take at most, such as 2GB. Default: $CONGENIAL_MEMORY, or half of what the computer has.",
)
who_option = click.option("--who", help="Who does it, for the ledger. Default: the name of the logged-in user.")


def bound_memory(amount: str | None) -> None:
    """Bound the memory of this process, if an amount is stated."""
    from congenial.errors import CongenialError
    from congenial.memory_and_threads import set_memory

    if amount is not None:
        try:
            set_memory(amount)
        except CongenialError as wrong:
            raise click.UsageError(str(wrong)) from None


def user_name(who: str | None) -> str:
    """Return who is named, or the logged-in user."""
    if who is not None:
        return who
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise click.UsageError("say who releases: --who NAME") from None


@command
@spec_argument
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the bundle. Default: the release's name.")
@ledger_option
@keys_option
@who_option
@memory_option
@click.option("--sign", "key", type=click.Path(path_type=Path), help="Private key to sign with; see congenial keygen.")
@click.option("--yes", is_flag=True, help="Charge the budget without asking; needed where there is no terminal.")
@click.option("--resume", is_flag=True, help="Go on with a release that was stopped after its charge; charges nothing.")
@click.option("--abandon", is_flag=True, help="Give up a release that was stopped after its charge; the spend stays.")
@click.option(
    "--confidential-report/--no-confidential-report",
    default=True,
    show_default=True,
    help="Write CONFIDENTIAL-<release>.html next to the spec: a comparison with the truth, for the curator alone.",
)
@spark_options
def release(
    spec: Path,
    out: Path | None,
    place: str | None,
    keys: Path | None,
    who: str | None,
    key: Path | None,
    yes: bool,
    resume: bool,
    abandon: bool,
    confidential_report: bool,
    as_json: bool,
    **spark: Any,
) -> None:
    """Release what SPEC describes into a bundle that can be published.

    A release name that was used and a budget that is too full are found at once. Then everything else is checked; then
    the budget is charged, one table is drawn for each area, and the bundle appears
    whole or not at all. The charge is never refunded. A release that was stopped after its charge ends in the same
    bundle with --resume, if data, spec and software are the same.
    """
    from congenial.curator import pipeline
    from congenial.disk_and_gzip import disable_core_dumps
    from congenial.ledger import open_ledger
    from congenial.spec.load import load_spec
    from congenial.table import CONFIDENTIAL

    if resume and abandon:
        raise click.UsageError("--resume goes on with a release and --abandon gives it up; choose one")
    check_spark_options(**spark)
    disable_core_dumps()
    loaded = load_spec(spec)
    ledger = open_ledger(place, keys=keys)
    if abandon:
        _abandon(ledger, loaded.dataset, loaded.release, yes=yes)
        return
    beside = spec.absolute().parent
    secret = beside / f"{CONFIDENTIAL}{loaded.release}.html" if confidential_report else None
    name = "" if resume else user_name(who)
    if not resume:
        account = pipeline.check_chargeable(loaded, ledger)
        require_consent(_question(loaded, account, repr(ledger)), yes=yes)
    with progress_bar(f"releasing {loaded.release}") as step, engine_of(**spark) as engine:
        if resume:
            published = pipeline.resume(
                *(loaded, beside, out), ledger=ledger, key=key, confidential_report=secret, progress=step, engine=engine
            )
        else:
            folder = Path(loaded.release) if out is None else out
            published = pipeline.release(
                *(loaded, beside, folder),
                ledger=ledger,
                who=name,
                key=key,
                confidential_report=secret,
                progress=step,
                engine=engine,
            )
    _show(published, secret, as_json=as_json, is_resumed=resume)


def _question(spec: "Spec", account: "Status", where: str) -> str:
    """Ask whether to charge, with what it will cost at most and what is left."""
    from congenial.privacy.certificate import shown, shown_left

    dataset = account.dataset
    cost = "" if spec.budget is None else f", at most {spec.budget.amount},"
    rest = f"{shown_left(account.left, dataset.cap)} of {dataset.currency} {shown(dataset.cap)} is left, and nothing is"
    return f"charge release {spec.release!r}{cost} to dataset {dataset.name!r} in {where} ({rest} ever refunded)"


def _abandon(ledger: "Ledger", dataset: str, release: str, *, yes: bool) -> None:
    from congenial.privacy.certificate import shown
    from congenial.release import abandon

    require_consent(f"give up release {release!r} of dataset {dataset!r} (what it cost stays spent)", yes=yes)
    receipt = abandon(ledger, dataset, release)
    say(
        f"Gave up release {release!r}: its key is destroyed, unfinished bundles are removed, and {receipt.currency}"
        f" {shown(receipt.loss)} of dataset {dataset!r} stays spent."
    )


def _show(published: "Published", secret: Path | None, *, as_json: bool, is_resumed: bool) -> None:
    from congenial.privacy.certificate import shown, shown_left

    receipt = published.release.receipt
    if published.missing:
        say(f"Warning: {published.missing}; the bundle is whole", err=True)
        secret = None
    if as_json:
        values = {"bundle": str(published.folder), "receipt": None if receipt is None else receipt.as_json()}
        show_json({**values, "confidential_report": None if secret is None else str(secret)})
        return
    if receipt is not None:
        charged = "Charged before, on " + receipt.at + ":" if is_resumed else "Charged"
        say(
            f"{charged} {receipt.currency} {shown(receipt.loss)} to dataset {receipt.dataset!r};"
            f" {shown_left(receipt.left, receipt.cap)} of {shown(receipt.cap)} left."
        )
    if secret is not None:
        say(f"For you alone: {secret}")
    say(f"The bundle is in {published.folder}; open {published.folder / 'report.html'}")


# `congenial withdraw`: say in the ledger that a published release should no longer be used.


@command
@click.argument("dataset")
@click.argument("release")
@click.option("--reason", required=True, help="Why, in one line; the ledger keeps it for good.")
@ledger_option
@who_option
@click.option("--yes", is_flag=True, help="Do it without asking; needed where there is no terminal.")
def withdraw(
    dataset: str, release: str, reason: str, place: str | None, who: str | None, yes: bool, as_json: bool
) -> None:
    """Record that RELEASE of DATASET is withdrawn: it should no longer be used.

    What it cost stays spent, because whoever has a copy keeps it. `congenial verify --ledger` says from now on that it
    is withdrawn. To replace it, release a corrected edition: a new name, with `replaces: RELEASE` in its spec.
    """
    from congenial.ledger import open_ledger
    from congenial.privacy.certificate import shown

    ledger = open_ledger(place)
    name = user_name(who)
    require_consent(
        f"withdraw release {release!r} of dataset {dataset!r} in {ledger!r} (what it cost stays spent)", yes=yes
    )
    withdrawal = ledger.withdraw(dataset, release, reason=reason, who=name)
    account = ledger.status(dataset)
    spent = f"{account.dataset.currency} {shown(account.spent)} of {shown(account.dataset.cap)}"
    show_result(
        {"withdrawal": withdrawal.row, "status": account.as_json()},
        f"Release {release!r} of dataset {dataset!r} is withdrawn.",
        f"What it cost stays spent, because copies of it may be kept: {spent}, as before.",
        "Take its folder off the website, and say there that it is withdrawn and why.",
        as_json=as_json,
    )


# `congenial keygen`: a key to sign bundles with.


@command
@click.argument("path", type=click.Path(path_type=Path))
def keygen(path: Path, as_json: bool) -> None:
    """Write a new private key to PATH and its public key to PATH.pub."""
    from congenial.bundle.signing import create_key

    public = create_key(path)
    values = {"private_key": str(path), "public_key": str(path.with_name(public))}
    show_result(values, f"{path} is the private key: keep it. {public} is the public key: publish it.", as_json=as_json)

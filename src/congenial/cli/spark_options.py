"""The options of a release that Spark reads and draws."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from congenial.curator.engine import Engine


@dataclass(frozen=True)
class SparkOptions:
    """What was said of the engine on the command line."""

    engine: str
    master: str | None
    spark_conf: tuple[str, ...]
    partitions: int | None
    tables: Path | None
    executor_keys: Path | None
    key_command: str | None


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


def taken(given: dict[str, Any]) -> SparkOptions:
    """Return the options among a command's arguments; refuses those of Spark without Spark."""
    options = SparkOptions(**{field.name: given[field.name] for field in fields(SparkOptions)})
    said = [field.name for field in fields(SparkOptions)[1:] if getattr(options, field.name)]
    if options.engine == "local" and said:
        raise click.UsageError(f"--{said[0].replace('_', '-')} goes with --engine spark")
    if options.engine == "spark" and options.master is None:
        raise click.UsageError("--engine spark needs the cluster: --master spark://HOST:7077, or --master 'local[2]'")
    return options


@contextmanager
def engine_of(options: SparkOptions) -> Iterator["Engine"]:
    """Give the engine that was asked for; a session of Spark is stopped afterwards."""
    from congenial.curator.engine import LOCAL

    if options.engine == "local" or options.master is None:
        yield LOCAL
        return
    from congenial.engines.spark.engine import SparkEngine
    from congenial.engines.spark.session import spark_session

    with spark_session(options.master, _settings(options.spark_conf)) as session:
        yield SparkEngine(
            session,
            n_partitions=options.partitions,
            executor_keys=options.executor_keys,
            key_command=options.key_command,
            tables=options.tables,
        )


def _settings(given: Sequence[str]) -> dict[str, str]:
    wrong = [text for text in given if "=" not in text]
    if wrong:
        raise click.UsageError(f"--spark-conf {wrong[0]!r} is no setting; write NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in given)}

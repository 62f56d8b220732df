"""The spec's groups of labels travel in the bundle, are covered by the plan's digest, and answer queries by name."""

import shutil
from pathlib import Path

import pytest

import congenial as cg
from congenial.curator.pipeline import demonstrate
from congenial.errors import BundleError
from congenial.inference.analyst_bundle import AnalystBundle, load_bundle
from forger import at, forge

GROUPS = ("law", "dimensions", 1, "groups")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> AnalystBundle:
    return AnalystBundle.of(demonstrate(tmp_path_factory.mktemp("groups") / "demo").bundle)


@pytest.fixture
def folder(made: AnalystBundle, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = next(tmp_path_factory.getbasetemp().glob("groups*/demo/bundle"))
    return Path(shutil.copytree(found, tmp_path / "bundle"))


def test_a_group_is_a_name_in_queries(made: AnalystBundle) -> None:
    ages = made.law.schema.labels("age")
    assert made.law.schema.dimensions[1].groups == (("voting age", ages[4:]),)
    posterior = made.posterior(prior="flat", n_draws=1000, rng=cg.replay_rng("groups"))
    same = (posterior.interval(query) for query in ("sex=male & voting age", "sex=male & age >= 18-19"))
    assert len({(interval.mean, interval.low, interval.high) for interval in same}) == 1
    (interval,) = made.confidence("voting age")
    assert interval.how == "determined"


def test_groups_that_do_not_fit_are_refused(folder: Path) -> None:
    forge(folder, at(*GROUPS, value=[{"name": "voting age", "labels": ["under 6"]}]))
    with pytest.raises(BundleError, match="voting age"):
        load_bundle(folder)


@pytest.mark.parametrize(
    "groups",
    [
        [],
        [{"name": "voting age", "labels": ["85+", "80-84"]}],
        [{"name": "85+", "labels": ["85+"]}],
        [{"name": "voting age", "labels": "85+"}],
        [{"name": "old", "labels": ["85+"]}, {"name": "old", "labels": ["85+"]}],
        {"old": ["85+"]},
    ],
)
def test_groups_are_written_in_one_way(folder: Path, groups: object) -> None:
    forge(folder, at(*GROUPS, value=groups))
    with pytest.raises(BundleError):
        load_bundle(folder)


def test_a_changed_group_is_not_what_was_charged(folder: Path) -> None:
    forge(folder, at(*GROUPS, value=[{"name": "voting age", "labels": ["85+"]}]), plan=False)
    with pytest.raises(BundleError, match="plan"):
        load_bundle(folder)

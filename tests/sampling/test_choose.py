"""A sampler is chosen from public structure; a new one is its own file and a line in the registry."""

import numpy as np
import pytest

import congenial as cg
from congenial.errors import SamplingError, TooLargeError
from congenial.examples import p12_mechanism, p12_table
from congenial.sampling import sampler_and_registry as choose
from congenial.sampling.elimination.sampler import EliminationSampler
from congenial.sampling.sampler_and_registry import SAMPLERS, choose_sampler
from congenial.sampling.target_and_system import System
from sampling.contract import Maker, SamplerContract, registered, system_of
from sampling.enumeration import Enumeration
from systems import SYSTEMS
from systems import System as Small


class TestRegistered(SamplerContract):
    """Look-ahead rejection takes grids only, and has `tests/sampling/test_two_way_rejection.py`."""

    @pytest.fixture(params=[name for name in SAMPLERS if name != "look-ahead rejection"])
    def make(self, request: pytest.FixtureRequest) -> Maker:
        return SAMPLERS[request.param]


class TestEnumeration(SamplerContract):
    @pytest.fixture
    def make(self) -> Maker:
        return Enumeration.of

    @pytest.fixture(params=["tight bounds", "structural zero", "one table", "soft margin", "range row"])
    def small(self, request: pytest.FixtureRequest, make: Maker, monkeypatch: pytest.MonkeyPatch) -> Small:
        return registered(make, request.param, monkeypatch)


def tiny() -> System:
    return system_of(SYSTEMS["tight bounds"]().target)


def p12() -> System:
    return system_of(p12_mechanism().law(p12_table()).target)


def too_scaled() -> System:
    labels = [str(i) for i in range(8)]
    schema = cg.Schema({"row": labels, "column": labels})
    mechanism = cg.Mechanism(
        schema, measure=[cg.cells(precision="1/10")], invariants=[cg.margin("row"), cg.margin("column")]
    )
    return system_of(mechanism.law(cg.Table(schema, np.full((8, 8), 500))).target)


def test_the_first_that_fits_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "SAMPLERS", {"enumeration": Enumeration.of, **SAMPLERS})
    assert choose_sampler(tiny()).name == "enumeration"
    assert choose_sampler(p12()).name == "contraction"
    monkeypatch.setattr(choose, "SAMPLERS", {**SAMPLERS, "enumeration": Enumeration.of})
    assert choose_sampler(tiny()).name == "contraction"


def test_if_none_fits_the_first_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "SAMPLERS", {"enumeration": Enumeration.of, "contraction": EliminationSampler.of})
    sampler = choose_sampler(too_scaled())
    assert sampler.name == "contraction"
    assert not sampler.is_exact
    assert "too large for the exact sampler" in sampler.describe()
    with pytest.raises(TooLargeError, match=r"width \d.*not certified"):
        sampler.check()
    with pytest.raises(TooLargeError, match=r"width \d"):
        sampler.draw_each(np.full((1, 64), 500), cg.replay_rng(1))


def test_no_sampler_at_all_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "SAMPLERS", {"enumeration": Enumeration.of})
    with pytest.raises(SamplingError, match=r"no sampler applies.*enumeration"):
        choose_sampler(p12())


def test_contraction_says_its_size() -> None:
    sampler = choose_sampler(p12())
    assert sampler.describe() == "4 groups of cells, width 1, about 7,957 states, exact"
    assert sampler.title == "independent draw by contraction over partial sums"


def test_many_draws_begin_with_the_single_one() -> None:
    """The fast path of one draw takes the same words as the first of many."""
    sampler, centre = choose_sampler(p12()), p12_table().counts.reshape(-1)
    single = sampler.at(centre).sample(1, cg.replay_rng(3))
    assert np.array_equal(single[0], sampler.at(centre).sample(5, cg.replay_rng(3))[0])

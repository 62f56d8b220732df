"""Klein's sampler: the right law on every lattice, every decision as in balls, attempts that tell nothing of noise."""

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from itertools import count

import flint
import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng
from congenial.arrays import Ints
from congenial.errors import SamplingError, TooLargeError
from congenial.exact import ball, ends
from congenial.noise.weight import NoiseWeight
from congenial.proven_decisions import Uniform
from congenial.randomness import KeyedWords, replay_rng
from congenial.sampling.lattice_noise import klein
from congenial.sampling.lattice_noise.klein import KleinSampler, Step, enclosures_around, exp_of, mass_of
from congenial.sampling.lattice_noise.rejection import Attempts, Words, public_words
from congenial.sampling.lattice_noise.short_basis import GramSchmidt, lattice_basis
from congenial.sampling.lattice_noise.system import LatticeSystem
from lattice_laws import ONE_SUM, Enumerated, gaussian, geometric, keyed, lattice, margins, p12, structures

STRUCTURES = structures(gaussian, "2", "1", "1/2")
SMALL = gaussian("2/5")


def sampler_of(system: LatticeSystem) -> KleinSampler:
    sampler = KleinSampler.of(system)
    assert sampler is not None
    sampler.check()
    return sampler


@pytest.mark.parametrize("name", STRUCTURES)
def test_draws_have_the_law_of_the_lattice(name: str, request: pytest.FixtureRequest) -> None:
    system = STRUCTURES[name]
    draws = sampler_of(system).draw(keyed(own_rng(request), N_DRAWS))
    assert system.holds(draws)
    assert Enumerated.of(system).p_value(draws) > ALPHA


class Unfiltered(KleinSampler):
    """A mutant: the acceptance step left out."""

    def _attempt(self, words: Words) -> Attempts:
        return replace(super()._attempt(words), is_accepted=np.ones(len(words), np.bool_))


def without_centres(system: LatticeSystem) -> KleinSampler:
    """A mutant: every coefficient around 0."""
    sampler = sampler_of(system)
    sampler.__dict__["proposal"] = replace(sampler.proposal, shifts=np.zeros_like(sampler.proposal.shifts))
    return sampler


def off_by(system: LatticeSystem, share: Fraction) -> KleinSampler:
    """A mutant: every base off."""
    weights = tuple(replace(weight, quadratic=weight.quadratic * share) for weight in system.weights)
    return sampler_of(replace(system, weights=weights))


@pytest.mark.parametrize(
    "mutant",
    [Unfiltered, without_centres, lambda system: off_by(system, Fraction(97, 100))],
    ids=["no acceptance", "no centres", "bases off by 3 %"],
)
def test_mutants_are_rejected(mutant: type[KleinSampler], request: pytest.FixtureRequest) -> None:
    system = lattice([SMALL] * 3, ONE_SUM)
    words = keyed(own_rng(request), N_DRAWS)
    law = Enumerated.of(system)
    assert law.p_value(sampler_of(system).draw(words)) > ALPHA
    assert law.p_value(mutant(system).draw(words)) < ALPHA


def test_a_forgotten_soft_row_is_rejected(request: pytest.FixtureRequest) -> None:
    system = STRUCTURES["soft row"]
    draws = sampler_of(replace(system, soft=())).draw(keyed(own_rng(request), N_DRAWS))
    assert Enumerated.of(system).p_value(draws) < ALPHA


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_slow_path_draws_the_same(name: str) -> None:
    sampler, words = sampler_of(STRUCTURES[name]), public_words(25)
    assert np.array_equal(sampler.draw(words), sampler.draw(words, always_refined=True))


def test_the_slow_path_draws_the_same_in_46_cells() -> None:
    sampler, words = sampler_of(p12(gaussian("1/2"))), public_words(4)
    assert np.array_equal(sampler.draw(words), sampler.draw(words, always_refined=True))


def test_a_wide_band_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions in doubt are made again in balls: with a band of 1 % of all words the draws stay the same."""
    sampler = sampler_of(lattice([SMALL] * 4, [dict.fromkeys(range(4), 1)]))
    words = public_words(400)
    draws = sampler.draw(words)
    monkeypatch.setattr(Step, "tolerance", 0.01)
    sampler.__dict__["_tolerance"] = 0.01
    refined = []
    decide = KleinSampler._decide

    def counted(self: KleinSampler, uniforms: list[Uniform], bits: int) -> list[int] | None:
        refined.append(bits)
        return decide(self, uniforms, bits)

    monkeypatch.setattr(KleinSampler, "_decide", counted)
    assert np.array_equal(sampler.draw(words), draws)
    assert len(refined) > 20


def test_words_that_do_not_decide_are_refined() -> None:
    """A word of ones leaves the coefficient open beyond any window; words that follow decide it."""
    sampler = sampler_of(lattice([gaussian("1")] * 3, ONE_SUM))
    top = 2**64 - 1
    attempt = sampler._attempt(np.full((1, sampler.n_words), top, np.uint64))
    assert attempt.is_doubtful.all()
    further = iter([top, 5])
    uniforms = [Uniform(top, further), Uniform(1 << 63, count()), Uniform(0, count())]
    vector = sampler._refine(uniforms)
    assert vector is not None
    assert sum(vector) == 0
    assert max(map(abs, vector)) > 8
    assert uniforms[0].n_bits == 3 * 64


@pytest.mark.parametrize("fall", [1e-3, 0.1, 0.5, 1.0, 4.0, 20.0, 64.0])
def test_theta_is_largest_at_integers(fall: float) -> None:
    offsets = [Fraction(number, 64) for number in range(1, 33)]
    with flint.ctx.workprec(256):
        for offset in offsets:
            shifted = sum((weight for _, weight in enclosures_around(fall, offset, 256)), flint.arb(0))
            theta = shifted * (-flint.arb(fall) * ball(offset * offset)).exp()
            assert ends(theta)[0] <= ends(mass_of(fall, 256))[1]


@pytest.mark.parametrize("fall", [3e-4, 0.1, 0.5, 1.0, 4.0, 64.0])
def test_a_step_is_within_its_bounds(fall: float) -> None:
    step = Step.of(fall)
    offsets = np.linspace(-0.5, 0.5, 17)
    totals = step.draw(offsets, np.full(17, 0.5))[1]
    with flint.ctx.workprec(256):
        for offset, total in zip(offsets.tolist(), totals.tolist(), strict=True):
            exact = sum((w for _, w in enclosures_around(fall, Fraction(offset), 200)), flint.arb(0))
            assert abs(float(flint.arb(total) / exact - 1)) <= step.error + 2.0**-50
        assert abs(float(flint.arb(step.mass) / mass_of(fall, 256) - 1)) < 2.0**-51


def test_exponentials_are_within_their_bound() -> None:
    for halvings in (0, 1, 4, 8):
        points = np.linspace(-1, 1, 101) * 2.0 ** (halvings - 1)
        with flint.ctx.workprec(128):
            for point, value in zip(points.tolist(), exp_of(points, halvings).tolist(), strict=True):
                assert abs(float(flint.arb(value) / flint.arb(point).exp() - 1)) <= 5 * 2**halvings * 2.0**-53


def energy_of(system: LatticeSystem, vector: list[int]) -> flint.arb:
    terms = [*zip(system.weights, vector, strict=True)]
    terms += [(soft.weight, sum(t * vector[c] for c, t in soft.row.terms.items())) for soft in system.soft]
    return sum((-ball(weight.quadratic).log() * value * value for weight, value in terms), flint.arb(0))


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_form_of_proposals_is_below_the_energy(name: str) -> None:
    system = STRUCTURES[name]
    proposal = sampler_of(system).proposal
    rng = np.random.default_rng(3)
    for k in rng.integers(-9, 10, (50, system.rank)).tolist():
        vector = [sum(times * int(b) for times, b in zip(k, column, strict=True)) for column in proposal.basis.T]
        centres = [
            sum(Fraction(s) * times for s, times in zip(line, k, strict=True)) for line in proposal.shifts.tolist()
        ]
        form = sum(Fraction(d) * (one - c) ** 2 for d, one, c in zip(proposal.falls.tolist(), k, centres, strict=True))
        with flint.ctx.workprec(128):
            energy = energy_of(system, vector)
            assert ends(energy - ball(form))[0] >= 0
            assert ends(energy * (1 - flint.arb(2) ** -18) - ball(form))[1] <= 0


def test_a_form_above_the_energy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(klein, "_SHRINK", -1e-9)
    with pytest.raises(SamplingError, match="proof in doubles"):
        sampler_of(STRUCTURES["3 x 3, both margins"])


class CountedWords(KeyedWords):
    """Words that count how many attempts each unit takes."""

    def __init__(self, words: KeyedWords) -> None:
        super().__init__(words._key, words._starts)
        self.n_attempts = np.zeros(len(words), np.int64)

    def stretch(self, places: Ints, blocks: Ints, n: int) -> Words:  # type: ignore[override]
        self.n_attempts[places] += 1
        return super().stretch(places, blocks, n)


def correlation(n_attempts: Ints, draws: Ints) -> float:
    """In standard deviations of what independent ones have."""
    return float(np.corrcoef(n_attempts, (draws * draws).sum(axis=1))[0, 1] * np.sqrt(len(draws)))


def test_the_number_of_attempts_tells_nothing_of_the_noise(request: pytest.FixtureRequest) -> None:
    sampler = sampler_of(lattice([SMALL] * 30, margins((5, 6), 1)))
    words = CountedWords(keyed(own_rng(request), 30_000))
    draws = sampler.draw(words)
    assert words.n_attempts.max() > 3
    assert abs(correlation(words.n_attempts, draws)) < 5
    # A mutant that stops after the first attempt with what there is, which is nothing.
    draws[words.n_attempts > 1] = 0
    assert abs(correlation(words.n_attempts, draws)) > 20


def test_units_in_any_order_and_parts_draw_the_same() -> None:
    sampler = sampler_of(lattice([SMALL] * 12, margins((3, 4), 1)))
    rng = replay_rng("order")
    key, starts = rng.words(4).tobytes(), rng.words(2 * 9000).reshape(9000, 2)
    draws = sampler.draw(KeyedWords(key, starts))
    order = np.random.default_rng(5).permutation(9000)
    parts = [sampler.draw(KeyedWords(key, starts[some])) for some in np.split(order, [1, 5000, 8999])]
    assert np.array_equal(np.vstack(parts), draws[order])


def test_the_proposal_is_the_same_on_every_machine() -> None:
    system = lattice(
        [gaussian("1"), gaussian("2")] * 6, margins((3, 4), 1), [(dict.fromkeys(range(5), 2), gaussian("3"))]
    )
    proposal = sampler_of(system).proposal
    digest = sha256(proposal.basis.tobytes() + proposal.shifts.tobytes() + proposal.falls.tobytes()).hexdigest()
    assert digest[:16] == "3db6bd0a9390d2f1"


def test_the_basis_spans_the_lattice() -> None:
    for name, system in STRUCTURES.items():
        basis = lattice_basis(system)
        assert basis.shape == (system.rank, system.n_coordinates), name
        assert system.holds(basis)
        # The largest minors have no common factor: no vector of the lattice is left out.
        factors = [int(entry) for entry in flint.fmpz_mat(basis.tolist()).snf().entries() if entry != 0]
        assert factors == [1] * system.rank, name


def test_a_skew_basis_is_made_short() -> None:
    basis = np.array([[1, 0, 0], [70, 1, 0], [-311, 42, 1]])
    short = GramSchmidt.of(basis, (basis @ basis.T).astype(float))
    assert np.abs(short.basis).sum() == 3
    assert abs(round(float(np.linalg.det(short.basis.astype(float))))) == 1


@pytest.mark.parametrize(
    ("system", "least", "most"),
    [
        (p12(gaussian("1/2")), 0.93, 0.96),
        (p12(gaussian("1")), 0.99, 1.0),
        (lattice([gaussian("1")] * 27, margins((3, 3, 3), 2)), 0.72, 0.80),
        (lattice([gaussian("2")] * 27, margins((3, 3, 3), 2)), 0.96, 1.0),
    ],
)
def test_acceptance(system: LatticeSystem, least: float, most: float) -> None:
    assert least <= sampler_of(system).acceptance <= most


@pytest.mark.slow
@pytest.mark.parametrize(("variance", "least", "most"), [("1/2", 0.2, 0.28), ("1", 0.95, 0.99)])
def test_acceptance_with_both_margins(variance: str, least: float, most: float) -> None:
    sampler = sampler_of(lattice([gaussian(variance)] * 320, margins((20, 16), 1)))
    assert least <= sampler.acceptance <= most
    assert sampler.system.holds(sampler.draw(public_words(200)))


def test_what_is_drawn_for_a_slow_unit_is_rare() -> None:
    assert sampler_of(p12(gaussian("4"))).slow_rate < 1e-9


def test_systems_of_other_noise_are_left_to_others() -> None:
    assert KleinSampler.of(lattice([geometric("1")] * 3, ONE_SUM)) is None
    both = NoiseWeight(linear=Fraction(1, 2), quadratic=Fraction(1, 2))
    assert KleinSampler.of(lattice([both, gaussian("1")], [])) is None


def test_one_point_is_drawn() -> None:
    assert not sampler_of(lattice([gaussian("1")] * 2, [{0: 1, 1: 1}, {0: 1, 1: -1}])).draw(public_words(10)).any()


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (lattice([gaussian("1/200")] * 3, ONE_SUM), "change the precision"),
        (lattice([gaussian("10000000")] * 3, ONE_SUM), "change the precision"),
        (lattice([gaussian("1"), gaussian("1"), gaussian("90000000")], ONE_SUM), "262,144"),
        (lattice([gaussian("1")] * 2, [{0: 3_000_000, 1: 1}]), "coefficients too large"),
    ],
)
def test_refusals_give_the_way_out(system: LatticeSystem, words: str) -> None:
    sampler = KleinSampler.of(system)
    assert sampler is not None
    with pytest.raises(TooLargeError, match=words):
        sampler.check()

"""Bundles of trees: what goes in comes out, everything adds up, and what was changed is refused."""

import json
import shutil
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Ints
from congenial.bundle.areas_spine_and_level_files import read_spine, write_spine
from congenial.bundle.canonical_json import canonical_json, digest
from congenial.bundle.parquet import arrays_to_parquet
from congenial.bundle.verify import verify_bundle
from congenial.conditions.base import Condition
from congenial.conditions.registry import from_json as condition_of_json
from congenial.errors import BrokenError, BundleError, HierarchyError, PrivacyError, SamplingError
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.sampling.allocation_to_children.tilts_and_normaliser import level_noise
from forger import Change, at, forge
from table_files import parquet_arrays

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
CODES = [f"{state}{county}{block}" for state in "12" for county in "ab" for block in "xyz"]
LEAVES = np.random.default_rng(3).poisson(4.0, (12, 4))


def hierarchy(
    *, n_states: int = 2, has_zeros: bool = False, noise: str = "discrete_gaussian", method: str = "measured"
) -> Hierarchy:
    codes = CODES[: 6 * n_states]
    tree = cg.Tree.of_prefixes(codes, {"state": 1, "county": 2}, "block")
    bars = np.zeros((len(codes), 4), np.bool_)
    bars[1] = True
    bars[2, 3] = True
    zeros = cg.Zeros.of_leaves(tree, bars) if has_zeros else None
    return cg.Hierarchy(tree, SCHEMA, invariants=[cg.total()], rho="1", noise=noise, zeros=zeros, method=method)


def leaves(n: int, *, has_zeros: bool = False) -> Ints:
    counts = LEAVES[:n].copy()
    if has_zeros:
        counts[1] = 0
        counts[2, 3] = 0
    return counts


def written(folder: Path, hierarchy: Hierarchy, counts: Ints) -> Path:
    ledger = cg.open_ledger(folder / "budget.db", create=True)
    ledger.create_dataset("town", rho="3", neighbours="bounded", who="Ada")
    place = folder / "tree"
    hierarchy.release(counts, ledger=ledger, dataset="town", release="tree", who="Ada", folder=place)
    return place


@pytest.mark.parametrize(
    ("method", "kind"), [("measured", "measured_tree_gaussian"), ("conditional", "chain_gaussian")]
)
@pytest.mark.parametrize("n_states", [1, 2])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_a_tree_comes_back_and_adds_up(n_states: int, has_zeros: bool, method: str, kind: str, tmp_path: Path) -> None:
    mechanism = hierarchy(n_states=n_states, has_zeros=has_zeros, method=method)
    counts = leaves(6 * n_states, has_zeros=has_zeros)
    place = written(tmp_path, mechanism, counts)
    bundle = cg.load_bundle(place)
    assert bundle.tree is not None
    assert bundle.tree.levels == ("state", "county", "block")
    (_, states), (_, counties), (codes, blocks) = (bundle.level(name) for name in bundle.tree.levels)
    assert np.array_equal(states.sum(axis=1), counts.reshape(n_states, -1).sum(axis=1)), "the exact numbers"
    assert np.array_equal(counties.reshape(n_states, 2, 4).sum(axis=1), states)
    assert np.array_equal(blocks.reshape(-1, 3, 4).sum(axis=1), counties)
    assert codes == tuple(CODES[: 6 * n_states])
    assert not has_zeros or not (blocks[1].any() or blocks[2, 3])
    assert bundle.manifest.certificate.kind == kind
    if method == "conditional":
        assert np.isfinite(bundle.law.log_probability(counts, (states, counties, blocks)))
    verified = verify_bundle(place)
    assert any("report.html was made again" in line for line in verified.checked)
    page = (place / "report.html").read_text(encoding="utf-8")
    for name, units in zip(bundle.tree.levels, (states, counties, blocks), strict=True):
        for code, table in zip(bundle.level(name)[0], units, strict=True):
            assert f"<summary>{name} {code}: {int(table.sum()):,}</summary>" in page
    assert "a tree of tables that add up" in str(bundle)


def changed(place: Path, name: str, content: bytes) -> None:
    """Write a file and put its digest into the manifest, as a forger would."""
    (place / name).write_bytes(content)
    values = json.loads((place / "manifest.json").read_text())
    values["files"][name] = digest(content)
    restamped(place, values)


def restamped(place: Path, values: dict[str, object]) -> None:
    values.pop("digest", None)
    (place / "manifest.json").write_bytes(canonical_json({**values, "digest": digest(canonical_json(values))}))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("tree"), hierarchy(), leaves(12))


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "tree")
    return tmp_path / "tree"


@pytest.mark.parametrize(
    ("method", "words"), [("measured", "not those of the rule 'gls'"), ("conditional", r"report\.html is not the file")]
)
def test_a_moved_person_is_found(method: str, words: str, tmp_path: Path) -> None:
    """From one block to another of the same county: all levels above still hold; the rule, or the page, does not."""
    place = written(tmp_path, hierarchy(method=method), leaves(12))
    columns = parquet_arrays((place / "level-3-block.parquet").read_bytes())
    cell = next(name for name, column in columns.items() if name != "code" and column[1] > 0)
    columns[cell] = columns[cell] + np.array([1, -1, *[0] * 10])
    changed(place, "level-3-block.parquet", arrays_to_parquet(columns))
    with pytest.raises(BundleError, match=words):
        verify_bundle(place)


@pytest.mark.parametrize(
    ("name", "cell", "words"),
    [
        ("level-3-block.parquet", "sex=f, age=y", "do not add up"),
        ("level-2-county.parquet", "sex=m, age=o", "do not add up"),
    ],
)
def test_tables_that_do_not_add_up_are_refused(place: Path, name: str, cell: str, words: str) -> None:
    columns = parquet_arrays((place / name).read_bytes())
    columns[cell] = columns[cell] + 1
    changed(place, name, arrays_to_parquet(columns))
    with pytest.raises(BundleError, match=words):
        cg.load_bundle(place)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: {"code": c["code"]}, "columns"),
        (lambda c: {**c, "code": c["code"][::-1]}, "units of the spine"),
        (lambda c: {**c, "sex=f, age=y": c["sex=f, age=y"].astype(np.float64)}, "whole number"),
    ],
)
def test_files_of_another_form_are_refused(place: Path, change: object, words: str) -> None:
    columns = parquet_arrays((place / "level-3-block.parquet").read_bytes())
    changed(place, "level-3-block.parquet", arrays_to_parquet(change(columns)))  # type: ignore[operator]
    with pytest.raises(BundleError, match=words):
        cg.load_bundle(place)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("levels", 1, "precision"), "1", "precision|follows|receipt|base"),
        (("levels", 1, "share"), "1/2", "share|follows|receipt"),
        (("levels", 2, "units"), 11, "the 11 rows that the manifest describes, but 12"),
        (("levels", 1, "units"), 5, "follows"),
        (("levels", 0, "share"), None, "share"),
        (("digest",), "0" * 64, "follows"),
    ],
)
def test_a_changed_tree_of_the_manifest_is_refused(
    place: Path, path: tuple[str | int, ...], value: object, words: str
) -> None:
    values = json.loads((place / "manifest.json").read_text())
    part = values["law"]["tree"]
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    restamped(place, values)
    with pytest.raises(BundleError, match=words):
        cg.load_bundle(place)


def condition(**extra: object) -> Change:
    """Add a condition, in its own words."""
    title = condition_of_json(extra).title
    return lambda values: values["conditions"].append({"text": title, **extra})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (condition(kind="bounds", upper=1), "conditions that the manifest states do not hold in its tables"),
        (condition(kind="total", equals=3), "conditions that the manifest states do not hold in its tables"),
        (
            at("privacy", "budget", value={"epsilon": "1"}),
            "a budget in rho, or in epsilon at a delta, and",
        ),
    ],
)
def test_a_forged_tree_is_refused_in_words_about_what_is_public(change: Change, words: str, tmp_path: Path) -> None:
    """Forged whole, with the plan of its receipt: nobody who reads a bundle has confidential data to correct."""
    chain = hierarchy(noise="double_geometric", method="conditional")
    place = written(tmp_path, chain, leaves(12))
    with pytest.raises(BundleError, match=words) as refused:
        verify_bundle(forge(place, change))
    assert "confidential" not in str(refused.value)


def test_a_missing_spine_is_said(place: Path) -> None:
    (place / "spine.parquet").unlink()
    with pytest.raises(BundleError, match=r"no file spine\.parquet"):
        cg.load_bundle(place)


def test_spines_come_back() -> None:
    mechanism = hierarchy(has_zeros=True)
    out = BytesIO()
    write_spine(mechanism.tree, mechanism.zeros, None, out)
    content = out.getvalue()
    tree, zeros, _ = read_spine(BytesIO(content), mechanism.tree.levels, 4, 12)
    assert [tree.texts(level) for level in range(3)] == [codes.tolist() for codes in mechanism.tree.codes]
    assert np.array_equal(zeros.masks[-1], mechanism.zeros.masks[-1])
    columns = parquet_arrays(content)
    for wrong in ({**columns, "zeros": np.array(["012"] * 12, object)}, {**columns, "block": columns["block"][::-1]}):
        with pytest.raises(BundleError, match=r"spine\.parquet"):
            read_spine(BytesIO(arrays_to_parquet(wrong)), mechanism.tree.levels, 4, 12)


def test_a_stopped_tree_is_gone_on_with(tmp_path: Path) -> None:
    """The same tables, and no second charge."""
    mechanism, counts = hierarchy(), leaves(12)
    ledger = cg.open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("town", rho="1", neighbours="bounded", who="Ada")
    names = {"dataset": "town", "release": "tree"}
    (tmp_path / "taken").mkdir()
    from congenial import published_release as released

    before = released.Release.write
    try:
        released.Release.write = lambda *_, **__: (_ for _ in ()).throw(OSError("full"))  # type: ignore[method-assign]
        with pytest.raises(BundleError, match="was charged"):
            mechanism.release(counts, ledger=ledger, who="Ada", folder=tmp_path / "tree", **names)
    finally:
        released.Release.write = before  # type: ignore[method-assign]
    mechanism.resume(counts, ledger=ledger, folder=tmp_path / "tree", **names)
    assert cg.load_bundle(tmp_path / "tree").manifest.receipt is not None
    assert ledger.verify().n_spends == 1


def test_bad_leaves_are_refused_without_a_word_about_them(tmp_path: Path) -> None:
    mechanism = hierarchy(has_zeros=True)
    ledger = cg.open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("town", rho="1", neighbours="bounded", who="Ada")
    for counts, error in ((leaves(12), BrokenError), (-leaves(12), BrokenError), (leaves(6), HierarchyError)):
        with pytest.raises(error) as refused:
            mechanism.release(counts, ledger=ledger, dataset="town", release="t", who="Ada")
        assert not any(str(n) in str(refused.value).replace("2^53", "") for n in (7, 8, 9))
    assert ledger.verify().n_spends == 0


def test_noise_too_wide_for_its_tables_is_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("congenial.sampling.allocation_to_children.tilts_and_normaliser._MOST_SIDE", 1000)
    level_noise.cache_clear()
    tree = cg.Tree.of_prefixes(CODES, {"state": 1, "county": 2}, "block")
    levels = {"state": "1", "county": "1", "block": "1/10000000"}
    mechanism = cg.Hierarchy(tree, SCHEMA, invariants=[cg.total()], precisions=levels, method="conditional")
    ledger = cg.open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("town", rho="9", neighbours="bounded", who="Ada")
    with pytest.raises(SamplingError, match="give its level a larger share"):
        mechanism.release(leaves(12), ledger=ledger, dataset="town", release="t", who="Ada")
    assert ledger.verify().n_spends == 0


def exact_hierarchy(method: str = "measured") -> Hierarchy:
    tree = cg.Tree.of_prefixes(CODES, {"state": 1, "county": 2}, "block")
    invariants = {"state": [cg.total()], "county": [cg.total({"age": "o"})], "block": [cg.total()]}
    return cg.Hierarchy(tree, SCHEMA, invariants=invariants, rho="1", method=method)


def test_exact_numbers_below_the_top_come_back(tmp_path: Path) -> None:
    place = written(tmp_path, exact_hierarchy(), leaves(12))
    bundle = cg.load_bundle(place)
    assert np.array_equal(bundle.level("block")[1].sum(axis=1), leaves(12).sum(axis=1))
    old = leaves(12)[:, [1, 3]].sum(axis=1).reshape(4, 3).sum(axis=1)
    assert np.array_equal(bundle.level("county")[1][:, [1, 3]].sum(axis=1), old)
    assert any("report.html was made again" in line for line in verify_bundle(place).checked)
    text = (place / "README.txt").read_text()
    assert "total, of every block" in text
    assert "total of age=o, of every county" in text


@pytest.mark.parametrize(("method", "words"), [("measured", "break a condition"), ("conditional", "digest")])
def test_a_person_moved_against_an_exact_number_is_found(method: str, words: str, tmp_path: Path) -> None:
    """The tables still add up, but a block has another total than the one that was charged and certified."""
    place = written(tmp_path, exact_hierarchy(method), leaves(12))
    columns = parquet_arrays((place / "level-3-block.parquet").read_bytes())
    cell = next(name for name, column in columns.items() if name != "code" and column[1] > 0)
    columns[cell] = columns[cell] + np.array([1, -1, *[0] * 10])
    changed(place, "level-3-block.parquet", arrays_to_parquet(columns))
    with pytest.raises(BundleError, match=words):
        cg.load_bundle(place)


def test_exact_numbers_that_cannot_be_are_refused() -> None:
    tree = cg.Tree.of_prefixes(CODES, {"state": 1, "county": 2}, "block")

    def made(
        noise: str = "discrete_gaussian", method: str = "measured", **invariants: Sequence[Condition]
    ) -> Hierarchy:
        return cg.Hierarchy(tree, SCHEMA, invariants=invariants, rho="1", noise=noise, method=method)

    with pytest.raises(HierarchyError, match="'count' is not a level"):
        made(count=[cg.total()])
    with pytest.raises(HierarchyError, match="sums of cells"):
        made(county=[cg.structural_zeros({"sex": "f"})])
    with pytest.raises(HierarchyError, match="states its value"):
        made(county=[cg.total(equals=7)])
    for conditions in ([cg.linear([[1, 2], [3, 1]])], [cg.total(), cg.linear([[1, 2], [3, 1]])]):
        with pytest.raises(HierarchyError, match="coefficients other than 1"):
            made(county=conditions)
    margins = [cg.margin("sex"), cg.margin("age")]
    with pytest.raises(HierarchyError, match=r"cross each other, .*or write method: measured"):
        made(method="conditional", county=margins)
    made(county=margins)  # of 2 x 2 cells they leave one number of a county free, and are decided
    wide = cg.Schema({"sex": ["f", "m"], "age": ["y", "o", "z"]})
    with pytest.raises(HierarchyError, match="cross each other and leave more than one number of a unit free"):
        cg.Hierarchy(tree, wide, invariants={"county": margins}, rho="1")
    with pytest.raises(HierarchyError, match="discrete Gaussian"):
        made("double_geometric", "conditional", county=[cg.total()])
    single = cg.Tree.of_prefixes(CODES[:6], {"state": 1, "county": 2}, "block")
    pinned = cg.Hierarchy(single, SCHEMA, invariants={"block": [cg.margin("sex", "age")]}, rho="1")
    with pytest.raises(PrivacyError, match="no cell and no leaf"):
        _ = pinned.plan(pinned.disclose(LEAVES[:6])).certificate

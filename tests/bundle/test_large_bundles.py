"""Small bundles that ask for much: refused in words, before room is made for what they say they hold.

Whoever forges a bundle computes every digest anew, so digests stop none of these.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import congenial as cg
from commands import run_python
from congenial.bundle.canonical_json import canonical_json, digest
from congenial.bundle.verify import verify_bundle
from congenial.conditions.areas_and_bounds import Areas
from congenial.errors import BundleError, ConditionError, HierarchyError, SchemaError
from congenial.inference.analyst_bundle import load_bundle
from congenial.safe_text import LONGEST
from congenial.tree.tree_and_zeros import MOST_ROOM
from releases import CASES, NOW, ledger_for, place, release

LIMIT = 6 << 30  # bytes of addresses that a verification may ask for
MOST = 800 << 20  # bytes of memory that it may take, Python and its packages included
VERIFY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
from congenial.bundle.verify import verify_bundle
from congenial.errors import BundleError
try:
    verify_bundle(sys.argv[1])
except BundleError as refused:
    print(refused)
print(next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
N = 500_000
LEVELS = ("state", "county", "block")


def packed(columns: Mapping[str, pa.Array], padding: int = 0) -> bytes:
    """Return a Parquet file as small as it can be, and so many bytes that mean nothing."""
    out = BytesIO()
    table = pa.table(dict(columns))
    large = {"row_group_size": 10**9, "data_page_size": 1 << 30, "max_rows_per_page": 10**9}
    parquet.write_table(table, out, compression="zstd", store_schema=False, write_statistics=False, **large)
    content = out.getvalue()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    return content[:footer] + bytes(padding) + content[footer:]


def constant(text: str, n: int = N) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([text]))


def in_turn(texts: list[str], n: int = N) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array((np.arange(n) % len(texts)).astype(np.int32)), pa.array(texts))


def zeros(n: int = N) -> pa.Array:
    return pa.array(np.zeros(n, np.int64))


def restamp(folder: Path, change: Callable[[dict[str, Any]], None], files: Mapping[str, bytes]) -> None:
    """Write files and change a manifest, with every digest computed anew."""
    values = json.loads((folder / "manifest.json").read_bytes())
    values.pop("digest")
    for name, content in files.items():
        (folder / name).write_bytes(content)
        values["files"][name] = digest(content)
    change(values)
    (folder / "manifest.json").write_bytes(canonical_json({**values, "digest": digest(canonical_json(values))}))


def units(n: int) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        for level in values["law"]["tree"]["levels"][1:]:
            level["units"] = n

    return change


def level_of(codes: pa.Array) -> bytes:
    cells = {f"sex={sex}, age={age}": zeros(len(codes)) for sex in "fm" for age in "yo"}
    return packed({"code": codes, **cells})


@dataclass(frozen=True)
class Attack:
    """What is written into a folder, and the words of its refusal."""

    case: str
    files: Callable[[Path], Mapping[str, bytes]]
    words: str
    change: Callable[[dict[str, Any]], None] = lambda values: None
    memory: str = ""  # that is set; half of the computer's if none is


def spine(*columns: pa.Array, zeros_column: pa.Array | None = None) -> Callable[[Path], dict[str, bytes]]:
    """Return a spine with files of levels that fit it."""
    named = dict(zip(LEVELS, columns, strict=True))
    more = {} if zeros_column is None else {"zeros": zeros_column}
    levels = {f"level-{number}.parquet": level_of(columns[number - 1]) for number in (2, 3)}
    return lambda _: {"spine.parquet": packed({**named, **more}, 40_000), **levels}


def spine_alone(state: str, county: str) -> Callable[[Path], dict[str, bytes]]:
    """Return a spine whose leaves all have codes of their own."""
    leaves = in_turn([f"{place:06}" for place in range(300_000)], 300_000)
    columns = [constant(state, 300_000), constant(county, 300_000), leaves]
    return lambda _: {"spine.parquet": packed(dict(zip(LEVELS, columns, strict=True)))}


def cells_of_many_letters(values: dict[str, Any]) -> None:
    labels = [f"{place}" for place in range(300)]
    values["law"]["dimensions"] = [
        {"name": "a", "labels": [*labels, "x" * LONGEST]},
        {"name": "b", "labels": labels},
        {"name": "c", "labels": labels[:100]},
    ]


def one_long_label(values: dict[str, Any]) -> None:
    values["law"]["dimensions"][0]["labels"][0] = "f" * 1_000_000


def endless_rows(values: dict[str, Any]) -> None:
    labels = [f"{place}" for place in range(200)]
    values["law"]["dimensions"] = [{"name": name, "labels": labels} for name in "abc"]
    values["law"]["rows"] = [{"text": "x", "cells": [[0, 7_999_999]]}] * 3_000


def many_limits(values: dict[str, Any]) -> None:
    labels = [f"{place}" for place in range(200)]
    values["law"]["dimensions"] = [{"name": name, "labels": labels} for name in "abc"]
    values["law"]["measured"] = []
    values["law"]["groups"] = values["law"]["groups"][:1] * 200


def many_cells(values: dict[str, Any]) -> None:
    values["law"]["dimensions"] = [{"name": f"d{place}", "labels": ["0", "1"]} for place in range(21)]
    values["law"]["measured"][0]["rows"] = "each cell"


LETTERS = [f"{place:06}" for place in range(1_000)]
ATTACKS = {
    "one long code": Attack(
        "tree", spine(constant("x" * 10_000), constant("y"), constant("z")), "10,000 char", units(N)
    ),
    "one long code of many": Attack(
        "tree", spine(constant("1"), constant("2"), in_turn([*LETTERS, "é" * 50_000])), "50,000 char", units(N)
    ),
    "codes as long as they may be": Attack(
        "tree", spine_alone("é" * LONGEST, "y"), "more than 1,073,741,824", units(300_000)
    ),
    "all levels together": Attack("tree", spine_alone("é" * 500, "è" * 500), "more than 1,073,741,824", units(300_000)),
    "rows that repeat": Attack("tree", spine(*map(constant, "xyz")), "a block is listed twice", units(N)),
    "more rows than bytes": Attack(
        "tree", spine(*(constant(text, 20_000_000) for text in "xyz")), "no file packs so many", units(20_000_000)
    ),
    "more rows than are stated": Attack(
        "tree",
        spine(*(constant(text, 20_000_000) for text in "xyz")),
        "12 rows that the manifest describes, but 20,000,000",
    ),
    "units without end": Attack("tree", lambda _: {}, "GB of memory", units(10**12)),
    "no units": Attack("tree", lambda _: {}, "no leaf", units(0)),
    "a level that repeats": Attack(
        "tree",
        lambda _: {"level-3-block.parquet": level_of(constant("x" * 9_999, 9_000_000))},
        "12 rows that the manifest describes, but 9,000,000",
    ),
    "a long code in a level": Attack(
        "tree",
        lambda _: {"level-3-block.parquet": level_of(in_turn([*LETTERS[:11], "x" * 10**7], 12))},
        "unpacks to 10,000,",
    ),
    "zeros of more cells": Attack(
        "tree",
        spine(*(in_turn(LETTERS[:12], 12) for _ in LEVELS), zeros_column=constant("0" * 100_000, 12)),
        "100,000 char",
    ),
    "areas with one long label": Attack(
        "areas",
        lambda _: {"areas.parquet": packed({"area": constant("x" * 9_999), "group": groups(N)}, 40_000)},
        "9,999 char",
    ),
    "an area again and again": Attack(
        "areas",
        lambda _: {"areas.parquet": packed({"area": constant("01"), "group": groups(N)}, 40_000)},
        "an area twice",
    ),
    "areas that are not in the file": Attack(
        "areas",
        lambda _: {"areas.parquet": packed({"area": constant("x", 50_000_000), "group": groups(50_000_000)})},
        "no file packs so many",
    ),
    "a table that repeats": Attack(
        "areas",
        lambda _: {
            "table.parquet": packed(
                {
                    **{
                        name: constant(text, 30_000_000)
                        for name, text in (("area", "01"), ("sex", "f"), ("age", "010"))
                    },
                    "count": zeros(30_000_000),
                }
            )
        },
        "12 rows that the manifest describes, but 30,000,000",
    ),
    "one long label": Attack("areas", lambda _: {}, "1,000,000 characters", one_long_label),
    "labels of many cells": Attack("areas", lambda _: {}, "together more than", cells_of_many_letters),
    "rows without end": Attack("areas", lambda _: {}, "rows and limits of its law take", endless_rows),
    "a row for each of many cells": Attack("areas", lambda _: {}, "rows and limits of its law take", many_cells, "1GB"),
    "limits of many groups": Attack("areas", lambda _: {}, "rows and limits of its law take", many_limits, "4GB"),
}


def groups(n: int) -> pa.Array:
    return pa.array(np.zeros(n, np.int32))


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A bundle of areas and one of a tree, each small."""
    folder = tmp_path_factory.mktemp("originals")
    spec, ledger = place(folder, CASES["areas"]), ledger_for(folder, CASES["areas"])
    release(spec, folder / "areas", ledger=ledger, who="Ada", now=NOW)
    schema = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
    codes = [f"{state}{county}{block}" for state in "12" for county in "ab" for block in "xyz"]
    hierarchy = cg.Hierarchy(
        cg.Tree.of_prefixes(codes, {"state": 1, "county": 2}, "block"), schema, invariants=[cg.total()], rho="1"
    )
    book = cg.open_ledger(folder / "tree.db", create=True)
    book.create_dataset("town", rho="3", neighbours="bounded", who="Ada")
    counts = np.arange(48).reshape(12, 4)
    hierarchy.release(counts, ledger=book, dataset="town", release="t", who="Ada", folder=folder / "tree")
    return {"areas": folder / "areas", "tree": folder / "tree"}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_small_bundle_that_asks_for_much_is_refused(name: str, originals: dict[str, Path], tmp_path: Path) -> None:
    attack = ATTACKS[name]
    folder = Path(shutil.copytree(originals[attack.case], tmp_path / "bundle"))
    files = attack.files(folder)
    restamp(folder, attack.change, files)
    assert sum(map(len, files.values())) < 1_000_000, "the attack is small"
    done = run_python(VERIFY, folder, LIMIT, CONGENIAL_MEMORY=attack.memory)
    assert done.returncode == 0, done.stderr
    words, taken = done.stdout.strip().rsplit("\n", 1)
    assert attack.words in words
    assert "than this process can have" not in words, "refused for what it says, not when memory was gone"
    assert int(taken) < MOST, f"{int(taken):,}"


def test_the_command_refuses_it_in_words(originals: dict[str, Path], tmp_path: Path) -> None:
    attack = ATTACKS["one long code"]
    folder = Path(shutil.copytree(originals["tree"], tmp_path / "bundle"))
    restamp(folder, attack.change, attack.files(folder))
    program = "import resource, sys\nresource.setrlimit(resource.RLIMIT_AS, (6 << 30,) * 2)\n"
    done = run_python(program + "from congenial.cli.main import main\nmain(sys.argv[1:])", "verify", folder)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "10,000 characters, and the limit is 1,000" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "where", ["read.read_tree", "read._tables", "recompute._recomputed", "report_and_readme.readme"]
)
def test_no_memory_left_is_a_refusal(where: str, originals: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever in a verification finds no room: reading, computing again, pages."""

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(f"congenial.bundle.{where}", full)
    with pytest.raises(BundleError, match="takes more memory than this process can have"):
        verify_bundle(originals["tree"])
    if where != "report_and_readme.readme":
        with pytest.raises(BundleError, match="takes more memory than this process can have"):
            load_bundle(originals["tree"])


def test_arrow_without_memory_is_not_damage(originals: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc failed")

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", full)
    with pytest.raises(BundleError, match="takes more memory than this process can have"):
        load_bundle(originals["tree"])


@pytest.mark.parametrize("case", ["areas", "tree"])
def test_digests_are_compared_before_anything_is_decoded(
    case: str, originals: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(originals[case], tmp_path / "bundle"))
    for path in folder.glob("*.parquet"):
        path.write_bytes(path.read_bytes()[::-1])

    def decoded(*_: object, **__: object) -> None:
        pytest.fail("a file was opened by Arrow")

    for name in ("ParquetFile", "read_schema", "read_metadata"):
        monkeypatch.setattr(parquet, name, decoded)
    with pytest.raises(BundleError, match=r"table\.parquet was changed"):
        load_bundle(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "level-2.parquet.exe", "report.html\n", "signature.json"])
def test_no_file_beside_those_of_a_bundle_is_opened(name: str, originals: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(originals["areas"], tmp_path / "bundle"))
    (tmp_path / "secret").write_text("x")
    restamp(folder, lambda values: values["files"].update({name: "0" * 64}), {})
    with pytest.raises(BundleError, match=r"no bundle has such a file|does not show"):
        load_bundle(folder)


# ---- what is refused in a bundle is refused where it comes in


def test_labels_and_codes_have_a_limit_where_they_come_in() -> None:
    long = "x" * (LONGEST + 1)
    words = "1,001 characters, and the limit is 1,000"
    for wrong in ({"a": ["b", long]}, {long: ["b"]}):
        with pytest.raises(SchemaError, match=words):
            cg.Schema(wrong)
    with pytest.raises(SchemaError, match=words):
        cg.Schema({"a": ["b", "c"]}, groups={"a": {long: ["b"]}})
    schema = cg.Schema({"a": ["b", long[1:]]})
    for areas, name in (({"c": [1, 2], long: [1, 2]}, "area"), ({"c": [1, 2]}, long)):
        with pytest.raises(ConditionError, match=words):
            Areas.disclosed(schema, [], areas, name=name)
    for columns in ({"a": ["1", "1"], "b": ["1", long]}, {"a": ["1"], long: ["2"]}, {"a": [long], "b": ["2"]}):
        with pytest.raises(HierarchyError, match=words):
            cg.Tree.of_parents(columns)
    assert cg.Tree.of_parents({"a": ["1", "1"], "b": ["1", long[1:]]}).n_leaves == 2


def test_codes_take_no_more_room_than_a_bundle_allows() -> None:
    n_leaves = MOST_ROOM // LONGEST // 4 + 1
    leaves = np.arange(n_leaves).astype("S8")
    above = np.broadcast_to(np.array(["é" * LONGEST]), n_leaves)
    with pytest.raises(HierarchyError, match="shorten the longest codes, which are of state"):
        cg.Tree.of_parents({"state": above, "block": leaves})


def test_texts_as_long_as_they_may_be_come_back(tmp_path: Path) -> None:
    """A label, an area and codes of 1,000 characters, four bytes each, are released and verified."""
    long = ["𝔁" * (LONGEST - 1) + letter for letter in "abcdef"]
    tree = cg.Tree.of_parents({long[0]: [long[1], long[1], long[2]], long[3]: long[:3]})
    schema = cg.Schema({long[4]: [long[5], "m"]})
    hierarchy = cg.Hierarchy(tree, schema, invariants=[cg.total()], rho="1")
    ledger = cg.open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("town", rho="3", neighbours="bounded", who="Ada")
    counts = np.array([[3, 4], [5, 0], [2, 2]])
    hierarchy.release(counts, ledger=ledger, dataset="town", release="t", who="Ada", folder=tmp_path / "out")
    loaded = verify_bundle(tmp_path / "out").bundle.tree
    assert loaded is not None
    assert loaded.texts(1) == long[:3]


@pytest.mark.parametrize("layout", [{"row_group_size": 5}, {"row_group_size": 100}, {"use_dictionary": False}])
def test_other_layouts_of_the_same_rows_are_read(
    layout: dict[str, Any], originals: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row groups of any size, with more texts than a part of their rows has: the same tree and areas."""
    monkeypatch.setattr("congenial.bundle.parquet.AT_ONCE", 3)
    for case, names in {"tree": ["spine.parquet", "level-3-block.parquet"], "areas": ["areas.parquet"]}.items():
        folder = Path(shutil.copytree(originals[case], tmp_path / case))
        files = {}
        for name in names:
            out = BytesIO()
            parquet.write_table(parquet.read_table(folder / name), out, store_schema=False, **layout)
            files[name] = out.getvalue()
        restamp(folder, lambda values: None, files)
        loaded, before = load_bundle(folder), load_bundle(originals[case])
        assert np.array_equal(loaded.counts, before.counts)
        assert all(map(np.array_equal, loaded.levels, before.levels))
        assert loaded.law.areas.labels == before.law.areas.labels

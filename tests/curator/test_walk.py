"""The walk of one release: what is parsed, read, built and searched, and how often."""

import shutil
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import congenial as cg
from congenial.curator.pipeline import example_files, release
from congenial.sampling.elimination import compiled_layout as layout
from congenial.spec.load import load_spec

ONCE = {
    ("spec/yaml_and_mistakes.py", "parse"),
    ("reading/tables_and_data_checks.py", "read_together"),
    ("mechanism_and_hierarchy.py", "__init__"),
    ("conditions/constraints.py", "of"),
    ("request_to_plan.py", "plan"),
    ("privacy/certificate_inputs.py", "structures_of"),
    ("privacy/moves.py", "of"),
    ("privacy/closest_neighbours_and_unprotected.py", "closest_pair"),
    ("sampling/elimination/order.py", "find_order"),
}


def test_everything_is_made_once(tmp_path: Path) -> None:
    """P12 from its spec to its bundle, every call of the package counted."""
    folder = tmp_path / "p12"
    shutil.copytree(example_files(), folder)
    ledger = cg.open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("p12-example", epsilon="4", neighbours="bounded", who="Ada")
    source = Path(cg.__file__).parent
    calls: Counter[tuple[str, str]] = Counter()

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":  # a quarter of a million of them: paths are read afterwards
            calls[frame.f_code.co_filename, frame.f_code.co_name] += 1

    layout._elimination.cache_clear()  # other tests plan the same structure
    sys.setprofile(seen)
    try:
        release(load_spec(folder / "spec.yaml"), folder, tmp_path / "out", ledger=ledger, who="Ada")
    finally:
        sys.setprofile(None)
    assert {(file, name): calls[str(source / file), name] for file, name in ONCE} == dict.fromkeys(ONCE, 1)

"""A table made of published measurements: by a rule that failed before, by another one, or by newer software.

Whoever has a bundle can do this: it reads measurements and what is published beside them, and charges nothing, because
nothing about the data goes into it that the measurements do not say.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from congenial.bundle.manifest import Decision, Manifest
from congenial.bundle.naming_and_versions import software_in_use
from congenial.bundle.read import open_bundle
from congenial.bundle.recompute import Bundle, check_bundle
from congenial.bundle.signing import PrivateKey, read_private_key
from congenial.bundle.workload_bundle import WorkloadBundle, check_workload
from congenial.bundle.workload_files import measurement_files, workload_files
from congenial.bundle.workload_manifest import WorkloadManifest
from congenial.bundle.write import Unfinished, bundle_files, check_new, write_folder
from congenial.decided_tables import why_no_tables
from congenial.errors import BundleError
from congenial.progress_and_interrupts import WRITING, Progress, silent
from congenial.rules.registry import rule_named
from congenial.tree.tree_and_zeros import TreeTables


def decide_again(
    folder: str | Path,
    out: str | Path,
    *,
    rule: str | None = None,
    outputs: Sequence[str] = ("csv", "parquet", "report"),
    sign: str | Path | None = None,
    progress: Progress = silent,
) -> Path:
    """Write a further edition of a measured bundle, with tables by a rule: same measurements, same receipt.

    Parameters
    ----------
    folder : path
        The bundle; it is verified first, and stays as it is.
    out : path
        A folder that does not exist yet.
    rule : str, optional
        The rule that the release was charged with if not given. Any other one was chosen by somebody who could see the
        measurements, and the edition says so.
    sign : path, optional
        A private key to sign the edition with.
    """
    place, key = Path(out), None if sign is None else read_private_key(Path(sign))
    check_new(place)
    opened = open_bundle(folder, progress=progress)
    if isinstance(opened.manifest, WorkloadManifest):
        write_folder(place, _tables_again(check_workload(opened), rule, tuple(outputs), key, progress))
        return place
    bundle = check_bundle(opened)
    manifest, tables = _decided(bundle, rule, progress)

    def fill(new: Unfinished) -> None:
        bundle_files(new, manifest, tables, tuple(outputs), key, progress, bundle.measured_levels)

    progress(WRITING)
    write_folder(place, fill)
    return place


def _tables_again(
    bundle: WorkloadBundle, rule: str | None, outputs: tuple[str, ...], key: PrivateKey | None, progress: Progress
) -> Callable[[Unfinished], None]:
    """Return what writes a further edition of several tables of the same records."""
    manifest, law = bundle.manifest, bundle.law
    if rule not in {None, law.rule[0]}:
        raise BundleError(
            f"several tables of the same records are decided by the rule {law.rule[0]!r}, not by {rule!r}: leave it out"
        )
    decision = bundle.plan.decide(bundle.measured_levels, progress)
    facts = (manifest.naming, manifest.made_at, manifest.plan, manifest.conditions, manifest.receipt)
    used = Decision(law.rule)
    edition = WorkloadManifest.of_plan(*facts, software_in_use(), manifest.disclosures, used)

    def fill(new: Unfinished) -> None:
        measurement_files(new, law, bundle.measured_levels)
        workload_files(new, edition, bundle.measured_levels, decision, outputs, key, progress)

    return fill


def _decided(bundle: Bundle, rule: str | None, progress: Progress) -> tuple[Manifest, TreeTables]:
    """Return the manifest of a further edition, and the tables of every level."""
    manifest, law = bundle.manifest, bundle.law
    if not bundle.measured_levels or law.rule is None:
        raise BundleError(
            f"release {manifest.naming.release!r} was made by the conditional method: its tables are drawn, and no rule"
            " makes others"
        )
    charged, version = law.rule
    named = rule_named(charged, version) if rule is None else rule_named(rule)
    used = named.name, named.version
    plan = replace(manifest.plan, law=replace(law, rule=used))
    if rule is not None and (why := why_no_tables(plan.law)) is not None:
        raise BundleError(f"the rule {used[0]!r} makes no tables of these measurements: {why}")
    tables, learned = plan.decide_and_learn(bundle.measured_levels, progress)
    decision = Decision(used, is_after_publication=used != law.rule, learned=learned)
    facts = (manifest.naming, manifest.made_at, manifest.plan, manifest.conditions, tables[0], manifest.receipt)
    return Manifest.of(*facts, software_in_use(), manifest.disclosures, decision), tables

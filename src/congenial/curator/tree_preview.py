"""What the release of a tree will publish and cost, and the error to expect at each level. Public."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.bundle.privacy_json import certificate_json
from congenial.bundle.tree_report import LevelError, level_errors, level_lines
from congenial.curator.given_away import given_away_json, given_away_lines
from congenial.curator.pipeline import prepare
from congenial.curator.public_tables import even_table
from congenial.curator.published_before import Planned
from congenial.curator.section import Section, bare_section, cost_section
from congenial.hierarchy.leaves import check_leaves
from congenial.hierarchy.plan import ChainPlan
from congenial.hierarchy.words import ChainWords
from congenial.privacy.review import Review
from congenial.privacy.semantics import meaning
from congenial.progress import Progress, no_news
from congenial.randomness import replay_rng
from congenial.reading.reference import check_public, read_reference_leaves
from congenial.release import exact_texts
from congenial.spec.spec import Spec

MADE_UP = "a made-up population: the top even, its people spread very unevenly over the leaves"
_ABOVE = ", and so of every unit above it"


@dataclass(frozen=True, repr=False)
class TreeReference:
    """A public population to compute around: its leaves (leaf, cell), and the tree planned with its exact numbers."""

    name: str
    chain: ChainPlan
    leaves: Ints


@dataclass(frozen=True, repr=False)
class TreePreview:
    """The plan of a tree, and the error to expect around a made-up population."""

    spec: Spec
    chain: ChainPlan
    digest: str
    reviews: tuple[Review, ...]
    """What the invariants give away by themselves, level by level."""
    reference: TreeReference | None = None
    exact: tuple[tuple[str, str], ...] = ()
    """What will be stated exactly, as a ledger records it; confidential until the release."""

    @property
    def planned(self) -> Planned:
        """What earlier releases are compared with: of the top, which is what a table without levels would be."""
        top = self.errors[0] if self.errors else None
        errors = {} if top is None else {"total": top.total}
        kinds = () if top is None else ((f"a cell of a {top.name}", top.cell),)
        return Planned(self.spec.release, self.chain.certificate, self.exact, errors, kinds)

    @cached_property
    def leaves(self) -> Ints:
        """A made-up population (leaf, cell) that obeys what is published."""
        law, tree = self.chain.law, self.chain.law.tree
        weights = self._weights()
        top = np.zeros(tree.n_leaves, np.int64)
        for parents in tree.parents:
            top = parents if parents is tree.parents[0] else top[parents]
        out = np.zeros((tree.n_leaves, law.n_cells), np.int64)
        bars = law.zeros.bars[-1] if law.zeros.bars else np.zeros(out.shape, np.bool_)
        for place, area in enumerate(law.areas):
            mine = np.flatnonzero(top == place)
            even = even_table(law.top, law.top.areas[area])
            for cell, people in enumerate(even.tolist()):
                out[mine, cell] = _shared(people, np.where(bars[mine, cell], 0.0, weights[mine]))
        if not law.exact:
            return out
        # A draw around it has the exact numbers of every unit.
        return self.chain.draw(out, ChainWords.simulated(replay_rng("made-up population")))[-1]

    def _weights(self) -> Floats:
        """Return how populous leaves are: very uneven, and in units with exact numbers as many as they have."""
        law, tree = self.chain.law, self.chain.law.tree
        weights: Floats = np.log(replay_rng("made-up population").uniforms(tree.n_leaves)) ** 2
        units = np.arange(tree.n_leaves)
        for level in range(len(law.exact) - 1, -1, -1):
            exact = law.exact[level]
            if exact is not None:
                sums = np.bincount(units, weights, minlength=len(exact.values))
                return np.asarray(weights / sums[units] * exact.values.max(axis=1)[units])
            units = tree.parents[level][units]
        return weights

    @property
    def _around(self) -> tuple[ChainPlan, Ints]:
        """What errors are computed around: a reference, or what is made up."""
        given = self.reference
        return (self.chain, self.leaves) if given is None else (given.chain, given.leaves)

    @cached_property
    def released(self) -> tuple[Ints, ...]:
        """The tables of each level (unit, cell) that errors are computed around."""
        chain, leaves = self._around
        return chain.law.tree.summed(leaves)

    @cached_property
    def errors(self) -> list[LevelError]:
        """What to expect at each level; nothing of a tree that is too large to draw once more."""
        return level_errors(self._around[0], self.released)

    @cached_property
    def lines(self) -> tuple[list[str], list[list[str]]]:
        """A header and a line for each level: how precise it is, and what that means."""
        errors: list[LevelError | None] = [*self.errors] or [None] * len(self.released)
        header = ["level", "units", "share of the budget", "noise", "error of a cell", "of a total", "bias by count"]
        rows = []
        for line, error in zip(level_lines(self.chain, self.released), errors, strict=True):
            found = ["not computed", "not computed", ""]
            if error is not None:
                bias = ", ".join(f"{size}: {mean:+,.2f}" for size, mean in error.biases)
                found = [f"{error.cell:,.2f}", f"{error.total:,.2f}", bias]
            rows.append([line[0], line[1], line[3], line[4], *found])
        return header, rows

    def screen(self, *, full: bool = False) -> list[Section]:
        """Return the sections of the first screen; with `full`, those for the expert as well."""
        spec, chain = self.spec, self.chain
        certificate, tree = chain.certificate, chain.law.tree
        exact = {
            level: [
                statement.condition.title for statement in spec.invariants if (statement.at or tree.levels[0]) == level
            ]
            for level in tree.levels
        }
        cells = f"{chain.law.n_cells:,} cells by {' and '.join(spec.schema.names)}"
        files = [
            f"{len(codes):,} {'table' if len(codes) == 1 else 'tables'} of a {name}"
            for name, codes in zip(tree.levels, tree.codes, strict=True)
        ]
        exactly = [
            f"Exactly, of each {level}{_ABOVE if level != tree.levels[0] else ''}: {'; '.join(titles)}."
            for level, titles in exact.items()
            if titles
        ]
        adding_up = f"A tree of tables that add up, of {cells}: {', '.join(files)}."
        bare = bare_section(chain.not_protected_text, given_away_lines(self.reviews, self.unit))
        sections = [
            *([] if bare is None else [bare]),
            Section("What will be published", [adding_up, *(exactly or ["Nothing of it exactly."])]),
            cost_section(chain, spec.dataset),
            Section("What stays protected", [*spec.membership, str(meaning(certificate, chain.top.neighbourhood))]),
        ]
        if not full:
            return sections
        drawn = [chain.top.sampler.describe(), *dict.fromkeys(step.title for step in chain.law.steps)]
        return [
            *sections,
            Section("For the expert: certificate", [certificate.statement, f"proof and audit: {certificate.page}"]),
            Section("For the expert: sampler", [*drawn, *(chain.rehearse() if chain.law.exact else ())]),
        ]

    @property
    def unit(self) -> str:
        """What a protected unit is called."""
        return "person" if self.spec.unit is None else self.spec.unit.word

    @property
    def title(self) -> str:
        """What the errors are computed around."""
        return f"Mean absolute error to expect, around {self.around}"

    @property
    def around(self) -> str:
        """What the errors are computed around."""
        return MADE_UP if self.reference is None else self.reference.name

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        header, rows = self.lines
        return {
            "release": self.spec.release,
            "dataset": self.spec.dataset,
            "levels": [dict(zip(header, row, strict=True)) for row in rows],
            "cells": self.chain.law.n_cells,
            "cost": {"currency": self.chain.spent.currency, "amount": str(self.chain.spent.amount)},
            "certificate": certificate_json(self.chain.certificate),
            "not_protected": self.chain.not_protected_text,
            "given_away": given_away_json(self.reviews, self.unit),
            "plan_digest": self.digest,
            "around": self.around,
        }


def _shared(people: int, weights: Floats) -> Ints:
    """Return whole numbers that add up, near the shares of weights."""
    if people == 0 or not weights.sum():
        return np.zeros(weights.size, np.int64)
    ideal = people * weights / weights.sum()
    out: Ints = np.floor(ideal).astype(np.int64)
    out[np.argsort(out - ideal, kind="stable")[: people - int(out.sum())]] += 1
    return out


def tree_preview(spec: Spec, folder: Path, reference: Path | None = None, progress: Progress = no_news) -> TreePreview:
    """Return what a spec with a hierarchy will do. Of its data, only what the invariants disclose enters.

    Parameters
    ----------
    reference : path, optional
        A public file of the data's shape, such as last year's: errors are computed around it.
    """
    if reference is not None:
        check_public(spec, folder, reference)
    ready = prepare(spec, folder, progress)
    if ready.chain is None:
        raise ValueError("the spec has no hierarchy")
    law = ready.chain.law
    given = None
    if reference is not None:
        leaves = read_reference_leaves(spec, law.tree, reference)
        check_leaves(law.tree, law.n_cells, law.zeros, leaves)
        hierarchy = spec.tree_mechanism(law.tree, law.zeros)
        given = TreeReference(reference.name, hierarchy.plan(hierarchy.disclose(leaves)), leaves)
    return TreePreview(spec, ready.chain, ready.digest, ready.reviews, given, exact_texts(ready))

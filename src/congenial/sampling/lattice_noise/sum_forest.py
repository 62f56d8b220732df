"""Sums inside sums: how the coordinates of a lattice hang together, from public structure alone.

Coordinates whose columns are multiples of one another act on all rows through one sum. A soft row over one sum only is
a weight of that sum, and may let it join others; an equality over two sums ties them to one integer. What is left is a
forest of sums, and a few sums that rows still cross: a small lattice, a `Core`. Every weight is even, so a coordinate
may be turned round: signs are set at the end.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from math import gcd

import flint
import numpy as np

from congenial.arrays import Ints
from congenial.noise.weight import NoiseWeight
from congenial.sampling.lattice_noise.system import LatticeSystem

# Kinds of nodes. Nodes of one kind have one mass function S: the weight of all that is below, summed for each value.


@dataclass(frozen=True, eq=False)
class LeafKind:
    """A coordinate: ``S(k) = weight(k)``."""

    number: int
    weight: NoiseWeight


@dataclass(frozen=True, eq=False)
class PairKind:
    """A sum of two, ``times[0] * first + times[1] * second``: the convolution of their mass functions."""

    number: int
    parts: tuple["Kind", "Kind"]
    times: tuple[int, int]


@dataclass(frozen=True, eq=False)
class WeightedKind:
    """The same value with a further weight: ``S(k) = weight(factor * k) * base(k)``."""

    number: int
    base: "Kind"
    weight: NoiseWeight
    factor: int


@dataclass(frozen=True, eq=False)
class TiedKind:
    """Several values that are multiples of one integer z: ``S(z) = prod part(times * z)``."""

    number: int
    parts: tuple["Kind", ...]
    times: tuple[int, ...]


Kind = LeafKind | PairKind | WeightedKind | TiedKind


@dataclass(frozen=True, eq=False)
class Node:
    """A coordinate, or a value that those below it add up to or are tied to.

    Attributes
    ----------
    signs : tuple of int
        Of each child: whether its value or its negative enters.
    coordinate : int
        Of a leaf; else -1.
    """

    kind: Kind
    children: tuple["Node", ...] = ()
    signs: tuple[int, ...] = ()
    coordinate: int = -1


@dataclass(frozen=True, eq=False)
class Core:
    """Nodes that rows cross: integer values that every hard row makes 0, weighted by soft rows as well.

    Attributes
    ----------
    hard : tuple of coefficients
    soft : tuple of (coefficients, weight)
    """

    nodes: tuple[Node, ...]
    hard: tuple[tuple[int, ...], ...]
    soft: tuple[tuple[tuple[int, ...], NoiseWeight], ...]

    @cached_property
    def basis(self) -> Ints:
        """All values as integer combinations (vector, node), in echelon form.

        States are ordered by their coefficients, the first vector's first.
        """
        return _echelon_kernel(self.hard, len(self.nodes))

    @property
    def key(self) -> tuple[object, ...]:
        """What cores that have the same law share."""
        return tuple(node.kind.number for node in self.nodes), self.hard, self.soft


@dataclass(frozen=True)
class SumForest:
    """The coordinates of a lattice as sums inside sums.

    Attributes
    ----------
    kinds : tuple
        By number; parts come before wholes.
    free : tuple of Node
        Values that no row touches: each has the law of its mass function.
    pinned : tuple of Node
        Values that an equality makes 0.
    cores : tuple of Core

    Examples
    --------
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.noise import DoubleGeometric
    >>> one = DoubleGeometric(1).weight
    >>> forest = SumForest.of(LatticeSystem((one,) * 5, (Row.of("total", [0, 1, 2, 3]),)))
    >>> len(forest.free), len(forest.pinned), len(forest.cores)
    (1, 1, 0)
    """

    kinds: tuple[Kind, ...]
    free: tuple[Node, ...]
    pinned: tuple[Node, ...]
    cores: tuple[Core, ...]

    @classmethod
    def of(cls, system: LatticeSystem) -> "SumForest":
        """Return the forest of a system."""
        return _Reduction(system).forest()

    @property
    def roots(self) -> tuple[Node, ...]:
        """All nodes that are below no other."""
        return (*self.free, *self.pinned, *(node for core in self.cores for node in core.nodes))


@dataclass(eq=False)
class _Item:
    """A node that is no part of another yet, with its coefficient in each row that touches it."""

    node: Node
    column: dict[int, int]


@dataclass(eq=False)
class _Kinds:
    """Every kind once."""

    listed: list[Kind] = field(default_factory=list)
    known: dict[object, Kind] = field(default_factory=dict)

    def leaf(self, weight: NoiseWeight) -> Kind:
        return self._once(("leaf", weight), lambda number: LeafKind(number, weight))

    def pair(self, parts: tuple[Kind, Kind], times: tuple[int, int]) -> Kind:
        key = ("pair", parts[0].number, parts[1].number, times)
        return self._once(key, lambda number: PairKind(number, parts, times))

    def weighted(self, base: Kind, weight: NoiseWeight, factor: int) -> Kind:
        key = ("weighted", base.number, weight, factor)
        return self._once(key, lambda number: WeightedKind(number, base, weight, factor))

    def tied(self, parts: tuple[Kind, ...], times: tuple[int, ...]) -> Kind:
        key = ("tied", tuple(part.number for part in parts), times)
        return self._once(key, lambda number: TiedKind(number, parts, times))

    def _once(self, key: object, make: Callable[[int], Kind]) -> Kind:
        if key not in self.known:
            self.known[key] = make(len(self.listed))
            self.listed.append(self.known[key])
        return self.known[key]


class _Reduction:
    """Rows and items, reduced step by step. The order of all steps follows from the order of coordinates and rows."""

    def __init__(self, system: LatticeSystem) -> None:
        self.kinds = _Kinds()
        rows = [row.terms for row in system.equalities] + [soft.row.terms for soft in system.soft]
        self.hard = set(range(len(system.equalities)))
        self.soft = {len(self.hard) + number: soft.weight for number, soft in enumerate(system.soft)}
        columns: list[dict[int, int]] = [{} for _ in system.weights]
        for number, terms in enumerate(rows):
            for coordinate, times in terms.items():
                columns[coordinate][number] = times
        self.items = [
            _Item(Node(self.kinds.leaf(weight), coordinate=coordinate), column)
            for coordinate, (weight, column) in enumerate(zip(system.weights, columns, strict=True))
        ]
        self.free: list[Node] = []
        self.pinned: list[Node] = []

    def forest(self) -> SumForest:
        while self._weigh() or self._pin() or self._merge() or self._tie():
            pass
        cores = tuple(self._core(items) for items in self._components())
        return SumForest(tuple(self.kinds.listed), tuple(self.free), tuple(self.pinned), cores)

    def _touched(self, rows: Iterable[int]) -> dict[int, list[_Item]]:
        touched: dict[int, list[_Item]] = {row: [] for row in sorted(rows)}
        for item in self.items:
            for row in item.column:
                if row in touched:
                    touched[row].append(item)
        return touched

    def _weigh(self) -> bool:
        """Take soft rows over one item as its weight; those over none weigh nothing."""
        is_changed = False
        for row, items in self._touched(self.soft).items():
            if len(items) > 1:
                continue
            weight = self.soft.pop(row)
            for item in items:
                kind = self.kinds.weighted(item.node.kind, weight, abs(item.column.pop(row)))
                item.node = Node(kind, (item.node,), (1,))
                is_changed = True
        return is_changed

    def _pin(self) -> bool:
        """Take out the item of an equality over one item: its value is 0."""
        pinned: set[int] = set()
        for row, items in self._touched(self.hard).items():
            present = [item for item in items if id(item) not in pinned]
            if len(present) > 1:
                continue
            self.hard.remove(row)
            for item in present:
                self.pinned.append(item.node)
                pinned.add(id(item))
        self.items = [item for item in self.items if id(item) not in pinned]
        return bool(pinned)

    def _merge(self) -> bool:
        """Sum items whose columns are multiples of one another; items that no row touches are free."""
        alike: dict[tuple[tuple[int, int], ...], list[tuple[Node, int]]] = {}
        n_before = len(self.items)
        for item in self.items:
            if not item.column:
                self.free.append(item.node)
                continue
            direction, times = _primitive(item.column)
            alike.setdefault(direction, []).append((item.node, times))
        items = []
        for direction, members in alike.items():
            shared = gcd(*(times for _, times in members))
            shared = shared if members[0][1] > 0 else -shared
            node = self._sum([(node, times // shared) for node, times in members])
            items.append(_Item(node, {row: shared * times for row, times in direction}))
        self.items = items
        return len(items) < n_before

    def _sum(self, members: Sequence[tuple[Node, int]]) -> Node:
        """Return the sum of multiples of nodes, two by two; those of one kind first, so that few kinds come up."""
        if len(members) == 1:
            return members[0][0]
        ordered = sorted(members, key=lambda member: (abs(member[1]), member[0].kind.number))
        total: Node | None = None
        least = 1
        for times, same in groupby(ordered, key=lambda member: abs(member[1])):
            runs = groupby(same, key=lambda member: member[0].kind.number)
            halves = [self._halved([(node, sign // times) for node, sign in run]) for _, run in runs]
            part, sign = self._halved(halves)
            if total is None:
                # A first node that enters with a minus is turned round: signs of its children, of a leaf at the end.
                total, least, first_sign = part, times, sign
            else:
                total = self._pair((part, sign), (total, first_sign), (times, least))
                least, first_sign = 1, 1
        assert total is not None  # noqa: S101
        return total

    def _halved(self, members: Sequence[tuple[Node, int]]) -> tuple[Node, int]:
        """Return the sum of signed nodes, by halves."""
        if len(members) == 1:
            return members[0]
        half = len(members) // 2
        return self._pair(self._halved(members[:half]), self._halved(members[half:]), (1, 1)), 1

    def _pair(self, first: tuple[Node, int], second: tuple[Node, int], times: tuple[int, int]) -> Node:
        (one, one_sign), (other, other_sign) = first, second
        return Node(self.kinds.pair((one.kind, other.kind), times), (one, other), (one_sign, other_sign))

    def _tie(self) -> bool:
        """Replace the two items of an equality over two by the integer that both are multiples of.

        Equalities that share an item with one before them wait for the next time.
        """
        replaced: dict[int, _Item | None] = {}
        for row, items in self._touched(self.hard).items():
            if len(items) != 2 or any(id(item) in replaced for item in items):
                continue
            one, other = items
            a, b = one.column[row], other.column[row]
            shared = gcd(a, b)
            times = b // shared, -a // shared
            kind = self.kinds.tied((one.node.kind, other.node.kind), (abs(times[0]), abs(times[1])))
            signs = tuple(1 if number > 0 else -1 for number in times)
            column = {
                number: value
                for number in sorted({*one.column, *other.column})
                if (value := times[0] * one.column.get(number, 0) + times[1] * other.column.get(number, 0))
            }
            replaced[id(one)], replaced[id(other)] = _Item(Node(kind, (one.node, other.node), signs), column), None
            self.hard.remove(row)
        left = [replaced.get(id(item), item) for item in self.items]
        self.items = [item for item in left if item is not None]
        return bool(replaced)

    def _components(self) -> list[list[_Item]]:
        """Return the items that are left, those that rows connect together."""
        first = list(range(len(self.items)))  # an item joined with it, none with a larger number

        def root(number: int) -> int:
            while first[number] != number:
                first[number] = number = first[first[number]]
            return number

        place = {id(item): number for number, item in enumerate(self.items)}
        for items in self._touched({*self.hard, *self.soft}).values():
            roots = [root(place[id(item)]) for item in items]
            for number in roots:
                first[number] = min(roots)
        groups: dict[int, list[_Item]] = {}
        for number, item in enumerate(self.items):
            groups.setdefault(root(number), []).append(item)
        return list(groups.values())

    def _core(self, items: Sequence[_Item]) -> Core:
        hard = [terms for row in sorted(self.hard) if any(terms := tuple(item.column.get(row, 0) for item in items))]
        soft = [
            (terms, self.soft[row])
            for row in sorted(self.soft)
            if any(terms := tuple(item.column.get(row, 0) for item in items))
        ]
        return Core(tuple(item.node for item in items), tuple(hard), tuple(soft))


def _primitive(column: dict[int, int]) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return the column divided by the largest number that leaves integers, first entry positive; and that number."""
    terms = sorted(column.items())
    shared = gcd(*(times for _, times in terms))
    shared = shared if terms[0][1] > 0 else -shared
    return tuple((row, times // shared) for row, times in terms), shared


def _echelon_kernel(rows: Sequence[Sequence[int]], n_columns: int) -> Ints:
    """Return a basis (vector, column) in echelon form of the integer vectors that some rows take to 0."""
    if not rows:
        return np.eye(n_columns, dtype=np.int64)
    lines = [
        [row[column] for row in rows] + [int(column == k) for k in range(n_columns)] for column in range(n_columns)
    ]
    reduced = flint.fmpz_mat(lines).hnf().table()
    kernel = [[int(entry) for entry in line[len(rows) :]] for line in reduced if not any(line[: len(rows)])]
    return np.array(kernel, np.int64).reshape(len(kernel), n_columns)


# The order of decisions, and who is decided by which table.


@dataclass(frozen=True)
class RootStep:
    """Values of nodes that depend on no other, all of one kind."""

    kind: Kind
    targets: Ints


@dataclass(frozen=True)
class CoreStep:
    """Values of the nodes of cores with the same law (core, node)."""

    core: Core
    targets: Ints


@dataclass(frozen=True)
class SplitStep:
    """Values of both parts of sums of one kind."""

    kind: PairKind
    parents: Ints
    targets: tuple[Ints, Ints]


@dataclass(frozen=True)
class TieStep:
    """Values of nodes that are multiples of one integer; nothing is decided."""

    kind: TiedKind
    parents: Ints
    targets: tuple[Ints, ...]


Step = RootStep | CoreStep | SplitStep | TieStep


@dataclass(frozen=True)
class SumProgram:
    """The decisions of a draw in order, one word each, over the values of all nodes.

    Attributes
    ----------
    n_values : int
        Nodes; those that an equality makes 0 are never set.
    leaves, signs : array (coordinate,)
        Which value is that of a coordinate, and whether it is turned round.
    """

    forest: SumForest
    steps: tuple[Step, ...]
    n_values: int
    leaves: Ints
    signs: Ints

    @classmethod
    def of(cls, forest: SumForest) -> "SumProgram":
        """Return the order: cores, roots, then kinds from wholes to parts, since a part has the lower number."""
        members: dict[int, list[tuple[Node, int]]] = {}
        stack = [(_plain(root), 1) for root in reversed(forest.roots)]
        while stack:
            node, sign = stack.pop()
            members.setdefault(node.kind.number, []).append((node, sign))
            children = list(zip(node.children, node.signs, strict=True))
            stack += [(_plain(child), sign * turned) for child, turned in reversed(children)]
        order = [pair for number in sorted(members, reverse=True) for pair in members[number]]
        place = {id(node): number for number, (node, _) in enumerate(order)}
        listed = [[node.coordinate, number, sign] for number, (node, sign) in enumerate(order)]
        at = np.array(listed, np.int64).reshape(-1, 3)
        at = at[at[:, 0] >= 0][np.argsort(at[at[:, 0] >= 0][:, 0])]

        def places(nodes: "list[Node]") -> Ints:
            return np.array([place[id(_plain(node))] for node in nodes], np.int64)

        steps: list[Step] = []
        cores: dict[object, list[Core]] = {}
        for core in forest.cores:
            cores.setdefault(core.key, []).append(core)
        steps += [CoreStep(same[0], np.array([places(list(core.nodes)) for core in same])) for same in cores.values()]
        roots: dict[int, list[Node]] = {}
        for node in forest.free:
            roots.setdefault(node.kind.number, []).append(node)
        steps += [RootStep(roots[number][0].kind, places(roots[number])) for number in sorted(roots, reverse=True)]
        for number in sorted(members, reverse=True):
            nodes = [node for node, _ in members[number]]
            kind = nodes[0].kind
            below = [places([node.children[part] for node in nodes]) for part in range(len(nodes[0].children))]
            if isinstance(kind, PairKind):
                steps.append(SplitStep(kind, places(nodes), (below[0], below[1])))
            elif isinstance(kind, TiedKind):
                steps.append(TieStep(kind, places(nodes), tuple(below)))
        return cls(forest, tuple(steps), len(order), at[:, 1], at[:, 2])

    @cached_property
    def first_words(self) -> tuple[int, ...]:
        """Where the words of each step begin; and their number."""
        sizes = [0, *(n_decisions(step) for step in self.steps)]
        return tuple(int(end) for end in np.cumsum(sizes))


def n_decisions(step: Step) -> int:
    """Return how many words a step takes."""
    if isinstance(step, TieStep):
        return 0
    return len(step.parents) if isinstance(step, SplitStep) else len(step.targets)


def _plain(node: Node) -> Node:
    """Return the node that has the same value without further weights."""
    while isinstance(node.kind, WeightedKind):
        (node,) = node.children
    return node

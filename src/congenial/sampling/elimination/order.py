"""In which order cells are merged, how large the messages become, and whether that fits. All public."""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from math import inf, prod

from congenial.conditions.grouped_cells_and_lattice import Box
from congenial.conditions.integer_program import propagate
from congenial.conditions.rows_and_intervals import Limited, Row
from congenial.errors import TooLargeError
from congenial.noise.weight import NoiseWeight
from congenial.portable_math import log_e
from congenial.sampling.elimination.merging import Merge, Node, Rows, leaf, merge_nodes
from congenial.sampling.elimination.windows import half_width, half_width_of
from congenial.sampling.target_and_system import System

MOST_STATES = 5 * 10**7
MOST_WORK = 5 * 10**10
_LEAST_SHARE = 2.0**-47
# Underflow loses at most 10^-190 of the mass of a component's cells (docs/claims/exact-sampling.md), which is below
# exp(370) then, of a normaliser of at least 1.
_MOST_NATS_OF_DOUBLES = 400.0


@dataclass(frozen=True)
class Coordinate:
    """One coordinate of a key, as integer coefficients of the sums of groups, and how far it can stray."""

    coefficients: tuple[tuple[int, int], ...]
    row: int | None
    half: int | None
    length: float


@dataclass(frozen=True, eq=False)
class MergeOrder:
    """In which order cells are merged, and what that costs.

    Attributes
    ----------
    groups : tuple of tuples of cells
        Cells with identical columns, merged one after another.
    merges : tuple of (left node, right node, Merge)
        Nodes are numbered: groups first, then merges in this order.
    coordinates : tuple of tuples of Coordinate
        For each node.
    prefixes : tuple of tuples of Coordinate
        For each group, the sum of its first cells: 1 of them, 2 of them, ...
    nats : float
        Windows leave out at most ``exp(-nats)`` of the unconstrained mass each.
    """

    system: System = field(repr=False)
    rows: Rows = field(repr=False)
    groups: tuple[tuple[int, ...], ...]
    merges: tuple[tuple[int, int, Merge], ...] = field(repr=False)
    coordinates: tuple[tuple[Coordinate, ...], ...] = field(repr=False)
    prefixes: tuple[tuple[Coordinate, ...], ...] = field(repr=False)
    nats: float

    @property
    def width(self) -> int:
        """The largest number of independent open sums that a message is indexed by."""
        return max((len(coordinates) for coordinates in self.coordinates), default=0)

    @cached_property
    def n_states(self) -> float:
        """Entries of all messages together; infinite when a sum has no limit and no noise."""
        of_groups = sum(sum(prefix.length for prefix in group) if group else 1 for group in self.prefixes)
        return of_groups + sum(_size(self.coordinates[len(self.groups) + i]) for i in range(len(self.merges)))

    @property
    def is_scaled(self) -> bool:
        """Whether some sum spans more than doubles do."""
        return self.nats > _MOST_NATS_OF_DOUBLES

    @property
    def n_bytes(self) -> float:
        """Memory of the messages of one table."""
        return (16 if self.is_scaled else 8) * self.n_states

    @cached_property
    def n_operations(self) -> float:
        """Multiplications of one forward pass, about."""
        work = 0.0
        for group, prefixes in zip(self.groups, self.prefixes, strict=True):
            for position, cell in enumerate(group):
                weight = self.system.weights[cell]
                reach = half_width([(weight, 1)], self.nats)
                work += prefixes[position].length * (2 * (reach or 0) + 1 if weight.ratio is None else 4)
        for left, right, merge in self.merges:
            lengths = [c.length for c in (*self.coordinates[left], *self.coordinates[right])]
            work += prod(lengths[coordinate] for coordinate in merge.forward.free)
        return work

    @property
    def is_exact(self) -> bool:
        """Whether the exact sampler runs within the memory and work budget."""
        return self.n_states <= MOST_STATES and self.n_operations <= MOST_WORK

    def check(self) -> None:
        """Raise with the numbers and the alternative when it does not fit."""
        if not self.is_exact:
            raise TooLargeError(
                f"the exact sampler needs about {_number(self.n_states)} states ({_number(self.n_bytes / 2**20)} MB)"
                f" and {_number(self.n_operations)} operations for width {self.width}; the limits are"
                f" {MOST_STATES:.0e} states and {MOST_WORK:.0e} operations. The alternative is Algorithm 1"
                " (congenial.study.independence_and_rejection_samplers), which is not certified; or drop or merge"
                " invariants"
            )

    def with_nats(self, nats: float) -> "MergeOrder":
        """Return the same merge order with wider or narrower windows."""
        public = replace(_Public.of(self.system, self.rows, self.groups), nats=nats)
        nodes = [*_leaves(self.rows, self.groups), *(merge.whole for _, _, merge in self.merges)]
        return replace(
            self,
            nats=nats,
            coordinates=tuple(public.coordinates(node) for node in nodes),
            prefixes=public.prefixes(),
        )

    def __repr__(self) -> str:
        n_groups = sum(1 for cells in self.groups if cells)
        plural = "s" if n_groups != 1 else ""
        head = f"{n_groups} group{plural} of cells, width {self.width}, about {_number(self.n_states)} states"
        if self.is_exact:
            return f"{head}, exact"
        return f"{head}: too large for the exact sampler ({_number(self.n_operations)} operations)"


def _number(value: float) -> str:
    return "infinitely many" if value == inf else f"{value:,.0f}" if value < 1e7 else f"{value:.1e}"


def _size(coordinates: tuple[Coordinate, ...]) -> float:
    return prod(coordinate.length for coordinate in coordinates)


def find_order(system: System) -> MergeOrder:
    """Group cells, merge two nodes at a time within each independent component, then the components.

    Two greedy orders are tried, the smallest next message first and the least next work first; the cheaper one is kept.
    """
    groups = (*system.groups, ())  # an empty one at the end: components are closed by merging with it, one by one
    rows = _rows(system, groups)
    public = _Public.of(system, rows, groups)
    known: _Known = {}
    orders = [_Greedy(public, prefer_small, known).merge_all() for prefer_small in (True, False)]
    return min(orders, key=lambda order: (not order.is_exact, order.n_operations))


_Known = dict[tuple[frozenset[int], frozenset[int]], tuple[float, float, Merge]]


class _Greedy:
    """Builds a merge order; components of the same public structure share one order of merges."""

    def __init__(self, public: "_Public", prefer_small: bool, known: "_Known") -> None:
        self.public = public
        self.costs_first = (0, 1) if prefer_small else (1, 0)
        self.nodes = _leaves(public.rows, public.groups)
        self.coordinates = [public.coordinates(node) for node in self.nodes]
        self.merges: list[tuple[int, int, Merge]] = []
        self.known = known

    def merge_all(self) -> MergeOrder:
        """Merge within each component, then the components."""
        public = self.public
        orders: dict[object, list[tuple[int, int]]] = {}
        roots = []
        empty = len(public.groups) - 1
        for component in public.rows.components:
            if component == (empty,):
                continue
            signature = public.signature(component)
            if signature not in orders:
                orders[signature] = self._merge_component(component)
            else:
                self._follow(component, orders[signature])
            roots.append(len(self.nodes) - 1 if len(component) > 1 else component[0])
        whole = empty
        for root in roots:
            whole = self._merge(whole, root)
        merges, coordinates = tuple(self.merges), tuple(self.coordinates)
        return MergeOrder(
            public.system, public.rows, public.groups, merges, coordinates, public.prefixes(), public.nats
        )

    def _cost(self, left: int, right: int) -> tuple[float, float, Merge]:
        """Return size of the message, work, and the merge itself."""
        pair = (self.nodes[left].groups, self.nodes[right].groups)
        if pair not in self.known:
            merge = merge_nodes(self.nodes[left], self.nodes[right], self.public.rows)
            lengths = [c.length for c in (*self.coordinates[left], *self.coordinates[right])]
            work = prod(lengths[coordinate] for coordinate in merge.forward.free)
            self.known[pair] = (_size(self.public.coordinates(merge.whole)), work, merge)
        return self.known[pair]

    def _merge(self, left: int, right: int) -> int:
        merge = self._cost(left, right)[2]
        self.merges.append((left, right, merge))
        self.nodes.append(merge.whole)
        self.coordinates.append(self.public.coordinates(merge.whole))
        return len(self.nodes) - 1

    def _merge_component(self, component: tuple[int, ...]) -> list[tuple[int, int]]:
        """Merge a component; return the pairs by their place in it: its groups first, then its merges."""
        place = {group: position for position, group in enumerate(component)}
        alive, order = list(component), []
        while len(alive) > 1:
            pairs = _candidates(alive, self.nodes)
            left, right = min(pairs, key=lambda pair: (*(self._cost(*pair)[cost] for cost in self.costs_first), pair))
            order.append((place[left], place[right]))
            whole = self._merge(left, right)
            place[whole] = len(place)
            alive = [node for node in alive if node not in {left, right}] + [whole]
        return order

    def _follow(self, component: tuple[int, ...], order: list[tuple[int, int]]) -> None:
        numbers = list(component)
        for left, right in order:
            numbers.append(self._merge(numbers[left], numbers[right]))


def _candidates(alive: list[int], nodes: list[Node]) -> list[tuple[int, int]]:
    """Return the pairs that share an open row; where equalities have cut the last link, the first two."""
    by_row: dict[int, list[int]] = {}
    for number in alive:
        for row in nodes[number].sums:
            by_row.setdefault(row, []).append(number)
    pairs = {(a, b) for members in by_row.values() for i, a in enumerate(members) for b in members[i + 1 :]}
    return sorted(pairs) or [(alive[0], alive[1])]


def _rows(system: System, groups: tuple[tuple[int, ...], ...]) -> Rows:
    columns = tuple(dict(system.columns[cells[0]]) if cells else {} for cells in groups)
    return Rows(tuple(row.kind for row in system.rows), columns)


def _leaves(rows: Rows, groups: tuple[tuple[int, ...], ...]) -> list[Node]:
    return [leaf(g, rows.columns[g]) if cells else Node(frozenset([g]), (), {}) for g, cells in enumerate(groups)]


@dataclass(frozen=True)
class _Public:
    """What is known of every sum before any table is seen: its range and its window."""

    system: System
    rows: Rows
    groups: tuple[tuple[int, ...], ...]
    box: Box
    nats: float

    @classmethod
    def of(cls, system: System, rows: Rows, groups: tuple[tuple[int, ...], ...]) -> "_Public":
        hard = [(number, row) for number, row in enumerate(system.rows) if row.kind in {"equal", "range"}]
        grouped = [Limited.of(Row.weighted(_coefficients(rows, number)), row.lower, row.upper) for number, row in hard]
        low = [_sum(system.lower[cell] for cell in cells) for cells in groups]
        high = [_sum(system.upper[cell] for cell in cells) for cells in groups]
        public = cls(system, rows, groups, propagate(grouped, Box(low, high)), 0.0)
        return replace(public, nats=public.safe_nats())

    def safe_nats(self) -> float:
        """Return nats at which windows leave out less than `_LEAST_SHARE` of any normaliser, whatever the centre.

        The centre obeys all conditions and has a weight of at least 1, so the normaliser of a component is at least 1.
        What windows leave out is at most twice their number times the mass of the component's cells times
        ``exp(-nats)``.
        """
        largest = max((self._log_mass(component) for component in self.rows.components), default=0.0)
        if largest == inf:  # a cell without limits that is not measured: no windows help, and the order is refused
            largest = 0.0
        n_rows = len(self.system.rows)
        n_windows = 2 * self.system.n_cells + 2 * len(self.groups) * (1 + n_rows) + n_rows
        return largest + log_e(2.0 * n_windows * len(self.rows.components)) - log_e(_LEAST_SHARE)

    def _log_mass(self, component: tuple[int, ...]) -> float:
        """Return the logarithm of a bound of the weights of all tables of some groups, as if nothing tied them."""
        cells = [(g, cell) for g in component for cell in self.groups[g]]
        return sum(self.system.weights[cell].log_mass(self._n_values(g, cell)) for g, cell in cells)

    def _n_values(self, group: int, cell: int) -> float:
        """Return how many values a cell has at most, within its own limits and its group's."""
        cells = self.groups[group]
        whole = _length(self.box, {group: 1}) if len(cells) == 1 else inf
        return max(
            1.0, min(_cell_length(self.system, cell), whole, _whole_from_least(self.box, group, self.system, cells))
        )

    def signature(self, component: tuple[int, ...]) -> object:
        """Return what the costs of a component depend on, with its rows numbered from 0."""
        local: dict[int, int] = {}
        groups = []
        for g in component:
            column = [
                (local.setdefault(row, len(local)), coefficient) for row, coefficient in self.rows.columns[g].items()
            ]
            weights = frozenset(Counter(self.system.weights[cell] for cell in self.groups[g]).items())
            groups.append((tuple(column), weights, _length(self.box, {g: 1}), len(self.groups[g])))
        return tuple(groups), tuple(self.rows.kinds[row] for row in local)

    def coordinates(self, node: Node) -> tuple[Coordinate, ...]:
        """Return a node's coordinates with their lengths."""
        if node.key == (-1,) and len(node.groups) == 1:
            (group,) = node.groups
            return (self._coordinate({group: 1}, None),)
        return tuple(
            self._coordinate({g: c for g, c in _coefficients(self.rows, row).items() if g in node.groups}, row)
            for row in node.key
        )

    def _coordinate(self, coefficients: dict[int, int], row: int | None) -> Coordinate:
        terms = [(self.system.weights[cell], c) for g, c in coefficients.items() for cell in self.groups[g]]
        half = half_width(terms, self.nats)
        length = _length(self.box, coefficients)
        if row is not None and self.system.rows[row].kind == "equal":
            outside = {g: c for g, c in _coefficients(self.rows, row).items() if g not in coefficients}
            length = min(length, _length(self.box, outside))
        limited = length if half is None else min(length, 2 * half + 1)
        return Coordinate(tuple(coefficients.items()), row, half, limited)

    def prefixes(self) -> tuple[tuple[Coordinate, ...], ...]:
        """Return the sums of the first cells of each group."""
        out = []
        for g, cells in enumerate(self.groups):
            whole, most = _length(self.box, {g: 1}), _whole_from_least(self.box, g, self.system, cells)
            reach = [_cell_length(self.system, cell) - 1 for cell in cells]
            before, after = list(accumulate(reach)), list(accumulate(reversed(reach), initial=0.0))[-2::-1]
            # A thousand cells took 12 s where each prefix was counted anew.
            steps, counted = [], Counter[tuple[NoiseWeight, int]]()
            for count, cell in enumerate(cells, 1):
                counted[self.system.weights[cell], 1] += 1
                half = half_width_of(counted, self.nats)
                length = min(before[count - 1] + 1, whole + after[count - 1]) if count < len(cells) else whole
                length = min(length, most)
                steps.append(Coordinate(((g, 1),), None, half, length if half is None else min(length, 2 * half + 1)))
            out.append(tuple(steps))
        return tuple(out)


def _whole_from_least(box: Box, group: int, system: System, cells: tuple[int, ...]) -> float:
    """Return how many values a prefix can have when every cell has a least value: the most of the whole limits it."""
    high, least = box[1][group], [system.lower[cell] for cell in cells]
    return inf if high is None or None in least else high - sum(low for low in least if low is not None) + 1


def _cell_length(system: System, cell: int) -> float:
    low, high = system.lower[cell], system.upper[cell]
    return inf if low is None or high is None else high - low + 1


def _coefficients(rows: Rows, number: int) -> dict[int, int]:
    return {g: rows.columns[g][number] for g in sorted(rows.supports[number])}


def _sum(limits: object) -> int | None:
    values = list(limits)  # type: ignore[call-overload]
    return None if None in values else sum(values)


def _length(box: Box, coefficients: dict[int, int]) -> float:
    total = 1.0
    for g, coefficient in coefficients.items():
        low, high = box[0][g], box[1][g]
        if low is None or high is None:
            return inf
        total += abs(coefficient) * (high - low)
    return total


# A treewidth bound for systems that no merge order can hold: ordering them would take minutes, only to refuse. Public.

MOST_OPEN = 6
"""So many sums open at once are beyond every limit of states, unless hardly any sum can move."""


def least_open(system: System) -> int:
    """Return how many independent sums are open at once at least, whatever the order.

    Rows are vertices, joined where they share a cell. A graph in which every vertex of some part has degree d has
    treewidth d and branchwidth 2 (d + 1) / 3 at least, which is how many rows some message crosses; equalities of a
    component may depend on one another once.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> target = two_bins().target
    >>> least_open(System.of(target.constraints, target.measured))
    0
    """
    near: dict[int, set[int]] = {}
    for column in system.columns:
        rows = [row for row, _ in column]
        for row in rows:
            near.setdefault(row, set()).update(other for other in rows if other != row)
    most = 0
    while near:
        row = min(near, key=lambda number: len(near[number]))
        most = max(most, len(near[row]))
        for other in near.pop(row):
            near[other].discard(row)
    return max(0, -(-2 * (most + 1) // 3) - 1)


def check_reach(system: System) -> None:
    """Raise where no order can fit."""
    if (n_open := least_open(system)) >= MOST_OPEN:
        raise TooLargeError(too_scaled(n_open))


def too_scaled(n_open: int) -> str:
    """Return what is wrong with so many open sums, and the way out."""
    return (
        f"the exact sums of this system are out of reach: {n_open} or more sums are open at once, whatever the order of"
        f" cells, and {MOST_OPEN - 1} are the limit. Leave one of the exact"
        " or measured sums that cross each other out, or merge their levels; two families of sums that cross, and no"
        " third, are drawn by rejection"
    )

"""Lines of an attempt that doubles leave open, decided in balls from the same random words. Confidential."""

from dataclasses import dataclass
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.balls import ends
from congenial.errors import SamplingError
from congenial.randomness import RandomStream
from congenial.sampling.in_doubt import WORD, Seen, Unclear, look_further, pick
from congenial.sampling.look_ahead.prepared import PreparedTable

Bits = dict[int, Seen]


@dataclass(frozen=True)
class _Part:
    """Weights of a cell times the bounds after it: from deviation `low` on, and a bound of all that is left out."""

    low: int
    terms: list[flint.arb]
    missing: flint.arb


def decide_line(
    prepared: PreparedTable, line: int, u: Ints, words: NDArray[np.uint64], rng: RandomStream
) -> Ints | None:
    """Return the line that these words draw, or None where they reject; what 64 bits leave open takes more."""
    bits: Bits = {position: (int(word), WORD) for position, word in enumerate(words)}
    precision, widths = 256, 1
    while True:
        try:
            with flint.ctx.workprec(precision):
                return _decide(prepared, line, u, bits, widths)
        except Unclear as unclear:
            look_further(bits, unclear.decision, rng)
            precision, widths = 2 * precision, 2 * widths


def _decide(prepared: PreparedTable, line: int, u: Ints, bits: Bits, widths: int) -> Ints | None:
    tables = prepared.tables
    n_lines, n_columns = tables.kind.shape
    if line == n_lines - 1:
        weight, lacking = flint.arb(1), tables.column_sum - u
        for j in range(n_columns):
            cell = prepared.cell(line, j)
            if cell is not None:
                weight *= cell.weight(int(lacking[j]))
        return lacking if _goes_on(prepared, line, u, weight, flint.arb(0), bits) else None
    parts = [_part(prepared, line, j, int(u[j]), widths) for j in range(n_columns)]
    messages, missing, lows = [flint.arb_poly([1])], [flint.arb(0)], [0]
    for part in parts:
        mass = sum(part.terms, part.missing)
        messages.append(messages[-1] * flint.arb_poly(part.terms))
        before = sum(messages[-2].coeffs(), missing[-1])
        missing.append(missing[-1] * mass + before * part.missing)
        lows.append(lows[-1] + part.low)
    rest = int(tables.line_sum[line])
    whole = _entry(messages[-1], rest - lows[-1])
    if line > 0 and not _goes_on(prepared, line, u, whole, missing[-1], bits):
        return None
    out = np.zeros(n_columns, np.int64)
    for j in range(n_columns - 1, 0, -1):
        part = parts[j]
        terms = [
            (part.low + a, term * _entry(messages[j], rest - part.low - a - lows[j]))
            for a, term in enumerate(part.terms)
        ]
        lack = missing[j] * sum(part.terms, part.missing) + sum(messages[j].coeffs(), missing[j]) * part.missing
        out[j] = pick(terms, ends(lack)[1], bits[j], j)
        rest -= int(out[j])
    out[0] = rest
    return out


def _entry(message: flint.arb_poly, place: int) -> flint.arb:
    return message[place] if 0 <= place <= message.degree() else flint.arb(0)


def _bound(prepared: PreparedTable, line: int, j: int, u: int) -> float:
    bounds = prepared.tables.bounds
    k = u - int(bounds.low[line, j])
    if k < 0:
        return float(bounds.below[line, j])
    if k >= bounds.size[line, j]:
        return float(bounds.above[line, j])
    return float(bounds.value[bounds.start[line, j] + k])


def _part(prepared: PreparedTable, line: int, j: int, u: int, widths: int) -> _Part:
    """Return a cell's terms in a window `widths` times as wide, with what lies beyond it; bounds are at most 1."""
    cell = prepared.cell(line, j)
    if cell is None:
        raise SamplingError("internal: a cell of weight 1 everywhere before the last line; please report this system")
    low, high = cell.window(widths)
    terms = [cell.weight(x) * flint.arb(_bound(prepared, line + 1, j, u + x)) for x in range(low, high + 1)]
    return _Part(low, terms, cell.missing(widths))


def _goes_on(prepared: PreparedTable, line: int, u: Ints, whole: flint.arb, missing: flint.arb, bits: Bits) -> bool:
    """Return whether U lies below the chance to go on with a line, or raise `Unclear`."""
    bound = Fraction(1)
    for j in range(u.size):
        bound *= Fraction(_bound(prepared, line, j, int(u[j])))
    if bound == 0:
        return False
    factor = Fraction(2) ** int(prepared.tables.bounds.shift[line]) / bound
    low, high = ends(whole)[0] * factor, (ends(whole)[1] + ends(missing)[1]) * factor
    if low > 1:
        raise SamplingError("internal: a bound fell short; please report this system")
    word, n_bits = bits[0]
    if Fraction(word + 1, 2**n_bits) <= low:
        return True
    if Fraction(word, 2**n_bits) >= high:
        return False
    raise Unclear(0)

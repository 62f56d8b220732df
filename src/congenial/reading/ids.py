"""No privacy unit has more rows than the spec declares."""

from congenial.errors import ReadingError
from congenial.reading.session import Session
from congenial.spec.spec import PrivacyUnit

_AT_ONCE = 5_000_000  # ids in one pass: 500 MB
_MOST_SUSPECTS = 1_000


def check_ids(database: Session, rows: str, unit: PrivacyUnit) -> bool:
    """Refuse units with more rows than declared; False when the rows cannot be read.

    Ids are counted by their hashes, a part of the hashes at a time, so that memory stays small however long ids are.
    Equal ids have equal hashes, so nothing is missed; hashes that occur too often are looked at again by id.

    Parameters
    ----------
    rows : str
        A query for the ids, in a column v0.
    """
    counted = database.rows(f"SELECT count(*), count(v0) FROM ({rows})")  # noqa: S608
    if not counted:
        return False
    n_rows, n_ids = counted[0]
    if n_ids < n_rows:
        raise ReadingError(f"column {unit.id_column!r} has empty values; every row needs to say whose it is")
    too_many = f"HAVING count(*) > {unit.rows_per_unit}"
    n_parts = -(-n_rows // _AT_ONCE)
    for part in range(n_parts):
        suspects = database.rows(
            f"SELECT hash(v0) AS mark FROM ({rows}) WHERE hash(v0) % {n_parts} = {part}"  # noqa: S608
            f" GROUP BY mark {too_many} LIMIT {_MOST_SUSPECTS}"
        )
        if suspects is None:
            return False
        if suspects:
            marks = ", ".join(str(int(mark)) for (mark,) in suspects)
            found = database.rows(
                f"SELECT 1 FROM ({rows}) WHERE hash(v0) IN ({marks}) GROUP BY v0 {too_many} LIMIT 1"  # noqa: S608
            )
            if found is None:
                return False
            if found or len(suspects) == _MOST_SUSPECTS:
                raise ReadingError(too_many_rows(unit))
    return True


def too_many_rows(unit: PrivacyUnit) -> str:
    """Say that some units have more rows than declared, and not which."""
    bound = "1 row" if unit.rows_per_unit == 1 else f"{unit.rows_per_unit:,} rows"
    return (
        f"column {unit.id_column!r}: some of its values stand in more than {bound}, which is the declared bound;"
        " correct the data or raise `at_most` under `unit:`, which costs privacy"
    )

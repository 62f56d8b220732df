"""What a release is called, and whose privacy it protects."""

from dataclasses import dataclass

STATUSES = ("confidential", "public", "simulated")


@dataclass(frozen=True)
class Naming:
    """What a release is called, and whose privacy it protects, in words.

    Attributes
    ----------
    release, dataset, title : str
    unit : str
        What a protected unit is called, such as person.
    status : str
        Of the data: confidential, public or simulated.
    """

    release: str
    dataset: str
    title: str
    unit: str = "person"
    status: str = "confidential"

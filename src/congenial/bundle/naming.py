"""What a release is called, and whose privacy it protects."""

from dataclasses import dataclass, fields

from congenial.errors import BundleError
from congenial.plain_text import what_is_hidden

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
    replaces : str or None
        An earlier release of the dataset that this one is the corrected edition of.
    """

    release: str
    dataset: str
    title: str
    unit: str = "person"
    status: str = "confidential"
    replaces: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            text = getattr(self, field.name)
            if text is None:
                continue
            if wrong := what_is_hidden(text, f"the {field.name} {text!r}"):
                raise BundleError(wrong)

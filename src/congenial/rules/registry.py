"""The rules there are, by name: what a release may name before it is charged, and a reader run again."""

from congenial.errors import ConditionError, did_you_mean
from congenial.rules.anchored import ANCHORED
from congenial.rules.gls import GLS
from congenial.rules.leaf_prior import LEAF_PRIOR
from congenial.rules.margin_trees import MARGINS
from congenial.rules.nearest import NEAREST
from congenial.rules.rule_and_input import Rule, RuleInput, TableRule
from congenial.rules.tree_measurements import TreeRule
from congenial.rules.workload.rule import RECORDS

__all__ = ["RULES", "Rule", "RuleInput", "TableRule", "TreeRule", "rule_named"]

RULES: dict[str, Rule] = {rule.name: rule for rule in (NEAREST, ANCHORED, GLS, LEAF_PRIOR, MARGINS, RECORDS)}
"""By name, the newest version of each."""

_EARLIER: dict[tuple[str, int], Rule] = {}
"""Earlier versions that this software still runs, by name and version: none yet."""


def rule_named(name: str, version: int | None = None) -> Rule:
    """Return a rule, the newest version if none is named.

    Examples
    --------
    >>> rule_named("nearest").title
    'nearest table'
    >>> rule_named("neerest")
    Traceback (most recent call last):
    congenial.errors.ConditionError: there is no rule 'neerest'; did you mean 'nearest'?
    >>> rule_named("nearest", 7)
    Traceback (most recent call last):
    congenial.errors.ConditionError: this software has version 1 of the rule 'nearest', and not version 7; ...
    """
    if name not in RULES:
        raise ConditionError(f"there is no rule {name!r}; {did_you_mean(name, RULES)}")
    rule = RULES[name]
    if version is None or version == rule.version:
        return rule
    if (name, version) in _EARLIER:
        return _EARLIER[name, version]
    known = sorted([rule.version, *(number for known, number in _EARLIER if known == name)])
    versions = f"version {known[0]}" if len(known) == 1 else f"versions {', '.join(map(str, known))}"
    raise ConditionError(
        f"this software has {versions} of the rule {name!r}, and not version {version}; the release of congenial that"
        " made the table has it"
    )

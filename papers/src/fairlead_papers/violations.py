"""Count the random problems on which mechanisms violate properties."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_papers.setting import Setting
from fairlead_papers.surveys.random_problems import Distribution
from fairlead_papers.surveys.survey import SurveyJob, audit_job

_IN_WORDS = {
    "single-server-drf": "DRF on one server",
    "pareto-optimality": "Pareto optimality",
    "envy-freeness": "envy-freeness",
    "strategy-proofness": "strategy-proofness",
    "single-resource-fairness": "single-resource fairness",
}
# The names of a mechanism and a property.
MechanismProperty = tuple[str, str]


@dataclass(frozen=True)
class Count:
    """The result of a search for violations of one property by one mechanism."""

    violations: int  # problems on which it fails
    asked: int  # problems that meet the premises of the property

    @property
    def holds(self) -> bool:
        """Whether problems met the premises, and the property held on all of them."""
        return self.violations == 0 and self.asked > 0

    @property
    def sentence(self) -> str:
        """Both counts, in a few words."""
        return f"{self.violations} violations in {self.asked} problems"

    def __str__(self) -> str:
        return f"{self.violations} / {self.asked}"


def count_violations(
    setting: Setting,
    mechanisms: tuple[str, ...],
    properties: tuple[str, ...],
    distribution: Distribution,
    problems: int,
    lies: int,
) -> dict[MechanismProperty, Count]:
    """Audit random problems, and count violations by mechanism and property.

    `lies` is the number of lies to try on each problem, for strategy-proofness.
    """
    counts = {
        (name, property_name): Count(0, 0) for name in mechanisms for property_name in properties
    }
    jobs = [
        SurveyJob(mechanisms, properties, distribution, setting.seed, range(k, k + 1), lies)
        for k in range(problems)
    ]
    for found in setting.do_all("problems audited", audit_job, jobs):
        for key, cell in found.cells.items():
            so_far = counts[key]
            counts[key] = Count(so_far.violations + cell.violations, so_far.asked + cell.asked)
    return counts


def in_words(property_name: str) -> str:
    """Return the name of a property as it is written in a sentence."""
    return _IN_WORDS.get(property_name, property_name.replace("-", " "))

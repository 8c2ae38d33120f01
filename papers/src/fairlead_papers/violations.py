"""How often mechanisms lack properties on random problems."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_papers.setting import Setting
from fairlead_papers.surveys.random_problems import Distribution
from fairlead_papers.surveys.survey import SurveyJob, audit_some

# A mechanism and a property.
Place = tuple[str, str]


@dataclass(frozen=True)
class Count:
    """The findings of a search for one property of one mechanism."""

    violations: int  # problems on which it fails
    asked: int  # problems whose premises are met

    @property
    def none(self) -> bool:
        """Whether some problems were asked, and none of them is a violation."""
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
    look: Distribution,
    problems: int,
    lies: int,
) -> dict[Place, Count]:
    """Audit random problems, and count violations by mechanism and property."""
    counts = {(name, of): Count(0, 0) for name in mechanisms for of in properties}
    jobs = [
        SurveyJob(mechanisms, properties, look, setting.seed, range(k, k + 1), lies)
        for k in range(problems)
    ]
    for part in setting.do_all("problems audited", audit_some, jobs):
        for place, cell in part.cells.items():
            so_far = counts[place]
            counts[place] = Count(so_far.violations + cell.violations, so_far.asked + cell.asked)
    return counts


def in_words(of: str) -> str:
    """Write the name of a property as in a sentence."""
    words = {"single-server-drf": "DRF on one server", "pareto-optimality": "Pareto optimality"}
    return words.get(of, of.replace("-", " "))

"""Certificates can fail: every spoiled answer is seen, every right one passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.certificates.bottleneck_theorems import certify_bottleneck, certify_time_sharing
from oracles import answers, examples
from spoilers import each_way
from strategies import admitted_by

CERTIFY = {"ps-dsf": certify_bottleneck, "ps-dsf-tdm": certify_time_sharing}


def divided(mechanism):
    """Problems whose servers are divided by resource, or by time; with rates it is by time."""
    by_time = CERTIFY[mechanism] is certify_time_sharing
    return admitted_by(mechanism).filter(lambda p: by_time or p.users.rates is None)


@pytest.mark.parametrize("mechanism", CERTIFY)
@settings(max_examples=15)
@given(data=st.data())
def test_right_answers_pass_and_spoiled_ones_fail(mechanism, data):
    problem = data.draw(divided(mechanism))
    right = answers.swept_tasks(problem, mechanism)
    certificate = CERTIFY[mechanism](problem, right)
    assert certificate.holds
    assert certificate.tolerance <= 1e-6
    for name, tasks in each_way(data.draw, problem, right):
        # Some changes leave a right answer, as when a user with all its tasks is replaced.
        if answers.violation(problem, mechanism, tasks) >= 1e-4:
            certificate = CERTIFY[mechanism](problem, tasks)
            assert not certificate.holds, name
            assert not certificate.violation <= 1e-5, name


@pytest.mark.parametrize("mechanism", CERTIFY)
def test_an_empty_answer_fails(mechanism):
    problem = examples.ps_dsf_section_v()
    assert not CERTIFY[mechanism](problem, np.zeros((4, 4))).holds


def test_dividing_by_resource_may_be_more_than_sharing_time():
    problem = examples.ps_dsf_figure_2()
    tasks = answers.swept_tasks(problem, "ps-dsf")
    assert certify_bottleneck(problem, tasks).holds
    assert not certify_time_sharing(problem, tasks).holds

"""The API's answers match its description, whatever the requests are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    positive_data_acceptance,
    response_schema_conformance,
    unsupported_method,
)

from effort import cases
from live_cluster import Cluster

# A well-formed request may be refused for its content (an unknown job, a key used twice);
# Starlette's Allow header names the methods of only one of several routes.
EXCLUDED = [positive_data_acceptance, unsupported_method]
PAIRS = "/v1/workers/join"  # its answer has lists of pairs, whose schema the checker cannot read
LONGEST = 75.0  # seconds; a wait may take 60


@pytest.fixture(scope="module")
def api() -> Iterator[schemathesis.BaseSchema]:
    with TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            cluster.start_service()
            described = schemathesis.openapi.from_url(f"{cluster.url}/openapi.json")
            yield described.exclude(path="/v1/live")  # its answer never ends
            assert "Traceback" not in cluster.log("service")
        finally:
            cluster.close()


def send_cases(api: schemathesis.BaseSchema, mode: GenerationMode, examples: int) -> int:
    """Send valid and invalid requests to each operation; return their number."""
    sent = 0
    for found in api.get_all_operations():
        operation = found.ok()
        cases = operation.as_strategy(generation_mode=mode)

        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=cases)
        def send(case: schemathesis.Case) -> None:
            nonlocal sent
            sent += 1
            pairs = [response_schema_conformance] if case.path == PAIRS else []
            case.call_and_validate(excluded_checks=EXCLUDED + pairs, timeout=LONGEST)

        with suppress(Unsatisfiable):  # an operation without parameters has no invalid request
            send()
    return sent


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_each_answer_is_as_described(mode: GenerationMode, api: schemathesis.BaseSchema) -> None:
    assert send_cases(api, mode, examples=cases(1)) > 20


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_each_of_many_answers_is_as_described(
    mode: GenerationMode, api: schemathesis.BaseSchema
) -> None:
    assert send_cases(api, mode, examples=300) > 3000

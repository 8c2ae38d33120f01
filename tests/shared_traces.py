"""Where the real trace files lie."""

from __future__ import annotations

from pathlib import Path

TRACES = Path(__file__).resolve().parents[1].parent / "shared" / "traces"
WAGAP = TRACES / "metacentrum-wagap-2013" / "wagap-2013.swf.gz"
OPENB = TRACES / "alibaba-openb-v2023"
JOB_EVENTS = TRACES / "google-2011-job-events"

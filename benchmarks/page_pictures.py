"""Draw docs/pictures/live-*.png: the live page of a small cluster under load, in Chromium.

    python benchmarks/page_pictures.py

Eight simulated servers run the tasks of five users for three minutes. The service takes a sample
every second, not every minute, so that figures over time have enough samples.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.async_api import async_playwright

from service_load import Connection, Row, RunningService, SimulatedWorkers

SECONDS = 180
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SERVICE = """
import sys
from fairlead.cli.main import run
from fairlead.service import _history
from fairlead.service.journal import samples
_history.SAMPLE_SECONDS, samples.SLOT_SECONDS, samples.MOST_STEPS = 1.0, 1, 10**6
sys.exit(run(sys.argv[1:]))
"""
# By user: seconds of the first and of the last submission, and the job that is submitted.
LOADS: dict[str, tuple[float, float, Row]] = {
    "ana": (0, 180, {"cpu": 4, "memory": "24Gi", "gpu": 1, "name": "train", "tasks": 12}),
    "bo": (0, 120, {"cpu": 8, "memory": "8Gi", "name": "sweep", "tasks": 20}),
    "cy": (40, 160, {"cpu": 2, "memory": "48Gi", "name": "join tables", "tasks": 12}),
    "dee": (90, 180, {"cpu": 4, "memory": "16Gi", "gpu": 2, "name": "render", "tasks": 12}),
}
EVERY = 8.0  # seconds between submissions of a user
VIEWS = {  # by picture: view, width, height, colour scheme
    "live-overview": ("", 1200, 1500, "light"),
    "live-job": ("#/job/{job}", 1200, 1150, "light"),
    "live-servers": ("#/servers", 1200, 800, "light"),
    "live-narrow": ("", 400, 1200, "dark"),
}


async def main() -> None:
    """Run the cluster, and draw its pages."""
    with TemporaryDirectory() as folder:
        service = RunningService(Path(folder))
        service.stop()
        words = ["serve", "--port", str(service.port), "--db", f"{folder}/own.db"]
        with subprocess.Popen(
            [sys.executable, "-c", SERVICE, *words, "--alert-owed", "0.2"]
        ) as own:
            await service_ready(service.port)
            try:
                await load(service.port)
            finally:
                own.terminate()


async def service_ready(port: int) -> None:
    """Wait until the service answers."""
    while True:
        try:
            await Connection(port).ask("GET", "/readyz")
            return
        except OSError:
            await asyncio.sleep(0.1)


async def load(port: int) -> None:
    """Run simulated servers, submit jobs, and draw the pictures at the end."""
    rng = random.Random(3)
    clients = [
        SimulatedWorkers(port, names, capacity, lambda _: rng.uniform(5, 25), 0.1)
        for names, capacity in (
            (
                [f"gpu{k}" for k in range(4)],
                {"cpu": 32, "memory": "256Gi", "gpu": 8, "labels": {"gpu": "A100"}},
            ),
            ([f"cpu{k}" for k in range(4)], {"cpu": 64, "memory": "128Gi"}),
        )
    ]
    for client in clients:
        await client.join()
    over = asyncio.Event()
    working = [asyncio.create_task(client.work(over.is_set)) for client in clients]
    connection = Connection(port)
    await connection.ask(
        "POST", "/v1/jobs", {"jobs": [{"command": ["true"], "user": "eve", "cpu": 96}]}
    )
    loop = asyncio.get_running_loop()
    began, jobs = loop.time(), {"dee": "1"}
    while loop.time() - began < SECONDS:
        for user, (first, last, job) in LOADS.items():
            if first <= loop.time() - began <= last:
                row = {"command": ["python", f"{user}.py"], "user": user, **job}
                (jobs[user],) = (await connection.ask("POST", "/v1/jobs", {"jobs": [row]}))["ids"]
        await asyncio.sleep(EVERY)
    await draw(port, jobs["dee"])
    over.set()
    await asyncio.gather(*working)


async def draw(port: int, job: str) -> None:
    """Take a screenshot of each view."""
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, (view, width, height, scheme) in VIEWS.items():
            context = await browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
                locale="en-GB",
            )
            page = await context.new_page()
            await page.goto(f"http://127.0.0.1:{port}/{view.format(job=job)}")
            await page.wait_for_timeout(3000)
            await page.screenshot(path=PICTURES / f"{name}.png")
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())

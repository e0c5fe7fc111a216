"""A real browser, real runs and a real review server, each started once."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from pages import Server

from labelproof import pipeline
from labelproof.cli.make_report import shown_of
from labelproof.review.refit_job import Again
from labelproof.review.serve import bind
from labelproof.review.serve import serve as serve_page
from labelproof.review.web_app import Desk
from labelproof.runs.reviewed import open_review
from labelproof.runs.spec import RunSpec

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--disable-extensions", "--disable-default-apps",
)  # fmt: skip
NOISE = "symmetric:0.4"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium; the tests are skipped where it is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next((found for found in map(shutil.which, names) if found), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    opened.set_page_load_timeout(60)
    yield opened
    opened.quit()


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short real run on digits with noise."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    spec = RunSpec(data="digits", noise=NOISE, method="ce", settings={"epochs": 3}, out=out)
    pipeline.run(spec)
    return out


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    """A copy of the real run, to be reviewed."""
    shutil.copytree(trained_run, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def serve() -> Iterator[Callable[[Path], Server]]:
    """Start `labelproof review` on a run folder; it is ended after the test."""
    started: list[Server] = []

    def start(folder: Path) -> Server:
        started.append(start_server(folder))
        return started[-1]

    yield start
    for server in started:
        end(server)


@pytest.fixture
def served() -> Callable[[Path], str]:
    """The address of a run folder's page, served by a thread of this process.

    It spares the seconds in which another process imports PyTorch; the thread ends with this one.
    """
    return by_thread


@pytest.fixture(scope="session")
def shared(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One address for all tests that only look."""
    folder = tmp_path_factory.mktemp("shared") / "run"
    return by_thread(Path(shutil.copytree(trained_run, folder)))


def by_thread(folder: Path) -> str:
    review, address = open_review(folder, write=True), Queue[str]()
    desk = Desk(review, *shown_of(review), Again(review))
    words = (desk, bind(None), address.put)
    Thread(target=serve_page, args=words, daemon=True).start()
    return address.get(timeout=60)


def start_server(folder: Path) -> Server:
    process = subprocess.Popen(
        [sys.executable, "-m", "labelproof", "review", str(folder), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found
    return Server(address=found[0], process=process)


def end(server: Server) -> None:
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGINT)
    server.process.communicate(timeout=60)

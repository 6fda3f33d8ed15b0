"""Fifty people on the steward's page for a minute: errors, and how long 95 of 100 answers take, page by page.

    python -m benchmarks.page_load [--users 50] [--seconds 60]

Each user has an account and a password, signs in once (told apart: a password is hashed slowly on purpose), then opens pages one after another with pauses of a person who reads (0.5 to 1.5 s). The server is a process
of its own; users are threads of this one. Pages here compute nothing but what they show; comparing a table with a schema, or running a
request, is not among them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import psutil

from sudare.web.passwords import hashed_password
from tests.e2e import page_kit as kit

PAGES = (
    "",
    "budget",
    "budget/visits",
    "requests",
    "requests/new",
    "releases",
    "releases/wards-2026.sudare",
    "verify",
    "schemas",
    "schemas/visits",
    "consortium",
    "static/page.css",
)
RESULTS = Path(__file__).with_suffix(".json")
TARGET_MILLISECONDS = 300


class Load:
    """What all users saw."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.milliseconds: defaultdict[str, list[float]] = defaultdict(list)
        self.errors: list[str] = []

    def note(self, page: str, seconds: float, problem: str | None) -> None:
        """Keep one answer."""
        with self.lock:
            self.milliseconds[page].append(1000 * seconds)
            if problem is not None:
                self.errors.append(f"{page}: {problem}")


def visit(load: Load, address: str, cookies: dict[str, str], until: float, seed: int) -> None:
    """One user until the time is over."""
    choose = random.Random(seed)
    with httpx.Client(base_url=address, cookies=cookies, timeout=30) as client:
        time.sleep(choose.uniform(0, 1))
        while time.monotonic() < until:
            page = choose.choice(PAGES)
            began, problem = time.monotonic(), None
            try:
                answer = client.get(f"/{page}")
                problem = None if answer.status_code == 200 else str(answer.status_code)
            except httpx.HTTPError as error:
                problem = type(error).__name__
            load.note(f"/{page}", time.monotonic() - began, problem)
            time.sleep(choose.uniform(0.5, 1.5))


def add_users(settings: Path, count: int) -> list[str]:
    """Add so many analysts to the settings of a page; their names."""
    names = [f"user{number}" for number in range(count)]
    kept = hashed_password(kit.PASSWORD)
    added = (f'[users.{name}]\nrole = "analyst"\npassword = "{kept}"\n' for name in names)
    settings.write_text(settings.read_text() + "\n" + "".join(added))
    return names


def signed_in(address: str, user: str) -> tuple[dict[str, str], float]:
    """The cookies of a session, and how many milliseconds signing in took."""
    began = time.monotonic()
    with httpx.Client(base_url=address, timeout=60) as client:
        token = re.search(r'name="form_token" value="([^"]+)"', client.get("/sign-in").text)
        assert token is not None
        values = {"form_token": token[1], "user": user, "password": kit.PASSWORD}
        assert client.post("/sign-in", data=values).status_code == 303
        return dict(client.cookies), 1000 * (time.monotonic() - began)


def quantile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measured(users: int, seconds: float) -> dict[str, Any]:
    """What the users saw."""
    load = Load()
    with tempfile.TemporaryDirectory() as folder:
        names = add_users(kit.furnished(Path(folder)), users)
        with kit.served(Path(folder)) as address:
            signing = [signed_in(address, name) for name in names]
            server = psutil.Process(address.process)
            before = server.cpu_times()
            until = time.monotonic() + seconds
            threads = [
                threading.Thread(target=visit, args=(load, address, cookies, until, seed))
                for seed, (cookies, _) in enumerate(signing)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            after = server.cpu_times()
            processor_seconds = after.user + after.system - before.user - before.system
    everything = [value for values in load.milliseconds.values() for value in values]
    return {
        "users": users,
        "seconds": seconds,
        "cores": os.cpu_count(),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "load_average": round(os.getloadavg()[0], 1),
        "server_processor_milliseconds_per_answer": round(1000 * processor_seconds / len(everything), 2),
        "sign_in_p95_milliseconds": round(quantile([milliseconds for _, milliseconds in signing], 0.95), 1),
        "answers": len(everything),
        "errors": load.errors,
        "p50_milliseconds": round(quantile(everything, 0.5), 1),
        "p95_milliseconds": round(quantile(everything, 0.95), 1),
        "pages": {
            page: {
                "answers": len(values),
                "p50_milliseconds": round(quantile(values, 0.5), 1),
                "p95_milliseconds": round(quantile(values, 0.95), 1),
            }
            for page, values in sorted(load.milliseconds.items())
        },
    }


def main() -> None:
    """Measure, print, and write benchmarks/page_load.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = measured(options.users, options.seconds)
    for page, values in found["pages"].items():
        print(f"{page:<32} {values['answers']:>6} answers   p95 {values['p95_milliseconds']:>8} ms")
    print(
        f"{found['answers']} answers, {len(found['errors'])} errors, p95 {found['p95_milliseconds']} ms (target {TARGET_MILLISECONDS})"
    )
    print(
        f"the server took {found['server_processor_milliseconds_per_answer']} ms of a processor for each answer; signing in, one after another, took {found['sign_in_p95_milliseconds']} ms (p95); load average {found['load_average']}"
    )
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Run the public registry's own checker over our entries: `python -m tests.dossier.registry_checker CHECKOUT`.

CHECKOUT is a clone of github.com/opendp/deployments-registry-data; its `scripts/check.py` needs the packages in its requirements.txt (pyyaml,
jsonschema, requests). Entries of every learner with every guarantee, filled in and as drafts, must pass, and spoiled ones must not.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from sudare.dossier.registry_entry import Publication, registry_entry, yaml_text
from sudare.dossier.release_product_kinds import PRODUCTS
from tests.dossier.made_up_facts import PROMISES, made_up_facts
from tests.dossier.test_registry_entry import FILLED, SPOILED, TODAY, spoiled

Check = Callable[[Path], Mapping[str, Any]]
HOSTILE_COLUMNS = ('x"\n  tier: 9\n', "# no\u2028comment\x85", "'- *a &b !!c %d @e: {f}", "\\\\alpha", "年齢")
# What their schema leaves to people and ours does not: a tier that the filled fields do not support.
OURS_ONLY: list[tuple[str, Any]] = [("deployment.administrative.tier", 2), ("deployment.dp_variant.data_domain", "")]


def checker_of(checkout: Path) -> Check:
    """The function that tells everything that is wrong with a file, from a clone of the registry's data."""
    spec = importlib.util.spec_from_file_location("registry_check", checkout / "scripts" / "check.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{checkout} has no scripts/check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    checked: Check = module.check
    return checked


def good_entries() -> Iterator[tuple[str, str]]:
    """A name and a text for every learner, guarantee and state of filling in."""
    for learner in PRODUCTS:
        for number, promise in enumerate(PROMISES):
            for state, publication in (("filled", FILLED), ("draft", Publication())):
                entry = registry_entry(made_up_facts(learner, promise), publication, TODAY)
                yield f"{learner.lower()}_{number}_{state}.yaml", yaml_text(entry, publication)
    hostile = registry_entry(made_up_facts("PrivateMean", PROMISES[0], HOSTILE_COLUMNS), FILLED, TODAY)
    yield "hostile_names.yaml", yaml_text(hostile, FILLED)


def bad_entries() -> Iterator[tuple[str, str]]:
    """Entries that somebody spoiled."""
    yield "with-a-hyphen.yaml", yaml.safe_dump(spoiled("deployment.basic.name", "x"))
    for number, (path, value) in enumerate(SPOILED):
        if (path, value) not in OURS_ONLY:
            yield f"spoiled_{number}.yaml", yaml.safe_dump(spoiled(path, value))


def found_by(check: Check, entries: Iterator[tuple[str, str]]) -> dict[str, Mapping[str, Any]]:
    """What the checker says about each entry, by file name."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        found = {}
        for name, text in entries:
            path = Path(folder) / name
            path.write_text(text, encoding="utf-8")
            found[name] = check(path)
    return found


def main(checkout: str) -> int:
    """Print what the checker found; 1 where it refuses one of ours, or accepts a spoiled one."""
    check = checker_of(Path(checkout))
    good, bad = found_by(check, good_entries()), found_by(check, bad_entries())
    refused = {name: errors for name, errors in good.items() if errors}
    accepted = [name for name, errors in bad.items() if not errors]
    for name, errors in refused.items():
        print(f"refused {name}: {errors}")
    for name in accepted:
        print(f"accepted though spoiled: {name}")
    print(
        f"{len(good) - len(refused)} of {len(good)} entries pass; {len(bad) - len(accepted)} of {len(bad)} spoiled ones are refused."
    )
    return int(bool(refused or accepted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

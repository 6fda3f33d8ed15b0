"""What a run keeps while it goes on, so that a killed one can be resumed: a private file, never a release.

The file holds the run's seed: whoever has it can subtract the noise. It is readable by its owner only, and is replaced whole or not at
all. It is written before the charge (with a mark that the charge then carries in the ledger), after it (with receipt and seed, before any
noise is drawn), and every few steps. So wherever a run is killed, the next one finds in the file, or by the mark in the ledger, that it has
paid, and repeats the same samples and the same noise.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from sudare.array_types import Singles
from sudare.errors import DataError
from sudare.files import write_atomically
from sudare.neural.seeded_randomness import RunState
from sudare.parsing import parsed_json
from sudare.privacy.ledger_chain import canonical_json
from sudare.sums.pseudorandom_streams import SEED_BYTES, fresh_seed

_FORMAT: Final = "sudare checkpoint 1"


@dataclass(frozen=True, repr=False)
class Checkpoint:
    """What a checkpoint holds.

    `mark` is what the run's charge is found by; `digest` tells whether data and parameters are those of the run, and is
    keyed by `key`, so that the file alone confirms no guess about the data; `seed` is None until the charge is entered.
    """

    mark: str
    key: bytes
    digest: str
    seed: bytes | None = None
    state: RunState | None = None


def new_checkpoint(rows: Singles, targets: Singles, declared: Mapping[str, Any]) -> Checkpoint:
    """Returns the checkpoint of a new run on these data with these declarations."""
    key = fresh_seed()
    return Checkpoint(f"run {uuid.uuid4().hex}", key, fingerprint(key, rows, targets, declared))


def fingerprint(key: bytes, rows: Singles, targets: Singles, declared: Mapping[str, Any]) -> str:
    """HMAC-SHA256 that changes when a row, a target or a declared number does."""
    hashed = hmac.new(key, canonical_json(dict(declared)).encode(), hashlib.sha256)
    for part in (rows, targets):
        hashed.update(f"\0{part.shape}\0".encode() + np.ascontiguousarray(part).tobytes())
    return hashed.hexdigest()


def check_same_run(kept: Checkpoint, rows: Singles, targets: Singles, declared: Mapping[str, Any]) -> None:
    """Raise DataError unless the checkpoint belongs to these data and declarations."""
    if not hmac.compare_digest(kept.digest, fingerprint(kept.key, rows, targets, declared)):
        raise DataError(
            "The checkpoint belongs to a run with other data or other parameters; nothing was charged.",
            "Give back what that run had, or another checkpoint to begin (and pay for) a new run.",
        )


def load(path: str | os.PathLike[str]) -> Checkpoint | None:
    """What a checkpoint holds, or None where there is no file. One that others may read is refused: it holds the noise's seed."""
    try:
        with open(path, "rb") as stream:
            mode, content = stat.S_IMODE(os.fstat(stream.fileno()).st_mode), stream.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"The checkpoint cannot be read ({error.strerror}).", "Check the path.") from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise DataError(
            f"The checkpoint is open to others (mode {mode:03o}), and whoever reads its seed can subtract the noise.",
            "Do not release what comes of it. Give another path to begin a new run; or, if nobody has read it, chmod 600.",
        )
    try:
        return _parsed(content)
    except (ValueError, KeyError, TypeError):
        raise DataError(
            "The checkpoint is damaged or was not written by sudare.", "Give another path to begin a new run."
        ) from None


def save(path: str | os.PathLike[str], kept: Checkpoint) -> None:
    """Replace the file whole and durably; only its owner can read it. Raise DataError where it cannot be written."""
    try:
        write_atomically(Path(path), _written(kept))
    except OSError as error:
        raise DataError(
            f"The checkpoint cannot be written ({error.strerror}).", "Check folder, rights and space."
        ) from None


def _written(kept: Checkpoint) -> bytes:
    """A line of JSON, then the state's numbers."""
    state = kept.state
    values = b"" if state is None else np.ascontiguousarray(state.values, dtype="<f4").tobytes()
    head = {
        "format": _FORMAT,
        "mark": kept.mark,
        "key": kept.key.hex(),
        "digest": kept.digest,
        "seed": None if kept.seed is None else kept.seed.hex(),
        "step": None if state is None else state.step,
        "values": hashlib.sha256(values).hexdigest(),
    }
    return canonical_json(head).encode() + b"\n" + values


def _parsed(content: bytes) -> Checkpoint:
    line, _, values = content.partition(b"\n")
    head = parsed_json(line)
    if head["format"] != _FORMAT or head["values"] != hashlib.sha256(values).hexdigest():
        raise ValueError("not a checkpoint, or damaged")
    key, seed, step = bytes.fromhex(head["key"]), head["seed"], head["step"]
    seed = None if seed is None else bytes.fromhex(seed)
    if len(key) != SEED_BYTES or (seed is not None and len(seed) != SEED_BYTES) or not isinstance(head["mark"], str):
        raise ValueError("a field of the wrong length")
    state = None if step is None else RunState(int(step), np.frombuffer(values, dtype="<f4").astype(np.float32))
    return Checkpoint(head["mark"], key, str(head["digest"]), seed, state)

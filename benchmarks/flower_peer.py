"""One sum by Flower's SecAgg+: its own client and its own server, in one process. Runs in Flower's environment.

    python -m benchmarks.flower_peer --members 1000 --degree 180 --threshold 106 --leaving 50 [--sample 3] [--json]

The client is `secaggplus_mod`, the server `SecAggPlusWorkflow`; between them is a grid that hands messages over. Processor seconds are those spent inside the
two; turning messages into bytes is not counted, and bytes are those of the messages as Flower serialises them. Members that leave deal their shares and send nothing more.

Flower shares secrets in Python, which at a thousand members takes more than an hour. With `--sample N` only N members that stay and N that leave run Flower's client. A stand-in
for each of the others has keys of its own, sends the sampled members what Flower's client would, and everybody else as many bytes that mean nothing. The server runs as it is, but opens only
the sampled members' secrets from shares: the time for one of each kind, times how many there are, is added to what it took otherwise. What it opened is compared with what was shared;
where all members run Flower's client, the total is compared too.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import random
import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod.secure_aggregation.secaggplus_mod import SecAggPlusState, secaggplus_mod
from flwr.common import Code, FitIns, FitRes, Parameters, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt, generate_shared_key
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, RECORD_KEY_STATE, Key, Stage
from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_concat, share_keys_plaintext_separate
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.compat.common import recorddict_compat
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.server import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.server.workflow.secure_aggregation import secaggplus_workflow
from flwr.serverapp import Grid
from flwr.supercore.primitives.asymmetric import (
    bytes_to_public_key,
    generate_key_pairs,
    private_key_to_bytes,
    public_key_to_bytes,
)
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from benchmarks.secure_sums_cost import Cost, told

CLIPPING_RANGE: Final = 8.0
MODULUS: Final = 2**32
MOST_QUANTIZATION: Final = 2**22
SEED_BYTES: Final = 32
# In the place of a share's first chunk; sixteen random bytes are never equal to it.
STAND_IN: Final = b"not a real share"
INDEX_BYTES: Final = 4


@dataclass
class Meter:
    """Processor seconds of this process, all threads, spent under it."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what happens inside."""
        began = time.process_time()
        try:
            yield
        finally:
            self.seconds += time.process_time() - began


def content_of(reply: dict[str, Any]) -> RecordDict:
    """A reply of the protocol, as Flower's client packs it."""
    return RecordDict({RECORD_KEY_CONFIGS: ConfigRecord(reply)})


def fit_result(parameters: Parameters) -> RecordDict:
    """What a Flower app returns from training: here every member counts the same."""
    result = FitRes(Status(Code.OK, ""), parameters, num_examples=1, metrics={})
    return recorddict_compat.fitres_to_recorddict(result, keep_input=True)


class FlowerMember:
    """A member that runs Flower's client, metered."""

    def __init__(self, node: int, vector: NDArray[np.float64]) -> None:
        self.meter, self.bytes_sent, self.bytes_received = Meter(), 0, 0
        self._context = Context(1, node, {}, RecordDict(), {})
        self.vector = vector

    def answer(self, received: bytes) -> Message:
        """The client's reply to a message that arrived as bytes."""
        self.bytes_received += len(received)
        message = message_from_proto(ProtoMessage.FromString(received))
        trained = fit_result(ndarrays_to_parameters([self.vector]))
        with self.meter.running():
            reply = secaggplus_mod(message, self._context, lambda asked, _: Message(trained, reply_to=asked))
        sent = message_to_proto(reply).SerializeToString()
        self.bytes_sent += len(sent)
        return message_from_proto(ProtoMessage.FromString(sent))

    def secret(self, *, left: bool) -> bytes:
        """What the server opens: the mask key of a member that left, the self-mask seed of one that stayed."""
        state = SecAggPlusState(**self._context.state.config_records[RECORD_KEY_STATE])
        return state.sk1 if left else state.rd_seed


@dataclass(frozen=True)
class Filler:
    """Bytes as long as what Flower's client sends, the same for all stand-ins, and a secret of each kind by the length of its shares."""

    share_of_seed: bytes
    share_of_key: bytes
    ciphertext: bytes
    masked: list[bytes]
    secrets: dict[int, bytes]

    @classmethod
    def for_numbers(cls, numbers: int) -> Filler:
        """Measured on one call of each of Flower's functions."""
        private, public = generate_key_pairs()
        shared = [bytes(SEED_BYTES), private_key_to_bytes(private)]
        secrets = {len(create_shares(secret, 2, 2)[0]): secret for secret in shared}
        share_of_seed, share_of_key = ((bytes(INDEX_BYTES) + STAND_IN).ljust(length, b"\0") for length in secrets)
        plain = share_keys_plaintext_concat(0, 0, share_of_seed, share_of_key)
        ciphertext = encrypt(generate_shared_key(private, public), plain)
        words = np.random.default_rng(0).integers(0, MODULUS, numbers, dtype=np.int64)
        arrays = ndarrays_to_parameters([words[:1], words]).tensors
        return cls(share_of_seed, share_of_key, ciphertext, arrays, secrets)


class StandIn:
    """A member that sends what Flower's client would to the sampled members, and filler to everybody else."""

    def __init__(self, node: int, sampled: Iterable[int], filler: Filler) -> None:
        self._node, self._sampled, self._filler = node, frozenset(sampled), filler
        _, self._mask_public = generate_key_pairs()
        self._channel_key, self._channel_public = generate_key_pairs()
        self._channels: dict[int, bytes] = {}
        self._shares: dict[int, tuple[bytes, bytes]] = {}

    def answer(self, message: Message) -> Message:
        """A reply of the same shape and length as Flower's client's."""
        configs = dict(message.content.config_records[RECORD_KEY_CONFIGS])
        stage = configs.pop(Key.STAGE)
        if stage == Stage.COLLECT_MASKED_VECTORS:
            content = fit_result(Parameters([], "numpy.ndarray"))
            content[RECORD_KEY_CONFIGS] = ConfigRecord(self._masked(configs))
            return Message(content, reply_to=message)
        replies = {Stage.SETUP: self._keys, Stage.SHARE_KEYS: self._dealt, Stage.UNMASK: self._opened}
        return Message(content_of(replies[stage](configs)), reply_to=message)

    def _keys(self, _: dict[str, Any]) -> dict[str, Any]:
        keys = map(public_key_to_bytes, (self._mask_public, self._channel_public))
        return dict(zip((Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2), keys, strict=True))

    def _dealt(self, directory: dict[str, Any]) -> dict[str, Any]:
        others = {int(name): keys for name, keys in directory.items() if int(name) != self._node}
        for node in self._sampled & set(others):
            self._channels[node] = generate_shared_key(self._channel_key, bytes_to_public_key(others[node][1]))
        shares = self._filler.share_of_seed, self._filler.share_of_key
        boxes = [
            encrypt(self._channels[node], share_keys_plaintext_concat(self._node, node, *shares))
            if node in self._channels
            else self._filler.ciphertext
            for node in others
        ]
        return {Key.DESTINATION_LIST: list(others), Key.CIPHERTEXT_LIST: boxes}

    def _masked(self, delivered: dict[str, Any]) -> dict[str, Any]:
        for source, box in zip(delivered[Key.SOURCE_LIST], delivered[Key.CIPHERTEXT_LIST], strict=True):
            if source in self._channels:
                plain = decrypt(self._channels[source], box)
                self._shares[source] = share_keys_plaintext_separate(plain)[2:]
        return {Key.MASKED_PARAMETERS: self._filler.masked}

    def _opened(self, asked: dict[str, Any]) -> dict[str, Any]:
        filler = self._filler.share_of_seed, self._filler.share_of_key
        stayed, left = asked[Key.ACTIVE_NODE_ID_LIST], asked[Key.DEAD_NODE_ID_LIST]
        shares = [self._shares.get(node, filler)[0] for node in stayed]
        shares += [self._shares.get(node, filler)[1] for node in left]
        return {Key.NODE_ID_LIST: stayed + left, Key.SHARE_LIST: shares}


@dataclass
class InProcessGrid(Grid):
    """Hands the server's messages to members and their replies back; members that left answer no more."""

    flower_members: dict[int, FlowerMember]
    stand_ins: dict[int, StandIn]
    leaving: frozenset[int]
    meter: Meter = field(default_factory=Meter)
    bytes_sent: int = 0

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Every reply; what happens here is not the server's work."""
        with self.meter.running():
            replies = [self._reply(message) for message in messages]
            return [reply for reply in replies if reply is not None]

    def _reply(self, message: Message) -> Message | None:
        sent, node = message_to_proto(message).SerializeToString(), message.metadata.dst_node_id
        self.bytes_sent += len(sent)
        stage = message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE]
        if node in self.leaving and stage in (Stage.COLLECT_MASKED_VECTORS, Stage.UNMASK):
            return None
        if node in self.flower_members:
            return self.flower_members[node].answer(sent)
        return self.stand_ins[node].answer(message)

    def _unused(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    set_run = create_message = get_node_ids = get_nodes = push_messages = pull_messages = _unused
    run = property(_unused)


class Everybody(FedAvg):
    """Everybody takes part, and the average is kept as it is."""

    def __init__(self, nodes: Iterable[int]) -> None:
        super().__init__()
        self._proxies = [SimpleNamespace(node_id=node) for node in nodes]
        self.average: list[NDArray[Any]] = []

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> list[Any]:
        """All members, with the same instruction."""
        return [(proxy, FitIns(parameters, {})) for proxy in self._proxies]

    def aggregate_fit(self, server_round: int, results: list[Any], failures: list[Any]) -> Any:
        """Flower puts the average into every result."""
        self.average = parameters_to_ndarrays(results[0][1].parameters)
        return results[0][1].parameters, {}


@dataclass
class Opening:
    """Flower's `combine_shares`, metered; a stand-in's shares give a secret of the right kind at once."""

    filler: Filler
    meter: Meter = field(default_factory=Meter)
    opened: list[bytes] = field(default_factory=list)
    seconds_by_share_bytes: dict[int, list[float]] = field(default_factory=dict)

    def __call__(self, shares: list[bytes]) -> bytes:
        """The secret that shares hold."""
        with self.meter.running():
            if shares[0][INDEX_BYTES:].startswith(STAND_IN):
                return self.filler.secrets[len(shares[0])]
            began = time.process_time()
            self.opened.append(combine_shares(shares))
            self.seconds_by_share_bytes.setdefault(len(shares[0]), []).append(time.process_time() - began)
            return self.opened[-1]

    def seconds_for_all(self, stayed: int, left: int) -> float:
        """What opening so many seeds and keys takes, from the mean of those that were opened."""
        counts = {len(self.filler.share_of_seed): stayed, len(self.filler.share_of_key): left}
        return sum(
            count * statistics.mean(self.seconds_by_share_bytes[length]) for length, count in counts.items() if count
        )


@dataclass(frozen=True)
class Sizes:
    """What is asked for; `sample` members of each kind run Flower's client, all of them if it is 0."""

    members: int
    numbers: int
    degree: int
    threshold: int
    leaving: int
    sample: int

    @property
    def quantization(self) -> int:
        """Steps of the range of one number: as many as fit into a word with everybody's added, Flower's default at most."""
        return min(MOST_QUANTIZATION, MODULUS >> self.members.bit_length())


def run_cost(sizes: Sizes) -> Cost:
    """One sum from its first message to its total."""
    draw = random.Random(0)
    nodes = draw.sample(range(1, 2**62), sizes.members)
    left, stayed = nodes[: sizes.leaving], nodes[sizes.leaving :]
    sampled = left[: sizes.sample] + stayed[: sizes.sample] if sizes.sample else nodes
    filler = Filler.for_numbers(sizes.numbers)
    values = np.random.default_rng(0)
    members = {node: FlowerMember(node, values.uniform(-1, 1, sizes.numbers)) for node in sampled}
    stand_ins = {node: StandIn(node, sampled, filler) for node in nodes if node not in members}
    grid = InProcessGrid(members, stand_ins, frozenset(left))
    opening, strategy, server = Opening(filler), Everybody(nodes), Meter()
    workflow = SecAggPlusWorkflow(
        sizes.degree + 1,
        sizes.threshold,
        max_weight=1.0,
        clipping_range=CLIPPING_RANGE,
        quantization_range=sizes.quantization,
        modulus_range=MODULUS,
    )
    context = server_context(sizes.numbers, strategy)
    random.seed(0)
    with mock.patch.object(secaggplus_workflow, "combine_shares", opening), server.running():
        workflow(grid, context)
    check(sizes, strategy, members, stayed, opening)
    stayers = [member for node, member in members.items() if node not in grid.leaving]
    otherwise = server.seconds - grid.meter.seconds - opening.meter.seconds
    return Cost(
        who="flower",
        members=sizes.members,
        numbers=sizes.numbers,
        degree=sizes.degree,
        threshold=sizes.threshold,
        leaving=sizes.leaving,
        member_seconds=statistics.mean(member.meter.seconds for member in stayers),
        member_bytes_sent=statistics.mean(member.bytes_sent for member in stayers),
        member_bytes_received=statistics.mean(member.bytes_received for member in stayers),
        collector_seconds=otherwise + opening.seconds_for_all(len(stayed), len(left)),
        collector_bytes_sent=grid.bytes_sent,
        how=how(sizes, otherwise, max(member.meter.seconds for member in stayers)),
    )


def server_context(numbers: int, strategy: FedAvg) -> LegacyContext:
    """A server before its first round, with a model of zeros."""
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    context = LegacyContext(Context(1, 1, {}, RecordDict(), {}), strategy=strategy)
    model = ndarrays_to_parameters([np.zeros(numbers)])
    context.state[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})
    context.state[MAIN_PARAMS_RECORD] = recorddict_compat.parameters_to_arrayrecord(model, keep_input=True)
    return context


def check(
    sizes: Sizes, strategy: Everybody, members: dict[int, FlowerMember], stayed: list[int], opening: Opening
) -> None:
    """Raise RuntimeError unless the protocol came to its end with what was put in."""
    if not strategy.average:
        raise RuntimeError("Flower's server gave up; its log says why.")
    present = set(stayed)
    if sorted(opening.opened) != sorted(member.secret(left=node not in present) for node, member in members.items()):
        raise RuntimeError("Flower's server opened something else than members had shared.")
    if len(members) == sizes.members:
        mean = np.mean([members[node].vector for node in stayed], axis=0)
        if np.abs(strategy.average[0] - mean).max() > 2 * CLIPPING_RANGE / sizes.quantization:
            raise RuntimeError("Flower's total is not the sum of its members' numbers.")


def how(sizes: Sizes, otherwise: float, most: float) -> str:
    """What was measured and what was not."""
    version = importlib.metadata.version("flwr")
    longest = f"The slowest of these members took {most:.3g} s."
    if not sizes.sample:
        return f"flwr {version}, every member and the server run as they are; the total is right. {longest}"
    return (
        f"flwr {version}; {sizes.sample} members that stay and {min(sizes.sample, sizes.leaving)} that leave run its client, the others are stand-ins."
        f" The server took {otherwise:.3g} s beside opening secrets from shares, which is the mean of those of the members that run its client,"
        f" times {sizes.members - sizes.leaving:,} seeds and {sizes.leaving:,} keys. {longest}"
    )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flower_peer", description=__doc__)
    parser.add_argument("--members", type=int, required=True)
    parser.add_argument(
        "--degree", type=int, required=True, help="neighbours of a member, itself not counted; even, or all others"
    )
    parser.add_argument("--threshold", type=int, required=True, help="shares that open a secret")
    parser.add_argument("--leaving", type=int, required=True, help="members that send no masked vector")
    parser.add_argument("--numbers", type=int, default=1_000)
    parser.add_argument(
        "--sample",
        type=int,
        default=0,
        help="how many members that stay, and as many that leave, run Flower's client; 0: all",
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a sentence")
    options = vars(parser.parse_args())
    as_json = options.pop("json")
    if options["degree"] % 2 and options["degree"] != options["members"] - 1:
        parser.error("--degree must be even, or one less than --members: Flower's graph is a ring.")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    cost = run_cost(Sizes(**options))
    print(cost.to_json() if as_json else told(cost))


if __name__ == "__main__":
    main()

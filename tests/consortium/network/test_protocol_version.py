"""Programs of different versions: the protocol has a number, whoever speaks another one is named, and no change of a message keeps the number."""

from __future__ import annotations

import hashlib
from dataclasses import fields

from sudare.consortium.network.message_dispatch import Envelope
from sudare.consortium.network.presence_announcements import FAMILY, HEADER, PROTOCOL_VERSION
from sudare.consortium.network.transport.base import Packet
from sudare.consortium.tasks.sum_attempts import Total
from sudare.consortium.tasks.sum_participant import SumRequest
from sudare.sums.messages import MESSAGE_CLASSES
from tests.consortium.simulated_consortium import IDENTITIES, Consortium

# By version, the digest of all forms. A message that changes needs a new version: raise PROTOCOL_VERSION, and enter the digest that this test shows.
FORMS = {3: "780c1a09014ead52"}


def test_a_message_that_changes_raises_the_protocol_version() -> None:
    classes = (Envelope, Total, SumRequest, *MESSAGE_CLASSES)
    forms = sorted((each.__name__, [(field.name, str(field.type)) for field in fields(each)]) for each in classes)
    assert hashlib.sha256(repr(forms).encode()).hexdigest()[:16] == FORMS[PROTOCOL_VERSION]


def test_a_member_of_another_version_is_named_with_what_to_do() -> None:
    consortium = Consortium(3)
    dispatcher, _ = consortium.dispatcher_and_group("member-00", IDENTITIES[0])
    for version, word in ((PROTOCOL_VERSION - 1, "older"), (PROTOCOL_VERSION + 1, "newer")):
        magic = FAMILY + str(version).encode()
        packet = HEADER.pack(magic, 1, bytes(16), bytes(16), 0) + b"whatever that version says"
        dispatcher.receive(Packet("member-02", packet), 0.0)
        told = dispatcher.session.other_versions()
        assert told.keys() == {"member-02"}
        assert (
            f"'member-02' speaks protocol version {version}, this program version {PROTOCOL_VERSION}"
            in told["member-02"]
        )
        assert f"the {word} one is that of 'member-02'" in told["member-02"]
    assert dispatcher.drops.by_reason() == {"other-version": 2}
    dispatcher.receive(Packet("member-02", b"SDRx" + packet[4:]), 0.0)
    assert dispatcher.drops.by_reason() == {"malformed": 1, "other-version": 2}


def test_a_claim_of_another_version_changes_nothing_for_members_that_were_met() -> None:
    """Whoever carries packets can forge such a claim: no more comes of it than a line before they meet."""
    consortium = Consortium(3)

    def forge() -> None:
        for name in consortium.names[1:]:
            dispatcher = consortium.simulation.dispatcher("member-00")
            assert dispatcher is not None
            header = HEADER.pack(b"SDR2", 1, bytes(16), bytes(16), 0)
            dispatcher.receive(Packet(name, header), consortium.simulation.now)

    consortium.simulation.at(0.0, forge)
    assert consortium.run()
    assert not consortium.failures()
    dispatcher = consortium.simulation.dispatcher("member-00")
    assert dispatcher is not None
    assert dispatcher.session.other_versions() == {}

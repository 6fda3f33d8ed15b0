"""Members on their own machines: what they agreed on, who they are, and what their stewards allow.

Import what runs over the network from its own module: it needs the extra `consortium`.
"""

from typing import TYPE_CHECKING

from sudare.lazy_exports import opened_on_use

if TYPE_CHECKING:
    from sudare.consortium.agreement.agreement import (
        Agreement,
        Budget,
        Deadlines,
        MemberEntry,
        Relay,
        Sums,
        differences,
    )
    from sudare.consortium.agreement.approvals import Approvals, Decision, permit, required
    from sudare.consortium.agreement.identity import Identity, passphrase_from, verifies
    from sudare.consortium.agreement.member_settings import Member, Policy, TransportSettings
    from sudare.consortium.agreement.signed_statements import (
        Revocation,
        Rotation,
        SignatureStatus,
        Statements,
        keys_in_force,
        signature_status,
    )
    from sudare.consortium.event_log import EventLog
    from sudare.consortium.tasks.definitions import (
        CensusTask,
        DictionaryTask,
        LearningTask,
        ModelsTask,
        ScalerTask,
        Task,
    )
else:
    __getattr__, __dir__ = opened_on_use(
        __name__,
        {
            "agreement.agreement": "Agreement Budget Deadlines MemberEntry Relay Sums differences",
            "agreement.approvals": "Approvals Decision permit required",
            "agreement.identity": "Identity passphrase_from verifies",
            "event_log": "EventLog",
            "agreement.member_settings": "Member Policy TransportSettings",
            "agreement.signed_statements": "Revocation Rotation SignatureStatus Statements keys_in_force signature_status",
            "tasks.definitions": "CensusTask DictionaryTask LearningTask ModelsTask ScalerTask Task",
        },
    )

__all__ = [
    "Agreement",
    "Approvals",
    "Budget",
    "CensusTask",
    "Deadlines",
    "Decision",
    "DictionaryTask",
    "EventLog",
    "Identity",
    "LearningTask",
    "Member",
    "MemberEntry",
    "ModelsTask",
    "Policy",
    "Relay",
    "Revocation",
    "Rotation",
    "ScalerTask",
    "SignatureStatus",
    "Statements",
    "Sums",
    "Task",
    "TransportSettings",
    "differences",
    "keys_in_force",
    "passphrase_from",
    "permit",
    "required",
    "signature_status",
    "verifies",
]

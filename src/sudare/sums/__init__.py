"""Secure sums: members learn the sum of their vectors and nothing else. Proof: proofs/secure_sums.md."""

from typing import TYPE_CHECKING

from sudare.lazy_exports import opened_on_use

if TYPE_CHECKING:
    from sudare.sums.fixed_point import FixedPoint
    from sudare.sums.in_process import SecureSum, secure_sum
    from sudare.sums.keys import MemberKeys, PublicKeys
else:
    __getattr__, __dir__ = opened_on_use(
        __name__,
        {"fixed_point": "FixedPoint", "in_process": "SecureSum secure_sum", "keys": "MemberKeys PublicKeys"},
    )

__all__ = ["FixedPoint", "MemberKeys", "PublicKeys", "SecureSum", "secure_sum"]

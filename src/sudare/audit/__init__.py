"""Does the promise hold? Lower bounds on ε, measured and computed, against what is claimed."""

from sudare.audit.canaries import canary_audit
from sudare.audit.density_ratios import DensityRatio, largest_log_ratio
from sudare.audit.distinguishing_test import distinguish, distinguish_gaussian
from sudare.audit.epsilon_lower_bounds import Audit
from sudare.audit.lowest_bits import distinguish_lowest_bits

__all__ = [
    "Audit",
    "canary_audit",
    "DensityRatio",
    "distinguish",
    "distinguish_gaussian",
    "distinguish_lowest_bits",
    "largest_log_ratio",
]

"""Does the promise hold? Lower bounds on ε, measured and computed, against what is claimed."""

from sudare.audit.canaries import canary_audit
from sudare.audit.densities import DensityRatio, largest_log_ratio
from sudare.audit.distinguish import distinguish, distinguish_gaussian
from sudare.audit.evidence import Audit
from sudare.audit.precision import precision

__all__ = [
    "Audit",
    "canary_audit",
    "DensityRatio",
    "distinguish",
    "distinguish_gaussian",
    "largest_log_ratio",
    "precision",
]

"""Where the print of paper 001 does not hold."""

from __future__ import annotations

from typing import Final

from sudare.papers.study import Erratum

_BETA: Final = "tests/papers/p001_gibbs_posteriors/test_inverse_temperatures.py"
_ERRATA: Final = "tests/papers/p001_gibbs_posteriors/test_errata.py"

ERRATA: Final = (
    Erratum(
        "Corollary 10 (i), eq. 22",
        "(ε, e^{−(1+ε)/4})-DP for every ε",
        "false for large ε: on linear losses, or shifted softplus (ℓ ≥ 0) as close to them as one likes, the exact δ is larger; refused there",
        f"{_BETA}::test_corollary_10_one_is_refused_where_it_is_false",
    ),
    Erratum(
        "Corollary 10 (ii), eq. 23",
        "(ε, δ)-DP for every ε",
        "proved only up to ε = 1 + D/2, and false for large ε; the tight condition replaces it",
        f"{_BETA}::test_corollary_10_two_is_false_for_large_epsilon",
    ),
    Erratum(
        "§4.1, eq. 27",
        "the logistic loss of (z, 1) is R-Lipschitz",
        "√(R² + 1)-Lipschitz: the constant column counts; at the printed β the δ is more than claimed",
        f"{_ERRATA}::test_a_constant_column_counts_into_the_lipschitz_constant",
    ),
    Erratum("eq. 24", "aᵀx + b", "aᵀz + b", f"{_ERRATA}::test_the_estimator_of_section_4_1_scores_by_z"),
    Erratum(
        "eq. 28",
        "the modulus of the mean is the posterior mean",
        "the mean itself; the modulus only bounds it",
        f"{_ERRATA}::test_the_posterior_mean_of_section_4_2_has_a_sign",
    ),
    Erratum(
        "eq. 32",
        "−4uC′ under the root",
        "+4uC′: only then is D₊ = u",
        f"{_ERRATA}::test_the_root_of_equation_32_needs_a_plus",
    ),
    Erratum(
        "Assumption 7 (iii)",
        "the law is proportional to exp(−βΣℓ − log π̄)",
        "exp(−βΣℓ + log π̄): with the printed sign (29) would have −1/τ², and there is no such law unless the losses alone bend more than the prior",
        f"{_ERRATA}::test_the_prior_of_assumption_7_multiplies",
    ),
    Erratum(
        "Theorem 3 (i)",
        "H = Σ log p",
        "H = −Σ log p, as above (9); the constants are right",
        f"{_ERRATA}::test_the_energy_of_theorem_3_has_a_minus",
    ),
    Erratum(
        "Theorem 9, Theorem 13",
        "an unknown constant C(1 + log(1/p))",
        "1: restricting a strongly log-concave law to a convex set keeps its log-Sobolev constant",
        f"{_ERRATA}::test_the_unknown_constant_of_theorem_9_can_be_one",
    ),
    Erratum(
        "eq. 40",
        "D_Poin = D_LS/2",
        "D_Poin = D_LS, with eq. 36 as it is written",
        f"{_ERRATA}::test_the_poincare_constant_is_the_log_sobolev_constant",
    ),
    Erratum(
        "A.4",
        "d_TV ≥ γ",
        "d_TV ≤ γ",
        f"{_ERRATA}::test_samplers_within_gamma_pay_in_both_directions",
    ),
    Erratum(
        "§2.2, below eq. 6",
        "G concentrates where f is large",
        "where f is small",
        f"{_ERRATA}::test_the_gibbs_map_prefers_small_values",
    ),
)

"""Where the print of paper 003 does not hold: what is printed, what holds, and the test that shows it."""

from __future__ import annotations

from typing import Final

from sudare.papers.study import Erratum

_SUMS: Final = "tests/papers/p003_decentralised/test_errata_consensus.py::"
_DICTIONARY: Final = "tests/papers/p003_decentralised/test_errata_dictionary.py::"
_HERE: Final = "tests/papers/p003_decentralised/"

ERRATA: Final = (
    Erratum(
        "sections 1.1 and 1.4",
        "members' records are not shared: only totals are",
        "a curious member of two computes all records of the other from ten exact iterations",
        _HERE + "test_record_reconstruction.py::test_exact_sums_of_two_members_show_every_record",
    ),
    Erratum(
        "Figure 1.4",
        "20 rounds converge almost completely",
        "members still differ by a few per cent of the addends; a tolerance is not a sum",
        _SUMS + "test_a_tolerance_is_not_a_sum",
    ),
    Erratum(
        "eq. 1.31",
        "an addend may be split in any way",
        "shares of it show its sign, bounded chunks are correlated with it",
        _SUMS + "test_how_an_addend_is_split_matters",
    ),
    Erratum(
        "eq. 1.33",
        "the degree of member s",
        "the mean degree: after relabelling everyone sits everywhere equally often",
        _SUMS + "test_equation_1_33_has_the_mean_degree",
    ),
    Erratum(
        "eq. 1.34, Theorem 1.1",
        "a bound on the breach of a member",
        "of one sum, without colluders: 50 sums of 20 members breach somebody with probability .98",
        _SUMS + "test_equation_1_34_is_about_one_sum_and_members_without_friends",
    ),
    Erratum(
        "Theorem 1.1",
        "chunks make breaches exponentially rare",
        "a member that keeps what its neighbours send for S rounds solves for all chunks of all",
        _SUMS + "test_equation_1_34_is_about_members_without_memory",
    ),
    Erratum(
        "Figure 1.7",
        "three members may hide their addends by chunks",
        "on a cycle of three everyone is next to everyone: every chunk goes to both others",
        _SUMS + "test_chunks_protect_nobody_in_the_chapters_own_example",
    ),
    Erratum(
        "eq. 1.35",
        "a product of 1 − (1.34)",
        "means nothing where (1.34) is above one",
        _SUMS + "test_the_product_of_equation_1_35_needs_factors_that_are_probabilities",
    ),
    Erratum(
        "below eq. 1.45",
        "ν₂ is at l = 1 and l = S − 1",
        "at l = 2 and l = S",
        _SUMS + "test_the_second_eigenvalue_is_at_l_2_and_s",
    ),
    Erratum(
        "eq. 1.48",
        "the relative error is √S(ν₂/ν₁)^t times O(1)",
        "the factor is disagreement over |sum|: unbounded where the sum is near zero",
        _SUMS + "test_equation_1_48_fails_where_the_sum_is_near_zero",
    ),
    Erratum("eq. 1.49", "1 − x", "exp(−x)", _SUMS + "test_equation_1_49_is_an_exponential"),
    Erratum(
        "section 1.4.4, Figure 1.5",
        "236, 47 and 6 rounds at S = 10, b = 1, 2, 3",
        "69, 28 and 16 with ε = 1/4b; no step gives the printed three",
        _SUMS + "test_iteration_counts_of_ten_members",
    ),
    Erratum(
        "Figure 1.6",
        "ε = 1/d_max on the cycle",
        "never converges for even S and b = 1: the eigenvalue −1 stays",
        _SUMS + "test_the_step_of_figure_1_6_never_converges_on_even_cycles",
    ),
    Erratum(
        "section 1.4.5",
        "inverse chords make a graph of degree 3",
        "no chord is added for S = 5 and the divisors of 24",
        _SUMS + "test_inverse_chords_add_no_edge_for_some_numbers",
    ),
    Erratum(
        "section 1.4.5",
        "the gap hardly depends on S",
        "for prime S; for others it comes near zero",
        _SUMS + "test_the_gap_of_inverse_chords_is_constant_for_primes_only",
    ),
    Erratum(
        "eq. 1.51, footnote 5",
        "the adjacency gap is what W sees",
        "only with the loops and double edges that the footnote leaves out",
        _SUMS + "test_equation_1_51_needs_the_loops_that_footnote_5_leaves_out",
    ),
    Erratum(
        "eq. 1.55 and 1.59",
        "μ = m/(λ₀ + N) maximises under N(μ | 0, (λ₀I)⁻¹)",
        "under N(μ | 0, (λ₀Λ)⁻¹)",
        _DICTIONARY + "test_1_59_is_the_maximum_for_the_prior_with_lambda_and_not_for_1_55",
    ),
    Erratum(
        "eq. 1.61",
        "Σ = C/N + μμᵀ",
        "C/N − μμᵀ, up to terms in λ₀, which the next line has",
        _DICTIONARY + "test_1_61_has_the_wrong_sign",
    ),
    Erratum(
        "eq. 1.60 and 1.61",
        "ρ₀/N with (1.61)",
        "Σ = (C − (N + λ₀)μμᵀ)/(N + 1), ρ = ρ₀/(N + 1): then the objective rises in every iteration",
        _DICTIONARY + "test_the_objective_rises_with_the_exact_update_and_falls_with_the_printed_one",
    ),
    Erratum(
        "eq. 1.64",
        "sign(0) in the open interval (−1, 1)",
        "in the closed one: at |A| = ρ the end is needed",
        _DICTIONARY + "test_the_sign_function_of_1_64_must_take_its_ends",
    ),
    Erratum(
        "eq. 1.78, Algorithm 3",
        "β ← (1.78) once a visit",
        "β is on both sides: applied once, nearly singular covariances end in a matrix that is no precision",
        _HERE + "test_printed_graphical_lasso.py::test_algorithm_3_as_printed_where_it_does_not",
    ),
    Erratum(
        "section 1.5.4",
        "a small γ − 1 prunes superfluous patterns",
        "it does not; a large ρ₀ does, 6 to 3 at ρ₀ = 30, and shrinks every precision",
        _DICTIONARY + "test_a_small_positive_gamma_minus_one_does_not_prune",
    ),
)

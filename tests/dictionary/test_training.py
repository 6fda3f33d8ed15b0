"""Whole trainings: the same as with everything in one place, bit by bit the same at every member, and driven by messages."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from sudare.dictionary.em import Dictionary, maximised, opened
from sudare.dictionary.exponential_families import Frame, Overall, Patterns
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.in_process_secure_sums import adder
from sudare.dictionary.mixture_weights import updated_weights
from sudare.dictionary.pattern_selection import normal_points
from sudare.dictionary.private_training import PrivateTerms
from sudare.dictionary.sum_questions import Branch, Moments, Own, PatternCounts, SumQuestion, answered
from sudare.dictionary.training import (
    TrainingState,
    begun,
    own_weights,
    simulated,
    step,
    trained,
)
from sudare.errors import ImplausibleTotal, InvalidParameter, NotSolved
from sudare.privacy.noise import SeededNoise
from sudare.sums.sum_script_replay import ScriptReplay
from tests.dictionary.kit import chapter_records, chapter_terms, held


def pooled_em(tables, terms, iterations):
    """The same model in one place: plain floats, no questions, no fixed point."""
    everything = np.concatenate(tables)
    centre, scale = everything.mean(axis=0), everything.std(axis=0)
    members = [(table - centre) / scale for table in tables]
    family = terms.family
    correlation = np.cov(everything.T, bias=True) / np.outer(scale, scale)

    class Whole:
        rows = len(everything)
        mean = np.zeros(4)
        covariance = correlation
        deviation = np.ones(4)

    patterns = family.start(normal_points(terms.n_patterns, 4), Whole())
    weights = [np.full(terms.n_patterns, 1 / terms.n_patterns) for _ in members]
    for _ in range(iterations):
        counts, statistics, following = 0, 0, []
        for Z, own in zip(members, weights, strict=True):
            joint = family.log_densities(Z, patterns) + np.log(own)
            shares = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
            counts, statistics = counts + shares.sum(axis=0), statistics + shares.T @ family.statistics(Z)
            following.append(updated_weights(shares.sum(axis=0), terms.concentration))
        patterns, weights = family.updated(counts, statistics, patterns), following
    return patterns, centre, scale


def exact_sum(addends):
    return [np.sum(addends, axis=0)] * len(addends)


def fixed_iterations(terms):
    """Opening sums and EM, nothing else; a fall by rounding, once it has converged, does not end it."""
    opening = yield from opened(terms)
    start = opening.family.start(normal_points(terms.n_patterns, 4), opening.overall)
    fit = yield from maximised(opening, opening.family, start, Branch(next(opening.branches)), tol=-1.0)
    return Dictionary(opening.family, fit.patterns, opening.frame, opening.overall, fit.counts, fit.branch, fit.history)


@pytest.mark.parametrize("hide", ["masks", "nothing"])
def test_a_training_without_a_server_is_the_pooled_one_within_a_billionth(hide):
    """Must show 5: fixed point, masks and dissemination on one side, one place and floats on the other."""
    tables = chapter_records(rows=200)
    terms = chapter_terms(n_patterns=3, min_others=0, max_iter=25)
    found = simulated(fixed_iterations(terms), held(tables), adder(3, hide)).dictionary
    patterns, centre, scale = pooled_em(tables, terms, 25)
    np.testing.assert_allclose(found.frame.centre, centre, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.frame.scale, scale, rtol=1e-12)
    np.testing.assert_allclose(found.patterns["means"], patterns["means"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.patterns["precisions"], patterns["precisions"], rtol=1e-9, atol=1e-9)


def test_so_is_a_whole_training_with_search_and_supports():
    """Every decision is the same, and the result within a billionth of that with sums of floats in one place."""
    tables, terms = chapter_records(rows=60), chapter_terms()
    masked = simulated(trained(terms), held(tables), adder(3, "masks"))
    plain = simulated(trained(terms), held(tables), exact_sum)
    assert masked.numbers == plain.numbers
    for name, array in plain.dictionary.natural().arrays.items():
        np.testing.assert_allclose(masked.dictionary.natural()[name], array, rtol=1e-9, atol=1e-9)


def walked(tables, terms, add_up, conversations=None):
    """Members as they are between machines: each with its own script and state, told nothing but totals."""
    members = held(tables)
    conversations = conversations or [ScriptReplay(lambda: trained(terms)) for _ in members]
    states, addends = map(list, zip(*(begun(c, m) for c, m in zip(conversations, members, strict=True)), strict=True))
    while True:
        totals = add_up(addends)
        results = [step(c, m, s, t) for c, m, s, t in zip(conversations, members, states, totals, strict=True)]
        states, addends = [list(part) for part in zip(*results, strict=True)]
        if isinstance(addends[0], Dictionary):
            return states, addends


def test_members_end_bit_by_bit_alike_and_as_in_the_simulation():
    tables, terms = chapter_records(rows=60), chapter_terms()
    states, dictionaries = walked(tables, terms, adder(3, "masks"))
    simulation = simulated(trained(terms), held(tables), adder(3, "nothing"))
    for each in dictionaries:
        for name, array in simulation.dictionary.patterns.arrays.items():
            assert each.patterns[name].tobytes() == array.tobytes()
    for state, own in zip(states, simulation.own, strict=True):
        assert len(state.heard) == simulation.sums
        branch = simulation.dictionary.branch.number
        assert state.own.weights[branch].tobytes() == own.weights[branch].tobytes()


def test_a_stopped_member_goes_on_from_its_state():
    """A new process knows terms, records and the saved state; it asks and answers as if nothing had happened."""
    tables, terms = chapter_records(rows=40), chapter_terms(n_patterns=3)
    members = held(tables)
    conversation = ScriptReplay(lambda: trained(terms))
    states = [begun(ScriptReplay(lambda: trained(terms)), records) for records in members]
    history = []
    for _ in range(12):
        total = np.sum([addend for _, addend in states], axis=0)
        history.append((states[0], total))
        states = [
            step(ScriptReplay(lambda: trained(terms)), records, state, total)
            for records, (state, _) in zip(members, states, strict=True)
        ]
    for (state, _), total in reversed(history):
        again = step(conversation, members[0], state, total)
        assert isinstance(again[1], np.ndarray)
    (state, _), total = history[-1]
    np.testing.assert_array_equal(step(conversation, members[0], state, total)[1], states[0][1])


def test_a_total_after_the_end_is_refused():
    tables, terms = chapter_records(rows=40), chapter_terms(n_patterns=2, search=False)
    states, _ = walked(tables, terms, exact_sum)
    with pytest.raises(NotSolved, match="ended"):
        step(ScriptReplay(lambda: trained(terms)), held(tables)[0], states[0], np.ones(3))


def questions_of(script, tables, noise=None):
    """All questions of a training, and every member's addends."""
    own, asked = [Own({}) for _ in tables], []
    members = held(tables)
    question = next(script)
    while True:
        addends = []
        for position, records in enumerate(members):
            own[position], addend = answered(records, own[position], question, noise)
            addends.append(addend)
        asked.append((question, addends))
        try:
            question = script.send(np.sum(addends, axis=0) * question.limits)
        except StopIteration as end:
            return asked, end.value


def test_the_objective_rises_in_every_iteration():
    _, dictionary = questions_of(fixed_iterations(chapter_terms(max_iter=40)), chapter_records(rows=60))
    rises = np.diff(dictionary.history)
    assert len(rises) > 20
    assert np.all(rises > -1e-9 * abs(dictionary.history[0]))


def test_addends_stay_within_their_limits_and_nothing_saturates():
    tables = chapter_records(rows=60)
    asked, _ = questions_of(trained(chapter_terms()), tables)
    assert all(np.all(np.abs(addend) <= 1) for _, addends in asked for addend in addends)
    simulation = simulated(trained(chapter_terms()), held(tables), exact_sum)
    assert [own.saturated for own in simulation.own] == [0, 0, 0]


def test_what_lies_outside_the_limits_saturates_and_only_its_owner_knows():
    records = held([np.full((50, 4), 19.0)])[0]
    question = next(trained(chapter_terms(most_rows=4)))
    own, addend = answered(records, Own({}), question)
    assert own.saturated == 1
    assert np.all(np.abs(addend) <= 1)


def test_questions_depend_on_totals_alone():
    """Two consortia with other members but the same totals are asked the same: nothing else can steer a training."""
    tables = chapter_records(rows=60)
    pooled = [np.concatenate(tables)]
    asked, _ = questions_of(trained(chapter_terms(n_patterns=1, members=3)), tables)
    alone, _ = questions_of(trained(chapter_terms(n_patterns=1, members=3, min_others=0)), pooled)
    assert len(asked) >= 5
    assert {type(question) for question, _ in asked} == {type(question) for question, _ in alone}


def test_a_training_stops_before_it_shows_more_than_was_agreed():
    tables = chapter_records(rows=40)
    with pytest.raises(NotSolved, match="agreed"):
        simulated(trained(chapter_terms(), 500), held(tables), exact_sum)
    free = simulated(trained(chapter_terms()), held(tables), exact_sum)
    bound = simulated(trained(chapter_terms(), free.numbers), held(tables), exact_sum)
    assert bound.numbers == free.numbers


# Vetoes: patterns behind which there are too few records of others


def test_a_pattern_with_too_few_records_of_others_goes_before_its_moments_are_shown():
    """Member 1 alone has a far cluster; for it, nobody else is behind that pattern."""
    random = np.random.default_rng(0)
    common = [random.normal(size=(80, 4)) for _ in range(3)]
    tables = [np.concatenate([common[0], random.normal(size=(40, 4)) + 9]), *common[1:]]
    asked, dictionary = questions_of(trained(chapter_terms(n_patterns=4, min_others=3)), tables)
    shown = [q for (q, _), (later, _) in zip(asked, asked[2:], strict=False) if isinstance(later, Moments)]
    for question, addends in asked:
        if isinstance(question, PatternCounts) and question in shown:
            own = addends[0] * question.limits
            others = np.sum(addends[1:], axis=0) * question.limits
            assert np.all(others >= 3 - 1e-6), (own, others)
    assert np.all(dictionary.natural()["means"] < 8)


def test_a_single_member_has_no_others_to_protect():
    simulation = simulated(trained(chapter_terms(members=1)), held([np.concatenate(chapter_records())]), exact_sum)
    assert len(simulation.dictionary.patterns) >= 2


def test_members_without_anything_in_common_are_told():
    tables = [np.random.default_rng(s).normal(size=(30, 4)) * 0.1 + 5 * s for s in range(2)]
    with pytest.raises(NotSolved, match="min_others"):
        simulated(trained(chapter_terms(members=2, min_others=31)), held(tables), exact_sum)


# Totals that cannot be


def hostile(position, change):
    """A sum in which the last member's addend is changed from some question on."""
    seen = []

    def add_up(addends):
        seen.append(1)
        if len(seen) >= position:
            addends = [*addends[:-1], change(addends[-1])]
        return exact_sum(addends)

    return add_up


@pytest.mark.parametrize(
    ("position", "change"),
    [
        (2, lambda addend: np.full_like(addend, 0.9)),
        (3, np.ones_like),
        (4, lambda addend: addend + 0.4),
        (4, lambda addend: -addend),
        (6, np.ones_like),
        (6, lambda addend: 0.9 * addend),
        (12, lambda addend: np.where(np.arange(len(addend)) == 2, addend + 1e-4, addend)),
    ],
)
def test_totals_outside_the_declared_ranges_stop_the_task(position, change):
    with pytest.raises(ImplausibleTotal):
        simulated(trained(chapter_terms(search=False)), held(chapter_records()), hostile(position, change))


def test_a_member_that_leaves_after_the_opening_is_named_as_a_reason():
    """Its records were counted, and no later exact total fits without them."""
    with pytest.raises(ImplausibleTotal, match="If a member left since"):
        simulated(trained(chapter_terms(search=False)), held(chapter_records()), hostile(4, np.zeros_like))


def test_an_objective_that_falls_stops_the_task():
    """A member that adds a worse log-likelihood than its records have is found out by the sum."""

    def worse(addend):
        changed = addend.copy()
        changed[-3] -= 0.2
        return changed

    with pytest.raises(NotSolved, match="objective fell"):
        simulated(trained(chapter_terms(search=False)), held(chapter_records(rows=100)), hostile(9, worse))


def test_different_totals_at_members_stop_the_task():
    def torn(addends):
        totals = exact_sum(addends)
        return [totals[0], totals[0] + 1e-12, totals[2]]

    with pytest.raises(NotSolved, match="different totals"):
        simulated(trained(chapter_terms()), held(chapter_records()), torn)


def test_unknown_ways_of_hiding_are_refused_before_a_sum():
    with pytest.raises(InvalidParameter, match="hiding"):
        adder(3, "chunks")


def test_an_unknown_question_is_refused():
    with pytest.raises(InvalidParameter, match="not a question"):
        answered(held(chapter_records())[0], Own({}), SumQuestion(np.ones(1)))


def test_moments_before_counts_are_refused():
    with pytest.raises(InvalidParameter, match="E step"):
        answered(held(chapter_records())[0], Own({}), Moments(np.ones(3)))


def test_own_state_and_records_are_not_printed():
    records = held(chapter_records())[0]
    state, _ = begun(ScriptReplay(lambda: trained(chapter_terms())), records)
    for each in (records, state, state.own):
        assert re.fullmatch(r"<[\w.]+ object at 0x[0-9a-f]+>", repr(each))


# Own weights


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_own_weights_leave_out_patterns_that_a_member_does_not_have(seed):
    """Records of the first of three patterns that are far apart: the others get no weight, whatever the start was."""
    random = np.random.default_rng(seed)
    patterns = Patterns({"means": np.array([[0.0, 0], [8, 0], [0, 8]]), "precisions": np.stack([np.eye(2)] * 3)})
    dictionary = Dictionary(
        SparseGaussian(),
        patterns,
        Frame(np.zeros(2), np.ones(2)),
        Overall(60, np.zeros(2), np.eye(2)),
        np.ones(3),
        Branch(0),
        (),
    )
    records = held([random.normal(size=(60, 2))])[0]
    weights = own_weights(records, dictionary, random.dirichlet(np.ones(3)))
    np.testing.assert_array_equal(weights, [1.0, 0.0, 0.0])
    both = held([np.concatenate([random.normal(size=(30, 2)), random.normal(size=(30, 2)) + [8, 0]])])[0]
    # One record in 30,000 lies nearer to the other pattern, and would count there.
    np.testing.assert_allclose(own_weights(both, dictionary), [0.5, 0.5, 0.0], atol=0.04)


# A private training is a walk of the same kind


def test_a_private_training_can_be_driven_by_messages():
    tables = chapter_records(rows=100)
    private = PrivateTerms(chapter_terms(), 5.0, 1e-6, iterations=2)
    members = held(tables)
    conversations = [ScriptReplay(lambda: trained(private)) for _ in members]
    noises = [SeededNoise(position) for position in range(3)]
    states = [begun(c, m, n) for c, m, n in zip(conversations, members, noises, strict=True)]
    while not isinstance(states[0][1], Dictionary):
        total = np.sum([addend for _, addend in states], axis=0)
        states = [
            step(c, m, state, total, n)
            for c, m, n, (state, _) in zip(conversations, members, noises, states, strict=True)
        ]
    assert isinstance(states[0][0], TrainingState)
    assert len({each.patterns["means"].tobytes() for _, each in states}) == 1

"""Public settings of DP-SGD: a rule that always gives usable ones. What they promise is tested in tests/guarantees/test_neural_gradient.py."""

from __future__ import annotations

import math

from sudare.neural.dp_sgd import Recipe, check_recipe, public_recipe


def test_the_public_recipe_is_always_usable():
    for rows in (1, 50, 3000, 10**5, 10**8):
        for epsilon in (0.01, 1.0, 10.0):
            for neighbours in ("replace-one", "add-remove"):
                recipe = public_recipe(rows, epsilon, 1e-6, neighbours)
                check_recipe(recipe)
                assert 200 <= recipe.max_iter <= 400
                assert 0 < recipe.learning_rate <= 2
                assert recipe.sampling_rate == 1 or recipe.sampling_rate * 2**32 == int(recipe.sampling_rate * 2**32)
                assert recipe.max_physical_batch_size <= 8192


def test_what_is_given_is_taken():
    recipe = public_recipe(
        1000,
        1.0,
        1e-6,
        "replace-one",
        max_iter=7,
        sampling_rate=0.3,
        clip=2.0,
        learning_rate=0.4,
        momentum=0.5,
        max_physical_batch_size=9,
    )
    assert recipe == Recipe(7, math.floor(0.3 * 2**32) / 2**32, 2.0, 0.4, 0.5, 9)

"""What a private network's privacy card must say besides its guarantee."""

from __future__ import annotations

from sudare.neural.release_format import ReleasedLayers


def remarks(**parameters: object) -> dict[str, str]:
    plain = {"exact_noise": True, "approach": "learning_first", "parameter_epsilon": None, "vacuous": False}
    return dict(ReleasedLayers.card_remarks({**plain, **parameters}))


def test_a_card_says_what_a_release_obliges_it_to() -> None:
    assert remarks() == {}
    told = remarks(exact_noise=False, parameter_epsilon=0.1, vacuous=True)
    assert list(told) == ["arithmetic", "beside it", "accepted"]
    assert told["arithmetic"].startswith("floating-point noise")
    assert told["beside it"].startswith("ε = 0.1 for one parameter")
    assert "next to nothing" in told["accepted"]
    network = remarks(approach="gradient")
    assert list(network) == ["arithmetic"]
    assert "counted in δ" in network["arithmetic"]
    assert "IEEE 754" in network["arithmetic"]

"""Networks with convolutions in plain JAX, and images to train them on: scikit-learn's digits, and bars that are generated."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from sklearn.datasets import load_digits


def convolutional(params, images):
    """Scores of the classes of images [rows, side, side]."""
    values = images[..., None]
    for layer in params["convolutions"]:
        values = lax.conv_general_dilated(
            values, layer["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        values = jax.nn.relu(values + layer["bias"])
        values = lax.reduce_window(values, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return values.reshape(len(values), -1) @ params["last"]["weights"] + params["last"]["bias"]


def convolutional_start(side=8, channels=(8, 16), classes=10, seed=0):
    generator = np.random.default_rng(seed)

    def kernel(*shape):
        return (generator.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)

    first, second = channels
    return {
        "convolutions": [
            {"kernel": kernel(3, 3, 1, first), "bias": np.zeros(first, np.float32)},
            {"kernel": kernel(3, 3, first, second), "bias": np.zeros(second, np.float32)},
        ],
        "last": {
            "weights": np.zeros(((side // 4) ** 2 * second, classes), np.float32),
            "bias": np.zeros(classes, np.float32),
        },
    }


def digits():
    """Images from 0 to 16, and the digits on them."""
    loaded = load_digits()
    return loaded.images, loaded.target

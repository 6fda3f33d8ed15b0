"""Private networks, trained by DP-SGD."""

from typing import TYPE_CHECKING

from sudare.lazy_exports import opened_on_use

if TYPE_CHECKING:
    from sudare.neural.estimators import PrivateMLPClassifier, PrivateMLPRegressor
    from sudare.neural.private_network import PrivateNetwork
else:
    __getattr__, __dir__ = opened_on_use(
        __name__, {"estimators": "PrivateMLPClassifier PrivateMLPRegressor", "private_network": "PrivateNetwork"}
    )

__all__ = ["PrivateMLPClassifier", "PrivateMLPRegressor", "PrivateNetwork"]

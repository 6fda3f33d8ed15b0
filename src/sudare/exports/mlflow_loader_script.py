"""What MLflow runs of an exported release: opens the signed file, and asks it. MLflow reads this file itself, as a script."""

from typing import Any

import mlflow.models
import mlflow.pyfunc


class ReleasedModel(mlflow.pyfunc.PythonModel):
    """A released model as MLflow calls it."""

    def load_context(self, context: Any) -> None:
        """Open the release; its signature must be that of the key in it."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        from sudare.privacy.release import audited, read
        from sudare.privacy.release_file import verify_signature

        content = read(context.artifacts["release"])
        verify_signature(content, [Ed25519PublicKey.from_public_bytes(content.public_key)])
        self.model = audited(content).model()

    def predict(self, context: Any, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Predictions for a frame of the declared columns."""
        return self.model.predict(model_input)


mlflow.models.set_model(ReleasedModel())

"""Released models in formats of other tools: ONNX and MLflow. What is exported has the numbers of the release, and no more."""

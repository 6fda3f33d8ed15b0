"""Private linear models: logistic regression, linear classification with a smoothed hinge, and ridge regression."""

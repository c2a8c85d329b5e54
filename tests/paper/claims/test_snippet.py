"""The code sketch of the paper's appendix (python_algo) runs, once `.output` is added, and gives our U_density."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from softscope import FeatureSet, Head
from softscope.estimators import Density

SNIPPET = """
from tensorflow import keras
from sklearn.mixture import GaussianMixture

# train model in usual way
model.fit(x_train, y_train)

# extract train data features from final hidden layer
model_z = keras.Model(inputs=model.input,
                      outputs=model.layers[-2])
z_train = model_z.predict(x_train)

# fit density model
gmm = GaussianMixture(n_components).fit(z_train)

# extract test features
z_test = model_z.predict(x_test)

# compute log probability score
uncertainty_estimate = -gmm.score_samples(z_test)
"""
CORRECTED = SNIPPET.replace("model.layers[-2]", "model.layers[-2].output")


class Model:
    """What the snippet asks of keras: a model is made of tensors; a layer is not a tensor, its `output` is."""

    def __init__(self, inputs, outputs):
        if not callable(outputs):
            raise TypeError(f"outputs: expected a tensor, found {type(outputs).__name__}")
        self.predict = outputs


class TinyNetwork:
    """scikit-learn's own network with the few names of keras that the snippet uses."""

    input = None

    def __init__(self):
        self.classifier = MLPClassifier((6,), activation="tanh", max_iter=300, random_state=2)
        self.fit = self.classifier.fit
        self.layers = [SimpleNamespace(output=self._hidden), SimpleNamespace(output=self.classifier.predict_proba)]

    def _hidden(self, x):
        return np.tanh(x @ self.classifier.coefs_[0] + self.classifier.intercepts_[0])


@pytest.fixture(scope="module")
def names():
    x, y = load_digits(return_X_y=True)
    x, y = x[y < 3] / 16.0, y[y < 3]
    return {"x_train": x[::2], "y_train": y[::2], "x_test": x[1::2], "n_components": 3, "model": TinyNetwork()}


@pytest.fixture
def keras(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(keras=SimpleNamespace(Model=Model)))


@pytest.mark.usefixtures("keras")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_snippet_as_printed_breaks_off_for_want_of_output(names):
    with pytest.raises(TypeError, match="expected a tensor"):
        exec(SNIPPET, dict(names))


@pytest.mark.usefixtures("keras")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_with_output_it_gives_our_u_density_to_rounding(names):
    np.random.seed(0)  # noqa: NPY002  the snippet leaves scikit-learn's start to the global state
    ran = dict(names)
    exec(CORRECTED, ran)
    network = ran["model"].classifier
    head = Head(network.coefs_[1].T, network.intercepts_[1])
    ours = Density(components=3, init="kmeans", ridge=1e-6).fit(head, FeatureSet(ran["z_train"]))
    # Ours multiplies in float32: six digits are its rounding.
    np.testing.assert_allclose(ours.uncertainty(ran["z_test"]), ran["uncertainty_estimate"], rtol=1e-5, atol=5e-5)

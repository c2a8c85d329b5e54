"""scikit-learn classifiers: the head and features give the estimator's own probabilities."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import softscope as sx
from softscope import SoftscopeError

X, Y = load_digits(return_X_y=True)
X, Y = X[:600] / 16, Y[:600]


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(max_iter=500),
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        make_pipeline(StandardScaler(), make_pipeline(PCA(20), LogisticRegression(max_iter=500))),
        MLPClassifier((16,), max_iter=50, random_state=0),
        make_pipeline(StandardScaler(), MLPClassifier((16, 8), activation="tanh", max_iter=50, random_state=0)),
    ],
    ids=["logistic", "scaled", "nested pipeline", "network", "deep network"],
)
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("classes", [2, 10])
def test_the_head_gives_the_estimators_own_probabilities(estimator, classes):
    rows = classes > Y
    estimator.fit(X[rows], Y[rows])
    head, features = sx.extract(estimator, (X[rows], Y[rows]))
    np.testing.assert_allclose(
        softmax(head.logits(features.array()), axis=1), estimator.predict_proba(X[rows]), rtol=1e-4, atol=1e-6
    )
    assert head.classes == tuple(map(str, range(classes)))
    alone = sx.Head.from_sklearn(estimator)
    assert np.array_equal(alone.weight, head.weight)
    assert np.array_equal(alone.bias, head.bias)
    assert features.labels.tolist() == Y[rows].tolist()


def test_sparse_rows_and_texts_are_taken_as_they_are():
    texts = [f"the cat sat on mat {n}" for n in range(20)] + [f"stocks fell by {n} points" for n in range(20)]
    labels = np.repeat([0, 1], 20)
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, labels)
    head, features = sx.extract(model, texts, labels)
    np.testing.assert_allclose(softmax(head.logits(features.array()), axis=1), model.predict_proba(texts), rtol=1e-5)
    plain = LogisticRegression(max_iter=500).fit(X, Y)
    dense, sparse = sx.extract(plain, X)[1], sx.extract(plain, csr_matrix(X))[1]
    np.testing.assert_allclose(dense.array(), sparse.array())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LogisticRegression(), "is not fitted"),
        (DecisionTreeClassifier().fit(X, Y), "has no linear last layer"),
        (make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(X, Y), "has no linear last layer"),
    ],
)
def test_what_has_no_linear_last_layer_is_refused(model, words):
    with pytest.raises(SoftscopeError, match=words):
        sx.extract(model, X)


def test_rows_of_another_width_are_one_clear_line():
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X, Y)
    with pytest.raises(SoftscopeError, match="StandardScaler failed"):
        sx.extract(model, X[:, :5])
    with pytest.raises(SoftscopeError, match="LogisticRegression failed: X has 5 features"):
        sx.extract(model[-1], X[:, :5])


@pytest.mark.parametrize("classes", [2, 3])
def test_inputs_so_far_out_that_probabilities_round_to_0_are_read(classes):
    rows = classes > Y
    model = MLPClassifier((8,), max_iter=600, random_state=0).fit(X[rows], Y[rows])
    far = 1000 * X[rows]
    assert model.predict_proba(far).min() < 1e-15
    head, features = sx.extract(model, far)
    np.testing.assert_allclose(softmax(head.logits(features.array()), axis=1), model.predict_proba(far), atol=1e-5)

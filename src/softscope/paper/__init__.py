"""The paper wing: the reference implementation of "Understanding Softmax Confidence and Uncertainty".

Its claims, experiments, networks, training, data sets and figures. It stands on the product wing; nothing in the
product wing imports it.
"""

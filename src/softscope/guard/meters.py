"""What Prometheus reads of a guard in service: counts by class, p-values, requests and drift."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..arrays import Floats
from .conformal import Whole
from .guard import Guard
from .monitor import Monitor

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_P_EDGES = np.array([0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])


class Meters:
    """Counts in arrays, which become Prometheus's own objects only when it asks: a request costs four additions."""

    def __init__(self, guard: Guard, monitor: Monitor) -> None:
        self._guard, self._monitor = guard, monitor
        classes = guard.head.n_classes
        self._names = [guard.head.class_name(number) for number in range(classes)]
        self._inputs, self._alarms = np.zeros(classes, np.int64), np.zeros(classes, np.int64)
        self._p, self._p_sum = np.zeros(len(_P_EDGES), np.int64), 0.0
        self._info = {"sha256": guard.sha256, "estimator": guard.estimator.info.name, "softscope": __version__}
        self.requests: Counter[int] = Counter()

    def count(self, classes: Whole, alarms: NDArray[np.bool_], p_values: Floats) -> None:
        """Add inputs that were judged."""
        self._inputs += np.bincount(classes, minlength=len(self._names))
        self._alarms += np.bincount(classes[alarms], minlength=len(self._names))
        self._p += np.bincount(np.searchsorted(_P_EDGES, p_values), minlength=len(_P_EDGES))
        self._p_sum += float(p_values.sum())

    def text(self) -> bytes:
        """All meters as Prometheus reads them."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Any]:
        """The families of meters, for a registry of prometheus_client."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            InfoMetricFamily,
        )

        for name, text, values in (
            ("softscope_inputs", "Inputs judged, by predicted class.", self._inputs),
            ("softscope_alarms", "Alarms, by predicted class.", self._alarms),
        ):
            family = CounterMetricFamily(name, text, labels=["class"])
            for label, count in zip(self._names, values.tolist()):
                family.add_metric([label], count)
            yield family
        requests = CounterMetricFamily("softscope_requests", "Requests, by HTTP status.", labels=["status"])
        for status, count in sorted(self.requests.items()):
            requests.add_metric([str(status)], count)
        yield requests
        edges = [*map(str, _P_EDGES.tolist()), "+Inf"]
        upto = [*self._p.cumsum().tolist(), int(self._p.sum())]
        yield HistogramMetricFamily(
            "softscope_p_value", "p-values of inputs.", buckets=list(zip(edges, upto)), sum_value=self._p_sum
        )
        evidence = self._monitor.evidence
        for name, text, value in (
            ("drift_evidence_log10", "Largest evidence of a change so far, log10.", evidence.log_largest / np.log(10)),
            ("drift_alarm", "1 from the drift alarm on.", int(evidence.alarm)),
            ("promised_false_alarms", "The promised rate.", self._guard.false_alarms),
        ):
            yield GaugeMetricFamily(f"softscope_{name}", text, value)
        yield InfoMetricFamily("softscope_guard", "The guard in service.", self._info)

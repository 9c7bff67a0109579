"""Metrics of a server, in Prometheus' text format."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tessella.tools.serve.refusal import missing_package

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_REQUESTS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters and histograms of one server. Raises OptionError without ``prometheus_client``."""

    def __init__(self) -> None:
        try:
            client: Any = import_module("prometheus_client")
        except ImportError as error:
            raise missing_package("prometheus_client") from error
        self._client = client
        self._registry = client.CollectorRegistry()
        shared = {"registry": self._registry}
        self.requests: Any = client.Counter(
            "tessella_requests", "Requests by HTTP status.", ["model", "status"], **shared
        )
        self.seconds: Any = client.Histogram(
            "tessella_request_seconds",
            "Time from the first byte of a request's body to the last byte of its answer.",
            ["model"],
            buckets=_SECONDS,
            **shared,
        )
        self.run_requests: Any = client.Histogram(
            "tessella_run_requests",
            "Requests that one run of the model answered.",
            ["model"],
            buckets=_REQUESTS,
            **shared,
        )
        self.in_flight: Any = client.Gauge(
            "tessella_requests_in_flight", "Requests that have no answer yet.", **shared
        )

    def text(self) -> tuple[bytes, str]:
        """Return the metrics, and their content type."""
        return self._client.generate_latest(self._registry), self._client.CONTENT_TYPE_LATEST

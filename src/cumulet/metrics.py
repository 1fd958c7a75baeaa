"""What ``GET /metrics`` tells. Requests are counted in plain dicts; everything else is read when it is asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cumulet.api.cloud import Metrics
from cumulet.db.engine import Database, Tx
from cumulet.reconcile import agents

#: Upper bounds of the latency histogram, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Requests(Metrics):
    """Counts requests by area, route, method and status."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, str, int], int] = {}
        self.buckets: dict[tuple[str, str, str], list[int]] = {}
        self.seconds: dict[tuple[str, str, str], float] = {}

    def request(self, area: str, route: str, method: str, status: int, seconds: float) -> None:
        key = (area, route, method if route else "")
        self.counts[*key, status] = self.counts.get((*key, status), 0) + 1
        buckets = self.buckets.get(key)
        if buckets is None:
            buckets = self.buckets[key] = [0] * (len(BOUNDS) + 1)
        buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds[key] = self.seconds.get(key, 0.0) + seconds

    async def text(self, db: Database, parts: Mapping[str, Any]) -> bytes:
        state = await db.read(gauges)
        return render(lambda: _families(self, db, parts, state))


def render(families: Callable[[], Iterator[Any]]) -> bytes:
    """Families of metrics in Prometheus' text format."""
    # Imported at the first scrape: it is not needed to start.
    import prometheus_client

    class Collector(prometheus_client.registry.Collector):
        def collect(self) -> Iterator[Any]:
            return families()

    registry = prometheus_client.CollectorRegistry()
    registry.register(Collector())
    return prometheus_client.generate_latest(registry)


def gauges(tx: Tx) -> dict[str, Any]:
    """Counts of the ledger's rows, of who waits, and of agents."""
    return {
        "claims": tx.all(
            "select kind, wanted, seen, count(*) as number from claims where holder is not null group by kind, wanted, seen"
        ),
        "debts": tx.all("select kind, count(*) as number from claims where holder is null group by kind"),
        "orphans": tx.value("select count(*) from orphans"),
        "waiting": tx.all(
            "select kind, rule, count(*) as number from holders where rule is not null group by kind, rule"
        ),
        "agents": agents.counts(tx),
    }


def _families(
    requests: Requests, db: Database, parts: Mapping[str, Any], state: Mapping[str, Any]
) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    counter = CounterMetricFamily(
        "cumulet_requests", "API requests answered.", labels=["area", "route", "method", "status"]
    )
    for (area, route, method, status), number in list(requests.counts.items()):
        counter.add_metric([area, route, method, str(status)], number)
    yield counter
    histogram = HistogramMetricFamily(
        "cumulet_request_seconds", "Time to answer an API request.", labels=["area", "route", "method"]
    )
    for key, buckets in list(requests.buckets.items()):
        histogram.add_metric(list(key), _cumulated(buckets), requests.seconds[key])
    yield histogram
    claims = GaugeMetricFamily("cumulet_claims", "Open claims of holders.", labels=["kind", "wanted", "seen"])
    for row in state["claims"]:
        claims.add_metric([row["kind"], "yes" if row["wanted"] else "no", row["seen"]], row["number"])
    yield claims
    debts = GaugeMetricFamily("cumulet_debts", "Claims whose holder is gone.", labels=["kind"])
    for row in state["debts"]:
        debts.add_metric([row["kind"]], row["number"])
    yield debts
    yield GaugeMetricFamily("cumulet_orphans", "Things that no claim names.", value=state["orphans"])
    waiting = GaugeMetricFamily("cumulet_holders_waiting", "Holders that wait.", labels=["kind", "rule"])
    for row in state["waiting"]:
        waiting.add_metric([row["kind"], row["rule"]], row["number"])
    yield waiting
    known = GaugeMetricFamily(
        "cumulet_agents", "Agents: up, silent, or new and never heard.", labels=["kind", "state"]
    )
    for (kind, how), number in state["agents"].items():
        known.add_metric([kind, how], number)
    yield known
    alive = GaugeMetricFamily("cumulet_part_alive", "1 while a part of the process runs.", labels=["part"])
    for name, task in parts.items():
        alive.add_metric([name], 0 if task.done() else 1)
    yield alive
    yield CounterMetricFamily("cumulet_database_statements", "SQL statements.", value=db.statements)
    yield CounterMetricFamily("cumulet_database_commits", "Committed transactions.", value=db.commits)


def _cumulated(buckets: list[int]) -> list[tuple[str, float]]:
    total = 0
    found: list[tuple[str, float]] = []
    for bound, number in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
        total += number
        found.append((bound, total))
    return found

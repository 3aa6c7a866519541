"""Prometheus' configuration, alerts and Grafana's dashboard ask for what a coordinator tells."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cache_samples import BOARD, conv, measure, run_sql, success
from deploy_files import DEPLOY
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from queue_samples import submit
from redis_server import RedisServer, redis_binary, running_redis

from tunebook.cache.access.tokens import Role
from tunebook.cache.live.live import Live
from tunebook.cache.store import Store
from tunebook.service.api.settings import Settings
from tunebook.service.app import create_app

PROMETHEUS = DEPLOY / "prometheus"
CASES = Path(__file__).parent / "alert_cases.yml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "hit-rate.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
NAMED_QUERIES = [
    *((rule.get("alert") or rule["record"], rule["expr"]) for rule in RULES),
    *((panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]),
]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
# A metric with what it is narrowed to, as in a query.
METRIC = re.compile(r"\b(tunebook[_:][\w:]+)\s*(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\b(?:by|on|ignoring)\s*\(([^)]*)\)")
# What Prometheus adds itself.
OF_PROMETHEUS = {"job", "instance", "le"}


def checked_by_promtool(*words: str | Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool is installed (Debian's package prometheus)")
    done = subprocess.run(["promtool", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class Told:
    """What a coordinator with everything tells: its metrics, and each sample's labels."""

    families: set[str]
    samples: dict[str, set[str]]

    @classmethod
    def read(cls, text: str) -> Told:
        found = [
            family
            for family in text_string_to_metric_families(text)
            # When a counter began, of which Prometheus has no need.
            if not family.name.endswith("_created")
        ]
        samples: dict[str, set[str]] = {}
        for family in found:
            for sample in family.samples:
                samples.setdefault(sample.name, set()).update(sample.labels)
        return cls({family.name for family in found}, samples)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """That of one where there is one of everything."""
    if redis_binary() is None:
        pytest.skip("no Redis is installed, of which some metrics tell")
    folder = tmp_path_factory.mktemp("told")
    with running_redis() as redis, Store.open(str(folder / "tunebook.db")) as store:
        yield Told.read(_metrics(store, redis, folder))


def _metrics(store: Store, redis: RedisServer, folder: Path) -> str:
    """The text of a coordinator where there is one of everything."""
    with Live.open(redis.url, store.place()) as live:
        app = create_app(Settings(models=str(folder / "models")), store, live=live)
        secret = store.tokens.create("prometheus", Role.READ).secret
        measure(store, conv(), {"a": success(1.0)})
        store.boards.note_reference(BOARD, "board-1", [1.0], {})
        run_sql(store.url, "UPDATE boards SET quarantine = 'it drifted'")
        run_sql(store.url, "UPDATE records SET suspect = TRUE")
        submit(store, conv(14))
        app.state.metrics.count_lookups("llvm", "vision", "hit", 1)
        for tell in (live.counts.failed, live.counts.rang, live.counts.heard_of_events):
            tell("once")
        live.counts.decided("redis", "allowed")
        live.counts.asked_for_answer("found")
        with TestClient(app, base_url="http://127.0.0.1:8470") as client:
            response = client.get("/metrics", headers={"Authorization": f"Bearer {secret}"})
        return response.text


def test_promtool_reads_the_configuration(tmp_path: Path) -> None:
    shutil.copytree(PROMETHEUS, tmp_path / "prometheus")
    config = tmp_path / "prometheus" / "prometheus.yml"
    token = tmp_path / "token"
    token.write_text("tbk_read_1")
    (named,) = re.findall(r"credentials_file: (\S+) \}", config.read_text())
    config.write_text(config.read_text().replace(named, str(token)))
    checked_by_promtool("check", "config", config)


def test_alerts_say_what_they_are_for_and_nothing_else() -> None:
    checked_by_promtool("test", "rules", CASES)


def test_every_alert_is_tried_on_a_history() -> None:
    alerts = {rule["alert"] for rule in RULES if "alert" in rule}
    tried = re.findall(r"alertname: (\w+)", CASES.read_text())
    assert set(tried) == alerts


def test_promtool_reads_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    filled = [re.sub(r"\$__(?:rate_interval|range)", "5m", query) for query in QUERIES]
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(filled)]
    path = tmp_path / "dashboard.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked_by_promtool("check", "rules", path)


@pytest.mark.parametrize("query", [pytest.param(query, id=name) for name, query in NAMED_QUERIES])
def test_a_query_asks_for_what_a_coordinator_tells(query: str, told: Told) -> None:
    labels = set(OF_PROMETHEUS)
    for name, narrowed in METRIC.findall(query):
        if name in RECORDED:
            labels |= {"target", "board_class", "outcome"}
            continue
        assert name in told.samples, f"{name} is told by no coordinator"
        labels |= told.samples[name]
        assert set(re.findall(r"(\w+)\s*[=!]", narrowed)) <= told.samples[name] | OF_PROMETHEUS
    for grouped in GROUPED.findall(query):
        assert {word.strip() for word in grouped.split(",") if word.strip()} <= labels


def test_the_dashboard_shows_every_metric_there_is(told: Told) -> None:
    shown = {name for query in QUERIES for name, _ in METRIC.findall(query)}
    assert told.families == {re.sub(r"_(?:total|bucket|count|sum)$", "", one) for one in shown}


class TestTheDashboard:
    def test_panels_have_their_place_and_a_number_of_their_own(self) -> None:
        ids = [panel["id"] for panel in DASHBOARD["panels"]]
        assert len(ids) == len(set(ids))
        places: set[tuple[int, int]] = set()
        for panel in DASHBOARD["panels"]:
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= 24
            covered = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert not covered & places
            places |= covered

    def test_everything_is_asked_of_the_source_that_is_provisioned(self) -> None:
        provisioning = DEPLOY / "grafana" / "provisioning"
        sources = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())
        (source,) = sources["datasources"]
        assert source["type"] == "prometheus"
        (chosen,) = (one for one in DASHBOARD["templating"]["list"] if one["type"] == "datasource")
        assert chosen["query"] == source["type"]
        asked: list[Any] = [panel["datasource"] for panel in PANELS]
        asked += [target["datasource"] for panel in PANELS for target in panel["targets"]]
        assert all(one == {"type": "prometheus", "uid": f"${{{chosen['name']}}}"} for one in asked)

    def test_it_is_where_grafana_is_told_to_look(self) -> None:
        compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["grafana"]
        mounted = dict(volume.split(":")[:2] for volume in compose["volumes"])
        provisioning = DEPLOY / "grafana" / "provisioning"
        (provider,) = yaml.safe_load((provisioning / "dashboards" / "tunebook.yaml").read_text())[
            "providers"
        ]
        assert mounted["./grafana/dashboards"] == provider["options"]["path"]
        assert mounted["./grafana/provisioning"] == "/etc/grafana/provisioning"
        home = Path(compose["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
        assert (DEPLOY / "grafana" / "dashboards" / home.name).exists()

    def test_every_panel_and_variable_says_what_it_is(self) -> None:
        assert all(panel["title"] for panel in PANELS)
        names = {one["name"] for one in DASHBOARD["templating"]["list"]}
        used = set(re.findall(r"\$\{?(?!__)(\w+)", json.dumps(PANELS)))
        assert used <= names

"""The alerts and the dashboard, checked by promtool. `cargo test -p stateway-xtask monitoring` compares the names of
metrics and labels with the source."""

from __future__ import annotations

import json
import pathlib
import re

import yaml
from conftest import CHART, DEPLOY, program, run

DASHBOARD = json.loads((CHART / "files/dashboard.json").read_text())
RULES = CHART / "files/rules.yaml"


def panels() -> list[dict]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def test_promtool_accepts_the_alerts() -> None:
    done = run(program("promtool"), "check", "rules", "--lint", "all", "--lint-fatal", RULES)
    assert "rules found" in done.stdout


def test_alerts_fire_when_they_should_and_only_then() -> None:
    run(program("promtool"), "test", "rules", DEPLOY / "tests/rules.test.yaml")


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    alerts = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    for alert in alerts:
        assert alert["labels"]["severity"] in ("critical", "warning"), alert
        assert alert["annotations"]["summary"] and alert["annotations"]["description"].endswith("."), alert


def test_every_query_of_the_dashboard_is_valid(tmp_path: pathlib.Path) -> None:
    """The queries as rules, with the variables of Grafana filled in."""
    rules = []
    for panel in panels():
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "5m")
            query = query.replace("$job", "stateway").replace("$instance", ".*")
            assert "$" not in query, query
            rules.append({"record": f"panel:{len(rules)}", "expr": query})
    assert len(rules) > 30
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    run(program("promtool"), "check", "rules", file)
    rules[0]["expr"] += "]"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert run(program("promtool"), "check", "rules", file, check=False).returncode != 0


def test_legends_name_labels_that_their_query_keeps() -> None:
    for panel in panels():
        for target in panel["targets"]:
            for label in re.findall(r"{{\s*(\w+)\s*}}", target["legendFormat"]):
                kept = re.findall(r"by \(([^)]*)\)", target["expr"])
                assert any(label in re.split(r",\s*", names) for names in kept), (panel["title"], label)


def test_panels_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))

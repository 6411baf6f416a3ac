"""Metrics and labels that PromQL expressions name, and a Prometheus that scrapes what a test says."""

import http.client
import json
import os
import re
import urllib.parse

import harness

# What Prometheus itself adds to each series, or makes.
OF_PROMETHEUS = {"up", "ALERTS"}
TARGET_LABELS = {"job", "instance"}

_SELECTOR = re.compile(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}|\b((?:kova|process)_[a-z0-9_]+)\b")
_MATCHER = re.compile(r'([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")


def selectors(expression):
    """(metric, [(label, operator, value)]) of each selector."""
    return [(name or bare, _MATCHER.findall(matchers)) for name, matchers, bare in _SELECTOR.findall(expression)]


def grouping(expression):
    return {label.strip() for labels in _GROUPING.findall(expression) for label in labels.split(",") if label.strip()}


def samples(text):
    """{metric: [labels]} of an exposition: of each sample its labels as a dict."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+", line)
        if match and not line.startswith("#"):
            labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match.group(2) or ""))
            found.setdefault(match.group(1), []).append(labels)
    return found


def problems(expression, exposed):
    """What `expression` names that nobody exposes: metrics, labels, and values that are written out."""
    known = set(TARGET_LABELS)
    for metric, matchers in selectors(expression):
        if metric in OF_PROMETHEUS:
            continue
        if metric not in exposed:
            yield f"no metric {metric}"
            continue
        labels = {label for sample in exposed[metric] for label in sample}
        known |= labels
        for label, operator, value in matchers:
            if label not in labels | TARGET_LABELS:
                yield f"{metric} has no label {label}"
            elif (
                operator == "="
                and label in labels
                and "$" not in value
                and all(s.get(label) != value for s in exposed[metric])
            ):
                yield f'{metric} never has {label}="{value}"'
    for label in grouping(expression) - known:
        yield f"nothing in it has the label {label}"


class Prometheus(harness.Process):
    """Scrapes `targets` {job: (host, port)} each half second, and evaluates the rules of `rules`."""

    def __init__(self, directory, targets, rules=()):
        self.address = ("127.0.0.1", harness.free_port())
        config = {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
            "rule_files": list(rules),
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [f"{host}:{port}" for host, port in places]}]}
                for job, places in targets.items()
            ],
        }
        path = os.path.join(directory, "prometheus.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        super().__init__(
            [
                "prometheus",
                f"--config.file={path}",
                f"--storage.tsdb.path={directory}/tsdb",
                f"--web.listen-address={self.address[0]}:{self.address[1]}",
                "--log.level=warn",
            ],
            os.path.join(directory, "prometheus.log"),
        )

    def get(self, path, **query):
        answer = harness.http_request(self.address, "GET", f"/api/v1/{path}?{urllib.parse.urlencode(query)}").json()
        if answer["status"] != "success":
            raise ValueError(answer["error"])
        return answer["data"]

    def query(self, expression):
        return self.get("query", query=expression)["result"]

    def wait_targets(self, count):
        def up():
            assert self.running(), self.log()
            try:
                return len(self.query("up == 1")) == count
            except (ValueError, http.client.HTTPException):
                return False

        harness.wait_for(up, f"{count} targets that are up")
        return self

"""The dashboards and alerts in deploy/ beside real agents and a real coordinator: every metric and label that they name is
there, a real Prometheus evaluates each expression, promtool finds the rules right, and each alert has its page of the runbook.
"""

# Mostly waits.
import contextlib
import glob
import json
import os
import re
import subprocess
import sys

import yaml

import certificates
import harness
import operated
import promql

DEPLOY = os.path.join(harness.SOURCE, "deploy")
RULES = os.path.join(DEPLOY, "prometheus", "alerts.yml")
RUNBOOK = os.path.join(harness.SOURCE, "docs", "runbook.md")
DASHBOARDS = sorted(glob.glob(os.path.join(DEPLOY, "grafana", "dashboards", "*.json")))
KINDS = {"row", "stat", "timeseries", "state-timeline", "bargauge"}
# What Grafana would put there.
SUBSTITUTES = {
    "$job": ".*",
    "$instance": ".*",
    "$policy": ".*",
    "$pool": ".*",
    "$__rate_interval": "5s",
    "$__range": "10s",
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def dashboards():
    return {os.path.basename(path): json.loads(read(path)) for path in DASHBOARDS}


def expressions(dashboard):
    return [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel.get("targets", ())]


def alerts():
    return {rule["alert"]: rule for group in yaml.safe_load(read(RULES))["groups"] for rule in group["rules"]}


def substituted(expression):
    for name, value in SUBSTITUTES.items():
        expression = expression.replace(name, value)
    return expression


class Files(harness.Case):
    def test_the_dashboards_are_those_that_are_written_by_the_program(self):
        generate = os.path.join(DEPLOY, "grafana", "generate.py")
        subprocess.run(
            [sys.executable, generate, self.directory], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        )
        self.assertEqual(sorted(os.listdir(self.directory)), [os.path.basename(path) for path in DASHBOARDS])
        for path in DASHBOARDS:
            self.assertEqual(
                read(os.path.join(self.directory, os.path.basename(path))), read(path), "run deploy/grafana/generate.py"
            )

    def test_what_grafana_wants_of_a_dashboard(self):
        uids = set()
        for name, dashboard in dashboards().items():
            with self.subTest(dashboard=name):
                self.assertEqual(dashboard["uid"] + ".json", name)
                self.assertLessEqual(len(dashboard["uid"]), 40)
                uids.add(dashboard["uid"])
                self.assertGreaterEqual(dashboard["schemaVersion"], 39)
                variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
                self.assertEqual(
                    (variables["datasource"]["type"], variables["datasource"]["query"]), ("datasource", "prometheus")
                )
                self.check_panels(dashboard["panels"], variables)
        self.assertEqual(len(uids), len(DASHBOARDS))

    def check_panels(self, panels, variables):
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            self.assertIn(panel["type"], KINDS)
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            self.assertFalse(cells & taken, f"{panel['title']} lies upon another")
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells
            if panel["type"] == "row":
                continue
            self.assertGreater(len(panel["description"]), 10, panel["title"])
            self.assertEqual(panel["datasource"]["uid"], "${datasource}")
            references = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(set(references)), len(references))
            used = set(re.findall(r"\$(\w+)", " ".join(target["expr"] for target in panel["targets"])))
            self.assertEqual(used - set(variables) - {"__rate_interval", "__range"}, set(), panel["title"])
            for legend in (target["legendFormat"] for target in panel["targets"]):
                self.assertTrue(legend and not re.search(r"\{\{ | \}\}", legend), legend)

    def test_rules_and_configuration_by_promtool(self):
        harness.require("promtool", "prometheus")
        where = os.path.dirname(RULES)
        for command in (
            ("check", "rules", "alerts.yml"),
            ("check", "config", "prometheus.yml"),
            ("test", "rules", "alerts_test.yml"),
        ):
            done = subprocess.run(["promtool", *command], cwd=where, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_has_a_test_that_it_fires_and_one_that_it_does_not(self):
        cases = yaml.safe_load(read(os.path.join(os.path.dirname(RULES), "alerts_test.yml")))["tests"]
        tried = {}
        for case in cases:
            name, what = case["name"].split()
            one = case["promql_expr_test"][0]
            self.assertEqual(one["expr"], f'count(ALERTS{{alertname="{name}",alertstate="firing"}})')
            self.assertEqual(bool(one["exp_samples"]), what == "fires")
            tried.setdefault(name, set()).add(what)
        self.assertEqual(tried, {name: {"fires", "silent"} for name in alerts()})

    def test_each_alert_has_its_section_of_the_runbook(self):
        sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^##? |\Z)", read(RUNBOOK), flags=re.M | re.S))
        self.assertEqual(list(sections), list(alerts()), "the sections, in the order of the alerts")
        for name, rule in alerts().items():
            with self.subTest(alert=name):
                text = sections[name]
                self.assertTrue(rule["annotations"]["runbook_url"].endswith(f"runbook.md#{name.lower()}"))
                self.assertIn(f"**Means** ({rule['labels']['severity']}):", text)
                for part in ("**Users feel**:", "**Look at**", "**Ends**"):
                    self.assertIn(part, text)
                commands = re.search(r"```sh\n(.*?)```", text, flags=re.S).group(1).strip().splitlines()
                self.assertEqual(len(commands), 3)

    def test_what_the_runbook_says_can_be_typed(self):
        text = read(RUNBOOK)
        commands = set(re.findall(r"^kovactl ([a-z]+)(?: ([a-z]+)\b)?", text, flags=re.M))
        self.assertGreater(len(commands), 5)
        for command, sub in commands:
            done = subprocess.run(
                [harness.program("kovactl"), command, "--help"], capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 0, command)
            self.assertIn(sub, done.stdout, f"kovactl {command} {sub}")
        for block in re.findall(r"```sh\n(.*?)```", text, flags=re.S):
            done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, block + done.stderr)

    def test_a_metric_that_is_not_there_is_found(self):
        exposed = {"kova_outage": [{"part": "redis"}]}
        for expression, problem in (
            ("sum(kova_nothing)", "no metric"),
            ('kova_outage{shard="1"}', "no label"),
            ('kova_outage{part="disk"}', "never has"),
            ("sum by (shard) (kova_outage)", "the label shard"),
        ):
            self.assertIn(problem, " ".join(promql.problems(expression, exposed)))


class Running(operated.Case):
    report = "10m"  # what is counted since the last report stays for the whole test

    def config(self, region):
        """With a certificate, at the front that nothing here uses."""
        cert, key = certificates.Authority(self.directory).issue(region)
        listen = {front: f"127.0.0.1:{harness.free_port()}" for front in ("resp", "http", "grpc")}
        return {**super().config(region), "listen": listen, "tls": {"cert": cert, "key": key, "fronts": ["grpc"]}}

    def exposed(self):
        """Of agents and of coordinators: the labels of each metric's samples."""
        texts = {}
        for job, processes in (("kova-agent", self.agents.values()), ("kova-coordinator", [self.coordinator])):
            for process in processes:
                texts.setdefault(job, "")
                texts[job] += harness.http_request(process.http_address, "GET", "/metrics").body.decode()
        return {job: promql.samples(text) for job, text in texts.items()}

    def test_what_they_name_is_there(self):
        harness.require("prometheus")
        prometheus = self.keep(
            promql.Prometheus(
                self.subdirectory("prometheus"),
                {
                    "kova-agent": [agent.http_address for agent in self.agents.values()],
                    "kova-coordinator": [self.coordinator.http_address],
                },
                [RULES],
            )
        ).wait_targets(3)
        with self.in_use():
            self.check_all(prometheus)

    def check_all(self, prometheus):
        for name, dashboard in dashboards().items():
            for title, expression in expressions(dashboard):
                with self.subTest(dashboard=name, panel=title, expression=expression):
                    harness.wait_for(lambda e=expression: prometheus.query(substituted(e)), "a sample")
            for variable in dashboard["templating"]["list"]:
                if variable["type"] == "query":
                    metric, label = re.fullmatch(r"label_values\((\w+).*, (\w+)\)", variable["definition"]).groups()
                    query = f"count by ({label}) ({metric})"
                    harness.wait_for(lambda q=query: prometheus.query(q), variable["definition"])
        with contextlib.suppress(AssertionError):
            harness.wait_for(lambda: not self.problems(), "all that is named")
        self.assertEqual(self.problems(), [])
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        self.assertEqual(
            {rule["name"]: (rule["health"], rule.get("lastError")) for rule in rules},
            {name: ("ok", None) for name in alerts()},
        )

    def problems(self):
        """Of what dashboards and alerts name: what is not exposed now, and where it is named."""
        exposed = self.exposed()
        everywhere = {
            metric: [labels for job in exposed.values() for labels in job.get(metric, ())]
            for job in exposed.values()
            for metric in job
        }
        named = [
            (name, expression, exposed["kova-coordinator" if "coordinator" in name else "kova-agent"])
            for name, dashboard in dashboards().items()
            for _, expression in expressions(dashboard)
        ] + [(name, rule["expr"], everywhere) for name, rule in alerts().items()]
        return [(name, expression, what) for name, expression, of in named for what in promql.problems(expression, of)]


if __name__ == "__main__":
    harness.main()

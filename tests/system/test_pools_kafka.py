"""Pools in a real Kafka: the five numbers and all that happens to them, each record what its JSON Schema says, none with a secret."""
# Mostly waits.
import json
import time

import jsonschema

import harness
from events_topic import TOPIC, EventsCase, schema

NUMBERS = "kova.pool.v1"
USER, PASSWORD, KEY = "us3r", "p4ss-S3cret", "sk-S3cret"


def endpoints(n, **more):
    return [{"id": f"e{i}", "url": f"http://{USER}:{PASSWORD}@192.0.2.{i}:3128", **more} for i in range(1, n + 1)]


class Pools(EventsCase):
    def given(self, agent, pool, *options):
        reply = agent.call("KOVA.POOL.NEXT", pool, *options)
        return dict(zip(reply[::2], reply[1::2]))

    def report(self, agent, pool, given, outcome, *options):
        self.assertEqual(agent.call("KOVA.POOL.REPORT", pool, given["ticket"], outcome, *options), "OK")

    def all_report(self, agent, pool, n, outcome, *options, target=None):
        """n tickets at once, each with this outcome."""
        tickets = [self.given(agent, pool, *(("TARGET", target) if target else ())) for _ in range(n)]
        for ticket in tickets:
            self.report(agent, pool, ticket, outcome, *options)

    def no_secrets(self, *agents):
        texts = [agent.log() for agent in agents]
        texts += [repr(record.value) for topic in (TOPIC, NUMBERS) for record in self.broker.read(topic)]
        for text in texts:
            for secret in (USER, PASSWORD, KEY):
                self.assertNotIn(secret, text)

    def records(self, pool):
        """Those of the pool by time, each checked against the schema."""
        validator = jsonschema.Draft202012Validator(schema("pool"), format_checker=jsonschema.FormatChecker())
        found = []
        for record in self.broker.read(NUMBERS):
            numbers = json.loads(record.value)
            validator.validate(numbers)
            self.assertEqual(record.key.decode(), numbers["pool"])
            if numbers["pool"] == pool:
                found.append(numbers)
        return sorted(found, key=lambda r: r["from"])

    def whole(self, pool):
        """The records once they are all there, and one of nothing behind them; else None."""
        records = self.records(pool)
        came_back = any(r["return_ok"] is not None for r in records)
        return records if came_back and sum(records[-1]["share"].values()) == 0 else None

    def test_the_numbers_are_those_of_the_region_each_interval_once(self):
        redis = self.start_redis()
        tiers = [*endpoints(2), {"id": "up", "url": f"http://{USER}:{PASSWORD}@192.0.2.9:3128", "tier": 2}]
        pool = {"name": "x", "report": "500ms", "threshold": 2, "cooldown": {"base": "200ms", "jitter": 0}, "endpoints": tiers}
        agents = [self.start(node=f"n{i}", redis={"mode": "standalone", "url": redis.url}, pools=[pool]) for i in range(2)]
        for i in range(10):
            agent, ticket = agents[i % 2], self.given(agents[i % 2], "x", *(("TIER", 2) if i < 2 else ()))
            self.report(agent, "x", ticket, "refused" if ticket["endpoint"] == "e1" and i < 6 else "ok")
        time.sleep(0.3)
        for i in range(6):
            self.report(agents[i % 2], "x", self.given(agents[i % 2], "x"), "ok")
        records = harness.wait_for(lambda: self.whole("x"), "the numbers of all that was done")
        self.assertTrue(all(r["region"] == "eu" and set(r["share"]) == {"e1", "e2", "up"} for r in records))
        self.assertEqual([r["from"] for r in records[1:]], [r["to"] for r in records[:-1]], "no interval twice, none left out")
        self.assertEqual(sum(r["cooldowns"] for r in records), 1)
        self.assertGreaterEqual(sum(r["cooldown_ms"] for r in records), 200)
        self.assertEqual(min(r["active_min"] for r in records), 2)
        self.assertEqual([r["return_ok"] for r in records if r["return_ok"] is not None][0], 1)
        self.assertGreater(max(r["escalation"] for r in records), 0)
        for shares in (r["share"].values() for r in records):
            self.assertIn(round(sum(shares), 3), (0, 1))
        lines = [line for agent in agents for line in agent.log_lines() if line["event"] == "pool_numbers"]
        logged = [{name: line[name] for name in records[0]} for line in lines]
        for record in records:
            self.assertIn(record, logged, "the log has the same")
        self.no_secrets(*agents)

    def test_all_that_happens(self):
        rests, again = {"base": "10m"}, {"base": "100ms", "jitter": 0}
        agent = self.start(pools=[
            {"name": "cools", "threshold": 2, "cooldown": again, "endpoints": endpoints(1), "floor": {"active": 0}},
            {"name": "floor", "threshold": 2, "cooldown": rests, "endpoints": endpoints(2), "floor": {"active": 2, "pause": "100ms"}},
            {"name": "key", "kind": "key", "cooldown": rests, "endpoints": [{"id": "k", "key": KEY}]},
            {"name": "held", "endpoints": endpoints(3)},
            {"name": "tiers", "endpoints": [*endpoints(1), {"id": "up", "url": "http://192.0.2.9:3128", "tier": 2}]},
            {"name": "capped", "threshold": 2, "blame": {"max_out": 0}, "endpoints": endpoints(1)},
            {"name": "twice", "endpoints": [*endpoints(1), {**endpoints(1)[0], "id": "again"}]}])
        self.all_report(agent, "cools", 2, "refused")
        self.all_report(agent, "floor", 4, "timeout")
        self.all_report(agent, "key", 3, "auth")
        self.all_report(agent, "held", 3, "blocked", "STATUS", 429, "RETRYAFTER", 7, target="shop.example")
        self.all_report(agent, "tiers", 3, "captcha", target="shop.example")
        self.all_report(agent, "capped", 2, "blocked", "STATUS", 403, target="shop.example")
        self.report(agent, "cools", self.given(agent, "cools", "WAIT", 10000), "ok")
        harness.wait_for(lambda: self.given(agent, "floor")["paused"] != "floor", "the pause is over")
        expected = {
            "endpoint_cooled": {"pool": "cools", "endpoint": "e1", "why": "refused", "ms": 100},
            "endpoint_returned": {"pool": "cools", "endpoint": "e1"},
            "pool_paused": {"pool": "floor", "floor": 2, "retry_in_ms": 100},
            "pool_resumed": {"pool": "floor"},
            "endpoint_disabled": {"pool": "key", "endpoint": "k", "why": "auth"},
            "target_held": {"pool": "held", "target": "shop.example", "ms": 7000},
            "target_escalated": {"pool": "tiers", "target": "shop.example", "tier": 2},
            "blame_capped": {"pool": "capped", "endpoint": "e1", "why": "blocked", "target": "shop.example"},
            "duplicate_endpoint": {"pool": "twice", "endpoint": "e1", "dropped": "again"}}
        harness.wait_for(lambda: {e["event"] for e in self.all_events()} >= expected.keys(), "all events")
        found = self.all_events()
        for name, fields in expected.items():
            with self.subTest(event=name):
                said = [e for e in found if e["event"] == name and e["pool"] == fields["pool"]]
                self.assertEqual([{k: e.get(k) for k in fields} for e in said], [fields], "once")
        self.no_secrets(agent)

    def test_a_change_is_told_without_what_is_secret(self):
        agent = self.start()
        self.assertEqual(agent.http("PUT", "/v1/pools/new", {"endpoints": endpoints(1)}).status, 200)
        self.assertEqual(agent.http("PATCH", "/v1/pools/new/endpoints/e1", {"state": "disabled"}).status, 200)
        self.assertEqual(agent.http("DELETE", "/v1/pools/new").status, 204)
        harness.wait_for(lambda: len(self.events("config_changed")) == 3, "three changes")
        made, patched, deleted = self.events("config_changed")
        self.assertEqual([(e["kind"], e["name"]) for e in (made, patched, deleted)], [("pool", "new")] * 3)
        self.assertEqual((made["before"], deleted["after"]), (None, None))
        self.assertEqual(made["after"], patched["before"])
        self.assertEqual(patched["after"]["endpoints"][0]["state"], "disabled")
        self.no_secrets(agent)


if __name__ == "__main__":
    harness.main()

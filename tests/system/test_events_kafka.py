"""Events in a real Kafka: each is what its JSON Schema says, and none holds a secret."""
# Mostly waits.
import json
import os
import random

import jsonschema

import harness
from events_topic import TOPIC, EventsCase, schema

class Events(EventsCase):
    def test_an_outage_of_redis(self):
        redis = self.start_redis()
        agent = self.start([{"name": "a", "limit": 9, "per": "1s"},
                            {"name": "b", "limit": 9, "per": "1s", "on_outage": "deny"}],
                           redis={"mode": "standalone", "url": redis.url})
        redis.send_signal(19)
        agent.call("KOVA.TAKE", "a", "k")
        self.wait_event("outage_begun", part="redis", policy_action={"local": 1, "deny": 1})
        redis.send_signal(18)
        self.wait_event("outage_ended", part="redis", policy_action={"local": 1, "deny": 1})
        self.assertEqual(len(self.events("outage_begun")), 1)

    def test_an_outage_of_kafka_is_told_afterwards(self):
        agent = self.start([{"name": "a", "limit": 9, "per": "1s"}])
        agent.call("KOVA.TAKE", "a", "k")
        harness.wait_for(lambda: b"kova_usage_unpublished 0\n" in agent.http("GET", "/metrics").body, "usage")
        self.broker.kill()
        try:
            agent.call("KOVA.TAKE", "a", "k")
            harness.wait_for(lambda: b'kova_outage{part="kafka"} 1' in agent.http("GET", "/metrics").body, "an outage")
        finally:
            self.broker.restart()
        self.wait_event("outage_begun", part="kafka")
        self.wait_event("outage_ended", part="kafka")

    def test_a_breaker(self):
        agent = self.start([{"name": "b", "limit": 1000, "per": "1s",
                             "breaker": {"failures": 2, "of": 2, "open": "200ms", "trials": 1}}])
        for _ in range(2):
            agent.call("KOVA.TAKE", "b", "the-key")
            agent.call("KOVA.FEEDBACK", "b", "the-key", "ERROR", "STATUS", "500")
        (opened,) = self.wait_event("breaker_opened", policy="b")
        self.assertNotIn("the-key", json.dumps(opened))
        harness.wait_for(lambda: agent.call("KOVA.TAKE", "b", "the-key")[0] == 1, "a trial")
        agent.call("KOVA.FEEDBACK", "b", "the-key", "OK")
        self.wait_event("breaker_closed", policy="b")

    def test_a_change_of_the_configuration(self):
        tokens = os.path.join(self.directory, "tokens")
        with open(tokens, "w", encoding="ascii") as file:
            file.write("alice very-secret-token admin check\n")
        agent = self.start([{"name": "a", "limit": 9, "per": "1s"}], auth={"tokens_file": tokens})
        headers = {"Authorization": "Bearer very-secret-token"}
        self.assertEqual(agent.http("PUT", "/v1/policies/a", {"limit": 7, "per": "1s"}, headers).status // 100, 2)
        (event,) = self.wait_event("config_changed", kind="policy")
        self.assertEqual((event["name"], event["who"], event["before"]["limit"], event["after"]["limit"]),
                         ("a", "token:alice", 9, 7))
        self.assertEqual(agent.http("PUT", "/v1/overrides", {"policy": "a", "key": "k", "banned": True},
                                    headers).status // 100, 2)
        (event,) = self.wait_event("config_changed", kind="override")
        self.assertEqual((event["name"], event["key"], event["before"], event["after"]["banned"]), ("a", "k", None, True))
        self.assertEqual(agent.http("DELETE", "/v1/policies/a", headers=headers).status // 100, 2)
        (event,) = self.wait_event("config_changed", kind="policy", after=None)
        self.assertEqual(event["before"]["limit"], 7)
        self.assertNotIn(b"very-secret", b"".join(record.value for record in self.broker.read(TOPIC)))

    def test_loops_and_the_last_event_before_the_end(self):
        agent = self.start([{"name": "a", "limit": 9, "per": "1s"}], threads=4)
        for limit in range(10, 20):
            self.assertEqual(agent.http("PUT", "/v1/policies/a", {"limit": limit, "per": "1s"}).status // 100, 2)
        self.assertEqual(agent.stop(), 0)
        self.assertEqual([event["after"]["limit"] for event in self.events("config_changed")], list(range(10, 20)))


class SmallTopic(EventsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.broker.create_topic(TOPIC, max_message_bytes=1000)

    def test_an_event_that_is_too_large_is_dropped(self):
        agent = self.start([{"name": "a", "limit": 9, "per": "1s"}])
        long_key = random.randbytes(500).hex()
        self.assertEqual(agent.http("PUT", "/v1/overrides", {"policy": "a", "key": long_key, "banned": True}).status // 100, 2)
        harness.wait_for(lambda: b"kova_events_dropped_total 1\n" in agent.http("GET", "/metrics").body, "it is refused")
        self.assertEqual(agent.http("PUT", "/v1/overrides", {"policy": "a", "key": "k", "banned": True}).status // 100, 2)
        self.wait_event("config_changed", key="k")
        self.assertIn(b"kova_events_dropped_total 1\n", agent.http("GET", "/metrics").body)
        self.assertEqual(agent.log().count('"kafka_refused"'), 1)


class Schemas(harness.Case):
    def test_they_are_schemas_and_refuse_what_is_wrong(self):
        good = {
            "events": {"event": "clock_skew", "at": "2027-01-31T18:00:00.123Z", "node": "n", "region": "eu", "hlc": 5,
                       "peer": "redis", "skew_ms": -300},
            "rollup": {"policy": "p", "from": "2027-01-31T18:00:00.000Z", "to": "2027-01-31T18:00:01.000Z", "limit": 10,
                       "per": "1s", "admitted": 1, "refused": 0, "waited": 0,
                       "regions": {"eu": {"admitted": 1, "refused": 0, "waited": 0, "admitted_total": 9, "share": 5.5,
                                          "grant": 4.5, "floor": 1}}},
            "pool": {"event": "pool_numbers", "pool": "p", "region": "eu", "from": "2027-01-31T18:00:00.000Z",
                     "to": "2027-01-31T18:01:00.000Z", "share": {"e-1": 1}, "cooldowns": 0, "cooldown_ms": 0,
                     "active_min": 1, "escalation": 0, "return_ok": None},
        }
        # A coordinator is in no region, and does not know every policy.
        may_lack = {"events": {"region"}, "rollup": {"limit", "per"}}
        for name, value in good.items():
            validator = jsonschema.Draft202012Validator(schema(name))
            jsonschema.Draft202012Validator.check_schema(validator.schema)
            validator.validate(value)
            for field in value.keys() - may_lack.get(name, set()):
                with self.subTest(schema=name, without=field):
                    self.assertFalse(validator.is_valid({k: v for k, v in value.items() if k != field}))
            text = next(field for field in ("at", "from") if field in value)
            self.assertFalse(validator.is_valid({**value, text: "yesterday"}))


if __name__ == "__main__":
    harness.main()

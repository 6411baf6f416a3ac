"""kova.events.v1 as a reader sees it: each event is what its JSON Schema says."""
import json
import os

import jsonschema

import harness
import kafka

TOPIC = "kova.events.v1"


def schema(name):
    with open(os.path.join(harness.SOURCE, "proto", f"{name}.schema.json"), encoding="utf-8") as file:
        return json.load(file)


class EventsCase(kafka.Case):
    def setUp(self):
        super().setUp()
        self.validator = jsonschema.Draft202012Validator(schema("events"),
                                                         format_checker=jsonschema.FormatChecker())

    def all_events(self):
        """Those of this test, each checked against the schema."""
        with self.broker.reader(TOPIC) as reader:
            records = sorted(reader.until_end(), key=lambda r: (r.partition, r.offset))
        found = []
        for record in records:
            event = json.loads(record.value)
            if event["node"] != self.node:
                continue
            self.validator.validate(event)
            self.assertEqual(record.key.decode(), event["node"])
            self.assertEqual((record.headers["schema"], int(record.headers["hlc"])), (TOPIC.encode(), event["hlc"]))
            found.append(event)
        return found

    def events(self, name):
        return [event for event in self.all_events() if event["event"] == name]

    def wait_event(self, name, **fields):
        return harness.wait_for(lambda: [e for e in self.events(name)
                                         if all(e.get(k) == v for k, v in fields.items())], f"{name} {fields}")

    def start(self, policies=(), **more):
        self.node = self.id().rsplit(".", 1)[-1][:60]
        return self.start_agent({"node": self.node, "region": "eu", "policies": list(policies),
                                 "kafka": {"bootstrap": self.broker.bootstrap}, **more})

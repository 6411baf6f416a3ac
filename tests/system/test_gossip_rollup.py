"""A coordinator with gossip on a real Kafka: what it goes by is what all nodes have agreed on."""
import json
import os
import signal

import jsonschema

import coordinator
import harness
import mesh
from mesh import put


class Rows(coordinator.Case):
    def test_rows_say_the_limits_that_are_in_force(self):
        secrets = mesh.write_secrets(self.directory, mesh.SECRET)
        ports = [harness.free_port(), harness.free_port()]
        gossip = [{"listen": f"127.0.0.1:{port}", "seeds": [f"127.0.0.1:{ports[0]}"], "secret_file": secrets} for port in ports]
        agent = self.start_agent({"node": "n", "region": "eu", "regions": {"eu": {}}, "gossip": gossip[0],
                                  "redis": {"mode": "standalone", "url": self.redis.url},
                                  "kafka": {"bootstrap": self.broker.bootstrap, "report": "100ms"}})
        self.assertEqual(put(agent, "p", 10).status, 200)
        daemon = self.coordinate(policies=[{"name": "p", "limit": 7, "per": "1s"}], gossip=gossip[1], state_dir="state")
        agent.call("KOVA.TAKE", "p", "k")

        def said():
            rows = [row for row in self.rows(0.2) if row["policy"] == "p"]
            return (rows[-1].get("limit"), rows[-1].get("per")) if rows else None
        harness.wait_for(lambda: said() == (10, "1s"), "the agent's limit, not that of the coordinator's file", 60)
        put(agent, "p", 20, per="1m")
        harness.wait_for(lambda: said() == (20, "1m"), "a change on the agent", 30)
        agent.http("DELETE", "/v1/policies/p")
        harness.wait_for(lambda: said() == (None, None), "a policy that is no more", 30)
        self.check_events(daemon)

    def check_events(self, daemon):
        """The coordinator publishes what an agent does: who came, what its own file changed."""
        with open(daemon.config_path, encoding="utf-8") as file:
            config = json.load(file)
        daemon.write_config({**config, "policies": [*config["policies"], {"name": "q", "limit": 1, "per": "1s"}]})
        daemon.send_signal(signal.SIGHUP)

        def events():
            found = [json.loads(record.value) for record in self.broker.read("kova.events.v1") if record.key == b"c"]
            return {(event["event"], event.get("name", event.get("member"))): event for event in found}
        harness.wait_for(lambda: ("config_changed", "q") in events(), "the file's change", 30)
        told = events()
        self.assertIn(("member_joined", "n"), told)
        change = told["config_changed", "q"]
        self.assertEqual((change["kind"], change["who"], change["before"], change["after"]["limit"]), ("policy", "file", None, 1))
        with open(os.path.join(harness.SOURCE, "proto", "events.schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        for event in told.values():
            jsonschema.validate(event, schema)
            self.assertNotIn("region", event)


if __name__ == "__main__":
    harness.main()

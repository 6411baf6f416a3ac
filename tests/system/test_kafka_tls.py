"""Kafka by TLS and SASL: what is published arrives, who is not let in is told why, and no secret is shown."""
# Mostly waits.
import os

import harness
import kafka
import usage_topic

PASSWORD, WRONG = "secret", "another-secret"


class Tls(kafka.Case):
    tls = True

    def start(self, node, password=PASSWORD, **security):
        path = os.path.join(self.directory, f"password-{node}")
        with open(path, "w", encoding="ascii") as file:
            file.write(password + "\n")
        security = {"protocol": "sasl_ssl", "ca": self.broker.ca, "mechanism": "PLAIN", "user": "kova",
                    "password_file": path, **security}
        return self.start_agent({"node": node, "policies": [{"name": "p", "limit": 100, "per": "1s"}],
                                 "kafka": {"bootstrap": self.broker.tls_bootstrap, "report": "100ms",
                                           "security": {k: v for k, v in security.items() if v is not None}}})

    def usage_of(self, node):
        return [record for record in self.broker.read(usage_topic.TOPIC) if record.headers["agent"] == node.encode()]

    def refused(self, agent, node, why):
        agent.call("KOVA.TAKE", "p", "k")
        harness.wait_for(lambda: b'kova_outage{part="kafka"} 1' in agent.http("GET", "/metrics").body, "an outage")
        self.assertEqual(agent.call("KOVA.TAKE", "p", "k")[0], 1)
        self.assertRegex(agent.log(), why)
        self.assertNotIn(WRONG, agent.log())
        self.assertNotIn(WRONG.encode(), agent.http("GET", "/metrics").body)
        self.assertEqual(self.usage_of(node), [])

    def test_who_is_let_in_publishes(self):
        agent = self.start("good")
        agent.call("KOVA.TAKE", "p", "k", "COST", "3")
        harness.wait_for(lambda: self.usage_of("good"), "usage by TLS")
        self.assertEqual(usage_topic.Ledger().add(self.usage_of("good")).total("p"), 3)
        self.assertNotIn(f'"{PASSWORD}"', agent.log())

    def test_a_wrong_password(self):
        self.refused(self.start("wrong", password=WRONG), "wrong", "SASL|Authentication|authentication")

    def test_an_authority_that_is_not_trusted(self):
        self.refused(self.start("stranger", ca=None), "stranger", "certificate verify failed|SSL handshake failed")


if __name__ == "__main__":
    harness.main()

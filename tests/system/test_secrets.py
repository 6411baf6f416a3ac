"""Passwords and tokens appear nowhere: logs, errors, metrics, pages, the process list."""
# Mostly waits.
import os

import harness

PASSWORD = "hunter2-Geheimnis"
TOKEN = "tok-5ecret-value"


class Secrets(harness.Case):
    def nowhere(self, agent, *texts):
        for path in ("/metrics", "/readyz", "/healthz", "/v1/policies", "/v1/members"):
            texts += (agent.http("GET", path, headers={"Authorization": f"Bearer {TOKEN}"}).body.decode(),)
        with open(f"/proc/{agent.pid}/cmdline", encoding="utf-8") as file:
            texts += (file.read(),)
        for child in agent.children():
            with open(f"/proc/{child}/cmdline", encoding="utf-8") as file:
                texts += (file.read(),)
        for text in (*texts, agent.log()):
            self.assertNotIn(PASSWORD, text)
            self.assertNotIn(TOKEN, text)

    def config(self, url, **redis):
        tokens = os.path.join(self.directory, "tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(f"# who\nops {TOKEN} admin check\n")
        return {"redis": {"mode": "standalone", "url": url, **redis}, "auth": {"tokens_file": tokens},
                "policies": [{"name": "p", "limit": 1, "per": "1s"}]}

    def test_a_right_password(self):
        redis = self.start_redis_with_password()
        agent = self.start_agent(self.config(f"redis://:{PASSWORD}@127.0.0.1:{redis.port}"))
        with agent.resp() as connection:
            self.assertEqual(connection.call("AUTH", TOKEN), "OK")
            self.assertEqual(connection.call("KOVA.TAKE", "p", "k")[0], 1)
            info = connection.call("INFO")
        self.nowhere(agent, info)

    def test_a_password_file(self):
        redis = self.start_redis_with_password()
        path = os.path.join(self.directory, "password")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PASSWORD + "\n")
        agent = self.start_agent(self.config(redis.url, password_file=path))
        with agent.resp() as connection:
            connection.call("AUTH", TOKEN)
            self.assertEqual(connection.call("KOVA.TAKE", "p", "k")[0], 1)
        self.nowhere(agent)

    def test_a_wrong_password(self):
        redis = self.start_redis()
        redis.call("CONFIG", "SET", "requirepass", "another")
        agent = self.start_agent(self.config(f"redis://:{PASSWORD}@127.0.0.1:{redis.port}"), ready=False)
        harness.wait_for(lambda: "WRONGPASS" in agent.log() or "password" in agent.log(), "the reason in the log")
        harness.wait_for(lambda: agent.http("GET", "/healthz").status == 200, "an agent that is alive")
        self.nowhere(agent)

    def test_a_server_that_is_not_there(self):
        agent = self.start_agent(self.config(f"redis://user:{PASSWORD}@127.0.0.1:{harness.free_port()}"), ready=False)
        harness.wait_for(lambda: agent.http("GET", "/healthz").status == 200, "an agent that is alive")
        self.nowhere(agent)

    def test_wrong_tokens(self):
        agent = self.start_agent(self.config(self.start_redis().url))
        with agent.resp() as connection:
            with self.assertRaisesRegex(harness.RespError, "^(WRONGPASS|NOAUTH|ERR)") as caught:
                connection.call("AUTH", TOKEN + "x")
            with self.assertRaisesRegex(harness.RespError, "^NOAUTH"):
                connection.call("KOVA.TAKE", "p", "k")
        answer = agent.http("POST", "/v1/take", {"policy": "p", "key": "k"}, {"Authorization": f"Bearer {TOKEN}x"})
        self.assertEqual(answer.status, 401)
        self.nowhere(agent, str(caught.exception), answer.body.decode())

    def test_a_reload_opens_nothing(self):
        config = self.config(self.start_redis().url)
        listen = {"resp": f"0.0.0.0:{harness.free_port()}", "http": f"127.0.0.1:{harness.free_port()}"}
        agent = self.start_agent({**config, "listen": listen})
        tokens = config.pop("auth")
        agent.reload({**agent.config, "listen": {**listen, "resp": f"127.0.0.1:{harness.free_port()}"}, "auth": {}})
        harness.wait_for(lambda: '"event":"reload' in agent.log(), "the file read again")
        self.assertIn(f"{listen['resp']} is beyond loopback and stays open until the next start", agent.log())
        with self.assertRaisesRegex(harness.RespError, "^NOAUTH"):
            agent.call("KOVA.TAKE", "p", "k")
        agent.reload({**agent.config, "auth": tokens})
        harness.wait_for(lambda: '"event":"reloaded"' in agent.log(), "a good file in force")

    def test_check_config_does_not_print_them(self):
        result = self.run_agent("--check-config", config={
            "redis": {"mode": "standalone", "url": f"redis://:{PASSWORD}@127.0.0.1:notaport"}})
        self.assertEqual(result.returncode, 1)
        self.assertNotIn(PASSWORD, result.stdout + result.stderr)

    def start_redis_with_password(self):
        redis = self.start_redis()
        redis.call("CONFIG", "SET", "requirepass", PASSWORD)
        return redis


if __name__ == "__main__":
    harness.main()

"""Coordinators beside a real Kafka grant shares of global quotas: never more than the whole, whatever becomes of them."""
# Mostly waits.
import json
import signal
import time

import coordinator
import grants
import harness
import share_topic


class One(grants.Case):
    def test_shares_follow_demand(self):
        daemon = self.coordinate()
        self.report(eu=2000)
        self.has("eu", 800)
        self.want(us=2000)
        self.has("us", 800)
        self.want(us=300, ap=300)
        self.has("us", 425)  # 300, a quarter more, and a third of what nobody wants
        self.has("ap", 425)
        self.assertGreater(self.audit().count(), 3 * len(self.quotas))

        def metric(region):
            return daemon.metric(f'kova_global_share{{policy="world",region="{region}"}}')
        harness.wait_for(lambda: abs(metric("us") - 425) <= 20 and abs(metric("eu") - 150) <= 20, "shares as metrics")
        self.assertEqual(daemon.metric('kova_global_excess_bound_ratio{policy="world"}'), 0)
        self.assertGreater(daemon.metric("kova_coordinator_grants_total"), 0)
        self.assertGreater(daemon.metric("kova_coordinator_take_over_seconds"), 0)
        self.assertEqual(daemon.http("/readyz").json()["taking_over"], 0)
        self.assertEqual(daemon.metric("kova_coordinator_quotas"), len(self.quotas))
        row = coordinator.rows_of(self.broker.read(coordinator.ROLLUP, coordinator.COMMITTED))[-1]
        for region, at in row["regions"].items():
            self.assertAlmostEqual(at["share"], metric(region), delta=30)
            self.assertEqual(at["floor"], 100)
            self.assertAlmostEqual(at["share"], at["floor"] + at["grant"], delta=0.001)
        self.assertLessEqual(sum(at["share"] for at in row["regions"].values()), 1000)
        self.check_other_floor(daemon)

    def check_other_floor(self, daemon):
        """A region of which the coordinator has another floor: nobody gets anything. One that hears of no other floor grants."""
        one = self.regions.shares["ap", *self.quotas[0]]
        one.floor = 200001
        harness.wait_for(lambda: daemon.metric("kova_coordinator_floors_differ_total") > 0, "that it is noticed")
        self.assertRegex(daemon.log(), '"floors_differ".*"ap".*200000')
        there = [share for (_, policy, root), share in self.regions.shares.items() if (policy, root) == self.quotas[0]]
        harness.wait_for(lambda: all(share.now() == 0 for share in there), "no grants", 30)
        one.floor = 100001
        time.sleep(2)  # until reports of before are read
        daemon.stop()
        self.coordinate()
        self.want(us=2000)
        self.has("us", 800)

    def test_a_successor_counts_what_was_granted_before(self):
        daemon = self.coordinate(grant=grants.LONG)
        self.report(interval=0.1, eu=2000)
        self.has("eu", 800)
        for silent, wants in (("eu", "us"), ("us", "ap"), ("ap", "eu")):
            self.regions.silent = {silent}  # it may go on with what it has
            self.want(**{wants: 2000})
            daemon.kill()
            daemon = self.coordinate(grant=grants.LONG)
            time.sleep(5)
            self.regions.silent = set()
            self.has(wants, 800)
        self.assertGreaterEqual(self.audit(margin=900000).owners(), 4)


    def test_while_grants_are_read_again_all_else_goes_on(self):
        daemon = self.coordinate()
        self.report(eu=2000)
        self.has("eu", 800)
        blocker = self.broker.transactions("blocker")
        self.addCleanup(blocker.close)
        blocker.begin()
        for i in range(50):  # behind it, in any partition, grants can't be read
            blocker.produce(share_topic.GRANTS, b"key %d" % i, b"it is never committed", {})
        blocker.flush()
        with open(daemon.config_path, encoding="utf-8") as file:
            config = json.load(file)
        daemon.write_config({**config, "policies": [grants.POLICY, {**grants.POLICY, "name": "another"}]})
        daemon.send_signal(signal.SIGHUP)
        harness.wait_for(lambda: '"reloaded"' in daemon.log(), "other policies")
        time.sleep(1)  # they are followed five times a second
        granted = daemon.metric("kova_coordinator_grants_total")
        rows = daemon.metric("kova_coordinator_transactions_total")
        harness.wait_for(lambda: daemon.metric("kova_coordinator_transactions_total") >= rows + 5, "rollups")
        self.assertEqual(daemon.metric("kova_coordinator_grants_total"), granted, "nothing is granted meanwhile")
        self.assertEqual(daemon.http("/readyz").json()["taking_over"], 0)
        blocker.abort()
        self.want(us=2000)
        self.has("us", 800)
        self.assertEqual(daemon.metric("kova_coordinator_failures_total"), 0)
        self.audit()


class Several(grants.Case):
    def share_in_rows(self, region):
        row = coordinator.rows_of(self.broker.read(coordinator.ROLLUP, coordinator.COMMITTED))[-1]
        return row["regions"][region]["share"]

    def test_two_share_the_quotas_and_one_takes_over_from_the_other(self):
        self.report(interval=0.1, eu=2000)
        first = self.coordinate("a", grant=grants.LONG).wait_partitions(4)
        second = self.coordinate("b", grant=grants.LONG).wait_partitions(2)
        first.wait_partitions(2)
        self.has("eu", 800)
        self.regions.shares["eu", *self.quotas[0]].demand = 0
        mean = (5 * 800 + 333) / 6  # of the one that nobody wants each has a third
        harness.wait_for(lambda: abs(self.share_in_rows("eu") - mean) <= 10, "a row of the quotas of both", 40)
        first.kill()
        self.want(us=2000)
        begun = time.monotonic()
        second.wait_partitions(4)
        self.has("us", 800)
        self.assertLess(time.monotonic() - begun, 30)
        self.coordinate("a", grant=grants.LONG).wait_partitions(2)
        self.want(ap=2000)
        self.has("ap", 800)
        self.audit(margin=900000)

    def test_others_come_and_go_and_nobody_begins_anew(self):
        self.report(interval=0.1, eu=2000)
        first = self.coordinate("a").wait_partitions(4)
        self.has("eu", 800)
        for _ in range(3):
            second = self.coordinate("b").wait_partitions(2)
            first.wait_partitions(2)
            time.sleep(1)
            self.assertEqual(second.stop(), 0)
            first.wait_partitions(4)
        self.assertNotRegex(first.log(), "session_failed.*")
        self.assertEqual(first.metric("kova_coordinator_failures_total"), 0)
        self.has("eu", 800)
        self.audit()


if __name__ == "__main__":
    harness.main()

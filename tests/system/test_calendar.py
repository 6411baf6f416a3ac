"""Calendar quotas: days, weeks and months of a time zone; edges that don't creep; nobody is denied after one."""
# Mostly waits.

import datetime
import zoneinfo

import harness
import shapes

UTC = datetime.timezone.utc


def us(*when, zone=UTC):
    return round(datetime.datetime(*when, tzinfo=zone).timestamp()) * 1_000_000


def policy(name, per, zone, limit=3):
    return {"name": name, "algorithm": "calendar", "limit": limit, "per": per, **({"tz": zone} if zone else {})}


def edges(per, zone, first, count):
    """The starts of `count` windows from the date `first` on, µs since 1970."""
    at, found = first, []
    for _ in range(count):
        found.append(us(at.year, at.month, at.day, zone=zone))
        if per == "month":
            at = datetime.date(at.year + at.month // 12, at.month % 12 + 1, 1)
        else:
            at += datetime.timedelta(days=7 if per == "week" else 1)
    return found


class Edges(shapes.Frozen):
    def walk(self, name, found, before_ms=2, after_ms=0):
        """Drains before each edge and asks after it."""
        resp = self.resp
        for edge, following in zip(found, found[1:]):
            self.clock.freeze(edge - before_ms * 1000)
            while resp.call("KOVA.TAKE", name, "k")[0] == 1:
                pass
            refused = resp.call("KOVA.TAKE", name, "k")
            self.assertEqual(refused, [0, 0, 3, before_ms, before_ms, f"limited:{name}"])
            self.clock.freeze(edge + after_ms * 1000)
            first = resp.call("KOVA.TAKE", name, "k")
            reset_ms = (following - edge) // 1000 - after_ms
            self.assertEqual(first, [1, 2, 3, 0, reset_ms, "ok"], "the first request after the edge")

    def test_200_edges(self):
        self.resp = self.start([policy("day", "day", None)])
        found = edges("day", UTC, datetime.date(2026, 1, 1), 201)
        self.walk("day", found[:101])
        self.walk("day", found[100:], before_ms=1, after_ms=2)

    def test_days_of_23_and_25_hours(self):
        zones = {
            "berlin": "Europe/Berlin",
            "york": "America/New_York",
            "lord-howe": "Australia/Lord_Howe",
            "cairo": "Africa/Cairo",
            "kathmandu": "Asia/Kathmandu",
            "azores": "Atlantic/Azores",
        }
        self.resp = self.start([policy(name, "day", zone) for name, zone in zones.items()])
        for name, zone in zones.items():
            lengths = set()
            for begin in (datetime.date(2026, 3, 1), datetime.date(2026, 9, 25)):
                found = edges("day", zoneinfo.ZoneInfo(zone), begin, 70)
                lengths |= {(b - a) // 1_000_000 for a, b in zip(found, found[1:])}
                changes = [i for i, (a, b) in enumerate(zip(found, found[1:])) if b - a != 86_400_000_000]
                for i in changes or [3]:
                    with self.subTest(zone=zone, day=i):
                        self.walk(name, found[max(0, i - 1) : i + 3])
            if name in ("berlin", "york", "cairo", "azores"):
                self.assertEqual(lengths, {23 * 3600, 86400, 25 * 3600})
            if name == "lord-howe":
                self.assertEqual(lengths, {84600, 86400, 88200})

    def test_weeks_and_months(self):
        berlin = zoneinfo.ZoneInfo("Europe/Berlin")
        self.resp = self.start(
            [
                policy("week", "week", "Europe/Berlin"),
                policy("month", "month", "Europe/Berlin"),
                policy("utc", "month", "UTC"),
            ]
        )
        self.walk("week", edges("week", berlin, datetime.date(2026, 1, 5), 54))
        self.walk("month", edges("month", berlin, datetime.date(2027, 1, 1), 26))
        self.walk("utc", edges("month", UTC, datetime.date(2030, 1, 1), 13))

    def test_the_reset_does_not_creep(self):
        self.resp = self.start([policy("day", "day", "Europe/Berlin", 1000)])
        begin, end = edges("day", zoneinfo.ZoneInfo("Europe/Berlin"), datetime.date(2026, 3, 29), 2)
        self.assertEqual(end - begin, 23 * 3600 * 1_000_000)
        for step in range(200):
            at = begin + step * (end - begin) // 200 // 1000 * 1000
            self.clock.freeze(at)
            reply = self.resp.call("KOVA.TAKE" if step % 2 else "KOVA.PEEK", "day", "k")
            self.assertEqual(at + reply[4] * 1000, end, f"step {step}")
        self.clock.freeze(end - 1)
        self.assertEqual(self.resp.call("KOVA.PEEK", "day", "k")[4], 1, "rounded up")

    def test_a_clock_that_goes_back_does_not_open_the_old_window_again(self):
        self.resp = self.start([policy("day", "day", None)], begin_us=us(2026, 5, 2) + 1000)
        for _ in range(3):
            self.assertEqual(self.resp.call("KOVA.TAKE", "day", "k")[0], 1)
        self.clock.freeze(us(2026, 5, 2) - 1000)
        self.assertEqual(self.resp.call("KOVA.TAKE", "day", "k")[0], 0)
        self.clock.freeze(us(2026, 5, 2) + 5000)
        self.assertEqual(self.resp.call("KOVA.TAKE", "day", "k")[0], 0)

    def test_an_agent_that_has_slept_for_years(self):
        """The agent's idea of now is far off: Redis's clock counts (for the ten years that an agent knows ahead)."""
        self.resp = self.start([policy("day", "day", "Europe/Berlin"), policy("month", "month", None)])
        for year in (2027, 2030, 2028, 2035):
            self.clock.freeze(us(year, 6, 15, 10))
            self.assertEqual(self.resp.call("KOVA.TAKE", "day", f"k{year}"), [1, 2, 3, 0, 12 * 3600_000, "ok"])
            self.assertEqual(self.resp.call("KOVA.TAKE", "month", f"k{year}")[:2], [1, 2])


class RealTime(harness.Case):
    def test_a_wrong_zone_is_said(self):
        config = {"policies": [policy("day", "day", "Europe/Atlantis")]}
        result = self.run_agent("--check-config", config=config)
        self.assertEqual(result.returncode, 1)
        self.assertIn("Europe/Atlantis", result.stderr + result.stdout)

    def test_it_counts_now(self):
        agent = shapes.start_agents(self, "embedded", [policy("day", "day", "Pacific/Auckland", 50)])[0]
        with agent.resp() as resp:
            admitted = [resp.call("KOVA.TAKE", "day", "k") for _ in range(60)]
        self.assertGreaterEqual(sum(reply[0] for reply in admitted), 50)
        self.assertLessEqual(sum(reply[0] for reply in admitted), 100, "an edge may have passed")
        self.assertTrue(all(0 < reply[4] <= 25 * 3600_000 for reply in admitted))


if __name__ == "__main__":
    harness.main()

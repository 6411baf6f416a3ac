"""bench/compare, but for the benchmark itself: what it takes part with, what it counts, what it writes."""
import io
import os
import subprocess
import sys
import threading

import harness

sys.path.insert(0, os.path.join(harness.SOURCE, "bench", "compared"))
import caller  # noqa: E402  (its directory is known only now)
import peers  # noqa: E402
import report  # noqa: E402

COMPARE = os.path.join(harness.SOURCE, "bench", "compare")
PEERS = os.path.join(harness.SOURCE, "bench", "peers")


def run(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=harness.PATIENCE)


class Compare(harness.Case):
    def test_help(self):
        for program in (COMPARE, PEERS):
            done = run(program, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("usage:", done.stdout)

    def test_unknown_names_are_refused(self):
        for words, known in (((COMPARE, "--parts", "speed,luck"), "memory"), ((COMPARE, "--only", "nobody"), "throttlecrab"),
                             ((PEERS, self.directory, "nobody"), "throttlecrab")):
            done = run(*words)
            self.assertEqual(done.returncode, 2, done)
            self.assertRegex(done.stderr, f"^error: no (part|peer) '(luck|nobody)': one of .*{known}")

    def test_missing_peers_are_named(self):
        done = run(COMPARE, "--list", "--peers", self.directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("takes part: Kova\n", done.stderr)
        for name in (*peers.SERVICES, *peers.LIBRARIES):
            if name != "Kova":
                self.assertIn(f"left out: {name}: bench/peers has not built it here", done.stderr)

    def test_callers_count_verdicts(self):
        """Over both protocols: never more than the limit; and a node that is away has others asked, while its own calls fail."""
        service = peers.kova(self, self.directory, 2, 50, 3600)
        self.assertEqual(service.fronts["http"].bytes_of(0).count(b"hot"), 1)
        counts = []
        for front in ("resp", "http"):
            _, verdicts = caller.run(service.fronts[front], service.fronts[front].ports, 0.5, 400, connections=8, alive=service.alive)
            self.assertEqual({v.what for v in verdicts} - {caller.ADMITTED, caller.REFUSED}, set())
            self.assertEqual({v.node for v in verdicts}, {0, 1})
            counts.append(sum(v.what == caller.ADMITTED for v in verdicts))
        self.assertEqual(counts, [50, 0])
        killed = threading.Event()

        def kill():
            service.nodes[0].kill()
            killed.set()

        front = service.fronts["http"]
        _, verdicts = caller.run(front, front.ports, 1.0, 400, connections=8, alive=service.alive, events=[(0.3, kill)])
        self.assertTrue(killed.is_set())
        self.assertEqual(sum(v.what == caller.FAILED for v in verdicts if v.node == 1), 0)
        self.assertEqual(verdicts[-1].node, 1)

    def test_report(self):
        speed = {name: {"cpu_us": cpu} for name, cpu in (("GET", 1.0), ("Kova", 3.0), ("other", 2.0))}
        self.assertEqual(report.rank(speed, "Kova"), (2, 2))
        machine = {"cores": 2, "cpu": "c", "memory_gb": 1, "system": "s", "kernel": "k", "redis": "7", "load_before": 0, "peers": {"other": "1"}}
        figures = {"nodes": 3, "asked": 200, "failed": 180, "admitted": 150, "bound": 100.0, "beyond": 0.5, "longest_ms": 12.0}
        out = io.StringIO()
        report.write(out, {"machine": machine, "left_out": {"gone": "why"}, "speed": {"RESP": speed}, "memory": {"Kova": 100.4},
                           "exact": {"at once": {"other": figures}}, "faults": {"killed": {"other": figures, "Kova": None}}},
                     lambda file, title, rows: file.write(f"## {title} {len(rows)}\n"))
        text = out.getvalue()
        for part in ("Left out: gone: why.", "## RESP 3", "Kova is number 2 of 2", "| Kova | 100 |", "| other | 3 | 200 | 180 (90 %) | 150 | 100 | 50 % |",
                     "| other | 3 | 200 | 180 (90 %) | 12 | 150 | 100 | 50 % |", "| Kova | has no store |"):
            self.assertIn(part, text)


if __name__ == "__main__":
    harness.main()

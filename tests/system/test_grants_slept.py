"""Two coordinators, one of which sleeps at each point of a transaction with grants until it has been replaced."""
# Mostly waits.
import signal

import grants
import harness
import phases


class Slept(grants.Phase):
    def slept(self, name):
        self.hit(name, signal.SIGSTOP)
        self.first.send_signal(signal.SIGCONT)
        self.first.wait_partitions(2)
        self.has("us", 800)
        self.assertRegex(self.first.log(), "session_failed|partitions_lost")
        self.audit(margin=900000)


for _name in phases.NAMES if not harness.SANITIZED else phases.NAMES[::3]:
    setattr(Slept, f"test_{_name.replace(' ', '_')}", lambda self, name=_name: self.slept(name))


if __name__ == "__main__":
    harness.main()

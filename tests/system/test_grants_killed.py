"""Two coordinators, one of which is killed at each point of a transaction with grants."""
# Mostly waits.
import signal

import grants
import harness
import phases


class Killed(grants.Phase):
    def killed(self, name):
        self.hit(name, signal.SIGKILL)
        self.has("us", 800)
        self.audit(margin=900000)


for _name in phases.NAMES if not harness.SANITIZED else phases.NAMES[::3]:
    setattr(Killed, f"test_{_name.replace(' ', '_')}", lambda self, name=_name: self.killed(name))


if __name__ == "__main__":
    harness.main()

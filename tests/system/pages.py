"""The fenced blocks of the documentation, and a shell that runs those of one page."""
import glob
import os
import re
import subprocess
import textwrap

import harness

PAGES = [os.path.join(harness.SOURCE, "README.md"),
         *sorted(glob.glob(os.path.join(harness.SOURCE, "docs", "**", "*.md"), recursive=True))]
# Pages whose blocks have a test of their own, which says what it does with them.
ELSEWHERE = {"docs/runbook.md": "system/dashboards", "docs/consumers.md": "system/consumers"}
# Not looked at: what is printed, and what is another program's.
SHOWN = {"", "yaml"}
RUN = {"sh", "console"}
MARK = re.compile(r"<!-- not run: .+ -->")
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", flags=re.S | re.M)

# Runs the blocks that stand behind it. A command's failure ends it, unless the line says `# exit status N`.
PROLOGUE = r"""
failed() {
	local line; line=$(sed -n "${2}p" "$0")
	if [[ $line == *"# exit status $1"* ]]; then echo "$2" >>"$0.failed"; return; fi
	echo "line $2 ended with $1: $line" >&2
	exit 1
}
set -o pipefail
trap 'failed $? $LINENO' ERR
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def name(page):
    return os.path.relpath(page, harness.SOURCE)


class Block:
    def __init__(self, page, match, text):
        self.place = f"{name(page)}:{text.count(chr(10), 0, match.start()) + 1}"
        self.language = match[2]
        self.text = textwrap.dedent(match[3])
        before = text[:match.start()].rstrip().rsplit("\n", 1)[-1].strip()
        self.marked = bool(MARK.fullmatch(before))

    def commands(self):
        """[(command, what it prints or None: anything)]; a command may have several lines."""
        if self.language == "console" or self.text.startswith("$ "):
            parts = re.split(r"^\$ ", self.text, flags=re.M)[1:]
            pairs = [part.partition("\n")[::2] for part in parts]
            return [(command, out if self.language == "console" else None) for command, out in pairs]
        return [(self.text.rstrip("\n"), None)]


def blocks(page):
    text = read(page)
    return [Block(page, match, text) for match in FENCE.finditer(text)]


def as_pattern(printed):
    return ".*?".join(re.escape(part) for part in printed.rstrip("\n").split("…"))


class Shell:
    """Where a page is read: a home, links to what the source has, default ports that nobody else uses."""

    def __init__(self, directory):
        self.directory = directory
        self.home = os.path.join(directory, "reader")
        os.mkdir(self.home)
        for entry in os.listdir(harness.SOURCE):
            if not entry.startswith((".", "build")):
                os.symlink(os.path.join(harness.SOURCE, entry), os.path.join(self.home, entry))
        os.symlink(harness.BUILD, os.path.join(self.home, "build"))

    def run(self, page, begin):
        """Runs the page's blocks after the text `begin`: (exit status, what each printed, both outputs as one, lines that failed as said)."""
        script = os.path.join(self.directory, "page.sh")
        steps = [step for block in page for step in block.commands()]
        with open(script, "w", encoding="utf-8") as file:
            file.write(PROLOGUE + begin)
            for number, (command, _) in enumerate(steps):
                file.write(f"\necho '=== {number}'\n{command}\n")
            file.write("\necho '=== end'\n")
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        result = subprocess.run(
            ["unshare", *as_root, "--net", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c",
             'ip link set lo up && exec bash "$0"', script],
            cwd=self.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            timeout=6 * harness.PATIENCE,
            env={"HOME": self.home, "LC_ALL": "C.UTF-8", "PATH": harness.BUILD + ":" + os.environ["PATH"],
                 **{key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")}})
        printed = re.split(r"^=== (?:\d+|end)\n", result.stdout, flags=re.M)[1:]
        failures = len(read(script + ".failed").split()) if os.path.exists(script + ".failed") else 0
        return result.returncode, list(zip(steps, printed)), result.stdout, failures


def can_run():
    """Why a page can't be run here; None: it can."""
    probe = subprocess.run(["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "--pid", "--mount-proc",
                            "--fork", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else f"no network namespace of its own: {probe.stderr.strip()}"

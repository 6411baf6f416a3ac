#!/usr/bin/env python3
"""Checks the tree: C files under 800 lines, functions under 120 (and hardly any over 70), lines that fit, links in *.md that lead somewhere.

usage: check_tree.py [--functions]   with --functions: prints the distribution and the longest functions
"""
import os
import re
import subprocess
import sys

FILE_LINES = 800
FUNCTION_LINES = 120
LONG_FUNCTION_LINES = 70
LONG_FUNCTIONS_SHARE = 0.02


def tracked(*patterns):
    listing = subprocess.run(["git", "ls-files", "-z", "--", *patterns], check=True, capture_output=True, text=True)
    return [name for name in listing.stdout.split("\0") if name and os.path.exists(name)]


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def functions(text):
    """(name, lines between the braces) of each function; relies on the opening brace in column 0 (see .clang-format)."""
    lines = text.splitlines()
    start = None
    name = "?"
    for number, line in enumerate(lines):
        match = re.match(r"^[A-Za-z_].*?([A-Za-z_0-9]+)\(", line)
        if match:
            name = match.group(1)
        if line == "{" and number > 0 and not lines[number - 1].startswith(("struct", "enum", "union", "static const")):
            start = number
        elif line == "}" and start is not None:
            yield name, number - start - 1
            start = None


def check_sources(problems):
    lengths = []
    for name in tracked("lib/*.c", "lib/*.h", "edge-agent/*.[ch]", "coordinator/*.[ch]", "kovactl/*.[ch]"):
        text = read(name)
        count = text.count("\n")
        if count > FILE_LINES:
            problems.append(f"{name}: {count} lines, at most {FILE_LINES}")
        for function, length in functions(text):
            lengths.append((length, name, function))
            if length > FUNCTION_LINES:
                problems.append(f"{name}: {function}() has {length} lines, at most {FUNCTION_LINES}")
    long_ones = [item for item in lengths if item[0] > LONG_FUNCTION_LINES]
    if lengths and len(long_ones) > LONG_FUNCTIONS_SHARE * len(lengths):
        problems.append(f"{len(long_ones)} of {len(lengths)} functions have more than {LONG_FUNCTION_LINES} lines")
    return sorted(lengths)


def heading_anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def check_links(problems):
    for name in tracked("*.md"):
        text = re.sub(r"```.*?```", "", read(name), flags=re.S)
        text = re.sub(r"`[^`\n]*`", "", text)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            whole = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if not os.path.exists(whole):
                problems.append(f"{name}: the link to {target} leads nowhere")
            elif anchor and whole.endswith(".md"):
                headings = re.findall(r"^#+ (.*)$", read(whole), flags=re.M)
                if anchor not in map(heading_anchor, headings):
                    problems.append(f"{name}: {whole} has no heading #{anchor}")


def main():
    problems = []
    lengths = check_sources(problems)
    check_links(problems)
    if "--functions" in sys.argv[1:] and lengths:
        def at(part):
            return lengths[min(len(lengths) - 1, int(part * len(lengths)))][0]
        print(f"{len(lengths)} functions: half up to {at(0.5)} lines, nine in ten up to {at(0.9)}")
        for length, name, function in reversed(lengths[-10:]):
            print(f"{length:5}  {name}  {function}()")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()

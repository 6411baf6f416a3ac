#!/usr/bin/env python3
"""Brings together what the site is made of: every page of the repository, where it is, and each file that a page links to.

usage: stage.py SOURCE DIRECTORY
"""
import os
import re
import shutil
import subprocess
import sys


def linked(page, text):
    """The repository's files that the page links to; anchors and other sites are left out."""
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", prose):
        if not re.match(r"[a-z]+:", target):
            yield os.path.normpath(os.path.join(os.path.dirname(page), target))


def main():
    source, directory = sys.argv[1:]
    os.chdir(source)
    shutil.rmtree(directory, ignore_errors=True)
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md", "docs/site/*.css"],
                             check=True, capture_output=True, text=True)
    files = {name for name in listing.stdout.split("\0") if name and os.path.exists(name)}
    for page in [name for name in files if name.endswith(".md")]:
        with open(page, encoding="utf-8") as file:
            files.update(name for name in linked(page, file.read()) if os.path.isfile(name))
    for name in files:
        os.makedirs(os.path.join(directory, os.path.dirname(name)), exist_ok=True)
        shutil.copyfile(name, os.path.join(directory, name))


main()

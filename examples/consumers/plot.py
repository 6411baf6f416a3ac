#!/usr/bin/env python3
"""Draws what regions used of a policy, from rows of kova.rollup.v1: admitted beside the limit, refused, and each region's share.

  kcat -C -b BROKER -t kova.rollup.v1 -o -2000 -e -u | plot.py --policy api --output api.png

Reads one JSON object a line from FILE or the standard input. Needs Python 3.9 and matplotlib.
"""

import argparse
import collections
import datetime
import json
import re
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402

POINTS = 200  # so many at most: rows beside each other are added up
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
WINDOWS = {"day": 86400, "week": 7 * 86400, "month": 30 * 86400}
# Told apart by those who see red and green alike (Okabe and Ito).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#555555")
INK, QUIET, RULE, LIMIT = "#222222", "#767676", "#E6E6E6", "#B00020"


def seconds_of(per):
    """A duration as in the configuration (1s, 5m) or a calendar window, in seconds."""
    if per in WINDOWS:
        return WINDOWS[per]
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h|d)", per).groups()
    return int(number) * UNITS[unit]


def time_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def read_rows(file):
    """{policy: [row]}, each interval once: a record may come twice."""
    rows = collections.defaultdict(dict)
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            row["from"], row["to"] = time_of(row["from"]), time_of(row["to"])
            rows[row["policy"]][row["to"]] = row
        except (ValueError, KeyError, TypeError) as error:
            sys.exit(f"line {number} is no row of kova.rollup.v1: {error}")
    return {policy: [of[at] for at in sorted(of)] for policy, of in rows.items()}


class Series:
    """Rates a second of a policy's rows, in at most POINTS steps, by region."""

    def __init__(self, rows):
        self.regions = sorted({region for row in rows for region in row["regions"]})
        self.times, self.refused = [], []
        self.admitted = {region: [] for region in self.regions}
        self.shares = {region: [] for region in self.regions}
        every = -(-len(rows) // POINTS)
        for at in range(0, len(rows), every):
            self._step(rows[at : at + every])
        last = rows[-1]
        self.per = last.get("per")
        self.limit = last["limit"] / seconds_of(self.per) if "limit" in last and self.per else None
        self.shared = any(
            "share" in used and used["share"] < row["limit"] for row in rows for used in row["regions"].values()
        )

    def _step(self, rows):
        spent = max(sum((row["to"] - row["from"]).total_seconds() for row in rows), 0.001)
        self.times.append(rows[-1]["to"])
        self.refused.append(sum(row["refused"] for row in rows) / spent)
        for region in self.regions:
            used = [row["regions"].get(region, {}) for row in rows]
            self.admitted[region].append(sum(one.get("admitted", 0) for one in used) / spent)
            share = used[-1].get("share")
            self.shares[region].append(float("nan") if share is None else share / seconds_of(rows[-1]["per"]))


def dress(axes, title, unit):
    axes.set_title(title, loc="left", fontsize=10, color=INK, pad=8)
    axes.set_ylabel(unit, fontsize=8, color=QUIET)
    axes.tick_params(colors=QUIET, labelsize=8, length=0)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(RULE)


def draw(policy, series, path):
    panels = 3 if series.shared else 2
    figure, axes = plt.subplots(
        panels,
        1,
        sharex=True,
        figsize=(9, 2.6 * panels + 0.9),
        layout="constrained",
        gridspec_kw={"height_ratios": [2, 1, 1.4][:panels]},
    )
    colours = dict(zip(series.regions, COLOURS * (1 + len(series.regions) // len(COLOURS))))
    axes[0].stackplot(
        series.times,
        [series.admitted[region] for region in series.regions],
        colors=[colours[region] for region in series.regions],
        labels=series.regions,
        alpha=0.85,
        linewidth=0,
    )
    if series.limit is not None:
        axes[0].axhline(series.limit, color=LIMIT, linewidth=1.2, linestyle=(0, (5, 3)), label="limit")
    dress(axes[0], "Admitted, by region", "a second")
    axes[1].fill_between(series.times, series.refused, color=QUIET, alpha=0.45, linewidth=0)
    dress(axes[1], "Refused, all regions", "a second")
    if series.shared:
        for region in series.regions:
            axes[2].plot(series.times, series.shares[region], color=colours[region], linewidth=1.6)
        dress(axes[2], "What each region may use", "a second")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper right",
        ncols=min(len(labels), 6),
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        handlelength=1.4,
    )
    figure.suptitle(policy, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    located = matplotlib.dates.AutoDateLocator(minticks=3, maxticks=8)
    axes[-1].xaxis.set_major_locator(located)
    axes[-1].xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(located))
    axes[-1].xaxis.get_offset_text().set(size=8, color=QUIET)
    axes[-1].set_xlabel("UTC", fontsize=8, color=QUIET, loc="left")
    figure.savefig(path, dpi=130, facecolor="white")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "file",
        nargs="?",
        type=argparse.FileType(encoding="utf-8"),
        default=sys.stdin,
        help="rows, one a line (default: the standard input)",
    )
    parser.add_argument("--policy", help="which one (default: the one that admitted most)")
    parser.add_argument("--output", default="rollup.png", help="a .png, .svg or .pdf (default: %(default)s)")
    given = parser.parse_args()
    rows = read_rows(given.file)
    if not rows:
        sys.exit("there are no rows: is a coordinator running, and has anything been asked for?")
    policy = given.policy or max(rows, key=lambda name: sum(row["admitted"] for row in rows[name]))
    if policy not in rows:
        sys.exit(f"no row of {policy}; there are: {', '.join(sorted(rows))}")
    draw(policy, Series(rows[policy]), given.output)
    print(
        f"{given.output}: {policy}, {len(rows[policy])} rows; others: {', '.join(sorted(rows.keys() - {policy})) or 'none'}"
    )


main()

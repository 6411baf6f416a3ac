"""The tables of bench/compare."""


def _limits(file, title, rows, late=False):
    file.write(f"## {title}\n\n| | nodes | asked | verdicts that failed |{' longest verdict ms |' if late else ''} admitted | the limit allows "
               f"| beyond it |\n|---|---|---|---|---|---|---|{'---|' if late else ''}\n")
    for name, f in rows.items():
        if f is None:
            file.write(f"| {name} | has no store |{' |' * (6 if late else 5)}\n")
            continue
        longest = f" {f['longest_ms']:.0f} |" if late else ""
        file.write(f"| {name} | {f['nodes']} | {f['asked']} | {share(f['failed'], f['asked'])} |{longest} {f['admitted']} | {f['bound']:.0f} | "
                   f"{100 * f['beyond']:.0f} % |\n")
    file.write("\n")


def share(count, of):
    return f"{count} ({100 * count / max(1, of):.0f} %)" if count else "0"


def rank(rows, name):
    """(place, of how many) by CPU a decision; the floor, GET, takes no part."""
    order = sorted((row for row in rows if row != "GET"), key=lambda row: rows[row]["cpu_us"])
    return order.index(name) + 1, len(order)


def write(file, results, table):
    """`table(file, title, rows)`: of speed."""
    machine = results["machine"]
    file.write(f"Measured by `bench/compare` on {machine['cores']} cores of {machine['cpu']}, {machine['memory_gb']} GB, {machine['system']}, "
               f"kernel {machine['kernel']}, Redis {machine['redis']}; load of the machine before it began {machine['load_before']}.\n\n")
    if machine["peers"]:
        file.write("Peers: " + "; ".join(f"{name} {version}" for name, version in machine["peers"].items()) + ".\n\n")
    for name, why in results["left_out"].items():
        file.write(f"Left out: {name}: {why}.\n\n")
    for title, rows in results.get("speed", {}).items():
        table(file, title, rows)
        if "Kova" in rows:
            file.write("By CPU a decision Kova is number %d of %d.\n\n" % rank(rows, "Kova"))
    if "memory" in results:
        file.write("## Memory\n\n| | bytes a key, its name of 16 bytes included |\n|---|---|\n")
        for name, size in results["memory"].items():
            file.write(f"| {name} | {size:.0f} |\n")
        file.write("\n")
    for title, rows in results.get("exact", {}).items():
        _limits(file, f"Over-admission: {title}", rows)
    for title, rows in results.get("faults", {}).items():
        _limits(file, f"Faults: {title}", rows, late=True)

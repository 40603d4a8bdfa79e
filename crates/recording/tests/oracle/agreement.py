"""Finds the differences of two summaries, except in order and in values with several right answers."""

from collections import Counter

RESIDUALS = {"hw", "hv_or_hw", "unexplained"}


def normalise(summary):
    """Sorts the lists that have no order of their own."""
    for cpu in summary["cpus"]:
        cpu["sources"].sort(key=str)
    for gap in summary["worst"]:
        gap["parts"].sort(key=str)
    return summary


def merge_exits(summary):
    """Adds `kvm` and the residuals up, because exits may be split either way."""
    for cpu in summary["cpus"]:
        shares = cpu["shares_ns"]
        together = RESIDUALS | {"kvm"}
        shares["kvm_and_residual"] = sum(shares.pop(share) or 0 for share in together)
        cpu["sources"] = merged(cpu["sources"], together)
        del cpu["bare_gaps"], cpu["guest_columns"]["virt_ns"]
    for gap in summary["worst"]:
        for part in gap["parts"]:
            part["total_ns"] = part.pop("ns")
            part["name"] = part.pop("source")
        gap["parts"] = merged(gap["parts"], together={*RESIDUALS, "kvm"})


def merged(entries, together):
    """Adds up the entries of the shares in `together`, by name."""
    totals = Counter()
    for entry in entries:
        if entry["share"] in together:
            totals[entry["name"]] += entry["total_ns"]
    others = [entry for entry in entries if entry["share"] not in together]
    return sorted([*others, *([name, ns] for name, ns in totals.items())], key=str)


def differences(expected, found, path=""):
    """Yields every path at which `found` lacks or contradicts a value of `expected`."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            if key not in found:
                yield f"{path}.{key}: missing"
            else:
                yield from differences(value, found[key], f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{path}: recomputed {len(expected)} entries, summary has {len(found)}"
        for index, pair in enumerate(zip(expected, found)):
            yield from differences(*pair, f"{path}[{index}]")
    elif expected != found:
        yield f"{path}: recomputed {expected}, summary says {found}"

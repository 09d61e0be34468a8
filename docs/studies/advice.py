"""Compare the advice of ``attribution-benchmarks choose`` with constant answers, on tasks of known truth held out.

    python docs/studies/advice.py

prints the table of docs/own_models.md. A rule takes a method for a task without having seen any task of its benchmark,
that is, of its data and architecture. Its share is how far the method is from the mean of all methods (0, a random
choice) to the best (1). Intervals are over tasks, those of a benchmark as one cluster. Removal is the highest agreement
of a map with what the network does when positions are removed.

Cost: seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from attribution.errors import print_text
from attribution_benchmarks.choosing.known import KINDS, Task, ranked, tasks
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.stats.statistics import mean_interval


def elsewhere(task: Task) -> str:
    """Return the method of the highest mean over the other benchmarks, of those that half of them have."""
    others = [one for one in tasks() if one.benchmark != task.benchmark]
    benchmarks = {one.benchmark for one in others}

    def mean(name: str) -> float:
        found = [[one.shares[name] for one in others if one.benchmark == each and name in one.shares]
                 for each in benchmarks]  # fmt: skip
        known = [sum(each) / len(each) for each in found if each]
        return sum(known) / len(known) if 2 * len(known) >= len(benchmarks) else -math.inf

    return max(task.shares, key=mean)


RULES: dict[str, Callable[[Task], str]] = {
    "the advice: the best on other benchmarks of this kind": lambda task: ranked(task.kind, task.benchmark)[0],
    "always Integrated Gradients": lambda task: "integrated_gradients",
    "always LRP-α1β0": lambda task: "lrp_alpha1beta0",
    "the best on other benchmarks": elsewhere,
    "removal": lambda task: max(task.agreement, key=lambda name: task.agreement[name], default=""),
}


def table() -> str:
    """Return the share of each rule in percent: over all tasks, those with removal, and the tasks of each kind."""
    measured = [task for task in tasks() if task.agreement]
    groups = {"all": tasks(), "with removal": measured}
    groups |= {kind: [task for task in tasks() if task.kind == kind] for kind in KINDS}
    body = []
    for title, rule in RULES.items():
        cells = []
        for name, group in groups.items():
            shares = [task.shares.get(rule(task), math.nan) for task in group]
            value, low, high, _ = mean_interval([[one] for one in shares], clusters=[task.benchmark for task in group])
            ends = f" ({100 * low:.0f} to {100 * high:.0f})" if name in ("all", "with removal") else ""
            cells.append("–" if any(map(math.isnan, shares)) else f"{100 * value:.0f}{ends}")
        body.append([title, *cells])
    body.append(["random", *["0"] * len(groups)])
    return markdown_table(["rule", *(f"{name}, {len(group)} tasks" for name, group in groups.items())], body)


if __name__ == "__main__":
    print_text(table())

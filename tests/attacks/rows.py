# SPDX-License-Identifier: MIT
"""docs/security.md has a row for each attack, and what a row names exists."""
import os
import re

from peer import TOP, ok

WANT = [f"N{i}" for i in range(1, 10)] + [f"R{i}" for i in range(1, 35)] + [f"L{i}" for i in range(1, 13)]
rows = {}
for line in open(TOP + "/docs/security.md", encoding="utf-8"):
    f = [x.strip() for x in line.strip().strip("|").split(" | ")]
    if re.fullmatch(r"[NRL]\d+", f[0]):
        rows[f[0]] = [x for x in f if re.match(r"[\w./]+\.(c|t|py|md):", x)]
ok(list(rows) == WANT, f"docs/security.md: the {len(WANT)} attacks, each once and in order", set(WANT) ^ set(rows))
bad, n = [], 0
for row, cells in rows.items():
    refs = [x for c in cells for x in re.findall(r"(?:^|; )([\w./]+):([^;]*)", c)]
    if not refs:
        bad.append(f"{row}: nothing shows it")
    for path, what in refs:
        n += 1
        full = f"{TOP}/{path}" if path.startswith("docs/") else f"{TOP}/tests/{path}"
        if not os.path.exists(full):
            bad.append(f"{row}: {path} does not exist")
        elif what.strip() not in open(full, encoding="utf-8").read():
            bad.append(f"{row}: {path} has no \"{what.strip()}\"")
ok(not bad, f"docs/security.md: the {n} tests it names exist", "\n".join(bad))

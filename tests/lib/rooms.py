# SPDX-License-Identifier: MIT
"""The table of tests/rooms.list, and what HACKING.md and tests/README.md show of the files: what each says of itself at its top."""
import glob
import os
import re
import textwrap

ROOTS = ("proto", "daemon", "iwctl", "preload")
WIDTH = 120


class Table:
    def __init__(self, path):
        self.path, self.uses, self.what, self.shown, self.calls, self.exceptions = path, {}, {}, {}, {}, set()
        for line in open(path):
            kind, _, rest = line.partition(":")
            field = [f.strip() for f in rest.split("|")]
            if kind == "room":
                self.what[field[0]], self.uses[field[0]] = field[1], field[2].split()
            elif kind == "shown":
                self.shown[field[0]] = {f"{field[0]}/{h}" for h in field[1].split()}
            elif kind == "libc":
                self.calls[field[0]] = set(field[1].split())
            elif kind == "exception":
                self.exceptions.add(tuple(field[0].split()))
            elif line.strip() and not line.startswith("#"):
                raise SystemExit(f"Bail out! {path}: {line}")

    def room(self, name):
        """The room of a file; None when it is in none."""
        return max((r for r in self.uses if name == r or name.startswith(r + "/")), key=len, default=None)

    def may(self, name, used):
        """May the file (or room) use that file?"""
        room, other = self.room(name), self.room(used)
        return room is not None and (room == other or other in self.uses[room] or os.path.splitext(used)[0] in self.uses[room])

    def private(self, header):
        """Is it for its own room only?"""
        shown = self.shown.get(self.room(header))
        return header.endswith("_priv.h") if shown is None else header not in shown

    def may_call(self, name, symbol):
        """May it call what is not ours? What compilers and sanitizers put in does not count, and __memcpy_chk is memcpy."""
        calls = self.calls.get(self.room(name))
        plain = re.sub(r"^__(.*)_chk$", r"\1", symbol)
        return calls is None or plain in calls or symbol[0] == "_"


def sources():
    """{name: text} of what is in rooms."""
    return {name: open(name).read() for root in ROOTS for name in glob.glob(root + "/**/*.[ch]", recursive=True)}


def sentence(name):
    """The first sentence of a file about itself."""
    text = open(name).read()
    text = re.sub(r"\A(#!.*\n)?(// SPDX.*|/\* SPDX.*\*/|# SPDX.*)\n", "", text)
    if text.startswith("/*"):
        said = re.sub(r"(?m)^ ?\*+ ?", "", text[2:text.index("*/")])
    elif text.startswith('"""'):
        said = text[3:text.index('"""', 3)]
    else:
        said = re.sub(r"(?m)^# ?", "", re.match(r"(#.*\n)*", text).group())
    said = " ".join(said.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z0-9`])", said)[0]


TESTS = (
    ("Scenarios", "run by name, root where hosts are made (lib/rig.sh)", ("tests/*.t",)),
    ("Interoperation", "`make check-interop`: in a guest that it builds", ("tests/interop/*.t",)),
    ("The first hour", "`make check-boot`: on machines with a systemd of their own, which it builds and boots", ("tests/boot/*.t",)),
    ("proto", "cmocka programs, no I/O", ("tests/unit/*_test.c",)),
    ("The daemon and its RNIC", "cmocka programs, linked with the daemon's objects", ("tests/daemon/*_test.c",)),
    ("Sockets: {}", "run by sock.t: on plain TCP, and under the library in each mode with the same transcript", ("tests/sock/*/*.c",)),
    ("The soak", "one program, run by opsoak.t: opsoak.h says what its parts share", ("tests/opsoak/*.c",)),
    ("Programs of other people", "run by apps.t", ("tests/apps/*.sh",)),
    ("Attacks", "run by attacks.t", ("tests/attacks/*.py",)),
    ("Fuzzers", "`make fuzz`", ("tests/fuzz/*_fuzz.c",)),
)


def row(name, short):
    return f"| {short} | {sentence(name).replace('|', chr(92) + '|')} |"


def readme(without):
    """tests/README.md."""
    out = ["# What the tests cover", "",
           "Written by `tests/table` from the first sentence of each file; `tests/rooms.t` fails when it is not current.",
           "Which of them to run for which change: [HACKING.md](../HACKING.md)."]
    for title, how, patterns in TESTS:
        names = sorted(n for p in patterns for n in glob.glob(p) if n != without)
        for folder in sorted({os.path.dirname(n) for n in names}):
            out += ["", "## " + title.format(os.path.basename(folder)), "", f"{folder}/, {how}.", "", "| test | covers |", "| --- | --- |"]
            out += [row(n, os.path.basename(n)) for n in names if os.path.dirname(n) == folder]
    return "\n".join(out) + "\n"


def rooms_shown(table):
    short = {r: os.path.basename(r) if r.startswith("daemon/") else r for r in table.uses}
    out = ["| room | what lives there | may use, besides itself |", "| --- | --- | --- |"]
    for room, uses in table.uses.items():
        out.append(f"| {room} | {table.what[room]} | {', '.join(short.get(u, u) for u in uses) or 'nobody'} |")
    return out


def map_shown(table, without):
    names = [n for n in sources() if n != without]
    out = []
    for room in table.uses:
        out += ["", f"**{room}**", ""] if room not in names else [""]
        for name in sorted(n for n in names if table.room(n) == room):
            out += textwrap.wrap(f"- `{name[len(room) + 1:] or name}`: {sentence(name)}", WIDTH, subsequent_indent="  ",
                                 break_long_words=False, break_on_hyphens=False)
    return out[1:]


def hacking(without):
    """HACKING.md: what stands there, and what is made of the sources in its two marked places."""
    table = Table("tests/rooms.list")
    text = open("HACKING.md").read()
    for mark, lines in (("rooms", rooms_shown(table)), ("map", map_shown(table, without))):
        text = re.sub(rf"(<!-- {mark}:.*-->\n).*?(<!-- end of {mark} -->)", lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text, flags=re.S)
    return text


def written(without=None):
    """{file: text} of what tests/table writes; as if there were no file of the name WITHOUT."""
    return {"HACKING.md": hacking(without), "tests/README.md": readme(without)}


def stale(without=None):
    return [f"{name} is not current: run tests/table" for name, text in written(without).items()
            if not os.path.exists(name) or open(name).read() != text]

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rooms of tests/rooms.list: nobody includes or links what it may not use, private headers stay in their folder, proto does no I/O,
what HACKING.md and tests/README.md say of files is current, and comments name files that are there. Each rule is first broken on purpose, and has to be noticed."""
import glob
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
os.chdir(TOP)
BUILD = os.environ.get("IW_BUILD", "build/plain")
sys.path.insert(0, "tests/lib")
import rooms  # noqa: E402

count = failed = 0


def ok(name, wrong):
    """wrong: the lines that say what is; none: it passed."""
    global count, failed
    count += 1
    failed += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {count} - {name}")
    for line in wrong:
        print("# " + line)


def symbols(path):
    """What an object defines for others, and what it wants."""
    defined, wanted = set(), set()
    for line in subprocess.run(["nm", "-P", path], capture_output=True, text=True, check=True).stdout.splitlines():
        name, kind = line.split()[:2]
        if kind in "Uwv":
            wanted.add(name)
        elif kind.isupper() and name.isidentifier():    # sanitizers have others
            defined.add(name)
    return defined, wanted


def objects(kind, texts):
    """{source: (defined, wanted)} of the objects of a kind, obj or pic; what has no source any more is not looked at."""
    found = {}
    for path in glob.glob(f"{BUILD}/{kind}/**/*.o", recursive=True):
        source = path[len(f"{BUILD}/{kind}/"):-1] + "c"
        if source in texts:
            found[source] = symbols(path)
    return found


def includes(table, texts):
    """[(FILE USED, text)] of includes against the table."""
    wrong = []
    for name, text in sorted(texts.items()):
        for header in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            near = os.path.normpath(os.path.join(os.path.dirname(name), header))
            used = near if near in texts else header
            if used not in texts:
                wrong.append((name, header, "is no file"))
            elif not table.may(name, used):
                wrong.append((name, used, f"{table.room(name)} may not use {table.room(used)}"))
            elif table.room(name) != table.room(used) and table.private(used):
                wrong.append((name, used, f"is for {table.room(used)} only"))
    return wrong


def links(table, objs, pics):
    """[(FILE, SYMBOL, text)] of linked symbols against the table. The library links its own copies (pics), of what it may use and of what that uses."""
    wrong = []
    home = {s: name for name, (defined, _) in objs.items() for s in defined if s != "main"}
    own = {s: name for name, (defined, _) in pics.items() for s in defined}
    needed = todo = {name for name in pics if table.may("preload", name)}
    while todo:
        todo = {own[s] for name in todo for s in pics[name][1] if table.room(name) != "preload" and s in own} - needed
        needed = needed | todo
    for name in pics:
        if name not in needed:
            wrong.append((name, "libiwsock.so", "is linked into the library"))
    for name, (_, wanted) in sorted(objs.items()) + sorted(pics.items()):
        where = own if name in pics and table.room(name) == "preload" else home
        for s in sorted(wanted):
            there = where.get(s) or home.get(s)
            if there and not table.may(name, there):
                wrong.append((name, s, f"{table.room(name)} may not use {table.room(there)} ({there})"))
            elif there is None and not table.may_call(name, s):
                wrong.append((name, s, f"{table.room(name)} may not call it"))
    return wrong


def files():
    """All files, by every way to name one: its path, and the end of it."""
    found = set()
    for path, folders, names in os.walk("."):
        folders[:] = [f for f in folders if f not in (".git", "build")]
        for parts in (os.path.join(path, name).split("/")[1:] for name in names):
            found |= {"/".join(parts[i:]) for i in range(len(parts))}
    return found


NAME = re.compile(r"(?<![\w</.*-])((?:[\w-]+/)*[\w-]{2,}\.(?:c|h|md|pml|py|t|list|conf))(?![\w.(>])")


def unknown(texts, known):
    """[(FILE, NAME)] of files that comments name and that are not there. Members called c and h, and <headers> of others, are no files.
    All of a document counts; in it NAME and THEME stand for a name."""
    return [(file, n) for file, text in sorted(texts.items())
            for said in ([text] if file.endswith(".md") else re.findall(r"/\*.*?\*/|//[^\n]*", text, re.S))
            for n in NAME.findall(said) if n not in known and not ("NAME" in n or "THEME" in n)]


def judge(table, texts, objs, pics):
    """What is wrong, without the exceptions; and the exceptions that nobody needs."""
    wrong = includes(table, texts) + links(table, objs, pics)
    needed = {(name, used) for name, used, _ in wrong}
    lines = [f"{name}: {used}: {why}" for name, used, why in wrong if (name, used) not in table.exceptions]
    return lines, [f"exception: {name} {used}: not needed any more" for name, used in sorted(table.exceptions - needed)]


def compiled(text, where):
    """(defined, wanted) of a source."""
    with open(os.path.join(where, "x.c"), "w") as f:
        f.write(text)
    subprocess.run([os.environ.get("CC", "cc").split()[-1], "-w", "-c", "-o", where + "/x.o", where + "/x.c"], check=True)
    return symbols(where + "/x.o")


def self_test(table, texts, objs, pics):
    """Each way to be wrong, one at a time; a judgement that stays the same is a mistake of this test."""
    before = judge(table, texts, objs, pics)[0]

    def noticed(what, name, used, texts=texts, objs=objs, pics=pics):
        new = [w for w in judge(table, texts, objs, pics)[0] if w not in before]
        ok(f"noticed: {what}", [] if [w for w in new if w.startswith(f"{name}: {used}: ")] else [f"{name}: {used} was not, but: {new}"])

    def first(pattern):
        return sorted(t for t in texts if re.match(pattern + "$", t))[0]

    def symbol_of(pattern):
        return next(s for name, (defined, _) in sorted(objs.items()) if re.match(pattern, name) for s in sorted(defined))

    for name, used in ((first("daemon/base/.*c"), first("daemon/cm/.*h")), ("proto/mpa.c", "daemon/base/log.h"), ("iwctl/main.c", first("daemon/stream/.*h")),
                       (first("preload/.*h"), "daemon/base/list.h"), (first("preload/.*c"), "proto/qp.h"), ("daemon/main.c", "daemon/cm/offer.h"),
                       ("daemon/main.c", first("daemon/rnic/.*_priv.h"))):
        noticed(f"{name} includes {used}", name, used, texts={**texts, name: f'#include "{used}"\n' + texts[name]})
    with tempfile.TemporaryDirectory() as tmp:
        for name, used in (("daemon/base/x.c", symbol_of("daemon/bus/")), ("daemon/session/x.c", symbol_of("daemon/cm/")), ("iwctl/x.c", symbol_of("daemon/stream/")),
                           ("proto/x.c", "malloc"), ("proto/x.c", symbol_of("daemon/base/"))):
            fake = compiled(f"void {used}(void);\nvoid x(void) {{ {used}(); }}\n", tmp)
            noticed(f"{name} links {used}", name, used, objs={**objs, name: fake})
        used = symbol_of("daemon/base/")
        fake = compiled(f"void {used}(void);\nvoid x(void) {{ {used}(); }}\n", tmp)
        noticed(f"preload/x.c links {used}", "preload/x.c", used, pics={**pics, "preload/x.c": fake})
        noticed("proto/session.c in the library", "proto/session.c", "libiwsock.so", pics={**pics, "proto/session.c": (set(), set())})
    spare = rooms.Table(table.path)
    spare.exceptions = table.exceptions | {("proto/mpa.c", "daemon/base/log.h")}
    ok("noticed: an exception that nobody needs", [] if judge(spare, texts, objs, pics)[1] else ["it was not"])
    lost = {"proto/mpa.c": "/* as in daemon/lost.c */", "proto/wire.h": "// see lost.md, and daemon/main.c", "HACKING.md": "lost.c and daemon/NAME.c"}
    want = [("HACKING.md", "lost.c"), ("proto/mpa.c", "daemon/lost.c"), ("proto/wire.h", "lost.md")]
    ok("noticed: comments that name what is not there", [] if unknown(lost, files()) == want else ["they were not"])
    for name in ("proto/mpa.c", "tests/close.t"):
        ok(f"noticed: a sentence about {name} that is not current", [] if rooms.stale(without=name) else ["it was not"])


table = rooms.Table("tests/rooms.list")
texts = rooms.sources()
objs, pics = objects("obj", texts), objects("pic", texts)
missing = [name for name in texts if name.endswith(".c") and name not in (pics if name.startswith("preload/") else objs)]
if missing:
    print("Bail out! not built: " + " ".join(missing))
    sys.exit(1)
ok("every source is in a room", [name for name in texts if not table.room(name)])
wrong, spare = judge(table, texts, objs, pics)
ok("nobody uses what is above", wrong)
ok("every exception is needed", spare)
said = {**texts, "HACKING.md": open("HACKING.md").read()}
ok("comments and HACKING.md name files that are there", [f"{file}: {name}" for file, name in unknown(said, files())])
ok("HACKING.md and tests/README.md are current (tests/table writes them)", rooms.stale())
self_test(table, texts, objs, pics)
print(f"1..{count}")
sys.exit(failed != 0)

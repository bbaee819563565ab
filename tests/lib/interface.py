#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""interface.py FILE: org.iwsock.Daemon1 as its introspection tells it, a line for each method, property and signal."""
import sys
import xml.etree.ElementTree as ET

CHANGES = "org.freedesktop.DBus.Property.EmitsChangedSignal"


def args(member, direction=None):
    return ", ".join(f"{a.get('type')} {a.get('name')}" for a in member.findall("arg") if direction in (None, a.get("direction")))


for member in ET.parse(sys.argv[1]).getroot().find("interface[@name='org.iwsock.Daemon1']"):
    name, kind = member.get("name"), member.tag
    if kind == "method":
        result = args(member, "out")
        print(f"method {name}({args(member, 'in')})" + (f" -> {result}" if result else ""))
    elif kind == "property":
        changes = {a.get("name"): a.get("value") for a in member.findall("annotation")}.get(CHANGES, "true")
        print(f"property {name} {member.get('type')} {member.get('access')} {changes}")
    elif kind == "signal":
        print(f"signal {name}({args(member)})")

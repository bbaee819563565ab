#!/bin/bash
# SPDX-License-Identifier: MIT
# The model of sleeping and waking (tests/wake.pml): no lost wake-up, no lost or doubled octet, in every interleaving.
. "$(dirname "$0")/lib/tap.sh"
here=$(cd "$(dirname "$0")" && pwd)
for p in spin cc; do
	command -v $p >/dev/null || skip_all "needs $p"
done
dir=$(mktemp -d "${TMPDIR:-/tmp}/w.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# verify FILE: 0 when the verifier finds nothing
verify() {
	spin -a "$1" >spin.log 2>&1 && cc -O2 -w -DSAFETY -DNOREDUCE -o pan pan.c >cc.log 2>&1 || return 2
	timeout 300 ./pan -m100000 >pan.log 2>&1 || return 3
	grep -q 'errors: 0' pan.log && ! grep -q 'max search depth too small' pan.log
}
cp "$here/wake.pml" model.pml
verify model.pml
ok $? "the model holds" || sed 's/^/# /' ./*.log | head -n 40
diag "$(grep -E 'states, stored|errors:' pan.log 2>/dev/null)"
# The verifier must be able to find the faults that the model is about.
sed 's/k == 0 -> armed = 1 ::/k == 0 -> armed = 0 ::/' model.pml >no-rearm.pml
cmp -s model.pml no-rearm.pml && fail "the first fault could not be planted"
verify no-rearm.pml
is $? 1 "forgetting to arm again is found"
sed 's/:: head > tail -> skip  .*/:: false -> skip/' model.pml >no-look.pml
cmp -s model.pml no-look.pml && fail "the second fault could not be planted"
verify no-look.pml
is $? 1 "sleeping without a last look is found"
done_testing

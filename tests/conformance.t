#!/bin/bash
# SPDX-License-Identifier: MIT
# Every requirement has a test, a document or a reason; what is named exists; docs/conformance.md is current; gaps do not grow.
. "$(dirname "$0")/lib/tap.sh"
cd "$(dirname "$0")/.." || exit 1
GAPS=0

out=$(python3 tests/conformance/generate --check)
ok $? "each id is shown by something that exists, and docs/conformance.md is current" || diag "$out"
gaps=$(sed -n 's/^gaps //p' <<<"$out")
diag "$gaps gaps"
is "$(grep -vc '^#' tests/conformance/requirements.tsv)" 310 "no requirement was lost"
at_most "$gaps" $GAPS "gaps: not more than before"
done_testing

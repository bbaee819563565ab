// SPDX-License-Identifier: MIT
/* The library's data as 'iwctl why' reads it from outside. */
#include <assert.h>
#include <stddef.h>

#include "proto/view.h"
#include "candidate.h"
#include "fdtab.h"
#include "init.h"

#define AT(field) ((uint32_t)offsetof(struct iw_candidate, field))

static_assert((int)IW_FD_CANDIDATE == (int)IW_VIEW_CANDIDATE && (int)IW_YOUNG == IW_VIEW_YOUNG && (int)IW_PROPOSED == IW_VIEW_PROPOSED &&
	      (int)IW_PLAIN == IW_VIEW_PLAIN, "what proto/view.h says");

/* Not const: what is only read may lie in the file alone. */
__attribute__((used)) static struct iw_view view = {
	.magic = IW_VIEW_MAGIC,
	.version = IW_VIEW_VERSION,
	.fds = IW_FD_MAX,
	.fdtab = iw_fdtab,
	.candidates = &iw_candidates,
	.stride = sizeof(struct iw_candidate),
	.octets = AT(octets),
	.calls = AT(calls),
	.at_octets = AT(at_octets),
	.at_calls = AT(at_calls),
	.state = AT(state),
	.why = AT(why),
	.on = &iw_on,
};

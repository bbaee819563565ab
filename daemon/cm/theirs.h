/* SPDX-License-Identifier: MIT */
/* What other daemons ask and say: session_ops. */
#ifndef IWARPD_THEIRS_H
#define IWARPD_THEIRS_H


void theirs_start(void);

#endif

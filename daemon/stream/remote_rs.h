/* SPDX-License-Identifier: MIT */
/* What the ring stream asks of its owner. */
#ifndef IWARPD_STREAM_REMOTE_RS_H
#define IWARPD_STREAM_REMOTE_RS_H

#include "proto/rs.h"

extern const struct iw_rs_ops remote_rs_ops;	/* ctx: struct stream */
void remote_unexpose(void *ctx, uint32_t stag);	/* also what the peer has invalidated */

#endif

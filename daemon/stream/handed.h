/* SPDX-License-Identifier: MIT */
/* Ends of a joined pair that change their carrier: relayed from then on, or direct again (stream.h). */
#ifndef IWARPD_STREAM_HANDED_H
#define IWARPD_STREAM_HANDED_H

#include <stdbool.h>
#include <stdint.h>

/* A carrier that is offered was taken, as the page says, though nobody has said so yet: it is found by that cookie from now on. false: there is none. */
bool handed_taken(uint64_t cookie);

#endif

/* SPDX-License-Identifier: MIT */
/* A queue pair mapped into its program, and back. */
#ifndef IWARPD_MAPPING_H
#define IWARPD_MAPPING_H

#include "proposal.h"

int cm_map(struct client *c, const struct iw_ctl_id *m);
int cm_unmap(struct client *c, const struct iw_ctl_id *m);
void cm_bell(struct client *c, const struct iw_ctl_id *m);

bool mapping_offered(const struct proposal *p);	/* the program has not said what became of it */
void mapping_taken(struct proposal *p);		/* SWITCHED */
void mapping_not_taken(struct proposal *p);	/* ABANDON */
void mapping_forget(struct proposal *p);	/* p is about to go */

#endif

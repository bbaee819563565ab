/* SPDX-License-Identifier: MIT */
/* The soft endpoint: MPA startup. */
#ifndef IWARPD_SOFT_MPA_H
#define IWARPD_SOFT_MPA_H

#include "endpoint.h"

struct soft;
struct iw_mpa_frame;

int soft_initiate(struct endpoint *ep, const void *pd, size_t pd_len);
int soft_respond(struct endpoint *ep);
int soft_accept(struct endpoint *ep, const void *pd, size_t pd_len);
int soft_reject(struct endpoint *ep, const void *pd, size_t pd_len);
int soft_request_out(struct endpoint *ep, const void *pd, size_t pd_len, uint8_t out[ENDPOINT_FRAME_MAX]);
int soft_frame(const struct endpoint *ep, const uint8_t *in, size_t len, bool answer, struct endpoint_frame *f);
int soft_go_on(struct endpoint *ep, const uint8_t *frame, size_t len);
struct endpoint_said soft_said(const struct iw_mpa_frame *f);
void soft_startup_rx(struct soft *c);	/* octets came before Full Operation */
void soft_startup_sent(struct soft *c);	/* frame_off moved */

#endif

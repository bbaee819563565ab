/* SPDX-License-Identifier: MIT */
/* Streams over RDMAP whose application is gone: what it left is sent, but nobody waits for ever. */
#ifndef STREAM_ORPHAN_H
#define STREAM_ORPHAN_H

struct stream;

/*
 * The application has closed it, and the connection has not ended. When the peer's reader has all, and nothing comes for as long as a TCP socket would be in
 * FIN_WAIT_2 (TCP_LINGER2, tcp_fin_timeout), it ends. So it does after four times that with octets left that the peer does not take, as TCP's own
 * orphans do, or with a part of an FPDU. For a reader who is late it waits: TCP would have left all with the other kernel.
 */
void orphan_begin(struct stream *st);

#endif

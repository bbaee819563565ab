/* SPDX-License-Identifier: MIT */
/* RDMAP-5.4-06: after the peer's Terminate an endpoint sends the FPDU to its end that TCP has a part of, and nothing behind it. */
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "conn_peer.h"
#include "daemon/rnic/soft_priv.h"

#define SOCKBUF	(128 << 10)

/* Twenty Sends of 1 MiB to a peer that does not read: one buffer of FPDUs is with the kernel, which waits for room, one behind it. */
static void stall(bool markers)
{
	struct iw_mpa_frame q = { .rev = 1, .crc = 1, .markers = markers };
	struct iw_wr wr = { .op = IW_WR_SEND, .nsge = 1, .sge = { { .len = 1 << 20 } } };
	static uint8_t out[IW_MPA_FRAME_MAX];
	int size = SOCKBUF;

	assert_int_equal(setsockopt(tcp[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	respond();
	assert_int_equal(setsockopt(soft_fd(z.c), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	say(out, (size_t)iw_mpa_encode(&q, out));
	hear(20);
	say_vec("fpdu.write.zero");
	run_until(is_true, &z.established);
	run_rounds(3);
	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(endpoint_post_send(z.c, &wr), 0);
	run_rounds(50);
	assert_true(soft_of(z.c)->s->tx[0].used && soft_of(z.c)->s->tx[1].used && soft_of(z.c)->send_op.busy);
	heard.n = 0;
}

/* Octets that TCP has been given and the peer has not read. */
static size_t with_tcp(void)
{
	int in, out;

	assert_int_equal(ioctl(tcp[0], FIONREAD, &in), 0);
	assert_int_equal(ioctl(soft_fd(z.c), SIOCOUTQ, &out), 0);
	return (size_t)in + (size_t)out;
}

/* The rest up to FIN. All that was heard are whole FPDUs. */
static void heard_whole(bool markers)
{
	size_t all = SIZE_MAX, p = 0;

	run_until(hear_until, &all);
	assert_true(heard.eof && !heard.err);
	while (p < heard.n) {
		size_t len = markers && p % IW_MARKER_IV == 0 ? IW_MARKER_LEN : 0;
		uint16_t ulpdu = iw_get16(heard.p + p + len);

		p += markers ? iw_mpa_fpdu_len_markers(p, ulpdu) : iw_mpa_fpdu_len(ulpdu);
	}
	assert_int_equal(p, heard.n);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, EPROTO);
	assert_int_equal(z.ok + z.flushed, 24);		/* the four receives too */
}

/* The peer reads only after its Terminate. */
static void waiting_for_room(void **state)
{
	for (int markers = 0; markers < 2; markers++) {
		size_t given;

		stall(markers);
		given = with_tcp();
		say_vec("term.llp.crc");
		run_until(is_true, &z.closed);
		heard_whole(markers);
		print_message("# TCP had %zu octets, %zu came\n", given, heard.n);
		assert_true(heard.n <= given + IW_FPDU_MAX_MARKERS);
		again();
	}
}

/* It reads all that TCP has, then says Terminate: the end of the first buffer and the Terminate are told to the endpoint together. */
static void at_the_end_of_a_buffer(void **state)
{
	for (int markers = 0; markers < 2; markers++) {
		struct pollfd p = { .fd = tcp[0], .events = POLLIN };
		size_t second, none = 0;

		stall(markers);
		second = rnic_qp_state(soft_qp(z.c))->tx_pos - soft_of(z.c)->s->tx[1].len;
		for (int i = 0; with_tcp(); i++) {
			assert_true(i < 2000);
			poll(&p, 1, 10);	/* what is left may be an acknowledgement only */
			hear_until(&none);
		}
		say_vec("term.llp.crc");
		run_until(is_true, &z.closed);
		heard_whole(markers);
		print_message("# the second buffer began at %zu, %zu came\n", second, heard.n);
		assert_true(heard.n <= second);
		again();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { T(waiting_for_room), T(at_the_end_of_a_buffer) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}

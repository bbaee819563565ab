/* SPDX-License-Identifier: MIT */
/* Sockets that wait for an answer are the daemon's open files: so many of one program, and of one user what leaves as many for others. */
#include "cm_util.h"
#include "util.h"

#include "daemon/cm/ctl.h"
#include "daemon/net/peers.h"

#define MAX_REQS 64u		/* of daemon/cm/ctl.c */
#define FILES	 600u		/* 256 are the daemon's own (daemon/rnic/prm.c) */
#define SHARE	 ((FILES - 256) / 2)
#define LIBS	 3u
#define EACH	 60u		/* claims of one of them */

static uint16_t port;
static int listener, c[LIBS * EACH], s[LIBS * EACH];
static struct prm_user *user;

static bool readable(void *arg)
{
	struct pollfd p = { .fd = *(int *)arg, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* What comes next; what was passed with it is closed. */
static size_t next(struct lib *l, void *buf)
{
	ssize_t n;
	int fds[2];

	run_until(readable, &l->s);
	n = recv_fds(l->s, buf, IW_CTL_MAX, fds);
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return n > 0 ? (size_t)n : 0;
}

/* A program, and what the daemon here knows of it. */
static struct client *program(struct lib *l)
{
	_Alignas(8) uint8_t buf[IW_CTL_MAX];
	struct iw_ctl_hello m;

	*l = (struct lib){ .s = lib_connect() };
	iw_ctl_init(&m, IW_CTL_HELLO, 0);
	strcpy(m.program, "share");
	lib_tell(l, &m, -1);
	assert_int_equal(next(l, buf), sizeof(struct iw_ctl_hello_ack));
	assert_int_equal(((struct iw_ctl_hello_ack *)buf)->result, 0);
	return client_of(clients.prev);
}

static bool count_is(void *arg)
{
	return client_count() == *(unsigned int *)arg;
}

static void until_programs(unsigned int n)
{
	run_until(count_is, &n);
}

/* Claims of connections to the listener wait for a program that is about to connect there, for as long as it is. */
static struct lib connecting(void)
{
	struct iw_addr a = loopback(port);
	struct client *cl;
	struct lib l;

	cl = program(&l);
	cl->pid = 1;			/* another process than the one that claims */
	cl->proc->intent[iw_addr_hash(a.ip, a.port) % IW_INTENTS] = 1;
	return l;
}

static void claims(struct lib *l, unsigned int first, unsigned int n)
{
	while (n--)
		lib_conn_tell(l, IW_CTL_CLAIM, s[first++]);
}

static bool passed_are(void *arg)
{
	return user->passed == *(unsigned int *)arg;
}

static void until_passed(unsigned int n)
{
	run_until(passed_are, &n);
}

/* The next answer, whichever claim it is to. */
static enum iw_reason reason(struct lib *l)
{
	_Alignas(8) uint8_t buf[IW_CTL_MAX];
	const struct iw_ctl_stream *m = (const void *)buf;

	assert_int_equal(next(l, buf), sizeof(*m));
	assert_int_equal(m->h.type, IW_CTL_STREAM);
	assert_int_equal(m->result, 1);
	return m->reason;
}

static int setup(void **state)
{
	listener = tcp_listen(&port);
	for (unsigned int i = 0; i < LIBS * EACH; i++) {
		c[i] = tcp_connect(port);
		s[i] = accept(listener, NULL, NULL);
		if (s[i] < 0)
			return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	for (unsigned int i = 0; i < LIBS * EACH; i++) {
		close(c[i]);
		close(s[i]);
	}
	close(listener);
	until_programs(0);
	until_passed(0);
	return user->programs || stream_count() ? -1 : 0;
}

static void so_many_of_one_program(void **state)
{
	struct lib busy = connecting(), l, other;
	unsigned int before = open_fds() + 4;	/* two programs, both ends */
	_Alignas(8) uint8_t buf[IW_CTL_MAX];

	program(&l);
	program(&other);
	claims(&l, 0, MAX_REQS);
	until_passed(MAX_REQS);
	assert_int_equal(open_fds(), before + MAX_REQS);
	claims(&l, MAX_REQS, 1);		/* one too many: it is not answered, and all the others go with it */
	assert_int_equal(next(&l, buf), 0);
	assert_int_equal(client_count(), 2);
	claims(&other, 2 * MAX_REQS, 1);
	until_passed(MAX_REQS + 1);		/* those of the one that went are still held: the question is under way */
	close(busy.s);
	assert_int_equal(reason(&other), IW_REASON_TUPLE_UNKNOWN);
	until_passed(0);
	close(l.s);
	close(other.s);
}

/* What is answered makes room for the next one. */
static void one_after_another(void **state)
{
	struct lib l;

	program(&l);
	for (unsigned int i = 0; i < MAX_REQS + 2; i++) {
		claims(&l, i, 1);
		assert_int_equal(reason(&l), IW_REASON_TUPLE_UNKNOWN);
	}
	close(l.s);
}

/* A library of somebody else. */
static void foreign(struct lib *l)
{
	int was = open(".", O_RDONLY | O_CLOEXEC | O_DIRECTORY);

	assert_int_equal(chdir(d.dir) | chmod(".", 0711) | seteuid(65534), 0);
	strcpy(d.dir, ".");
	program(l);
	strcpy(d.dir, conf.rundir);
	assert_int_equal(seteuid(0) | fchdir(was), 0);
	close(was);
}

/* A listener, a stream of four files, and a claim. */
static void others_find_room(void)
{
	_Alignas(8) uint8_t buf[IW_CTL_MAX];
	struct iw_ctl_fdmsg m;
	struct lib l;
	int t;

	if (geteuid())
		return;
	foreign(&l);
	iw_ctl_init(&m, IW_CTL_LISTEN, 0);
	lib_tell(&l, &m, listener);
	assert_int_equal(next(&l, buf), sizeof(struct iw_ctl_ack));
	t = tcp_connect(port);
	lib_conn_tell(&l, IW_CTL_OFFER, t);
	assert_int_equal(next(&l, buf), sizeof(struct iw_ctl_stream));
	assert_int_equal(((struct iw_ctl_stream *)buf)->result, 0);
	assert_int_equal(prm_user_get(65534)->passed, 0);	/* counted with the stream */
	close(accept(listener, NULL, NULL));
	close(t);
	close(l.s);
	until_programs(LIBS + 1);
}

/* security.md L2 */
static void of_one_user_what_leaves_room(void **state)
{
	uint64_t before = prm_refused(PRM_STREAMS);
	const unsigned int most = SHARE - LIBS - 1;	/* each program is a file */
	struct lib busy = connecting(), l[LIBS];
	unsigned int refused = 0;

	for (unsigned int i = 0; i < LIBS; i++) {
		program(&l[i]);
		claims(&l[i], i * EACH, EACH);
	}
	until_passed(most);
	run_rounds(3);
	assert_int_equal(user->passed, most);
	lib_conn_tell(&busy, IW_CTL_OFFER, c[0]);
	assert_int_equal(reason(&busy), IW_REASON_QUOTA);
	assert_int_equal(user->passed, most);
	refused++;
	others_find_room();
	close(busy.s);
	for (unsigned int i = 0; i < LIBS * EACH; i++) {
		enum iw_reason r = reason(&l[i / EACH]);

		refused += r == IW_REASON_QUOTA;
		assert_true(r == IW_REASON_QUOTA || r == IW_REASON_TUPLE_UNKNOWN);
	}
	assert_int_equal(refused, LIBS * EACH - most + 1);
	assert_int_equal(prm_refused(PRM_STREAMS), before + refused);
	for (unsigned int i = 0; i < LIBS; i++)
		close(l[i].s);
}

/* That the program has gone does not end its requests: nor does it make room. */
static void of_programs_that_went(void **state)
{
	struct lib busy = connecting(), l;
	unsigned int n = 0;

	for (unsigned int i = 0; i < 2 * LIBS; i++) {
		program(&l);
		claims(&l, i % LIBS * EACH, EACH);
		close(l.s);
		until_programs(1);
		n = n + EACH < SHARE - 2 ? n + EACH : SHARE - 2;
		assert_int_equal(user->passed, n);
	}
	close(busy.s);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(so_many_of_one_program), T(one_after_another), T(of_one_user_what_leaves_room), T(of_programs_that_went),
		T(of_one_user_what_leaves_room),	/* once more: what went counts no more */
	};
	int ret;

	files_like_daemon();
	snprintf(d.dir, sizeof(d.dir), "%s/iwt-share.XXXXXX", tmp_dir());
	conf_default(&conf);
	conf.answer_timeout = 600000;		/* nothing is answered because it took long */
	log_init(0, 1);
	if (!mkdtemp(d.dir) || engine_init())
		return 1;
	snprintf(conf.rundir, sizeof(conf.rundir), "%s", d.dir);
	prm_files(FILES);
	user = prm_user_get(geteuid());
	if (peers_start() || ctl_start())
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	ctl_stop();
	peers_stop();
	rmdir(d.dir);
	return ret;
}
